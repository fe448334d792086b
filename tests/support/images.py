"""The image of a metadata log, of ``kdump metadata`` and of the newest Kafka, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from brokers import programs
from kdump.cli.main import main
from support.dump_tool import TOOL

Lines = dict[str, list[dict[str, Any]]]


def kdumps(partition: Path, capfd: pytest.CaptureFixture[str], *options: str) -> Lines:
    """The lines of ``kdump metadata --format json`` by type, without their type."""
    code = main(["metadata", "--format", "json", *options, str(partition)])
    lines: Lines = {}
    for line in capfd.readouterr().out.splitlines():
        fields = json.loads(line)
        lines.setdefault(fields.pop("type"), []).append(fields)
    assert code == (4 if "problem" in lines else 0)
    return lines


def kafkas(partition: Path, header: dict[str, Any], last: int = -1) -> Lines:
    """The same of Kafka, from the snapshot that a header names, and the log."""
    snapshot = header["snapshot"]
    end = -1 if snapshot is None else snapshot["end_offset"]
    files = [] if snapshot is None else [snapshot["path"]]
    files += map(str, sorted(partition.glob("*.log")))
    lines: Lines = json.loads(programs.run(TOOL, "Image", str(end), str(last), *files))
    return lines


def compare(ours: Lines, theirs: Lines, uncounted: Collection[int] = ()) -> None:
    """``uncounted`` are offsets at which Kafka fails, but whose records do not count."""
    [header] = ours.pop("header")
    assert header["command"] == "metadata"
    ours.pop("summary")
    # Kafka 4 has no migration from ZooKeeper.
    ours.pop("zk_migration", None)
    problems = {problem["offset"] for problem in ours.pop("problem", [])}
    faults = set(theirs.pop("faults"))
    assert problems <= faults
    assert faults - problems <= set(uncounted)
    assert set(ours) == set(theirs)
    for kind, lines in ours.items():
        assert ordered(lines) == ordered(theirs[kind]), kind


def ordered(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for line in lines:
        if line.get("name") == "ssl.keystore.password":
            line["value"] = "redacted"
    return sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))
