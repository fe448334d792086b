"""plan_truncate(): a log cut where recovery would cut it, or at an offset.

A broker's recovery makes the same cut, but does not report the loss, and cannot be undone.

Spec: ``LogLoader.recoverLog``, ``UnifiedLog.truncateTo``, ``ProducerStateManager.takeSnapshot``;
KOD 5.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.replay.replay import OpenTransaction, Replay, replay_partition
from kdump.audit.startup.inputs import violations
from kdump.audit.startup.outcome import RejectedBatch
from kdump.audit.startup.unread_tail import tail_records
from kdump.audit.survey.recovery import (
    Records,
    Recovery,
    RecoveryEnding,
    RecoveryResult,
    Span,
    Tail,
)
from kdump.audit.survey.survey import Survey
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused, UsageError
from kdump.format.batch import HEADER_BYTES, LOG_OVERHEAD
from kdump.format.snapshot import ProducerEntry
from kdump.repair.content.producers import start_of
from kdump.repair.rewrite.prefix import PrefixSource
from kdump.repair.transaction.fingerprint import read_fingerprint, refuse_metadata_log, refuse_swaps
from kdump.repair.transaction.plan import Loss, Plan, log_directory_of
from kdump.repair.truncation.cut_point import CutPoint, offset_cut_point, recovery_cut_point
from kdump.repair.truncation.notes import cut_notes, open_transaction_notes, order_notes
from kdump.repair.truncation.remaining_log import remaining_log
from kdump.repair.truncation.steps import CutSteps, has_lines
from kdump.storage.access import open_source
from kdump.storage.paths import as_local
from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, Reason, walk
from kdump.values import frozen

COMMAND: Final = "truncate-to-valid"


def plan_truncate(verdict: Verdict, *, at: int | None, arguments: tuple[str, ...]) -> Plan:
    """Return the plan of a cut; it has no steps if there is nothing to cut.

    ``verdict`` is a verdict of ``verify`` with its evidence. ``at`` removes every batch whose last
    offset is ``at`` or above. Raises Refused, UsageError, SourceError.
    """
    facts, surveys = _check_verdict(verdict)
    stamps, identity = read_fingerprint(facts.partition, surveys)
    directory = log_directory_of(verdict.target)
    plan = Plan(COMMAND, arguments, as_local(facts.partition.path), identity, directory, (), stamps)
    if not surveys:
        return plan
    # With remote storage the log starts below, but nothing there is on disk.
    log_start = max(facts.log_start or 0, surveys[0].segment.base_offset)
    if at is not None and at < log_start:
        raise UsageError(
            f"{facts.partition.path}: expected an offset from {log_start} on, where the log "
            f"starts, found {at}"
        )
    start = start_of(facts, surveys)
    before = _replay(verdict, facts, surveys, () if isinstance(start, str) else start)
    refused = recovery_cut_point(surveys, recovery_violations(verdict, facts, surveys))
    cut_point = refused if at is None else offset_cut_point(surveys, at)
    plan = replace(plan, log_start=log_start, log_end=(before.end_offset, before.end_offset))
    if cut_point is None:
        notes = [] if at is None else [f"no batch reaches offset {at}"]
        return replace(plan, notes=(*notes, *order_notes(surveys, None, refused, facts.settings)))
    refuse_metadata_log(facts.partition)
    refuse_swaps(facts.partition)
    if at is None:
        _refuse_partial_recovery(facts, surveys, cut_point)
    after = remaining_log(before, cut_point, facts)
    mark = facts.high_watermark if has_lines(facts) else None
    loss = loss_of(facts, cut_point, before, after.replay, mark)
    if loss:
        confirm(surveys[cut_point.number], cut_point)
    known = not isinstance(start, str)
    steps = CutSteps(facts, surveys, cut_point, after, stamps, known=known)
    notes = [
        *cut_notes(surveys[cut_point.number], cut_point, loss, after.end, mark),
        *open_transaction_notes(before, after.replay, facts),
        *order_notes(surveys, cut_point, refused, facts.settings),
        *([f"producer snapshots cannot be rebuilt: {start}"] if isinstance(start, str) else []),
    ]
    return replace(
        plan,
        steps=tuple(steps.steps()),
        loss=loss,
        log_start=min(log_start, after.end),
        log_end=(before.end_offset, after.end),
        notes=tuple(notes),
    )


# --- the evidence


def _check_verdict(verdict: Verdict) -> tuple[PartitionFacts, tuple[Survey, ...]]:
    """Return the facts and the surveys of a partition; raise unless it can be cut."""
    target, facts, path = verdict.target, verdict.facts, verdict.target.path
    if target.error is not None:
        raise target.error
    if facts is None:
        raise UsageError(f"{path}: expected a partition directory, found a segment")
    read = [
        survey for survey in verdict.surveys if survey.complete and survey.recovered is not None
    ]
    if verdict.quick or len(read) < len(target.segments):
        read_logs = {survey.segment.log for survey in read}
        unread = sorted(
            segment.log.name for segment in target.segments if segment.log not in read_logs
        )
        raise Refused(
            f"{path}: expected to read the whole log, found that "
            f"{', '.join(unread[:3]) or 'a log'} was not read to its end"
        )
    return facts, verdict.surveys


def _refuse_partial_recovery(
    facts: PartitionFacts, surveys: Sequence[Survey], cut_point: CutPoint
) -> None:
    """Raise Refused if a broker would cut only this log, and keep the later segments.

    A broker does so if it rebuilds the indexes of the segment before it recovers the partition.
    """
    survey = surveys[cut_point.number]
    segment, recovered = survey.segment, survey.recovered
    if cut_point.damage is None or recovered is None or recovered.ending is not RecoveryEnding.CUT:
        return
    aborts = facts.txn_indexes.get(segment.base_offset)
    entries = () if aborts is None or aborts.value is None else aborts.value.entries
    alone = segment.index is None or any(
        entry.last_offset < segment.base_offset for entry in entries
    )
    if alone and any(later.size for later in surveys[cut_point.number + 1 :]):
        raise Refused(
            f"{segment.log}: expected an index and a matching transaction index, found otherwise: "
            f"a broker truncates only this log, at position {cut_point.position}, and keeps all "
            "later segments. kdump salvage copies the valid batches; to truncate here "
            f"nevertheless, give --at {recovered.next_offset}"
        )


def _replay(
    verdict: Verdict,
    facts: PartitionFacts,
    surveys: Sequence[Survey],
    start: tuple[ProducerEntry, ...],
) -> Replay:
    if verdict.replay is not None and verdict.replay.start == start:
        return verdict.replay
    return replay_partition(surveys, start, facts)


def recovery_violations(
    verdict: Verdict, facts: PartitionFacts, surveys: Sequence[Survey]
) -> tuple[RejectedBatch, ...]:
    """Return the batches that a recovery from the first segment on refuses."""
    first, log_start = surveys[0].segment.base_offset, facts.log_start or 0
    start: tuple[ProducerEntry, ...] = ()
    for offset in sorted(facts.snapshots, reverse=True):
        entries = facts.snapshots[offset].value
        if log_start < offset <= first and entries is not None:
            start = tuple(entries)
            break
    unclean = replace(facts, clean=False, recovery_point=0)
    return violations(unclean, surveys, _replay(verdict, facts, surveys, start))


# --- The batch at the cut, read again bypassing the page cache.
# Faulty memory, a controller or a cable can return different bytes each time. Then nothing is cut.


@frozen
class _Reading:
    """One reading of a batch: its header, whether it is sound, and its checksums if not."""

    head: bytes
    sound: bool
    stored_crc: int | None = None
    computed_crc: int | None = None


def confirm(survey: Survey, cut_point: CutPoint) -> None:
    """Read the batch at ``cut_point`` twice more, once bypassing the page cache where possible.

    Does nothing if the log stays whole. Raises Refused unless both readings agree with ``survey``;
    SourceError.
    """
    if cut_point.position == survey.size:
        return
    cached, direct = (_read(survey, cut_point.position, sealed=sealed) for sealed in (False, True))
    if cached != direct or not _as_surveyed(direct, _expected(survey, cut_point)):
        raise Refused(
            f"{survey.segment.log}: unstable-read: expected the same bytes each time that the "
            f"batch at position {cut_point.position} is read, found different bytes: check memory, "
            "controller and disk before you truncate anything"
        )


def _expected(survey: Survey, cut_point: CutPoint) -> Damage | None:
    """Return the damage at the cut by ``survey``; by ``cut_point`` if the survey omits some."""
    if survey.damages > len(survey.gaps):
        return cut_point.damage
    found = (gap.damage for gap in survey.gaps if gap.damage.position == cut_point.position)
    return next(found, None)


def _as_surveyed(reading: _Reading, damage: Damage | None) -> bool:
    if damage is None:
        return reading.sound
    if reading.sound or damage.empty:
        return not reading.sound and not any(reading.head)
    if damage.claimed_bytes != _claimed(reading.head):
        return False
    if damage.reason is not Reason.BAD_CHECKSUM:
        return True
    return (damage.stored_crc, damage.computed_crc) == (reading.stored_crc, reading.computed_crc)


def _read(survey: Survey, position: int, *, sealed: bool) -> _Reading:
    with WindowedFile(as_local(survey.segment.log), sealed=sealed) as source:
        head = bytes(source.window(position, HEADER_BYTES)[:HEADER_BYTES])
        claimed = _claimed(head)
        if claimed is None or not 0 < claimed <= source.size - position:
            return _Reading(head, sound=False)
        # The source ends after the batch, so that the walk does not search further.
        batch = PrefixSource(source, position + claimed)
        piece = next(walk(batch, survey.segment.base_offset, position))
        if isinstance(piece, Damage):
            return _Reading(head, False, piece.stored_crc, piece.computed_crc)
        return _Reading(head, sound=True)


def _claimed(head: bytes) -> int | None:
    """Return the size in a header, None if the header is incomplete."""
    if len(head) < LOG_OVERHEAD:
        return None
    return int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD


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
