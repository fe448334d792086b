"""``kdump heal``: what it takes of which copy, what it refuses, and what it says."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from pathlib import Path

import pytest

from commands.heal.forged_copies import broken, logs, plain, write
from kdump.errors import Refused, UsageError
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Assembly, decode, encode
from kdump.storage import liveness
from kdump.ui.exits import INCOMPLETE, OK, PROBLEMS, REFUSED, USAGE
from support import forge
from support.crashing.running import Run, run
from support.crashing.subjects import HEAL, MARK, PARTITION, SEGMENTS, batches
from support.damaged import name
from support.fixtures_loader import ROOT, copy_fixture
from support.planning import healing, left, undone

pytestmark = pytest.mark.usefixtures("unsearched")

LOG = name(100, ".log")
META = b"version=1\ncluster.id=%s\nnode.id=%d\n"


def heal(partition: Path, *copies: Path) -> bool:
    """Heal a partition; whether nothing stays damaged."""
    made = healing(partition, *copies)
    if made.plan.steps:
        apply(made.plan, assume_stopped=True)
    return made.complete


@pytest.fixture(autouse=True)
def _config(place: Path) -> None:
    (place / "server.properties").write_text("log.index.interval.bytes=4096\n")


# --- what is taken


def test_the_first_copy_that_has_a_stretch_gives_it(place: Path) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2, 6)})
    copies = [
        write(place / "one", {0: broken(good, 2)}),
        write(place / "two", {0: good}),
    ]
    made = healing(partition, *copies)
    (put,) = (put for put in made.plan.puts if put.name.endswith(".log"))
    assert isinstance(put.recipe, Assembly)
    assert [Path(piece.path).parent.parent.name for piece in put.recipe.taken] == ["two", "one"]
    receipt = apply(made.plan)
    assert logs(partition) == logs(copies[1])
    first, second = receipt["taken"][put.name]
    at, size = len(good[0] + good[1]), len(good[2])
    assert first == {
        "position": at,
        "from": str(copies[1] / put.name),
        "from_position": at,
        "bytes": size,
        "sha256": hashlib.sha256(good[2]).hexdigest(),
    }
    assert second["from"] == str(copies[0] / put.name)
    assert receipt["files"][put.name]["after"] == hashlib.sha256(b"".join(good)).hexdigest()


def test_copies_with_other_borders(place: Path) -> None:
    good = plain(0, 200)
    partition = write(
        place / "own", {0: broken(good[:10], 0, 9), 50: broken(good[10:30], 0, 7), 150: good[30:35]}
    )
    copy = write(place / "copy", {0: good[:4], 20: good[4:21], 105: good[21:]})
    assert heal(partition, copy)
    found = logs(partition)
    assert b"".join(found.values()) == b"".join(good)
    assert [found[name(base, ".log")] for base in (0, 50)] == [
        b"".join(good[:10]),
        b"".join(good[10:30]),
    ]


def test_offsets_that_stay_missing_between_valid_batches_are_no_success(place: Path) -> None:
    """As in what ``salvage`` leaves; a corrupt batch of the same log is healed all the same."""
    copy = ROOT / "brokers/4.3.1/clean/codec-lz4-0"
    partition = copy_fixture("4.3.1/clean", place / "data") / "codec-lz4-0"
    first, log = sorted(partition.glob("*.log"))[:2]
    first.write_bytes(forge.flip(first.read_bytes(), 200))
    data, gone = log.read_bytes(), struct.pack(">q", 86)
    begin = data.index(gone)
    (size,) = struct.unpack_from(">i", data, begin + 8)
    log.write_bytes(data[:begin] + data[begin + 12 + size :])
    ran = run(["heal", str(partition), "--from", str(copy), "--apply"])
    assert ran.code == PROBLEMS
    assert f"offsets 86 to 86 stay missing in {log.name}" in " ".join(ran.out.split())
    assert first.read_bytes() == (copy / first.name).read_bytes()
    assert run(["heal", str(partition), "--from", str(copy), "--apply"]).code == PROBLEMS


def test_offsets_that_stay_missing_at_the_start_of_a_segment_are_no_success(place: Path) -> None:
    copy = ROOT / "brokers/4.3.1/clean/codec-lz4-0"
    partition = copy_fixture("4.3.1/clean", place / "data") / "codec-lz4-0"
    log = sorted(partition.glob("*.log"))[1]
    data = log.read_bytes()
    (size,) = struct.unpack_from(">i", data, 8)
    log.write_bytes(data[12 + size :])
    for _ in range(2):
        ran = run(["heal", str(partition), "--from", str(copy), "--apply"])
        assert ran.code == PROBLEMS
        assert f"offsets {int(log.stem)} to " in " ".join(ran.out.split())


def test_holes_below_the_log_start_are_no_loss(place: Path) -> None:
    """As ``verify`` says: no consumer reads there."""
    copy = ROOT / "brokers/4.3.1/clean/deleted-records-0"
    partition = copy_fixture("4.3.1/clean", place / "data") / "deleted-records-0"
    log = min(partition.glob("*.log"))
    data = log.read_bytes()
    base = int(log.stem)
    begin = struct.unpack_from(">i", data, 8)[0] + 12
    (offset,) = struct.unpack_from(">q", data, begin)
    end = begin + struct.unpack_from(">i", data, begin + 8)[0] + 12
    assert base < offset < 62
    log.write_bytes(data[:begin] + data[end:])
    ran = run(["heal", str(partition), "--from", str(copy), "--apply"])
    assert "stay missing" not in " ".join(ran.out.split())
    assert ran.code == OK


def test_a_damaged_index_of_a_copy_misleads_nobody(place: Path) -> None:
    good = plain(0, 5000)
    partition = write(place / "own", {0: broken(good, 500)})
    copy = write(place / "copy", {0: good})
    index = copy / name(0, ".index")
    entries = len(index.read_bytes()) // 8
    index.write_bytes(random.Random(1).randbytes(8 * entries))
    assert heal(partition, copy)
    assert logs(partition) == logs(copy)


def test_the_end_is_taken_as_a_follower_would_fetch_it(place: Path) -> None:
    good = [*plain(0, 100), *plain(100, 200, epoch=3)]
    partition = write(place / "own", {0: good[:10]})
    copy = write(place / "copy", {0: good[:20], 100: good[20:30], 150: good[30:]})
    assert heal(partition, copy)
    assert logs(partition) == logs(copy)
    epochs = (partition / "leader-epoch-checkpoint").read_bytes()
    assert epochs == (copy / "leader-epoch-checkpoint").read_bytes()


def test_a_snapshot_of_a_new_segment_is_written(place: Path) -> None:
    HEAL.write(place)
    partition = HEAL.partition(place)
    assert heal(partition, place / "copy" / PARTITION)
    for base in (100, 200, 300):
        snapshot = name(base, ".snapshot")
        assert (partition / snapshot).read_bytes() == (
            place / "copy" / PARTITION / snapshot
        ).read_bytes()
    assert logs(partition) == logs(place / "copy" / PARTITION)


def test_what_no_copy_has_stays_and_is_said(place: Path) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2, 6)})
    copy = write(place / "copy", {0: broken(good, 6)})
    made = healing(partition, copy)
    assert not made.complete
    at, size = sum(map(len, good[:6])), len(good[6])
    said = f"{name(0, '.log')} stays corrupt at position {at}: {size:,} bytes, offsets 30 to 34"
    assert any(said in note for note in made.plan.notes)
    apply(made.plan)
    assert logs(partition) == {name(0, ".log"): b"".join(broken(good, 6))}


def test_nothing_to_do(place: Path) -> None:
    good = plain(0, 50)
    partition, copy = (write(place / each, {0: good}) for each in ("own", "copy"))
    made = healing(partition, copy)
    assert made.complete
    assert made.plan.steps == ()


def test_a_size_that_lies_hides_several_batches(place: Path) -> None:
    good = plain(0, 100)
    long = good[3][:8] + struct.pack(">i", sum(map(len, good[3:6])) - 12) + good[3][12:]
    partition = write(place / "own", {0: [*good[:3], long, *good[4:]]})
    copy = write(place / "copy", {0: good})
    assert heal(partition, copy)
    assert logs(partition) == logs(copy)


def test_a_value_that_holds_batches_is_not_taken_for_some(place: Path) -> None:
    inner = b"".join(forge.batch(16 + each, [forge.record(b"inner")]) for each in range(3))
    outer = forge.batch(15, [forge.record(inner) for _ in range(5)])
    good = [*plain(0, 15), outer, *plain(20, 60)]
    torn = outer[:8] + struct.pack(">i", 1 << 30) + outer[12:]
    partition = write(place / "own", {0: [*good[:3], torn, *good[4:]]})
    copy = write(place / "copy", {0: good})
    assert heal(partition, copy)
    assert logs(partition) == logs(copy)


# --- compaction


def test_of_a_compacted_log_only_stretches_of_the_same_size_are_taken(place: Path) -> None:
    good = plain(0, 100)
    kept = [*good[:4], *good[6:12], *good[15:]]
    partition = write(place / "own", {0: broken(kept, 3, 8)[:14]})
    cleaner = place / "own" / "cleaner-offset-checkpoint"
    cleaner.write_bytes(forge.checkpoint([("orders", 0, 60)]))
    copy = write(place / "copy", {0: [*kept[:9], *kept[10:]]})
    assert not heal(partition, copy)
    # Behind the second damage the copy was cleaned more.
    assert logs(partition) == {name(0, ".log"): b"".join(broken(kept, 8)[:14])}


# --- lineage


def test_a_batch_of_a_lower_epoch_is_never_taken(place: Path) -> None:
    good = plain(0, 50, epoch=5)
    partition = write(place / "own", {0: good[:9]}, epochs={0: good})
    with (partition / name(0, ".log")).open("ab") as file:
        file.write(good[9][:40])
    other = [*plain(0, 45, epoch=5), *plain(45, 90, epoch=4)]
    copy = write(place / "copy", {0: other})
    before = logs(partition)
    assert not heal(partition, copy)
    assert logs(partition) == before


def test_the_epochs_of_the_log_exclude_what_another_leader_wrote(place: Path) -> None:
    """Leader 5 wrote from offset 40 on, which is lost; the copy has what leader 4 wrote there."""
    own = [*plain(0, 40, epoch=4), *plain(40, 60, epoch=5)]
    partition = write(place / "own", {0: own[:6]}, epochs={0: own})
    copy = write(place / "copy", {0: plain(0, 80, epoch=4, text=b"value")})
    heal(partition, copy)
    assert logs(partition) == {name(0, ".log"): b"".join(own[:8])}


def test_a_copy_of_another_lineage_gives_no_end(place: Path) -> None:
    own = [*plain(0, 40, epoch=4), *plain(40, 60, epoch=5)]
    other = [*plain(0, 40, epoch=4), *plain(40, 90, epoch=6, text=b"other")]
    partition = write(place / "own", {0: own})
    copy = write(place / "copy", {0: other})
    made = healing(partition, copy)
    assert made.plan.steps == ()
    assert logs(partition) == {name(0, ".log"): b"".join(own)}


@pytest.mark.parametrize("checkpoint", ["missing", "of the copy", "without the last epoch"])
@pytest.mark.parametrize("split", [False, True], ids=["one-log", "logs"])
def test_of_a_copy_that_parts_within_a_gap_nothing_is_taken(
    place: Path, checkpoint: str, split: bool
) -> None:
    """Leader 5 wrote from offset 25 on, which is lost; the copy has what leader 4 wrote there."""
    own = [*plain(0, 25, epoch=4), *plain(25, 60, epoch=5)]
    other = [*plain(0, 30, epoch=4), *plain(30, 90, epoch=6, text=b"other")]
    partition = write(place / "own", {0: own[:4], 40: own[8:]})
    segments = {0: other[:6], 30: other[6:8], 40: other[8:]} if split else {0: other}
    copy = write(place / "copy", segments)
    path = partition / "leader-epoch-checkpoint"
    if checkpoint == "missing":
        path.unlink()
    elif checkpoint == "of the copy":
        path.write_bytes((copy / path.name).read_bytes())
    else:
        path.write_bytes(forge.checkpoint([(4, 0)]))
    before = logs(partition)
    made = healing(partition, copy)
    assert not [put for put in made.plan.puts if put.name.endswith(".log")]
    assert not made.complete
    contradicts = any("gives offset" in note for note in made.plan.notes)
    assert contradicts == (checkpoint != "missing")
    heal(partition, copy)
    assert logs(partition) == before


def test_later_batches_show_the_lineage_where_the_epochs_do_not(place: Path) -> None:
    good = [*plain(0, 25, epoch=4), *plain(25, 60, epoch=5)]
    partition = write(place / "own", {0: good[:4], 40: good[8:]})
    copy = write(place / "copy", {0: good[:4], 20: good[4:8], 40: good[8:]})
    (partition / "leader-epoch-checkpoint").unlink()
    assert heal(partition, copy)
    assert logs(partition) == logs(copy)


def test_other_bytes_between_the_same_neighbours_do_not_occur_but_are_refused(place: Path) -> None:
    """Of the same size, but of an epoch that lies not between those of its neighbours."""
    good = plain(0, 50, epoch=2)
    partition = write(place / "own", {0: broken(good, 4)})
    for epoch in (1, 3):
        strange = [*good[:4], *plain(20, 25, epoch=epoch), *good[5:]]
        copy = write(place / f"copy{epoch}", {0: strange})
        assert not healing(partition, copy).complete


# --- live copies


@pytest.fixture
def _live(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = liveness.Liveness(liveness.BrokerState.LIVE, "process 7 (java) holds .lock")
    monkeypatch.setattr("kdump.repair.healing.copies.liveness", lambda _: answer)


@pytest.mark.usefixtures("_live")
@pytest.mark.parametrize(("mark", "end"), [(70, 70), (72, 70), (None, 50)])
def test_of_a_live_copy_only_what_is_committed_is_taken(
    place: Path, mark: int | None, end: int
) -> None:
    good = plain(0, 100)
    partition = write(place / "own", {0: good[:7]})
    copy = write(place / "copy", {0: good[:10], 50: good[10:]})
    if mark is not None:
        (place / "copy" / MARK).write_bytes(forge.checkpoint([("orders", 0, mark)]))
    heal(partition, copy)
    assert b"".join(logs(partition).values()) == b"".join(good[: end // 5])


# --- refusals


def test_a_copy_that_has_changed_is_refused(place: Path) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2)})
    copy = write(place / "copy", {0: good})
    plan, before = healing(partition, copy).plan, left(place / "own")
    (copy / name(0, ".log")).write_bytes(
        b"".join([*good[:2], *plain(10, 15, text=b"other"), *good[3:]])
    )
    with pytest.raises(Refused, match=r"expected the bytes that the plan takes, found other bytes"):
        apply(plan)
    assert left(place / "own") == before
    (copy / name(0, ".log")).write_bytes(b"".join(good[:2]))
    with pytest.raises(Refused, match="found the end of the file at"):
        apply(plan)
    (copy / name(0, ".log")).unlink()
    with pytest.raises(
        Refused, match=r"expected the bytes that the plan takes, found .* cannot be"
    ):
        apply(plan)
    assert left(place / "own") == before
    assert healing(partition, copy).plan.id != plan.id


def test_copies_of_something_else_are_refused(place: Path) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2)})
    (place / "own" / "meta.properties").write_bytes(META % (b"first", 1))
    other_id = forge.partition_metadata("BBBBBBBBQACAAAAAAAAAAQ")
    newer = write(place / "newer", {0: good}, {"partition.metadata": other_id})
    with pytest.raises(Refused, match=r"expected topic id .*, as in the partition, found BBBB"):
        healing(partition, newer)
    cluster = write(place / "cluster", {0: good})
    (place / "cluster" / "meta.properties").write_bytes(META % (b"second", 1))
    with pytest.raises(Refused, match="expected a replica of cluster first, found cluster second"):
        healing(partition, cluster)
    (number,) = (forge.write_partition(place / "number", "orders", 1, {0: good}),)
    with pytest.raises(Refused, match="expected a replica of orders-0, found another partition"):
        healing(partition, number)
    renamed = forge.write_partition(
        place / "renamed", "refunds", 0, {0: good}, files={"partition.metadata": None}
    )
    with pytest.raises(Refused, match="expected a replica of orders-0, found another partition"):
        healing(partition, renamed)
    with pytest.raises(Refused, match="expected another replica, found the partition itself"):
        healing(partition, partition)
    with pytest.raises(UsageError, match="expected at least one replica to heal from: add --from"):
        healing(partition)
    with pytest.raises(UsageError, match="expected a replica of the partition or a log directory"):
        healing(partition, partition / name(0, ".log"))
    (place / "empty").mkdir()
    (place / "empty" / "meta.properties").write_bytes(META % (b"first", 2))
    with pytest.raises(Refused, match=r"expected a replica of it, found none: .* has no partition"):
        healing(partition, place / "empty")


@pytest.mark.parametrize("kind", ["link", "fifo", "index"])
def test_files_of_a_copy_that_are_none_are_refused(place: Path, kind: str) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2)})
    copy = write(place / "copy", {0: good})
    path = copy / name(0, ".index" if kind == "index" else ".log")
    path.rename(place / "away")
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(place / "away")
    with pytest.raises(Refused, match="expected a regular file in a replica, found another kind"):
        healing(partition, copy)


def test_claims_of_a_copy_are_not_believed(place: Path) -> None:
    """Batches with sound checksums that no broker would have written there."""
    good = plain(0, 50)
    claims = [
        forge.batch(10, [forge.record(b"v")], last_offset_delta=2**31 - 1),
        forge.batch(10, [forge.record(b"v")] * 5, leader_epoch=-1),
        forge.batch(10, [forge.record(b"v")] * 5, count=2**31 - 1),
        forge.batch(2**62, [forge.record(b"v")] * 5),
        forge.batch(9, [forge.record(b"v")] * 6),
    ]
    for number, claim in enumerate(claims):
        partition = write(place / f"own{number}", {0: good[:2]})
        copy = write(place / f"copy{number}", {0: [*good[:2], claim, *good[3:]]})
        before = logs(partition)
        heal(partition, copy)
        assert logs(partition) == before, number


def test_a_metadata_log_is_refused(place: Path) -> None:
    good = plain(0, 10)
    own, copy = (
        forge.write_partition(place / each, "__cluster_metadata", 0, {0: good})
        for each in ("own", "copy")
    )
    with pytest.raises(Refused, match="its quorum decides what is valid there"):
        healing(own, copy)


def test_a_log_that_is_a_link_is_refused(place: Path) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2)})
    copy = write(place / "copy", {0: good})
    (partition / name(0, ".log")).rename(place / "away")
    (partition / name(0, ".log")).symlink_to(place / "away")
    with pytest.raises(Refused, match="expected a file, found a symbolic link"):
        healing(partition, copy)


# --- plans and commands


def test_a_plan_goes_through_json(place: Path) -> None:
    HEAL.write(place)
    partition = HEAL.partition(place)
    plan = healing(partition, place / "copy").plan
    again = decode(json.loads(json.dumps(encode(plan))))
    assert again.id == plan.id
    assert [recipe for _, recipe in again.assemblies] == [recipe for _, recipe in plan.assemblies]
    assert not plan.lossy
    apply(plan)
    assert Folder(partition, plan.id).plan().id == plan.id
    undone(partition, plan)


def command(root: Path, *more: str) -> Run:
    return run(HEAL.argv(root, *more))


def test_the_command(place: Path) -> None:
    HEAL.write(place)
    before = left(place)
    planned = command(place)
    assert planned.code == PROBLEMS
    assert "from replicas" in planned.out
    assert "3.00 KiB from replicas in 3 logs" in " ".join(planned.out.split())
    assert left(place) == before
    done = command(place, "--apply", "--format", "json")
    assert done.code == OK, done
    (receipt,) = (
        line for line in map(json.loads, done.out.splitlines()) if line["type"] == "receipt"
    )
    assert set(receipt["taken"]) == {name(base, ".log") for base in SEGMENTS}
    assert receipt["problems"] == 0
    again = command(place)
    assert again.code == OK, again
    assert "nothing to do" in again.out
    assert run(HEAL.undo(place, "--apply")).code == OK
    now = left(place)
    assert {path: node.lasting for path, node in now.items() if "/.kdump" not in path} == {
        path: node.lasting for path, node in before.items()
    }


def test_the_command_says_with_its_exit_code_what_stays(place: Path) -> None:
    HEAL.write(place)
    log = place / "copy" / PARTITION / name(0, ".log")
    pieces = batches(0)
    log.write_bytes(b"".join(broken(pieces, 3)))
    assert command(place, "--apply").code == PROBLEMS
    again = command(place)
    assert again.code == PROBLEMS
    assert "stays corrupt at position" in " ".join(again.out.split())
    assert run(HEAL.argv(place)[:-3] + HEAL.argv(place)[-1:]).code in (USAGE, INCOMPLETE)


def test_without_a_copy(place: Path) -> None:
    HEAL.write(place)
    ran = run(["heal", str(HEAL.partition(place))])
    assert ran.code == USAGE
    assert "add --from COPY" in ran.err


def test_beside_a_broker(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = plain(0, 50)
    partition = write(place / "own", {0: broken(good, 2)})
    copy = write(place / "copy", {0: good})
    plan, before = healing(partition, copy).plan, left(place / "own")
    use = liveness.Use(liveness.Process(7, "java"), str(partition / name(0, ".log")), writes=True)
    monkeypatch.setattr(liveness, "_open_files", lambda *_: iter([use]))
    with pytest.raises(Refused, match="expected a stopped broker, found a running broker"):
        apply(plan, assume_stopped=True)
    assert left(place / "own") == before
    ran = run(["heal", str(partition), "--from", str(copy), "--apply"], searching=True)
    assert ran.code in (OK, REFUSED)
