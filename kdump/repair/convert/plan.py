"""plan_convert(): the conversion of a partition in place.

Spec: ``MemoryRecords.buildRetainedRecordsInto`` (KIP-724), ``LogSegment.recover``; KOD 4.2, 5, 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.survey.survey import Survey
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import SourceError, UsageError
from kdump.format.checkpoint import EpochEntry
from kdump.repair.content.epochs import old_epochs
from kdump.repair.content.extent import log_end_of, log_start_of
from kdump.repair.convert.notes import DELETED_NOTE, epochs_note, readers_note, split_note
from kdump.repair.convert.steps import ConvertSteps
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.rewrite.each_log import each_log
from kdump.repair.rewrite.measure import Measured, measure
from kdump.repair.rewrite.preconditions import refuse_damaged, unreadable
from kdump.repair.transaction.fingerprint import present, refuse_links, refuse_swaps
from kdump.repair.transaction.plan import Plan
from kdump.storage.logdir import Segment

COMMAND: Final = "convert-v0-v2"

#: So many bytes of new indexes are kept in a plan; others are built again when it is carried out.
_REBUILD_BYTES: Final = 256 << 20


def plan_convert(
    verdict: Verdict,
    rules: Rules,
    *,
    settings: TopicSettings,
    arguments: tuple[str, ...],
    jobs: int,
    report: Callable[[int], None],
) -> Plan:
    """Plan the conversion of a partition; a plan without steps where all of it is as it should.

    ``verdict`` is what ``verify`` has found, with its evidence. The logs are converted in ``jobs``
    workers, and nothing is written, so that the plan says exactly what they become; ``report`` gets
    counts of bytes that were read for that. Indexes are built by ``settings``. Raises Refused,
    UsageError, SourceError.
    """
    facts = _checked(verdict)
    files, identity = present(facts.partition, verdict.surveys)
    directory = (
        None if verdict.target.directory is None else verdict.target.directory.directory.path
    )
    end = log_end_of(verdict)
    plan = Plan(
        COMMAND,
        arguments,
        facts.partition.path,
        identity,
        directory,
        (),
        files,
        log_start=log_start_of(facts),
        log_end=(end, end),
    )
    old = [survey for survey in verdict.surveys if _is_old(survey)]
    if not old:
        return plan
    if facts.partition.name is not None and facts.partition.name.suffix == "delete":
        return replace(plan, notes=(DELETED_NOTE,))
    refuse_damaged(verdict.surveys, facts.partition.path)
    refuse_swaps(facts.partition)
    refuse_links(survey.segment.log for survey in old)
    epochs = _epochs(facts, verdict.surveys)
    measured = _measured(old, rules, epochs, settings, jobs, report)
    _refuse_overlap(measured, [survey.segment for survey in verdict.surveys])
    steps = ConvertSteps(facts, rules, settings, files)
    if old[-1] is verdict.surveys[-1]:
        plan = replace(plan, log_end=(end, measured[-1].parts[-1].end_offset))
    return replace(
        plan,
        steps=tuple(step for one in measured for step in steps.of(one)),
        notes=tuple(_notes(measured, rules, settings)),
    )


# --- what is known


def _checked(verdict: Verdict) -> PartitionFacts:
    """The facts of a partition whose logs were all read to their ends."""
    target, facts = verdict.target, verdict.facts
    if target.error is not None:
        raise target.error
    if facts is None:
        raise UsageError(f"{target.path}: expected a partition directory, found a segment's file")
    surveys = {survey.segment.log: survey for survey in verdict.surveys}
    for segment in target.segments:
        survey = surveys.get(segment.log)
        if survey is None or not survey.complete:
            told = () if survey is None else survey.unread
            why = [one.text for one in told if one.path == segment.log]
            raise SourceError(segment.log, *(why or [f"{segment.log}: could not be read"]))
    return facts


def _is_old(survey: Survey) -> bool:
    """Whether a log holds messages of magic 0 or 1, or batches of magic 2 without a leader epoch,
    as far as the survey shows.
    """
    # Of batches behind damage alone no magic is known.
    if survey.batches > 0 and (survey.magics is None or survey.magics[0] < 2):
        return True
    return any(run.epoch < 0 for run in survey.events.epochs())


# --- what comes of it


def _measured(
    old: Sequence[Survey],
    rules: Rules,
    epochs: Mapping[int, Sequence[EpochEntry]],
    settings: TopicSettings,
    jobs: int,
    report: Callable[[int], None],
) -> list[Measured]:
    """What each of the logs becomes, in their order."""
    room = _REBUILD_BYTES // len(old)

    def work(segment: Segment, told: Callable[[int], None]) -> Measured:
        base_offset = segment.base_offset
        return measure(segment.log, base_offset, rules, epochs[base_offset], settings, room, told)

    tasks = [survey.segment for survey in old]
    return each_log(work, tasks, lambda segment: segment.log, jobs=jobs, report=report)


def _epochs(facts: PartitionFacts, surveys: Sequence[Survey]) -> dict[int, tuple[EpochEntry, ...]]:
    """The leader epochs of old messages, by the base offset of their segment."""
    known = () if facts.epochs is None else facts.epochs.value or ()
    newest, found = -1, {}
    for survey, behind in zip_longest(surveys, surveys[1:]):
        base_offset = survey.segment.base_offset
        next_base = None if behind is None else behind.segment.base_offset
        found[base_offset] = old_epochs(known, newest, base_offset, next_base)
        newest = max([newest, *(run.epoch for run in survey.events.epochs())])
    return found


def _refuse_overlap(measured: Sequence[Measured], segments: Sequence[Segment]) -> None:
    """Raise Refused where records inside of a wrapper reach into the segment behind their own."""
    following = {one.log: behind for one, behind in pairwise(segments)}
    for one in measured:
        behind, end = following.get(one.path), one.parts[-1].end_offset
        if behind is not None and end > behind.base_offset:
            raise unreadable(
                one.path,
                f"expected the log to end before {behind.log.name} begins, found offset {end - 1}",
            )


def _notes(measured: Sequence[Measured], rules: Rules, settings: TopicSettings) -> Iterator[str]:
    """What is to be known of it, without any path: a plan is the same however it was spelled."""
    yield readers_note(rules)
    yield "the old logs go into the backup, and take space until it is discarded"
    if stamped := sum(one.stamped for one in measured):
        yield epochs_note(stamped)
    for one in measured:
        if len(one.parts) > 1:
            yield split_note(one.path.name, [part.part.base_offset for part in one.parts])
        for part in one.parts:
            if part.rebuilt.full:
                yield (
                    f"the segment at {part.part.base_offset} needs more index entries than "
                    f"{settings.segment_index_bytes} bytes hold, with an entry every "
                    f"{settings.index_interval_bytes} bytes of the log: its indexes do not cover "
                    "its end"
                )
