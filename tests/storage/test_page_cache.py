from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.storage import page_cache
from kdump.storage.page_cache import absent_runs
from storage.caching import bring_in, cached, drop_cache

PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A file of 20 pages and a half, none of them cached, and a descriptor of it."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("needs Linux")
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(20 * PAGE + PAGE // 2))
    drop_cache(path)
    if any(cached(path)):
        pytest.skip("the file system of the test keeps its files in memory")
    descriptor = os.open(path, os.O_RDONLY)
    yield path, descriptor
    os.close(descriptor)


def test_runs_are_of_whole_pages(cold: tuple[Path, int]) -> None:
    path, descriptor = cold
    assert absent_runs(descriptor, 0, path.stat().st_size) == [(0, 21 * PAGE)]
    bring_in(path, 3 * PAGE, PAGE)
    bring_in(path, 10 * PAGE, 2 * PAGE)
    assert absent_runs(descriptor, 0, path.stat().st_size) == [
        (0, 3 * PAGE),
        (4 * PAGE, 6 * PAGE),
        (12 * PAGE, 9 * PAGE),
    ]
    assert absent_runs(descriptor, 10 * PAGE, 2 * PAGE) == []
    assert absent_runs(descriptor, 11 * PAGE, 3 * PAGE) == [(12 * PAGE, 2 * PAGE)]


def test_asking_brings_nothing_in_and_survives_a_cut(cold: tuple[Path, int]) -> None:
    path, descriptor = cold
    os.truncate(path, 2 * PAGE)
    assert absent_runs(descriptor, 0, 21 * PAGE) == [(0, 21 * PAGE)]
    assert absent_runs(descriptor, 18 * PAGE, 3 * PAGE) == [(18 * PAGE, 3 * PAGE)]
    assert not any(cached(path))


def test_who_neither_owns_a_file_nor_may_write_to_it_is_told_nothing(
    cold: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, descriptor = cold
    monkeypatch.setattr(os, "geteuid", lambda: os.fstat(descriptor).st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert absent_runs(descriptor, 0, PAGE) is None
    monkeypatch.setattr(os, "access", lambda *_, **__: True)
    assert absent_runs(descriptor, 0, PAGE) == [(0, PAGE)]


@pytest.mark.parametrize("call", ["mmap", "mincore"])
def test_where_the_kernel_refuses_nothing_is_known(
    cold: tuple[Path, int], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    _, descriptor = cold
    libc = page_cache._libc()

    class Refusing:
        mmap, mincore, munmap = libc.mmap, libc.mincore, libc.munmap

    refusal = ctypes.c_void_p(-1).value if call == "mmap" else -1
    monkeypatch.setattr(Refusing, call, staticmethod(lambda *_: refusal))
    monkeypatch.setattr(page_cache, "_libc", lambda: Refusing)
    assert absent_runs(descriptor, 0, PAGE) is None
