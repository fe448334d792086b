"""Corrupt batches dropped in place: every valid batch stays, and nothing else does."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from commands.heal.forged_copies import broken
from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST, LAST
from commands.repair.repairing import (
    OTHERS,
    directory,
    goes_on_or_is_undone,
    left,
    lines,
    plan_id,
    repair,
    tree,
)
from kdump.ui import exits
from support import forge
from support.commands import kdump
from support.crashing.recorded import Recorded, record
from support.crashing.trees import Node, put
from support.damaged import name
from support.fixtures_loader import copy_fixture
from support.losses import NAMES, Losses, places

GOOD = damaged.whole()
DROP = ("--only-copy", "--only", "drop", "--only", "rebuild", "--only", "tail")
FEW, SLOW, ALL = 3, 6, 600
SEEDS = [
    *range(FEW),
    *(pytest.param(each, marks=pytest.mark.slow) for each in range(FEW, SLOW)),
    *(pytest.param(each, marks=pytest.mark.nightly) for each in range(SLOW, ALL)),
]


def dropped(*arguments: object) -> int:
    """Carry out the plan; the exit code."""
    return repair(*arguments, "--apply", "--confirm", plan_id(*arguments)).code


def complaints(*arguments: str | Path) -> set[str]:
    """The codes of what ``verify`` finds, but for notes."""
    found = kdump("verify", *arguments).of("finding")
    return {line["code"] for line in found if line["severity"] != "info"}


def offsets(partition: Path) -> set[int]:
    """The offsets of all valid batches."""
    logs = partition.glob("*.log")
    return {offset for log in logs for each in places(log) for offset in each.offsets}


def size_corrupt(batch: bytes) -> bytes:
    """The walk does not find the next batch by its size; its records are corrupt too."""
    return forge.flip(forge.flip(batch, 9), len(batch) - 1)


def zeroed(batch: bytes) -> bytes:
    return bytes(len(batch))


def shortened(batch: bytes) -> bytes:
    """Bytes amid the batch are missing in the log."""
    return batch[:70] + batch[90:]


def garbled(batch: bytes) -> bytes:
    return random.Random(len(batch)).randbytes(len(batch))


DAMAGES: Sequence[Callable[[bytes], bytes]] = (
    lambda batch: forge.flip(batch, len(batch) - 1),
    size_corrupt,
    zeroed,
    shortened,
    garbled,
)


@pytest.mark.parametrize("change", DAMAGES)
@pytest.mark.parametrize("numbers", [(0,), (3,), (18, 19), tuple(range(20))])
def test_the_valid_batches_stay_as_they_are(
    change: Callable[[bytes], bytes], numbers: Sequence[int], place: Path
) -> None:
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, GOOD, interval=300)
    first = [change(one) if at in numbers else one for at, one in enumerate(GOOD[FIRST])]
    (partition / name(FIRST, ".log")).write_bytes(b"".join(first))
    before = tree(data)
    assert left(data) == {"t-0": "valid batches follow corrupt ones"}
    agreed = plan_id("--only-copy", data)
    kept = b"".join(one for at, one in enumerate(GOOD[FIRST]) if at not in numbers)
    ran = repair("--only-copy", data, "--apply", "--confirm", agreed)
    assert ran.code == exits.OK, ran
    assert (data / "t-0" / name(FIRST, ".log")).read_bytes() == kept
    assert (data / "t-0" / name(LAST, ".log")).read_bytes() == b"".join(GOOD[LAST])
    assert complaints(data) == set()
    (start,) = kdump("next-start", "--scan", data).of("summary")
    assert start["exit"] == exits.OK
    assert repair("--only-copy", data).code == exits.OK  # nothing is left to do
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert tree(data) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_what_nobody_can_read_is_all_that_goes(seed: int, tmp_path: Path) -> None:
    """Logs of brokers, damaged at random: what is lost is known from before the damage."""
    rng = random.Random(seed)
    partition = rng.choice(NAMES)
    data = copy_fixture(rng.choice(["4.3.1/clean", "4.3.1/killed"]), tmp_path / "data")
    chosen = ("--topic", partition.rpartition("-")[0], data)
    was = offsets(data / partition)
    lost = Losses(seed, data / partition).lost
    assert offsets(data / partition) == was - lost
    before = tree(data)
    cures = lines(repair(*DROP, *chosen, "--format", "json"), "cure")
    stays = left(*DROP, *chosen)
    if not cures:
        assert stays or not lost
        return
    agreed = plan_id(*DROP, *chosen)
    ran = repair(*DROP, *chosen, "--apply", "--confirm", agreed)
    assert ran.code in (exits.OK, exits.INCOMPLETE)
    assert offsets(data / partition) == was - lost
    if cures[0]["cure"] == "drop" and ran.code == exits.OK:
        assert complaints(*chosen) == set()
        for log in (data / partition).glob("*.log"):
            assert sum(each.size for each in places(log)) == log.stat().st_size
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert content(tree(data)) == content(before)


def content(nodes: dict[str, Node]) -> dict[str, bytes | None]:
    """What the files hold: checkpoint files, which all partitions share, are written again."""
    return {path: node.content for path, node in nodes.items()}


def test_places_with_known_sizes_are_dropped_one_by_one(place: Path) -> None:
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, GOOD, interval=300)
    for base in (FIRST, LAST):
        damage = broken(broken(broken(GOOD[base], 0), 7), 19)
        (partition / name(base, ".log")).write_bytes(b"".join(damage))
    assert dropped("--only-copy", data) == exits.OK
    for base in (FIRST, LAST):
        kept = b"".join(one for at, one in enumerate(GOOD[base]) if at not in (0, 7, 19))
        assert (partition / name(base, ".log")).read_bytes() == kept
    assert complaints(data) == set()


def test_indexes_reach_the_end_of_the_log_again(place: Path) -> None:
    whole = [forge.batch(at, [forge.record(bytes(900))]) for at in range(150)]
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, {FIRST: whole, 150: whole[:1]})
    (partition / name(150, ".log")).write_bytes(forge.batch(150, [forge.record(b"last")]))
    index = partition / name(FIRST, ".index")
    entries = index.stat().st_size // 8
    (partition / name(FIRST, ".log")).write_bytes(b"".join(broken(whole, 10)))
    assert dropped("--only-copy", data) == exits.OK
    assert index.stat().st_size // 8 in (entries, entries - 1)
    assert untrue(partition) == set()


def corrupt(
    **topics: Sequence[bytes],
) -> dict[str, tuple[damaged.Segments, dict[str, bytes | None]]]:
    return {topic: ({FIRST: one, LAST: GOOD[LAST]}, {}) for topic, one in topics.items()}


def test_it_is_planned_for_the_only_copy_alone(place: Path) -> None:
    data = directory(place / "data", corrupt(t=broken(GOOD[FIRST], 3)))
    ran = repair(data, "--format", "json")
    (line,) = lines(ran, "left")
    assert line["options"] == ["--from REPLICA", *OTHERS]
    (cure,) = lines(repair("--only-copy", "--as-broker", data, "--format", "json"), "cure")
    assert (cure["cure"], cure["lossy"]) == ("drop", True)
    refused = repair("--only-copy", data, "--apply")
    assert (refused.code, "the plan loses records" in refused.err) == (exits.REFUSED, True)


def test_a_replica_comes_first(place: Path) -> None:
    data, replica = damaged.write(place)
    cures = lines(repair("--only-copy", "--from", replica, data, "--format", "json"), "cure")
    assert {Path(each["partition"]).name: each["cure"] for each in cures}["middle-0"] == "replica"


def test_topics_of_kafka_itself_are_left(place: Path) -> None:
    data = directory(place / "data", corrupt(__consumer_offsets=broken(GOOD[FIRST], 3)))
    assert left("--only-copy", data) == {
        "__consumer_offsets-0": "valid batches follow corrupt ones"
    }


@pytest.mark.parametrize("others", [(), (8,)])
def test_a_batch_in_a_value_is_not_taken(others: Sequence[int], place: Path) -> None:
    """A producer may have sent a batch as a value: it is none of the log."""
    inner = forge.batch(15, [forge.record(b"planted")] * 5)
    outer = size_corrupt(forge.batch(15, [forge.record(inner), *[forge.record(b"x")] * 4]))
    first = [size_corrupt(one) if at in others else one for at, one in enumerate(GOOD[FIRST])]
    data = directory(place / "data", corrupt(t=[*first[:3], outer, *first[4:]]))
    log = data / "t-0" / name(FIRST, ".log")
    before = log.read_bytes()
    if others:
        (reason,) = left("--only-copy", data).values()
        assert "by search after a corrupt size" in reason
        assert dropped("--only-copy", data) == exits.INCOMPLETE
        assert log.read_bytes() == before
    else:
        assert dropped("--only-copy", data) == exits.OK
        assert log.read_bytes() == b"".join([*first[:3], *first[4:]])


def test_a_batch_in_the_value_of_a_torn_record_is_not_taken(place: Path) -> None:
    """The log may end where the value does, so that a search ends at the end of the log."""
    inner = forge.batch(95, [forge.record(b"planted")] * 5)
    outer = forge.batch(95, [forge.record(inner)], last_offset_delta=4)
    torn = outer[: outer.index(inner) + len(inner)]
    assert len(torn) < len(outer)
    data = directory(place / "data", {})
    first = [*broken(GOOD[FIRST], 3)[:19], torn]
    partition = forge.write_partition(data, "t", 0, {FIRST: first})
    (reason,) = left("--only-copy", data).values()
    assert "by search after a corrupt size" in reason
    assert dropped("--only-copy", data) == exits.INCOMPLETE
    assert (partition / name(FIRST, ".log")).read_bytes() == b"".join(first)


def test_producers_are_known_after_a_shorter_end(place: Path) -> None:
    """A clean start without a snapshot knows no producers; the one at the old end has to go."""
    batches = [
        forge.batch(at, [forge.record()] * 5, producer_id=7, producer_epoch=0, base_sequence=at)
        for at in range(0, 100, 5)
    ]
    end = forge.snapshot([(7, 0, 99, 99, 4, forge.TIMESTAMP, -1, -1)])
    data = directory(place / "data", {})
    first = [*broken(batches, 3)[:-1], batches[-1][:-3]]
    partition = forge.write_partition(
        data, "t", 0, {FIRST: first}, files={name(100, ".snapshot"): end}
    )
    (data / ".kafka_cleanshutdown").write_bytes(b"")
    assert dropped("--only-copy", data) == exits.OK
    snapshots = {path.name: path.read_bytes() for path in partition.glob("*.snapshot")}
    expected = forge.snapshot([(7, 0, 94, 94, 4, forge.TIMESTAMP, -1, -1)])
    assert snapshots == {name(95, ".snapshot"): expected}
    assert complaints(data) == set()


def test_what_is_dropped_is_a_note_afterwards(place: Path) -> None:
    data = directory(place / "data", corrupt(t=broken(GOOD[FIRST], 3)))
    assert dropped("--only-copy", data) == exits.OK
    found = [
        line for line in kdump("verify", data).of("finding") if line["code"] == "hole-salvaged"
    ]
    assert [line["severity"] for line in found] == ["info"]
    assert [(line["offsets"]["first"], line["offsets"]["last"]) for line in found] == [(15, 19)]


def test_the_clean_shutdown_file_loses_its_epoch(place: Path) -> None:
    data = directory(place / "data", corrupt(t=broken(GOOD[FIRST], 3)))
    (data / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    before = tree(data)
    agreed = plan_id("--only-copy", data)
    assert repair("--only-copy", data, "--apply", "--confirm", agreed).code == exits.OK
    assert (data / ".kafka_cleanshutdown").read_bytes() == b""
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert tree(data) == before


# --- interruptions


def untrue(partition: Path) -> set[str]:
    """The entries of indexes that do not lead to a valid batch with their offset."""
    wrong = set[str]()
    for index in partition.glob("*.index"):
        base, data = int(index.stem), index.read_bytes()
        batches = {each.position: each for each in places(index.with_suffix(".log"))}
        for relative, position in struct.iter_unpack(">ii", data):
            batch = batches.get(position)
            if batch is None or base + relative not in batch.offsets:
                wrong.add(f"{index.name}: {base + relative} at {position}")
    return wrong


@pytest.fixture
def interrupted(place: Path) -> tuple[Path, list[str], Recorded]:
    """A directory with damage amid both segments, the command, and all its states."""
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, GOOD, interval=300)
    (data / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    for base in (FIRST, LAST):
        (partition / name(base, ".log")).write_bytes(b"".join(broken(GOOD[base], 9)))
    command = ["repair", "--only-copy", str(data), "--apply", "--confirm"]
    command.append(plan_id("--only-copy", data))
    return data, command, record(command, data)


def test_in_every_state_all_valid_batches_are_there_and_indexes_are_true(
    interrupted: tuple[Path, list[str], Recorded],
) -> None:
    data, _, recorded = interrupted
    partition = data / "t-0"
    after, whole = tree(data), offsets(partition)
    assert (len(whole), untrue(partition)) == (190, set())
    put(data, recorded.before[0])
    corrupt_ones = untrue(partition)
    assert len(corrupt_ones) == 2
    lengths = set()
    for _, state in recorded.states:
        put(data, state)
        assert offsets(partition) == whole
        assert untrue(partition) <= corrupt_ones
        lengths.add(tuple(path.stat().st_size for path in sorted(partition.glob("*.index"))))
    assert len(lengths) >= 5  # shortened, and whole again
    assert tree(data) == after


@pytest.mark.parametrize(
    "part", [pytest.param(slice(None), marks=pytest.mark.nightly), slice(3, None, 17)]
)
def test_after_a_kill_it_goes_on_or_is_undone(
    interrupted: tuple[Path, list[str], Recorded], part: slice
) -> None:
    data, command, recorded = interrupted
    goes_on_or_is_undone(data, command, command[-1], recorded, part)
