"""A column is added to a report by one line: text, JSON and, where it is asked for, CSV have it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kdump
from support.fixtures_loader import ROOT

#: The line before which a column is planted in a file, and the column.
LINES = {
    "commands/groups/report.py": (
        '        Column("LAG", "lag", lambda row: row.lag),\n',
        '        Column("PLANTED", "planted", lambda row: len(row.topic) * 1111, csv=True),\n',
    ),
    "commands/compare/report.py": (
        '        Column("NODE", None, lambda row: row.copy.node_id),\n',
        '        Column("PLANTED", "planted", lambda row: row.place + 7777),\n',
    ),
    "commands/metadata/entries.py": (
        '        Column(None, "topic_id", lambda row: row.topic.id),\n',
        '        Column("PLANTED", "planted", lambda row: row.number + 8888),\n',
    ),
}
#: Runs commands in a process that imports the copy.
RUNS = """
import contextlib, io, json, sys
from kdump.cli.main import main

shown = []
for argv in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as printed:
        main(argv)
        printed.flush()
    shown.append(printed.buffer.getvalue().decode())
print(json.dumps(shown))
"""


def planted(top: Path) -> Path:
    """A copy of the installed package in ``top`` that has the columns."""
    package = top / "kdump"
    shutil.copytree(
        Path(kdump.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for name, (before, line) in LINES.items():
        text = (package / name).read_text()
        assert text.count(before) == 1
        (package / name).write_text(text.replace(before, line + before))
    return package


@pytest.mark.once
def test_a_planted_column_is_in_each_form(tmp_path: Path) -> None:
    package = planted(tmp_path / "copy")
    brokers = ROOT / "brokers/4.3.1"
    clean, copies = (
        str(brokers / "clean"),
        [str(brokers / f"replicas/{name}/in-turn-0") for name in "12"],
    )
    commands = ["groups", clean], ["compare", *copies], ["metadata", clean]
    runs = [
        [*command, *options]
        for command in commands
        for options in ([], ["--wide"], ["--format", "json"])
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUNS, json.dumps([*runs, ["groups", clean, "--format", "csv"]])],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    shown = iter(json.loads(done.stdout))
    for kind, first in (("offset", 6666), ("copy", 7777), ("partition", 8888)):
        records, wide = next(shown), next(shown)
        assert f"PLANTED {first}" in records
        (head, row), *_ = (
            (line, below)
            for line, below in zip(wide.splitlines(), wide.splitlines()[1:], strict=False)
            if "PLANTED" in line
        )
        assert row[head.index("PLANTED") :].split()[0] == str(first)
        lines = [json.loads(line) for line in next(shown).splitlines()]
        assert next(line["planted"] for line in lines if line["type"] == kind) == first
    assert next(line.split(",")[4] for line in next(shown).splitlines()) == "6666"
