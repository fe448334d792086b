"""The room that a start takes on a file system.

A recovery writes both indexes of a segment again, through a map of a sparse file: where no block is
left for a page of it, the broker's process gets a fault. It also writes producer snapshots.

Spec: ``LogSegment.recover``, ``AbstractIndex.reset``, ``ProducerStateManager.takeSnapshot``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import replace
from typing import Final

from kdump.audit.commands import space_command
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts
from kdump.audit.facts.space import BLOCK_BYTES, Space
from kdump.audit.finding_code import FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.audit.startup.outcome import LogFacts
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.storage.logdir import is_metadata_log
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_FREE_SPACE: Final = (
    "Free space before the broker starts: kdump space shows what takes the space, and what of it "
    "may go. Delete other files of the file system first, then the backups that kdump undo lists. "
    "If that is not enough, kdump trim removes the oldest segments in the right order. Do not "
    "delete a .log by hand. A larger file system, or a smaller reserve of an ext4 file system "
    "(tune2fs -m), helps too."
)
DISK_FULL: Final = FindingCode(
    "disk-full",
    Severity.ERROR,
    "The file system of a log directory has less free space, or fewer free inodes, than startup "
    "needs. Startup writes the indexes of segments that it recovers, producer snapshots, leader "
    "epochs, and the state of a controller.",
    "The broker does not start, or exits soon after startup. If there is no space for a page of a "
    "mapped index, the broker gets an InternalError. Brokers from 4.0 on delete all records "
    "of a segment if its recovery cannot write a file.",
    _FREE_SPACE,
    stops=Outcome.REFUSES,
)
DISK_SHORT: Final = FindingCode(
    "disk-short",
    Severity.ERROR,
    "Startup recovers segments, and the file system of the log directory has hardly more free "
    "space, or free inodes, than startup needs at least. New segments, and files that replace "
    "other files, need more for a moment.",
    "If brokers from 4.0 on cannot write a file while they recover a segment, they delete all "
    "records of this segment and all later segments, and continue. Earlier brokers take the log "
    "directory offline.",
    _FREE_SPACE,
    harm=Harm.EMPTIED,
)
DISK_LOW: Final = FindingCode(
    "disk-low",
    Severity.WARNING,
    "The file system of a log directory has little free space, or few free inodes.",
    "The broker takes the log directory offline as soon as a write fails, and exits if it has no "
    "other log directory.",
    "Free space before the broker needs it, or shorten the retention of large topics: kdump space "
    "shows what takes the space.",
)

#: What a log directory may lack.
SPACE_CODES: Final = (DISK_FULL, DISK_SHORT, DISK_LOW)

#: With less free space than this a broker soon stops: a new segment and its indexes take more.
_LOW_BYTES: Final = 16 << 20
_LOW_FILES: Final = 64
#: The files that a start has beside those that they replace, or that are new, at the same time: of
#: each thread that recovers logs, the checkpoint of leader epochs, a snapshot and both indexes; the
#: checkpoints of the log directory; a new segment of the metadata log, with its indexes.
_PASSING_FILES: Final = 32
#: The largest batch that a broker takes by default, and so the most between two index entries.
_BATCH_BYTES: Final = 1 << 20


@frozen
class Room:
    """The least that a start writes: in bytes of whole blocks, and in new files.

    ``freed_bytes`` and ``freed_files`` are what the start deletes, mostly before it writes.
    ``recovered`` are the segments that it recovers, but those of a metadata log, of which every
    start recovers one.
    """

    bytes: int = 0
    files: int = 0
    freed_bytes: int = 0
    freed_files: int = 0
    recovered: int = 0

    def __add__(self, other: Room) -> Room:
        return Room(
            self.bytes + other.bytes,
            self.files + other.files,
            self.freed_bytes + other.freed_bytes,
            self.freed_files + other.freed_files,
            self.recovered + other.recovered,
        )

    @property
    def before_deleting(self) -> Room:
        """The room without what the start deletes."""
        return Room(self.bytes, self.files, recovered=self.recovered)

    def fits(self, space: Space) -> bool:
        """Return whether a file system has this room; what the start deletes counts as free.

        The recovery of the first segment writes files before the start has deleted much.
        """
        if self.recovered and (space.free_bytes < BLOCK_BYTES or space.free_files == 0):
            return False
        if self.bytes > space.free_bytes + self.freed_bytes:
            return False
        return space.free_files is None or self.files <= space.free_files + self.freed_files


_PASSING: Final = Room(BLOCK_BYTES * _PASSING_FILES, _PASSING_FILES)


def room_of(
    facts: PartitionFacts,
    logs: Iterable[LogFacts],
    recovered: Collection[int],
    snapshots: Set[int],
) -> Room:
    """Return the room that the start of one partition takes.

    ``recovered`` are the base offsets of the segments that recovery reads, ``snapshots`` the
    offsets of the producer snapshots after it. A log that was not read counts with the entries that
    it has at least, and with the snapshot at its end.
    """
    pages = files = 0
    unread = False
    for log in logs:
        if log.segment.base_offset in recovered:
            unread |= log.recovered is None and log.size > 0
            pages += sum(_index_bytes(log, facts.settings.index_interval_bytes))
            files += (log.segment.index is None) + (log.segment.time_index is None)
    added = len(snapshots - facts.snapshots.keys()) + unread
    # Which ones stay of a log that was not read is unknown: at most one, which is then not new.
    removed = len(facts.snapshots if unread else facts.snapshots.keys() - snapshots)
    changed = Room(BLOCK_BYTES * added, added, BLOCK_BYTES * removed, removed)
    segments = 0 if is_metadata_log(facts.partition) else len(recovered)
    return changed + Room(pages, files, facts.leftover_bytes, facts.leftover_files, segments)


def space_findings(directories: Iterable[tuple[DirectoryFacts, Room]]) -> Iterator[Finding]:
    """Yield a finding for each log directory whose file system has little room, or too little.

    Each comes with the room that the start of its partitions takes. Directories of one node on one
    file system share its free space.
    """
    known = [(facts, room + _least(facts)) for facts, room in directories]
    shared: dict[object, Room] = defaultdict(Room)
    for facts, room in known:
        shared[_sharing(facts)] += room
    for facts, _ in known:
        space, room, path = facts.space, shared[_sharing(facts)], facts.directory.path
        if space is None:
            continue
        if not room.fits(space):
            wanted = f"{room.bytes:,} bytes and {room.files:,} inodes, which startup needs at least"
            yield _finding(DISK_FULL, path, wanted, space)
        elif room.recovered and not (most := room.before_deleting + _PASSING).fits(space):
            wanted = f"{most.bytes:,} bytes and {most.files:,} inodes, which startup may need"
            yield _finding(DISK_SHORT, path, wanted, space)
        elif space.free_bytes < _LOW_BYTES or (space.free_files or _LOW_FILES) < _LOW_FILES:
            wanted = f"{_LOW_BYTES:,} bytes and {_LOW_FILES:,} inodes at least"
            yield _finding(DISK_LOW, path, wanted, space)


def _least(facts: DirectoryFacts) -> Room:
    """Return what the start of any broker takes in a log directory.

    A broker that leads a partition writes its leader epochs again, and a controller its quorum
    state. The clean shutdown file is deleted first.
    """
    if not facts.directory.partition_paths:
        return Room()
    return Room(BLOCK_BYTES, 1, BLOCK_BYTES if facts.clean_marker else 0, int(facts.clean_marker))


def _sharing(facts: DirectoryFacts) -> object:
    """Return what the directories of one node on one file system have in common."""
    meta, device = facts.identity, None if facts.space is None else facts.space.device
    if meta is None:
        return facts.directory.path
    return meta.cluster_id, meta.node_id, device


def _finding(code: FindingCode, path: AnyPath, wanted: str, space: Space) -> Finding:
    files = "" if space.free_files is None else f" and {space.free_files:,} inodes"
    finding = file_finding(code, path, wanted, f"{space.free_bytes:,} bytes{files} free")
    return replace(finding, remedy=space_command(path))


def _index_bytes(log: LogFacts, interval: int) -> tuple[int, int]:
    """Return the bytes of the two indexes of a recovered log beyond those that they have.

    An index in a manifest or an object store may have them all: nothing says.
    """
    result = log.recovered
    if result is None:
        entries = log.size // (interval + _BATCH_BYTES)
        times = entries + (log.size > 0)
    else:
        entries, times = result.index_entries, result.time_entries
    wanted = (entries * OffsetIndex.ENTRY_BYTES, times * TimeIndex.ENTRY_BYTES)
    index, time_index = (
        0 if allocated is None else max(0, -(-size // BLOCK_BYTES) * BLOCK_BYTES - allocated)
        for size, allocated in zip(wanted, log.index_allocated, strict=True)
    )
    return index, time_index
