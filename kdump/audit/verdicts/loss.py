"""lost_now(): finds the records of a partition that consumers cannot read now.

Spec: ``CompletedFetch``, which stops at a batch that fails its checksum; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.audit.evidence import neighbours
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding, Offsets
from kdump.audit.startup.unread_tail import tail_records
from kdump.audit.survey.recovery import Span, Tail
from kdump.audit.survey.survey import Gap, Survey
from kdump.audit.targets.target import Target
from kdump.values import frozen


@frozen
class LostRange:
    """Lost records, and the ``next_offset`` at which the log is sound again, or None.

    ``blocks`` says that consumers stop there: they skip missing offsets, but not damage.
    """

    records: Span
    next_offset: int | None
    blocks: bool

    @property
    def offsets(self) -> Offsets:
        """The first and last offset; the last is None if it is unknown."""
        first = self.records.first_offset or 0
        return Offsets(first, None if self.records.unbounded else self.records.last_offset)


@frozen
class LostNow:
    """The losses of a partition: ``ranges`` ascend. ``unlisted``: more damages were counted."""

    ranges: tuple[LostRange, ...] = ()
    unlisted: bool = False

    @property
    def records(self) -> Span:
        """The sum of all lost ranges."""
        return sum((lost.records for lost in self.ranges), Span(unbounded=self.unlisted))

    @property
    def corrupt(self) -> Span:
        """The sum of the lost ranges that damage hides: a copy of all sound batches lacks them."""
        blocks = (lost.records for lost in self.ranges if lost.blocks)
        return sum(blocks, Span(unbounded=self.unlisted))

    @property
    def blocking(self) -> LostRange | None:
        """The first range at which consumers stop, or None."""
        return next((lost for lost in self.ranges if lost.blocks), None)


def lost_now(
    target: Target,
    surveys: tuple[Survey, ...],
    facts: PartitionFacts | None,
    findings: Iterable[Finding],
) -> LostNow:
    """Return the records that damage hides, and those missing by findings whose code ``loses``."""
    ranges = list(_ranges_in_damage(target, surveys, facts))
    for finding in findings:
        if finding.code.loses and finding.offsets is not None:
            ranges += _difference(finding.offsets, ranges)
    ranges.sort(key=lambda lost: lost.offsets.first)
    return LostNow(tuple(ranges), any(survey.damages > len(survey.gaps) for survey in surveys))


def _ranges_in_damage(
    target: Target, surveys: tuple[Survey, ...], facts: PartitionFacts | None
) -> Iterator[LostRange]:
    for survey, next_base in neighbours(target, surveys):
        for gap in survey.gaps:
            next_offset = next_base if gap.offset_after is None else gap.offset_after
            if next_offset is None and gap.damage.empty:
                continue
            records = tail_records(_tail(survey, gap), next_offset, facts)
            if not records:
                continue
            first, last = gap.time_before_ms, gap.time_after_ms
            if first is None or last is None:
                first = last = None
            timed = Span(
                records.count,
                records.first_offset,
                records.last_offset,
                first,
                last,
                records.unbounded,
            )
            yield LostRange(timed, next_offset, blocks=True)


def _tail(survey: Survey, gap: Gap) -> Tail:
    """Return a damage as the tail of a log, whether or not a sound batch follows."""
    known = None if survey.recovered is None else survey.recovered.tail
    if known is not None and known.first_offset == gap.offset_before + 1:
        return known
    return Tail(gap.offset_before + 1, None, gap.damage.torn)


def _difference(missing: Offsets, known: Iterable[LostRange]) -> Iterator[LostRange]:
    """Yield the parts of ``missing`` that lie outside all of the ranges ``known``."""
    first = missing.first
    if missing.last is None:
        if all(lost.offsets.last is not None for lost in known):
            yield LostRange(Span(0, first, None, unbounded=True), None, blocks=False)
        return
    end = missing.last + 1
    for offsets in sorted((lost.offsets for lost in known), key=lambda offsets: offsets.first):
        if offsets.first > first:
            stop = min(offsets.first, end)
            if stop > first:
                yield LostRange(Span(stop - first, first, stop - 1), stop, blocks=False)
        if offsets.last is None:
            return
        first = max(first, offsets.last + 1)
    if end > first:
        yield LostRange(Span(end - first, first, end - 1), end, blocks=False)
