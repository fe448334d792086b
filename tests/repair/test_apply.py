"""Carrying plans out: what is done, what is refused, and what stays alone.

Kills, failing calls and lost page caches are in tests of their own.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import Refused, Unfinished
from kdump.repair.transaction.apply import apply, resume
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.interruption import Interruption
from kdump.repair.transaction.lock import hold_log_directory
from kdump.repair.transaction.plan import (
    Cut,
    Line,
    Plan,
    Prefix,
    Put,
    PutMarker,
    RebuiltIndex,
    Remove,
    TakeMarker,
    decode,
    encode,
)
from kdump.repair.transaction.preparation import make
from kdump.repair.transaction.undo import discard, newest_repair, undo
from kdump.storage.repair_record import RepairState, repair_records
from support.crashing.places import on_disk
from support.crashing.seam import Call
from support.crashing.subjects import (
    ALONE,
    CHECKPOINTS,
    LINKED,
    LOSSY,
    MARK,
    MARKER,
    OTHER,
    POINT,
    REINDEX,
    TORN,
    Subject,
    batches,
)
from support.crashing.trees import Node
from support.damaged import name
from support.forge import checkpoint
from support.planning import (
    by_hand,
    calling,
    copied,
    failing_at,
    give,
    interrupt,
    left,
    reindexing,
    restored,
    truncation,
    undone,
)

pytestmark = pytest.mark.usefixtures("unsearched")

LOG, INDEX, TIMES = (name(100, suffix) for suffix in (".log", ".index", ".timeindex"))
LATER = name(200, ".log")
EPOCHS = "leader-epoch-checkpoint"


def everything(partition: Path) -> Plan:
    """A plan with every kind of step, and of recipe."""
    log = (partition / LOG).read_bytes()
    size = sum(map(len, batches(100)[:7]))
    first = partition / name(0, ".log")
    return by_hand(
        partition,
        TakeMarker(),
        Line(POINT, 300, 100),
        Remove(LATER),
        Remove(name(200, ".snapshot")),
        Remove(INDEX),
        Cut(LOG, size, hashlib.sha256(log[size:]).hexdigest(), "00"),
        Put.of(INDEX, b"12345678", replaces=False),
        Put.of(EPOCHS, b"0\n0\n", replaces=True),
        Put.of("new", b"", replaces=False),
        Put(
            first.name,
            100,
            hashlib.sha256(first.read_bytes()[:100]).hexdigest(),
            True,
            Prefix(100),
            mtime_ns=first.stat().st_mtime_ns,
        ),
        Line(MARK, 300, 17),
        Line("cleaner-offset-checkpoint", 250, 7),
        PutMarker(),
    )


# --- what is done


def test_every_kind_of_step(lossy: Path) -> None:
    top, before = lossy.parent, left(lossy.parent)
    plan = everything(lossy)
    receipt = apply(plan)
    now = left(top)
    log, epochs = now[f"{lossy.name}/{LOG}"], now[f"{lossy.name}/{EPOCHS}"]
    assert log == replace(before[f"{lossy.name}/{LOG}"], content=log.content)
    assert log.content == b"".join(batches(100)[:7])
    assert epochs.lasting == replace(before[f"{lossy.name}/{EPOCHS}"], content=b"0\n0\n").lasting
    first = before[f"{lossy.name}/{name(0, '.log')}"]
    assert first.content is not None
    assert now[f"{lossy.name}/{name(0, '.log')}"] == replace(first, content=first.content[:100])
    assert now[f"{lossy.name}/{INDEX}"].content == b"12345678"
    assert f"{lossy.name}/{LATER}" not in now
    assert now[MARKER].content == b""
    # What has no model gets the owner, the permissions and the attributes of the last log.
    model = before[f"{lossy.name}/{LATER}"]
    assert now[f"{lossy.name}/new"].lasting == replace(model, content=b"").lasting
    changed = {path for path in before if now.get(path) != before[path]}
    kept_names = {name(200, ".log"), name(200, ".snapshot"), LOG, INDEX, EPOCHS, name(0, ".log")}
    assert changed == {f"{lossy.name}/{name}" for name in kept_names} | {
        MARKER,
        *(POINT, MARK, "cleaner-offset-checkpoint"),
    }
    assert receipt == json.loads((lossy / ".kdump" / plan.id / "receipt.json").read_text())
    undone(lossy, plan)
    assert restored(top, before)
    assert not (lossy / ".kdump").exists()


@pytest.mark.parametrize("subject", [LOSSY, TORN, REINDEX, ALONE], ids=str)
def test_what_the_planners_plan(place: Path, subject: Subject) -> None:
    subject.write(place)
    partition = subject.partition(place)
    planner: Callable[[Path], Plan] = truncation
    if subject is REINDEX:
        planner = reindexing
    before = left(place)
    plan = planner(partition)
    assert left(place) == before
    apply(plan)
    assert planner(partition).steps == ()
    with pytest.raises(Refused, match=r"expected no backup of plan|plan again"):
        apply(plan)
    undone(partition, plan)
    assert restored(place, before, *(f"data/{checkpoint}" for checkpoint in CHECKPOINTS))
    assert planner(partition).id == plan.id
    apply(plan)
    assert planner(partition).steps == ()


def test_a_plan_from_json_does_the_same_where_recipes_make_its_files(place: Path) -> None:
    REINDEX.write(place)
    partition = REINDEX.partition(place)
    whole = reindexing(partition)
    steps = tuple(put for put in whole.puts if isinstance(put.recipe, RebuiltIndex))
    plan = replace(whole, steps=steps)
    read = decode(json.loads(json.dumps(encode(plan))))
    assert read.id == plan.id
    apply(read)
    for put in steps:
        assert (partition / put.name).read_bytes() == put.content


def test_files_without_content_or_recipe_are_not_begun(unindexed: Path) -> None:
    before = left(unindexed.parent)
    plan = decode(encode(by_hand(unindexed, Put.of("new", b"content", replaces=False))))
    with pytest.raises(ValueError, match="expected 7 bytes to write, found another size"):
        apply(plan)
    assert left(unindexed.parent) == before


def test_hard_links_are_not_changed_through(place: Path) -> None:
    LINKED.write(place)
    partition, twins = LINKED.partition(place), place / "kept"
    before = left(twins)
    plan = truncation(partition)
    assert not plan.cuts
    apply(plan)
    assert left(twins) == before
    undone(partition, plan)
    assert (partition / LOG).samefile(twins / LOG)
    assert left(twins) == before


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory that is on another file system than the others, if there are two."""
    with on_disk() as directory:
        yield directory


def test_a_partition_may_be_a_link_to_another_file_system(place: Path, elsewhere: Path) -> None:
    LOSSY.write(place)
    partition = LOSSY.partition(place)
    moved = elsewhere / partition.name
    shutil.copytree(partition, moved, copy_function=copied)
    give(moved, partition)
    shutil.rmtree(partition)
    partition.symlink_to(moved)
    top, before, inside = partition.parent, left(partition.parent), left(elsewhere)
    plan = truncation(partition)

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "rename" and call.paths[1] == str(top / POINT):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    with calling(around), pytest.raises(Unfinished):
        apply(plan)
    undone(partition, plan)
    assert restored(top, before)
    assert left(elsewhere) == inside
    apply(plan)
    assert line(top, POINT) == 100
    assert not list(top.glob(".kdump*"))
    assert truncation(partition).steps == ()
    undone(partition, plan)
    assert restored(top, before)
    assert left(elsewhere) == inside


def line(top: Path, checkpoint: str) -> int:
    """What a checkpoint says of the partition."""
    (found,) = [
        text.split()[2]
        for text in (top / checkpoint).read_text().splitlines()
        if text.startswith("orders 0 ")
    ]
    return int(found)


def test_other_lines_stay_as_they_are_and_where_they_are(lossy: Path) -> None:
    top = lossy.parent
    rows = [("z", 1, 5), ("orders", 1, 90), ("orders", 0, 300), ("a.b", 0, 7), ("orders", 10, 4)]
    (top / POINT).write_bytes(checkpoint(rows))
    before = left(top)
    plan = truncation(lossy)
    apply(plan)
    rows[2] = ("orders", 0, 100)
    assert (top / POINT).read_bytes() == checkpoint(rows)
    # Meanwhile a broker, or a repair, changed the line of another partition.
    rows[0] = ("z", 1, 6)
    (top / POINT).write_bytes(checkpoint(rows))
    undone(lossy, plan)
    rows[2] = ("orders", 0, 300)
    assert (top / POINT).read_bytes() == checkpoint(rows)
    (top / POINT).write_bytes(before[POINT].content or b"")
    assert restored(top, before)


def test_a_line_comes_and_goes(lossy: Path) -> None:
    top = lossy.parent
    rows = [("x", 1, 5), ("orders", 0, 300), ("y", 1, 6)]
    (top / POINT).write_bytes(checkpoint(rows))
    (top / MARK).write_bytes(checkpoint([rows[0], rows[2]]))
    plan = by_hand(lossy, Line(POINT, 300, None), Line(MARK, None, 4))
    apply(plan)
    assert (top / POINT).read_bytes() == checkpoint([rows[0], rows[2]])
    assert (top / MARK).read_bytes() == checkpoint([rows[0], rows[2], ("orders", 0, 4)])
    undone(lossy, plan)
    assert (top / MARK).read_bytes() == checkpoint([rows[0], rows[2]])
    assert line(top, POINT) == 300


def test_outside_of_a_log_directory_only_the_partition_is_touched(place: Path) -> None:
    ALONE.write(place)
    partition = ALONE.partition(place)
    plan = truncation(partition)
    assert plan.log_directory is None
    apply(plan)
    assert [path.name for path in partition.parent.iterdir()] == [partition.name]


@pytest.mark.parametrize("step", [TakeMarker(), Line(POINT, None, 5)], ids=["marker", "line"])
def test_what_only_a_log_directory_has_needs_one(place: Path, step: TakeMarker | Line) -> None:
    ALONE.write(place)
    partition = ALONE.partition(place)
    before = left(place)
    with pytest.raises(
        Refused, match=("expected a partition in a log directory, found that it is in none")
    ):
        apply(by_hand(partition, step, above=False))
    assert left(place) == before


def test_a_line_needs_a_name_that_says_of_which_partition(place: Path) -> None:
    LOSSY.write(place)
    partition = LOSSY.partition(place).rename(place / "data" / "orders")
    before = left(place)
    with pytest.raises(Refused, match="expected a directory called <topic>-<partition>"):
        apply(by_hand(partition, Line(POINT, None, 5)))
    assert left(place) == before


def lasting(top: Path) -> dict[str, Node]:
    """The files below ``top`` without times, except the folders of repairs."""
    return {
        path: node.lasting
        for path, node in left(top).items()
        if path != "." and ".kdump" not in path
    }


# --- receipts


def test_the_receipt(lossy: Path) -> None:
    before = left(lossy)
    plan = truncation(lossy)
    receipt = apply(plan)
    now = left(lossy)

    def digest(tree: dict[str, Node], file: str) -> str | None:
        node = tree.get(file)
        if node is None or node.content is None:
            return None
        return hashlib.sha256(node.content).hexdigest()

    (cut,) = plan.cuts
    assert receipt["files"].keys() == plan.changed_files
    assert receipt["files"][LOG] == {"tail": cut.tail_sha256, "last_header": cut.last_header}
    for file in plan.changed_files - {LOG}:
        assert receipt["files"][file] == {
            "before": digest(before, file),
            "after": digest(now, file),
        }
    assert (receipt["id"], receipt["command"]) == (plan.id, "truncate-to-valid")
    assert receipt["loss"]["sound"]["count"] == plan.loss.sound.count
    assert receipt["uid"] == os.geteuid()
    assert receipt["log_end"] == list(plan.log_end)


def test_a_full_proof_has_the_digest_of_every_file(lossy: Path) -> None:
    receipt = apply(truncation(lossy), full_proof=True)
    for path in lossy.iterdir():
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert receipt["files"][path.name]["after"] == digest


# --- what has changed since


def _append(partition: Path) -> None:
    with (partition / LOG).open("ab") as file:
        file.write(b"x")


def _touch(partition: Path) -> None:
    os.utime(partition / name(0, ".log"))


def _add(partition: Path) -> None:
    (partition / name(300, ".log")).touch()


def _take(partition: Path) -> None:
    (partition / INDEX).unlink()


def _replace(partition: Path) -> None:
    copy = partition.with_name("copy")
    shutil.copytree(partition, copy, copy_function=copied)
    give(copy, partition)
    shutil.rmtree(partition)
    copy.rename(partition)


def _retail(partition: Path) -> None:
    stamp = (partition / LOG).stat().st_mtime_ns
    with (partition / LOG).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(partition / LOG, ns=(stamp, stamp))


def _unmark(partition: Path) -> None:
    (partition.parent / MARKER).unlink()


def _reline(partition: Path) -> None:
    (partition.parent / POINT).write_bytes(checkpoint([("orders", 0, 299)]))


def _unline(partition: Path) -> None:
    (partition.parent / MARK).unlink()


def _spoil(partition: Path) -> None:
    (partition.parent / MARK).write_bytes(b"0\nx\n")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_append, LOG),
        (_touch, name(0, ".log")),
        (_add, name(300, ".log")),
        (_take, INDEX),
        (_replace, "another directory"),
        (_retail, "expected the tail that the plan was made for"),
        (_unmark, "expected the clean shutdown file, found none"),
        (_reline, POINT),
        (_unline, MARK),
        (_spoil, "expected an offset checkpoint, found another file"),
    ],
)
def test_what_changed_since_it_was_planned_is_left_alone(
    lossy: Path, change: Callable[[Path], None], text: str
) -> None:
    plan = truncation(lossy)
    change(lossy)
    before = left(lossy.parent)
    with pytest.raises(Refused, match=text):
        apply(plan)
    assert left(lossy.parent) == before


# --- repairs that were interrupted


def test_an_interrupted_repair_lets_no_other_begin(lossy: Path) -> None:
    top = lossy.parent
    plan = truncation(lossy)
    other = by_hand(lossy, Put.of("new", b"", replaces=False))
    elsewhere = by_hand(top / OTHER, Put.of("new", b"", replaces=False))
    apply(elsewhere)
    (undoable_elsewhere,) = repair_records(top / OTHER)
    interrupt(plan)
    now = left(top)
    with pytest.raises(Refused, match=f"expected no interrupted repair, found {plan.id}: finish"):
        apply(other)
    with pytest.raises(Refused, match=f"{lossy}: expected no interrupted repair in this log dir"):
        apply(by_hand(top / OTHER, Put.of("more", b"", replaces=False)))
    with pytest.raises(Refused, match="which holds the clean shutdown file or checkpoint lines"):
        undo(undoable_elsewhere, top / OTHER, top, assume_stopped=False)
    assert left(top) == now
    receipt = resume(Folder(lossy, plan.id), top)
    assert receipt["id"] == plan.id
    apply(by_hand(top / OTHER, Put.of("more", b"", replaces=False)))


def test_repairs_of_several_partitions_share_a_lock(lossy: Path) -> None:
    """Another repair that is finished under it keeps none of them waiting any more."""
    top = lossy.parent
    plan = truncation(lossy)
    interrupt(plan)
    with hold_log_directory(top) as held:
        more = by_hand(top / OTHER, Put.of("more", b"", replaces=False))
        with pytest.raises(Refused, match="expected no interrupted repair in this log dir"):
            apply(more, held=held)
        resume(Folder(lossy, plan.id), top, held=held)
        apply(more, held=held)
        (record,) = repair_records(top / OTHER)
        undo(record, top / OTHER, top, assume_stopped=False, held=held)
        with (
            pytest.raises(Refused, match="expected a stopped broker, found a running broker"),
            hold_log_directory(top),
        ):
            pass
        now = left(top)
        (top / ".lock").unlink()
        with pytest.raises(Refused, match="expected the lock file to stay"):
            apply(more, held=held)
        (top / ".lock").touch()
        with pytest.raises(Refused, match="expected the lock file to stay"):
            apply(more, held=held)
        assert left(top) == now


def test_one_that_holds_nothing_of_others_does_not_keep_them_waiting(unindexed: Path) -> None:
    top = unindexed.parent
    plan = reindexing(unindexed)
    interrupt(plan, "rename", 5)
    apply(by_hand(top / OTHER, Put.of("new", b"", replaces=False)))
    (repair,) = repair_records(unindexed)
    assert repair.state is RepairState.PENDING
    resume(Folder(unindexed, plan.id), top)
    assert reindexing(unindexed).steps == ()


def test_an_interrupted_undo_lets_no_other_begin(lossy: Path) -> None:
    top, before = lossy.parent, left(lossy.parent)
    plan = truncation(lossy)
    apply(plan)
    (repair,) = repair_records(lossy)
    with failing_at("pwrite"), pytest.raises(Unfinished) as raised:
        undo(repair, lossy, top, assume_stopped=False)
    assert raised.value.resume == ("kdump", "undo", str(lossy), "--plan", plan.id, "--apply")
    assert "the undo of plan" in str(raised.value)
    (repair,) = repair_records(lossy)
    assert repair.state is RepairState.UNDOING
    for partition in (lossy, top / OTHER):
        with pytest.raises(Refused, match="expected no interrupted repair"):
            apply(by_hand(partition, Put.of("new", b"", replaces=False)))
    with pytest.raises(Refused, match="expected a finished repair"):
        discard(repair, lossy)
    undone(lossy, plan)
    assert restored(top, before)


def test_what_was_only_prepared_is_cleared_by_the_next(lossy: Path) -> None:
    top, before = lossy.parent, left(lossy.parent)
    # The power went before anything was begun: a folder stays, of which nothing was done.
    first = by_hand(lossy, Put.of("new", b"", replaces=False))
    folder = Folder(lossy, first.id)
    folder.path.mkdir(parents=True)
    (folder.path / "plan.json").write_text(json.dumps(encode(first)))
    (folder.path / "new").mkdir()
    (folder.path / "new" / "new").write_bytes(b"half")
    for path in (folder.path.parent, *folder.path.parent.rglob("*")):
        give(path, lossy)
    assert [repair.state for repair in repair_records(lossy)] == [RepairState.PREPARED]
    assert newest_repair(lossy) is None
    plan = truncation(lossy)
    apply(plan)
    assert [repair.id for repair in repair_records(lossy)] == [plan.id]
    undone(lossy, plan)
    assert restored(top, before)


def test_what_fails_before_it_began_leaves_nothing(lossy: Path) -> None:
    before = left(lossy.parent)
    plan = truncation(lossy)
    for method in ("make_directory", "open", "copy", "write", "chmod", "rename"):
        with failing_at(method), pytest.raises(Refused):
            apply(plan)
        assert left(lossy.parent) == before, method
    with failing_at("write", 2, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        apply(plan)
    assert left(lossy.parent) == before


def test_what_fails_once_it_says_that_it_began_is_pending(lossy: Path) -> None:
    plan = truncation(lossy)
    begun = Folder(lossy, plan.id).path / "begun.json"

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if begun.exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    before = lasting(lossy.parent)
    with calling(around), pytest.raises(Unfinished, match=r"was interrupted: .*Input/output error"):
        apply(plan)
    assert lasting(lossy.parent) == before
    resume(Folder(lossy, plan.id), lossy.parent)
    assert truncation(lossy).steps == ()


@pytest.mark.parametrize(("method", "number"), [("unlink", 0), ("rename", 3), ("truncate", 0)])
def test_a_repair_goes_on_from_wherever_it_was(lossy: Path, method: str, number: int) -> None:
    other = lossy.parent.parent / "other"
    shutil.copytree(lossy.parent, other, copy_function=copied)
    plan = truncation(lossy)
    interrupt(plan, method, number)
    resume(Folder(lossy, plan.id), lossy.parent)
    now = lasting(lossy)
    apply(truncation(other / lossy.name))
    assert now == lasting(other / lossy.name)


@pytest.mark.parametrize("undoing", [False, True], ids=["resume", "undo"])
def test_a_repair_goes_on_in_a_copy_of_its_directory(lossy: Path, undoing: bool) -> None:
    """A plan knows its directory by a device and an inode, which a copy on another disk changes."""
    before, top = left(lossy.parent), lossy.parent.with_name("copy")
    interrupt(truncation(lossy))
    shutil.copytree(lossy.parent, top, copy_function=copied)
    for path in (top, *(path for path in top.rglob("*") if path.is_dir())):
        give(path, lossy.parent / path.relative_to(top))
    (record,) = repair_records(top / lossy.name)
    if undoing:
        undo(record, top / lossy.name, top, assume_stopped=False)
        assert restored(top, before)
    else:
        resume(Folder(top / lossy.name, record.id), top)
        assert truncation(top / lossy.name).steps == ()


@pytest.mark.parametrize(
    "recipe",
    [RebuiltIndex(LOG, ".txnindex", 4096), RebuiltIndex("x.log", ".index", 4096)],
    ids=["no index", "no segment"],
)
def test_a_recipe_of_no_index_is_not_begun(lossy: Path, recipe: RebuiltIndex) -> None:
    with pytest.raises(ValueError, match="expected an index of a segment"):
        make(recipe, lossy)


def test_an_older_backup_stays_when_the_next_repair_fails_to_begin(unindexed: Path) -> None:
    apply(reindexing(unindexed))
    before = left(unindexed.parent)
    plan = truncation(unindexed, 150)
    with failing_at("copy"), pytest.raises(Refused, match="nothing was changed"):
        apply(plan)
    assert left(unindexed.parent) == before


@pytest.mark.parametrize("undoing", [False, True], ids=["resume", "undo"])
def test_a_failure_before_further_steps_does_not_deny_those_that_are_done(
    lossy: Path, monkeypatch: pytest.MonkeyPatch, undoing: bool
) -> None:
    plan = truncation(lossy)
    interrupt(plan)
    now = left(lossy.parent)

    def unreadable(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("kdump.repair.transaction.repair.stamp_of", unreadable)
    with pytest.raises(Refused, match=r"nothing more was changed: .*Input/output error"):
        undone(lossy, plan) if undoing else resume(Folder(lossy, plan.id), lossy.parent)
    assert left(lossy.parent) == now


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (5, "Input/output error"),
        (KeyboardInterrupt(), ": SIGINT; "),
        (SystemExit(143), ": SIGTERM; "),
    ],
    ids=["fault", "interrupt", "signal"],
)
def test_what_is_interrupted_says_how_to_go_on(
    lossy: Path, error: int | BaseException, text: str
) -> None:
    plan = truncation(lossy, 150)
    with failing_at("truncate", 0, error), pytest.raises(Unfinished) as raised:
        apply(plan)
    message = str(raised.value)
    assert isinstance(raised.value, Interruption)
    done, rest = raised.value.done, raised.value.left
    assert done is not None
    assert rest is not None
    assert f"{len(done.steps)} of {len(plan.steps)} steps are done" in message
    assert plan.steps[len(done.steps)].__class__ is Cut
    assert (*done.steps, *rest.steps) == plan.steps
    assert f"the repair of plan {plan.id} was interrupted: " in message
    assert text in message
    assert str(lossy / ".kdump" / plan.id) in message
    assert raised.value.resume == (
        *("kdump", "truncate-to-valid", "--at", "150", str(lossy), "--apply"),
        *("--confirm", plan.id),
    )
