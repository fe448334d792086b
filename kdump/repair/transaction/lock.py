"""The lock on a log directory, and the conditions of any change in it.

A broker that starts meanwhile is refused the lock, and stops before it touches anything.

Spec: ``LogManager.lockLogDirs``, ``FileLock``; ``fcntl(2)``, open file description locks: they
stand against a broker's, and are not lost when somebody closes another descriptor of the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from kdump.audit.commands import resuming, undoing
from kdump.errors import Refused
from kdump.format.lines.shell import shell_text
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import check_own_directory, opened, owned
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Line, Plan, PutMarker, Rewrite, TakeMarker
from kdump.storage.liveness import State, liveness, uses
from kdump.storage.logdir import LogDirectory, open_path
from kdump.storage.names import LOCK
from kdump.storage.repair_record import FOLDERS, RepairRecord, RepairState, kept
from kdump.storage.rights import ROOT, acting, is_root

#: 64-bit Linux: short type, short whence, off_t start, off_t length, pid_t, which must be 0.
_WHOLE_FILE: Final = struct.pack("@hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
#: What is left free beside what is written: for the plan, the receipt and the directories.
_SPARE_BYTES: Final = 1 << 20
_OPEN: Final = frozenset({RepairState.PENDING, RepairState.UNDOING})


@contextmanager
def held(
    partition: Path,
    log_directory: Path | None,
    *,
    identity: tuple[int, int] | None = None,
    assume_stopped: bool = False,
) -> Iterator[int | None]:
    """Make sure that no broker uses the partition, and that none starts on its directory.

    Both are opened for changes, and from then on this process has the rights of who owns the
    partition. Yields the descriptor of the lock, None where there is nothing to lock. ``identity``
    is the device and inode that the partition must have; ``assume_stopped`` stands for the answer
    where nobody can tell. Raises Refused, SourceError.
    """
    if sys.platform != "linux":
        raise Refused(f"{partition}: repairs need Linux, found {sys.platform}")
    if log_directory is not None:
        _check_lock(log_directory / LOCK)
    check_stopped(partition, assume_stopped=assume_stopped)
    with ExitStack() as stack:
        descriptor = None
        if log_directory is not None:
            stack.enter_context(opened(log_directory))
            descriptor = stack.enter_context(_locked(log_directory))
            check_stopped(partition, assume_stopped=assume_stopped, lock_held=True)
        home = stack.enter_context(owned(partition, identity))
        check_own_directory(partition / FOLDERS, home.rights.uid)
        try:
            yield descriptor
        except OSError as error:  # behind the first change it is another exception
            raise Refused(f"{partition}: nothing was changed: {error}") from error


@contextmanager
def _locked(log_directory: Path) -> Iterator[int]:
    """Get the lock of a log directory that was opened; yields its descriptor. Raises Refused."""
    path = log_directory / LOCK
    if not path.exists():
        # It is made, and must then belong to whom the directory belongs to.
        _check_owner(log_directory)
    try:
        descriptor = disk.open_lock(path)
    except PermissionError as error:
        raise Refused(
            f"{path}: cannot be locked: {error.strerror}: expected the owner of {log_directory} "
            "to own it too, because no broker could open it otherwise: change its owner"
        ) from error
    except OSError as error:
        raise Refused(f"{path}: cannot be locked: {error.strerror}") from error
    try:
        _lock(descriptor, path)
        yield descriptor
    finally:
        os.close(descriptor)


def _check_lock(path: Path) -> None:
    """Raise Refused if something else than a file is in the place of the lock."""
    try:
        status = path.lstat()
    except OSError:  # missing, or not to be reached: to be opened it must be
        return
    _check_lock_file(path, status)


def _check_lock_file(path: Path, status: os.stat_result) -> None:
    found = None
    if stat.S_ISLNK(status.st_mode):
        found = "a symbolic link"
    elif not stat.S_ISREG(status.st_mode):
        found = "a FIFO" if stat.S_ISFIFO(status.st_mode) else "another kind of file"
    elif status.st_nlink > 1:
        found = f"a file with {status.st_nlink} names (hard links)"
    if found is not None:
        raise Refused(
            f"{path}: expected the lock file that brokers make, found {found}: with the broker "
            "stopped, remove it; the next start makes it again"
        )


def check_stopped(partition: Path, *, assume_stopped: bool, lock_held: bool = False) -> None:
    """Raise Refused unless surely no broker uses ``partition``, or somebody says so."""
    answer = liveness(partition, lock_held=lock_held)
    if answer.state is State.LIVE:
        raise Refused(
            f"{partition}: expected a stopped broker, found a running broker: {answer.reason}: "
            "stop it first"
        )
    if answer.state is State.UNKNOWN and not assume_stopped:
        raise Refused(
            f"{partition}: expected a stopped broker, but cannot determine whether a broker is "
            f"running: {answer.reason}; if it is surely stopped, add --assume-stopped"
        )
    if answer.unproven is not None and not assume_stopped:
        raise Refused(
            f"{partition}: expected the log directory around it, whose lock shows whether a "
            f"broker runs, found none, and {answer.unproven}: mount the whole log directory, or "
            "run kdump on the host, as root; if the broker is surely stopped, add --assume-stopped"
        )


def check_readers(plan: Plan) -> None:
    """Raise Refused where a process reads a file that a plan changes: it could see half of that."""
    paths = (plan.partition / name for name in sorted(plan.touched))
    with acting(ROOT):  # who else would not see what other users have open
        use = next(uses(path for path in paths if path.is_file()), None)
    if use is not None:
        raise Refused(
            f"{plan.partition}: expected no reader of a file that the repair changes; {use}, and "
            "could read a half-made change: stop it, or wait until it has ended"
        )


def check_changeable(plan: Plan, *, undoing: bool = False) -> None:
    """Raise Refused unless all that a plan changes is ours to change, and there is room for it.

    To take it back, room is not asked for: only what was saved comes back.
    """
    for path in (plan.partition, *(path for path in _changed(plan) if path.exists())):
        _check_owner(path)
        if path.is_symlink() and path != plan.partition:
            raise Refused(f"{path}: expected a file, found a symbolic link")
    space = os.statvfs(plan.partition)
    free = space.f_bavail * space.f_frsize
    # A file takes whole blocks.
    needed = plan.new_bytes + len(plan.puts) * space.f_frsize + _SPARE_BYTES
    if free < needed and not undoing:
        raise Refused(f"{plan.partition}: expected {needed} free bytes, found {free}")


def unfinished(partition: Path) -> RepairRecord | None:
    """The repair of a partition that was interrupted, None without one. Raises SourceError."""
    return next((one for one in reversed(kept(partition)) if one.state in _OPEN), None)


def ways_on(one: RepairRecord, partition: Path) -> str:
    """What can be done about a repair that was interrupted: the commands in words."""
    on, back = resuming(partition, one), undoing(partition, one.id)
    if on == back:
        return f"undo it with {shell_text(back)}"
    return f"finish it with {shell_text(on)}, or undo it with {shell_text(back)}"


def check_others(partition: Path, log_directory: Path | None) -> None:
    """Raise Refused where an interrupted repair holds what all partitions of a directory share."""
    if log_directory is None:
        return
    content = open_path(log_directory)
    paths = content.partition_paths if isinstance(content, LogDirectory) else ()
    for other in paths:
        one = None if _same(other, partition) else unfinished(other)
        if one is not None and _shared(Folder(other, one.id).plan()):
            raise Refused(
                f"{other}: expected no interrupted repair in this log directory, found "
                f"{one.id}, which holds the clean shutdown marker or checkpoint lines: "
                f"{ways_on(one, other)}"
            )


def _shared(plan: Plan) -> bool:
    return any(isinstance(step, TakeMarker | PutMarker | Line | Rewrite) for step in plan.steps)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _changed(plan: Plan) -> Iterator[Path]:
    for name in sorted(plan.touched):
        if name in plan.files:
            yield plan.partition / name
    if plan.log_directory is not None and _shared(plan):
        yield plan.log_directory
        for step in plan.steps:
            if isinstance(step, Line | Rewrite):
                yield plan.log_directory / step.checkpoint


def _check_owner(path: Path) -> None:
    uid, owner = os.geteuid(), path.stat().st_uid
    if uid == owner or uid == 0:
        return
    if is_root():
        raise Refused(
            f"{path}: expected user {uid}, who owns the partition, to own it, found user {owner}: "
            "a repair has the rights of the owner only; give both to the user that the broker "
            "runs as"
        )
    raise Refused(
        f"{path}: expected user {uid} to own it, found user {owner}: run as that user or as root"
    )


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise Refused(f"{path}: cannot be locked: {error.strerror}") from error
        raise Refused(
            f"{path}: expected to get the lock, found that another process holds it: stop the "
            "broker"
        ) from None
    mine = os.fstat(descriptor)
    _check_lock_file(path, mine)
    try:
        there = path.lstat()
    except FileNotFoundError:
        there = None
    if there is None or (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
        raise Refused(
            f"{path}: expected the lock file to stay, found that it was replaced: try again"
        )
