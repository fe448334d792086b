"""Reads the facts of logs that the loader needs.

Surveys have most of them. This module reads the end of the last log and pending ``.swap`` files.
Facts of a file that cannot be read are None.

Spec: ``LogLoader.load``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, zip_longest
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.facts.space import allocated_bytes
from kdump.audit.replay.replay import Replay, SegmentReplay, ViolationKind, replay
from kdump.audit.startup.outcome import Effect, LogFacts, RejectedBatch
from kdump.audit.startup.swaps import pending_swaps, resolve_swaps
from kdump.audit.survey.log_end import LogEnd, Search, read_end, search
from kdump.audit.survey.recovery import RecoveryResult, recover
from kdump.audit.survey.survey import Survey
from kdump.errors import SourceError
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import NO_PRODUCERS
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath

#: Above every offset in a file name.
_NO_OFFSET: Final = 1 << 63
_TEXTS: Final = {
    ViolationKind.PLAIN: "a batch outside of transactions while its producer's is open",
    ViolationKind.CONTROL_FATAL: "a control batch that holds no end of a transaction",
    ViolationKind.CONTROL_CUT: "a control batch whose record cannot be read",
}


def read_log_facts(
    facts: PartitionFacts,
    surveys: Iterable[Survey],
    violations: Sequence[RejectedBatch] = (),
    replayed: Replay | None = None,
) -> tuple[LogFacts, ...]:
    """Return the facts of each log that will be opened, and of those that a swap replaces.

    Surveyed logs have all facts. After a clean stop the end of the last log is enough, and is read
    here: few bytes, unless its index is unusable. ``replayed`` is the replay of all ``surveys``,
    None if there is none.
    """
    surveys = tuple(surveys)
    survey_by_log = {survey.segment.log: survey for survey in surveys}
    known = {log.log: _swap(log, facts) for log in pending_swaps(facts.partition)}
    stops = {
        violation.base_offset: violation
        for violation in reversed(violations)
        if violation.effect is Effect.CUTS
    }

    def next_offset(swap: Segment) -> int:
        end = known[swap.log].end
        ends = (swap.base_offset,) if end is None else (end.next_offset, end.searched_offset)
        return max((offset for offset in ends if offset is not None), default=swap.base_offset)

    segments = resolve_swaps(facts.partition, next_offset).segments
    unstable = _oldest_open_offset(facts, surveys, replayed)
    for segment, following in zip_longest(segments, segments[1:]):
        stop = _NO_OFFSET if following is None else following.base_offset
        if segment.log in known:
            continue
        survey = survey_by_log.get(segment.log)
        recovered = None if survey is None else survey.recovered
        if recovered is not None and segment.base_offset in stops:
            recovered = _recover(segment, facts, stops[segment.base_offset])
        end = None
        if following is None and facts.clean:
            end = _end(segment) if survey is None else _surveyed_end(survey)
        found = None
        if unstable is not None and segment.base_offset <= unstable < stop:
            found = _search(segment, unstable)
        size, index_sizes = _sizes(segment, survey)
        allocated: tuple[int | None, int | None] = (0, 0)
        if segment.index is None or (not facts.clean and stop > (facts.recovery_point or 0)):
            allocated = allocated_bytes(segment.index), allocated_bytes(segment.time_index)
        known[segment.log] = LogFacts(segment, size, recovered, end, index_sizes, found, allocated)
    for segment in facts.partition.segments:
        survey = survey_by_log.get(segment.log)
        if segment.log not in known and survey is not None:
            known[segment.log] = LogFacts(segment, survey.size, survey.recovered)
    return tuple(known.values())


def violations(
    facts: PartitionFacts, surveys: Sequence[Survey], replayed: Replay | None = None
) -> tuple[RejectedBatch, ...]:
    """Return the batches that stop a starting broker, or at which its recovery cuts.

    ``surveys`` are those of the partition's segments, ascending by base offset. The state before
    the snapshot that the start begins from is that of the snapshot. ``replayed`` is as for
    ``read_log_facts``.
    """
    found = _replay(facts, surveys, replayed)
    return (
        ()
        if found is None
        else tuple(violation for segment in found.segments for violation in _violations(segment))
    )


def _replay(
    facts: PartitionFacts, surveys: Sequence[Survey], replayed: Replay | None
) -> Replay | None:
    """Return the replay of the most that a start replays, None if it replays nothing."""
    begin = _start_snapshot(facts)
    if begin is None:
        return replayed or (replay(surveys) if surveys else None)
    replayed_surveys = [survey for survey in surveys if survey.segment.base_offset >= begin]
    return (
        replay(replayed_surveys, facts.snapshots[begin].value or NO_PRODUCERS)
        if replayed_surveys
        else None
    )


def _oldest_open_offset(
    facts: PartitionFacts, surveys: Sequence[Survey], replayed: Replay | None
) -> int | None:
    """Return the first offset of the oldest transaction that is open after a start, or None."""
    last = max((segment.base_offset for segment in facts.partition.segments), default=0)
    newest = max((offset for offset, read in facts.snapshots.items() if not read.error), default=0)
    if facts.clean and newest > last:
        # The snapshot at the log end offset, written when the log was closed.
        open_offsets = (facts.snapshots[newest].value or NO_PRODUCERS).open_transactions()
    else:
        found = _replay(facts, surveys, replayed)
        open_offsets = (
            [] if found is None else [transaction.first_offset for transaction in found.open]
        )
    oldest = min(open_offsets, default=None)
    return None if oldest is None else max(oldest, facts.log_start or 0)


def _start_snapshot(facts: PartitionFacts) -> int | None:
    """Return the earliest snapshot that a start begins from, if it is at a segment's base."""
    bases = [segment.base_offset for segment in facts.partition.segments]
    recovered = [log.base_offset for log in facts.partition.segments if log.index is None]
    recovered += [base for base, read in facts.txn_indexes.items() if _has_entry_below(base, read)]
    if not facts.clean:
        point = facts.recovery_point or 0
        recovered.append(max((base for base in bases if base <= point), default=0))
    latest = min(recovered, default=_NO_OFFSET)
    usable = [
        offset
        for offset, read in facts.snapshots.items()
        if read.error is None and (facts.log_start or 0) < offset <= latest
    ]
    return max(usable) if usable and max(usable) in bases else None


def _has_entry_below(base: int, read: Read[TransactionIndex]) -> bool:
    return read.value is not None and any(entry.last_offset < base for entry in read.value.entries)


def _violations(segment: SegmentReplay) -> Iterator[RejectedBatch]:
    base_offset = segment.survey.segment.base_offset
    for violation in segment.violations:
        if violation.kind in _TEXTS:
            cuts = violation.kind is ViolationKind.CONTROL_CUT
            effect = Effect.CUTS if cuts else Effect.STOPS
            yield RejectedBatch(
                base_offset, violation.position, violation.offset, _TEXTS[violation.kind], effect
            )
    for before, entry in pairwise(segment.aborted):
        if entry.last_offset <= before.last_offset:
            position = max(
                marker.position
                for marker in segment.survey.events.markers()
                if marker.offset == entry.last_offset
            )
            yield RejectedBatch(
                base_offset,
                position,
                entry.last_offset,
                "an aborted transaction that ends below the aborted transaction before it",
                Effect.STOPS_RECOVERY,
            )


def _swap(segment: Segment, facts: PartitionFacts) -> LogFacts:
    # A startup after a clean shutdown may replay it too, for the producers.
    recovered = _recover(segment, facts, None)
    size, index_sizes = _sizes(segment, None)
    return LogFacts(segment, size, recovered, _end(segment), index_sizes)


def _recover(
    segment: Segment, facts: PartitionFacts, cut: RejectedBatch | None
) -> RecoveryResult | None:
    with suppress(SourceError), open_source(segment.log, mapped=False) as source:
        # Recovery counts the batch as valid before it finds the record invalid.
        stop = None if cut is None else cut.position + 1
        return recover(source, segment.base_offset, facts.settings, stop)
    return None


def _search(segment: Segment, offset: int) -> Search | None:
    with suppress(SourceError):
        return search(segment, offset)
    return None


def _surveyed_end(survey: Survey) -> LogEnd | None:
    """Return the end of a surveyed log; in a sound log a loader finds the end of the survey."""
    index, end = survey.index, survey.last_offset
    read = survey.recovered is not None and survey.magics == (2, 2) and not survey.counts
    if not read or index is None or index.last is None or end is None or end < index.last[0]:
        return _end(survey.segment)
    if index.room or index.padding or index.disorder or index.counts:
        return _end(survey.segment)
    return LogEnd(end + 1, end + 1)


def _end(segment: Segment) -> LogEnd | None:
    with suppress(SourceError):
        return read_end(segment)
    return None


def _sizes(segment: Segment, survey: Survey | None) -> tuple[int, tuple[int, int]]:
    """Return the sizes of the log and of its two indexes, from the survey or else the files."""
    index = None if survey is None else survey.index
    times = None if survey is None else survey.time_index
    return (
        _size(segment.log) if survey is None or survey.identity is None else survey.size,
        (
            _size(segment.index) if index is None else index.size,
            _size(segment.time_index) if times is None else times.size,
        ),
    )


def _size(path: AnyPath | None) -> int:
    try:
        return 0 if path is None else path.stat().st_size
    except OSError:
        return 0
