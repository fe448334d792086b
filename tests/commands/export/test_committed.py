"""What an export with --read-committed gives, of one copy of a partition and of several."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.audit.facts.settings import Overrides
from kdump.audit.targets.context import Context
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection, assign, open_roots
from kdump.commands.export.command import _report
from kdump.commands.export.export import Order, export
from kdump.commands.export.manifest import Manifest
from kdump.commands.export.output import FileFormat
from kdump.output.destination import create_destination
from kdump.storage.selection import HIGHEST, Selection
from kdump.storage.workers import WorkerDied
from kdump.tables.committed.plan import plan_log
from kdump.tables.committed.ranges import Ranges, join, overlap, subtract
from support.exports import copies, exported, here, lines_of, one_batch
from support.forge import TIMESTAMP, flip, marker, segment, snapshot, txn_index
from support.forge_transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    state,
    transaction_log,
)
from support.long_samples import first_of

pytestmark = pytest.mark.once


def in_transaction(offset: int, producer: int, *, epoch: int = 0) -> bytes:
    return one_batch(
        offset,
        epoch=epoch,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=offset,
        transactional=True,
    )


def test_what_is_behind_an_open_transaction_is_not_stable(tmp_path: Path) -> None:
    log = segment([one_batch(0), in_transaction(3, 7), one_batch(6)])
    manifest = exported(copies(tmp_path, log), tmp_path / "out", read_committed=True)
    assert sorted(line["offset"] for line in lines_of(tmp_path / "out", manifest)) == [0, 1, 2]
    assert manifest.partitions[0].end == 3


def test_a_marker_that_damage_took_is_told_and_found_in_another_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = marker(6, commit=True, producer_id=7)
    parts = [one_batch(0), in_transaction(3, 7), end, one_batch(7)]
    bad = segment([*parts[:2], flip(end, 65), parts[3]])
    alone = exported(copies(tmp_path / "a", bad), tmp_path / "one", read_committed=True)
    offsets = sorted(line["offset"] for line in lines_of(tmp_path / "one", alone))
    assert offsets == [0, 1, 2, 7, 8, 9]
    assert alone.partitions[0].undecided == ((7, 3),)
    _report(alone, quiet=False)
    assert (
        "orders-0: transaction-end-lost: the transaction of producer 7 from offset 3 on is left "
        "out, because its marker may be lost; the last stable offset is the log end offset\n"
    ) in capsys.readouterr().out
    both = exported(
        copies(tmp_path / "b", bad, segment(parts)),
        tmp_path / "two",
        read_committed=True,
        dedupe_replicas=True,
    )
    offsets = sorted(line["offset"] for line in lines_of(tmp_path / "two", both))
    assert offsets == [*range(6), 7, 8, 9]


def test_the_last_stable_offset_is_told_beside_a_lost_marker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = [in_transaction(0, 7), flip(marker(3, producer_id=7, commit=True), 65)]
    (path,) = copies(tmp_path, segment([*log, in_transaction(4, 8)]))
    _, manifest = committed(tmp_path / "out", [path])
    _report(manifest, quiet=False)
    assert "its marker may be lost; the last stable offset is 4\n" in capsys.readouterr().out


def test_a_transaction_index_decides_where_a_marker_was_lost(tmp_path: Path) -> None:
    """The abort at 12 is of what begins at 9: so the one from 3 on was committed."""
    parts = [one_batch(0), in_transaction(3, 7), marker(6, producer_id=7, commit=True)]
    parts += [one_batch(7), in_transaction(10, 7), marker(13, producer_id=7, commit=False)]
    parts.append(one_batch(14))
    log = segment([*parts[:2], flip(parts[2], 65), *parts[3:]])
    for index, expected, undecided in (
        (txn_index([(7, 10, 13, 14)]), [*range(6), 7, 8, 9, 14, 15, 16], ()),
        (None, [0, 1, 2, 7, 8, 9, 14, 15, 16], ((7, 3),)),
        (b"", [0, 1, 2, 7, 8, 9, 14, 15, 16], ((7, 3),)),
    ):
        name = f"{index is None}{expected[4]}{len(index or b'')}"
        (path,) = copies(tmp_path / name, log)
        if index is not None:
            (path / f"{0:020d}.txnindex").write_bytes(index)
        offsets, manifest = committed(tmp_path / f"{name}-out", [path])
        assert (offsets, manifest.partitions[0].undecided) == (expected, undecided)


def test_a_snapshot_decides_where_a_marker_was_lost(tmp_path: Path) -> None:
    """The index names no abort, and the snapshot shows that the transaction has ended."""
    parts = [one_batch(0), in_transaction(3, 7), flip(marker(6, producer_id=7, commit=True), 65)]
    log = segment([*parts, one_batch(7)])
    entry = (7, 0, 5, 5, 2, TIMESTAMP, 0)
    for opened, expected in ((-1, [*range(6), 7, 8, 9]), (3, [0, 1, 2])):
        (path,) = copies(tmp_path / str(opened), log)
        (path / f"{0:020d}.txnindex").touch()
        (path / f"{10:020d}.snapshot").write_bytes(snapshot([(*entry, opened)]))
        offsets, manifest = committed(tmp_path / f"{opened}-out", [path])
        assert (offsets, manifest.partitions[0].undecided) == (expected, ())


@pytest.mark.parametrize("commit", [True, False])
def test_the_coordinator_decides_where_nothing_beside_the_log_does(
    commit: bool, tmp_path: Path
) -> None:
    lost = flip(marker(6, producer_id=7, producer_epoch=1, commit=commit), 65)
    (path,) = copies(tmp_path, segment([one_batch(0), in_transaction(3, 7), lost, one_batch(7)]))
    place = [("orders", 0)]
    states = [
        state(7, 0, EMPTY),
        state(7, 0, ONGOING, place),
        state(7, 1, PREPARE_COMMIT if commit else PREPARE_ABORT, place),
        state(7, 1, COMPLETE_COMMIT if commit else COMPLETE_ABORT),
    ]
    transaction_log(path.parent, states)
    (path.parent / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    context = list_scope([path], None, TopicSelection()).context
    offsets, manifest = committed(tmp_path / "out", [path], context=context)
    assert offsets == [0, 1, 2, *(range(3, 6) if commit else ()), 7, 8, 9]
    assert manifest.partitions[0].undecided == ()


def test_a_lost_marker_does_not_lend_its_transaction_the_end_of_the_next(tmp_path: Path) -> None:
    aborted, committed = (
        marker(6, commit=False, producer_id=7),
        marker(10, producer_id=7, commit=True),
    )
    parts = [in_transaction(3, 7), flip(aborted, 65), in_transaction(7, 7), committed]
    found = exported(copies(tmp_path / "a", segment(parts)), tmp_path / "one", read_committed=True)
    assert sorted(line["offset"] for line in lines_of(tmp_path / "one", found)) == [7, 8, 9]
    assert found.partitions[0].undecided == ((7, 3),)


def committed(to: Path, paths: Sequence[Path], **options: Any) -> tuple[list[int], Manifest]:
    manifest = exported(paths, to, read_committed=True, **options)
    return sorted(line["offset"] for line in lines_of(to, manifest)), manifest


ABORT = marker(6, commit=False, producer_id=7)
COMMIT = marker(10, commit=True, producer_id=7)
LOST_ABORT = [one_batch(0), in_transaction(3, 7), flip(ABORT, 65), in_transaction(7, 7), COMMIT]


@pytest.mark.parametrize(
    ("other", "base"),
    [([one_batch(0), in_transaction(3, 7)], 0), ([in_transaction(7, 7), COMMIT], 7)],
    ids=["that ends before it", "that starts behind it"],
)
def test_a_copy_without_the_marker_does_not_stand_for_it(
    other: list[bytes], base: int, tmp_path: Path
) -> None:
    paths = copies(tmp_path, segment(LOST_ABORT), segment(other))
    (log,) = paths[1].iterdir()
    log.rename(paths[1] / f"{base:020d}.log")
    offsets, manifest = committed(tmp_path / "out", paths, dedupe_replicas=True)
    assert offsets == [0, 1, 2, 7, 8, 9]
    assert manifest.partitions[0].undecided == ((7, 3),)


def test_a_stale_copy_decides_nothing(tmp_path: Path) -> None:
    """Its transactions, which a newer leader never had, count for nothing."""
    good = [one_batch(0, epoch=1), *(one_batch(at, epoch=2) for at in (3, 6, 9))]
    stale = [one_batch(0, epoch=1), in_transaction(3, 7, epoch=1)]
    paths = copies(tmp_path / "open", segment(stale), segment(good))
    offsets, manifest = committed(tmp_path / "one", paths, dedupe_replicas=True)
    assert offsets == list(range(12))
    assert manifest.partitions[0].end is None

    good = [in_transaction(0, 7, epoch=1), in_transaction(3, 7, epoch=2)]
    good += [marker(6, commit=True, producer_id=7, leader_epoch=2), one_batch(7, epoch=2)]
    stale = [in_transaction(0, 7, epoch=1), marker(3, commit=False, producer_id=7, leader_epoch=1)]
    paths = copies(tmp_path / "aborted", segment(stale), segment(good))
    offsets, _ = committed(tmp_path / "two", paths, dedupe_replicas=True)
    assert offsets == [*range(6), 7, 8, 9]


def without_segment(top: Path, parts: Sequence[list[bytes]], gone: int) -> Path:
    """A partition with a segment for each of ``parts`` but number ``gone``."""
    path = top / "orders-0"
    path.mkdir(parents=True)
    for number, batches in enumerate(parts):
        if number != gone:
            base = int.from_bytes(batches[0][:8], "big")
            (path / f"{base:020d}.log").write_bytes(segment(batches))
    return path


def of_topic(*, compacted: bool | None) -> Context:
    return Context(now_ms=0, wanted=Overrides(compacted=compacted))


@pytest.mark.parametrize("compacted", [False, None])
@pytest.mark.parametrize("next_commit", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_a_marker_among_missing_offsets_is_not_replaced_by_the_next(
    inside: bool, next_commit: bool, compacted: bool | None, tmp_path: Path
) -> None:
    """The next marker of the producer has the other outcome, and belongs to what it wrote since."""
    begin = [one_batch(0), in_transaction(3, 7)]
    lost = [marker(6, producer_id=7, commit=not next_commit), one_batch(7)]
    rest = [in_transaction(10, 7), marker(13, producer_id=7, commit=next_commit), one_batch(14)]
    path = without_segment(tmp_path, [begin + rest] if inside else [begin, lost, rest], 1)
    context = of_topic(compacted=compacted)
    offsets, manifest = committed(tmp_path / "out", [path], context=context)
    assert offsets == [0, 1, 2, *(range(10, 13) if next_commit else ()), 14, 15, 16]
    assert manifest.partitions[0].undecided == ((7, 3),)


def test_evidence_decides_where_a_segment_is_missing(tmp_path: Path) -> None:
    """The abort at 10 is of what begins at 3, so no marker is missing."""
    parts = [[one_batch(0), in_transaction(3, 7)], [one_batch(6)]]
    parts.append([in_transaction(9, 7), marker(12, producer_id=7, commit=False), one_batch(13)])
    path = without_segment(tmp_path, parts, 1)
    (path / f"{9:020d}.txnindex").write_bytes(txn_index([(7, 3, 12, 13)]))
    offsets, manifest = committed(tmp_path / "out", [path], context=of_topic(compacted=False))
    assert (offsets, manifest.partitions[0].undecided) == ([0, 1, 2, 13, 14, 15], ())


def test_the_index_of_a_segment_does_not_speak_for_the_next_one(tmp_path: Path) -> None:
    """The first segment's index names its aborts, but not those of the segment that is missing."""
    begin = [in_transaction(0, 8), marker(3, producer_id=8, commit=False), in_transaction(4, 7)]
    lost = [marker(7, producer_id=7, commit=False)]
    rest = [in_transaction(8, 7), marker(11, producer_id=7, commit=True)]
    path = without_segment(tmp_path, [begin, lost, rest], 1)
    (path / f"{0:020d}.txnindex").write_bytes(txn_index([(8, 0, 3, 4)]))
    offsets, manifest = committed(tmp_path / "out", [path], context=of_topic(compacted=False))
    assert (offsets, manifest.partitions[0].undecided) == ([8, 9, 10], ((7, 4),))


@pytest.mark.parametrize("compacted", [True, None])
def test_what_compaction_removed_is_not_missing(compacted: bool | None, tmp_path: Path) -> None:
    """Settings or the gaps of other segments show that the cleaner was there."""
    begin = [one_batch(0), in_transaction(5, 7)]
    rest = [in_transaction(12, 7), marker(16, producer_id=7, commit=True), one_batch(18)]
    path = without_segment(tmp_path, [begin, rest], -1)
    context = of_topic(compacted=compacted)
    offsets, manifest = committed(tmp_path / "out", [path], context=context)
    assert offsets == [*range(3), *range(5, 8), *range(12, 15), *range(18, 21)]
    assert manifest.partitions[0].undecided == ()


def test_another_copy_has_what_is_missing(tmp_path: Path) -> None:
    parts = [[one_batch(0), in_transaction(3, 7)], [marker(6, producer_id=7, commit=True)]]
    parts.append([in_transaction(7, 7), marker(10, producer_id=7, commit=False)])
    paths = [without_segment(tmp_path / name, parts, gone) for name, gone in (("a", 1), ("b", -1))]
    context = of_topic(compacted=False)
    offsets, manifest = committed(tmp_path / "out", paths, dedupe_replicas=True, context=context)
    assert (offsets, manifest.partitions[0].undecided) == ([*range(6)], ())


def test_an_open_transaction_in_a_stale_tail_stays_out(tmp_path: Path) -> None:
    stale = [in_transaction(at, 7, epoch=1) for at in (0, 3, 6)]
    good = [in_transaction(0, 7, epoch=1), marker(3, commit=True, producer_id=7, leader_epoch=2)]
    paths = copies(tmp_path, segment(stale), segment(good))
    offsets, manifest = committed(tmp_path / "out", paths, dedupe_replicas=True)
    assert offsets == [0, 1, 2]
    assert manifest.partitions[0].end == 4


def test_what_was_appended_since_the_plan_is_left_out(tmp_path: Path) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))
    more = [one_batch(3), in_transaction(6, 8)]

    def growing(work: Any, tasks: Sequence[Any], sizes: Sequence[int], **_: object) -> Any:
        found = list(here(work, tasks, sizes))
        if work is plan_log:
            with (path / f"{0:020d}.log").open("ab") as file:
                file.write(b"".join(more))
        return iter(found)

    assert run(path, tmp_path / "out", growing) == [0, 1, 2]


def test_a_log_that_was_not_planned_is_left_out(tmp_path: Path) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))
    (path / f"{3:020d}.log").write_bytes(segment([one_batch(3)]))
    assert run(path, tmp_path / "whole", here) == [*range(6)]

    def losing(
        work: Any, tasks: Sequence[Any], sizes: Sequence[int], **_: object
    ) -> Iterator[tuple[int, Any]]:
        for number, found in here(work, tasks, sizes):
            lost = work is plan_log and tasks[number].log.base_offset == 3
            yield number, WorkerDied(signal.SIGKILL) if lost else found

    assert run(path, tmp_path / "out", losing) == [0, 1, 2]


def test_segments_that_only_the_decision_needs_are_not_judged(tmp_path: Path) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))
    (path / f"{3:020d}.log").write_bytes(segment([flip(one_batch(3), 70), one_batch(6)]))
    asked = Selection(first_offset=0, last_offset=1)
    offsets, manifest = committed(tmp_path / "out", [path], selection=asked)
    assert (offsets, manifest.troubles) == ([0, 1], ())


def run(path: Path, to: Path, spread: Any) -> list[int]:
    targets = [one.with_listing() for root in open_roots([path]) for one in assign(root)]
    order = Order(FileFormat.JSONL, Selection(), read_committed=True)
    with create_destination(to) as destination:
        manifest = export(targets, order, destination, spread, {})
    return sorted(line["offset"] for line in lines_of(to, manifest))


# --- against a log of which everything is known


@dataclass(frozen=True)
class Written:
    """A batch, and what became of the transaction that its records are of."""

    data: bytes
    base: int
    last: int
    fate: str  # plain, committed, aborted, open; marker


def random_log(rng: random.Random) -> tuple[list[Written], list[tuple[int, int, int, int]]]:
    """Batches of three producers, whose transactions lie across each other; and their aborts."""
    found: list[Written] = []
    aborts: list[tuple[int, int, int, int]] = []
    running: dict[int, list[int]] = {}
    offset = 0
    for _ in range(rng.randint(4, 16)):
        producer = rng.randint(7, 9)
        if producer in running and rng.random() < 0.4:
            commit = rng.random() < 0.5
            if not commit:
                aborts.append((producer, found[running[producer][0]].base, offset, offset + 1))
            for number in running.pop(producer):
                one = found[number]
                fate = "committed" if commit else "aborted"
                found[number] = Written(one.data, one.base, one.last, fate)
            data = marker(offset, commit=commit, producer_id=producer)
            found.append(Written(data, offset, offset, "marker"))
            offset += 1
            continue
        plain = rng.random() < 0.3
        if not plain:
            running.setdefault(producer, []).append(len(found))
        data = one_batch(offset) if plain else in_transaction(offset, producer)
        found.append(Written(data, offset, offset + 2, "plain" if plain else "open"))
        offset += 3
    return found, aborts


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("seed", first_of(range(60), 6))
@pytest.mark.slow
def test_damaged_copies_of_a_log_that_is_known(
    seed: int, removed: bool, indexed: bool, tmp_path: Path
) -> None:
    """No record that is not committed; all that are where each batch is sound in some copy."""
    rng = random.Random(seed)
    log, aborts = random_log(rng)
    sound: set[int] = set()
    paths = []
    for number in range(rng.randint(1, 3)):
        start, stop = rng.randint(0, 1), len(log) - rng.randint(0, 3)
        path = tmp_path / f"broker{number}" / "orders-0"
        path.mkdir(parents=True)
        cut = rng.randint(start, stop)
        for some in (range(start, cut), range(cut, stop)):
            bad = {at for at in some if rng.random() < 0.2}
            sound |= set(some) - bad
            batches = [
                flip(log[at].data, 65) if at in bad else log[at].data
                for at in some
                if not (removed and at in bad)
            ]
            if batches:
                first, last = log[some[0]].base, log[some[-1]].last
                (path / f"{first:020d}.log").write_bytes(segment(batches))
                if indexed:
                    named = [entry for entry in aborts if first <= entry[2] <= last]
                    (path / f"{first:020d}.txnindex").write_bytes(txn_index(named))
        if any(path.iterdir()):
            paths.append(path)
    if not paths:
        return
    context = of_topic(compacted=False)
    offsets, _ = committed(tmp_path / "out", paths, dedupe_replicas=True, context=context)
    assert len(offsets) == len(set(offsets))
    fates = {at: one.fate for one in log for at in range(one.base, one.last + 1)}
    assert {fates[offset] for offset in offsets} <= {"plain", "committed"}
    there = range(min(sound), max(sound) + 1) if sound else range(0)
    if set(there) == sound and len(there) == len(log):
        end = min((one.base for one in log if one.fate == "open"), default=HIGHEST)
        given = {at for at, fate in fates.items() if fate in ("plain", "committed") and at < end}
        assert set(offsets) == given


PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda p: (p[0], sum(p))))


@given(PAIRS, PAIRS)
def test_ranges_are_sets_of_offsets(
    some: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    one, other = join(some), join(more)
    assert members(one) == {at for first, last in some for at in range(first, last + 1)}
    assert members(overlap(one, other)) == members(one) & members(other)
    assert members(subtract(one, other)) == members(one) - members(other)
    assert all(a[1] < b[0] for a, b in pairwise(one))


def members(ranges: Ranges) -> set[int]:
    return {at for first, last in ranges for at in range(first, last + 1)}
