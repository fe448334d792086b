"""Partitions and segments that a copy of a broker's directory lacks, as readers of records ask."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.run.gone_partitions import gone_partitions
from kdump.audit.run.lost_segments import lost_segments
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection
from kdump.storage.liveness import BrokerState
from support.fixtures_loader import copy_fixture

SERVED = TopicSelection(served=True)
FIXTURES = ["4.3.1/clean", "4.3.1/killed", "3.9.1/clean", "3.9.1/killed", "2.8.2/clean"]
LZ4 = "codec-lz4-0"


def gone(*paths: Path, selection: TopicSelection = SERVED) -> list[str]:
    scope = list_scope(paths, None, selection)
    return [target.path.name for target in gone_partitions(scope.roots, scope.context, selection)]


def lost(path: Path) -> list[tuple[str, int, int]]:
    scope = list_scope([path], None, SERVED)
    return [
        (finding.code.name, first, last)
        for target in scope.targets
        for finding, first, last in lost_segments(target.with_listing(), scope.context)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def forget(data: Path, topic: str) -> None:
    """Remove the lines of a topic from all checkpoints."""
    for path in data.glob("*-checkpoint"):
        version, _, *lines = path.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(f"{topic} ")]
        path.write_text("\n".join([version, str(len(kept)), *kept]) + "\n")


@pytest.mark.parametrize("fixture", FIXTURES)
def test_no_broker_lacks_any(fixture: str, tmp_path: Path) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    assert (gone(data), lost(data)) == ([], [])


def remove(data: Path) -> None:
    shutil.rmtree(data / LZ4)


def remove_with_lines(data: Path) -> None:
    remove(data)
    forget(data, "codec-lz4")


def remove_with_metadata(data: Path) -> None:
    remove(data)
    shutil.rmtree(data / "__cluster_metadata-0")


def set_aside(data: Path) -> None:
    (data / LZ4).rename(data / f"{LZ4}.{32 * '0'}-stray")


def promoted(data: Path) -> None:
    (data / LZ4).rename(data / f"{LZ4}.{32 * '0'}-future")


def emptied(data: Path) -> None:
    """The future log becomes a stray one, and an empty current log is created."""
    promoted(data)
    (data / f"{LZ4}.{32 * '0'}-future" / "partition.metadata").unlink()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (remove, [LZ4]),
        (remove_with_lines, [LZ4]),
        (remove_with_metadata, [LZ4]),
        (set_aside, [LZ4]),
        (promoted, [LZ4]),
        (emptied, [LZ4]),
    ],
)
def test_a_partition_is_gone(
    damage: Callable[[Path], object], expected: list[str], data: Path, tmp_path: Path
) -> None:
    whole = copy_fixture("4.3.1/clean", tmp_path / "whole")
    damage(data)
    assert gone(data) == expected
    assert gone(data, selection=TopicSelection(("codec-gzip",), served=True)) == []
    assert gone(data / "codec-gzip-0") == []
    assert gone(data, whole) == []  # whose records are read


def test_all_partitions_are_gone(data: Path) -> None:
    names = [path.name for path in data.glob("*-[0-9]")]
    for name in names:
        shutil.rmtree(data / name)
    assert set(names) - set(gone(data)) <= {"__cluster_metadata-0"}


def test_a_renamed_directory_explains_a_line_without_a_metadata_log(data: Path) -> None:
    set_aside(data)
    shutil.rmtree(data / "__cluster_metadata-0")
    assert gone(data) == []


def test_some_partitions_of_a_node_are_no_broker_that_lacks_the_others(
    data: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.mkdir()
    for name in (LZ4, "codec-gzip-0"):
        shutil.copytree(data / name, part / name)
    for file in ("meta.properties", "recovery-point-offset-checkpoint"):
        shutil.copy(data / file, part)
    assert gone(part) == []


def test_what_a_running_broker_lacks_it_may_be_about_to_make(data: Path) -> None:
    remove(data)
    scope = list_scope([data], None, SERVED)
    (siblings,) = scope.context.siblings
    assert siblings[0].stopped
    live = replace(siblings[0].liveness, state=BrokerState.LIVE)
    context = replace(scope.context, siblings=((replace(siblings[0], liveness=live),),))
    assert gone_partitions(scope.roots, context, SERVED) == []


def test_segments_are_gone(data: Path) -> None:
    for file in (data / "codec-none-0").glob(f"{0:020}.*"):
        file.unlink()
    for file in (data / "codec-gzip-0").glob("*.log"):
        file.unlink()
    assert lost(data) == [("segments-gone", 0, 129), ("first-segment-missing", 0, 59)]


def test_between_others_where_the_configs_are_unknown(data: Path) -> None:
    """Where they are known, the gap between batches decides."""
    second = sorted((data / "idempotent-0").glob("*.log"))[1]
    second.unlink()
    assert lost(data) == []
    shutil.rmtree(data / "__cluster_metadata-0")
    ((code, first, _),) = lost(data)
    assert (code, first) == ("segment-missing", int(second.stem))
