"""Course: the steps of a move, in an order in which a broker may start at any moment.

The partition has its name in one log directory or in both. Where both have it, no broker starts
(``Duplicate log directories``). The lines of the new log directory come first, since a broker does
not read those of a log that is elsewhere. The line of the log cleaner goes first and comes last:
from 4.2 on, a cleaner ends if two log directories have one. A clean shutdown file goes before the
copy of a log without one arrives.

Spec: ``LogManager.loadLog``, ``LogManager.loadLogs``, ``LogCleanerManager.allCleanerCheckpoints``;
KAFKA-8362, KAFKA-10471.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdump.errors import Refused
from kdump.repair.relocation.move import (
    CHECKPOINTS,
    CheckpointLine,
    Move,
    encode,
    read_directories,
    read_files,
)
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import open_directory
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.folder import RecordFolder
from kdump.repair.transaction.shared_files import (
    beside_path,
    line_of,
    read_lines,
    set_line,
)
from kdump.storage.names import (
    CLEAN_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
)
from kdump.storage.repair_record import BEGUN, FOLDERS, PLAN

#: Offsets that only grow while the files of a log stay as they are.
_RISING: Final = frozenset({HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT})
_PIECE_BYTES: Final = 1 << 20


class Course:
    """The steps of a move, which can be repeated; both log directories are open for changes."""

    def __init__(self, move: Move) -> None:
        self.move = move

    @property
    def home(self) -> Path:
        """The directory that has the record of the move."""
        move = self.move
        if move.copied:
            # Where a later move has brought it back, the name is that of the backup.
            staged = move.staged != move.kept and os.path.lexists(move.staged)
            return move.staged if staged else move.arrived
        return move.arrived if os.path.lexists(move.arrived) else move.departed

    @property
    def record(self) -> RecordFolder:
        """The record of the move. Its partition has to be open for changes."""
        return RecordFolder(self.home, self.move.id)

    def stage(self, begun_ns: int, report: Callable[[int], None]) -> None:
        """Make the copy, if there has to be one, and the record. Raises Refused, OSError."""
        move = self.move
        if move.copied:
            disk.make_directory(move.staged, Attributes.of(move.departed))
        with open_directory(self.home):
            folder = self.record
            for path in (folder.path.parent, folder.path):
                disk.make_directory(path, Attributes.of(move.departed))
            folder.write(PLAN, encode(move))
            if move.copied:
                with open_directory(move.departed):
                    self._copy(report)
            folder.write(BEGUN, {"begun_ns": begun_ns})

    def _copy(self, report: Callable[[int], None]) -> None:
        """Copy all files, and compare the copies with them. Raises Refused, OSError."""
        move = self.move
        directories = read_directories(move.departed)
        for inner in directories:
            disk.make_directory(move.staged / inner, Attributes.of(move.departed / inner))
        for name, stamp in move.files.items():
            path = move.departed / name
            copy, like = move.staged / name, Attributes.of(path)
            disk.copy_file(path, copy, stamp.size, like, stamp.mtime_ns)
            report(stamp.size)
        for name, stamp in move.files.items():
            if not _equal(move.departed / name, move.staged / name, read_back=True):
                raise Refused(
                    f"{move.staged / name}: expected the {stamp.size} bytes of {move.departed} to "
                    "be read back, found other bytes: check memory, controller and disk"
                )
            report(stamp.size)
        for inner in reversed(directories):
            like = Attributes.of(move.departed / inner)
            disk.set_directory_attributes(move.staged / inner, like)
        disk.set_directory_attributes(move.staged, Attributes.of(move.departed))

    def unstage(self) -> None:
        """Remove the copy, and the record in it; without a copy the record alone."""
        home, folder = self.home, self.record
        if not os.path.lexists(home):
            return
        with open_directory(home):
            if folder.path.exists():
                disk.unlink(folder.path / BEGUN)  # nothing is to be finished from here on
            if home == self.move.staged:
                remove_copy(home, self.move.id)
                return
            if folder.path.exists():
                disk.remove_tree(folder.path)
            if folder.path.parent.exists():
                disk.remove_empty(folder.path.parent)

    def finish(self) -> None:
        """Do all steps that are left. Raises Refused, OSError."""
        move = self.move
        if not os.path.lexists(move.arrived):
            self._prepare_arrival()
            disk.rename(move.staged if move.copied else move.departed, move.arrived)
        elif move.copied and os.path.lexists(move.departed):
            self._prepare_arrival()  # a start that failed may have taken the lines away
        if move.copied and os.path.lexists(move.departed):
            disk.rename(move.departed, move.kept)
        cleaned = move.cleaned
        if cleaned.source is not None:
            path = move.target / cleaned.checkpoint
            if line_of(path, move.departed) is None:
                set_line(path, move.departed, cleaned.source, move.id)
        for line in move.loaded:
            self._try_to_remove(move.source / line.checkpoint)
        self._clear()

    def _prepare_arrival(self) -> None:
        """Bring the lines that a broker reads, and take away what it must not find."""
        move = self.move
        for line in move.loaded:
            offset = self._offset(line)
            set_line(move.target / line.checkpoint, move.departed, offset, move.id)
        for directory in (move.source, move.target):
            set_line(directory / move.cleaned.checkpoint, move.departed, None, move.id)
        unsure = os.path.lexists(move.arrived) and not self.is_as_planned()
        if unsure or not move.is_clean or not (move.source / CLEAN_MARKER).exists():
            disk.unlink(move.target / CLEAN_MARKER)

    def _offset(self, line: CheckpointLine) -> int | None:
        """Return the offset that the partition has now: a broker may have raised it since."""
        move = self.move
        places = [move.source]
        if os.path.lexists(move.arrived):  # before, a line there is of an earlier log
            places.append(move.target)
        found = [line.source]
        if line.checkpoint in _RISING:
            found += [line_of(place / line.checkpoint, move.departed) for place in places]
        return max((offset for offset in found if offset is not None), default=None)

    def _try_to_remove(self, checkpoint: Path) -> None:
        """Remove the line of a log that is no longer there: no broker reads it.

        A full disk has no room for the file without it.
        """
        try:
            set_line(checkpoint, self.move.departed, None, self.move.id)
        except OSError as error:
            if error.errno not in disk.NO_ROOM:
                raise
            with suppress(OSError):
                disk.unlink(beside_path(checkpoint, self.move.id))

    def take_back(self) -> None:
        """Undo all steps that were done. Raises Refused, OSError."""
        move = self.move
        if move.copied and not any(map(os.path.lexists, (move.departed, move.kept))):
            self._clear()
            return  # another move has taken the partition, and its lines
        cleaned = move.cleaned
        if os.path.lexists(move.arrived):
            if not move.is_clean:  # one that came later does not know of this log
                disk.unlink(move.source / CLEAN_MARKER)
            for line in move.loaded:
                offset = self._offset(line)
                set_line(move.source / line.checkpoint, move.departed, offset, move.id)
            self._reset(move.target / cleaned.checkpoint, None, is_new=cleaned.is_new)
            if move.copied and os.path.lexists(move.kept):
                disk.rename(move.kept, move.departed)
            disk.rename(move.arrived, move.staged if move.copied else move.departed)
        for line in move.loaded:
            path = move.target / line.checkpoint
            if line_of(path, move.departed) in (line.source, line.target, self._offset(line)):
                self._reset(path, line.target, is_new=line.is_new)
        self._reset(move.target / cleaned.checkpoint, cleaned.target, is_new=cleaned.is_new)
        path = move.source / cleaned.checkpoint
        if cleaned.source is not None and line_of(path, move.departed) is None:
            set_line(path, move.departed, cleaned.source, move.id)
        self._clear()

    def _reset(self, checkpoint: Path, offset: int | None, *, is_new: bool) -> None:
        """Give the partition the line that it had; remove a file that was not there before."""
        set_line(checkpoint, self.move.departed, offset, self.move.id)
        if is_new and os.path.lexists(checkpoint) and not read_lines(checkpoint):
            disk.unlink(checkpoint)

    def _clear(self) -> None:
        """Remove the files that interrupted steps have left at the top of the log directories."""
        for directory in (self.move.source, self.move.target):
            for name in CHECKPOINTS:
                beside = beside_path(directory / name, self.move.id)
                if os.path.lexists(beside):
                    disk.unlink(beside)

    def is_as_planned(self) -> bool:
        """Whether all files are as they were, wherever the partition is now."""
        move = self.move
        places = {move.departed, move.arrived, move.kept, move.staged}
        record = [self.record.path]
        return all(
            read_files(place, record) == move.files for place in places if os.path.lexists(place)
        )

    def has_equal_logs(self) -> bool:
        """Whether both directories have the same logs: no broker has written to one of them."""
        move, record = self.move, [self.record.path]
        ours, theirs = (
            {
                name: stamp
                for name, stamp in read_files(place, record).items()
                if name.endswith(".log") and "/" not in name
            }
            for place in (move.departed, move.arrived)
        )
        return ours.keys() == theirs.keys() and all(
            stamp.size == theirs[name].size
            and (stamp == theirs[name] or _equal(move.departed / name, move.arrived / name))
            for name, stamp in ours.items()
        )


def remove_copy(path: Path, plan_id: str) -> None:
    """Remove a copy; the record of its move last: it says that this is a copy. Raises OSError."""
    for name, is_directory in disk.list_directory(path):
        if not is_directory:
            disk.unlink_all([path / name])
        elif name != FOLDERS:
            disk.remove_tree(path / name)
    folders = path / FOLDERS
    if folders.is_dir():
        for name, is_directory in disk.list_directory(folders):
            if is_directory and name != plan_id:
                disk.remove_tree(folders / name)
    disk.remove_tree(path)


def _equal(path: Path, other: Path, *, read_back: bool = False) -> bool:
    """Return whether two files have the same bytes; ``read_back``: the second one from its disk."""
    with path.open("rb", buffering=0) as one, other.open("rb", buffering=0) as two:
        if read_back:
            os.posix_fadvise(two.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while piece := one.read(_PIECE_BYTES):
            if piece != two.read(len(piece)):
                return False
        return not two.read(1)
