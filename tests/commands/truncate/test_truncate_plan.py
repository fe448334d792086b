"""plan_truncate(): where a log is cut, with which steps, what that costs, and what is left."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.judge import judge
from kdump.audit.survey.recovery import Span
from kdump.audit.survey.survey import ReadFailure
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused, SourceError, UsageError
from kdump.format.checkpoint import decode_epochs
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import decode_snapshot
from kdump.repair.transaction.plan import (
    Cut,
    Line,
    Loss,
    Plan,
    Prefix,
    Put,
    PutMarker,
    Remove,
    TakeMarker,
)
from kdump.repair.truncation.plan import plan_truncate
from kdump.storage.names import CLEAN_MARKER
from support import forge
from support.by_hand import carry_out
from support.damaged import FIRST, LAST, RECIPES, Recipe, batches, name
from support.fixtures_loader import FIXTURES
from support.forge import batch, checkpoint, flip, marker, record, snapshot, txn_index
from support.forged_starts import FORGED, INTERVAL, SOUND
from support.pipeline import read

_LINES = {
    "recovery-point": "recovery-point-offset-checkpoint",
    "high-watermark": "replication-offset-checkpoint",
    "log-start": "log-start-offset-checkpoint",
    "cleaner": "cleaner-offset-checkpoint",
}
_BATCH = len(batches(FIRST)[0])
_CONFIG = {"log.index.interval.bytes": str(INTERVAL)}
_EPOCHS = "leader-epoch-checkpoint"
FLIPPED = [*batches(FIRST)[:3], flip(batches(FIRST)[3], -1), *batches(FIRST)[4:]]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A log directory with nothing in it."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return directory


def verdict(top: Path, path: Path) -> Verdict:
    """The verdict of ``verify`` on the partition at ``path``."""
    found = read(top, config=_CONFIG)
    ((target, surveys, facts),) = [target for target in found.targets if target[0].path == path]
    return judge(target, surveys, facts, found.context)


def planned(top: Path, path: Path, at: int | None = None) -> Plan:
    return plan_truncate(verdict(top, path), at=at, arguments=())


def codes(top: Path, path: Path) -> set[str]:
    """The findings above a note."""
    found = verdict(top, path).findings
    return {finding.code.name for finding in found if finding.code.severity.value != "info"}


def write(
    top: Path,
    first: list[bytes] | None = None,
    last: list[bytes] | None = None,
    files: Mapping[str, bytes | None] | None = None,
    **lines: int,
) -> Path:
    """The partition ``topic-0`` with two segments, and ``lines`` in the checkpoints."""
    for key, offset in lines.items():
        rows = [("other", 7, 5), ("topic", 0, offset)]
        (top / _LINES[key.replace("_", "-")]).write_bytes(checkpoint(rows))
    recipe = Recipe("topic", [], first or batches(FIRST), last or batches(LAST), files or {})
    return recipe.write(top)


def cut_of(plan: Plan) -> Cut:
    (cut,) = plan.cuts
    return cut


def content(plan: Plan, file: str) -> bytes:
    (put,) = [put for put in plan.puts if put.name == file]
    assert put.content is not None
    assert hashlib.sha256(put.content).hexdigest() == put.sha256
    return put.content


def recipe(title: str) -> Recipe:
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == title]
    return recipe


# --- where


@pytest.mark.parametrize(
    ("title", "base", "stay", "end", "sound", "unreadable"),
    [
        ("crc-sealed", FIRST, 3, 30, 160, 10),
        ("crc-last", LAST, 9, 190, 0, 10),
        ("size-small", FIRST, 3, 30, 160, 10),
        ("size-large", FIRST, 3, 30, 160, 10),
        ("torn-last", LAST, 9, 190, 0, 0),
        ("torn-header", LAST, 9, 190, 0, 0),
        ("torn-sealed", FIRST, 9, 90, 100, 10),
        ("zeros-last", LAST, 10, 200, 0, 0),
        ("zeros-only", LAST, 0, 100, 0, 0),
        ("zeros-sealed", FIRST, 10, 100, 100, 0),
        ("below", LAST, 0, 100, 91, 0),
        ("several", FIRST, 3, 30, 120, 40),
    ],
)
def test_where_recovery_does_not_go_on(
    top: Path, title: str, base: int, stay: int, end: int, sound: int, unreadable: int
) -> None:
    path = recipe(title).write(top)
    plan = planned(top, path)
    assert (cut_of(plan).name, cut_of(plan).size) == (name(base, ".log"), stay * _BATCH)
    assert plan.log_end[1] == end
    assert (plan.loss.sound.count, plan.loss.unreadable.count) == (sound, unreadable)
    assert plan.lossy == (sound + unreadable > 0)
    carry_out(plan)
    after = verdict(top, path)
    assert after.replay is not None
    assert after.replay.end_offset == end
    assert not any(survey.damages for survey in after.surveys)
    assert not planned(top, path).steps
    assert not codes(top, path)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_what_recovery_accepts_stays(top: Path, recipe: Recipe) -> None:
    path = recipe.write(top)
    plan = planned(top, path)
    if plan.steps:
        carry_out(plan)
        assert not codes(top, path).intersection(recipe.expected)
        assert not planned(top, path).steps
        return
    assert plan.log_end[0] == plan.log_end[1]
    assert plan.loss == Loss()
    if {"offsets-not-increasing", "segments-overlap"}.intersection(
        recipe.expected
    ) and not recipe.deep:
        (note,) = plan.notes
        assert "Recovery accepts this, so" in note


@pytest.mark.parametrize(
    ("title", "base", "stay"),
    [
        ("twice-and-indexed", 0, 6),
        ("below-the-segment", 100, 5),
        ("out-of-range-inside", 100, 5),
        ("plain-in-a-transaction", 0, 1),
        ("plain-in-a-transaction-clean", 0, 1),
        ("marker-of-no-transaction", 0, 0),
        ("marker-without-a-type", 0, 1),
        ("aborts-swapped", 0, 3),
    ],
)
def test_where_a_start_empties_or_stops(top: Path, title: str, base: int, stay: int) -> None:
    (recipe,) = [recipe for recipe in FORGED if recipe.name == title]
    path = recipe.write(top)
    plan = planned(top, path)
    pieces = recipe.segments[base]
    assert cut_of(plan).name == name(base, ".log")
    assert cut_of(plan).size == sum(map(len, pieces[:stay]))
    carry_out(plan)
    assert not planned(top, path).steps


def test_a_segment_that_a_start_splits_stays(top: Path) -> None:
    (recipe,) = [recipe for recipe in FORGED if recipe.name == "out-of-range-at-the-end"]
    plan = planned(top, recipe.write(top))
    assert not plan.steps
    assert any("splits it in two" in note for note in plan.notes)


@pytest.mark.parametrize(("log_start", "cut"), [(50, True), (100, False)])
def test_a_snapshot_that_recovery_begins_from(top: Path, log_start: int, cut: bool) -> None:
    (top / _LINES["log-start"]).write_bytes(checkpoint([("topic", 0, log_start)]))
    opened = snapshot([(7, 0, 0, 90, 0, 0, -1, 90)])
    plain = [_of(7, 100, sequence=1, transactional=False)]
    files = {name(100, ".snapshot"): opened}
    path = forge.write_partition(top, "topic", 0, {100: plain}, files=files)
    plan = planned(top, path)
    assert bool(plan.cuts) == cut
    assert plan.loss.sound.count == int(cut)


def test_index_entries_that_do_not_fit_are_reported(top: Path) -> None:
    path = forge.write_partition(top, "topic", 0, SOUND, interval=INTERVAL)
    found = read(top, config={**_CONFIG, "log.index.size.max.bytes": "24"})
    ((target, surveys, facts),) = found.targets
    plan = plan_truncate(judge(target, surveys, facts, found.context), at=None, arguments=())
    assert not plan.steps
    assert len(plan.notes) == len(list(path.glob("*.log")))
    assert all("segment.index.bytes" in note for note in plan.notes)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_what_brokers_have_left_is_valid(grown: object, fixture: str) -> None:
    top = grown(fixture)  # type: ignore[operator]
    found = read(top)
    for target, surveys, facts in found.targets:
        if target.path.name.startswith("__cluster_metadata"):
            continue
        plan = plan_truncate(judge(target, surveys, facts, found.context), at=None, arguments=())
        assert plan.log_end[0] == plan.log_end[1]
        assert not plan.lossy
        # The room that a killed broker has made beforehand is what recovery cuts off.
        assert bool(plan.steps) == (
            fixture.endswith("killed") and "preallocated" in target.path.name
        )


def test_a_log_that_ends_inside_a_header_before_others(top: Path) -> None:
    plan = planned(top, write(top, [*batches(FIRST), batches(FIRST)[0][:9]]))
    assert cut_of(plan).size == 10 * _BATCH
    assert plan.loss.sound.count == 100


def test_more_damage_than_is_listed(top: Path) -> None:
    sound = batches(FIRST, 40)
    path = forge.write_partition(
        top,
        "topic",
        0,
        {0: sound},
        files={name(0, ".log"): b"".join(_every_other_flipped(sound))},
    )
    assert cut_of(planned(top, path)).size == _BATCH
    plan = planned(top, path, 355)
    assert cut_of(plan).size == 35 * len(sound[0])
    assert (plan.loss.sound.count, plan.loss.unreadable.count) == (20, 30)


def _every_other_flipped(pieces: list[bytes]) -> list[bytes]:
    return [flip(data, -1) if number % 2 else data for number, data in enumerate(pieces)]


# --- steps


def test_all_that_belongs_to_a_cut_in_its_order(top: Path) -> None:
    (top / CLEAN_MARKER).touch()
    stamps = {f"{offset:020d}.snapshot": snapshot() for offset in (30, 100, 150, 200)}
    files = {**stamps, name(LAST, ".txnindex"): b"", _EPOCHS: checkpoint([(0, 0), (4, 120)])}
    lines = {"recovery_point": 200, "high_watermark": 180, "log_start": 7, "cleaner": 100}
    path = write(top, FLIPPED, None, files, **lines)
    (path / name(FIRST, ".txnindex")).write_bytes(txn_index([(7, 1, 190, 1)]))
    plan = planned(top, path)
    log, size = name(FIRST, ".log"), 3 * _BATCH
    tail = (path / log).read_bytes()[size:]
    index, times = name(FIRST, ".index"), name(FIRST, ".timeindex")
    offsets, stamped = forge.index_entries(batches(FIRST)[:3], FIRST, INTERVAL)
    expected = [
        TakeMarker(),
        Line(_LINES["recovery-point"], 200, 0),
        *(
            Remove(name(LAST, extension))
            for extension in (".log", ".index", ".timeindex", ".txnindex")
        ),
        *(Remove(f"{offset:020d}.snapshot") for offset in (200, 150, 100)),
        Remove(index),
        Remove(times),
        Cut(log, size, hashlib.sha256(tail).hexdigest(), batches(FIRST)[2][:61].hex()),
        Put.of(index, forge.offset_index(offsets), replaces=False),
        Put.of(times, forge.time_index(stamped), replaces=False),
        Put.of(name(FIRST, ".txnindex"), b"", replaces=True),
        Put.of(_EPOCHS, checkpoint([(0, 7)]), replaces=True),
        Line(_LINES["high-watermark"], 180, 30),
        Line(_LINES["cleaner"], 100, 0),
        PutMarker(),
    ]
    assert list(plan.steps) == expected
    assert plan.log_directory == top
    assert plan.log_start == 7
    assert plan.loss.size == len(tail) + len(b"".join(batches(LAST)))
    assert plan.loss.below_high_watermark
    assert plan.loss.sound == Span(160, 40, 199, forge.TIMESTAMP + 4000, forge.TIMESTAMP + 109_000)
    notes = "\n".join(plan.notes)
    assert all(text in notes for text in ("160 valid", "salvage", "replica", "watermark is 180"))
    assert str(top) not in notes
    carry_out(plan)
    assert (top / CLEAN_MARKER).exists()
    assert "other 7 5" in (top / _LINES["cleaner"]).read_text()
    assert not codes(top, path)


def test_lines_that_need_no_change_stay(top: Path) -> None:
    path = write(top, FLIPPED, recovery_point=0, high_watermark=30, log_start=30)
    plan = planned(top, path)
    assert not any(isinstance(step, Line | TakeMarker | PutMarker) for step in plan.steps)
    assert not plan.loss.below_high_watermark


def test_a_log_start_beyond_the_new_end_is_lowered_to_it(top: Path) -> None:
    path = write(top, FLIPPED, log_start=70)
    plan = planned(top, path)
    assert Line(_LINES["log-start"], 70, 30) in plan.steps
    assert plan.log_start == 30
    carry_out(plan)
    assert not codes(top, path)


@pytest.mark.parametrize("suffix", ["delete", "stray", "future"])
def test_lines_of_a_name_that_another_directory_has_now(top: Path, suffix: str) -> None:
    path = write(top, FLIPPED, recovery_point=200, high_watermark=200)
    path = path.rename(top / f"topic-0.{'0' * 32}-{suffix}")
    plan = planned(top, path)
    lines = [step for step in plan.steps if isinstance(step, Line)]
    assert bool(lines) == (suffix == "future")
    assert plan.loss.below_high_watermark == (suffix == "future")


def test_a_partition_outside_of_any_log_directory(tmp_path: Path) -> None:
    path = write(tmp_path, FLIPPED)
    found = read(path)
    ((target, surveys, facts),) = found.targets
    plan = plan_truncate(judge(target, surveys, facts, found.context), at=None, arguments=("-x",))
    assert plan.log_directory is None
    assert plan.arguments == ("-x",)
    assert plan.steps
    assert not any(isinstance(step, Line | TakeMarker | PutMarker) for step in plan.steps)


def test_a_log_with_another_name_is_not_cut_through_it(top: Path, tmp_path: Path) -> None:
    path = write(top, FLIPPED)
    log, other = path / name(FIRST, ".log"), tmp_path / "linked"
    os.link(log, other)
    whole = log.read_bytes()
    plan = planned(top, path)
    assert not plan.cuts
    (put,) = [put for put in plan.puts if put.name == log.name]
    assert put.recipe == Prefix(3 * _BATCH)
    assert put.replaces
    assert put.size == 3 * _BATCH
    assert put.sha256 == hashlib.sha256(whole[: put.size]).hexdigest()
    assert put.mtime_ns == log.stat().st_mtime_ns
    carry_out(plan)
    assert other.read_bytes() == whole
    assert not planned(top, path).steps


# --- producers, transactions, epochs


def _of(
    producer: int, offset: int, *, sequence: int, epoch: int = 0, transactional: bool = True
) -> bytes:
    return batch(
        offset,
        [record(b"v" * 40)],
        transactional=transactional,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        leader_epoch=epoch,
    )


_HISTORY = [
    _of(7, 0, sequence=0),
    marker(1, 7, commit=False),
    _of(7, 2, sequence=1),
    _of(8, 3, sequence=0, transactional=False),
    flip(_of(9, 4, sequence=0), -1),
    marker(5, 7, commit=True),
    _of(8, 6, sequence=1, transactional=False),
    _of(7, 7, sequence=2),
    marker(8, 7, commit=True),
    _of(6, 9, sequence=0),
]


def test_producers_and_transactions(top: Path) -> None:
    files = {name(0, ".txnindex"): txn_index([(7, 0, 1, 2)])}
    path = forge.write_partition(top, "topic", 0, {0: _HISTORY}, files=files)
    plan = planned(top, path)
    assert plan.log_end == (10, 4)
    loss = plan.loss
    assert (loss.producers, loss.committed, loss.opened) == (3, 2, 1)
    entries = {
        entry.producer_id: entry for entry in decode_snapshot(content(plan, name(4, ".snapshot")))
    }
    assert set(entries) == {7, 8}
    assert entries[7].current_txn_first_offset == 2
    assert entries[8].last_sequence == 0
    # The one abort has its entry, and it stays as it is.
    assert not any(put.name.endswith(".txnindex") for put in plan.puts)
    carry_out(plan)
    assert not codes(top, path)


def test_a_transaction_whose_end_is_cut_off_is_named_with_what_it_came_to(top: Path) -> None:
    """The index has the abort at 3 for what begins at 2 alone: so the one before was committed."""
    end = forge.flip(marker(1, 7, commit=True), -1)
    log = [_of(7, 0, sequence=0), end, _of(7, 2, sequence=1), marker(3, 7, commit=False)]
    files = {name(0, ".txnindex"): txn_index([(7, 2, 3, 4)])}
    path = forge.write_partition(top, "topic", 0, {0: log}, files=files)
    assert any(
        "transaction-end-lost: the transaction of producer 7 from offset 0 on, which was committed,"
        in note
        for note in planned(top, path).notes
    )


def test_not_all_transactions_whose_end_is_cut_off_are_named(top: Path) -> None:
    log = [_of(producer, producer, sequence=0) for producer in range(5)]
    log += [flip(_of(9, 5, sequence=0), -1), *(marker(6 + at, at, commit=True) for at in range(5))]
    notes = planned(top, forge.write_partition(top, "topic", 0, {0: log})).notes
    (named,) = (note for note in notes if "of producer 0 from offset 0 on is left open" in note)
    assert "consumers with read_committed stop at offset 0 until its coordinator ends it" in named
    assert "2 more transactions are left open" in notes


def test_after_a_lost_marker_a_cut_goes_by_the_transaction_index(top: Path) -> None:
    """A replay of what stays before the cut at 4 would take the abort for that of both."""
    end = forge.flip(marker(1, 7, commit=True), -1)
    log = [_of(7, 0, sequence=0), end, _of(7, 2, sequence=1), marker(3, 7, commit=False)]
    log += [_of(7, 4, sequence=2), marker(5, 7, commit=False)]
    index = txn_index([(7, 2, 3, 4), (7, 4, 5, 6)])
    path = forge.write_partition(top, "topic", 0, {0: log}, files={name(0, ".txnindex"): index})
    plan = planned(top, path, at=4)
    assert content(plan, name(0, ".txnindex")) == index[:34]


def test_a_marker_that_is_cut_off_is_not_taken_for_one_that_damage_hides(top: Path) -> None:
    """The batch at 1 was no marker: the transaction ended at 3, where the log is cut."""
    log = [_of(7, 0, sequence=0), flip(_of(9, 1, sequence=0), -1), _of(9, 2, sequence=1)]
    log += [marker(3, 7, commit=True), _of(7, 4, sequence=1), marker(5, 7, commit=False)]
    files = {name(0, ".txnindex"): txn_index([(7, 4, 5, 6)])}
    path = forge.write_partition(top, "topic", 0, {0: log}, files=files)
    plan = planned(top, path, at=3)
    open_at = {
        entry.producer_id: entry.current_txn_first_offset
        for entry in decode_snapshot(content(plan, name(3, ".snapshot")))
    }
    assert open_at[7] == 0
    assert any("of producer 7 from offset 0 on is left open" in note for note in plan.notes)


@pytest.mark.parametrize("at", [3, 4])
def test_offsets_that_jump_end_no_transaction_that_begins_behind_them(top: Path, at: int) -> None:
    """The commit at 1 is not in the log, and no batch of it is damaged."""
    log = [_of(7, 0, sequence=0), _of(7, 2, sequence=1), _of(9, 3, sequence=0)]
    log += [marker(4, 7, commit=False)]
    files = {name(0, ".txnindex"): txn_index([(7, 2, 4, 5)])}
    path = forge.write_partition(top, "topic", 0, {0: log}, files=files)
    plan = planned(top, path, at=at)
    open_at = {
        entry.producer_id: entry.current_txn_first_offset
        for entry in decode_snapshot(content(plan, name(at, ".snapshot")))
    }
    assert open_at[7] == 0  # as in a broker that replays it


def test_an_abort_of_which_the_log_has_nothing_left_hides_nothing(top: Path) -> None:
    """The batches at 2 and 3 are missing: an abort would hide what is written from 4 on, too."""
    log = [_of(9, 0, sequence=0), marker(1, 9, commit=False), _of(7, 4, sequence=1)]
    log += [flip(marker(5, 7, commit=True), -1)]
    index = txn_index([(9, 0, 1, 2), (7, 2, 3, 4)])
    path = forge.write_partition(top, "topic", 0, {0: log}, files={name(0, ".txnindex"): index})
    plan = planned(top, path)
    assert plan.log_end[1] == 5
    assert content(plan, name(0, ".txnindex")) == index[:34]


def test_a_transaction_index_that_is_missing_is_made(top: Path) -> None:
    path = forge.write_partition(top, "topic", 0, {0: _HISTORY})
    made = TransactionIndex.decode(content(planned(top, path), name(0, ".txnindex")))
    assert [
        (entry.producer_id, entry.first_offset, entry.last_offset) for entry in made.entries
    ] == [(7, 0, 1)]


@pytest.mark.parametrize("sound", [True, False])
def test_a_snapshot_at_the_new_end(top: Path, sound: bool) -> None:
    data = snapshot([(8, 0, 0, 3, 0, 0, -1, -1)])
    files = {name(4, ".snapshot"): data if sound else data[:-1]}
    path = forge.write_partition(top, "topic", 0, {0: _HISTORY}, files=files)
    puts = [put for put in planned(top, path).puts if put.name == name(4, ".snapshot")]
    assert [put.replaces for put in puts] == ([] if sound else [True])


def test_a_later_segments_snapshot_where_the_log_then_ends(top: Path) -> None:
    files = {name(100, ".snapshot"): snapshot()}
    path = write(top, [*batches(FIRST), bytes(500)], None, files)
    plan = planned(top, path)
    assert plan.log_end == (200, 100)
    assert name(100, ".snapshot") not in plan.changed_files


def test_unknown_producers(top: Path) -> None:
    history = [_of(7, 50, sequence=9), marker(51, 7, commit=False), *_shifted()]
    entries = [(3, 40, 50, 51), (7, 50, 51, 52), (3, 60, 190, 1)]
    files = {name(50, ".txnindex"): txn_index(entries), name(190, ".snapshot"): snapshot()}
    files[_EPOCHS] = checkpoint([(0, 0)])
    path = forge.write_partition(top, "topic", 0, {50: history}, files=files)
    plan = planned(top, path)
    assert any("producer snapshots cannot be rebuilt" in note for note in plan.notes)
    assert not any(put.name.endswith(".snapshot") for put in plan.puts)
    assert Remove(name(190, ".snapshot")) in plan.steps
    assert content(plan, name(50, ".txnindex")) == txn_index(entries[:2])


def _shifted() -> list[bytes]:
    sound = batches(60)
    return [*sound[:3], flip(sound[3], -1), *sound[4:]]


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ([(0, 0)], None),
        ([(0, 0), (2, 30)], [(0, 0)]),
        ([(0, 0), (2, 31), (3, 29)], [(0, 0), (3, 29)]),
        ([], [(0, 0)]),
        ([(5, 200)], []),
        ([(0, 0), (0, 5), (2, 40)], [(0, 0)]),
    ],
)
def test_leader_epochs(
    top: Path, rows: list[tuple[int, int]], after: list[tuple[int, int]] | None
) -> None:
    path = write(top, FLIPPED, None, {_EPOCHS: checkpoint(rows)})
    plan = planned(top, path)
    if after is None or after == rows:
        assert _EPOCHS not in plan.changed_files
        return
    found = decode_epochs(content(plan, _EPOCHS))
    assert [(entry.epoch, entry.start_offset) for entry in found] == after


@pytest.mark.parametrize("data", [b"0\n1\nx 0\n", b"0\n1\n-1 0\n", None])
def test_a_leader_epoch_checkpoint_that_cannot_be_read_or_is_not_there(
    top: Path, data: bytes | None
) -> None:
    path = write(top, FLIPPED, None, {_EPOCHS: data})
    puts = [put for put in planned(top, path).puts if put.name == _EPOCHS]
    assert [put.replaces for put in puts] == ([False] if data is None else [])


# --- --at


@pytest.mark.parametrize(
    ("at", "base", "stay", "end"),
    [
        (150, LAST, 5, 150),
        (155, LAST, 5, 150),
        (159, LAST, 5, 150),
        (160, LAST, 6, 160),
        (100, LAST, 0, 100),
        (99, FIRST, 9, 90),
        (0, FIRST, 0, 0),
    ],
)
def test_every_batch_that_reaches_the_offset_goes(
    top: Path, at: int, base: int, stay: int, end: int
) -> None:
    path = write(top)
    plan = planned(top, path, at)
    assert (cut_of(plan).name, cut_of(plan).size) == (name(base, ".log"), stay * _BATCH)
    assert plan.log_end == (200, end)
    assert plan.loss.sound.count == 200 - end
    assert not plan.loss.unreadable
    carry_out(plan)
    after = verdict(top, path)
    assert after.replay is not None
    assert after.replay.end_offset == end
    assert not codes(top, path)
    assert not planned(top, path, max(at, end)).steps


def test_an_offset_between_two_segments_takes_the_later_one_whole(top: Path) -> None:
    segments = {0: SOUND[0], 100: SOUND[100][:5], 200: SOUND[200]}
    path = forge.write_partition(top, "topic", 0, segments, interval=INTERVAL)
    plan = planned(top, path, 170)
    assert [step.name for step in plan.steps if isinstance(step, Remove)] == [
        name(200, each) for each in (".log", ".index", ".timeindex")
    ]
    assert [put.name for put in plan.puts] == [name(150, ".snapshot")]
    assert not plan.cuts
    assert plan.log_end == (300, 150)
    carry_out(plan)
    assert not codes(top, path)


def test_an_offset_that_nothing_reaches(top: Path) -> None:
    plan = planned(top, write(top), 200)
    assert not plan.steps
    assert plan.notes == ("no batch reaches offset 200",)


def test_damage_right_before_the_offset_goes_too(top: Path) -> None:
    plan = planned(top, write(top, FLIPPED), 40)
    assert cut_of(plan).size == 3 * _BATCH
    assert plan.loss.unreadable.count == 10


def test_damage_below_the_offset_stays(top: Path) -> None:
    path = write(top, FLIPPED)
    plan = planned(top, path, 60)
    assert cut_of(plan).size == 6 * _BATCH
    assert (plan.loss.sound.count, plan.loss.unreadable.count) == (140, 0)
    assert any("stays corrupt at position" in note for note in plan.notes)


def test_a_torn_tail_of_a_segment_that_is_the_last_one_then(top: Path) -> None:
    sound = batches(FIRST)
    path = write(top, [*sound[:9], sound[9][:50]])
    plan = planned(top, path, 95)
    assert cut_of(plan).size == 9 * _BATCH
    assert plan.log_end == (200, 90)
    carry_out(plan)
    assert not codes(top, path)


def test_disorder_is_cut_where_somebody_asks_for_it(top: Path) -> None:
    path = recipe("twice").write(top)
    plan = planned(top, path, 35)
    assert cut_of(plan).size == 3 * _BATCH
    carry_out(plan)
    assert not codes(top, path)


@pytest.mark.parametrize("at", [6, -1])
def test_an_offset_below_the_log_start(top: Path, at: int) -> None:
    path = write(top, log_start=7)
    with pytest.raises(UsageError, match="from 7 on"):
        planned(top, path, at)


def test_an_offset_below_the_first_segment(top: Path) -> None:
    path = forge.write_partition(top, "topic", 0, {100: SOUND[100]})
    with pytest.raises(UsageError, match="from 100 on"):
        planned(top, path, 99)


# --- refusals


def test_a_batch_that_reads_differently_the_next_time(top: Path) -> None:
    path = write(top, FLIPPED)
    found = verdict(top, path)
    log = path / name(FIRST, ".log")
    before = log.stat()
    for data in (batches(FIRST)[3], flip(batches(FIRST)[3], -2), bytes(len(batches(FIRST)[3]))):
        whole = bytearray(log.read_bytes())
        whole[3 * _BATCH : 4 * _BATCH] = data
        log.write_bytes(whole)
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(Refused, match="unstable-read"):
            plan_truncate(found, at=None, arguments=())


def test_a_sound_batch_that_reads_differently_the_next_time(top: Path) -> None:
    path = write(top)
    found = verdict(top, path)
    log = path / name(LAST, ".log")
    before = log.stat()
    log.write_bytes(b"".join([*batches(LAST)[:5], flip(batches(LAST)[5], -1), *batches(LAST)[6:]]))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Refused, match="unstable-read"):
        plan_truncate(found, at=160, arguments=())


def test_a_log_that_has_changed_since(top: Path) -> None:
    path = write(top, FLIPPED)
    found = verdict(top, path)
    with (path / name(LAST, ".log")).open("ab") as file:
        file.write(b"more")
    with pytest.raises(SourceError, match="found that it changed"):
        plan_truncate(found, at=None, arguments=())


@pytest.mark.parametrize("file", [name(FIRST, ".log.swap"), name(FIRST, ".index.swap")])
def test_amid_a_swap(top: Path, file: str) -> None:
    path = write(top, FLIPPED, None, {file: b""})
    with pytest.raises(Refused, match="let a broker finish"):
        planned(top, path)


def test_amid_a_swap_what_is_sound_needs_nothing(top: Path) -> None:
    path = forge.write_partition(top, "topic", 0, SOUND, files={name(FIRST, ".log.swap"): b""})
    assert planned(top, path).steps == ()


def test_the_metadata_of_a_cluster(top: Path) -> None:
    path = forge.write_partition(top, "__cluster_metadata", 0, {0: FLIPPED})
    with pytest.raises(Refused, match="quorum"):
        planned(top, path)


def test_a_log_with_remote_storage_is_cut_at_what_is_on_disk(top: Path) -> None:
    """Its log start lies below the first segment, in remote storage."""
    path = write(top, log_start=FIRST + 30)
    for file in path.glob(f"{FIRST:020}.*"):
        file.unlink()
    found = verdict(top, path)
    assert found.facts is not None
    settings = replace(found.facts.settings, remote_storage=True)
    found = replace(found, facts=replace(found.facts, settings=settings))
    with pytest.raises(UsageError, match=f"from {LAST} on"):
        plan_truncate(found, at=FIRST + 50, arguments=())
    assert plan_truncate(found, at=LAST + 10, arguments=()).log_start == LAST


def test_a_segment_alone_or_a_partition_not_read_whole(top: Path) -> None:
    path = write(top, FLIPPED)
    found = verdict(top, path)
    with pytest.raises(UsageError, match="expected a partition directory"):
        plan_truncate(replace(found, facts=None), at=None, arguments=())
    with pytest.raises(Refused, match=name(FIRST, ".log")):
        plan_truncate(replace(found, surveys=found.surveys[1:]), at=None, arguments=())
    first, last = found.surveys
    unread = (ReadFailure(last.segment.log, False, "cannot be read"),)
    surveys = (first, replace(last, unread=unread, recovered=None))
    with pytest.raises(Refused, match=name(LAST, ".log")):
        plan_truncate(replace(found, surveys=surveys), at=None, arguments=())
    with pytest.raises(SourceError):
        gone = replace(found.target, error=SourceError(path, "gone"))
        plan_truncate(replace(found, target=gone), at=None, arguments=())


@pytest.mark.parametrize(
    "files",
    [
        {name(FIRST, ".index"): None},
        {name(FIRST, ".txnindex"): txn_index([(7, -5, -1, 0)])},
    ],
)
def test_a_log_that_a_broker_cuts_alone(top: Path, files: Mapping[str, bytes | None]) -> None:
    path = write(top, FLIPPED, None, files)
    with pytest.raises(Refused, match="--at 30"):
        planned(top, path)
    assert cut_of(planned(top, path, 30)).size == 3 * _BATCH


def test_a_last_log_without_an_index(top: Path) -> None:
    sound = batches(LAST)
    path = write(top, None, [*sound[:9], sound[9][:50]], {name(LAST, ".index"): None})
    plan = planned(top, path)
    assert cut_of(plan).size == 9 * _BATCH
    assert name(LAST, ".index") not in [
        step.name for step in plan.steps if isinstance(step, Remove)
    ]
    carry_out(plan)
    assert not codes(top, path)


def test_a_partition_without_segments(top: Path) -> None:
    path = forge.write_partition(top, "topic", 0, {})
    plan = planned(top, path)
    assert not plan.steps
    assert plan.files.keys() == {_EPOCHS, "partition.metadata"}
