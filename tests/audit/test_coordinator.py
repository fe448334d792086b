"""The coordinator's log as evidence: what became of transactions whose marker damage has taken."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.replay.fates import HIGHEST, Fate, FateEvidence, Mark, decide
from kdump.format.kernel import producers as _producers
from support import forge
from support.commands import kdump
from support.forge import TOPIC_ID
from support.forge_metadata import log as metadata_log
from support.forge_metadata import partition, topic
from support.forge_transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    entry,
    state,
    transaction_log,
)

PRODUCER = 7
HERE = [("orders", 3)]


def written(offset: int, epoch: int) -> bytes:
    """A transactional batch of two records."""
    return forge.batch(
        offset,
        [forge.record(b"%d" % at) for at in (offset, offset + 1)],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )


def broken(data: bytes) -> bytes:
    return forge.flip(data, len(data) - 1)


def ran(epoch: int, *, commit: bool, places: Sequence[tuple[str, int]] = HERE) -> list[bytes]:
    """What a coordinator writes of a transaction since KIP-890: its end is of the next epoch."""
    prepared, complete = (
        (PREPARE_COMMIT, COMPLETE_COMMIT) if commit else (PREPARE_ABORT, COMPLETE_ABORT)
    )
    return [
        state(PRODUCER, epoch, ONGOING, places),
        state(PRODUCER, epoch + 1, prepared, places),
        state(PRODUCER, epoch + 1, complete),
    ]


def begun(epoch: int = 0) -> bytes:
    return state(PRODUCER, epoch, EMPTY)


def log_directory(
    directory: Path, values: Sequence[bytes | None], batches: Sequence[bytes] | None = None
) -> Path:
    """A log directory with a partition, whose last marker is lost, and the coordinator's log."""
    directory.mkdir()
    (directory / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    transaction_log(directory, values)
    if batches is None:
        batches = [
            written(0, 0),
            forge.marker(2, PRODUCER, 1, commit=True),
            written(3, 1),
            broken(forge.marker(5, PRODUCER, 2, commit=True)),
            forge.batch(6, [forge.record()]),
        ]
    return forge.write_partition(directory, "orders", 3, {0: batches})


def ends(path: Path, output: Path) -> list[dict[str, Any]]:
    (receipt,) = kdump("salvage", path, "--output", output).of("receipt")
    found: list[dict[str, Any]] = receipt["transaction_ends"]
    return found


@pytest.mark.parametrize(("commit", "fate"), [(True, "committed"), (False, "aborted")])
def test_the_coordinator_decides_where_nothing_beside_the_log_does(
    commit: bool, fate: str, tmp_path: Path
) -> None:
    values = [begun(), *ran(0, commit=not commit), *ran(1, commit=commit)]
    path = log_directory(tmp_path / "data", values)
    (end,) = ends(path, tmp_path / "out")
    assert (end["first_offset"], end["marker_offset"]) == (3, 5)
    assert (end["fate"], end["read_committed"], end["code"]) == (fate, commit, None)
    found = {line["code"] for line in kdump("verify", path).of("finding")}
    assert "transaction-end-lost" not in found
    assert "batch-crc-mismatch" in found


#: What leaves the transaction with epoch 1 undecided, and why.
UNDECIDED: dict[str, list[bytes | None]] = {
    "its last entry may not be replicated": [
        *(begun(), *ran(0, commit=True)),
        *ran(1, commit=True)[:2],
    ],
    "it is ongoing": [begun(), *ran(0, commit=True), *ran(1, commit=True)[:1]],
    "it does not name the partition": [
        *(begun(), *ran(0, commit=True)),
        *ran(1, commit=True, places=[("orders", 4), ("others", 3)]),
    ],
    "the epoch may have begun before": [*ran(1, commit=True)],
    "the coordinator does not know the producer": [],
    "the id has expired, and entries were cleaned": [*ran(1, commit=True), None],
}


@pytest.mark.parametrize("values", UNDECIDED.values(), ids=UNDECIDED)
def test_what_the_coordinator_cannot_decide_stays_undecided(
    values: list[bytes | None], tmp_path: Path
) -> None:
    path = log_directory(tmp_path / "data", values)
    (end,) = ends(path, tmp_path / "out")
    assert (end["fate"], end["code"]) == ("undecided", "transaction-end-lost")
    assert "transaction-end-lost" in {line["code"] for line in kdump("verify", path).of("finding")}


def plain(epoch: int, *, commit: bool) -> list[bytes]:
    """What a coordinator writes of a transaction before KIP-890: its epoch goes on."""
    prepared, complete = (
        (PREPARE_COMMIT, COMPLETE_COMMIT) if commit else (PREPARE_ABORT, COMPLETE_ABORT)
    )
    return [
        state(PRODUCER, epoch, ONGOING, HERE, version=0),
        state(PRODUCER, epoch, prepared, HERE, version=0),
        state(PRODUCER, epoch, complete, version=0),
    ]


@pytest.mark.parametrize(
    ("first", "second", "over", "fate"),
    [
        (True, True, True, "committed"),
        (False, False, True, "aborted"),
        (True, False, True, "undecided"),
        (True, True, False, "undecided"),
    ],
)
def test_transactions_of_one_epoch_decide_where_they_ended_the_same_way(
    first: bool, second: bool, over: bool, fate: str, tmp_path: Path
) -> None:
    values = [begun(), *plain(0, commit=first), *plain(0, commit=second)]
    if over:
        values += [begun(1), *plain(1, commit=True)]
    batches = [
        *(written(0, 0), forge.marker(2, PRODUCER, 0, commit=first)),
        *(written(3, 0), broken(forge.marker(5, PRODUCER, 0, commit=second))),
    ]
    path = log_directory(tmp_path / "data", values, batches)
    (end,) = ends(path, tmp_path / "out")
    assert end["fate"] == fate


@pytest.mark.parametrize("number", range(7))
def test_damage_in_the_coordinators_log_decides_nothing_wrong(number: int, tmp_path: Path) -> None:
    """An epoch needs all of its entries, one before, and one after."""
    values = [begun(), *ran(0, commit=False), *ran(1, commit=True)]
    path = log_directory(tmp_path / "data", values)
    log = tmp_path / "data" / "__transaction_state-0" / f"{0:020d}.log"
    size = [len(entry(at, "app", value)) for at, value in enumerate(values)]
    log.write_bytes(forge.flip(log.read_bytes(), sum(size[: number + 1]) - 1))
    (end,) = ends(path, tmp_path / "out")
    # Entry 1 is of the epoch before, 2 to 5 are its own, and 6 shows that these were replicated.
    assert end["fate"] == ("committed" if number < 1 else "undecided")


def test_a_producers_next_marker_is_not_taken_for_one_of_another_epoch(tmp_path: Path) -> None:
    """The abort at 8 is of the transaction from 6 on: the one from 3 on was committed."""
    batches = [
        *(written(0, 0), forge.marker(2, PRODUCER, 1, commit=True)),
        *(written(3, 1), broken(forge.marker(5, PRODUCER, 2, commit=True))),
        *(written(6, 2), forge.marker(8, PRODUCER, 3, commit=False)),
    ]
    values = [begun(), *ran(0, commit=True), *ran(1, commit=True), *ran(2, commit=False)]
    path = log_directory(tmp_path / "data", values, batches)
    (end,) = ends(path, tmp_path / "out")
    assert (end["fate"], end["marker_offset"], end["read_committed"]) == ("committed", 5, True)
    index = tmp_path / "out" / "orders-3" / f"{0:020d}.txnindex"
    assert index.read_bytes() == forge.txn_index([(PRODUCER, 6, 8, 9)])


def test_the_coordinator_is_not_read_where_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the coordinator's log was read")

    batches = [written(0, 0), forge.marker(2, PRODUCER, 1, commit=True)]
    path = log_directory(tmp_path / "data", [begun(), *ran(0, commit=True)], batches)
    monkeypatch.setattr("kdump.audit.facts.coordinator.Coordinator.histories", read)
    assert kdump("verify", path).code == 0


class Simulated:
    """Transactions of some producers in a partition, as it and the coordinator see them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values: list[tuple[str, bytes | None]] = []
        self.log: list[tuple[int, int, int, int]] = []  # kind (-1: data), producer, epoch, truth
        self.fates: list[bool | None] = []
        self.producers = [Producer(number, rng.random() < 0.5) for number in range(3)]

    def run(self, steps: int) -> None:
        for producer in self.producers:
            self.write(producer, EMPTY)
        for _ in range(steps):
            self.step(self.rng.choice(self.producers))

    def write(self, producer: Producer, status: int) -> None:
        named = status in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
        places = sorted(producer.places) if named else []
        value = state(producer.number, producer.epoch, status, places)
        self.values.append((f"app-{producer.number}", value))

    def step(self, producer: Producer) -> None:
        if producer.truth is None:
            if self.rng.random() < 0.2:
                producer.epoch += 1
                self.write(producer, EMPTY)
                return
            self.fates.append(None)
            producer.truth = len(self.fates) - 1
            producer.places = {("others", 0)} if self.rng.random() < 0.2 else set(HERE)
            self.write(producer, ONGOING)
        elif self.rng.random() < 0.6 and HERE[0] in producer.places:
            self.log.append((-1, producer.number, producer.epoch, producer.truth))
        elif self.rng.random() < 0.2:
            producer.places |= set(HERE)
            self.write(producer, ONGOING)
        else:
            self.end(producer)

    def end(self, producer: Producer) -> None:
        commit = self.rng.random() < 0.7
        assert producer.truth is not None
        self.fates[producer.truth] = commit
        producer.epoch += not producer.plain
        self.write(producer, PREPARE_COMMIT if commit else PREPARE_ABORT)
        if HERE[0] in producer.places:
            kind = _producers.COMMIT if commit else _producers.ABORT
            self.log.append((kind, producer.number, producer.epoch, producer.truth))
        self.write(producer, COMPLETE_COMMIT if commit else COMPLETE_ABORT)
        producer.truth = None

    def coordinator(self, directory: Path) -> Coordinator:
        """Its log, of which some entries are cleaned away, damaged, or not there yet."""
        values = list(self.values)
        if self.rng.random() < 0.5:
            # The last entry was not replicated, and the transaction ended otherwise.
            ends = [at for at, (_, value) in enumerate(values) if otherwise(value) != value]
            del values[self.rng.choice(ends or [0]) + 1 :]
            name, value = values[-1]
            values[-1] = name, otherwise(value)
        last = {name: at for at, (name, _) in enumerate(values)}
        cleaned = self.rng.randrange(len(values)) if self.rng.random() < 0.5 else 0
        batches = [
            entry(at, name, value)
            for at, (name, value) in enumerate(values)
            if at >= cleaned or at == last[name] or self.rng.random() < 0.7
        ]
        for _ in range(self.rng.randrange(3)):
            if batches:
                at = self.rng.randrange(len(batches))
                batches[at] = broken(batches[at])
        forge.write_partition(directory, "__transaction_state", 0, {0: batches})
        return Coordinator((directory / "__transaction_state-0",), whole=True)


def otherwise(value: bytes | None) -> bytes | None:
    """A value in which a commit is an abort, and the other way round."""
    status = 0 if value is None else value[16]
    if value is None or status not in (PREPARE_COMMIT, PREPARE_ABORT):
        return value
    return value[:16] + bytes([PREPARE_COMMIT + PREPARE_ABORT - status]) + value[17:]


@dataclass
class Producer:
    number: int
    plain: bool  # its epoch goes on behind the end of a transaction
    epoch: int = 0
    truth: int | None = None
    places: set[tuple[str, int]] = field(default_factory=set)


def test_no_transaction_is_decided_wrongly(tmp_path: Path) -> None:
    """Whatever is cleaned, damaged or late in the coordinator's log."""
    decided = sum(decided_rightly(random.Random(seed), tmp_path / str(seed)) for seed in range(150))
    assert decided > 300


def decided_rightly(rng: random.Random, directory: Path) -> int:
    """How many transactions of a random log the coordinator's log decides."""
    simulated = Simulated(rng)
    simulated.run(150)
    coordinator = simulated.coordinator(directory)
    log, missing = simulated.log, list(gaps(rng, len(simulated.log)))
    marks: list[Mark] = []
    truths: dict[tuple[int, int], int] = {}
    running: dict[int, int] = {}
    for offset, (kind, producer, epoch, truth) in enumerate(log):
        if any(first <= offset <= last for first, last in missing):
            running.clear()
        elif kind >= 0:
            marks.append(Mark(offset, kind, producer, epoch))
            running.pop(producer, None)
        elif producer not in running:
            marks.append(Mark(offset, _producers.BEGIN, producer, epoch))
            truths[producer, offset] = truth
            running[producer] = offset
    ends = decide(marks, missing, FateEvidence({}, {}, coordinator, HERE[0]))
    found = {
        (end.producer, end.begin): end.fate is Fate.COMMITTED
        for end in ends
        if end.fate is not Fate.UNDECIDED
    }
    listed = {(end.producer, end.begin): end.first for end in ends}
    # Those that are in no list go on over missing offsets up to a marker that is their own.
    running.clear()
    for mark in marks:
        began = running.get(mark.producer)
        if mark.kind == _producers.BEGIN:
            if began is None or listed.get((mark.producer, began), HIGHEST) < mark.offset:
                running[mark.producer] = mark.offset
            continue
        running.pop(mark.producer, None)
        if (
            began is not None
            and (mark.producer, began) not in listed
            and any(began < first < mark.offset for first, _ in missing)
        ):
            found[mark.producer, began] = mark.kind == _producers.COMMIT
    for key, committed in found.items():
        assert committed == simulated.fates[truths[key]], key
    return len(found)


def gaps(rng: random.Random, end: int) -> Iterator[tuple[int, int]]:
    """Missing offsets of a log; the last of them may be all up to its end."""
    at = rng.randrange(1, 8)
    while at < end:
        last = at + rng.randrange(3)
        yield at, last if last < end - 1 else HIGHEST
        at = last + rng.randrange(2, 12)


@pytest.mark.parametrize(
    ("values", "partitions", "code"),
    [
        ([state(PRODUCER, 1, ONGOING, HERE)], 2, "transaction-open"),
        ([state(PRODUCER, 2, PREPARE_ABORT, HERE)], 1, "transaction-open"),
        ([state(PRODUCER, 1, ONGOING, [("orders", 4)])], 1, "transaction-hanging"),
        ([state(PRODUCER, 2, COMPLETE_ABORT)], 1, "transaction-hanging"),
        ([state(PRODUCER, 1, ONGOING, HERE), None], 1, "transaction-hanging"),
        ([], 1, "transaction-hanging"),
        ([], 2, "transaction-late"),  # another partition may have it
    ],
)
def test_a_late_transaction_hangs_if_its_coordinator_does_not_have_it(
    values: list[bytes | None], partitions: int, code: str, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    path = log_directory(directory, values, [written(0, 1), forge.batch(2, [forge.record()])])
    (log,) = path.glob("*.log")
    os.utime(log, (0, 0))
    records = [topic("__transaction_state", TOPIC_ID)]
    records += [partition(TOPIC_ID, number) for number in range(partitions)]
    metadata = {f"{0:020d}.log": metadata_log(records)}
    forge.write_partition(directory, "__cluster_metadata", 0, {}, files=metadata)
    found = kdump("verify", path).of("finding")
    assert [finding["code"] for finding in found if finding["code"].startswith("transaction")] == [
        code
    ]


def test_damage_after_the_last_entry_leaves_it_open_whether_a_transaction_hangs(
    tmp_path: Path,
) -> None:
    values = [state(PRODUCER, 2, COMPLETE_ABORT), state(PRODUCER, 2, ONGOING, HERE)]
    path = log_directory(tmp_path / "data", values, [written(0, 2)])
    log = tmp_path / "data" / "__transaction_state-0" / f"{0:020d}.log"
    log.write_bytes(broken(log.read_bytes()))
    (only,) = path.glob("*.log")
    os.utime(only, (0, 0))
    found = {line["code"] for line in kdump("verify", path).of("finding")}
    assert {"transaction-late", "transaction-hanging"} & found == {"transaction-late"}
