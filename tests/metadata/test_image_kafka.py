"""The image of a metadata log beside the one that Kafka 4.3.1 builds of the same files."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from brokers import programs
from fixtures_loader import FIXTURES, ROOT
from forge_metadata import METADATA, segment_name
from metadata_history import History

from kdump.cli.main import main

pytestmark = pytest.mark.broker

KRAFT = [name for name in FIXTURES if (ROOT / "brokers" / name / METADATA).is_dir()]
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
    lines: Lines = json.loads(programs.run("4.3.1", "Image", str(end), str(last), *files))
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


@pytest.mark.parametrize("name", KRAFT)
def test_the_image_of_a_fixture_equals_kafkas(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    partition = ROOT / "brokers" / name / METADATA
    ours = kdumps(partition, capfd)
    assert len(ours["partition"]) > 20
    assert len(ours["config"]) > 50
    compare(ours, kafkas(partition, ours["header"][0]))


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("name", KRAFT)
def test_the_image_up_to_an_offset_equals_kafkas(
    name: str, part: float, capfd: pytest.CaptureFixture[str]
) -> None:
    partition = ROOT / "brokers" / name / METADATA
    end = kdumps(partition, capfd)["header"][0]["end_offset"]
    last = int(end * part)
    ours = kdumps(partition, capfd, "--at", str(last))
    assert ours["header"][0]["end_offset"] == last + 1
    compare(ours, kafkas(partition, ours["header"][0], last))


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if seed < 4 else pytest.mark.nightly) for seed in range(12)],
)
def test_the_image_of_a_random_history_equals_kafkas(
    seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Records of all types and versions, in and out of transactions, some inapplicable."""
    history = History(seed)
    partition = tmp_path / METADATA
    partition.mkdir()
    (tmp_path / segment_name()).write_bytes(history.log(150))
    second = history.offset
    (tmp_path / segment_name(second)).write_bytes(history.log(150))
    last = history.rng.choice([-1, second, history.offset - 20])
    uncounted = history.uncounted(history.offset - 1 if last < 0 else last)
    ours = kdumps(partition, capfd, *(() if last < 0 else ("--at", str(last))))
    assert len(ours["problem"]) > 10
    assert {"topic", "partition", "config", "quota", "broker"} <= set(ours)
    compare(ours, kafkas(partition, ours["header"][0], last), uncounted)
