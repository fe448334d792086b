"""What retention deletes of a log at a broker's next check, and what holds the rest.

A check deletes from the oldest segment on, in three passes: segments below the log start offset,
those by which the log exceeds ``retention.bytes``, those whose largest timestamp is older than
``retention.ms``. Each pass ends at the first segment that it keeps, and no pass goes over the high
watermark. With remote storage the local limits count, and only segments that are copied may go.

Spec: ``UnifiedLog.deleteOldSegments`` and ``deletableSegments``, ``LogManager.cleanupLogs``,
``LogCleaner.CleanerThread.cleanFilthiestLog``: logs that are compacted too are the cleaner's.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from kdump.values import frozen

_LATEST_MS: Final = 2**63 - 1


class Hold(Enum):
    """What keeps the first segment that retention does not delete.

    FUTURE is a largest timestamp in the future, NOT_COPIED a segment that remote storage lacks.
    """

    NO_RETENTION = "no retention"
    COMPACTION = "compaction"
    CLEANER_OFF = "cleaner off"
    FUTURE = "future times"
    AGE = "age"
    SIZE = "size"
    HIGH_WATERMARK = "high watermark"
    NOT_COPIED = "not copied"
    UNKNOWN = "unknown"


@frozen
class RetentionConfigs:
    """The configs that decide; -1 stands for no limit.

    ``delete`` and ``compact`` are the parts of ``cleanup.policy``. ``retention_ms`` and
    ``retention_bytes`` are the local limits if the log is copied to remote storage (``remote``).
    ``cleaner`` is ``log.cleaner.enable``. ``policy_guessed`` and ``limits_guessed``: it is Kafka's
    default, which a ``server.properties`` that is not in sight may override. ``copy_disabled``: the
    log has remote storage, and nothing more is copied there.
    """

    delete: bool
    compact: bool
    retention_ms: int
    retention_bytes: int
    remote: bool = False
    cleaner: bool = True
    policy_guessed: bool = False
    limits_guessed: bool = False
    copy_disabled: bool = False


@frozen
class AgedSegment:
    """A segment: the size of its log in bytes, and its largest timestamp in ms, None if unknown.

    The timestamp is that of the last entry of the time index, or the mtime of the log if the index
    has none (``LogSegment.largestTimestamp``).
    """

    base_offset: int
    log_bytes: int
    largest_ms: int | None


@frozen
class DueSegments:
    """The first ``count`` segments, up to offset ``before``, are deleted at the next check.

    ``hold`` is what keeps the next one, None if none is left. ``until_ms`` is when its age lets it
    go, None if no age decides. ``within`` counts the segments that shorter retention could delete,
    these included.
    """

    count: int
    before: int
    hold: Hold | None
    until_ms: int | None = None
    within: int = 0


def due_segments(
    segments: Sequence[AgedSegment],
    configs: RetentionConfigs | None,
    *,
    log_start: int,
    high_watermark: int | None,
    log_end: int,
    now_ms: int,
    copied: int | None = None,
) -> DueSegments:
    """Return what the next check deletes of ``segments``, which ascend.

    ``log_end`` is the log end offset, and ``copied`` the highest offset in remote storage. What is
    None is unknown: without ``configs`` only the log start offset decides, and without a
    ``high_watermark`` nothing is deleted.
    """
    first = segments[0].base_offset
    if configs is not None and configs.compact and not configs.cleaner:
        # No other thread looks at logs that are compacted.
        return DueSegments(0, first, Hold.CLEANER_OFF)
    if high_watermark is None:
        return DueSegments(0, first, Hold.UNKNOWN)
    ends = [*(segment.base_offset for segment in segments[1:]), log_end]
    within, block = _within(segments, ends, configs, log_start, high_watermark, copied)
    count = 0
    while count < min(within, len(segments) - 1) and ends[count] <= log_start:
        count += 1
    if configs is None or not configs.delete:
        hold, until_ms = _hold(segments[count], configs, now_ms)
        return DueSegments(count, ends[count - 1] if count else first, hold, until_ms)
    # What the log has beyond its limit.
    over = sum(segment.log_bytes for segment in segments[count:]) - configs.retention_bytes
    while count < within and _exceeds(segments[count], over, configs):
        over -= segments[count].log_bytes
        count += 1
    while count < within and _is_aged(segments[count], configs, now_ms):
        over -= segments[count].log_bytes
        count += 1
    before = ends[count - 1] if count else first
    if count == len(segments):
        return DueSegments(count, before, None, None, within)
    left = segments[count]
    if count == within and (_exceeds(left, over, configs) or _is_aged(left, configs, now_ms)):
        return DueSegments(count, before, block, None, within)
    return DueSegments(count, before, *_hold(left, configs, now_ms), within)


def _within(
    segments: Sequence[AgedSegment],
    ends: Sequence[int],
    configs: RetentionConfigs | None,
    log_start: int,
    high_watermark: int,
    copied: int | None,
) -> tuple[int, Hold | None]:
    """Return how many segments a check may go over, and what blocks the next one.

    An empty last segment is not deleted, and holds nothing.
    """
    last = len(segments) - 1
    for number, end in enumerate(ends):
        if number == last and not segments[number].log_bytes:
            return number, None
        if high_watermark < end:
            return number, Hold.HIGH_WATERMARK
        if configs is not None and configs.remote and not (number < last and end <= log_start):
            if copied is None:
                return number, Hold.UNKNOWN
            if not 0 < end <= copied + 1:
                return number, Hold.NOT_COPIED
    return len(segments), None


def _exceeds(segment: AgedSegment, over: int, configs: RetentionConfigs) -> bool:
    """Return whether a log that has ``over`` bytes too many has enough without a segment."""
    return configs.retention_bytes >= 0 and over - segment.log_bytes >= 0


def _is_aged(segment: AgedSegment, configs: RetentionConfigs, now_ms: int) -> bool:
    limit, largest = configs.retention_ms, segment.largest_ms
    return limit >= 0 and largest is not None and now_ms - largest > limit


def _hold(
    segment: AgedSegment, configs: RetentionConfigs | None, now_ms: int
) -> tuple[Hold, int | None]:
    """Return what holds the first segment that stays, and when its age lets it go."""
    if configs is None:
        return Hold.UNKNOWN, None
    if not configs.delete:
        return Hold.COMPACTION if configs.compact else Hold.NO_RETENTION, None
    if configs.retention_ms < 0:
        return Hold.NO_RETENTION if configs.retention_bytes < 0 else Hold.SIZE, None
    if segment.largest_ms is None:
        return Hold.UNKNOWN, None
    hold = Hold.FUTURE if segment.largest_ms > now_ms else Hold.AGE
    return hold, min(segment.largest_ms + configs.retention_ms + 1, _LATEST_MS)
