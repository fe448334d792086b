"""Where trees are written: in memory if that goes, or on file systems of their own."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@contextmanager
def in_memory() -> Iterator[Path]:
    """An empty directory on a file system that loses no time with syncing."""
    keeps = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and _keeps_attributes(_MEMORY)
    with _directory(_MEMORY if keeps else None) as directory:
        yield directory


def on_disk() -> AbstractContextManager[Path]:
    """An empty directory where temporary files are."""
    return _directory(None)


@contextmanager
def _directory(above: Path | None) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="kdump-test-", dir=above))
    directory.chmod(0o755)  # as root kdump repairs with the rights of the owner, who must get there
    try:
        yield directory.resolve()
    finally:
        shutil.rmtree(directory)


@contextmanager
def mounted(directory: Path, *arguments: str) -> Iterator[Path]:
    """``mount ARGUMENTS directory``; raises Unmountable where that may not be."""
    directory.mkdir(exist_ok=True)
    tried = subprocess.run(
        ["mount", *arguments, str(directory)], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        raise UnmountableError(tried.stderr.strip())
    try:
        yield directory.resolve()
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """A file system in memory of this size; where that may not be, the test is skipped."""
    try:
        with mounted(directory, "-t", "tmpfs", "-o", f"size={size}", "tmpfs") as small:
            yield small
    except UnmountableError as error:
        pytest.skip(f"may not mount: {error}")


def fill(directory: Path) -> None:
    """Leave no space at all."""
    with (directory / "filler").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


@contextmanager
def xfs(beside: Path) -> Iterator[Path]:
    """A file system that clones files, in a file below ``beside``."""
    if shutil.which("mkfs.xfs") is None:
        raise UnmountableError("no mkfs.xfs command")
    image = beside / "image"
    with image.open("wb") as file:
        file.truncate(320 << 20)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    with on_disk() as place, mounted(place, "-o", "loop", str(image)) as directory:
        yield directory


class UnmountableError(Exception):
    """Nothing can be mounted here; the text says why."""


def _keeps_attributes(directory: Path) -> bool:
    try:
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            os.setxattr(file.name, "user.kdump", b"")
    except OSError:
        return False
    return True
