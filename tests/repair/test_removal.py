"""Segments and unused files removed: what goes, what a failed call leaves, what is refused."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.sizes.measure import OldSegment
from kdump.errors import Refused, SourceError
from kdump.repair.removal import OldSegments, UnusedFiles, remove_segments, remove_unused
from kdump.repair.transaction.fingerprint import stamp_of
from support.crashing.seam import Call
from support.fixtures_loader import copy_fixture
from support.planning import calling

BOUNDS = (0, 48, 100)
SUFFIXES = (".log", ".index", ".timeindex")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def old_segments(data: Path) -> OldSegments:
    path = data / "codec-lz4-0"
    segments = tuple(
        OldSegment(
            base,
            end,
            None,
            1000,
            tuple(f"{base:020}{suffix}" for suffix in SUFFIXES),
        )
        for base, end in pairwise(BOUNDS)
    )
    stamps = {name: stamp_of(path / name) for old in segments for name in old.files}
    status = path.stat()
    return OldSegments(
        path,
        data,
        (status.st_dev, status.st_ino),
        segments,
        {name: stamp for name, stamp in stamps.items() if stamp is not None},
        stamp_of(data / "replication-offset-checkpoint"),
        remote=False,
    )


def bases(data: Path) -> list[int]:
    return sorted(int(log.stem) for log in (data / "codec-lz4-0").glob("*.log"))


def epochs(data: Path) -> list[str]:
    return (data / "codec-lz4-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]


def test_the_log_begins_with_the_first_segment_that_stays(data: Path) -> None:
    gone: list[int] = []
    assert remove_segments(old_segments(data), gone.append, assume_stopped=True)
    assert bases(data) == [100]
    assert epochs(data) == ["2 100"]
    assert sum(gone) == 2000
    left = {path.name for path in (data / "codec-lz4-0").iterdir() if path.stem == f"{0:020}"}
    assert left == set()


def test_leader_epochs_of_a_log_in_remote_storage_stay(data: Path) -> None:
    old = replace(old_segments(data), remote=True)
    assert remove_segments(old, lambda _: None, assume_stopped=True)
    assert bases(data) == [100]
    assert epochs(data) == ["0 0", "2 76"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("number", range(12))
def test_a_call_that_fails_leaves_a_log(number: int, error: int, data: Path) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.number == number:
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    old, gone = old_segments(data), list[int]()
    try:
        with calling(around):
            cut = remove_segments(old, gone.append, assume_stopped=True)
    except Refused:
        assert bases(data) == list(BOUNDS)
        return
    except SourceError:
        cut = True
    found = bases(data)
    assert found in ([0, 48, 100], [48, 100], [100])
    assert sum(gone) == 1000 * BOUNDS.index(found[0])
    if cut and found[0]:
        assert epochs(data)[0].split()[1] == str(found[0])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_the_first_log_makes_room_for_the_lock(error: int, data: Path) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.creates and len(bases(data)) == len(BOUNDS):
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    (data / ".lock").unlink(missing_ok=True)
    old, gone = old_segments(data), list[int]()
    with calling(around):
        assert remove_segments(old, gone.append, assume_stopped=True)
    assert bases(data) == [100]
    assert sum(gone) == 2000


def test_a_lock_that_never_finds_room_ends_after_the_first_log(data: Path) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.creates:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*call.arguments)

    (data / ".lock").unlink(missing_ok=True)
    old = old_segments(data)
    with calling(around), pytest.raises(SourceError, match=r"only 0{20}\.log is gone"):
        remove_segments(old, lambda _: None, assume_stopped=True)
    assert bases(data) == [48, 100]


@pytest.mark.parametrize(
    "changed", ["codec-lz4-0/00000000000000000048.log", "replication-offset-checkpoint"]
)
def test_files_that_changed_are_refused(changed: str, data: Path) -> None:
    old = old_segments(data)
    os.utime(data / changed, (1, 1))
    with pytest.raises(Refused, match="plan again"):
        remove_segments(old, lambda _: None, assume_stopped=True)
    assert bases(data) == list(BOUNDS)


def test_leader_epochs_that_cannot_be_read_stay(data: Path) -> None:
    path = data / "codec-lz4-0" / "leader-epoch-checkpoint"
    path.write_text("nonsense")
    assert not remove_segments(old_segments(data), lambda _: None, assume_stopped=True)
    assert path.read_text() == "nonsense"
    assert bases(data) == [100]


# --- files that no log needs


@pytest.fixture
def unused(data: Path) -> UnusedFiles:
    """A directory that a broker was deleting, with the backup of a repair."""
    path = data / f"gone-0.{'0' * 32}-delete"
    shutil.copytree(data / "codec-lz4-0", path)
    (path / ".kdump" / "0a").mkdir(parents=True, mode=0o700)
    (path / ".kdump" / "0a" / "plan.json").write_text("{}")
    status = path.stat()
    stamps = {each.name: stamp_of(each) for each in path.iterdir() if each.is_file()}
    files = {name: stamp for name, stamp in stamps.items() if stamp is not None}
    return UnusedFiles(path, data, (status.st_dev, status.st_ino), files, whole=True)


def test_a_whole_directory_goes(unused: UnusedFiles) -> None:
    remove_unused(unused, assume_stopped=True)
    assert not unused.path.exists()


def test_of_a_partition_only_the_files_go(data: Path) -> None:
    path = data / "codec-lz4-0"
    left = path / f"{0:020}.index.deleted"
    before = {each.name for each in path.iterdir()}
    left.write_bytes(bytes(10))
    stamp, status = stamp_of(left), path.stat()
    assert stamp is not None
    identity = status.st_dev, status.st_ino
    files = UnusedFiles(path, data, identity, {left.name: stamp}, whole=False)
    remove_unused(files, assume_stopped=True)
    assert {each.name for each in path.iterdir()} == before


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("number", [0, 1, 5, 12])
def test_a_call_that_fails_is_told(number: int, error: int, unused: UnusedFiles) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.number == number:
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    before = {each.name for each in unused.path.iterdir()}
    try:
        with calling(around):
            remove_unused(unused, assume_stopped=True)
    except Refused:
        assert {each.name for each in unused.path.iterdir()} == before
    except SourceError:
        assert unused.path.exists()
    else:
        assert not unused.path.exists()


def test_the_first_file_makes_room_for_the_lock(unused: UnusedFiles) -> None:
    count = len(list(unused.path.iterdir()))

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.creates and len(list(unused.path.iterdir())) == count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*call.arguments)

    (unused.log_directory / ".lock").unlink(missing_ok=True)
    with calling(around):
        remove_unused(unused, assume_stopped=True)
    assert not unused.path.exists()


def test_a_lock_without_room_ends_after_the_first_file(unused: UnusedFiles) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.creates:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*call.arguments)

    (unused.log_directory / ".lock").unlink(missing_ok=True)
    with calling(around), pytest.raises(SourceError, match=r"only 0{20}\.index is gone"):
        remove_unused(unused, assume_stopped=True)


@pytest.mark.parametrize("changed", ["new", f"{0:020}.log"])
def test_a_directory_that_changed_is_refused(changed: str, unused: UnusedFiles) -> None:
    (unused.path / changed).write_bytes(b"x")
    with pytest.raises(Refused, match="plan again"):
        remove_unused(unused, assume_stopped=True)
    assert (unused.path / changed).exists()
