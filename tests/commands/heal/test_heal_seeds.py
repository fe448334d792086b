"""``kdump heal`` against a generator that knows everything: seeded damage in several copies.

What any copy has is back at its place; nothing else is ever written; what none has stays.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kdump.repair.transaction.apply import apply
from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, batch_bytes, walk
from support.long_samples import first_of, wrong_seeds
from support.planning import healing, left, undone
from support.torn_copies import Copy, Log, damaged_copy, epoch_file, parted_log, random_log

pytestmark = pytest.mark.usefixtures("unsearched")

FEW, MANY = 12, 300


def sound(directory: Path) -> dict[int, bytes]:
    """The batches of all logs by base offset, but those that a search has found."""
    found: dict[int, bytes] = {}
    for path in sorted(directory.glob("*.log")):
        with WindowedFile(path) as source:
            for piece in walk(source, int(path.stem)):
                if not isinstance(piece, Damage) and not piece.hunted:
                    found |= {
                        batch.base_offset: bytes(batch_bytes(source, batch)) for batch in piece
                    }
    return found


def wrong(seed: int, place: Path) -> list[str]:
    """What is wrong after copies of one seed have healed a partition, and after the undo."""
    rng = random.Random(seed)
    log = random_log(rng)
    files = {"leader-epoch-checkpoint": epoch_file(log)}
    own = damaged_copy(log, rng, rng.randrange(1, 6), covered=True)
    copies = []
    for _ in range(rng.randrange(1, 3)):
        split = log.with_other_borders(rng) if rng.random() < 0.3 else log
        copies.append(damaged_copy(split, rng, rng.randrange(4)))
    (place / "server.properties").write_text("log.index.interval.bytes=300\n")
    partition = own.write(place / "own", files)
    paths = [copy.write(place / f"copy{number}", files) for number, copy in enumerate(copies)]
    before, beside = left(place / "own"), [left(path) for path in paths]
    made = healing(partition, *paths)
    if made.plan.steps:
        apply(made.plan, assume_stopped=True)
    found = compared(log, own, copies, partition, complete=made.complete)
    if [left(path) for path in paths] != beside:
        found.append("a copy has changed")
    again = healing(partition, *paths)
    if any(step.name.endswith(".log") for step in again.plan.puts):
        found.append(f"a second run goes on: {again.plan.notes}")
    if made.plan.steps:
        undone(partition, made.plan)
        if left(place / "own") != before:
            found.append("the undo leaves something else")
    return found


def compared(
    log: Log, own: Copy, copies: list[Copy], partition: Path, *, complete: bool
) -> list[str]:
    """What is wrong with a healed partition."""
    truth, now = log.batches, sound(partition)
    found = [f"other bytes at offset {base}" for base in now if now[base] != truth.get(base)]
    known = within_reach(log, own, own.has().union(*(given(own, copy) for copy in copies)))
    whole = b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
    found += [f"offset {base} is not back" for base in sorted(known) if truth[base] not in whole]
    if known == set(truth):
        if not complete:
            found.append("the plan says that something stays")
        if whole != b"".join(truth.values()):
            found.append("the logs are not those that were")
        for base, batches in log.segments.items():
            path = partition / f"{base:020d}.log"
            same = path.exists() and path.read_bytes() == b"".join(batches)
            if base in own.logs and all(copy.log is log for copy in copies) and not same:
                found.append(f"{path.name} is another one")
    elif complete and missing_within(log, {base for base in truth if truth[base] in whole}):
        found.append("the plan does not say what stays")
    return found


def given(own: Copy, copy: Copy) -> set[int]:
    """The batches that a copy surely has, where it also has a batch that shows their place.

    Between two batches of a log only such a one behind the damage does. At the end of a log the
    leader epochs do.
    """
    found = set()
    for base in copy.surely_has():
        inside, following = own.behind(base)
        if not inside or any(copy.leads(base, each) for each in (*inside, *following)):
            found.add(base)
    return found


def within_reach(log: Log, own: Copy, known: set[int]) -> set[int]:
    """The batches of ``known`` without those behind a gap at the end: no follower has such ones."""
    last = max(own.has(), default=min(log.batches))
    for base in log.batches:
        if base > last and base not in known:
            return {each for each in known if each < base}
    return known


def missing_within(log: Log, known: set[int]) -> list[int]:
    """The batches that none has between the first and the last one that any has."""
    first, last = min(known, default=0), max(known, default=0)
    return [base for base in log.batches if first <= base <= last and base not in known]


@pytest.mark.parametrize("seed", first_of(range(FEW), 6, every=1))
def test_what_a_copy_has_is_back(seed: int, place: Path) -> None:
    assert wrong(seed, place) == []


@pytest.mark.nightly
def test_what_a_copy_has_is_back_in_many_seeds(place: Path) -> None:
    assert wrong_seeds(wrong, place, FEW, MANY) == {}


# --- copies that part


def wrong_of_parted(seed: int, place: Path) -> list[str]:
    """What is wrong after copies that part from a partition have healed it.

    Its checkpoint is its own, that of such a copy, ends early, or is missing. Behind the end of the
    partition a follower takes what there is.
    """
    rng = random.Random(seed)
    log, other = parted_log(random_log(rng), rng)
    epochs = epoch_file(log)
    checkpoint = rng.choice((epochs, None, epoch_file(other), _shorter(epochs, rng)))
    own = damaged_copy(log, rng, rng.randrange(1, 6), covered=True)
    (place / "server.properties").write_text("log.index.interval.bytes=300\n")
    partition = own.write(place / "own", {"leader-epoch-checkpoint": checkpoint})
    paths = []
    for number in range(rng.randrange(1, 3)):
        files = {"leader-epoch-checkpoint": epoch_file(other) if rng.random() < 0.8 else None}
        copy = damaged_copy(other, rng, rng.randrange(3))
        paths.append(copy.write(place / f"copy{number}", files))
    end = max(sound(partition), default=-1)
    made = healing(partition, *paths)
    if made.plan.steps:
        apply(made.plan, assume_stopped=True)
    now, truth = sound(partition), log.batches
    return [
        f"offset {base} is of another lineage"
        for base, data in now.items()
        if data != truth.get(base) and (base <= end or (checkpoint == epochs and base < log.end))
    ]


def _shorter(checkpoint: bytes, rng: random.Random) -> bytes:
    """A checkpoint without its last entries."""
    version, count, *lines = checkpoint.splitlines(keepends=True)
    kept = lines[: rng.randrange(int(count) + 1)]
    return b"".join((version, b"%d\n" % len(kept), *kept))


@pytest.mark.parametrize("seed", first_of(range(FEW), 6, every=1))
def test_nothing_is_taken_of_another_lineage(seed: int, place: Path) -> None:
    assert wrong_of_parted(seed, place) == []


@pytest.mark.nightly
def test_nothing_is_taken_of_another_lineage_in_many_seeds(place: Path) -> None:
    assert wrong_seeds(wrong_of_parted, place, FEW, MANY) == {}
