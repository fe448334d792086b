"""Taking repairs back, and giving the space of their backups back."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kdump.cli.main
from kdump.errors import KdumpError, Refused, Unfinished
from kdump.repair.transaction.apply import apply, resume
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.undo import discard, newest_repair, undo
from kdump.storage.repair_record import RepairState, repair_records
from kdump.ui import exits
from support.crashing.running import run
from support.crashing.seam import Call
from support.crashing.subjects import (
    CHECKPOINTS,
    CONVERT,
    LOSSY,
    MARK,
    MARKER,
    POINT,
    REINDEX,
)
from support.crashing.trees import put, take
from support.damaged import name
from support.fixtures_loader import copy_fixture
from support.forge import checkpoint
from support.planning import (
    calling,
    conversion,
    copied,
    failing_at,
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
PARTLY_REMOVED = "only part of the backup is left: run the command again"


@pytest.fixture
def old(place: Path) -> Path:
    """A partition that begins with messages of magic 0 and 1."""
    CONVERT.write(place)
    return CONVERT.partition(place)


# --- several repairs


def test_the_last_repair_is_the_first_to_be_undone(place: Path) -> None:
    files = {**REINDEX.files, **LOSSY.files}
    replace(LOSSY, files=files).write(place)
    partition = LOSSY.partition(place)
    before = left(place)
    older = reindexing(partition)
    apply(older)
    between = left(partition)
    newer = truncation(partition)
    apply(newer)
    first, second = repair_records(partition)
    assert (first.id, second.id) == (older.id, newer.id)
    assert first.begun_ns is not None
    assert second.begun_ns is not None
    assert first.begun_ns < second.begun_ns
    now = left(place)
    with pytest.raises(Refused, match=f"to be the newest repair, found {newer.id}: undo that"):
        undo(first, partition, partition.parent, assume_stopped=False)
    assert left(place) == now
    undone(partition, newer)
    assert left(partition) == between
    undone(partition, older)
    assert restored(place, before, *(f"data/{checkpoint}" for checkpoint in CHECKPOINTS))
    assert newest_repair(partition) is None


def test_repairs_of_several_kinds_are_undone_one_by_one(old: Path) -> None:
    """Broken indexes are rebuilt, then the logs are converted, then the last one is cut."""
    (old / name(0, ".timeindex")).unlink()
    plans, states = [], [left(old)]
    for planned in (reindexing, conversion, lambda path: truncation(path, 250)):
        plans.append(planned(old))
        apply(plans[-1])
        states.append(left(old))
    for plan, before in zip(reversed(plans), states[-2::-1], strict=True):
        undone(old, plan)
        assert left(old) == before


def test_times_come_back_but_those_of_checkpoint_files(place: Path) -> None:
    LOSSY.write(place)
    partition = LOSSY.partition(place)

    def times() -> dict[Path, int]:
        files = (path for path in partition.parent.rglob("*") if path.is_file())
        return {path: path.stat().st_mtime_ns for path in files if path.name != ".lock"}

    before = times()
    plan = truncation(partition)
    apply(plan)
    undone(partition, plan)
    changed = {path.name for path, time in times().items() if before.pop(path) != time}
    assert not before
    # As undo --help says; the log start offset is behind the cut.
    assert changed == set(CHECKPOINTS) - {"log-start-offset-checkpoint"}


def test_a_repair_that_is_gone_cannot_be_undone(lossy: Path) -> None:
    plan = truncation(lossy)
    apply(plan)
    (repair,) = repair_records(lossy)
    undone(lossy, plan)
    with pytest.raises(KdumpError, match=r"plan[.]json: cannot be read: No such file"):
        undo(repair, lossy, lossy.parent, assume_stopped=False)


def test_a_backup_is_discarded(lossy: Path) -> None:
    apply(truncation(lossy))
    now = left(lossy)
    (repair,) = repair_records(lossy)
    discard(repair, lossy)
    assert not (lossy / ".kdump").exists()
    assert left(lossy) == {path: node for path, node in now.items() if ".kdump" not in path}
    assert newest_repair(lossy) is None
    assert truncation(lossy).steps == ()


def test_a_backup_that_cannot_be_discarded_stays(lossy: Path) -> None:
    apply(truncation(lossy))
    now = left(lossy)
    (repair,) = repair_records(lossy)
    with failing_at("unlink"), pytest.raises(Refused, match=r"cannot be removed: .*Input/output"):
        discard(repair, lossy)
    assert left(lossy) == now


@pytest.mark.parametrize("method", ["unlink", "sync", "remove_directory"])
@pytest.mark.parametrize("error", [errno.EIO, KeyboardInterrupt()], ids=["EIO", "SIGINT"])
def test_a_removal_that_stops_says_what_is_left(
    lossy: Path, method: str, error: int | BaseException
) -> None:
    """A backup is one as long as it is whole."""
    plan = truncation(lossy)
    apply(plan)
    whole, folder = take(lossy), lossy / ".kdump" / plan.id
    again = ("kdump", "undo", str(lossy), "--plan", plan.id, "--discard")
    ends = set()
    for number in count():
        put(lossy, whole)
        (record,) = repair_records(lossy)
        try:
            with failing_at(method, number, error):
                discard(record, lossy)
        except (Refused, KeyboardInterrupt):
            ends.add("whole")
            assert take(lossy) == whole
        except Unfinished as unfinished:
            end = PARTLY_REMOVED if folder.exists() else "the backup is removed"
            ends.add(end)
            assert str(unfinished).endswith(f"; {end}")
            assert unfinished.resume == (again if folder.exists() else again[:3])
            for rest in repair_records(lossy):
                discard(rest, lossy)
        else:
            break
    assert PARTLY_REMOVED in ends
    assert not folder.exists()


def test_a_removal_that_stopped_goes_on_with_the_command_that_is_printed(lossy: Path) -> None:
    apply(truncation(lossy))
    (record,) = repair_records(lossy)
    calls = 0

    def around(call: Call, make: Callable[..., Any]) -> Any:
        nonlocal calls
        calls += call.method == "unlink"
        if call.method == "unlink" and calls == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    argv = ["undo", str(lossy), "--plan", record.id, "--discard"]
    ran = run(argv, around)
    assert ran.code == exits.INCOMPLETE, ran
    assert PARTLY_REMOVED in ran.err
    assert shlex.split(ran.last_line) == ["kdump", *argv]
    again = run(argv)
    assert again.code == exits.OK, again
    assert not (lossy / ".kdump").exists()


@pytest.mark.parametrize("undone_first", [False, True])
def test_a_folder_that_cannot_be_removed_after_an_undo(lossy: Path, undone_first: bool) -> None:
    before = left(lossy.parent)
    plan = truncation(lossy)
    apply(plan)
    begun = Folder(lossy, plan.id).path / "begun.json"

    def around(call: Call, make: Callable[..., Any]) -> Any:
        wanted = "remove_directory" if undone_first else "unlink"
        if call.method == wanted and (undone_first or call.paths == (str(begun),)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    with calling(around):
        if undone_first:
            undone(lossy, plan)
        else:
            with pytest.raises(Unfinished, match="the undo of plan"):
                undone(lossy, plan)
    (repair,) = repair_records(lossy)
    assert repair.state is (RepairState.PREPARED if undone_first else RepairState.UNDOING)
    if undone_first:
        discard(repair, lossy)
    else:
        undone(lossy, plan)
    assert restored(lossy.parent, before)


def test_an_interrupted_repair_is_not_discarded(lossy: Path) -> None:
    interrupt(truncation(lossy))
    now = left(lossy)
    (repair,) = repair_records(lossy)
    with pytest.raises(Refused, match="expected a finished repair, found an interrupted repair"):
        discard(repair, lossy)
    assert left(lossy) == now


def test_what_was_put_back_by_others_is_not_repaired_over_its_backup(lossy: Path) -> None:
    saved = lossy.parent.parent / "saved"
    shutil.copytree(lossy, saved, copy_function=copied)
    plan = truncation(lossy)
    apply(plan)
    backup = left(lossy / ".kdump")
    for path in lossy.iterdir():
        if path.is_file():
            path.unlink()
    for path in saved.iterdir():
        copied(str(path), str(lossy / path.name))
    for file, offset in (("cleaner-offset-checkpoint", 250), (MARK, 300), (POINT, 300)):
        (lossy.parent / file).write_bytes(checkpoint([("orders", 0, offset)]))
    again = truncation(lossy)
    assert again.id == plan.id
    before = left(lossy.parent)
    with pytest.raises(Refused, match=f"expected no backup of plan {plan.id}, found a backup"):
        apply(again)
    assert left(lossy.parent) == before
    assert left(lossy / ".kdump") == backup
    (repair,) = repair_records(lossy)
    discard(repair, lossy)
    apply(again)
    assert truncation(lossy).steps == ()


def test_another_partition_was_repaired_since(lossy: Path) -> None:
    marker = lossy.parent / MARKER
    before = left(lossy)
    content = marker.read_bytes()
    plan = truncation(lossy)
    apply(plan)
    # As a repair of another partition puts it back later.
    os.utime(marker, ns=(2**60, 2**60))
    undone(lossy, plan)
    assert left(lossy) == before
    assert marker.read_bytes() == content


# --- changes by a broker


def _written(path: Path, content: bytes = b"other") -> None:
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda top, path: _written(path / LATER), LATER),
        (lambda top, path: _written(path / name(0, ".log")), name(0, ".log")),
        (lambda top, path: _written(path / name(500, ".log")), name(500, ".log")),
        (lambda top, path: _written(path / LOG), LOG),
        (lambda top, path: (path / LOG).unlink(), LOG),
        (lambda top, path: _written(path / INDEX), INDEX),
        (lambda top, path: _written(path / EPOCHS), EPOCHS),
        (lambda top, path: _written(top / POINT, checkpoint([("orders", 0, 170)])), POINT),
        (lambda top, path: _written(top / MARKER), MARKER),
    ],
    ids=["later", "other", "new", "longer", "gone", "index", "epochs", "line", "marker"],
)
@pytest.mark.parametrize("finished", [False, True], ids=["pending", "done"])
def test_what_a_broker_changed_is_neither_finished_nor_undone(
    lossy: Path, change: Callable[[Path, Path], None], text: str, finished: bool
) -> None:
    top = lossy.parent
    plan = truncation(lossy)
    if finished:
        apply(plan)
    else:
        interrupt(plan)
    change(top, lossy)
    now = left(top)
    with pytest.raises(Refused, match=f"found {text} changed since: a broker has run here"):
        undone(lossy, plan)
    if not finished:
        with pytest.raises(Refused, match=f"{text} changed since.* is in .*/.kdump/{plan.id}"):
            resume(Folder(lossy, plan.id), top)
    assert left(top) == now


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: _written(path / name(0, ".log")), name(0, ".log")),
        (lambda path: (path / name(0, ".log")).unlink(), name(0, ".log")),
        (lambda path: _written(path / name(0, ".index")), name(0, ".index")),
        (lambda path: _written(path / LATER), LATER),
        (lambda path: _written(path / name(40, ".log")), name(40, ".log")),
        (lambda path: _written(path / EPOCHS), EPOCHS),
    ],
    ids=["log", "gone", "index", "later", "new", "epochs"],
)
@pytest.mark.parametrize("finished", [False, True], ids=["pending", "done"])
def test_what_a_broker_changed_of_converted_logs_stays(
    old: Path, change: Callable[[Path], None], text: str, finished: bool
) -> None:
    plan = conversion(old)
    if finished:
        apply(plan)
    else:
        # The plan, what begins, the index away, the log in, and then its time index.
        interrupt(plan, "rename", 4)
    change(old)
    now = left(old)
    with pytest.raises(Refused, match=f"found {text} changed since: a broker has run here"):
        undone(old, plan)
    if not finished:
        with pytest.raises(Refused, match=f"{text} changed since.* is in .*/.kdump/{plan.id}"):
            resume(Folder(old, plan.id), old.parent)
    assert left(old) == now


def test_a_repair_that_a_broker_has_changed_since_is_shown_without_its_undo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = copy_fixture("4.3.1/clean", tmp_path / "data") / "codec-zstd-0"
    index = partition / "00000000000000000050.index"
    index.unlink()
    assert kdump.cli.main.main(["reindex", str(partition), "--apply"]) == exits.OK
    (plan_id,) = {path.name for path in (partition / ".kdump").iterdir()}
    capsys.readouterr()
    shown = ["undo", str(partition), "--plan", plan_id]
    assert kdump.cli.main.main(shown) == exits.OK
    assert f"--plan {plan_id} --apply" in capsys.readouterr().out
    index.write_bytes(index.read_bytes() + bytes(8))
    assert kdump.cli.main.main(shown) == exits.OK
    text = " ".join(capsys.readouterr().out.split())
    assert "--apply" not in text
    assert "undo refused: " in text
    assert f"--plan {plan_id} --discard" in text
