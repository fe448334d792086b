"""remove_segments(): the oldest segments of a partition removed, segment by segment.

No file is written before space is free, and no step leaves a state that a broker cannot start from:
of each segment the log goes first, and the next segment only once its files are gone from the disk.
Leader epochs are cut after that. A process that is killed leaves a shorter log.

Spec: ``LogLoader.load``, which deletes indexes without a log, and takes the larger of the first
base offset and the checkpointed log start offset.
"""

from __future__ import annotations

import errno
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
from kdump.storage.source import status_of
from kdump.values import frozen

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
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
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in _NO_ROOM:
            raise
        # Not even an empty lock file finds room: no broker can start until the first log is gone.
        gone = _remove_first_log(old, assume_stopped=assume_stopped)
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


def _remove_first_log(old: OldSegments, *, assume_stopped: bool) -> frozenset[str]:
    """Remove the oldest log without the lock, for which there is no room; return its name."""
    name = old.segments[0].files[0]
    check_stopped(old.path, assume_stopped=assume_stopped)
    with open_as_owner(old.path, old.identity):
        _check_unchanged(old, frozenset())
        disk.unlink(old.path / name)
    return frozenset({name})


def _check_unchanged(old: OldSegments, gone: frozenset[str]) -> None:
    """Raise Refused unless all files but those ``gone`` are as when the plan was made.

    The partition must belong to the owner of the log directory, whose checkpoints decide.
    """
    if old.log_directory is not None:
        uid, owner = status_of(old.path).st_uid, status_of(old.log_directory).st_uid
        if uid != owner:
            raise Refused(
                f"{old.path}: expected user {owner}, who owns {old.log_directory}, to own it, "
                f"found user {uid}"
            )
    changed = [
        name
        for name, stamp in sorted(old.files.items())
        if name not in gone and stamp_of(old.path / name) != stamp
    ]
    if old.log_directory is not None:
        marks = old.log_directory / HIGH_WATERMARK_CHECKPOINT
        changed += [marks.name] if stamp_of(marks) != old.marks else []
    if changed:
        raise changed_since(old.path, ", ".join(changed[:5]))


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
