"""The file of the state: what is refused before anything is read, and what nothing loses."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.errors import StateError
from kdump.history.records import DirectoryRun, EndReason, FileState, SegmentReading, SegmentRecord
from kdump.history.state_file import open_state, read_state
from support.commands import kdump
from support.crashing.places import mounted
from support.scrubs import World, status, summary

pytestmark = pytest.mark.once

RECORD = SegmentRecord(5, 1000, FileState(7, 80, 9), sealed=True, log_bytes=80)
READING = SegmentReading(2000, 3, bytes(range(16)), 1500, 1, 77, "1.2.3", None, "")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    records = [
        RECORD,
        SegmentRecord(-(2**63), 1, FileState(2**63 - 1, 0, -1), False, 5, True, 8, READING),
        SegmentRecord(
            6,
            1,
            FileState(1, 2, 3),
            True,
            2,
            reading=SegmentReading(1, 0, bytes(16), 1, 1, -5, "", bytes(16), "[]"),
        ),
    ]
    with open_state(path) as state:
        directory = state.add_directory("key", tmp_path)
        partition = state.partition(directory, "a-0", "id")
        for record in records:
            state.record(partition, record)
    with read_state(path) as state:
        assert state.segments(partition) == {record.base_offset: record for record in records}


def test_a_transaction_is_whole(tmp_path: Path) -> None:
    with open_state(tmp_path / "state") as state:
        partition = state.partition(state.add_directory("key", tmp_path), "a-0", "")
        with pytest.raises(KeyboardInterrupt), state.transaction():
            state.record(partition, RECORD)
            raise KeyboardInterrupt
        assert state.segments(partition) == {}
        with state.transaction():
            state.record(partition, RECORD)
    with read_state(tmp_path / "state") as state:
        assert list(state.segments(partition)) == [5]


def test_an_unknown_topic_id_is_the_known_one(tmp_path: Path) -> None:
    with open_state(tmp_path / "state") as state:
        directory = state.add_directory("key", tmp_path)
        unknown = state.partition(directory, "a-0", "")
        assert state.partition(directory, "a-0", "id") == unknown
        assert state.partition(directory, "a-0", "") == unknown
        assert state.partition(directory, "a-0", "other") != unknown
        assert state.partition(directory, "b-0", "id") != unknown


def test_a_run_that_was_killed_has_no_end(tmp_path: Path) -> None:
    with open_state(tmp_path / "state") as state:
        directory = state.add_directory("key", tmp_path)
        killed, ended = state.begin_run(1, 60), state.begin_run(2, 60)
        state.end_run(ended, 3, EndReason.DONE, {})
        assert killed != ended
        assert list(state.status(5)) == []
        assert directory


def test_while_a_run_has_it_others_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with open_state(path) as state:
        partition = state.partition(state.add_directory("key", tmp_path), "a-0", "")
        state.record(partition, RECORD)
        with read_state(path) as other:
            assert list(other.segments(partition)) == [5]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["state", "state.lock"]


def text(path: Path) -> None:
    path.write_bytes(b"some text, of which there is enough to be more than a header" * 40)


def of_others(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()


def later(path: Path) -> None:
    with open_state(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 4")
    connection.close()


def torn(path: Path) -> None:
    with open_state(path) as state:
        partition = state.partition(state.add_directory("key", path), "a-0", "")
        for base in range(2000):
            state.record(partition, SegmentRecord(base, 1, FileState(1, 2, 3), True, 2))
    data = bytearray(path.read_bytes())
    data[4096 * 4 : 4096 * 12] = os.urandom(4096 * 8)
    path.write_bytes(data)


def directory(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (text, "file is not a database"),
        (of_others, "a database of another program"),
        (later, "version 3, found version 4"),
        (torn, "found"),
        (directory, "found no file"),
        (fifo, "found no file"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_no_state_is_refused_and_stays(
    world: World, make: Callable[[Path], None], expected: str
) -> None:
    """Before anything is read, with one line that says what to do."""
    make(world.state)
    before = world.state.read_bytes() if world.state.is_file() else None
    for arguments in ((world.data,), ("--status",)):
        ran = kdump("scrub", *arguments, "--state", world.state, searching=False)
        assert (ran.code, ran.lines) == (5, ())
        assert expected in ran.said
        assert len(ran.said.splitlines()) == 1
    if before is not None:
        assert world.state.read_bytes() == before


@pytest.mark.slow
def test_an_empty_file_becomes_a_state(world: World) -> None:
    world.state.touch()
    assert world.scrub().code == 0
    assert summary(world.scrub())["bytes"] == 0


def test_a_state_that_does_not_exist_has_no_status(tmp_path: Path) -> None:
    ran = kdump("scrub", "--status", "--state", tmp_path / "none", searching=False)
    assert (ran.code, list(tmp_path.iterdir())) == (5, [])
    assert "No such file" in ran.said


@pytest.mark.root
def test_a_state_that_cannot_be_written_is_refused(world: World) -> None:
    world.scrub()
    mount = world.top / "read-only"
    mount.mkdir()
    (mount / "scrub.db").write_bytes(world.state.read_bytes())
    subprocess.run(["mount", "--bind", "-o", "ro", mount, mount], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", mount], check=True)
        ran = kdump("scrub", world.data, "--state", mount / "scrub.db", searching=False)
        assert (ran.code, ran.lines) == (5, ())
        assert "Read-only file system" in ran.said
        shown = kdump("scrub", "--status", "--state", mount / "scrub.db", searching=False)
        assert (shown.code, status(shown)["due_bytes"]) == (0, 0)
    finally:
        subprocess.run(["umount", mount], check=True)


def test_a_second_run_is_refused_and_nothing_is_read(world: World) -> None:
    world.scrub()
    lock = world.state.with_name("scrub.db.lock")
    with lock.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        ran = world.scrub()
        assert (ran.code, ran.lines) == (6, ())
        assert "another scrub uses this state" in ran.said
    assert world.scrub().code == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=512k", "tmpfs") as directory:
        yield directory


@pytest.mark.root
@pytest.mark.parametrize(
    "free", [0, 40, *(pytest.param(each, marks=pytest.mark.slow) for each in (8, 72))]
)
@pytest.mark.slow
def test_a_full_disk_loses_nothing(world: World, small_disk: Path, free: int) -> None:
    """One clear error; what was written before stays, and the next run goes on."""
    state = small_disk / "scrub.db"
    filler = small_disk / "filler"
    page = b"x" * 1024
    with filler.open("wb") as file:
        room = os.statvfs(small_disk)
        for _ in range(room.f_bavail * room.f_bsize // 1024 - free):
            file.write(page)
    ran = kdump("scrub", world.data, "--state", state, searching=False)
    if ran.code:
        assert (ran.code, len(ran.said.splitlines())) == (5, 1), ran.said
        assert "free space" in ran.said or "No space left" in ran.said
    filler.unlink()
    again = kdump("scrub", world.data, "--state", state, searching=False)
    assert (again.code, status(again)["due_bytes"]) == (0, 0)


def test_the_state_says_nothing_of_records(world: World) -> None:
    """Payloads stay out of it, and it is for everybody to read."""
    world.scrub()
    data = world.state.read_bytes()
    assert b"accepted" not in data
    assert stat.S_IMODE(world.state.stat().st_mode) & 0o022 == 0


def test_errors_are_of_one_kind(tmp_path: Path) -> None:
    with open_state(tmp_path / "state") as state, pytest.raises(StateError, match="cannot be used"):
        state._execute("SELECT nothing FROM nowhere")


def test_no_file_is_written_into_a_log_directory(world: World) -> None:
    before = set(world.top.rglob("*"))
    for place in (world.data, world.data / "codec-none-0"):
        for option in ("--state", "--prometheus"):
            ran = kdump(
                "scrub", world.data, "--state", world.state, option, place / "x", searching=False
            )
            assert (ran.code, ran.lines) == (2, ())
            assert "expected a place outside of log directories" in ran.said
    alone = world.data.rename(world.top / "moved") / "codec-none-0"
    ran = kdump("scrub", alone, "--state", alone / "x", searching=False)
    assert ran.code == 2
    assert {path for path in world.top.rglob("*") if path.name in ("x", "x.lock")} == set()
    assert len(set(world.top.rglob("*"))) == len(before)


@pytest.mark.root
@pytest.mark.slow
def test_root_writes_with_the_rights_of_the_owner(world: World, place: Path) -> None:
    """Whoever owns the directory of the state can redirect nothing."""
    secret, home = place / "secret", place / "of-nobody"
    secret.write_text("of root")
    secret.chmod(0o600)
    home.mkdir()
    os.chown(home, 65534, 65534)
    state, metrics = home / "scrub.db", home / "kdump.prom"
    asked = ("scrub", world.data, "--state", state, "--prometheus", metrics)
    assert kdump(*asked, searching=False).code == 0
    assert {path.stat().st_uid for path in home.iterdir()} == {65534}
    for name in ("scrub.db", "scrub.db.lock", "scrub.db-wal", "kdump.prom"):
        for path in home.iterdir():
            path.unlink()
        (home / name).symlink_to(secret)
        kdump(*asked, searching=False)
        assert secret.read_text() == "of root"


@pytest.mark.root
def test_a_state_of_root_is_where_only_root_can_put_links(world: World) -> None:
    world.top.chmod(0o777)
    place = world.top / "state"
    place.mkdir()
    ran = kdump("scrub", world.data, "--state", place / "scrub.db", searching=False)
    assert (ran.code, ran.lines) == (6, ())
    assert "expected a path that only root can change" in ran.said


@pytest.mark.slow
def test_the_metrics_never_replace_the_state(world: World) -> None:
    world.scrub()
    for end in ("", ".lock", "-wal", "-shm"):
        ran = world.scrub("--prometheus", world.state.with_name(f"scrub.db{end}"))
        assert (ran.code, ran.lines) == (2, ())
        assert "expected another file than those of --state" in ran.said
    assert summary(world.scrub())["bytes"] == 0


def test_a_signal_amid_a_transaction_leaves_none_open(tmp_path: Path) -> None:
    """Also where it comes as the transaction has just begun."""
    with open_state(tmp_path / "state") as state:
        real = state._execute

        def execute(statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
            rows = real(statement, values)
            if statement.startswith("BEGIN"):
                raise KeyboardInterrupt
            return rows

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(state, "_execute", execute)
            with pytest.raises(KeyboardInterrupt), state.transaction():
                pytest.fail("the block must not run")
        assert state.begin_run(1, 60) == 1
        with state.transaction():
            pass


def test_runs_are_forgotten_but_the_last_success(tmp_path: Path) -> None:
    with open_state(tmp_path / "state") as state:
        directory = state.add_directory("key", tmp_path)
        for begin_ms, code in ((1, 0), (2, 4), (30, 4)):
            run = state.begin_run(begin_ms, 60)
            done = {directory: DirectoryRun(5, {}, code)}
            state.end_run(run, begin_ms + 1, EndReason.DONE, done)
        state.forget_runs(10)
        (found,) = state.status(50)
        assert (found.run.begin_ms, found.success_ms) == (30, 2)
        assert state._execute("SELECT begin_ms FROM runs") == [(1,), (30,)]
