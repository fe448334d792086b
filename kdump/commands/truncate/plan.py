"""plan_truncate(): a log cut where recovery would cut it, or at an offset.

A broker's recovery makes the same cut, but does not report the loss, and cannot be undone.

Spec: ``LogLoader.recoverLog``, ``UnifiedLog.truncateTo``, ``ProducerStateManager.takeSnapshot``;
KOD 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.replay import Replay, replay_partition
from kdump.audit.startup.inputs import violations
from kdump.audit.startup.outcome import RejectedBatch
from kdump.audit.survey.recovery import RecoveryEnding
from kdump.audit.survey.survey import Survey
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.truncate.cut_point import CutPoint, offset_cut_point, recovery_cut_point
from kdump.commands.truncate.loss import loss_of
from kdump.commands.truncate.notes import cut_notes, open_transaction_notes, order_notes
from kdump.commands.truncate.remaining_log import remaining_log
from kdump.commands.truncate.reread import confirm
from kdump.commands.truncate.steps import CutSteps, has_lines
from kdump.errors import Refused, UsageError
from kdump.format.snapshot import ProducerEntry
from kdump.repair.content.producers import start_of
from kdump.repair.transaction.fingerprint import read_fingerprint, refuse_metadata_log, refuse_swaps
from kdump.repair.transaction.plan import Plan, log_directory_of
from kdump.storage.paths import as_local

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
    if at is not None:
        _check_offset(at, facts, surveys)
    start = start_of(facts, surveys)
    before = _replay(verdict, facts, surveys, () if isinstance(start, str) else start)
    refused = recovery_cut_point(surveys, _violations(verdict, facts, surveys))
    cut_point = refused if at is None else offset_cut_point(surveys, at)
    log_start = facts.log_start_offset or 0
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


def _check_offset(at: int, facts: PartitionFacts, surveys: tuple[Survey, ...]) -> None:
    lowest = facts.log_start_offset or 0
    if at < lowest:
        raise UsageError(
            f"{facts.partition.path}: expected an offset from {lowest} on, where the log starts, "
            f"found {at}"
        )


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
            f"a broker cuts only this log, at position {cut_point.position}, and keeps all later "
            "segments. kdump salvage copies the sound batches; to cut here nevertheless, give "
            f"--at {recovered.next_offset}"
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


def _violations(
    verdict: Verdict, facts: PartitionFacts, surveys: Sequence[Survey]
) -> tuple[RejectedBatch, ...]:
    """Return the violations that a recovery from the first segment on finds."""
    first, log_start = surveys[0].segment.base_offset, facts.log_start or 0
    start: tuple[ProducerEntry, ...] = ()
    for offset in sorted(facts.snapshots, reverse=True):
        entries = facts.snapshots[offset].value
        if log_start < offset <= first and entries is not None:
            start = tuple(entries)
            break
    unclean = replace(facts, clean=False, recovery_point=0)
    return violations(unclean, surveys, _replay(verdict, facts, surveys, start))
