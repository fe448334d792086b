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
from kdump.commands.convert.notes import DELETED_NOTE, epochs_note, readers_note, split_note
from kdump.commands.convert.steps import ConvertSteps
from kdump.format.checkpoint import EpochEntry
from kdump.repair.content.epochs import old_epochs
from kdump.repair.content.extent import (
    check_whole,
    log_end_of,
    partition_facts,
)
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.rewrite.log_workers import run_on_logs
from kdump.repair.rewrite.measure import ConversionMeasure, measure
from kdump.repair.rewrite.preconditions import refuse_damaged, undecodable_records
from kdump.repair.transaction.fingerprint import read_fingerprint, refuse_links, refuse_swaps
from kdump.repair.transaction.plan import Plan, log_directory_of
from kdump.storage.logdir import Segment
from kdump.storage.paths import as_local

COMMAND: Final = "convert-v0-v2"

#: Bytes of new indexes that a plan holds; the other indexes are built again by apply.
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
    """Return the plan of a conversion; it has no steps if no log holds old batches.

    ``verdict`` is a verdict of ``verify`` with its evidence. ``jobs`` workers convert the logs
    without writing them, so that the plan has the exact sizes and digests. ``report`` is called
    with counts of bytes that were read. Indexes are built by ``settings``. Raises Refused,
    UsageError, SourceError.
    """
    facts = partition_facts(verdict)
    check_whole(verdict)
    files, identity = read_fingerprint(facts.partition, verdict.surveys)
    directory = log_directory_of(verdict.target)
    end = log_end_of(verdict)
    plan = Plan(
        COMMAND,
        arguments,
        as_local(facts.partition.path),
        identity,
        directory,
        (),
        files,
        log_start=facts.log_start_offset,
        log_end=(end, end),
    )
    old_surveys = [survey for survey in verdict.surveys if _is_old(survey)]
    if not old_surveys:
        return plan
    if facts.partition.name is not None and facts.partition.name.suffix == "delete":
        return replace(plan, notes=(DELETED_NOTE,))
    refuse_damaged(verdict.surveys, facts.partition.path)
    refuse_swaps(facts.partition)
    refuse_links(as_local(survey.segment.log) for survey in old_surveys)
    epochs = _epochs(facts, verdict.surveys)
    measurements = _measure_all(old_surveys, rules, epochs, settings, jobs, report)
    _refuse_overlap(measurements, [survey.segment for survey in verdict.surveys])
    steps = ConvertSteps(facts, rules, settings, files)
    if old_surveys[-1] is verdict.surveys[-1]:
        plan = replace(plan, log_end=(end, measurements[-1].parts[-1].end_offset))
    return replace(
        plan,
        steps=tuple(step for measurement in measurements for step in steps.of(measurement)),
        notes=tuple(_notes(measurements, rules, settings)),
    )


# --- the evidence


def _is_old(survey: Survey) -> bool:
    """Return whether a survey shows messages of magic 0 or 1, or batches without a leader epoch."""
    # If all batches follow damage, the survey has no magics.
    if survey.batches > 0 and (survey.magics is None or survey.magics[0] < 2):
        return True
    return any(run.epoch < 0 for run in survey.events.epochs())


# --- the conversion


def _measure_all(
    old_surveys: Sequence[Survey],
    rules: Rules,
    epochs: Mapping[int, Sequence[EpochEntry]],
    settings: TopicSettings,
    jobs: int,
    report: Callable[[int], None],
) -> list[ConversionMeasure]:
    """Return the measurements of the conversion of each log, in order."""
    room = _REBUILD_BYTES // len(old_surveys)

    def work(segment: Segment, on_progress: Callable[[int], None]) -> ConversionMeasure:
        base_offset = segment.base_offset
        return measure(
            segment.log, base_offset, rules, epochs[base_offset], settings, room, on_progress
        )

    tasks = [survey.segment for survey in old_surveys]
    return run_on_logs(work, tasks, lambda segment: segment.log, jobs=jobs, report=report)


def _epochs(facts: PartitionFacts, surveys: Sequence[Survey]) -> dict[int, tuple[EpochEntry, ...]]:
    """Return the leader epochs of old messages, by the base offset of their segment."""
    known = () if facts.epochs is None else facts.epochs.value or ()
    newest, epochs = -1, {}
    for survey, following in zip_longest(surveys, surveys[1:]):
        base_offset = survey.segment.base_offset
        next_base = None if following is None else following.segment.base_offset
        epochs[base_offset] = old_epochs(known, newest, base_offset, next_base)
        newest = max([newest, *(run.epoch for run in survey.events.epochs())])
    return epochs


def _refuse_overlap(measurements: Sequence[ConversionMeasure], segments: Sequence[Segment]) -> None:
    """Raise Refused if records inside a wrapper have offsets of the following segment."""
    following = {segment.log: later for segment, later in pairwise(segments)}
    for measurement in measurements:
        later, end = following.get(measurement.path), measurement.parts[-1].end_offset
        if later is not None and end > later.base_offset:
            raise undecodable_records(
                measurement.path,
                f"expected the log to end before {later.log.name} begins, found offset {end - 1}",
            )


def _notes(
    measurements: Sequence[ConversionMeasure], rules: Rules, settings: TopicSettings
) -> Iterator[str]:
    """Yield the notes. They hold no paths, because the id of a plan does not depend on them."""
    yield readers_note(rules)
    yield "the old logs go into the backup, and take space until it is discarded"
    if stamped := sum(measurement.stamped for measurement in measurements):
        yield epochs_note(stamped)
    for measurement in measurements:
        if len(measurement.parts) > 1:
            bases = [part.part.base_offset for part in measurement.parts]
            yield split_note(measurement.path.name, bases)
        for part in measurement.parts:
            if part.rebuilt.full:
                yield (
                    f"the segment at {part.part.base_offset} needs more index entries than "
                    f"{settings.segment_index_bytes} bytes hold, with an entry every "
                    f"{settings.index_interval_bytes} bytes of the log: its indexes do not cover "
                    "its end"
                )
