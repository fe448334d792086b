"""The lock on a log directory, and the conditions of any change in it.

A broker that starts during the change does not get the lock, and stops before it changes anything.
Open file description locks conflict with a broker's lock, and stay when another descriptor of the
file is closed.

Spec: ``LogManager.lockLogDirs``, ``FileLock``; ``fcntl(2)``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from kdump.audit.commands import resume_command, undo_command
from kdump.errors import Refused, SourceError
from kdump.format.lines.shell import operand, shell_text
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import (
    Directory,
    check_own_directory,
    open_as_owner,
    open_directory,
)
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Line, Plan, PutMarker, Rewrite, TakeMarker
from kdump.storage.liveness import BrokerState, is_surely_unused, liveness, uses
from kdump.storage.logdir import LogDirectory, open_path
from kdump.storage.names import LOCK
from kdump.storage.paths import AnyPath, as_local
from kdump.storage.repair_record import (
    FOLDERS,
    MOVE,
    OPEN,
    RepairRecord,
    interrupted_moves,
    repair_records,
)
from kdump.storage.rights import ROOT, acting, is_root

#: 64-bit Linux: short type, short whence, off_t start, off_t length, pid_t, which must be 0.
_WHOLE_FILE: Final = struct.pack("@hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
#: Free space for the plan, the receipt and the directories, beside the new files.
_SPARE_BYTES: Final = 1 << 20


class OpenRepairs:
    """The interrupted repairs and moves in a log directory, of which some change shared files.

    Shared by all partitions are the clean shutdown marker and the checkpoint files. All partitions
    are looked at once: while the lock is held no other process begins a repair, and one that this
    process does not finish ends its run. Raises SourceError.
    """

    def __init__(self, log_directory: Path) -> None:
        self._log_directory = log_directory
        content = open_path(log_directory)
        self._set_aside: Sequence[AnyPath] = ()
        self._partitions: Sequence[Path] = ()
        if isinstance(content, LogDirectory):
            self._set_aside = content.set_aside
            paths = map(as_local, content.partition_paths)
            self._partitions = [path for path in paths if _may_be_interrupted(path)]

    def check(self, partition: Path) -> None:
        """Raise Refused if one of them is of another partition, and changes shared files.

        Those that have ended since do not count. Raises SourceError.
        """
        for copy, move in interrupted_moves(self._set_aside):
            raise Refused(
                f"{self._log_directory}: expected no interrupted move in this log directory, found "
                f"{move.id} of {move.moved}, which holds checkpoint lines: "
                f"{finish_or_undo(move, copy)}"
            )
        for other in self._partitions:
            repair = None if same_file(other, partition) else interrupted_repair(other)
            if repair is None:
                continue
            if repair.command == MOVE or _changes_shared_files(Folder(other, repair.id).plan()):
                raise Refused(
                    f"{other}: expected no interrupted repair in this log directory, found "
                    f"{repair.id}, which holds the clean shutdown file or checkpoint lines: "
                    f"{finish_or_undo(repair, other)}"
                )


def _may_be_interrupted(partition: Path) -> bool:
    try:
        return interrupted_repair(partition) is not None
    except SourceError:  # check() reports it
        return True


class HeldLock:
    """The lock of the log directory at ``path``, which this process holds by ``descriptor``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    @cached_property
    def open_repairs(self) -> OpenRepairs:
        """The interrupted repairs in the log directory, as they were when they were first asked."""
        return OpenRepairs(self.path)

    def check(self) -> None:
        """Raise Refused unless the lock file still is the one that is locked.

        That suffices for a broker that was not running when the lock was got: it gets no lock, and
        stops before it opens a log. Only after somebody has removed the file it would get that of a
        new file.
        """
        _check_locked(self.descriptor, self.path / LOCK)


@contextmanager
def hold_log_directory(
    log_directory: Path, *, assume_stopped: bool = False, about: Path | None = None
) -> Iterator[HeldLock]:
    """Open and lock a log directory for repairs of its partitions; check that no broker uses it.

    The rights of the process stay as they are. ``about`` is the path that a refusal names, a
    partition. ``assume_stopped`` is as for ``hold_lock``. Raises Refused, SourceError.
    """
    path = about or log_directory
    if sys.platform != "linux":
        raise Refused(f"{path}: repairs need Linux, found {sys.platform}")
    _check_lock(log_directory / LOCK)
    check_stopped(path, assume_stopped=assume_stopped)
    with open_directory(log_directory), _lock_directory(log_directory) as descriptor:
        check_stopped(path, assume_stopped=assume_stopped, lock_held=True)
        yield HeldLock(log_directory, descriptor)


@contextmanager
def hold_lock(
    partition: Path,
    log_directory: Path | None,
    *,
    identity: tuple[int, int] | None = None,
    assume_stopped: bool = False,
    interrupted: bool = False,
    held: HeldLock | None = None,
) -> Iterator[HeldLock | None]:
    """Lock the log directory, and check that no broker uses the partition.

    Both directories are opened for changes, and the process gets the rights of the owner of the
    partition. Yields the lock, None without a log directory. ``identity`` is the device and inode
    that the partition must have. ``assume_stopped``: accept that the state of the broker cannot be
    determined. ``interrupted``: steps of a repair are done already. ``held`` is the lock if the
    caller has got it for several partitions. Raises Refused, SourceError.
    """
    with ExitStack() as stack:
        if held is not None:
            held.check()
        elif log_directory is not None:
            held = stack.enter_context(
                hold_log_directory(log_directory, assume_stopped=assume_stopped, about=partition)
            )
        else:
            if sys.platform != "linux":
                raise Refused(f"{partition}: repairs need Linux, found {sys.platform}")
            check_stopped(partition, assume_stopped=assume_stopped)
        home = stack.enter_context(open_as_owner(partition, identity))
        check_own_directory(partition / FOLDERS, home.rights.uid)
        try:
            yield held
        except OSError as error:  # after the first change it is an Interruption
            more = " more" if interrupted else ""
            raise Refused(f"{partition}: nothing{more} was changed: {error}") from error


@contextmanager
def hold_directory(log_directory: Path, *, assume_stopped: bool = False) -> Iterator[Directory]:
    """Open a whole log directory for changes, lock it, and check that no broker uses it.

    The process gets the rights of its owner. ``assume_stopped`` is as for ``hold_lock``. Raises
    Refused, SourceError.
    """
    if sys.platform != "linux":
        raise Refused(f"{log_directory}: repairs need Linux, found {sys.platform}")
    _check_lock(log_directory / LOCK)
    check_stopped(log_directory, assume_stopped=assume_stopped)
    with open_as_owner(log_directory) as directory, _lock_directory(log_directory):
        check_stopped(log_directory, assume_stopped=assume_stopped, lock_held=True)
        yield directory


@contextmanager
def _lock_directory(log_directory: Path) -> Iterator[int]:
    """Get the lock of an opened log directory; yield its descriptor. Raises Refused."""
    path = log_directory / LOCK
    try:
        if not path.exists():
            # The lock file is created, and must belong to the owner of the directory.
            _check_owner(log_directory)
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
    """Raise Refused if the path of the lock is not a regular file with one name."""
    try:
        status = path.lstat()
    except OSError:  # missing or out of reach: opening it reports that
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
            f"{path}: expected the lock file that brokers make, found {found}: remove it "
            "while the broker is stopped; the next startup makes it again"
        )


def check_stopped(partition: Path, *, assume_stopped: bool, lock_held: bool = False) -> None:
    """Raise Refused unless no broker uses ``partition``, or the user assumes that."""
    answer = liveness(partition, lock_held=lock_held)
    if answer.state is BrokerState.LIVE:
        raise Refused(
            f"{partition}: expected a stopped broker, found a running broker: {answer.reason}: "
            "stop it first"
        )
    if answer.state is BrokerState.UNKNOWN and not assume_stopped:
        raise Refused(
            f"{partition}: expected a stopped broker, but cannot determine whether a broker is "
            f"running: {answer.reason}; if it is surely stopped, add --assume-stopped"
        )


def check_readers(partition: Path, names: Iterable[str]) -> None:
    """Raise Refused if a process has a file open that a plan changes: it could read half of it.

    A search of all processes takes longer than a small repair, and is made only in doubt.
    """
    paths = [path for name in sorted(names) if (path := partition / name).is_file()]
    doubtful = [path for path in paths if not is_surely_unused(path)]
    if not doubtful:
        return
    with acting(ROOT):  # other users cannot see the open files of all processes
        use = next(uses(doubtful), None)
    if use is not None:
        raise Refused(
            f"{partition}: expected no reader of a file that the repair changes; {use}, and "
            "could read a half-made change: end it, or wait until it has ended"
        )


def check_changeable(plan: Plan, *, undoing: bool = False) -> None:
    """Raise Refused unless the process may change the files of a plan, and space is free for it.

    An undo checks no space: it only brings saved files back.
    """
    changed = [path for path in _changed_paths(plan) if path.exists()]
    for path in (plan.partition, *changed):
        _check_owner(path)
        if path.is_symlink() and path != plan.partition:
            raise Refused(f"{path}: expected a file, found a symbolic link")
    _check_groups((plan.partition, *changed, *(plan.partition / name for name in plan.files)))
    space = os.statvfs(plan.partition)
    free = space.f_bavail * space.f_frsize
    # Each file occupies whole blocks.
    needed = plan.new_bytes + len(plan.puts) * space.f_frsize + _SPARE_BYTES
    if free < needed and not undoing:
        raise Refused(f"{plan.partition}: expected {needed} free bytes, found {free}")


def interrupted_repair(partition: AnyPath) -> RepairRecord | None:
    """Return the interrupted repair of a partition, None without one. Raises SourceError."""
    return next(
        (repair for repair in reversed(repair_records(partition)) if repair.state in OPEN), None
    )


def finish_or_undo(repair: RepairRecord, partition: AnyPath) -> str:
    """Return the advice on an interrupted repair: the commands that finish it and undo it."""
    finish, undo = resume_command(partition, repair), undo_command(partition, repair.id)
    if finish == undo:
        return f"undo it with {shell_text(undo)}"
    return f"finish it with {shell_text(finish)}, or undo it with {shell_text(undo)}"


def check_other_partitions(partition: Path, log_directory: Path | None) -> None:
    """Raise Refused if an interrupted repair of another partition changes shared files."""
    if log_directory is not None:
        OpenRepairs(log_directory).check(partition)


def _changes_shared_files(plan: Plan) -> bool:
    return any(isinstance(step, TakeMarker | PutMarker | Line | Rewrite) for step in plan.steps)


def same_file(path: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file or directory, which exists."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def _changed_paths(plan: Plan) -> Iterator[Path]:
    for name in sorted(plan.changed_files):
        if name in plan.files:
            yield plan.partition / name
    if plan.log_directory is not None and _changes_shared_files(plan):
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


def _check_groups(paths: Iterable[Path]) -> None:
    """Raise Refused unless new files can get the groups of the files at ``paths``."""
    uid, groups = os.geteuid(), {os.getegid(), *os.getgroups()}
    for path in paths if uid != 0 else ():
        if path.exists() and (gid := path.stat().st_gid) not in groups:
            give = shell_text(("chgrp", "-h", str(os.getegid()), operand(path)))
            raise Refused(
                f"{path}: expected a group that user {uid} belongs to, found group {gid}: a repair "
                f"has the rights of that user, and can give this group to no new file: {give}"
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
    _check_locked(descriptor, path)


def _check_locked(descriptor: int, path: Path) -> None:
    """Raise Refused unless the open lock file is the one at ``path``."""
    locked = os.fstat(descriptor)
    _check_lock_file(path, locked)
    try:
        current = path.lstat()
    except FileNotFoundError:
        current = None
    if current is None or (locked.st_dev, locked.st_ino) != (current.st_dev, current.st_ino):
        raise Refused(
            f"{path}: expected the lock file to stay, found that it was replaced: try again"
        )
