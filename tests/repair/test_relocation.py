"""Moves in this process: done, undone, discarded, refused; each with the calls that fail."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import Refused, Unfinished
from kdump.repair.relocation import carry
from kdump.repair.relocation import move as moves
from kdump.repair.relocation.carry import (
    carry_out,
    check_revertible,
    discard,
    interrupted_move,
    is_finished,
    is_outdated,
    leftovers,
    recorded_move,
    resume,
    take_back,
)
from kdump.repair.relocation.move import Move, decode, encode, read_files, read_move, shares_mount
from kdump.repair.transaction.directories import open_directory
from kdump.storage.names import format_aside_name, is_aside_name, parse_directory_name
from kdump.storage.repair_record import RepairRecord, RepairState, repair_records
from support.crashing.seam import Call
from support.fixtures_loader import copy_fixture
from support.planning import calling

NAME = "compacted-0"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = copy_fixture("4.3.1/clean", tmp_path / "a")
    (tmp_path / "b").mkdir()
    shutil.copy(data / "meta.properties", tmp_path / "b")
    (tmp_path / "b" / ".kafka_cleanshutdown").touch()
    return data


@pytest.fixture(params=[True, False], ids=["copied", "renamed"])
def planned(request: pytest.FixtureRequest, data: Path, monkeypatch: pytest.MonkeyPatch) -> Move:
    if request.param:
        monkeypatch.setattr(moves, "shares_mount", lambda *_: False)
    return read_move(data / NAME, data.parent / "b")


@pytest.fixture
def copied(data: Path, monkeypatch: pytest.MonkeyPatch) -> Move:
    monkeypatch.setattr(moves, "shares_mount", lambda *_: False)
    return read_move(data / NAME, data.parent / "b")


def record_of(home: Path) -> RepairRecord:
    return repair_records(home)[-1]


def stopping(method: str, on: Callable[[Call], bool], error: int) -> AbstractContextManager[None]:
    """The calls of ``method`` that ``on`` picks fail, the others go on."""

    def around(call: Call, make: Any) -> Any:
        if call.method == method and on(call):
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    return calling(around)


def sets_aside(call: Call) -> bool:
    return call.paths[1].endswith("-stray")


def arrives(call: Call) -> bool:
    return call.paths[1].endswith(f"b/{NAME}")


def test_it_is_done_and_undone(planned: Move) -> None:
    before = read_files(planned.departed)
    counted: list[int] = []
    carry_out(planned, counted.append)
    assert sum(counted) == (2 * planned.bytes if planned.copied else 0)
    assert not planned.departed.exists()
    record = record_of(planned.arrived)
    assert (record.state, record.target) == (RepairState.DONE, str(planned.target))
    assert read_files(planned.arrived, [planned.arrived / ".kdump" / planned.id]) == before
    assert is_finished(planned.departed, planned.target)
    again = recorded_move(planned.arrived, planned.id)
    assert again == planned
    check_revertible(again, record)
    take_back(again, record)
    assert read_files(planned.departed) == before
    assert [path.name for path in planned.target.iterdir() if path.is_dir()] == []


def test_its_backup_is_discarded(planned: Move) -> None:
    carry_out(planned)
    discard(planned, record_of(planned.arrived))
    assert not planned.kept.exists()
    assert not (planned.arrived / ".kdump").exists()
    assert planned.arrived.exists()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_copy_that_fails_changes_nothing(error: int, copied: Move) -> None:
    with (
        stopping("set_times", lambda _: True, error),
        pytest.raises(Refused, match="nothing was changed"),
    ):
        carry_out(copied)
    assert leftovers(copied.target, NAME) == []
    assert copied.departed.exists()


def test_a_copy_that_differs_is_refused(copied: Move) -> None:
    def around(call: Call, make: Any) -> Any:
        if call.method == "set_times" and call.paths[0].endswith("metadata"):
            os.pwrite(call.arguments[0], b"x", 0)
        return make(*call.arguments)

    with calling(around), pytest.raises(Refused, match="expected the 43 bytes"):
        carry_out(copied)
    assert copied.departed.exists()


@pytest.mark.parametrize("on", [sets_aside, arrives])
def test_an_interrupted_move_goes_on(on: Callable[[Call], bool], copied: Move) -> None:
    with stopping("rename", on, errno.EIO), pytest.raises(Unfinished) as stopped:
        carry_out(copied)
    assert stopped.value.resume == copied.command
    found = interrupted_move(copied.departed, copied.target)
    assert found is not None
    home, record = found
    move = recorded_move(home, record.id)
    assert not is_outdated(move)
    resume(move)
    assert interrupted_move(copied.departed, copied.target) is None
    assert (copied.arrived.exists(), copied.departed.exists()) == (True, False)


@pytest.mark.parametrize("on", [sets_aside, arrives])
def test_an_interrupted_move_is_undone(on: Callable[[Call], bool], copied: Move) -> None:
    with stopping("rename", on, errno.EIO), pytest.raises(Unfinished):
        carry_out(copied)
    found = interrupted_move(copied.departed, copied.target)
    assert found is not None
    home, record = found
    with pytest.raises(Refused, match="interrupted one"):
        discard(recorded_move(home, record.id), record)
    take_back(recorded_move(home, record.id), record)
    assert read_files(copied.departed) == copied.files
    assert (copied.target / ".kafka_cleanshutdown").exists()


def test_an_undo_that_fails_says_how_it_goes_on(
    copied: Move,
) -> None:
    carry_out(copied)
    record = record_of(copied.arrived)
    failing = stopping("rename", lambda call: call.paths[0] == str(copied.kept), errno.EIO)
    with failing, pytest.raises(Unfinished) as stopped:
        take_back(copied, record)
    assert stopped.value.resume[2] == str(copied.arrived)
    take_back(copied, record_of(copied.arrived))
    assert read_files(copied.departed) == copied.files


def test_a_copy_that_stays_after_an_undo(copied: Move) -> None:
    carry_out(copied)
    failing = stopping("remove_directory", lambda _: True, errno.EIO)
    with failing, pytest.raises(Unfinished) as stopped:
        take_back(copied, record_of(copied.arrived))
    assert stopped.value.resume == ("kdump", "undo", str(copied.departed)) or (
        stopped.value.resume[-1] == "--discard"
    )
    (left,) = leftovers(copied.target, NAME)
    assert left == copied.staged
    carry_out(copied)
    assert read_files(copied.kept) == copied.files


def test_a_backup_stays_when_the_partition_comes_back(copied: Move) -> None:
    """Its record is in the copy, which has come back too; each move can be undone."""
    carry_out(copied)
    back = read_move(copied.arrived, copied.source)
    assert leftovers(copied.source, NAME) == []
    carry_out(back)
    assert read_files(copied.kept) == copied.files
    assert (back.kept.exists(), back.arrived.exists()) == (True, True)
    with pytest.raises(Refused, match="newest"):
        home = back.arrived
        check_revertible(recorded_move(home, copied.id), repair_records(home)[0])
    take_back(recorded_move(back.arrived, back.id), record_of(back.arrived))
    take_back(recorded_move(copied.arrived, copied.id), record_of(copied.arrived))
    assert read_files(copied.departed) == copied.files


def test_a_backup_is_discarded_after_the_partition_came_back(copied: Move) -> None:
    carry_out(copied)
    back = read_move(copied.arrived, copied.source)
    carry_out(back)
    home = back.arrived
    record = next(each for each in repair_records(home) if each.id == copied.id)
    discard(recorded_move(home, copied.id), record)
    assert not copied.kept.exists()
    assert [each.id for each in repair_records(home)] == [back.id]
    assert {*read_files(home)} >= {*copied.files}


def test_what_is_set_aside_without_a_record_stays(copied: Move) -> None:
    aside = copied.target / format_aside_name("0000aaaa", NAME)
    (aside / ".kdump" / "0000bbbb").mkdir(parents=True)
    (aside / ".kdump" / "0000aaaa").mkdir()
    (aside / ".kdump" / "0000aaaa" / "plan.json.tmp").write_text("{")
    assert leftovers(copied.target, NAME) == [aside]
    (aside / ".kdump" / "0000bbbb" / "plan.json").write_text('{"command": "move"}')
    assert leftovers(copied.target, NAME) == []
    (aside / ".kdump" / "0000aaaa" / "begun.json").write_text("{}")
    (aside / ".kdump" / "0000bbbb" / "plan.json").unlink()
    assert leftovers(copied.target, NAME) == []


def test_what_has_the_name_of_the_copy_stays(copied: Move) -> None:
    copied.staged.mkdir()
    (copied.staged / "x").touch()
    with pytest.raises(Refused, match="expected nothing of this name"):
        carry_out(copied)
    assert (copied.staged / "x").exists()


def test_an_interrupted_copy_of_what_another_move_has_taken(copied: Move) -> None:
    """The partition is elsewhere now: the copy is not finished, and its undo leaves the rest."""
    with stopping("rename", arrives, errno.EIO), pytest.raises(Unfinished):
        carry_out(copied)
    third = copied.source.parent / "c"
    third.mkdir()
    shutil.copy(copied.source / "meta.properties", third)
    carry_out(read_move(copied.departed, third))
    assert is_outdated(copied)
    with pytest.raises(Refused, match="another move has taken them"):
        resume(copied)
    assert not copied.arrived.exists()
    before = {path.name: path.read_bytes() for path in copied.source.glob("*checkpoint")}
    take_back(copied, record_of(copied.staged))
    assert {path.name: path.read_bytes() for path in copied.source.glob("*checkpoint")} == before
    assert not copied.staged.exists()
    assert (third / NAME).exists()


def test_a_full_disk_keeps_lines_that_no_broker_reads(planned: Move) -> None:
    """It has no room for the file without the line."""
    lines = (planned.source / "replication-offset-checkpoint").read_text()

    def on(call: Call) -> bool:
        path = call.paths[0]
        return "/a/.kdump." in path and "cleaner" not in path

    with stopping("open", on, errno.ENOSPC):
        carry_out(planned)
    assert (planned.source / "replication-offset-checkpoint").read_text() == lines
    assert record_of(planned.arrived).state is RepairState.DONE


def log_of(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def test_logs_that_differ_are_refused(copied: Move) -> None:
    with stopping("rename", sets_aside, errno.EIO), pytest.raises(Unfinished):
        carry_out(copied)
    record = record_of(copied.arrived)
    log_of(copied.departed).touch()  # the same bytes, at another time
    check_revertible(copied, record)
    with log_of(copied.departed).open("r+b") as log:
        log.write(b"x")
    for refused in (resume, lambda move: take_back(move, record)):
        with pytest.raises(Refused, match="differ"):
            refused(copied)


def test_what_a_broker_has_changed_is_not_undone(planned: Move) -> None:
    carry_out(planned)
    log_of(planned.arrived).touch()
    with pytest.raises(Refused, match="a broker has run here"):
        take_back(planned, record_of(planned.arrived))


def test_a_backup_that_is_gone_is_not_undone(copied: Move) -> None:
    carry_out(copied)
    shutil.rmtree(copied.kept)
    with pytest.raises(Refused, match="expected the backup"):
        take_back(copied, record_of(copied.arrived))


def test_an_outdated_copy_is_refused(copied: Move) -> None:
    with stopping("rename", arrives, errno.EIO), pytest.raises(Unfinished):
        carry_out(copied)
    log_of(copied.departed).touch()
    assert is_outdated(copied)
    with pytest.raises(Refused, match="plan again"):
        resume(copied)
    take_back(copied, record_of(copied.staged))
    assert not copied.staged.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda move: (move.departed / "x").touch(),
        lambda move: log_of(move.departed).touch(),
        lambda move: (move.target / "replication-offset-checkpoint").write_text(
            "0\n1\ncompacted 0 5\n"
        ),
        lambda move: (
            (move.departed / ".kdump" / "0000aaaa").mkdir(parents=True)
            or (move.departed / ".kdump" / "0000aaaa" / "begun.json").write_text("{}")
        ),
        lambda move: move.arrived.mkdir(),
    ],
)
def test_what_changed_since_the_plan_is_refused(
    change: Callable[[Move], object], planned: Move
) -> None:
    change(planned)
    with pytest.raises(Refused):
        carry_out(planned)
    assert planned.departed.exists()


def test_a_target_of_another_owner_is_refused(planned: Move) -> None:
    if os.geteuid():
        pytest.skip("root alone gives files away")
    os.chown(planned.target, 1234, 1234)
    with pytest.raises(Refused, match="expected user 0"):
        carry_out(planned)


def test_a_forged_record_is_refused(planned: Move) -> None:
    carry_out(planned)
    folder = planned.arrived / ".kdump" / planned.id
    text = (folder / "plan.json").read_text()
    for wrong in ("{}", text.replace(NAME, "../x"), text.replace("[", "{", 1)):
        (folder / "plan.json").write_text(wrong)
        with pytest.raises(Refused):
            recorded_move(planned.arrived, planned.id)
    (folder / "plan.json").write_text(text.replace('"copied"', '"copied" ').replace("466", "467"))
    with pytest.raises(Refused, match="the id"):
        recorded_move(planned.arrived, planned.id)


def test_links_and_pipes_are_refused(data: Path) -> None:
    os.mkfifo(data / NAME / "pipe")
    with pytest.raises(Refused, match="another kind of file"):
        read_move(data / NAME, data.parent / "b")


def test_fields_come_back(planned: Move) -> None:
    assert decode(encode(planned)) == planned
    moved = replace(planned, source=Path("/elsewhere"), target=Path("/there"))
    assert moved.id == planned.id  # whatever the paths are called


def test_mounts_are_told_apart(tmp_path: Path) -> None:
    assert shares_mount(tmp_path, tmp_path.parent)
    assert not shares_mount(tmp_path, Path("/proc"))


@pytest.mark.parametrize("name", ["a.b_c-1-0", "orders-12", f"{'x' * 249}-0"])
def test_the_name_of_what_is_set_aside(name: str) -> None:
    aside = format_aside_name("0123abcd", name)
    assert len(aside) <= 255
    assert is_aside_name(aside)
    assert not is_aside_name(name)
    parsed = parse_directory_name(aside)
    assert parsed is not None
    assert (parsed.topic, parsed.partition, parsed.suffix) == ("__cluster_metadata", 0, "stray")


def drop_marker(move: Move) -> Move:
    (move.source / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return read_move(move.departed, move.target)


def test_a_marker_that_came_later_goes_when_an_unclean_log_comes_back(planned: Move) -> None:
    planned = drop_marker(planned)
    carry_out(planned)
    (planned.source / ".kafka_cleanshutdown").touch()
    take_back(recorded_move(planned.arrived, planned.id), record_of(planned.arrived))
    assert not (planned.source / ".kafka_cleanshutdown").exists()
    assert planned.departed.exists()


def test_a_marker_that_came_later_does_not_vouch_for_an_unclean_log(copied: Move) -> None:
    copied = drop_marker(copied)
    with stopping("rename", arrives, errno.EIO), pytest.raises(Unfinished):
        carry_out(copied)
    for directory in (copied.source, copied.target):
        (directory / ".kafka_cleanshutdown").touch()
    resume(recorded_move(copied.staged, copied.id))
    assert not (copied.target / ".kafka_cleanshutdown").exists()


def test_plans_of_earlier_releases_have_their_ids(planned: Move) -> None:
    fields = encode(planned)
    del fields["is_clean"]
    again = decode(fields)
    assert again.is_clean
    assert again.id == planned.id == replace(planned, is_clean=not planned.is_clean).id


START, MARK = "log-start-offset-checkpoint", "replication-offset-checkpoint"


@pytest.mark.parametrize("way", ["resume", "undo"])
@pytest.mark.parametrize("directory", ["a", "b"])
@pytest.mark.parametrize("checkpoint", [START, MARK])
def test_lines_that_were_raised_amid_it_stay(
    checkpoint: str, directory: str, way: str, copied: Move
) -> None:
    with stopping("rename", sets_aside, errno.EIO), pytest.raises(Unfinished):
        carry_out(copied)
    (copied.source.parent / directory / checkpoint).write_text("0\n1\ncompacted 0 9000\n")
    if way == "resume":
        resume(copied)
        place = copied.target
    else:
        take_back(copied, record_of(copied.arrived))
        place = copied.source
        assert not (copied.target / checkpoint).exists()
    assert "compacted 0 9000\n" in (place / checkpoint).read_text()


def test_a_line_of_an_earlier_log_does_not_stay(copied: Move) -> None:
    """Nothing of this name was in the log directory: its line is of a topic that is gone."""
    (copied.target / START).write_text("0\n1\ncompacted 0 9000\n")
    move = read_move(copied.departed, copied.target)
    with stopping("rename", arrives, errno.EIO), pytest.raises(Unfinished):
        carry_out(move)
    (copied.source / START).write_text("0\n1\ncompacted 0 480\n")
    resume(move)
    assert (copied.target / START).read_text() == "0\n1\ncompacted 0 480\n"


def test_a_backup_of_another_owner_is_not_discarded(copied: Move) -> None:
    """The record names the place, and whoever owns the partition has written it."""
    if os.geteuid():
        pytest.skip("root alone gives files away")
    carry_out(copied)
    record = record_of(copied.arrived)
    for path in (copied.kept, copied.source):
        os.chown(path, 1234, 1234)
        with pytest.raises(Refused, match="expected user 0"):
            discard(copied, record)
        assert copied.kept.exists()
    for path in (copied.kept, copied.source):
        os.chown(path, 0, 0)
    discard(copied, record)
    assert not copied.kept.exists()


def test_the_owner_of_the_opened_directory_counts(
    planned: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path may lead elsewhere a moment later."""
    if os.geteuid():
        pytest.skip("root alone gives files away")

    os.chown(planned.target, 1234, 1234)
    monkeypatch.setattr(carry, "status_of", lambda _: planned.source.stat())
    monkeypatch.setattr(carry, "hold_directory", lambda path, **_: open_directory(path))
    with pytest.raises(Refused, match="expected user 0"):
        carry_out(planned)
    assert planned.departed.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", "/\0"),
        ("source", "/\ud800"),
        ("source", "a"),
        ("target", "/\0"),
        ("name", "\0"),
        ("name", ".."),
        ("name", "a/b"),
        ("identity", ["x", 1]),
        ("files", {"x": ["1", 2]}),
    ],
)
def test_a_record_that_no_move_writes_is_listed_and_refused(
    field: str, value: object, planned: Move
) -> None:
    carry_out(planned)
    plan = planned.arrived / ".kdump" / planned.id / "plan.json"
    plan.write_text(json.dumps({**json.loads(plan.read_text()), field: value}))
    assert record_of(planned.arrived).command == "move"
    with pytest.raises(Refused, match="expected a file of a repair"):
        recorded_move(planned.arrived, planned.id)


@pytest.mark.slow
def test_many_nested_directories_are_no_traceback(planned: Move) -> None:
    """Deeper than Python calls itself."""
    folder = planned.departed / ".kdump" / "0000aaaa"
    folder.mkdir(parents=True)
    nest(folder, 1_500)
    try:
        assert record_of(planned.departed).size_bytes == 1
        assert len(read_files(planned.departed)) == len(planned.files) + 1
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.slow
def test_a_backup_with_many_nested_directories_is_discarded(copied: Move) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("each level is an open file")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    try:
        carry_out(copied)
        nest(copied.kept, 1_100)
        discard(copied, record_of(copied.arrived))
        assert not copied.kept.exists()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        subprocess.run(["rm", "-rf", str(copied.kept)], check=True)


def nest(folder: Path, levels: int) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    file = os.open("x", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor)
    os.write(file, b"x")
    os.close(file)
    os.close(descriptor)


def test_empty_directories_are_copied(copied: Move) -> None:
    inner = copied.departed / "empty" / "inner"
    inner.mkdir(parents=True)
    inner.chmod(0o710)
    carry_out(copied)
    assert (copied.arrived / "empty" / "inner").stat().st_mode & 0o777 == 0o710


@pytest.mark.parametrize("way", ["resume", "undo"])
def test_what_goes_on_assumes_what_was_assumed(way: str, copied: Move) -> None:
    with stopping("rename", sets_aside, errno.EIO), pytest.raises(Unfinished) as stopped:
        carry_out(copied, assume_stopped=True)
    assert stopped.value.resume == (*copied.command, "--assume-stopped")
    with stopping("rename", lambda _: True, errno.EIO), pytest.raises(Unfinished) as stopped:
        if way == "resume":
            resume(copied, assume_stopped=True)
        else:
            take_back(copied, record_of(copied.arrived), assume_stopped=True)
    assert stopped.value.resume[-2:] == ("--apply", "--assume-stopped")
