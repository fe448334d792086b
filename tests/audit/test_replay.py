"""replay(): the same as real brokers wrote into their snapshots, indexes and epoch checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.audit.replay.replay import Doubt, Replay, ViolationKind, replay
from kdump.audit.survey.survey import Survey, survey
from kdump.format.checkpoint import decode_epochs
from kdump.format.index import AbortedTxn, TransactionIndex
from kdump.format.snapshot import ProducerEntry, decode_snapshot
from kdump.storage.access import open_source
from kdump.storage.logdir import Partition, read_partition
from kdump.storage.names import FileKind
from kdump.storage.paths import as_local
from kdump.storage.walk import Damage, walk
from support.damaged import LAST
from support.fixtures_loader import FIXTURES, partitions
from support.forge import TIMESTAMP, batch, flip, marker, record, write_partition
from support.recipes_producers import AT_100, AT_END, END, SOUND_FIRST, SOUND_LAST, data, end, plain

#: With producers, and a cleaner that kept its hands off.
KEPT = [
    path
    for name in FIXTURES
    if int(name[0]) > 0
    for path in partitions(name)
    if not path.name.startswith(("compacted", "__transaction_state"))
]


def of(directory: Path) -> Replay:
    return replay(surveys(read_partition(directory)))


def surveys(partition: Partition) -> list[Survey]:
    return [
        survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
        for segment in partition.segments
    ]


def snapshots(partition: Partition) -> dict[int, Path]:
    found = {segment.base_offset: segment.snapshot for segment in partition.segments}
    for entry in partition.entries:
        if entry.name.kind is FileKind.SNAPSHOT and entry.name.base_offset is not None:
            found[entry.name.base_offset] = entry.path
    return {offset: as_local(path) for offset, path in found.items() if path is not None}


def without_times(entries: list[ProducerEntry]) -> set[ProducerEntry]:
    """Old brokers leave the timestamps of markers out."""
    return {entry._replace(timestamp=0) for entry in entries}


def cut(directory: Path, offset: int, target: Path) -> Path:
    """A copy of the logs of ``directory`` that ends before ``offset``."""
    target = target / directory.name
    target.mkdir(parents=True)
    for segment in read_partition(directory).segments:
        if segment.base_offset >= offset:
            continue
        copy = target / segment.log.name
        shutil.copyfile(segment.log, copy)
        with open_source(segment.log, mapped=False) as source:
            batches = [
                batch
                for piece in walk(source, segment.base_offset)
                if not isinstance(piece, Damage)
                for batch in piece
            ]
        remaining = [batch for batch in batches if batch.last_offset < offset]
        with copy.open("r+b") as file:
            file.truncate(remaining[-1].position + remaining[-1].size if remaining else 0)
    return target


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_replay_knows_the_producers_that_a_broker_knew(path: Path, tmp_path: Path) -> None:
    partition = read_partition(path)
    whole = of(path)
    states = {offset: list(state.values()) for offset, state in whole.states()}
    for offset, file in snapshots(partition).items():
        if offset not in states and offset < whole.end_offset:  # from a stop in mid-segment
            copy = of(cut(path, offset, tmp_path / str(offset)))
            states |= {at: list(state.values()) for at, state in copy.states()}
        if offset in states:
            first = partition.segments[0].base_offset
            # What retention and DeleteRecords took away only the broker remembers.
            broker = [
                entry
                for entry in decode_snapshot(file.read_bytes())
                if entry.last_offset < 0 or entry.last_offset >= first
            ]
            assert without_times(broker) == without_times(states[offset])
            if "1.1.1" not in path.parts:
                assert set(broker) == set(states[offset])


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_replay_aborts_what_a_broker_aborted(path: Path) -> None:
    for segment in of(path).segments:
        file = segment.survey.segment.txn_index
        entries = (
            () if file is None else TransactionIndex.decode(as_local(file).read_bytes()).entries
        )
        assert segment.aborted == entries


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_replay_finds_the_epochs_that_a_broker_assigned(path: Path) -> None:
    file = path / "leader-epoch-checkpoint"
    # Older formats clear the file, and DeleteRecords moves its first entry.
    if not file.exists() or path.name.startswith(("formats", "deleted-records")):
        return
    found = of(path)
    written = decode_epochs(file.read_bytes())
    assert list(found.epochs) == [
        entry for entry in written if entry.start_offset < found.end_offset
    ]


def test_the_corpus_has_something_to_compare() -> None:
    assert sum(len(snapshots(read_partition(path))) for path in KEPT) > 300
    assert sum(bool(found.aborted) for path in KEPT for found in of(path).segments) > 30


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., Replay]:
    """``history(first, last, start=())``: the replay of two segments, at 0 and 100."""

    def of(first: list[bytes], last: list[bytes], start: tuple[ProducerEntry, ...] = ()) -> Replay:
        directory = write_partition(tmp_path, "topic", 0, {0: first, LAST: last})
        return replay(surveys(read_partition(directory)), start)

    return of


History = Callable[..., Replay]


def fields_of(state: list[ProducerEntry]) -> list[tuple[int, ...]]:
    return sorted(
        (
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            0,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in state
    )


def untimed(entries: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    return sorted((*entry[:5], 0, *entry[6:]) for entry in entries)


def test_states_are_those_before_each_segment_and_at_the_end(history: History) -> None:
    found = history(list(SOUND_FIRST), list(SOUND_LAST))
    states = [(offset, fields_of(list(state.values()))) for offset, state in found.states()]
    assert states == [(0, []), (100, untimed(AT_100)), (END, untimed(AT_END))]
    assert [segment.committed for segment in found.segments] == [1, 1]
    assert found.open == ()


def test_a_replay_goes_on_from_what_is_known_before(history: History) -> None:
    """Aborts of transactions that began there, and the oldest of them, which stays open."""
    start = tuple(
        ProducerEntry(producer, 0, 4, first + 4, 4, TIMESTAMP, -1, first)
        for producer, first in ((7, -20), (8, -10), (9, -30))
    )
    start = tuple(
        entry._replace(current_txn_first_offset=entry.last_offset + 60) for entry in start
    )
    found = history([end(40, 7), data(50, 8, 5)], [end(100, 8)], start)
    first, last = (segment.aborted for segment in found.segments)
    assert first == (AbortedTxn(0, 7, 44, 40, 34),)
    assert last == (AbortedTxn(0, 8, 54, 100, 34),)
    assert [(transaction.producer_id, transaction.first_offset) for transaction in found.open] == [
        (9, 34)
    ]


def test_a_marker_of_a_new_epoch_leaves_no_batch(history: History) -> None:
    found = history([data(10, 7, 0), end(15, 7, epoch=1, commit=True)], [plain(100)])
    *_, (_, state) = found.states()
    assert fields_of(list(state.values())) == [(7, 1, -1, -1, 0, 0, 0, -1)]


def test_a_marker_of_the_same_epoch_keeps_the_batch_and_sets_the_time(history: History) -> None:
    found = history([data(10, 7, 0), end(15, 7, commit=True)], [plain(100)])
    *_, (_, state) = found.states()
    assert state[7].timestamp == TIMESTAMP + 15
    assert state[7].last_offset == 14


def test_data_after_a_marker_sets_the_time_again(history: History) -> None:
    found = history([data(10, 7, 0), end(15, 7, commit=True), data(20, 7, 5)], [plain(100)])
    *_, (_, state) = found.states()
    assert state[7].timestamp == TIMESTAMP + 20
    assert [transaction.first_offset for transaction in found.open] == [20]


def test_many_producers_at_once(history: History) -> None:
    """More than there is room for at first, with ids that share their low bits."""
    ids = [number << 40 for number in range(60)]
    found = history(
        [],
        [
            batch(
                100 + 5 * number,
                [record()] * 5,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            for number, producer in enumerate(ids)
        ]
        + [marker(500 + number, producer, commit=False) for number, producer in enumerate(ids)],
    )
    (_, last) = found.segments
    assert [transaction.producer_id for transaction in last.aborted] == ids
    assert [transaction.last_stable_offset for transaction in last.aborted] == [
        *range(105, 400, 5),
        560,
    ]
    assert len(list(last.producers())) == 60


@pytest.mark.parametrize(
    ("first", "doubt"),
    [
        ([plain(0), plain(10)], None),
        ([plain(0), flip(plain(10), -1), plain(20)], Doubt(5, 19)),
        ([plain(0), flip(plain(10), -1)], Doubt(5, 99)),
        ([plain(0), plain(10)[:-3]], Doubt(5, 99)),
        ([plain(10), plain(0)], Doubt(0, 99)),
        ([plain(0), *[flip(plain(at), -1) for at in range(5, 95, 5)]], Doubt(5, 99)),
    ],
)
def test_doubt_reaches_over_what_damage_hides(
    tmp_path: Path, first: list[bytes], doubt: Doubt | None
) -> None:
    logs = {f"{0:020d}.log": b"".join(first)}
    directory = write_partition(tmp_path, "topic", 0, {0: [], LAST: [plain(100)]}, files=logs)
    assert of(directory).doubt == doubt


@pytest.mark.parametrize(
    ("tail", "doubt"),
    [
        (plain(105)[:-3], None),
        (bytes(300), None),
        (flip(plain(105), -1), Doubt(105, None)),
    ],
)
def test_a_torn_tail_hides_nothing(tmp_path: Path, tail: bytes, doubt: Doubt | None) -> None:
    logs = {f"{LAST:020d}.log": plain(100) + tail}
    directory = write_partition(tmp_path, "topic", 0, {0: [], LAST: []}, files=logs)
    assert of(directory).doubt == doubt


@pytest.mark.parametrize(
    ("first", "compacted", "doubt"),
    [
        ([plain(0)], False, Doubt(5, 99)),
        ([], False, Doubt(0, 99)),
        ([plain(0), plain(95)], False, Doubt(5, 94)),
        ([plain(0), plain(95)], None, None),
        ([plain(0)], None, None),
        ([plain(0)], True, None),
    ],
)
def test_a_gap_hides_something_if_nothing_is_compacted(
    tmp_path: Path, first: list[bytes], compacted: bool | None, doubt: Doubt | None
) -> None:
    directory = write_partition(tmp_path, "topic", 0, {0: first, LAST: [plain(100)]})
    found = surveys(read_partition(directory))
    assert replay(found, compacted=compacted).doubt == doubt


def test_what_lies_to_one_side_of_a_doubt_is_certain() -> None:
    doubt = Doubt(10, 19)
    assert doubt.spares(0, 9)
    assert doubt.spares(20, 30)
    assert not doubt.spares(0, 10)
    assert not doubt.spares(19, 30)
    assert not Doubt(10, None).spares(20, 30)


def test_violations_are_listed_up_to_a_cap_and_all_counted(history: History) -> None:
    odd = [marker(at, 7, commit=False) for at in range(20)]
    odd = [
        batch(at, [record(b"\0\0", b"\0\0\0\1")], producer_id=7, control=True) for at in range(20)
    ]
    found = history(odd, [plain(100)])
    (first, _) = found.segments
    assert first.counts[ViolationKind.CONTROL_FATAL] == 20
    assert [violation.offset for violation in first.violations] == list(range(8))
