from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import SourceError, VanishedError
from kdump.storage import source
from kdump.storage.access import open_source
from kdump.storage.source import (
    Identity,
    MappedFile,
    PiecesOfFile,
    Source,
    WindowedFile,
    data_from,
    open_regular,
)
from storage.caching import assert_left_as_it_was, bring_in, cached, drop_cache
from support.descriptors import none_left_open

Opener = Callable[[Path], Source]
OPENERS: dict[str, Opener] = {
    "mapped": MappedFile,
    "pieces": lambda path: PiecesOfFile(path, 10_000),
    "windowed": lambda path: WindowedFile(path, window_bytes=10_000),
    "sealed": lambda path: WindowedFile(path, sealed=True, window_bytes=10_000),
}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Any:
    with none_left_open():
        yield


def write(path: Path, size: int, seed: int = 7) -> bytes:
    content = random.Random(seed).randbytes(size)
    path.write_bytes(content)
    return content


def test_a_source_says_what_it_was_at_open(tmp_path: Path, opener: Opener) -> None:
    path = tmp_path / "00000000000000000000.log"
    write(path, 12_345)
    status = path.stat()
    with opener(path) as opened:
        with path.open("ab") as file:
            file.write(b"appended later")
        assert (opened.path, opened.size) == (path, 12_345)
        assert opened.identity == Identity(status.st_dev, status.st_ino, 12_345, status.st_mtime_ns)
        assert len(opened.window(12_000)) == 345


@settings(max_examples=60, deadline=None)
@given(data=st.data(), size=st.integers(1, 70_000), kind=st.sampled_from(sorted(OPENERS)))
def test_any_window_shows_the_files_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, size: int, kind: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-window"
    content = write(path, size, seed=size)
    with OPENERS[kind](path) as opened:
        for _ in range(data.draw(st.integers(1, 8))):
            position = data.draw(st.integers(0, size + 5))
            at_least = data.draw(st.integers(0, 2 * size))
            view = opened.window(position, at_least)
            assert view.readonly
            assert len(view) >= min(at_least, size - position)
            assert view == content[position : position + len(view)]


def test_an_empty_file_has_empty_windows(tmp_path: Path, opener: Opener) -> None:
    path = tmp_path / "empty"
    path.touch()
    with opener(path) as opened:
        assert opened.size == 0
        assert bytes(opened.window(0, 100)) == b""
        assert bytes(opened.window(5)) == b""


def test_a_map_shows_what_is_asked_for_and_gives_pages_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_RESIDENT_BYTES", 1 << 20)
    path = tmp_path / "big"
    content = write(path, 6 << 20)

    def resident_kib() -> int:
        lines = Path("/proc/self/smaps").read_text().splitlines()
        start = next(n for n, line in enumerate(lines) if line.endswith(str(path)))
        rss = next(line for line in lines[start:] if line.startswith("Rss:"))
        return int(rss.split()[1])

    with MappedFile(path) as opened:
        assert len(opened.window(0)) == source.WINDOW_BYTES
        assert bytes(opened.window(0, len(content))) == content
        assert resident_kib() >= 6 << 10
        assert opened.window((5 << 20) + 1)[:3] == content[(5 << 20) + 1 :][:3]
        assert resident_kib() < 4 << 10
        assert bytes(opened.window(0, len(content))) == content  # going back is allowed


def test_a_request_inside_the_window_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    content = write(path, 50_000)
    reads: list[int] = []
    preadv = os.preadv

    def counting(*arguments: Any) -> int:
        reads.append(arguments[2])
        return preadv(*arguments)

    monkeypatch.setattr(os, "preadv", counting)
    with WindowedFile(path, window_bytes=20_000) as opened:
        first = opened.window(0)
        count = len(reads)
        second = opened.window(10_000, 5_000)
        assert (len(reads), bytes(second)) == (count, content[10_000 : 10_000 + len(second)])
        assert first[:100] == content[:100]  # the buffer has not moved: still good
        opened.window(18_000, 30_000)
        assert len(reads) > count


def test_a_view_is_refused_after_its_buffer_was_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    write(path, 50_000)
    with WindowedFile(path, window_bytes=4096) as opened:
        stale = opened.window(0)
        opened.window(30_000)
        with pytest.raises(ValueError, match="released"):
            stale[0]


def test_the_buffer_grows_for_a_larger_piece_and_stays_small_for_a_small_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "segment"
    content = write(path, 300_000)
    with WindowedFile(path, window_bytes=4096) as opened:
        assert len(opened.window(0)) < 10_000
        assert bytes(opened.window(1_000, 250_000))[:250_000] == content[1_000:251_000]
    (tmp_path / "small").write_bytes(b"x" * 10)
    with WindowedFile(tmp_path / "small") as opened:
        assert opened.window(0) == b"x" * 10
        assert opened._buffer is not None
        assert len(opened._buffer) == 4096


def test_a_source_closes_while_views_are_held(tmp_path: Path, opener: Opener) -> None:
    path = tmp_path / "segment"
    write(path, 9_000)
    opened = opener(path)
    view = opened.window(10)[5:]
    opened.close()
    opened.close()
    assert len(view) >= 1  # its memory goes when it goes, and not before


@pytest.mark.timeout(300)  # a FIFO opened for reading would wait for ever
def test_only_regular_files_are_opened(tmp_path: Path, opener: Opener) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SourceError, match="expected a regular file, found a FIFO"):
        opener(tmp_path / "fifo")
    with pytest.raises(SourceError, match="found a directory") as caught:
        opener(tmp_path)
    assert caught.value.path == str(tmp_path)
    with pytest.raises(SourceError, match="found a character device"):
        opener(Path("/dev/zero"))


def test_a_fifo_that_takes_the_place_of_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fifo = tmp_path / "segment", tmp_path / "fifo"
    write(path, 10)
    os.mkfifo(fifo)
    regular = path.stat()
    monkeypatch.setattr(Path, "stat", lambda self: regular)
    with pytest.raises(SourceError, match="found a FIFO"):
        open_regular(fifo)


def test_a_missing_file_has_vanished(tmp_path: Path, opener: Opener) -> None:
    with pytest.raises(VanishedError, match="No such file"):
        opener(tmp_path / "gone")


def test_a_file_below_a_file_is_an_error_but_not_gone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="Not a directory") as caught:
        WindowedFile(tmp_path / "file" / "below")
    assert not isinstance(caught.value, VanishedError)


def test_symbolic_links_are_followed_and_the_typed_path_is_kept(
    tmp_path: Path, opener: Opener
) -> None:
    content = write(tmp_path / "target", 100)
    link = tmp_path / "link"
    link.symlink_to("target")
    with opener(link) as opened:
        assert opened.path == link
        assert opened.window(0) == content
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(VanishedError):
        opener(tmp_path / "dangling")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_file_cut_while_open_has_vanished(tmp_path: Path, sealed: bool) -> None:
    path = tmp_path / "segment"
    content = write(path, 100_000)
    with WindowedFile(path, sealed=sealed, window_bytes=8192) as opened:
        assert opened.window(0)[:10] == content[:10]
        os.truncate(path, 50_001)
        with pytest.raises(
            VanishedError, match="expected 100000 bytes as at open, found only 50001"
        ):
            opened.window(45_000, 10_000)
        assert opened.window(20_000, 100)[:100] == content[20_000:20_100]


def test_a_file_cut_before_it_is_mapped_has_vanished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    write(path, 10_000)
    plain = source.open_regular

    def cut_behind(opened: Path) -> tuple[int, os.stat_result]:
        found = plain(opened)
        os.truncate(opened, 700)
        return found

    monkeypatch.setattr(source, "open_regular", cut_behind)
    with pytest.raises(VanishedError, match="expected 10000 bytes as at open, found only 700"):
        MappedFile(path)


def test_an_unlinked_file_stays_readable(tmp_path: Path, opener: Opener) -> None:
    path = tmp_path / "segment"
    content = write(path, 30_000)
    with opener(path) as opened:
        path.unlink()
        assert opened.window(25_000, 5_000) == content[25_000:]


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "segment"
    content = write(path, 40_000)
    preadv = os.preadv

    def short(descriptor: int, buffers: list[memoryview], position: int, flags: int = 0) -> int:
        return preadv(descriptor, [buffers[0][:5000]], position, flags)

    for sealed in (False, True):
        with WindowedFile(path, sealed=sealed) as opened:
            # A direct read may not be of 5000 bytes: the buffer's alignment is the file's matter.
            opened._direct = opened._direct and _drop_direct(opened)
            monkeypatch.setattr(os, "preadv", short)
            assert opened.window(1, 39_999) == content[1:]
            monkeypatch.undo()


def _drop_direct(opened: WindowedFile) -> bool:
    """Take O_DIRECT off, but let the reader go on as if it had to keep to aligned positions."""
    flags = fcntl.fcntl(opened._descriptor, fcntl.F_GETFL)
    fcntl.fcntl(opened._descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
    return True


def test_a_disks_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "segment"
    write(path, 10_000)

    def broken(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for sealed in (False, True):
        with WindowedFile(path, sealed=sealed) as opened:
            monkeypatch.setattr(os, "preadv", broken)
            with pytest.raises(SourceError, match="Input/output error") as caught:
                opened.window(0)
            assert caught.value.path == str(path)
            monkeypatch.undo()


def test_a_map_that_is_refused_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    write(path, 300_000)

    def refused(*_: Any) -> mmap.mmap:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(mmap, "mmap", refused)
    with pytest.raises(SourceError, match="No such device"):
        MappedFile(path)


def test_a_file_system_without_direct_reads_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    content = write(path, 30_000)
    preadv, plain_fcntl = os.preadv, fcntl.fcntl

    def refuse_flag(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETFL and argument & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return plain_fcntl(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refuse_flag)
    with WindowedFile(path, sealed=True) as opened:
        assert not opened._direct
        assert opened.window(3) == content[3:]
    monkeypatch.undo()

    def refuse_read(descriptor: int, buffers: list[memoryview], position: int, *f: int) -> int:
        if plain_fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return preadv(descriptor, buffers, position, *f)

    monkeypatch.setattr(os, "preadv", refuse_read)
    with WindowedFile(path, sealed=True) as opened:
        opened._direct = True  # also where the file system of the test refused the flag
        assert opened.window(3) == content[3:]
        assert not opened._direct


def test_tmpfs_is_read_sealed() -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        pytest.skip("needs a writable /dev/shm")
    path = shared / f"kdump-test-{os.getpid()}"
    try:
        content = write(path, 70_000)
        with WindowedFile(path, sealed=True, window_bytes=8192) as opened:
            assert opened.window(69_000, 1_000) == content[69_000:]
            assert opened.window(1_000, 60_000)[:60_000] == content[1_000:61_000]
    finally:
        path.unlink()


def drops_behind(directory: Path) -> bool:
    path = directory / "another"
    write(path, 1)
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, source._RWF_DONTCACHE) == 1
        except OSError:
            return False


@pytest.mark.parametrize("way", ["direct", "mincore", "dropped", "neither"])
def test_reading_takes_no_page_cache_and_takes_none_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if not source._RWF_NOWAIT or not source._O_DIRECT:
        pytest.skip("needs Linux")
    path = tmp_path / "segment"
    content = write(path, 1 << 20)
    drop_cache(path)
    if any(cached(path)):
        pytest.skip("the file system of the test keeps its files in memory")
    if way in ("dropped", "neither"):
        monkeypatch.setattr(source, "absent_runs", lambda *_: None)
    if way == "dropped" and not drops_behind(tmp_path):
        pytest.skip("needs Linux 6.14 and a file system that knows RWF_DONTCACHE")
    if way == "neither":
        monkeypatch.setattr(source, "_RWF_NOWAIT", 0)
        monkeypatch.setattr(source, "_RWF_DONTCACHE", 0)

    def read() -> None:
        with WindowedFile(path, sealed=way == "direct", window_bytes=100_000) as opened:
            for position in range(0, len(content), 50_000):
                assert opened.window(position, 10)[:10] == content[position : position + 10]

    read()
    assert not any(cached(path))
    if way != "neither":  # parts of what is read at once
        bring_in(path, 40 << 10, 8 << 10)
        bring_in(path, 500 << 10, 200 << 10)
        before = cached(path)
        assert 52 <= sum(before) < 200
        read()
        assert_left_as_it_was(before, cached(path))
    if way != "neither":
        assert path.read_bytes() == content
        before = cached(path)
        assert sum(before) > 250
        read()
        assert_left_as_it_was(before, cached(path))


def test_what_an_attempt_sets_on_its_way_in_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not source._RWF_NOWAIT:
        pytest.skip("needs Linux")
    path = tmp_path / "segment"
    content = write(path, 1 << 20)
    drop_cache(path)
    bring_in(path, 0, 8 << 12)
    before = cached(path)
    if sum(before) != 8:
        pytest.skip("the file system of the test keeps its files in memory")
    preadv = os.preadv

    def eager(descriptor: int, buffers: list[memoryview], position: int, flags: int = 0) -> int:
        if not flags:
            return preadv(descriptor, buffers, position)
        count = preadv(descriptor, [buffers[0][: 8 << 12]], position, flags)
        bring_in(path, position, len(buffers[0]))  # as reading ahead does, a little later
        return count

    monkeypatch.setattr(source, "absent_runs", lambda *_: None)
    monkeypatch.setattr(source, "_RWF_DONTCACHE", 0)
    monkeypatch.setattr(os, "preadv", eager)
    with WindowedFile(path) as opened:
        assert opened.window(0, len(content)) == content
    assert_left_as_it_was(before, cached(path))


def test_a_page_that_the_system_holds_for_a_moment_is_given_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    content = write(path, 1 << 20)
    drop_cache(path)
    if any(cached(path)):
        pytest.skip("the file system of the test keeps its files in memory")
    fadvise, advised = os.posix_fadvise, set[int]()

    def held(descriptor: int, start: int, length: int, advice: int) -> None:
        if advice != os.POSIX_FADV_DONTNEED or start in advised:
            fadvise(descriptor, start, length, advice)
        else:
            advised.add(start)

    monkeypatch.setattr(os, "posix_fadvise", held)
    with WindowedFile(path, window_bytes=100_000) as opened:
        for position in range(0, len(content), 50_000):
            assert opened.window(position, 10)[:10] == content[position : position + 10]
    assert len(advised) > 5
    assert not any(cached(path))


def test_reading_without_any_of_these_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    content = write(path, 30_000)
    preadv = os.preadv

    def unsupported(descriptor: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return preadv(descriptor, buffers, position)

    monkeypatch.setattr(os, "preadv", unsupported)
    monkeypatch.setattr(source, "absent_runs", lambda *_: None)
    with WindowedFile(path) as opened:
        assert opened.window(0) == content
        assert opened._flags == set()


def test_reading_leaves_atime_alone(tmp_path: Path, opener: Opener) -> None:
    path = tmp_path / "segment"
    write(path, 10_000)
    os.utime(path, (1, 1_000_000_000))  # an access older than the change: relatime would note one
    with opener(path) as opened:
        assert len(opened.window(0)) == 10_000
    assert path.stat().st_atime == 1


def test_a_file_of_another_owner_is_opened_without_noatime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    content = write(path, 100)
    plain_open = os.open

    def not_owner(path: Path, flags: int) -> int:
        if flags & os.O_NOATIME:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return plain_open(path, flags)

    monkeypatch.setattr(os, "open", not_owner)
    with WindowedFile(path) as opened:
        assert opened.window(0) == content


def test_unreadable_files_are_an_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "segment"
    write(path, 10)
    path.chmod(0)
    with pytest.raises(SourceError, match="Permission denied"):
        WindowedFile(path)


def test_open_source_chooses_the_way(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    write(path, 10)
    with open_source(path, mapped=True) as opened:
        assert isinstance(opened, MappedFile)
    with open_source(path, mapped=False) as opened:
        assert isinstance(opened, WindowedFile)
        assert not fcntl.fcntl(opened._descriptor, fcntl.F_GETFL) & os.O_DIRECT
    descriptor, status = open_regular(path)
    assert stat.S_ISREG(status.st_mode)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_nothing_is_changed_by_reading(tmp_path: Path, opener: Opener) -> None:
    path = tmp_path / "segment"
    content = write(path, 20_000)
    before = (path.stat(), sorted(tmp_path.iterdir()))
    with opener(path) as opened:
        opened.window(5)
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before[0].st_mtime_ns, before[0].st_ctime_ns)
    assert sorted(tmp_path.iterdir()) == before[1]
    assert path.read_bytes() == content


def test_a_file_with_holes_is_read_without_a_map(tmp_path: Path) -> None:
    """On tmpfs, a read of a map takes memory for each page of a hole."""
    whole, sparse = tmp_path / "whole", tmp_path / "sparse"
    whole.write_bytes(bytes(1 << 20))
    sparse.touch()
    os.truncate(sparse, 1 << 30)
    with open_source(whole, mapped=True) as source:
        assert isinstance(source, MappedFile)
    with open_source(sparse, mapped=True) as source:
        assert isinstance(source, WindowedFile)
        assert data_from(source, 5) == 1 << 30
    with pytest.raises(SourceError):
        open_source(tmp_path / "missing", mapped=True)
