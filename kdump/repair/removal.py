"""The oldest segments of a partition removed, segment by segment, or files that no log needs.

No file is written before space is free, and no step leaves a state that a broker cannot start from:
of each segment the log goes first, and the next segment only once its files are gone from the disk.
Leader epochs are cut after that. A process that is killed leaves a shorter log. Files that no log
needs go in any order.

Spec: ``LogLoader.load``, which deletes indexes without a log, and takes the larger of the first
base offset and the checkpointed log start offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdump.audit.sizes.measure import OldSegment
from kdump.errors import DecodeError, Refused, SourceError
from kdump.format.checkpoint import decode_epochs, encode_epochs
from kdump.repair.content.epochs import epochs_from, load_epochs
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import open_as_owner
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.fingerprint import stamp_of
from kdump.repair.transaction.lock import check_readers, check_stopped, hold_lock
from kdump.repair.transaction.plan import Stamp, changed_since
from kdump.storage.access import read_end
from kdump.storage.names import HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCH_CHECKPOINT
from kdump.storage.repair_record import FOLDERS
from kdump.storage.source import status_of
from kdump.values import frozen

_MOST_BYTES: Final = 16 << 20


@frozen
class OldSegments:
    """The segments of one partition that go; they ascend from the first on.

    ``identity`` is the device and inode of its directory, ``files`` has the stamps of the files
    that go, ``marks`` that of the checkpoint with its high watermark. ``remote``: the log begins in
    remote storage, and its leader epochs stay.
    """

    path: Path
    log_directory: Path | None
    identity: tuple[int, int]
    segments: tuple[OldSegment, ...]
    files: Mapping[str, Stamp]
    marks: Stamp | None
    remote: bool

    @property
    def log_start(self) -> int:
        """The base offset of the first segment that stays."""
        return self.segments[-1].end_offset


@frozen
class UnusedFiles:
    """Files in the directory at ``path`` that no log needs; ``whole``: the directory goes too.

    ``identity`` is the device and inode of the directory. ``files`` has the stamps of what goes.
    """

    path: Path
    log_directory: Path
    identity: tuple[int, int]
    files: Mapping[str, Stamp]
    whole: bool


def remove_segments(
    old: OldSegments, removed: Callable[[int], None], *, assume_stopped: bool
) -> bool:
    """Remove the segments of a partition; ``removed`` gets the bytes of each whose log is gone.

    Returns whether the leader epochs begin with the log now: they do after the next start. Raises
    Refused if nothing of the partition was removed before the error, else SourceError.
    """
    try:
        return _remove(old, removed, frozenset(), assume_stopped=assume_stopped)
    except Refused as error:
        if not _finds_no_room(error):
            raise
        # Not even an empty lock file finds room: no broker can start until the first log is gone.
        name = old.segments[0].files[0]
        check_stopped(old.path, assume_stopped=assume_stopped)
        with open_as_owner(old.path, old.identity):
            _check_unchanged(old, frozenset())
            disk.unlink(old.path / name)
        gone = frozenset({name})
        try:
            return _remove(old, removed, gone, assume_stopped=assume_stopped)
        except Refused as again:
            raise SourceError(old.path, f"{again}: only {', '.join(gone)} is gone") from again


def _remove(
    old: OldSegments, removed: Callable[[int], None], gone: frozenset[str], *, assume_stopped: bool
) -> bool:
    """Remove what is not ``gone``."""
    sizes = {segment.files[0]: segment.bytes for segment in old.segments}
    with hold_lock(
        old.path, old.log_directory, identity=old.identity, assume_stopped=assume_stopped
    ):
        _check_unchanged(old, gone)
        check_readers(old.path, old.files.keys() - gone)
        removed(sum(sizes[name] for name in gone))
        reached = None
        try:
            for reached in old.segments:
                paths = [old.path / name for name in reached.files if name not in gone]
                disk.unlink_all(paths, lambda path: removed(sizes.get(path.name, 0)))
        except OSError as error:
            raise SourceError(old.path, f"{old.path}: {error}") from error
        finally:
            # After an interruption too: else a check takes it for a log that has lost its start.
            cut = reached is None or _tidy(old, reached)
    return cut


def _tidy(old: OldSegments, last: OldSegment) -> bool:
    """Remove what is left beside logs that are gone up to ``last``, and cut the leader epochs.

    Returns whether these begin with the log.
    """
    log, *beside = (old.path / name for name in last.files)
    log_start = last.base_offset
    with suppress(OSError):
        if not disk.exists(log):
            log_start = last.end_offset
            disk.unlink_all([path for path in beside if disk.exists(path)])
    return old.remote or _cut_epochs(old.path, log_start)


def remove_unused(unused: UnusedFiles, *, assume_stopped: bool) -> None:
    """Remove files that no log needs.

    Raises Refused if nothing was removed before the error, else SourceError.
    """
    try:
        _remove_unused(unused, frozenset(), assume_stopped=assume_stopped)
    except Refused as error:
        if not _finds_no_room(error) or not unused.files:
            raise
        name = min(unused.files)
        check_stopped(unused.path, assume_stopped=assume_stopped)
        with open_as_owner(unused.path, unused.identity):
            _check_unused(unused, frozenset())
            disk.unlink(unused.path / name)
        try:
            _remove_unused(unused, frozenset({name}), assume_stopped=assume_stopped)
        except Refused as again:
            raise SourceError(unused.path, f"{again}: only {name} is gone") from again


def _remove_unused(unused: UnusedFiles, gone: frozenset[str], *, assume_stopped: bool) -> None:
    """Remove what is not ``gone``."""
    with hold_lock(
        unused.path, unused.log_directory, identity=unused.identity, assume_stopped=assume_stopped
    ):
        _check_unused(unused, gone)
        left = sorted(unused.files.keys() - gone)
        check_readers(unused.path, left)
        try:
            if unused.whole:
                disk.remove_tree(unused.path)
            else:
                disk.unlink_all([unused.path / name for name in left])
        except (OSError, Refused) as error:
            raise SourceError(unused.path, f"{unused.path}: {error}") from error


def _finds_no_room(error: Refused) -> bool:
    """Return whether the disk has no room for a lock file."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in disk.NO_ROOM


def _check_unused(unused: UnusedFiles, gone: frozenset[str]) -> None:
    """Raise Refused unless all files but those ``gone`` are as when the plan was made."""
    _check_owner(unused.path, unused.log_directory)
    stamps = {name: unused.files[name] for name in unused.files.keys() - gone}
    changed = _changed(unused.path, stamps)
    if unused.whole:
        names = {name for name, _ in disk.list_directory(unused.path)}
        changed += sorted(names - unused.files.keys() - {FOLDERS})
    if changed:
        raise changed_since(unused.path, ", ".join(changed[:5]))


def _check_unchanged(old: OldSegments, gone: frozenset[str]) -> None:
    """Raise Refused unless all files but those ``gone`` are as when the plan was made.

    The partition must belong to the owner of the log directory, whose checkpoints decide.
    """
    changed = _changed(old.path, {name: old.files[name] for name in old.files.keys() - gone})
    if old.log_directory is not None:
        _check_owner(old.path, old.log_directory)
        marks = old.log_directory / HIGH_WATERMARK_CHECKPOINT
        changed += [marks.name] if stamp_of(marks) != old.marks else []
    if changed:
        raise changed_since(old.path, ", ".join(changed[:5]))


def _changed(path: Path, stamps: Mapping[str, Stamp]) -> list[str]:
    """Return the names of files in the directory at ``path`` that have other stamps."""
    return [name for name, stamp in sorted(stamps.items()) if stamp_of(path / name) != stamp]


def _check_owner(path: Path, log_directory: Path) -> None:
    uid, owner = status_of(path).st_uid, status_of(log_directory).st_uid
    if uid != owner:
        raise Refused(
            f"{path}: expected user {owner}, who owns {log_directory}, to own it, found user {uid}"
        )


def _cut_epochs(partition: Path, log_start: int) -> bool:
    """Let the leader epochs begin with the log, as the next start does; return whether they do."""
    path = partition / LEADER_EPOCH_CHECKPOINT
    beside = partition / f"{path.name}.tmp"
    try:
        _, data = read_end(path, _MOST_BYTES)
        content = encode_epochs(epochs_from(load_epochs(decode_epochs(data)), log_start))
        if content != data:
            disk.write_file(beside, [content], Attributes.of(path))
            disk.rename(beside, path)
    except (SourceError, DecodeError, OSError):
        with suppress(OSError):
            disk.unlink(beside)
        return False
    return True
