"""Checks of what is no file in the place of one, and of directories that a broker renamed.

Spec: ``LogLoader``, ``LocalLog``; KOD 9, checks 25, 28.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import REPLICA_FIRST, FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.storage.logdir import (
    DirectoryEntry,
    EntryType,
    Partition,
    creates_target,
    holds_entries,
    is_circle,
    is_metadata_log,
    is_special,
)
from kdump.storage.names import FileKind

DIRECTORY_DELETED: Final = FindingCode(
    "directory-deleted",
    Severity.INFO,
    "A broker is about to delete this partition permanently.",
    "The broker loads the partition without recovery and removes it a minute later.",
    "To free space, you can delete the directory. To preserve its data, copy it before a broker "
    "starts.",
    check=28,
)
DIRECTORY_STRAY: Final = FindingCode(
    "directory-stray",
    Severity.INFO,
    "A broker renamed this partition: the cluster's metadata did not assign it to this broker, or "
    "it had no topic id.",
    "The broker loads the log, and recovers it after an unclean shutdown, but serves no record of "
    "it and never deletes it.",
    "If the records are not needed, delete the directory. If they are needed, copy them with kdump "
    "salvage.",
    check=28,
)
DIRECTORY_FUTURE: Final = FindingCode(
    "directory-future",
    Severity.INFO,
    "The directory holds the future log of a replica that is being moved to this log directory.",
    "If the partition's current log is in another log directory, the broker continues the move, or "
    "completes it where the cluster's metadata already assigns the replica to this log directory.",
    "Nothing to do, unless another finding names the directory or its partition.",
    check=28,
)
FILE_IS_DIRECTORY: Final = FindingCode(
    "file-is-directory",
    Severity.ERROR,
    "A directory, a symbolic link to nothing, or a special file (FIFO, socket) in a partition has "
    "the name of one of the broker's files.",
    "The broker cannot open it and takes the whole log directory offline. It exits if it has no "
    "other log directory, or if this is the metadata log.",
    "If it is a link, mount the file system that it leads to; otherwise move it away. The broker "
    "rebuilds an index, and kdump reindex writes leader-epoch-checkpoint and partition.metadata.",
    check=28,
    stops=Outcome.OFFLINE,
)
SNAPSHOT_IS_DIRECTORY: Final = FindingCode(
    "snapshot-is-directory",
    Severity.ERROR,
    "A directory, a symbolic link to nothing, or a special file (FIFO, socket) in a partition has "
    "the name of a producer snapshot.",
    "Startup fails when it writes a snapshot at this offset, and the broker takes the log "
    "directory offline. After an unclean shutdown, brokers from 4.0 on first delete all records of "
    "the segment that they recover, and all later segments.",
    "Move it away before the broker starts.",
    check=28,
    harm=Harm.UNSERVED,
)
INDEX_IS_DIRECTORY: Final = FindingCode(
    "index-is-directory",
    Severity.ERROR,
    "A directory or a special file (FIFO, socket) in a partition has the name of an offset index "
    "or a time index.",
    "Startup opens the indexes of the last segment and of segments that it recovers or replays: "
    "the broker then takes the whole log directory offline. It opens other indexes when a consumer "
    "reads the segment, or retention checks it, with the same result.",
    "Move it away. The broker rebuilds the index at the next startup.",
    check=28,
    harm=Harm.UNSERVED,
)

LOG_IS_NO_FILE: Final = FindingCode(
    "log-is-no-file",
    Severity.ERROR,
    "A symbolic link to nothing, a directory or a special file (FIFO, socket) has the name of a "
    "segment's .log. The records of the segment cannot be read.",
    "The broker ignores it, and starts. It deletes the segment's indexes, and takes the log for "
    "one without the segment: it begins later, has missing offsets, or ends earlier, and assigns "
    "the offsets at its end a second time. If this replica leads, others delete these records too.",
    "If it is a link, mount the file system that it leads to before a broker starts. Otherwise "
    "move it away, and put the .log back if it was moved or is in a backup. " + REPLICA_FIRST,
    check=28,
    loses=True,
    harm=Harm.FOLLOWED,
)

_SUFFIX_CODES: Final = {
    "delete": DIRECTORY_DELETED,
    "stray": DIRECTORY_STRAY,
    "future": DIRECTORY_FUTURE,
}


#: The kinds of a partition's small files that every start reads.
_SMALL_KINDS: Final = frozenset({FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA})

#: The kinds of a segment's files that a start creates.
_CREATED: Final = frozenset({FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX})


#: What a node deletes from its metadata log before it writes, or reads, a file of the kind.
_DELETED_FIRST: Final = frozenset(
    {
        (FileKind.QUORUM_STATE, ".tmp"),
        (FileKind.METADATA_SNAPSHOT, ".part"),
        (FileKind.METADATA_SNAPSHOT, ".deleted"),
    }
)


def check_types(evidence: Evidence) -> Iterator[Finding]:
    """Report what has the name of a file that a start opens, or writes, and is no file."""
    if evidence.facts is None:
        return
    facts, partition = evidence.facts, evidence.facts.partition
    bases = {segment.base_offset for segment in partition.segments}
    if not bases and not partition.transient:
        bases = {facts.log_start or 0}  # of the segment that the start creates
    for entry in partition.entries:
        if entry.type is EntryType.LINK:
            stops = _link_stops(entry, facts, bases)
        elif entry.type is EntryType.DIRECTORY or is_special(entry):
            stops = _stops(entry, facts, bases)
        else:
            stops = False
        if stops:
            yield file_finding(FILE_IS_DIRECTORY, entry.path, "a file", entry.type.value)
        elif entry.type is not EntryType.FILE and not evidence.deleted_at_start:
            yield from _unread_log(entry, facts)
    for (offset, kind), entry in facts.misnamed.items():
        if kind is FileKind.SNAPSHOT:
            yield file_finding(SNAPSHOT_IS_DIRECTORY, entry.path, "a file", entry.type.value)
        elif offset in bases:
            yield file_finding(INDEX_IS_DIRECTORY, entry.path, "a file", entry.type.value)


def _unread_log(entry: DirectoryEntry, facts: PartitionFacts) -> Iterator[Finding]:
    """Report an entry with the name of a log that holds records from the log start offset on."""
    name, base = entry.name, entry.name.base_offset
    if name.kind is not FileKind.LOG or name.suffix or not name.canonical or base is None:
        return
    if entry.type is EntryType.OTHER and not is_special(entry):
        return  # kdump may not follow the link
    following = [each.base_offset for each in facts.partition.segments if each.base_offset > base]
    end = following[0] if following else max([base, *_known_ends(facts)])
    if end > facts.start_offset or end == base:
        last = end - 1 if end > base else None
        offsets = Offsets(max(base, facts.start_offset), last)
        yield file_finding(LOG_IS_NO_FILE, entry.path, "a file", entry.type.value, offsets=offsets)


def _known_ends(facts: PartitionFacts) -> Iterator[int]:
    """Yield offsets up to which the log went, by its checkpoint lines and small files."""
    yield from filter(None, (facts.recovery_point, facts.high_watermark))
    yield from facts.snapshots
    for epoch in (None if facts.epochs is None else facts.epochs.value) or ():
        yield epoch.start_offset


def _stops(entry: DirectoryEntry, facts: PartitionFacts, bases: Set[int]) -> bool:
    """Return whether a directory, or a special file, stops every start."""
    name, partition = entry.name, facts.partition
    if name.suffix:
        return _is_in_the_way(entry, facts)
    segment = name.kind in (FileKind.LOG, FileKind.TXN_INDEX) and name.base_offset in bases
    state = name.kind is FileKind.QUORUM_STATE and is_metadata_log(partition)
    snapshot = entry is _newest_snapshot(partition)
    return name.canonical and (segment or state or snapshot or name.kind in _SMALL_KINDS)


def _link_stops(entry: DirectoryEntry, facts: PartitionFacts, bases: Set[int]) -> bool:
    """Return whether a link to nothing stops every start.

    A start takes the name for free, but cannot create the file, unless the directory exists that
    the link leads to. It reads leader-epoch-checkpoint without a look at what it is.
    """
    name = entry.name
    if name.kind is FileKind.LEADER_EPOCHS and not name.suffix:
        return True
    if creates_target(entry):
        return False
    if entry is _newest_snapshot(facts.partition):
        return is_circle(entry)  # a snapshot that is gone is not read
    if name.suffix:
        return _is_in_the_way(entry, facts)
    return name.canonical and name.kind in _CREATED and name.base_offset in bases


def _is_in_the_way(entry: DirectoryEntry, facts: PartitionFacts) -> bool:
    """Return whether what is no file has the name of a file that a start writes, or deletes.

    A new leader epoch is written at once. What is deleted may be a directory, if it is empty.
    """
    name, metadata = entry.name, is_metadata_log(facts.partition)
    if name.kind is FileKind.LEADER_EPOCHS:
        return name.suffix == ".tmp" and (facts.is_current or metadata)
    if not metadata:
        return False
    if name.kind is FileKind.PARTITION_METADATA:
        return name.suffix == ".tmp" and facts.metadata is None
    deleted = (name.kind, name.suffix) in _DELETED_FIRST
    return deleted and holds_entries(entry.path)


def _newest_snapshot(partition: Partition) -> DirectoryEntry | None:
    """Return the metadata snapshot that a node reads, by its name."""
    if not is_metadata_log(partition):
        return None
    by_end = {
        (entry.name.base_offset, entry.name.epoch): entry
        for entry in partition.entries
        if entry.name.kind is FileKind.METADATA_SNAPSHOT
        and entry.name.suffix == ""
        and entry.name.base_offset is not None
        and entry.name.epoch is not None
    }
    return by_end[max(by_end)] if by_end else None


def check_suffix(evidence: Evidence) -> Iterator[Finding]:
    """Report a ``-delete``, ``-stray`` or ``-future`` directory, with the bytes of its logs."""
    if evidence.facts is None:
        return
    partition = evidence.facts.partition
    if partition.name is not None and partition.name.suffix:
        code = _SUFFIX_CODES[partition.name.suffix]
        yield Finding(code, partition.path, size=evidence.log_bytes)


CHECKS: Final = (check_types, check_suffix)
