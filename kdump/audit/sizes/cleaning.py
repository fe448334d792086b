"""What of a compacted partition waits for the cleaner: its segments, checkpoint and transactions.

Of the logs, only headers are read: the first one of each dirty segment where
``max.compaction.lag.ms`` is set, and those after the last roll where a transaction was open then.

Spec: ``LogCleanerManager``, ``UnifiedLog.lastStableOffset``, ``ProducerStateManager``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kdump.audit.facts.compaction import (
    NEVER,
    CleanableLog,
    CompactionConfigs,
    Wait,
    cleanable_log,
)
from kdump.audit.facts.retention import AgedSegment
from kdump.audit.facts.small_files import read_small
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.sizes.files import FileSpace
from kdump.errors import SourceError
from kdump.format.snapshot import decode_snapshot
from kdump.storage.access import open_source
from kdump.storage.logdir import EntryType, Partition, Segment
from kdump.storage.names import FileKind
from kdump.storage.paths import AnyPath
from kdump.storage.walk import Damage, first_batch, walk
from kdump.values import frozen

#: The size of the window for a header.
_HEAD_BYTES: Final = 256
_WINDOW_BYTES: Final = 256 << 10
#: The bytes after the last roll in which the end of a transaction is looked for. By default, a
#: transaction ends within a minute.
_MOST_BYTES: Final = 16 << 20


@frozen
class CleanerFacts:
    """What decides over the cleaning of a partition and lies outside of it.

    ``cleaned`` is its line in the checkpoints of the cleaner, None without one; ``known`` says that
    these could be read, and agree. ``moving``: it is moved to another log directory, for which
    brokers pause its cleaning.
    """

    configs: CompactionConfigs
    cleaned: int | None
    known: bool = True
    moving: bool = False


def cleaning_of(
    facts: CleanerFacts,
    partition: Partition,
    segments: Sequence[AgedSegment],
    files: Mapping[str, FileSpace],
    *,
    log_start: int,
    high_watermark: int | None,
    now_ms: int,
) -> CleanableLog | None:
    """Return what the cleaner makes of a partition with ``segments``; None if that is unknown.

    ``high_watermark`` is None if it is unknown. ``files`` are those of the partition by name.
    Raises SourceError.
    """
    if not facts.known:
        return None
    last = partition.segments[-1]
    firsts: dict[int, int | None] = {}

    def first_ms(number: int) -> int | None:
        if number not in firsts:
            firsts[number] = _first_ms(partition.segments[number])
        return firsts[number]

    log_end = None
    if facts.cleaned is not None and facts.cleaned > last.base_offset:
        log_end = quick_survey(last, sealed=False).written_end
    found = cleanable_log(
        segments,
        facts.configs,
        log_start=log_start,
        cleaned=facts.cleaned,
        log_end=log_end,
        high_watermark=high_watermark,
        unstable=first_unstable(partition) if len(segments) > 1 else NEVER,
        moving=facts.moving,
        first_ms=first_ms,
        now_ms=now_ms,
    )
    if found is None or found.wait is not Wait.READY or found.bound not in (Wait.ACTIVE, Wait.LAG):
        return found
    lag_ms = max(facts.configs.min_lag_ms, 0)
    times = [
        max(files[segment.log.name].written_ms, (each.largest_ms or 0) + lag_ms if lag_ms else 0)
        for segment, each in zip(partition.segments, segments, strict=True)
        if each.base_offset < found.before and segment.log.name in files
    ]
    if found.ratio <= facts.configs.min_ratio:
        known = (time_ms for time_ms in firsts.values() if time_ms is not None and time_ms > 0)
        times.append(min(known, default=0) + facts.configs.max_lag_ms)
    return replace(found, ready_ms=max(times, default=None))


def first_unstable(partition: Partition) -> int | None:
    """Return the first offset below the last segment of a transaction that is open now.

    ``NEVER`` if there is none, None if that is unknown. The snapshot of the producers at the base
    of the last segment has all that were open then, and the log after it has their ends. A
    transaction that has ended beyond the high watermark counts as ended. Raises SourceError.
    """
    last = partition.segments[-1]
    newest, path = max(_snapshots(partition), default=(-1, None))
    entries = None if path is None else read_small(path, decode_snapshot).value
    if entries is None:
        return None
    opened = {
        entry.producer_id: entry.current_txn_first_offset
        for entry in entries
        if 0 <= entry.current_txn_first_offset < last.base_offset
    }
    if not opened:
        return NEVER
    damaged = False
    with open_source(last.log, mapped=False, window_bytes=_WINDOW_BYTES) as source:
        for piece in walk(source, last.base_offset):
            if damaged:
                return None  # the end of a transaction may be lost in it
            if isinstance(piece, Damage):
                damaged = True
                continue
            for batch in piece:
                if batch.is_control and batch.base_offset >= newest:
                    opened.pop(batch.producer_id, None)
            if not opened:
                return NEVER
            if piece.end > _MOST_BYTES:
                return None
    return min(opened.values())


def _snapshots(partition: Partition) -> Iterator[tuple[int, AnyPath]]:
    """Yield the offsets and paths of the snapshots from the base of the last segment on."""
    last = partition.segments[-1]
    if last.snapshot is not None:
        yield last.base_offset, last.snapshot
    for entry in partition.entries:
        name, offset = entry.name, entry.name.base_offset
        sound = name.kind is FileKind.SNAPSHOT and entry.type is EntryType.FILE and not name.suffix
        if sound and name.canonical and offset is not None and offset > last.base_offset:
            yield offset, entry.path


def _first_ms(segment: Segment) -> int | None:
    """Return the largest timestamp of the first batch, -1 without one, None if it is unknown."""
    with (
        suppress(SourceError),
        open_source(segment.log, mapped=False, window_bytes=_HEAD_BYTES) as source,
    ):
        if not source.size:
            return -1
        batch = first_batch(source, segment.base_offset)
        if batch is not None:
            return batch.max_timestamp
    return None
