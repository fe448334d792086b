"""quick_survey(): reads the ends of a segment's files.

It reads the first batch header, the last entries of the indexes, and the log after the last entry.
It does not read the log between.

Spec: ``LogSegment.readNextOffset``, which finds the end of a log in the same way; KOD 5, step 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.run.ahead import ask_for_segment
from kdump.audit.survey.index_promises import IndexFacts
from kdump.audit.survey.statistics import Measurement
from kdump.audit.survey.survey import LogPass, ReadFailure, Survey
from kdump.audit.targets.target import log_bytes
from kdump.errors import SourceError
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.storage.access import open_source, read_end
from kdump.storage.logdir import Segment
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath, StoredPath
from kdump.storage.source import Source
from kdump.storage.walk import first_batch, sound_batch
from kdump.values import frozen

_WINDOW_BYTES: Final = 8 << 10
#: The bytes of log for each index entry by the defaults of brokers.
_USUAL_INTERVAL: Final = TopicSettings().index_interval_bytes
#: The size of the window for single headers.
_HEAD_BYTES: Final = 256
#: The bytes read after an index entry: many times the usual interval, and large batches.
_TAIL_BYTES: Final = 8 << 20
#: The number of last index entries that are read.
_ENTRIES: Final = 16


@frozen
class _End:
    """The state of an index at its end, and its last entries as (offset, position)."""

    facts: IndexFacts
    entries: Sequence[tuple[int, int]]


def quick_survey(
    segment: Segment,
    *,
    sealed: bool,
    mapped: bool = False,
    cleaned: bool | None = True,
    statistics: bool = False,
) -> Survey:
    """Read the ends of ``segment`` and its indexes.

    ``sealed`` says that it is not its partition's last, ``mapped`` is as for ``open_source``.
    ``cleaned`` says whether the cleaner may have compacted it, None for unknown. If no index entry
    points near the end of a large log, the survey reads nothing of the log and has no
    ``last_offset``. ``statistics`` asks for those of the batches at the end, and of the reading.
    """
    measurement = Measurement() if statistics else None
    log = LogPass(segment, lambda _: None, deep=False, cleaned=cleaned, measurement=measurement)
    ask_for_segment(segment)
    ends: list[_End | None] = []
    missed = []
    for kind, path in ((OffsetIndex, segment.index), (TimeIndex, segment.time_index)):
        try:
            end = None if path is None else _read_index_end(kind, path, segment, sealed=sealed)
        except SourceError as error:
            end = None
            missed.append(ReadFailure.of(path or segment.log, error))
        ends.append(end)
    index, times = ends
    try:
        with _open(segment.log, mapped=mapped) as source:
            start = _tail_start(source, segment.base_offset, index.entries if index else ())
            log.read(source, start)
            if start:
                log.first_offset = _first_offset(source, segment, mapped=mapped)
    except SourceError as error:
        missed.append(ReadFailure.of(segment.log, error))
    return log.survey(index.facts if index else None, times.facts if times else None, tuple(missed))


def _open(path: AnyPath, *, mapped: bool, window_bytes: int = _WINDOW_BYTES) -> Source:
    return open_source(path, mapped=mapped, window_bytes=window_bytes)


def _first_offset(source: Source, segment: Segment, *, mapped: bool) -> int | None:
    """Return the first offset of the log by its first two headers, None if they do not show it."""
    if isinstance(segment.log, StoredPath):  # to open it again costs more than a read
        first = first_batch(source, segment.base_offset)
    else:
        with _open(segment.log, mapped=mapped, window_bytes=_HEAD_BYTES) as head:
            first = first_batch(head, segment.base_offset)
    return None if first is None else first.base_offset


def _tail_start(source: Source, base_offset: int, entries: Sequence[tuple[int, int]]) -> int:
    """Return the position of the first read: a sound batch, 0, or the end if neither is near."""
    near = [
        position
        for _, position in reversed(entries)
        if 0 < position < source.size <= position + _TAIL_BYTES
    ]
    remote = isinstance(source.path, RemotePath)
    for position in near:
        if remote:  # one request for all that is read; if there is damage, for all candidates
            start = position if position == near[0] else min(near)
            source.window(start, source.size - start)
        if sound_batch(source, base_offset, position) is not None:
            return position
    if source.size > _TAIL_BYTES:
        return source.size
    if remote:
        source.window(0, source.size)
    return 0


def _read_index_end(
    kind: type[OffsetIndex | TimeIndex], path: AnyPath, segment: Segment, *, sealed: bool
) -> _End:
    """Read the end of an index; raises SourceError."""
    slot = kind.ENTRY_BYTES
    size, data = read_end(path, (_ENTRIES + 1) * slot)
    slots = used = size // slot
    data = data[: len(data) - size % slot][-_ENTRIES * slot :]
    if data and not any(data[-slot:]):
        with open_source(path, mapped=False, window_bytes=_WINDOW_BYTES) as source:
            used = _used_slots(source, slots, slot, log_bytes(segment) // _USUAL_INTERVAL)
            first = max(0, used - _ENTRIES) * slot
            data = bytes(source.window(first)[: used * slot - first])
    index = kind.decode(data, segment.base_offset)
    room = not sealed and used < slots
    disorder = index.order_violations()
    first_disorder = None
    if disorder.first:
        number = disorder.first[0]
        first_disorder = used - len(index) + number, index[number - 1], index[number]
    facts = IndexFacts(
        path,
        size,
        slot,
        size % slot,
        slots - used if sealed else 0,
        disorder.count if sealed else 0,
        first_disorder if sealed else None,
        room=room,
        last=None if room or not used else index[len(index) - 1],
    )
    return _End(facts, tuple(index))


def _used_slots(source: Source, slots: int, slot_bytes: int, likely: int) -> int:
    """Return the number of slots before the padding, which is assumed to hold only zeros.

    ``likely`` is about how many there are.
    """

    def is_used(slot: int) -> bool:
        return any(source.window(slot * slot_bytes, slot_bytes)[:slot_bytes])

    low, high = 0, slots
    if isinstance(source.path, RemotePath):  # one request is better than one for each step
        first = len(source.window(0, (likely + 1) * slot_bytes)) // slot_bytes
        if 0 < first < slots and not is_used(first - 1):
            high = first - 1
    while low < high:
        middle = (low + high) // 2
        if is_used(middle):
            low = middle + 1
        else:
            high = middle
    return low
