"""carry_out(), take_back(), discard(): a move done, undone, and its backup removed.

Until the record of a move says that it has begun, a failure leaves all as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from kdump.audit.commands import Remedy, undo_command
from kdump.errors import KdumpError, Refused, Unfinished
from kdump.format.lines.shell import operand, shell_text
from kdump.repair.relocation.course import Course, remove_copy
from kdump.repair.relocation.move import (
    Move,
    aside_id,
    aside_names,
    at_home,
    decode,
    has_files,
    prepared,
    read_move,
)
from kdump.repair.transaction import disk
from kdump.repair.transaction.apply import begin_time
from kdump.repair.transaction.directories import Directory, open_as_owner, open_directory
from kdump.repair.transaction.folder import RecordFolder
from kdump.repair.transaction.interruption import cause_text
from kdump.repair.transaction.lock import (
    check_other_partitions,
    check_readers,
    finish_or_undo,
    hold_directory,
    interrupted_repair,
)
from kdump.repair.transaction.plan import changed_since
from kdump.repair.transaction.shared_files import line_of
from kdump.storage.repair_record import (
    BEGUN,
    FOLDERS,
    MOVE,
    OPEN,
    RepairRecord,
    RepairState,
    repair_records,
)
from kdump.storage.source import source_error, status_of


def recorded_move(home: Path, plan_id: str) -> Move:
    """Return the move whose record is in the directory ``home``. Raises Refused, SourceError."""
    return at_home(RecordFolder(home, plan_id).decoded(decode), home)


def interrupted_move(path: Path, target: Path) -> tuple[Path, RepairRecord] | None:
    """Return the unfinished move to ``target`` of the partition directory at ``path``.

    That is the directory with its record, and the record. Raises SourceError, OSError.
    """
    for home in (path, target / path.name, *aside_names(target, path.name)):
        for record in repair_records(home):
            if record.command == MOVE and record.state in OPEN:
                return home, record
    return None


def is_finished(path: Path, target: Path) -> bool:
    """Return whether a move to ``target`` has taken the directory at ``path`` there already."""
    if os.path.lexists(path):
        return False
    records = repair_records(target / path.name)
    return any(each.command == MOVE and each.state is RepairState.DONE for each in records)


def leftovers(target: Path, name: str) -> list[Path]:
    """Return the copies of a partition in ``target`` by moves that have not begun.

    A backup has its name too, and its record elsewhere. Raises SourceError.
    """
    return [path for path in aside_names(target, name) if _has_not_begun(path)]


def _has_not_begun(path: Path) -> bool:
    """Return whether what is set aside is a copy by a move that has not begun, or empty."""
    plan_id = aside_id(path)
    record = next((each for each in repair_records(path) if each.id == plan_id), None)
    if record is not None and record.state is not RepairState.PREPARED:
        return False
    if record is not None and record.command == MOVE:
        return True
    try:
        return not has_files(path, path / FOLDERS / plan_id)
    except OSError as error:
        raise source_error(path, error) from error


def carry_out(
    move: Move, report: Callable[[int], None] = lambda _: None, *, assume_stopped: bool = False
) -> None:
    """Carry out a move. ``report`` gets counts of the bytes that are copied and compared.

    Raises Refused if nothing was changed, Unfinished if something was; SourceError.
    """
    with _holding(move, assume_stopped=assume_stopped):
        course = Course(_checked(move))
        try:
            _remove_leftovers(move)
        except OSError as error:
            raise Refused(f"{move.departed}: nothing was changed: {error}") from error
        if move.copied and os.path.lexists(move.staged):
            raise Refused(f"{move.staged}: expected nothing of this name, found something")
        try:
            course.stage(begin_time(move.departed), report)
            if not course.is_as_planned():
                raise changed_since(move.departed, "other times")
        except BaseException as error:  # a signal too: nothing was changed yet
            with suppress(OSError, Refused):
                course.unstage()
            if isinstance(error, OSError):
                raise Refused(f"{move.departed}: nothing was changed: {error}") from error
            raise
        _finish(course, assume_stopped=assume_stopped)


def _remove_leftovers(move: Move) -> None:
    """Remove what repairs and moves have prepared and not begun."""
    with open_directory(move.departed):
        for path in prepared(move.departed):
            disk.remove_tree(path)
        if (move.departed / FOLDERS).is_dir():
            disk.remove_empty(move.departed / FOLDERS)
    for path in leftovers(move.target, move.name):
        with open_directory(path):
            remove_copy(path, aside_id(path))


def resume(move: Move, *, assume_stopped: bool = False) -> None:
    """Finish a move that has begun. Raises Refused if it cannot be; Unfinished, SourceError."""
    course = Course(move)
    with _holding(move, assume_stopped=assume_stopped):
        departed, arrived = os.path.lexists(move.departed), os.path.lexists(move.arrived)
        if is_outdated(move):
            undo = shell_text(undo_command(course.home, move.id))
            raise Refused(
                f"{move.departed}: expected the files that move {move.id} was planned for, found "
                "other files, or none: a broker has run here, or another move has taken them: "
                f"undo it with {undo}, and plan again"
            )
        if move.copied and departed and arrived and not course.has_equal_logs():
            raise _both_written(move)
        _finish(course, assume_stopped=assume_stopped)


def is_outdated(move: Move) -> bool:
    """Return whether a partition was changed, or taken away, before its copy got its name."""
    if os.path.lexists(move.arrived):
        return False
    gone = move.copied and not os.path.lexists(move.departed)
    return gone or not Course(move).is_as_planned()


def take_back(move: Move, record: RepairRecord, *, assume_stopped: bool = False) -> None:
    """Undo a move, finished or not, and remove its copy.

    Raises Refused if nothing was changed, Unfinished if something was; SourceError.
    """
    course = Course(move)
    with _holding(move, assume_stopped=assume_stopped):
        check_revertible(move, record)
        again = partial(_undo_again, course, assume_stopped=assume_stopped)
        with _reporting(move, again, "undo"):
            with open_directory(course.home):
                course.record.undo()
            course.take_back()
            course.unstage()


def check_revertible(move: Move, record: RepairRecord) -> None:
    """Raise Refused unless a move can be undone: a broker has not changed the partition since."""
    course = Course(move)
    departed, arrived = os.path.lexists(move.departed), os.path.lexists(move.arrived)
    newest = repair_records(course.home)[-1]
    if newest.id != record.id:
        raise Refused(
            f"{course.home}: expected {record.id} to be the newest repair, found {newest.id}: undo "
            "that repair first"
        )
    if move.departed == move.arrived:
        raise Refused(
            f"{course.home}: expected it where move {move.id} has left it, found it where it was "
            "before: discard the backup"
        )
    if not arrived:
        return
    if move.copied and departed:
        if not course.has_equal_logs():
            raise _both_written(move)
        return
    moved = not move.copied or os.path.lexists(move.kept)
    same_lines = record.state is not RepairState.DONE or all(
        line_of(move.target / line.checkpoint, move.arrived) == line.source for line in move.lines
    )
    if not moved or not course.is_as_planned() or not same_lines:
        what = f"files as move {move.id} left them, found other files"
        if not moved:
            what = f"the backup of move {move.id} in {move.kept}, found none"
        raise Refused(
            f"{move.arrived}: expected {what}: a broker has run here. To get it back with all that "
            f"was written since, move it to {move.source}; kdump undo with --discard removes the "
            "backup first"
        )


def discard(move: Move, record: RepairRecord) -> None:
    """Remove the backup of a finished move, and its record.

    Raises Refused if nothing was removed, Unfinished if something was.
    """
    if record.state in OPEN:
        raise Refused(f"{record.path}: expected a finished move, found an interrupted one")
    course = Course(move)
    again, home = partial(_discard_again, course), course.home
    done = record.state is RepairState.DONE
    has_backup = done and move.copied and os.path.lexists(move.kept)
    with open_as_owner(home) as here, ExitStack() as stack:
        # The record says where the backup is, and the owner of the partition has written it.
        for path in (move.source, move.kept) if has_backup else ():
            directory = stack.enter_context(open_directory(path))
            _check_same_owner(directory, here.rights.uid, home)
        with _reporting(move, again, "removal of the backup"):
            if has_backup:
                disk.remove_tree(move.kept)
            with open_directory(home.parent):
                course.unstage()


def _undo_again(course: Course, *, assume_stopped: bool) -> Remedy:
    """Return the command that finishes an undo: once all is back, only the copy is left."""
    if (course.record.path / BEGUN).exists():
        return undo_command(course.home, course.move.id) + _assuming(assume_stopped)
    if course.record.path.exists():
        return _discard_again(course)
    return "kdump", "undo", operand(course.move.departed)


def _discard_again(course: Course) -> Remedy:
    return (*undo_command(course.home, course.move.id)[:-1], "--discard")


@contextmanager
def _holding(move: Move, *, assume_stopped: bool) -> Iterator[None]:
    """Hold the locks of both log directories, with the rights of their owner. Raises Refused."""
    source, target = (status_of(path).st_uid for path in (move.source, move.target))
    if source != target:
        raise _of_another_owner(move.target, target, source, move.source)
    with ExitStack() as stack:
        for path in (move.source, move.target):
            held = stack.enter_context(hold_directory(path, assume_stopped=assume_stopped))
            _check_same_owner(held, source, move.source)
        yield


def _check_same_owner(directory: Directory, uid: int, other: Path) -> None:
    """Raise Refused unless an opened directory belongs to the owner of ``other``."""
    if directory.rights.uid != uid:
        raise _of_another_owner(directory.path, directory.rights.uid, uid, other)


def _of_another_owner(path: Path, found: int, uid: int, other: Path) -> Refused:
    return Refused(f"{path}: expected user {uid}, who owns {other}, to own it, found user {found}")


def _checked(move: Move) -> Move:
    """Return the move as it is now. Raises Refused unless that is as it was planned."""
    for directory in (move.source, move.target):
        check_other_partitions(move.departed, directory)
    record = interrupted_repair(move.departed)
    if record is not None:
        raise Refused(
            f"{move.departed}: expected no interrupted repair, found {record.id}: "
            f"{finish_or_undo(record, move.departed)}"
        )
    if os.path.lexists(move.arrived):
        raise Refused(f"{move.arrived}: expected nothing of this name, found something")
    check_readers(move.departed, move.files)
    now = read_move(move.departed, move.target)
    names = {*now.files, *move.files}
    changed = sorted(name for name in names if now.files.get(name) != move.files.get(name))
    changed += [
        line.checkpoint
        for line, found in zip(move.lines, now.lines, strict=True)
        if (found.source, found.target) != (line.source, line.target)
    ]
    if now.id != move.id:
        raise changed_since(move.departed, ", ".join(changed[:5]) or "other directories")
    return now


def _assuming(assume_stopped: bool) -> tuple[str, ...]:
    return ("--assume-stopped",) if assume_stopped else ()


def _finish(course: Course, *, assume_stopped: bool) -> None:
    move = course.move
    with _reporting(move, lambda: move.command + _assuming(assume_stopped), "move"):
        course.finish()
        with open_directory(course.home):
            course.record.finish(_receipt(course))


def _receipt(course: Course) -> Mapping[str, Any]:
    move = course.move
    return {
        "id": move.id,
        "command": MOVE,
        "begun_ns": course.record.read(BEGUN).get("begun_ns"),
        "uid": os.getuid(),
        "bytes": move.bytes,
        "backup": str(move.kept) if move.copied else None,
    }


def _both_written(move: Move) -> Refused:
    return Refused(
        f"{move.name}: expected the same logs in {move.source} and {move.target}, found that they "
        "differ: a broker has written to one of them alone. kdump compare shows which one has "
        "more: move the other one out of its log directory"
    )


@contextmanager
def _reporting(move: Move, resume_with: Callable[[], Remedy], what: str) -> Iterator[None]:
    """Turn any error or signal in the block into Unfinished, with the command as it is then."""
    try:
        yield
    except (KdumpError, OSError, KeyboardInterrupt, SystemExit) as error:
        text = f"{move.name}: the {what} {move.id} was interrupted: {cause_text(error)}"
        raise Unfinished(text, resume_with()) from error
