"""Reads one segment, in a worker: its verdict, and what the state keeps of it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.judge import judge_segment
from kdump.audit.run.gather import gather
from kdump.audit.run.reconcile import reconcile
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict
from kdump.history.changes import NewReading, compare, steady_since
from kdump.history.due import Item
from kdump.history.records import SegmentRecord
from kdump.storage.logdir import Segment
from kdump.storage.throttle import Pace
from kdump.values import frozen


@frozen
class ScrubbedSegment:
    """The verdict on one segment, without its evidence, and its new record in the state.

    ``record`` is None if the segment was not read to its end, or changed during the read.
    """

    verdict: Verdict
    record: SegmentRecord | None


class SegmentReader:
    """Reads segments of ``targets``, one after the other; a worker has one of its own.

    The listing and the small files of a partition are read once for neighbouring tasks. ``mapped``
    maps the logs of stopped brokers. ``pace`` is as for ``open_source``.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        context: Context,
        version: str,
        *,
        mapped: bool,
        pace: Pace | None,
    ) -> None:
        self._targets = targets
        self._context = context
        self._version = version
        self._mapped = mapped
        self._pace = pace
        self._number = -1
        self._target: Target | None = None
        self._facts: PartitionFacts | None = None

    def read(self, item: Item, report: Callable[[int], None]) -> ScrubbedSegment | None:
        """Read the segment of ``item``; return None if it no longer exists.

        ``report`` gets counts of bytes that were read.
        """
        target = self._partition(item)
        place = bisect_left(target.segments, item.base_offset, key=_base)
        if place == len(target.segments) or _base(target.segments[place]) != item.base_offset:
            return None
        segment = target.segments[place]
        later = target.segments[place + 1 : place + 2]
        next_base = later[0].base_offset if later else target.next_base
        alone = replace(target, segments=(segment,), next_base=next_base)

        def surveys(now: Target, segments: Sequence[Segment]) -> list[Survey | Finding]:
            return [self._survey(now, each, report) for each in segments]

        facts = self._facts
        if facts is not None:  # else each segment of many would be compared with all others
            facts = replace(facts, partition=replace(facts.partition, segments=(segment,)))
        verdict = judge_segment(alone, surveys(alone, [segment]), facts, self._context)
        verdict = reconcile(verdict, self._context, surveys, judge_segment)
        found = next(iter(verdict.surveys), None)
        record = None
        if found is not None and self._facts is not None:
            ctime_ns = steady_since(found, sealed=item.sealed)
            if ctime_ns is not None:
                verdict, record = self._compare(item, verdict, found, self._facts, ctime_ns, report)
        return ScrubbedSegment(verdict.without_evidence(segments=False), record)

    def _partition(self, item: Item) -> Target:
        """Return the target of ``item`` with its listing, and read its small files."""
        if self._target is None or self._number != item.number:
            self._number = item.number
            self._target = self._targets[item.number].with_listing()
            self._facts = gather(self._target, self._context)
        return self._target

    def _survey(self, target: Target, segment: Segment, report: Callable[[int], None]) -> Survey:
        return survey(
            segment,
            report,
            mapped=self._mapped and target.stopped,
            sealed=target.is_sealed(segment),
            deep=False,
            pace=self._pace,
            settings=self._context.settings(target),
            digest=True,
        )

    def _compare(
        self,
        item: Item,
        verdict: Verdict,
        found: Survey,
        facts: PartitionFacts,
        ctime_ns: int,
        report: Callable[[int], None],
    ) -> tuple[Verdict, SegmentRecord | None]:
        """Return the verdict with what the record of the last scrub adds, and the new record."""
        new = NewReading(
            verdict.target,
            found,
            ctime_ns,
            time.time_ns() // 1_000_000,
            self._version,
            sealed=verdict.target.next_base is not None,
            findings=verdict.findings,
        )

        def read_again() -> Survey:
            # Past any cache: a disk may give other bytes each time.
            return self._survey(verdict.target, found.segment, report)

        compared = compare(item.record, new, lambda: facts, read_again)
        if compared.finding is not None:
            verdict = replace(verdict, findings=(*verdict.findings, compared.finding))
        return verdict, compared.record


def _base(segment: Segment) -> int:
    return segment.base_offset
