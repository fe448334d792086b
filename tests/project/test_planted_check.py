"""A check is added by one module, its line in the list of modules, and one recipe.

Whatever shows findings shows it then: nothing else names checks or codes one by one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kdump
from support.damaged import FIRST, LAST, Recipe, batches
from support.maps import PACKAGE

MODULE = '''
"""Checks of planted topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.finding_code import Cure, FindingCode, Severity
from kdump.audit.findings import Finding, file_finding

TOPIC_PLANTED: Final = FindingCode(
    "topic-planted",
    Severity.ERROR,
    "Somebody has planted this topic.",
    "The broker waters it.",
    "Pull it out.",
    cure=Cure.REINDEX,
)


def check_planted(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    if facts is not None and facts.partition.name and facts.partition.name.topic == "planted":
        yield file_finding(TOPIC_PLANTED, facts.partition.path, "a wild topic", "a planted one")


CHECKS: Final = (check_planted,)
'''
RECIPE = Recipe("planted", ["topic-planted"], batches(FIRST), batches(LAST))

#: Runs commands in a process that imports the copy, and writes the manual.
RUNS = """
import contextlib, importlib.util, io, json, sys
from kdump.audit import judge
from kdump.cli.main import main

shown = {}
for title, argv in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as printed:
        main(argv)
        printed.flush()
    shown[title] = printed.buffer.getvalue().decode()
spec = importlib.util.spec_from_file_location("generate", sys.argv[2])
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
shown["manual"] = generate.guides()["kdump-findings"]
shown["mutations"] = [check.__name__ for check in judge.CHECKS]
print(json.dumps(shown))
"""


def planted(top: Path) -> Path:
    """A copy of the installed package in ``top`` that has the check."""
    package = top / "kdump"
    shutil.copytree(
        Path(kdump.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "audit" / "checks" / "planted.py").write_text(MODULE)
    listing = package / "audit" / "codes.py"
    text = listing.read_text()
    for line, after in (
        ("    planted,\n", "    node,\n"),
        ("    (planted, Family.PARTITIONS),\n", "    (file_names, Family.PARTITIONS),\n"),
    ):
        assert text.count(after) == 1
        text = text.replace(after, after + line)
    listing.write_text(text)
    return package


@pytest.mark.once
def test_a_planted_check_is_everywhere(tmp_path: Path) -> None:
    package = planted(tmp_path / "copy")
    directory = tmp_path / "data"
    partition = RECIPE.write(directory)
    runs = {
        "text": ["verify", str(directory)],
        "json": ["verify", "--format", "json", str(directory)],
        "list": ["explain", "--list"],
        "entry": ["explain", "topic-planted"],
    }
    done = subprocess.run(
        [sys.executable, "-c", RUNS, json.dumps(runs), PACKAGE.parent / "man" / "generate.py"],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert "expected a wild topic, found a planted one" in shown["text"]
    _, _, plan = shown["text"].partition("\nplan ")
    assert f"kdump reindex {partition}" in plan
    lines = [json.loads(line) for line in shown["json"].splitlines()]
    (found,) = [line for line in lines if line["type"] == "finding"]
    assert [found["code"]] == RECIPE.expected
    assert found["remedy"] == ["kdump", "reindex", str(partition)]
    assert "topic-planted                   error\n" in shown["list"]
    assert "The broker waters it." in shown["entry"]
    assert "### topic-planted\n\n**error**: Somebody has planted this topic.\n" in shown["manual"]
    assert "check_planted" in shown["mutations"]
