"""What lies below the log start offset: how it is known, what is left out, and what is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.run.spread import Workers
from kdump.audit.targets.target import assign, open_roots
from kdump.commands.export.command import _report
from kdump.commands.export.manifest import Manifest
from kdump.commands.export.starts import log_starts
from kdump.storage.liveness import BrokerState, Liveness
from support.exports import exported, lines_of, one_batch
from support.forge import checkpoint, flip, partition_metadata, segment, write_partition

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("unsearched")]

OTHER_ID = "BBBBBBBBQACBBBBBBBBBBQ"


def broker(
    top: Path, start: int | None = None, files: Mapping[str, bytes | None] | None = None
) -> Path:
    """A log directory with 12 records of ``orders-0`` in two segments; its partition."""
    top.mkdir(parents=True)
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    if start is not None:
        rows = checkpoint([("orders", 0, start)])
        (top / "log-start-offset-checkpoint").write_bytes(rows)
    segments = {0: [one_batch(0), one_batch(3)], 6: [one_batch(6), one_batch(9)]}
    return write_partition(top, "orders", 0, segments, files=files)


def starts_of(top: Path, state: BrokerState) -> list[int | None]:
    """The log start offsets of the partitions in a log directory, as if a broker used it or not."""
    (root,) = open_roots([top])
    targets = assign(replace(root, liveness=Liveness(state, "")))
    return log_starts([target.with_listing() for target in targets], Workers(1))


def offsets(to: Path, manifest: Manifest) -> list[int]:
    return [line["offset"] for line in lines_of(to, manifest)]


@pytest.mark.parametrize("start", [1, 3, 6, 8, 12])
@pytest.mark.parametrize("committed", [False, True])
def test_what_is_below_is_counted_and_comes_on_demand(
    start: int, committed: bool, tmp_path: Path
) -> None:
    path = broker(tmp_path / "data", start)
    manifest = exported([path], tmp_path / "out", read_committed=committed)
    assert offsets(tmp_path / "out", manifest) == list(range(start, 12))
    (entry,) = manifest.partitions
    assert (entry.log_start, entry.below_log_start) == (start, start)
    whole = exported([path], tmp_path / "whole", read_committed=committed, below_log_start=True)
    assert offsets(tmp_path / "whole", whole) == list(range(12))
    assert (whole.partitions[0].log_start, whole.partitions[0].below_log_start) == (None, 0)


def test_the_report_counts_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = exported([broker(tmp_path / "data", 7)], tmp_path / "out")
    assert _report(manifest, quiet=False) == 0
    assert (
        "orders-0: 7 records below the log start offset 7, which no broker serves: left out "
        "(--below-log-start exports them)\n"
    ) in capsys.readouterr().out


def test_a_copy_that_lags_does_not_bring_deleted_records_back(tmp_path: Path) -> None:
    paths = [broker(tmp_path / "1", 8), broker(tmp_path / "2", 2), broker(tmp_path / "3")]
    manifest = exported(paths, tmp_path / "out")
    assert sorted(offsets(tmp_path / "out", manifest)) == sorted([8, 9, 10, 11] * 3)
    assert [entry.below_log_start for entry in manifest.partitions] == [8, 8, 8]
    merged = exported(paths, tmp_path / "merged", dedupe_replicas=True)
    assert offsets(tmp_path / "merged", merged) == [8, 9, 10, 11]
    assert [entry.below_log_start for entry in merged.partitions] == [8]


def test_a_topic_of_another_id_has_a_log_start_of_its_own(tmp_path: Path) -> None:
    other = {"partition.metadata": partition_metadata(OTHER_ID)}
    paths = [broker(tmp_path / "1", 8), broker(tmp_path / "2", 2, other)]
    manifest = exported(paths, tmp_path / "out")
    assert [entry.below_log_start for entry in manifest.partitions] == [8, 2]
    unknown = broker(tmp_path / "3", None, {"partition.metadata": None})
    manifest = exported([*paths, unknown], tmp_path / "more")
    assert [entry.below_log_start for entry in manifest.partitions] == [8, 2, 8]


def test_a_running_broker_has_moved_its_first_leader_epoch(tmp_path: Path) -> None:
    epochs = {"leader-epoch-checkpoint": checkpoint([(0, 5)])}
    broker(tmp_path / "data", 2, epochs)
    assert starts_of(tmp_path / "data", BrokerState.STOPPED) == [2]
    assert starts_of(tmp_path / "data", BrokerState.LIVE) == [5]


def test_epochs_that_begin_late_in_an_old_log_are_no_deletion(tmp_path: Path) -> None:
    top = tmp_path / "data"
    top.mkdir()
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    segments = {0: [one_batch(0, epoch=-1), one_batch(3, epoch=4)]}
    write_partition(top, "orders", 0, segments)
    assert starts_of(top, BrokerState.LIVE) == [None]


def test_a_checkpoint_that_tells_nothing_is_reported(tmp_path: Path) -> None:
    path = broker(tmp_path / "data", 7)
    checkpoint_file = path.parent / "log-start-offset-checkpoint"
    checkpoint_file.write_bytes(b"0\nmany\n")
    manifest = exported([path], tmp_path / "out")
    (trouble,) = manifest.troubles
    assert (trouble.path, trouble.damaged) == (str(checkpoint_file), True)
    assert "the log start offsets are unknown" in trouble.reason
    assert manifest.records == 12
    assert exported([path], tmp_path / "whole", below_log_start=True).troubles == ()
    (log, _) = sorted(path.glob("*.log"))
    assert exported([log], tmp_path / "log").troubles == ()


def test_copies_differ_above_the_log_start_alone(tmp_path: Path) -> None:
    newer = [one_batch(0, epoch=4), one_batch(3, epoch=4)]
    paths = [broker(tmp_path / "1", 2), broker(tmp_path / "2", 2)]
    (paths[1] / f"{0:020d}.log").write_bytes(segment(newer))
    manifest = exported(paths, tmp_path / "out", dedupe_replicas=True)
    (entry,) = manifest.partitions
    assert [(each.first, each.last) for each in entry.conflicts] == [(0, 5)]
    for path in paths:
        rows = checkpoint([("orders", 0, 6)])
        (path.parent / "log-start-offset-checkpoint").write_bytes(rows)
    manifest = exported(paths, tmp_path / "above", dedupe_replicas=True)
    assert manifest.partitions[0].conflicts == ()


@pytest.mark.parametrize("start", [3, 5, 8])
def test_damage_below_is_none_of_the_export(start: int, tmp_path: Path) -> None:
    path = broker(tmp_path / "data", start)
    log = min(path.glob("*.log"))
    log.write_bytes(flip(log.read_bytes(), 70))
    manifest = exported([path], tmp_path / "out")
    assert manifest.troubles == ()
    assert offsets(tmp_path / "out", manifest) == list(range(start, 12))
    assert manifest.partitions[0].below_log_start == start - 3
    whole = exported([path], tmp_path / "whole", below_log_start=True)
    assert [trouble.reason for trouble in whole.troubles] == ["bad-checksum"]


def test_damage_across_the_log_start_is_reported(tmp_path: Path) -> None:
    path = broker(tmp_path / "data", 4)
    log = min(path.glob("*.log"))
    log.write_bytes(flip(log.read_bytes(), len(one_batch(0)) + 70))
    manifest = exported([path], tmp_path / "out")
    assert [trouble.reason for trouble in manifest.troubles] == ["bad-checksum"]
    assert offsets(tmp_path / "out", manifest) == [6, 7, 8, 9, 10, 11]


def test_zeros_are_no_trouble_unless_offsets_are_missing_there(tmp_path: Path) -> None:
    for name, whole, records in (("last", True, 12), ("first", True, 12), ("short", False, 9)):
        path = broker(tmp_path / name)
        log = (max if name == "last" else min)(path.glob("*.log"))
        data = log.read_bytes() if whole else one_batch(0)
        log.write_bytes(data + bytes(4096))
        manifest = exported([path], tmp_path / f"{name}.out")
        assert manifest.records == records
        assert [trouble.reason for trouble in manifest.troubles] == ["preallocated"] * (not whole)


def test_copies_of_a_fixture_of_which_one_lags(
    grown: Callable[[str], Path], tmp_path: Path
) -> None:
    """Broker 3 was away until its end lay before the log start of the others."""
    top = grown("4.3.1/replicas")
    paths = [top / str(node) / "outrun-0" for node in (1, 2, 3)]
    starts = []
    for path in paths:
        lines = (path.parent / "log-start-offset-checkpoint").read_text().splitlines()[2:]
        starts += [int(line.split()[2]) for line in lines if line.startswith("outrun 0 ")]
    manifest = exported(paths, tmp_path / "out")
    assert starts
    assert min(offsets(tmp_path / "out", manifest)) >= max(starts) > 0
