"""The records, producers and transactions that a cut removes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.replay.replay import OpenTransaction, Replay
from kdump.audit.startup.unread_tail import tail_records
from kdump.audit.survey.recovery import Records, Recovery, RecoveryResult, Span, Tail
from kdump.audit.survey.survey import Survey
from kdump.commands.truncate.cut_point import CutPoint
from kdump.format.snapshot import ProducerEntry
from kdump.repair.transaction.plan import Loss
from kdump.storage.access import open_source
from kdump.storage.walk import Damage, walk

#: An interval so large that recovery writes no index entry after the first.
_NO_INTERVAL: Final = 2**62


def loss_of(
    facts: PartitionFacts,
    cut_point: CutPoint,
    before: Replay,
    after: Replay,
    high_watermark: int | None,
) -> Loss:
    """Return the loss of a cut at ``cut_point``.

    ``before`` and ``after`` are replays from the same start: of the whole log, and of the part that
    stays. Raises SourceError.
    """
    surveys = [segment.survey for segment in before.segments]
    cut, later = surveys[cut_point.number], surveys[cut_point.number + 1 :]
    records = Records()
    if cut_point.position < cut.size:
        tail = _records_from(cut, cut_point.position, after.end_offset, facts.settings)
        records += _count_records(tail, _next_base(surveys, cut_point.number), facts)
    for number, survey in enumerate(later, cut_point.number + 1):
        if survey.recovered is not None:
            records += _count_records(survey.recovered, _next_base(surveys, number), facts)
    before_cut, known = _producers(before), _producers(after)
    still_open = {_key(transaction) for transaction in before.open}
    opened = [transaction for transaction in after.open if _key(transaction) not in still_open]
    below = high_watermark is not None and high_watermark > after.end_offset
    return Loss(
        size=cut.size - cut_point.position + sum(survey.size for survey in later),
        sound=records.sound,
        unreadable=records.unreadable,
        producers=sum(known.get(producer) != entry for producer, entry in before_cut.items()),
        committed=_committed(before) - _committed(after),
        opened=len(opened),
        below_high_watermark=below and bool(records.sound or records.unreadable),
    )


def _records_from(
    survey: Survey, position: int, next_offset: int, settings: TopicSettings
) -> RecoveryResult:
    """Return the recovery of a log from ``position`` on, as a segment based at ``next_offset``."""
    counting = replace(settings, index_interval_bytes=_NO_INTERVAL)
    recovery = Recovery(next_offset, counting, position=position)
    with open_source(survey.segment.log, mapped=False, sealed=True) as source:
        for piece in walk(source, survey.segment.base_offset):
            if isinstance(piece, Damage):
                if piece.position >= position:
                    recovery.add(piece)
            elif piece.end > position:
                first = bisect_left(piece.column("position"), position)
                recovery.add(piece.part(first, len(piece)) if first else piece)
        return recovery.finish(source)


def _count_records(
    recovered: RecoveryResult, next_base: int | None, facts: PartitionFacts
) -> Records:
    """Return all records of a segment, accepted by recovery or not."""
    part: RecoveryResult | None = recovered
    records, tail = Records(), None
    while part is not None:
        records += Records(part.sound, part.later_records.unreadable)
        tail, part = part.tail, part.rest
    return records + Records(Span(), _unread_span(tail, next_base, facts))


def _unread_span(tail: Tail | None, next_base: int | None, facts: PartitionFacts) -> Span:
    return Span() if tail is None else tail_records(tail, next_base, facts)


def _next_base(surveys: Sequence[Survey], number: int) -> int | None:
    following = surveys[number + 1 : number + 2]
    return following[0].segment.base_offset if following else None


def _producers(replay: Replay) -> dict[int, ProducerEntry]:
    """Return the producers at the end of a replay, by id."""
    known = {entry.producer_id: entry for entry in replay.start}
    for segment in replay.segments:
        known.update((entry.producer_id, entry) for entry in segment.producers())
    return known


def _key(transaction: OpenTransaction) -> tuple[int, int]:
    return transaction.producer_id, transaction.first_offset


def _committed(replay: Replay) -> int:
    return sum(segment.committed for segment in replay.segments)
