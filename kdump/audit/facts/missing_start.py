"""Whether a log lacks its first segments, and whether retention can have deleted them.

A broker that deletes the first segments first moves its log start offset, and with it the first
leader epoch, to the next segment. Since 3.7 it writes leader-epoch-checkpoint afterwards, in
another thread: if it is killed in between, the old first line stays, also after later starts, until
the log start moves again.

Spec: ``UnifiedLog.deleteOldSegments`` and ``maybeIncrementLogStartOffset``,
``LeaderEpochFileCache.truncateFromStartAsyncFlush``, ``LocalLog.deleteSegmentFiles``, which renames
the log before its indexes; KAFKA-15046.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.audit.facts.small_files import DEFAULT_RETENTION_MS, PartitionFacts, TopicSettings
from kdump.format.checkpoint import EpochEntry, epochs_rise
from kdump.storage.logdir import Partition, is_metadata_log
from kdump.storage.names import Suffix
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@frozen
class MissingStart:
    """Offsets from ``first`` to ``last``, both inclusive, that lie before the first segment.

    ``line`` is the first line of leader-epoch-checkpoint if it lies there. ``orphan`` is an index
    file whose log is gone: no deletion by a broker leaves one, as it renames the log first.
    """

    first: int
    last: int
    line: EpochEntry | None
    orphan: AnyPath | None = None


def may_lack_segments(partition: Partition, log_start: int) -> bool:
    """Return whether a log that is listed may lack segments: few logs may.

    A metadata log always may lack its last ones, as no checkpoint has its end.
    """
    segments = partition.segments
    if not segments or partition.orphans or is_metadata_log(partition):
        return True
    return segments[0].base_offset > log_start


def missing_start(facts: PartitionFacts) -> MissingStart | None:
    """Return the offsets that a log has lost before its first segment; None if none is known.

    None too where something else explains them: a checkpointed log start offset, files of a
    deletion or a swap that a broker was killed in, or remote storage.
    """
    base = _unexplained_base(facts)
    if base is None:
        return None
    partition, start = facts.partition, facts.log_start or 0
    line = first_line(facts)
    if line is not None and (line.start_offset >= base or _is_ambiguous(facts)):
        line = None
    renamed = {offset for offset in _renamed(partition, ".deleted") if offset < base}
    if line is not None and any(offset >= line.start_offset for offset in renamed):
        line = None
    orphans = [
        (entry.name.base_offset, entry.path)
        for entry in partition.orphans
        if entry.name.base_offset is not None
        and entry.name.canonical
        and entry.name.base_offset < base
        and entry.name.base_offset not in renamed
    ]
    firsts = [offset for offset, _ in orphans[:1]]
    if line is not None:
        firsts.append(line.start_offset)
    if not firsts:
        return None
    first = max(min(firsts), start)
    return MissingStart(first, base - 1, line, orphans[0][1] if orphans else None)


def missing_unseen(facts: PartitionFacts) -> MissingStart | None:
    """Return the offsets before the first segment where no file shows that a log had them.

    Either leader-epoch-checkpoint begins at the first segment, as DeleteRecords leaves it, or it is
    gone. None where something else explains the start, as for ``missing_start``.
    """
    base = _unexplained_base(facts)
    if base is None or _is_ambiguous(facts) or missing_start(facts) is not None:
        return None
    if any(offset < base for offset in _renamed(facts.partition, ".deleted")):
        return None
    return MissingStart(facts.log_start or 0, base - 1, None)


def deletes_nothing(settings: TopicSettings) -> bool:
    """Return whether the topic's configs let no broker delete a segment, as far as they are known.

    DeleteRecords does so whatever the configs are.
    """
    limits = settings.retention_ms, settings.retention_bytes
    return all(limit is not None and limit < 0 for limit in limits)


def _unexplained_base(facts: PartitionFacts) -> int | None:
    """Return the base offset of the first segment, None where its log begins there by right.

    That is so by a checkpointed log start offset, and with remote storage.
    """
    partition, name = facts.partition, facts.partition.name
    set_aside = name is None or (name.suffix and not facts.promoted)
    if not partition.segments or set_aside or is_metadata_log(partition):
        return None
    base = partition.segments[0].base_offset
    if (facts.log_start or 0) >= base or facts.settings.remote_storage:
        return None
    # A broker was killed amid a replacement, which the next start completes.
    return None if any(offset < base for offset in _renamed(partition, ".swap")) else base


def first_line(facts: PartitionFacts) -> EpochEntry | None:
    """Return the first line of leader-epoch-checkpoint, None unless epochs and offsets rise."""
    entries = None if facts.epochs is None else facts.epochs.value
    return entries[0] if entries and epochs_rise(entries) else None


def retention_deletes(
    facts: PartitionFacts,
    missing: MissingStart,
    log_bytes: int,
    now_ms: int,
    youngest_ms: int | None = None,
) -> bool | None:
    """Return whether retention can have deleted what is missing; None if that is not known.

    Retention by size leaves ``retention.bytes``. Retention by time is decided by a timestamp of the
    missing records: ``youngest_ms``, or the latest one in the producer snapshot at the first
    segment. Without either, the first record that is left shows that the missing ones may have been
    old enough. An unknown limit is taken for the default. ``log_bytes`` is the size of what is
    left, ``now_ms`` the time by which a broker may have deleted.
    """
    if missing.orphan is not None:
        return False
    possible = (
        _by_size(facts, log_bytes),
        _by_time(facts, now_ms, _latest(_snapshot_ms(facts, missing), youngest_ms)),
    )
    if True in possible:
        return True
    return None if None in possible else False


def _by_size(facts: PartitionFacts, log_bytes: int) -> bool | None:
    limit = facts.settings.retention_bytes
    if limit is None or limit < 0:
        return None if limit is None else False
    if log_bytes >= limit:
        return True
    return False if facts.settings.compacted is False else None  # the cleaner shortens what is left


def _by_time(facts: PartitionFacts, now_ms: int, youngest_ms: int | None) -> bool | None:
    limit = facts.settings.retention_ms
    if limit is not None and limit < 0:
        return False
    if limit is not None and youngest_ms is not None:
        return now_ms - youngest_ms > limit
    known_ms = facts.first_timestamp if youngest_ms is None else youngest_ms
    if known_ms is None or known_ms < 0:
        return None
    # A topic of which nothing is known most likely has the default.
    return True if now_ms - known_ms > (DEFAULT_RETENTION_MS if limit is None else limit) else None


def _snapshot_ms(facts: PartitionFacts, missing: MissingStart) -> int | None:
    """Return the latest timestamp of a missing record in the producer snapshot that follows."""
    read = facts.snapshots.get(missing.last + 1)
    entries = () if read is None or read.value is None else read.value
    stamps = (
        entry.timestamp
        for entry in entries
        if missing.first <= entry.last_offset <= missing.last and entry.timestamp >= 0
    )
    return max(stamps, default=None)


def _latest(one: int | None, other: int | None) -> int | None:
    return max((stamp for stamp in (one, other) if stamp is not None), default=None)


def _is_ambiguous(facts: PartitionFacts) -> bool:
    """Return whether the log may have its start in remote storage, for all that is known.

    With remote storage, brokers always write the log start offset to its checkpoint, which a
    partition outside of a log directory does not have.
    """
    settings = facts.settings
    if settings.remote_storage is not None:
        return False
    return not facts.in_log_directory or facts.log_start is not None


def _renamed(partition: Partition, suffix: Suffix) -> Iterator[int]:
    """Yield the base offset of each segment file that a broker has given this suffix."""
    for segment in partition.transient:
        if segment.suffix == suffix:
            yield segment.base_offset
    for entry in partition.entries:
        if entry.name.suffix == suffix and entry.name.base_offset is not None:
            yield entry.name.base_offset
