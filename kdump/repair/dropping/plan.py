"""plan_drop(): logs without their corrupt batches.

A broker never does this. On a replica with others in the cluster, records that these hold are lost
as soon as it leads: so it is for the only replica.

Spec: ``LogSegment.recover``, ``UnifiedLog.appendAsFollower``, which accepts missing offsets; KOD 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.replay.replay import lost_ends
from kdump.audit.survey.recovery import Span
from kdump.audit.survey.survey import Survey, effective_compaction
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused
from kdump.format.batch import HEADER_BYTES, read_header
from kdump.repair.content.changed_logs import with_changed_logs
from kdump.repair.content.extent import check_whole, log_end_of, partition_facts
from kdump.repair.dropping.steps import ShorterLog, drop_steps
from kdump.repair.healing.draft import LogPart
from kdump.repair.healing.own_log import OwnSegment, own_segment
from kdump.repair.healing.result import LeftOffsets, is_room, left_offsets, survey_parts
from kdump.repair.transaction.fingerprint import (
    read_fingerprint,
    refuse_links,
    refuse_metadata_log,
    refuse_swaps,
)
from kdump.repair.transaction.plan import Loss, Plan, log_directory_of
from kdump.repair.truncation.cut_point import CutPoint, recovery_cut_point
from kdump.repair.truncation.plan import confirm, recovery_violations
from kdump.storage.access import open_source
from kdump.storage.paths import as_local

#: The plan belongs to a repair of its log directory, which finishes it without its options.
COMMAND: Final = "repair"

#: The first magic whose headers hold all offsets.
_MAGIC: Final = 2
#: The most gaps that a plan lists. ``verify`` reports the others.
_LISTED: Final = 100_000


def plan_drop(verdict: Verdict, *, settings: TopicSettings, report: Callable[[int], None]) -> Plan:
    """Return the plan that drops the corrupt batches of a partition, and keeps the valid ones.

    ``verdict`` is a verdict of ``verify`` with its evidence. ``report`` is called with counts of
    bytes that were read. Raises Refused where not every byte is known to be a valid batch or a
    corrupt one, or where log recovery would not take the result; SourceError.
    """
    facts = partition_facts(verdict)
    path = facts.partition.path
    refuse_metadata_log(facts.partition)
    check_whole(verdict)
    refuse_swaps(facts.partition)
    _refuse_lost_ends(verdict, facts)
    files, identity = read_fingerprint(facts.partition, verdict.surveys)
    own = [own_segment(survey) for survey in verdict.surveys]
    _check_order(own)
    dense = effective_compaction(verdict.surveys, facts.settings.compacted) is False
    dropped = [place for place in left_offsets(own, dense=dense) if place.size]
    if not dropped:
        raise Refused(f"{path}: expected corrupt batches, found none that can be dropped")
    changed = [
        _shorter(segment, settings, report)
        for segment in own
        if next(segment.damages, None) is not None
    ]
    refuse_links(as_local(log.segment.log) for log in changed)
    _confirm(verdict.surveys, changed)
    after = with_changed_logs(verdict, facts, (log.survey for log in changed))
    assert after.facts is not None and after.replay is not None
    refused = recovery_cut_point(
        after.surveys, recovery_violations(after, after.facts, after.surveys)
    )
    if refused is not None:
        name = after.surveys[refused.number].segment.log.name
        raise Refused(
            f"{path}: expected log recovery to take what stays, found that it refuses position "
            f"{refused.position} of the new {name} ({refused.cause})"
        )
    end, mark = after.replay.end_offset, facts.high_watermark
    loss = Loss(
        size=sum(place.size for place in dropped),
        unreadable=verdict.lost.corrupt or Span(unbounded=True),
        below_high_watermark=mark is not None and dropped[0].first < mark,
    )
    return Plan(
        COMMAND,
        (),
        as_local(path),
        identity,
        log_directory_of(verdict.target),
        tuple(drop_steps(facts, after.replay, changed, files)),
        files,
        loss,
        log_start=facts.log_start_offset,
        log_end=(log_end_of(verdict), end),
        notes=tuple(_notes(dropped, compacted=not dense)),
        holes=tuple(islice(_holes(dropped), _LISTED)),
    )


def shortened_logs(plan: Plan) -> Iterator[str]:
    """Yield the logs whose indexes ``plan`` leaves short, if it drops corrupt batches."""
    if plan.command == COMMAND:
        yield from (put.name for put in plan.puts if put.name.endswith(".log"))


def _refuse_lost_ends(verdict: Verdict, facts: PartitionFacts) -> None:
    """Raise Refused if the marker of a transaction may be among what is corrupt."""
    replayed = verdict.replay
    ends = () if replayed is None else lost_ends(verdict.surveys, replayed.start, facts)
    if replayed is None or ends:
        producer = f" (producer {ends[0].producer})" if ends else ""
        raise Refused(
            f"{facts.partition.path}: expected no corrupt end of a transaction, found that one may "
            f"be among the corrupt batches{producer}: kdump salvage writes a new marker for it"
        )


def _check_order(segments: Sequence[OwnSegment]) -> None:
    """Raise Refused unless all valid batches are certain, and follow each other.

    A search may have found batches in the value of a corrupt record. Such a value is not the last
    thing in its log, since the rest of its record follows, unless the log ends inside the record.
    """
    for own in segments:
        for number, island in enumerate(own.islands):
            last = number == len(own.islands) - 1
            at_end = last and (island.end == own.size or is_room(own, island.end))
            if island.hunted and not (at_end and _is_after(own, number)):
                raise Refused(
                    f"{own.segment.log}: expected batches that are surely no values of records, "
                    f"found some at position {island.start} by search after a corrupt size: kdump "
                    "salvage --hunted takes them"
                )
            if any(batch.magic < _MAGIC for batch in island.samples) and len(own.islands) > 1:
                raise Refused(
                    f"{own.segment.log}: expected message format v2, found an older one, whose "
                    "headers do not hold all offsets: kdump salvage copies the valid batches"
                )
    islands = [(own, island) for own in segments for island in own.islands]
    for (_, before), (own, island) in pairwise(islands):
        if island.first.base_offset <= before.last.last_offset:
            raise Refused(
                f"{own.segment.log}: expected offsets above {before.last.last_offset} at position "
                f"{island.start}, found {island.first.base_offset}: kdump salvage decides between "
                "batches with the same offsets"
            )


def _is_after(own: OwnSegment, number: int) -> bool:
    """Return whether an island has higher offsets than the corrupt batch before it.

    By the header of that batch; True if that cannot be read. Raises SourceError.
    """
    position = own.islands[number - 1].end if number else 0
    with open_source(own.segment.log, mapped=False, sealed=True) as source:
        header = read_header(source.window(position, HEADER_BYTES), position)
    if header is None or header.magic != _MAGIC:
        return True
    return header.last_offset < own.islands[number].first.base_offset


def _shorter(own: OwnSegment, settings: TopicSettings, report: Callable[[int], None]) -> ShorterLog:
    """Return the log of the valid batches of a segment; there may be none. Raises SourceError."""
    position, _ = next(own.damages)
    before = [island for island in own.islands if island.end <= position]
    offset = before[-1].last.last_offset + 1 if before else own.base_offset
    kept = [LogPart(None, island.start, island.end - island.start) for island in own.islands]
    survey, digest, recipe = survey_parts(own.segment, kept, settings, 0, report)
    return ShorterLog(own.segment, survey, digest, recipe, position, offset)


def _confirm(surveys: Sequence[Survey], changed: Sequence[ShorterLog]) -> None:
    """Read the corrupt batches twice more, since faulty hardware may give other bytes each time."""
    bases = {log.segment.base_offset for log in changed}
    for number, survey in enumerate(surveys):
        for gap in survey.gaps if survey.segment.base_offset in bases else ():
            damage = gap.damage
            confirm(survey, CutPoint(number, damage.position, damage.reason.phrase, damage))


def _holes(dropped: Sequence[LeftOffsets]) -> Iterator[tuple[int, int]]:
    for place in dropped:
        if place.last is not None and place.first <= place.last:
            yield place.first, place.last


def _notes(dropped: Sequence[LeftOffsets], *, compacted: bool) -> Iterator[str]:
    for place in dropped[:_NOTED]:
        last = "on" if place.last is None else f"to {place.last}"
        yield (
            f"{place.name} loses {place.size:,} corrupt bytes at position {place.position}, "
            f"offsets {place.first} {last}"
        )
    if len(dropped) > _NOTED:
        yield f"{len(dropped) - _NOTED:,} more places are dropped"
    if compacted:
        yield "the log may be compacted: older values of the keys of dropped records may return"
    yield (
        "if another replica has records that are dropped, it loses them when this one leads: "
        "consumers and other replicas pass over missing offsets"
    )


#: The most places that notes name.
_NOTED: Final = 20
