"""Fields outside of checksums get the value that the log leaves them; nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from commands.heal.forged_copies import broken
from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST, LAST
from commands.repair.repairing import (
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
from support.crashing.recorded import record
from support.damaged import name
from support.fixtures_loader import copy_fixture
from support.losses import NAMES, places

pytestmark = pytest.mark.once

GOOD = damaged.whole()
#: The fields of a batch that its checksum does not cover: position and size.
FIELDS = {"base offset": (0, 8), "size": (8, 4), "leader epoch": (12, 4), "magic": (16, 1)}
FEW = 9


def with_field(batch: bytes, field: str, value: int) -> bytes:
    at, size = FIELDS[field]
    return batch[:at] + value.to_bytes(size, "big", signed=True) + batch[at + size :]


def written(place: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    """A log directory with one partition, whose other files are those of the good log."""
    data = directory(place / "data", {})
    rows = forge.epoch_rows(batch for base in sorted(GOOD) for batch in GOOD[base])
    files: dict[str, bytes | None] = {"leader-epoch-checkpoint": forge.checkpoint(rows)}
    partition = forge.write_partition(data, "t", 0, GOOD, interval=300, files=files)
    for base, batches in segments.items():
        (partition / name(base, ".log")).write_bytes(b"".join(batches))
    return data


def cures(*arguments: object) -> dict[str, tuple[str, bool]]:
    found = lines(repair(*arguments, "--format", "json"), "cure")
    return {Path(each["partition"]).name: (each["cure"], each["lossy"]) for each in found}


def logs(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}


def complaints(*arguments: str | Path) -> set[str]:
    found = kdump("verify", *arguments).of("finding")
    return {line["code"] for line in found if line["severity"] != "info"}


#: Each changes one byte of a base offset or a leader epoch, by these bits; a size and a magic may
#: have any value.
WRONG: Mapping[str, tuple[str, int]] = {
    "a base offset that is too high": ("base offset", 1 << 9),
    "another base offset": ("base offset", 0x3F),
    "a base offset below 0": ("base offset", -1 << 63),
    "a base offset beyond any index": ("base offset", 1 << 40),
    "a size of 0": ("size", 0),
    "a size below 0": ("size", -5),
    "a size into a later batch": ("size", 400),
    "a size beyond the end": ("size", 1 << 20),
    "an epoch that is too high": ("leader epoch", 9),
    "an epoch below -1": ("leader epoch", -1 << 31),
    "a magic of no release": ("magic", 3),
    "a magic of an older format": ("magic", 1),
}


def wrong(batch: bytes, field: str, value: int) -> bytes:
    """The batch with a wrong field; ``value`` are the bits that change in an offset or an epoch."""
    if field in ("base offset", "leader epoch"):
        at, size = FIELDS[field]
        value ^= int.from_bytes(batch[at : at + size], "big", signed=True)
    return with_field(batch, field, value)


#: The segment and the batch in it: amid the log, and at its ends and those of its segments.
PLACES = [
    (FIRST, 7),
    *(
        pytest.param(base, at, marks=pytest.mark.nightly)
        for base in (FIRST, LAST)
        for at in (0, 7, 19)
        if (base, at) != (FIRST, 7)
    ),
]


@pytest.mark.parametrize(("field", "value"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize(("base", "at"), PLACES)
def test_the_log_is_as_it_was(field: str, value: int, base: int, at: int, place: Path) -> None:
    batches = list(GOOD[base])
    batches[at] = wrong(batches[at], field, value)
    data = written(place, {base: batches})
    ends = field in ("leader epoch", "base offset") and (base, at) == (LAST, 19)
    if ends or (field == "leader epoch" and (base, at) == (FIRST, 0)):
        # It needs a neighbour on both sides.
        assert "field" not in dict(cures(data).values())
        return
    before = tree(data)
    assert cures(data) == {"t-0": ("field", False)}
    agreed = plan_id(data)
    ran = repair(data, "--apply")
    assert ran.code == exits.OK, ran
    assert logs(data / "t-0") == {name(b, ".log"): b"".join(GOOD[b]) for b in GOOD}
    assert complaints(data) == set()
    assert repair(data).code == exits.OK
    assert cures(data) == {}
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert tree(data) == before


@pytest.mark.parametrize("fields", [("size", "base offset"), ("magic", "base offset", "size")])
def test_several_fields_of_one_batch(fields: Sequence[str], place: Path) -> None:
    values = {"base offset": 77, "size": 3, "magic": 0}
    batches = list(GOOD[FIRST])
    for field in fields:
        batches[4] = with_field(batches[4], field, values[field])
    data = written(place, {FIRST: batches})
    assert repair(data, "--apply").code == exits.OK
    assert logs(data / "t-0")[name(FIRST, ".log")] == b"".join(GOOD[FIRST])


def test_the_last_offset_is_known_after_a_clean_shutdown_alone(place: Path) -> None:
    batches = list(GOOD[LAST])
    batches[19] = wrong(batches[19], "base offset", 1 << 9)
    for clean in (False, True):
        data = written(place / str(clean), {LAST: batches})
        (data / "t-0" / name(200, ".snapshot")).write_bytes(forge.snapshot([]))
        (data / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nt 0 200\n")
        if clean:
            (data / ".kafka_cleanshutdown").write_bytes(b"")
        assert ("field" in dict(cures(data).values())) == clean
    assert repair(data, "--apply").code == exits.INCOMPLETE  # it has no metadata log
    assert logs(data / "t-0")[name(LAST, ".log")] == b"".join(GOOD[LAST])


def test_several_batches_with_wrong_fields(place: Path) -> None:
    batches = list(GOOD[FIRST])
    for at in (3, 7, 11):
        batches[at] = wrong(batches[at], "base offset", 1 << 20)
        batches[at + 2] = wrong(batches[at + 2], "size", at)
    data = written(place, {FIRST: batches})
    assert repair(data, "--apply").code == exits.OK
    assert logs(data / "t-0")[name(FIRST, ".log")] == b"".join(GOOD[FIRST])


def test_the_epoch_at_a_border_is_that_of_the_checkpoint(place: Path) -> None:
    batches = [
        forge.batch(at, [forge.record()] * 5, leader_epoch=0 if at < 50 else 4)
        for at in range(0, 100, 5)
    ]
    data = directory(place / "data", {})
    rows = forge.epoch_rows(batches)
    assert [tuple(row) for row in rows] == [(0, 0), (4, 50)]
    for number in (9, 10):
        log = list(batches)
        log[number] = with_field(log[number], "leader epoch", 8)
        files = {"leader-epoch-checkpoint": forge.checkpoint(rows)}
        forge.write_partition(data, f"t{number}", 0, {FIRST: log}, files=files)
    assert repair(data, "--apply").code == exits.OK
    for number in (9, 10):
        assert logs(data / f"t{number}-0")[name(FIRST, ".log")] == b"".join(batches)


def test_a_field_of_a_compacted_log_where_one_place_is_left(place: Path) -> None:
    """Offsets 35 to 59 were compacted away: the wrong batch has its neighbours elsewhere."""
    kept = [*GOOD[FIRST][:7], *GOOD[FIRST][12:]]
    batches = [*kept]
    batches[3] = wrong(batches[3], "base offset", 1 << 5)
    data = written(place, {FIRST: batches})
    assert cures(data) == {"t-0": ("field", False)}
    assert repair(data, "--apply").code in (exits.OK, exits.INCOMPLETE)
    assert logs(data / "t-0")[name(FIRST, ".log")] == b"".join(kept)


def of_epochs(*epochs: int) -> list[bytes]:
    """A batch of five records for each epoch."""
    return [
        forge.batch(5 * at, [forge.record()] * 5, leader_epoch=epoch)
        for at, epoch in enumerate(epochs)
    ]


def with_batch(batches: Sequence[bytes], at: int, batch: bytes) -> list[bytes]:
    return [*batches[:at], batch, *batches[at + 1 :]]


def epoch_of(batch: bytes, epoch: int) -> bytes:
    return with_field(batch, "leader epoch", epoch)


SAME = [forge.batch(5 * at, [forge.record(b"same")] * 5) for at in range(12)]
BORDER, SHORT, OLDER = (
    of_epochs(*[0] * 4, *[1] * 4),
    of_epochs(0, 0, 1, 2, 2),
    of_epochs(1, 3, *[5] * 4),
)
#: What is in the file, and what leader-epoch-checkpoint was written for. Nothing may be set.
UNDECIDED: Mapping[str, tuple[Sequence[bytes], Sequence[bytes]]] = {
    "beside a hole": (
        [*GOOD[FIRST][:7], wrong(GOOD[FIRST][9], "base offset", 1 << 9), *GOOD[FIRST][12:]],
        GOOD[FIRST],
    ),
    "three neighbours": (
        [*GOOD[FIRST][:7], *(wrong(one, "base offset", 1 << 9) for one in GOOD[FIRST][7:10]),
         *GOOD[FIRST][10:]],
        GOOD[FIRST],
    ),
    "a batch that was written twice": ([*GOOD[FIRST][:8], *GOOD[FIRST][7:]], GOOD[FIRST]),
    "a batch in the place of another": (with_batch(SAME, 2, SAME[1]), SAME),
    "a batch from elsewhere": (
        with_batch(SAME, 3, forge.batch(70_015, [forge.record(b"else")] * 5, leader_epoch=88)),
        SAME,
    ),
    "a batch from elsewhere, of this epoch": (
        with_batch(SAME, 3, forge.batch(70_015, [forge.record(b"else")] * 5)), SAME
    ),
    "after a corrupt batch": (
        [*broken(GOOD[FIRST], 6)[:7], wrong(GOOD[FIRST][7], "base offset", 1 << 9),
         *GOOD[FIRST][8:]],
        GOOD[FIRST],
    ),
    "an epoch of another line": (with_batch(BORDER, 2, epoch_of(BORDER[2], 1)), BORDER),
    "an epoch of the line before": (with_batch(BORDER, 5, epoch_of(BORDER[5], 0)), BORDER),
    "beside an epoch of one batch": (with_batch(SHORT, 1, epoch_of(SHORT[1], 2)), SHORT),
    "a batch of an older log": (with_batch(OLDER, 3, epoch_of(OLDER[3], 3)), OLDER),
    "only batches of an unknown format": ([with_field(one, "magic", 3) for one in SAME], SAME),
    "an end above the high watermark": ([*SAME[:10], SAME[11]], SAME),
}  # fmt: skip


@pytest.mark.parametrize(("batches", "good"), UNDECIDED.values(), ids=UNDECIDED)
def test_what_the_log_leaves_open_is_left(
    batches: Sequence[bytes], good: Sequence[bytes], place: Path
) -> None:
    data = directory(place / "data", {})
    files = {"leader-epoch-checkpoint": forge.checkpoint(forge.epoch_rows(good))}
    partition = forge.write_partition(data, "t", 0, {FIRST: good}, interval=300, files=files)
    (partition / name(FIRST, ".log")).write_bytes(b"".join(batches))
    (data / "replication-offset-checkpoint").write_bytes(b"0\n1\nt 0 55\n")
    assert "field" not in dict(cures(data).values())
    before, epochs = logs(partition), (partition / "leader-epoch-checkpoint").read_bytes()
    assert repair(data, "--apply").code in (exits.OK, exits.INCOMPLETE)
    assert logs(partition) == before
    assert (partition / "leader-epoch-checkpoint").read_bytes() == epochs


def test_a_corrupt_batch_at_the_start_of_a_segment_moves_none(place: Path) -> None:
    """Beside a batch that is mended: the one after the corrupt one does not take its place."""
    last = broken(list(GOOD[LAST]), 0)
    first = list(GOOD[FIRST])
    first[3] = with_field(first[3], "size", 3)
    data = written(place, {FIRST: first, LAST: last})
    assert repair(data, "--apply").code == exits.INCOMPLETE
    assert logs(data / "t-0") == {
        name(FIRST, ".log"): b"".join(GOOD[FIRST]),
        name(LAST, ".log"): b"".join(last),
    }


def test_replicas_that_contradict_each_other_decide_nothing(place: Path) -> None:
    batches = with_batch(COMPACTED, 6, with_field(COMPACTED[6], "base offset", 70))
    other = with_batch(COMPACTED, 6, with_field(COMPACTED[6], "base offset", 31))
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, {FIRST: COMPACTED}, interval=300)
    (partition / name(FIRST, ".log")).write_bytes(b"".join(batches))
    replicas = []
    for node, content in ((b"2", COMPACTED), (b"3", other)):
        replica = directory(place / node.decode(), {}, node=node)
        forge.write_partition(replica, "t", 0, {FIRST: content}, interval=300)
        replicas += ["--from", replica]
    assert cures(*replicas[:2], data) == {"t-0": ("field", False)}
    assert "field" not in dict(cures(*replicas, data).values())


#: Logs that leave more than one value, with what was written. Offsets 35 to 59 are compacted away.
COMPACTED = [*GOOD[FIRST][:7], *GOOD[FIRST][12:]]
SHOWN_BY_A_REPLICA: Mapping[str, tuple[Sequence[bytes], str, int, int]] = {
    "an offset beside a hole, too high": (COMPACTED, "base offset", 6, 70),
    "an offset beside a hole, too low": (COMPACTED, "base offset", 7, 31),
    "the first offset": (COMPACTED[7:], "base offset", 0, 65),
    "the epoch of the first batch": (GOOD[FIRST], "leader epoch", 0, 3),
}


@pytest.mark.parametrize("case", SHOWN_BY_A_REPLICA.values(), ids=SHOWN_BY_A_REPLICA)
def test_a_replica_with_the_same_bytes_decides(
    case: tuple[Sequence[bytes], str, int, int], place: Path
) -> None:
    good, field, at, value = case
    batches = [*good]
    batches[at] = with_field(batches[at], field, value)
    replica = directory(place / "replica", {}, node=b"2")
    forge.write_partition(replica, "t", 0, {FIRST: good}, interval=300)
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, {FIRST: good}, interval=300)
    (partition / name(FIRST, ".log")).write_bytes(b"".join(batches))
    assert cures("--only", "field", data) == {}
    assert cures("--from", replica, data) == {"t-0": ("field", False)}
    assert repair("--from", replica, data, "--apply").code == exits.OK
    assert logs(data / "t-0")[name(FIRST, ".log")] == b"".join(good)
    assert logs(replica / "t-0")[name(FIRST, ".log")] == b"".join(good)


def test_a_replica_with_other_bytes_decides_nothing(place: Path) -> None:
    batches = [*COMPACTED]
    batches[6] = with_field(batches[6], "base offset", 70)
    others = [*COMPACTED[:6], forge.batch(30, [forge.record(b"other")] * 5), *COMPACTED[7:]]
    replica = directory(place / "replica", {}, node=b"2")
    forge.write_partition(replica, "t", 0, {FIRST: others}, interval=300)
    data = directory(place / "data", {})
    partition = forge.write_partition(data, "t", 0, {FIRST: COMPACTED}, interval=300)
    (partition / name(FIRST, ".log")).write_bytes(b"".join(batches))
    assert "field" not in dict(cures("--from", replica, data).values())
    repair("--from", replica, data, "--apply")
    assert logs(data / "t-0")[name(FIRST, ".log")] == b"".join(batches)


def test_a_replica_gives_the_rest_in_the_same_run(place: Path) -> None:
    batches = broken(list(GOOD[FIRST]), 15)
    batches[4] = with_field(batches[4], "base offset", 77)
    data = written(place, {FIRST: batches})
    replica = directory(place / "replica", {"t": (GOOD, {})}, node=b"2")
    assert cures("--from", replica, data) == {"t-0": ("field", False)}
    assert repair("--from", replica, data, "--apply").code == exits.OK
    assert logs(data / "t-0")[name(FIRST, ".log")] == b"".join(GOOD[FIRST])


def test_what_stays_corrupt_is_named(place: Path) -> None:
    batches = broken(list(GOOD[FIRST]), 15)
    batches[4] = with_field(batches[4], "size", 7)
    data = written(place, {FIRST: batches})
    assert cures(data) == {"t-0": ("field", False)}
    assert left(data) == {"t-0": "valid batches follow corrupt ones"}
    assert repair(data, "--apply").code == exits.INCOMPLETE
    found = logs(data / "t-0")[name(FIRST, ".log")]
    assert found == b"".join(broken(list(GOOD[FIRST]), 15))
    assert cures("--only-copy", data) == {"t-0": ("drop", True)}


def test_a_batch_in_a_value_is_no_neighbour(place: Path) -> None:
    inner = forge.batch(15, [forge.record(b"planted")] * 5)
    outer = forge.flip(forge.batch(15, [forge.record(inner), *[forge.record(b"x")] * 4]), 80)
    outer = with_field(outer, "size", 1 << 20)
    batches = [*GOOD[FIRST][:3], outer, *GOOD[FIRST][4:]]
    data = written(place, {FIRST: batches})
    before = logs(data / "t-0")
    repair(data, "--apply")
    assert logs(data / "t-0") == before


def test_verify_says_which_size_is_right(place: Path) -> None:
    batches = list(GOOD[FIRST])
    batches[4] = with_field(batches[4], "size", 7)
    data = written(place, {FIRST: batches})
    (finding,) = [
        line for line in kdump("verify", data).of("finding") if line["severity"] == "error"
    ]
    assert finding["code"] == "batch-size-impossible"
    assert (
        f"; with size {len(GOOD[FIRST][4])} and magic 2 the checksum matches"
        in finding["detail"]["found"]
    )


# --- logs of brokers


def flipped(rng: random.Random, log: Path) -> str:
    """Change a byte of a field of one batch; the field."""
    batch, field = rng.choice(places(log)), rng.choice([*FIELDS])
    at, size = FIELDS[field]
    position = batch.position + at + rng.randrange(size)
    log.write_bytes(forge.flip(log.read_bytes(), position, rng.randrange(1, 256)))
    return field


def of_brokers(seed: int, top: Path) -> tuple[bool, bool]:
    """Flip a byte and repair; whether the field was mended, and whether a cure was planned."""
    rng = random.Random(seed)
    fixture = rng.choice(["4.3.1/clean", "4.3.1/killed", "3.9.1/clean", "3.9.1/killed"])
    data = copy_fixture(fixture, top / "data")
    partition = data / rng.choice(NAMES)
    chosen = ("--topic", partition.name.rpartition("-")[0], data)
    good, before = logs(partition), tree(data)
    flipped(rng, rng.choice([log for log in sorted(partition.glob("*.log")) if places(log)]))
    wrong, damage = logs(partition), tree(data)
    planned = cures(*chosen).get(partition.name, ("", False))
    agreed = plan_id(*chosen) if planned[0] else ""
    ran = repair(*chosen, "--apply")
    assert ran.code in (exits.OK, exits.INCOMPLETE)
    after = logs(partition)
    mended = after == good
    if planned[0] == "field":
        assert mended, (seed, fixture, partition.name)
        assert ran.code == exits.OK, (seed, ran)
        assert complaints(*chosen) == set()
    elif planned[0] != "tail":
        assert after == wrong
    if agreed:
        assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
        content = {path: node.content for path, node in tree(data).items()}
        assert content == {path: node.content for path, node in damage.items()}
    assert before.keys() == damage.keys()
    return mended, planned[0] == "field"


def test_most_flips_in_logs_of_brokers_are_mended(tmp_path: Path) -> None:
    found = [of_brokers(seed, tmp_path / str(seed)) for seed in range(FEW)]
    assert sum(mended for mended, _ in found) >= FEW * 2 // 3, found


@pytest.mark.nightly
def test_600_flips(tmp_path: Path) -> None:
    found = [of_brokers(seed, tmp_path / str(seed)) for seed in range(FEW, FEW + 600)]
    assert sum(mended for mended, _ in found) >= 400, sum(mended for mended, _ in found)


# --- interruptions


@pytest.mark.parametrize(
    "part", [pytest.param(slice(None), marks=pytest.mark.nightly), slice(3, None, 9)]
)
def test_after_a_kill_it_goes_on_or_is_undone(part: slice, place: Path) -> None:
    first, last = list(GOOD[FIRST]), list(GOOD[LAST])
    first[9] = wrong(first[9], "base offset", 1 << 33)
    last[9] = with_field(last[9], "size", 5)
    data = written(place, {FIRST: first, LAST: last})
    command = ["repair", str(data), "--apply"]
    agreed = plan_id(data)
    recorded = record(command, data)
    goes_on_or_is_undone(data, command, agreed, recorded, part)
