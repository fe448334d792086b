"""The durable primitives of repairs, one by one: what they leave, and which calls they make."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import open_directory
from kdump.repair.transaction.disk import Attributes
from support.crashing.seam import Around, Call, Watched, short
from support.crashing.trees import take
from support.descriptors import none_left_open
from support.reflinks import cloning

ROOT = os.geteuid() == 0
MTIME_NS = 1_700_000_000_123_456_789
CANNOT = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM)
ATTRIBUTES = (("user.kdump.one", b"1"), ("user.kdump.two", b"\0\xff"))


@pytest.fixture
def place(place: Path) -> Iterator[Path]:
    """An empty directory below which files may be changed."""
    with open_directory(place):
        yield place


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Callable[[Around], None]:
    """``seam(around)``: from now on ``around`` makes the calls."""
    return lambda around: monkeypatch.setattr(disk, "SYSTEM", Watched(around))


@pytest.fixture
def calls(seam: Callable[[Around], None]) -> list[Call]:
    """The calls that are made."""
    made: list[Call] = []

    def around(call: Call, make: Callable[..., Any]) -> Any:
        made.append(call)
        return make(*call.arguments)

    seam(around)
    return made


def called(calls: list[Call]) -> list[tuple[str, ...]]:
    """Calls as their methods and the names of what they are about."""
    return [(call.method, *(Path(path).name for path in call.paths)) for call in calls]


def like(mode: int = 0o640) -> Attributes:
    uid, gid = (4321, 4322) if ROOT else (os.geteuid(), os.getegid())
    return Attributes(uid, gid, mode, ATTRIBUTES)


def attributes(path: Path) -> tuple[Attributes, int]:
    """Those of a file, read without the code under test, and when it was written."""
    (node,) = take(path).values()
    return Attributes(node.uid, node.gid, node.mode, node.extended), node.mtime_ns


def only(method: str, *errors: int) -> Around:
    """Calls of one kind fail, each with the next error, the last one for good."""
    left = list(errors)

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method != method:
            return make(*call.arguments)
        error = left.pop(0) if len(left) > 1 else left[0]
        raise OSError(error, os.strerror(error), *call.paths[:1])

    return around


# --- attributes


def test_attributes_of_a_file(place: Path) -> None:
    path = place / "file"
    path.touch()
    path.chmod(0o4610)
    os.setxattr(path, "user.kdump", b"x")
    found = Attributes.of(path)
    assert (found.uid, found.gid) == (os.geteuid(), path.stat().st_gid)
    assert (found.mode, found.extended) == (0o4610, (("user.kdump", b"x"),))


def test_attributes_where_there_are_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "file"
    path.touch()

    def fail(error: int) -> None:
        def listxattr(_: Path) -> list[str]:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(os, "listxattr", listxattr)

    fail(errno.EOPNOTSUPP)
    assert Attributes.of(path).extended == ()
    fail(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        Attributes.of(path)


# --- files


def test_a_file_is_written(place: Path, calls: list[Call]) -> None:
    path = place / "file"
    disk.write_file(path, [b"one ", b"", b"two"], like(), MTIME_NS)
    assert path.read_bytes() == b"one two"
    assert attributes(path) == (like(), MTIME_NS)
    assert called(calls)[-1] == ("sync", "file")
    chown = [("chown", "file")] if ROOT else []
    assert called(calls) == [
        *(("open", "file"), ("write", "file"), ("write", "file")),
        *chown,
        *(("chmod", "file"), ("set_attribute", "file"), ("set_attribute", "file")),
        *(("set_times", "file"), ("sync", "file")),
    ]


def test_a_file_without_a_time_gets_that_of_now(place: Path, calls: list[Call]) -> None:
    disk.write_file(place / "file", [b"x"], Attributes(os.geteuid(), os.getegid(), 0o600))
    assert called(calls) == [(method, "file") for method in ("open", "write", "chmod", "sync")]


def test_what_was_half_written_is_replaced_and_no_link_followed(place: Path) -> None:
    other = place / "other"
    other.write_bytes(b"other")
    (place / "link").symlink_to(other)
    os.link(other, place / "twin")
    for name in ("link", "twin"):
        disk.write_file(place / name, [b"new"], like())
        assert (place / name).read_bytes() == b"new"
        assert not (place / name).is_symlink()
    assert other.read_bytes() == b"other"


def test_attributes_that_are_there_are_not_set_again(place: Path, calls: list[Call]) -> None:
    path = place / "directory"
    path.mkdir()
    for name, value in ATTRIBUTES:
        os.setxattr(path, name, value)
    os.setxattr(path, ATTRIBUTES[0][0], b"other")
    disk.set_directory_attributes(path, like(0o750))
    assert [call.arguments[1:] for call in calls if call.method == "set_attribute"] == [
        ATTRIBUTES[0]
    ]
    assert attributes(path)[0] == like(0o750)


@pytest.mark.parametrize("most", [1, 7])
def test_short_writes(place: Path, seam: Callable[[Around], None], most: int) -> None:
    seam(short(most))
    path, saved, content = place / "file", place / "saved", bytes(range(100))
    disk.write_file(path, [content[:50], content[50:]], like())
    assert path.read_bytes() == content
    assert disk.save_tail(path, 60, saved, like()) == 60
    assert saved.read_bytes() == content[60:]
    disk.cut(path, 60, MTIME_NS)
    disk.restore_tail(path, 60, saved, 0, MTIME_NS)
    assert path.read_bytes() == content
    disk.copy_file(path, place / "copy", 77, like(), MTIME_NS)
    assert (place / "copy").read_bytes() == content[:77]


def _write(source: Path, target: Path) -> None:
    disk.write_file(target, [source.read_bytes()], like())


def _copy(source: Path, target: Path) -> None:
    disk.copy_file(source, target, 5, like(), MTIME_NS)


def _save(source: Path, target: Path) -> None:
    disk.save_tail(source, 5, target, like())


@pytest.mark.parametrize("make", [_write, _copy, _save])
def test_every_call_that_fails_is_reported_and_no_sync_is_repeated(
    place: Path,
    calls: list[Call],
    seam: Callable[[Around], None],
    make: Callable[[Path, Path], None],
) -> None:
    source = place / "source"
    source.write_bytes(b"0123456789")
    make(source, place / "target")
    count = len(calls)
    with none_left_open():
        for number in range(count):
            (place / "target").unlink(missing_ok=True)
            seen: list[str] = []

            def around(
                call: Call, made: Callable[..., Any], number: int = number, seen: list[str] = seen
            ) -> Any:
                seen.append(call.method)
                if call.number == number:
                    raise OSError(errno.EIO, os.strerror(errno.EIO), *call.paths[:1])
                return made(*call.arguments)

            seam(around)
            with pytest.raises(OSError, match="Input/output error"):
                make(source, place / "target")
            assert seen.count("sync") <= 1


# --- copies and tails


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_the_beginning_of_a_file_is_copied(place: Path, size: int) -> None:
    source, target = place / "source", place / "target"
    source.write_bytes(b"0123456789")
    disk.copy_file(source, target, size, like(), MTIME_NS)
    assert target.read_bytes() == b"0123456789"[:size]
    assert attributes(target) == (like(), MTIME_NS)


@pytest.mark.parametrize("error", CANNOT)
def test_what_cannot_be_cloned_is_copied(
    place: Path, seam: Callable[[Around], None], error: int
) -> None:
    source = place / "source"
    source.write_bytes(bytes(3 << 20) + b"end")
    seam(only("clone", error))
    assert disk.save_tail(source, 7, place / "tail", like()) == 7
    assert (place / "tail").read_bytes() == source.read_bytes()[7:]


@pytest.mark.parametrize("error", CANNOT)
def test_what_the_kernel_cannot_copy_is_written(
    place: Path, seam: Callable[[Around], None], error: int
) -> None:
    source = place / "source"
    source.write_bytes(os.urandom((2 << 20) + 5))

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method in ("clone", "copy"):
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    seam(around)
    disk.copy_file(source, place / "copy", (1 << 20) + 1, like(), MTIME_NS)
    assert (place / "copy").read_bytes() == source.read_bytes()[: (1 << 20) + 1]


@pytest.mark.parametrize("method", ["clone", "copy"])
def test_a_disk_that_fails_is_not_copied_from(
    place: Path, seam: Callable[[Around], None], method: str
) -> None:
    source = place / "source"
    source.write_bytes(b"0123456789")

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method in ("clone", "copy"):
            error = errno.EIO if call.method == method else errno.EOPNOTSUPP
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    seam(around)
    with pytest.raises(OSError, match="Input/output error"):
        disk.save_tail(source, 5, place / "tail", like())


def test_where_it_goes_files_are_cloned(place: Path, seam: Callable[[Around], None]) -> None:
    source = place / "source"
    source.write_bytes(b"0123456789")
    seam(cloning)
    assert disk.save_tail(source, 6, place / "tail", like()) == 0
    assert (place / "tail").read_bytes() == b"0123456789"
    assert attributes(place / "tail")[0] == like()
    disk.copy_file(source, place / "copy", 4, like(), MTIME_NS)
    assert (place / "copy").read_bytes() == b"0123"
    assert attributes(place / "copy") == (like(), MTIME_NS)


def test_a_file_that_ends_early_is_an_error(place: Path) -> None:
    source = place / "source"
    source.write_bytes(b"0123456789")
    with pytest.raises(OSError, match="the file ends at 10, before 11"):
        disk.copy_file(source, place / "copy", 11, like(), MTIME_NS)


def test_what_has_no_room_is_not_begun(
    place: Path, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = place / "source"
    source.write_bytes(b"x" * 8192)
    full = os.statvfs_result((4096, 4096, 100, 1, 1, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda _: full)
    with pytest.raises(OSError, match="bytes are to be copied") as raised:
        disk.save_tail(source, 5, place / "tail", like())
    assert raised.value.errno == errno.ENOSPC
    assert {"write", "copy"}.isdisjoint(call.method for call in calls)


def test_holes_stay_holes_and_need_no_room(place: Path) -> None:
    log, saved, copy = place / "log", place / "saved", place / "copy"
    for ends in (b"", b"end"):
        with log.open("wb") as file:
            file.write(b"begin" * 1000)
            file.seek(1 << 40)
            file.write(b"amid")
            file.seek((1 << 40) + (1 << 20))
            file.write(ends)
            file.truncate((1 << 40) + (2 << 20))
        start = disk.save_tail(log, 5, saved, like())
        assert saved.stat().st_size == log.stat().st_size - start
        disk.copy_file(log, copy, 1 << 40, like(), MTIME_NS)
        assert copy.stat().st_size == 1 << 40
        disk.cut(log, 5, MTIME_NS)
        disk.restore_tail(log, 5, saved, 5 - start, MTIME_NS)
        for path in (log, saved, copy):
            assert path.stat().st_blocks * 512 < 8 << 20, path
        with log.open("rb") as file:
            assert file.read(5001) == b"begin" * 1000 + b"\0"
            file.seek(1 << 40)
            rest = file.read()
        assert rest == (b"amid".ljust(1 << 20, b"\0") + ends).ljust(2 << 20, b"\0")


def test_a_link_is_not_read_from(place: Path) -> None:
    (place / "source").write_bytes(b"x")
    (place / "link").symlink_to(place / "source")
    for make in (_copy, _save):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            make(place / "link", place / "target")


# --- cutting


def test_a_log_is_cut_and_gets_its_tail_back(place: Path, calls: list[Call]) -> None:
    log, saved = place / "log", place / "saved"
    content = os.urandom((2 << 20) + 17)
    disk.write_file(log, [content], like(), MTIME_NS)
    inode = log.stat().st_ino
    start = disk.save_tail(log, 5, saved, like())
    calls.clear()
    disk.cut(log, 5, MTIME_NS)
    assert log.read_bytes() == content[:5]
    assert attributes(log) == (like(), MTIME_NS)
    assert called(calls) == [
        (method, "log") for method in ("open", "truncate", "set_times", "sync")
    ]
    # Half of it came back before the power went.
    with log.open("ab") as file:
        file.write(content[5:1000])
    for _ in range(2):
        calls.clear()
        disk.restore_tail(log, 5, saved, 5 - start, MTIME_NS)
        assert log.read_bytes() == content
        assert attributes(log) == (like(), MTIME_NS)
        assert called(calls)[-2:] == [("set_times", "log"), ("sync", "log")]
    assert log.stat().st_ino == inode


def test_a_log_gets_its_tail_back_from_a_clone(place: Path, seam: Callable[[Around], None]) -> None:
    log, saved = place / "log", place / "saved"
    log.write_bytes(b"0123456789")
    seam(cloning)
    start = disk.save_tail(log, 6, saved, like())
    disk.cut(log, 6, MTIME_NS)
    disk.restore_tail(log, 6, saved, 6 - start, MTIME_NS)
    assert log.read_bytes() == b"0123456789"


def test_nothing_is_cut_or_given_back_through_a_link(place: Path) -> None:
    log, saved = place / "log", place / "saved"
    log.write_bytes(b"0123456789")
    saved.write_bytes(b"tail")
    (place / "link").symlink_to(log)
    with pytest.raises(OSError, match="Too many levels"):
        disk.cut(place / "link", 5, MTIME_NS)
    with pytest.raises(OSError, match="Too many levels"):
        disk.restore_tail(place / "link", 5, saved, 0, MTIME_NS)
    assert log.read_bytes() == b"0123456789"


# --- names


def test_a_file_is_moved_over_another(place: Path, calls: list[Call]) -> None:
    (place / "inner").mkdir()
    (place / "inner" / "new").write_bytes(b"new")
    (place / "old").write_bytes(b"old")
    disk.rename(place / "inner" / "new", place / "old")
    assert (place / "old").read_bytes() == b"new"
    assert not (place / "inner" / "new").exists()
    assert called(calls) == [("rename", "new", "old"), ("sync", place.name), ("sync", "inner")]
    calls.clear()
    disk.rename(place / "old", place / "other")
    assert called(calls) == [("rename", "old", "other"), ("sync", place.name)]


def test_a_second_name(place: Path, calls: list[Call]) -> None:
    (place / "a").write_bytes(b"a")
    (place / "c").write_bytes(b"a")
    for _ in range(2):
        calls.clear()
        disk.link(place / "a", place / "b")
        assert (place / "b").samefile(place / "a")
        assert called(calls) == [("link", "a", "b"), ("sync", place.name)]
    with pytest.raises(FileExistsError):
        disk.link(place / "a", place / "c")


def test_a_name_is_taken_away_once(place: Path, calls: list[Call]) -> None:
    (place / "a").touch()
    for _ in range(2):
        calls.clear()
        disk.unlink(place / "a")
        assert not (place / "a").exists()
        assert called(calls) == [("unlink", "a"), ("sync", place.name)]


# --- directories


def test_a_directory_is_for_its_owner_alone(place: Path, calls: list[Call]) -> None:
    path = place / "directory"
    before = os.umask(0)
    try:
        disk.make_directory(path, like(0o777))
    finally:
        os.umask(before)
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o700
    assert (status.st_uid, status.st_gid) == (like().uid, like().gid)
    assert called(calls)[-2:] == [("sync", "directory"), ("sync", place.name)]
    calls.clear()
    disk.make_directory(path, like())  # who made it may have been killed before it was synced
    assert called(calls) == [
        ("make_directory", "directory"),
        ("sync", "directory"),
        ("sync", place.name),
    ]


def test_a_tree_is_removed_and_what_it_links_to_stays(place: Path, calls: list[Call]) -> None:
    for path in (place / "kept", place / "tree", place / "tree" / "inner"):
        path.mkdir()
    (place / "kept" / "file").write_bytes(b"kept")
    os.link(place / "kept" / "file", place / "tree" / "twin")
    (place / "tree" / "link").symlink_to(place / "kept")
    (place / "tree" / "inner" / "link").symlink_to(place / "kept" / "file")
    (place / "tree" / "inner" / "broken").symlink_to("nowhere")
    (place / "tree" / "file").touch()
    disk.remove_tree(place / "tree")
    assert not (place / "tree").exists()
    assert (place / "kept" / "file").read_bytes() == b"kept"
    assert called(calls)[-2:] == [("remove_directory", "tree"), ("sync", place.name)]


def test_only_an_empty_directory_is_removed(place: Path, calls: list[Call]) -> None:
    path = place / "directory"
    path.mkdir()
    (path / "file").touch()
    disk.remove_empty(path)
    assert called(calls) == [("remove_directory", "directory")]
    (path / "file").unlink()
    disk.remove_empty(path)
    assert not path.exists()
    assert called(calls)[-1] == ("sync", place.name)
    with pytest.raises(FileNotFoundError):
        disk.remove_empty(path)


# --- locks


def test_a_lock_file_is_made_and_stays_as_it_is(place: Path, calls: list[Call]) -> None:
    path = place / ".lock"
    os.close(disk.open_lock(path))
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (os.geteuid(), 0o644)
    path.write_bytes(b"x")
    os.close(disk.open_lock(path))
    assert path.read_bytes() == b"x"
    assert {call.method for call in calls} == {"open"}


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_a_lock_file_belongs_to_who_owns_its_directory_and_no_other_is_given_away(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    other = tmp_path / "other"
    other.mkdir()
    os.chown(other, like().uid, like().gid)
    (other / "twin").touch()
    os.link(other / "twin", other / "linked")
    with open_directory(other):
        os.close(disk.open_lock(other / ".lock"))
        with pytest.raises(PermissionError):  # one of root's, which no broker could open
            disk.open_lock(other / "linked")
    status = (other / ".lock").stat()
    assert (status.st_uid, status.st_gid) == (like().uid, like().gid)
    assert (other / "twin").stat().st_uid == 0


def test_a_lock_is_no_link(place: Path) -> None:
    (place / ".lock").symlink_to(place / "other")
    with pytest.raises(OSError, match="Too many levels"):
        disk.open_lock(place / ".lock")
    assert not (place / "other").exists()
