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

from kdump.values import frozen


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
    ``cleaner`` is ``log.cleaner.enable``.
    """

    delete: bool
    compact: bool
    retention_ms: int
    retention_bytes: int
    remote: bool = False
    cleaner: bool = True


@frozen
class AgedSegment:
    """A segment: the size of its log in bytes, and its largest timestamp in ms.

    The timestamp is that of the last entry of the time index, or the mtime of the log if the index
    has none (``LogSegment.largestTimestamp``).
    """

    base_offset: int
    log_bytes: int
    largest_ms: int


@frozen
class DueSegments:
    """The first ``count`` segments, up to offset ``before``, are deleted at the next check.

    ``hold`` is what keeps the next one, None if none is left. ``until_ms`` is when its age lets it
    go, None if no age decides.
    """

    count: int
    before: int
    hold: Hold | None
    until_ms: int | None = None


def due_segments(
    segments: Sequence[AgedSegment],
    configs: RetentionConfigs | None,
    *,
    log_start: int,
    high_watermark: int,
    log_end: int,
    now_ms: int,
    copied: int = -1,
) -> DueSegments:
    """Return what the next check deletes of ``segments``, which ascend.

    ``log_end`` is the log end offset, and ``copied`` the highest offset in remote storage. Without
    ``configs`` only the log start offset decides.
    """
    if configs is not None and configs.compact and not configs.cleaner:
        return DueSegments(
            0, segments[0].base_offset, Hold.CLEANER_OFF
        )  # no other thread looks at logs that are compacted
    ends = [*(segment.base_offset for segment in segments[1:]), log_end]
    within = 0  # the segments that no pass goes over
    for number, end in enumerate(ends):
        empty_last = number == len(segments) - 1 and not segments[number].log_bytes
        is_copied = configs is None or not configs.remote or (0 < end <= copied + 1)
        below_start = number < len(segments) - 1 and end <= log_start
        if high_watermark < end or empty_last or not (is_copied or below_start):
            break
        within += 1
    count = 0
    while count < min(within, len(segments) - 1) and ends[count] <= log_start:
        count += 1
    if configs is not None and configs.delete:
        count = _by_size(segments, configs.retention_bytes, count, within)
        if configs.retention_ms >= 0:
            while count < within and now_ms - segments[count].largest_ms > configs.retention_ms:
                count += 1
    before = ends[count - 1] if count else segments[0].base_offset
    if count == len(segments):
        return DueSegments(count, before, None)
    beyond = ends[count] > high_watermark
    hold, until_ms = _hold(segments[count], configs, now_ms, within=count < within, beyond=beyond)
    return DueSegments(count, before, hold, until_ms)


def _by_size(segments: Sequence[AgedSegment], limit: int, count: int, within: int) -> int:
    if limit < 0:
        return count
    over = sum(segment.log_bytes for segment in segments[count:]) - limit
    while count < within and over - segments[count].log_bytes >= 0:
        over -= segments[count].log_bytes
        count += 1
    return count


def _hold(
    segment: AgedSegment,
    configs: RetentionConfigs | None,
    now_ms: int,
    *,
    within: bool,
    beyond: bool,
) -> tuple[Hold, int | None]:
    """Return what holds the first segment that stays, and when its age lets it go.

    ``within``: a pass may go over it. ``beyond``: it ends above the high watermark.
    """
    if configs is None:
        return Hold.UNKNOWN, None
    if not configs.delete:
        return Hold.COMPACTION if configs.compact else Hold.NO_RETENTION, None
    limit_ms, limit_bytes = configs.retention_ms, configs.retention_bytes
    if limit_ms < 0 and limit_bytes < 0:
        return Hold.NO_RETENTION, None
    if not within and 0 <= limit_ms < now_ms - segment.largest_ms:
        return Hold.HIGH_WATERMARK if beyond else Hold.NOT_COPIED, None
    if limit_ms < 0:
        return Hold.SIZE, None
    hold = Hold.FUTURE if segment.largest_ms > now_ms else Hold.AGE
    return hold, segment.largest_ms + limit_ms + 1
