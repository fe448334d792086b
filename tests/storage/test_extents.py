"""The extents that a file shares: as the kernel lists them, and on a real XFS."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kdump.storage import extents
from kdump.storage.extents import may_share_extents, shared_bytes
from support.crashing.places import UnmountableError, xfs

SHARED, LAST, INLINE = 0x2000, 0x1, 0x200
KIB = 1024


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    return path


def answer(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int]]:
    """Have the kernel list extents: position, length, flags; the ranges that it was asked for."""
    asked = []

    def ioctl(_: int, request: int, buffer: bytearray) -> int:
        assert request == 0xC020660B
        start, length, _, _, room = struct.unpack_from("=QQIII", buffer)
        asked.append((start, length))
        some = [each for each in found if each[0] >= start][:room]
        struct.pack_into("=I", buffer, 20, len(some))
        for number, (position, size, flags) in enumerate(some):
            struct.pack_into("=QQQ16xI12x", buffer, 32 + 56 * number, position, 0, size, flags)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    return asked


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], 0),
        ([(0, 8 * KIB, LAST)], 0),
        ([(0, 8 * KIB, SHARED | LAST)], 8 * KIB),
        ([(0, 8 * KIB, SHARED), (64 * KIB, 4 * KIB, 0), (80 * KIB, KIB, SHARED | LAST)], 9 * KIB),
        ([(0, 8 * KIB, INLINE | LAST)], 0),
    ],
)
def test_shared_extents_are_added(
    found: list[tuple[int, int, int]],
    expected: int,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, found)
    assert shared_bytes(file) == expected


def test_many_extents_take_several_calls(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(number * KIB, KIB, SHARED) for number in range(99)] + [(99 * KIB, KIB, LAST)]
    asked = answer(monkeypatch, found)
    assert shared_bytes(file) == 99 * KIB
    assert [start for start, _ in asked] == [0, 32 * KIB, 64 * KIB, 96 * KIB]
    assert all(start + length == 2**64 - 1 for start, length in asked)
    monkeypatch.setattr(extents, "_MOST_CALLS", 2)
    assert shared_bytes(file) == 64 * KIB


def test_what_cannot_be_asked_counts_as_its_own(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ioctl(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert shared_bytes(file) == 0
    assert shared_bytes(tmp_path / "gone") == 0
    assert not may_share_extents(tmp_path / "gone")
    monkeypatch.setattr("sys.platform", "darwin")
    assert not may_share_extents(tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with xfs(tmp_path) as directory:
            yield directory
    except UnmountableError as error:
        pytest.skip(f"no XFS here: {error}")


def test_a_clone_on_xfs(disk: Path) -> None:
    path = disk / "file"
    path.write_bytes(os.urandom(1 << 20))
    os.sync()
    assert may_share_extents(disk)
    assert shared_bytes(path) == 0
    subprocess.run(["cp", "--reflink=always", path, disk / "clone"], check=True)
    os.sync()
    assert shared_bytes(path) == shared_bytes(disk / "clone") == 1 << 20
