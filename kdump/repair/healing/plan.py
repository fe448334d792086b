"""plan_heal(): the damaged and missing parts of a log that copies have.

Spec: ``UnifiedLog.appendAsFollower``, ``LogLoader``, ``LeaderEpochFileCache`` (KIP-101); KOD 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.checks.missing_offsets import check_missing_offsets
from kdump.audit.evidence import Evidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.survey.survey import effective_compaction
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused, UsageError
from kdump.format.lines.shell import shell_text
from kdump.repair.content.changed_logs import with_changed_logs
from kdump.repair.content.extent import check_whole, log_end_of, partition_facts
from kdump.repair.healing.alignment import BatchRun
from kdump.repair.healing.copies import open_copies
from kdump.repair.healing.draft import Draft
from kdump.repair.healing.healing import Healer
from kdump.repair.healing.lineage import lineage_of
from kdump.repair.healing.own_log import own_segment
from kdump.repair.healing.result import LeftOffsets, left_offsets, survey_draft
from kdump.repair.healing.steps import heal_steps
from kdump.repair.transaction.fingerprint import (
    read_fingerprint,
    refuse_links,
    refuse_metadata_log,
    refuse_swaps,
)
from kdump.repair.transaction.plan import Plan, log_directory_of
from kdump.storage.paths import AnyPath, as_local, typed_text
from kdump.storage.walk import sound_batch
from kdump.values import frozen

COMMAND: Final = "heal"

#: Bytes of new indexes that a plan holds; the other indexes are built again by apply.
_REBUILD_BYTES: Final = 256 << 20


class NoReplica(Refused):
    """No path has a replica of the partition."""


@frozen
class HealPlan:
    """A plan to heal.

    ``complete``: nothing stays damaged or missing. ``unread``: a copy could not be read.
    """

    plan: Plan
    complete: bool
    unread: bool


def plan_heal(
    verdict: Verdict,
    paths: Sequence[AnyPath],
    *,
    settings: TopicSettings,
    node: Node,
    arguments: tuple[str, ...],
    report: Callable[[int], None],
) -> HealPlan:
    """Return the plan that takes from the copies at ``paths`` what a partition lacks.

    ``verdict`` is a verdict of ``verify`` with its evidence; its surveys have the indexes rebuilt
    by ``settings``. ``report`` is called with counts of bytes that were read. Raises Refused,
    UsageError, SourceError.
    """
    facts = _check_verdict(verdict)
    path = facts.partition.path
    if not paths:
        raise UsageError(f"{path}: expected at least one replica to heal from: add --from COPY")
    copies, notes = open_copies(paths, verdict.target, facts)
    files, identity = read_fingerprint(facts.partition, verdict.surveys)
    directory = log_directory_of(verdict.target)
    end = log_end_of(verdict)
    plan = Plan(
        COMMAND,
        arguments,
        as_local(path),
        identity,
        directory,
        (),
        files,
        log_start=facts.log_start_offset,
        log_end=(end, end),
    )
    if not copies:
        raise NoReplica(f"{path}: expected a replica of it, found none: {'; '.join(notes)}")
    compacted = effective_compaction(verdict.surveys, facts.settings.compacted)
    # In a compacted log the cleaner may have taken a missing offset: only in others is it a loss.
    dense = compacted is False
    lineage = lineage_of(verdict, facts)
    healer = Healer(facts.partition, copies, lineage, dense=dense)
    healing = healer.heal([own_segment(survey) for survey in verdict.surveys])
    changed = [draft for draft in healing.drafts if draft.changed]
    # The rebuilt indexes of all changed logs are held in memory until the plan has their steps.
    room = _REBUILD_BYTES // max(len(changed), 1)
    healed = [survey_draft(draft, settings, room, report) for draft in changed]
    after = with_changed_logs(verdict, facts, (log.survey for log in healed))
    left = list(left_offsets([draft.own for draft in healing.drafts], dense=dense))
    assert after.facts is not None
    evidence = Evidence(after.target, after.surveys, after.facts, after.replay, node)
    holes = list(holes_notes(evidence, left))
    steps, step_notes = heal_steps(evidence, after.facts, healed, files, settings, copies)
    if steps:
        refuse_swaps(facts.partition)
        refuse_links(as_local(draft.segment.log) for draft in changed)
    plan = replace(
        plan,
        steps=tuple(steps),
        log_end=(end, after.surveys[-1].known_end),
        notes=(
            *taken_notes(changed),
            *left_notes(left, unread=bool(healing.unread)),
            *holes,
            *([] if dense or not left else [COMPACTED_NOTE]),
            *notes,
            *healing.unread,
            *healing.notes,
            *step_notes,
            compare_note(path, [copy.path for copy in copies]),
        ),
    )
    return HealPlan(plan, complete=not (left or holes), unread=bool(healing.unread))


def holes_notes(evidence: Evidence, left: Sequence[LeftOffsets]) -> Iterator[str]:
    """Yield which lost offsets stay missing between valid batches, as ``verify`` finds them.

    Those in ``left`` have notes of their own.
    """
    known = {place.first for place in left}
    holes = [
        (finding.path.name, finding.offsets, finding.repeats)
        for finding in check_missing_offsets(evidence)
        if finding.code.loses and finding.offsets and finding.offsets.first not in known
    ]
    for name, offsets, _ in holes[:_LISTED]:
        yield (
            f"offsets {offsets.first} to {offsets.last} stay missing in {name}: heal takes nothing "
            "between two valid batches. If another replica has them, kdump compare prints the "
            "steps that bring them back"
        )
    more = len(holes[_LISTED:]) + sum(repeats for _, _, repeats in holes)
    if more:
        yield f"{more:,} more places between valid batches stay missing"


# --- the evidence


def _check_verdict(verdict: Verdict) -> PartitionFacts:
    """Return the facts of a partition; raise unless it can be healed."""
    facts, path = partition_facts(verdict), verdict.target.path
    refuse_metadata_log(facts.partition)
    if facts.partition.name is not None and facts.partition.name.suffix == "delete":
        raise Refused(f"{path}: expected a partition, found a directory that a broker deletes")
    if not verdict.target.segments:
        raise Refused(f"{path}: expected at least 1 segment, found no log of a segment")
    check_whole(verdict)
    return facts


#: The note on a log that the cleaner may have compacted.
COMPACTED_NOTE: Final = (
    "the log may be compacted, so that replicas hold other batches: only stretches of the same "
    "size between the same batches are taken"
)
#: The most places that are named.
_LISTED: Final = 20


def taken_notes(drafts: Sequence[Draft]) -> Iterator[str]:
    """Yield the stretches that are taken from copies. Raises SourceError."""
    runs = [(draft, run) for draft in drafts for run in draft.runs]
    for draft, run in runs[:_LISTED]:
        first, last = _offsets(draft, run)
        yield (
            f"{draft.segment.log.name}, position {run.at}: {run.size:,} bytes, offsets "
            f"{first} to {last}, from position {run.position} of {run.log}"
        )
    if len(runs) > _LISTED:
        size = sum(run.size for _, run in runs[_LISTED:])
        yield f"{len(runs) - _LISTED:,} more stretches from replicas, {size:,} bytes"


def _offsets(draft: Draft, run: BatchRun) -> tuple[int, int]:
    """Return the first and the last offset of a run, of which only a part may be taken."""
    first, last = run.first_offset, run.last.last_offset
    with draft.open() as source:
        begin = sound_batch(source, draft.own.base_offset, run.at)
        behind = sound_batch(source, draft.own.base_offset, run.at + run.size)
    if begin is not None:
        first = begin.base_offset
    return first, last if behind is None else min(last, behind.base_offset - 1)


def compare_note(partition: AnyPath, copies: Iterable[AnyPath]) -> str:
    """Return the note on what heal does not compare, with the command that does."""
    command = shell_text(["kdump", "compare", *map(typed_text, (partition, *copies))])
    return (
        "batches whose checksums match stay, though no checksum covers offsets and leader epochs: "
        f"to see where replicas differ, run {command}"
    )


def left_notes(left: Sequence[LeftOffsets], *, unread: bool) -> Iterator[str]:
    """Yield what stays damaged, because no copy has it. ``unread``: one could not be read."""
    copy = "no readable replica" if unread else "no replica"
    for place in left[:_LISTED]:
        last = "" if place.last is None else str(place.last)
        span = f"offsets {place.first} to {last}" if last else f"offsets from {place.first} on"
        if place.size:
            yield (
                f"{place.name} stays corrupt at position {place.position}: {place.size:,} bytes, "
                f"{span}: {copy} has them"
            )
        else:
            yield f"{span} stay missing before {place.name}: {copy} has them"
    if len(left) > _LISTED:
        yield f"{len(left) - _LISTED:,} more places stay corrupt or missing"
