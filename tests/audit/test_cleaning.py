"""What of a log the cleaner would clean, beside the manager of a broker's cleaner."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.oracle import Cleaning, Oracle
from kdump.audit.facts.compaction import NEVER, CleanableLog, CompactionConfigs, Wait
from kdump.audit.facts.retention import RetentionConfigs
from kdump.audit.sizes import cleaning
from kdump.audit.sizes.cleaning import CleanerFacts, first_unstable
from kdump.audit.sizes.measure import SpaceTask, measure
from kdump.errors import SourceError
from kdump.storage.logdir import directory_name, read_partition
from support.forge import batch, marker, record, snapshot, write_partition
from support.long_samples import first_of

HOUR_MS: Final = 3_600_000
NOW_MS: Final = 1_800_000_000_000
#: The partitions of a log directory.
LOGS: Final = 8


class Planted:
    """A log of some segments, of any ages, with transactions of which some are left open."""

    def __init__(self, rng: random.Random, data: Path, number: int) -> None:
        self.segments: dict[int, list[bytes]] = {}
        offset = rng.choice([0, 0, 100])
        time_ms = NOW_MS - rng.randrange(1, 60) * HOUR_MS
        opened: dict[int, int] = {}
        for _ in range(rng.randrange(1, 8)):
            batches = self.segments.setdefault(offset, [])
            for _ in range(rng.randrange(1, 4)):
                time_ms += rng.randrange(3 * HOUR_MS)
                batches.append(self._batch(rng, offset, time_ms, opened))
                offset += rng.choice([1, 1, 5])
        self.end = max(offset, 1)
        self.path = write_partition(data, "t", number, self.segments)
        self.bases = list(self.segments)
        self.log_start = rng.choice([0, 0, rng.randrange(self.end)])
        whole = rng.random() < 0.7
        self.high_watermark = self.end if whole else rng.randrange(self.log_start, self.end + 1)
        self.cleaned = rng.choice([None, *self.bases, rng.randrange(self.end + 3)])
        self.config = {
            "cleanup.policy": rng.choice(["compact", "compact,delete"]),
            "min.cleanable.dirty.ratio": rng.choice(["0.0", "0.2", "0.5", "0.9"]),
            "min.compaction.lag.ms": str(rng.choice([0, 0, HOUR_MS, 12 * HOUR_MS])),
            "max.compaction.lag.ms": str(rng.choice([NEVER, NEVER, 20 * HOUR_MS, HOUR_MS * 50])),
        }

    def _batch(
        self, rng: random.Random, offset: int, time_ms: int, opened: dict[int, int]
    ) -> bytes:
        if opened and rng.random() < 0.6:
            producer, _ = opened.popitem()
            return marker(offset, producer, commit=rng.random() < 0.5, timestamp=time_ms)
        value = record(rng.randbytes(rng.randrange(2_000)), b"k")
        if rng.random() < 0.7:
            return batch(offset, [value], base_timestamp=time_ms)
        producer = 1000 + offset
        opened[producer] = offset
        return batch(
            offset,
            [value],
            base_timestamp=time_ms,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    @property
    def configs(self) -> CompactionConfigs:
        return CompactionConfigs(
            float(self.config["min.cleanable.dirty.ratio"]),
            int(self.config["min.compaction.lag.ms"]),
            int(self.config["max.compaction.lag.ms"]),
            0,
            cleaner=True,
        )

    def measured(self) -> CleanableLog | None:
        """What kdump makes of it."""
        task = SpaceTask(
            self.path,
            directory_name(self.path),
            RetentionConfigs(False, True, -1, -1),
            self.high_watermark,
            self.log_start,
            False,
            NOW_MS,
            NOW_MS,
            cleaner=CleanerFacts(self.configs, self.cleaned),
        )
        found = measure(task)
        assert found.errors == ()
        return found.cleanable


def plant(rng: random.Random, data: Path) -> dict[str, Planted]:
    """Logs in a log directory, with the checkpoint of its cleaner."""
    data.mkdir()
    logs = {f"t-{number}": Planted(rng, data, number) for number in range(LOGS)}
    lines = [
        f"t {name.removeprefix('t-')} {log.cleaned}"
        for name, log in logs.items()
        if log.cleaned is not None
    ]
    checkpoint = "\n".join(["0", str(len(lines)), *lines, ""])
    (data / "cleaner-offset-checkpoint").write_text(checkpoint)
    return logs


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("seed", first_of(range(400), 40, 12))
def test_dirty_bytes_and_turns_are_those_of_the_manager(
    seed: int, version: str, oracle: Callable[[str], Oracle], tmp_path: Path
) -> None:
    """A loaded log has its indexes and snapshots, so that nothing about it is unknown."""
    logs = plant(random.Random(seed), tmp_path / "data")
    facts: dict[str, dict[str, Any]] = {
        name: {
            "config": log.config,
            "log_start": log.log_start,
            "high_watermark": log.high_watermark,
        }
        for name, log in logs.items()
    }
    said = oracle(version).clean(tmp_path / "data", facts, NOW_MS)
    found = {name: log.measured() for name, log in logs.items()}
    for name, log in found.items():
        assert log is not None
        turn = said[name].turn
        assert (log.wait is Wait.READY) is (turn >= 0), (name, log, said[name])
        assert said[name] == Cleaning(
            log.first_dirty,
            log.before,
            log.clean_bytes,
            log.dirty_bytes,
            log.ratio if log.clean_bytes + log.dirty_bytes else said[name].ratio,
            log.forced,
            turn,
        )
    taken = sorted((each for each in said.values() if each.turn >= 0), key=lambda each: each.turn)
    ratios = [each.ratio for each in taken]
    assert ratios == sorted(ratios, reverse=True)


# --- without a broker


CONFIGS: Final = CompactionConfigs(0.5, 0, NEVER, 0, cleaner=True)
PRODUCER: Final = 7


def old(offset: int, *, hours: int = 100, size: int = 1_000) -> bytes:
    value = record(bytes(size), b"k")
    return batch(offset, [value], base_timestamp=NOW_MS - hours * HOUR_MS)


def opening(offset: int) -> bytes:
    return batch(
        offset,
        [record(bytes(1_000), b"k")],
        base_timestamp=NOW_MS - 100 * HOUR_MS,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def made(
    data: Path,
    *rows: bytes | list[bytes],
    opened: int | None = None,
    without: str | None = None,
) -> Path:
    """A partition of segments at offsets 0, 10, 20 and so on, with the producers at the last one.

    ``opened`` is the first offset of a transaction that is open there.
    """
    segments = {
        number * 10: row if isinstance(row, list) else [row] for number, row in enumerate(rows)
    }
    last = (len(rows) - 1) * 10
    entries = [] if opened is None else [(PRODUCER, 0, 0, opened, 0, NOW_MS, -1, opened)]
    files: dict[str, bytes | None] = {f"{last:020}.snapshot": snapshot(entries)}
    if without is not None:
        files[without] = None
    return write_partition(data, "t", 0, segments, files=files)


def seen(
    path: Path,
    configs: CompactionConfigs = CONFIGS,
    *,
    cleaned: int | None = None,
    high_watermark: int | None = 1_000,
    alone: bool = False,
    known: bool = True,
    moving: bool = False,
) -> CleanableLog | None:
    facts = CleanerFacts(configs, cleaned, known=known, moving=moving)
    retention = RetentionConfigs(False, True, -1, -1)
    name = directory_name(path)
    task = SpaceTask(path, name, retention, high_watermark, 0, alone, NOW_MS, NOW_MS, cleaner=facts)
    found = measure(task)
    assert found.errors == ()
    return found.cleanable


def wait(path: Path, *arguments: CompactionConfigs, **facts: Any) -> Wait | None:
    found = seen(path, *arguments, **facts)
    return None if found is None else found.wait


def test_a_dirty_log_is_taken_in_its_turn(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), old(10), old(20))
    found = seen(path, cleaned=10)
    assert found is not None
    size = (path / f"{0:020}.log").stat().st_size
    assert (found.wait, found.before) == (Wait.RATIO, 20)
    assert (found.clean_bytes, found.dirty_bytes, found.later_bytes) == (size, size, size)
    assert found.ratio == 0.5  # a broker wants more than the limit
    assert found.ready_ms is None
    found = seen(path)
    assert found is not None
    assert (found.wait, found.ratio) == (Wait.READY, 1.0)
    assert found.ready_ms == max(
        log.stat().st_mtime_ns // 1_000_000 for log in list(path.glob("*.log"))[:2]
    )


def test_what_keeps_the_cleaner_from_a_log(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), old(10, hours=5), old(20))
    off = CompactionConfigs(0.5, 0, NEVER, 0, cleaner=False)
    assert wait(path, off) is Wait.CLEANER_OFF
    assert wait(path, moving=True) is Wait.MOVE
    assert wait(path, known=False) is None
    assert wait(path, cleaned=20) is Wait.ACTIVE
    assert wait(path, high_watermark=5) is Wait.HIGH_WATERMARK
    assert wait(path, high_watermark=5, alone=True) is Wait.READY
    assert wait(path, high_watermark=None) is None
    assert wait(path, high_watermark=None, cleaned=20) is Wait.ACTIVE
    lag = CompactionConfigs(0.5, 10 * HOUR_MS, NEVER, 0, cleaner=True)
    assert wait(path, lag, cleaned=10) is Wait.RATIO
    assert wait(path, lag, cleaned=0) is Wait.READY
    all_young = CompactionConfigs(0.5, 1_000 * HOUR_MS, NEVER, 0, cleaner=True)
    found = seen(path, all_young)
    assert found is not None
    assert (found.wait, found.dirty_bytes) == (Wait.LAG, 0)


def test_an_empty_active_segment_leaves_nothing_dirty(tmp_path: Path) -> None:
    assert wait(made(tmp_path, old(0), []), cleaned=10) is Wait.CLEAN


def test_a_maximum_lag_forces_a_cleaning(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), old(10, hours=30), old(20, hours=1))
    forced = CompactionConfigs(1.0, 0, 20 * HOUR_MS, 0, cleaner=True)
    found = seen(path, forced, cleaned=10)
    assert found is not None
    assert (found.wait, found.forced) == (Wait.READY, True)
    assert found.ready_ms is not None
    assert found.ready_ms >= NOW_MS - 10 * HOUR_MS
    assert wait(path, CompactionConfigs(1.0, 0, 40 * HOUR_MS, 0, cleaner=True), cleaned=10) is (
        Wait.RATIO
    )
    (path / f"{10:020}.log").write_bytes(bytes(400))
    assert wait(path, forced, cleaned=10) is None  # the time of its first batch is unknown


def test_a_line_beyond_the_log_counts_as_none(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), old(10), old(20))
    found = seen(path, cleaned=500)
    assert found is not None
    assert (found.first_dirty, found.wait) == (0, Wait.READY)
    assert wait(path, cleaned=21) is Wait.ACTIVE
    (path / f"{20:020}.log").write_bytes(b"\xff" * 400)
    assert wait(path, cleaned=500) is None  # where the log ends is unknown


def test_a_time_that_no_index_has_is_unknown(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), old(10), old(20), without=f"{0:020}.timeindex")
    lag = CompactionConfigs(0.5, HOUR_MS, NEVER, 0, cleaner=True)
    assert wait(path) is Wait.READY
    assert wait(path, lag) is None


def test_an_open_transaction_holds_the_cleaner(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), opening(10), old(20), opened=10)
    found = seen(path, cleaned=10)
    assert found is not None
    assert (found.wait, found.before, found.dirty_bytes) == (Wait.RATIO, 10, 0)
    found = seen(path, CompactionConfigs(0.4, 0, NEVER, 0, cleaner=True), cleaned=10)
    assert found is not None
    assert (found.wait, found.dirty_bytes) == (Wait.TRANSACTION, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_has_ended_since_holds_nothing(commit: bool, tmp_path: Path) -> None:
    ended = [old(20), marker(21, PRODUCER, commit=commit), old(22)]
    path = made(tmp_path, old(0), opening(10), ended, opened=10)
    assert first_unstable(read_partition(path)) == NEVER
    other = [old(20), marker(21, PRODUCER + 1, commit=commit)]
    path = made(tmp_path / "other", old(0), opening(10), other, opened=10)
    assert first_unstable(read_partition(path)) == 10


def test_the_newest_snapshot_counts(tmp_path: Path) -> None:
    path = made(tmp_path, old(0), opening(10), [old(20), marker(21, PRODUCER, commit=True)])
    later = path / f"{22:020}.snapshot"
    later.write_bytes(snapshot([(PRODUCER, 0, 0, 10, 0, NOW_MS, 0, 10)]))
    assert first_unstable(read_partition(path)) == 10
    later.write_bytes(snapshot([(PRODUCER, 0, 0, 10, 0, NOW_MS, 0, -1)]))
    assert first_unstable(read_partition(path)) == NEVER


def test_an_end_that_may_be_lost_or_is_far_away_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = [old(20), b"\xff" * 100, old(21)]
    path = made(tmp_path / "torn", old(0), opening(10), [torn[0]], opened=10)
    with (path / f"{20:020}.log").open("ab") as log:
        log.write(torn[1] + torn[2])
    assert first_unstable(read_partition(path)) is None
    path = made(tmp_path / "far", old(0), opening(10), [old(20), old(21)], opened=10)
    assert first_unstable(read_partition(path)) == 10
    monkeypatch.setattr(cleaning, "_MOST_BYTES", 100)
    assert first_unstable(read_partition(path)) is None
    (path / f"{20:020}.snapshot").write_bytes(b"damaged")
    assert first_unstable(read_partition(path)) is None
    (path / f"{20:020}.snapshot").unlink()
    assert first_unstable(read_partition(path)) is None


def test_a_log_that_cannot_be_read_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, old(0), opening(10), old(20), opened=10)
    expected = measure(_task(path)).due

    def failing(*_: Any, **__: Any) -> Any:
        raise SourceError(path, f"{path}: Input/output error")

    monkeypatch.setattr(cleaning, "walk", failing)
    found = measure(_task(path))
    assert (found.cleanable, found.due) == (None, expected)
    assert [str(error.path) for error in found.errors] == [str(path)]


def _task(path: Path) -> SpaceTask:
    return SpaceTask(
        path,
        directory_name(path),
        RetentionConfigs(False, True, -1, -1),
        1_000,
        0,
        False,
        NOW_MS,
        NOW_MS,
        cleaner=CleanerFacts(CONFIGS, None),
    )
