"""lost_now(): the records of a partition that consumers cannot get today.

Spec: ``CompletedFetch``, which stops at a batch that fails its checksum; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdump.audit.evidence import neighbours
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding, Offsets
from kdump.audit.startup.unread_tail import records_behind
from kdump.audit.survey.recovery import Span, Tail
from kdump.audit.survey.survey import Gap, Survey
from kdump.audit.targets.target import Target
from kdump.storage.walk import Reason


@dataclass(frozen=True, slots=True)
class LostRange:
    """Records that are lost, and the offset where the log is sound again; None for nowhere.

    ``blocks`` says that consumers stop there: they pass offsets that are missing, but no damage.
    """

    records: Span
    behind: int | None
    blocks: bool

    @property
    def offsets(self) -> Offsets:
        """The offsets from the first to the last; without the last where it is unknown."""
        first = self.records.first_offset or 0
        return Offsets(first, None if self.records.unbounded else self.records.last_offset)


@dataclass(frozen=True, slots=True)
class LostNow:
    """What a partition has lost: ``ranges`` ascend. ``unlisted``: more damages were counted."""

    ranges: tuple[LostRange, ...] = ()
    unlisted: bool = False

    @property
    def records(self) -> Span:
        """All of them together."""
        return sum((one.records for one in self.ranges), Span(unbounded=self.unlisted))

    @property
    def blocking(self) -> LostRange | None:
        """Where consumers stop first."""
        return next((one for one in self.ranges if one.blocks), None)


def lost_now(
    target: Target,
    surveys: tuple[Survey, ...],
    facts: PartitionFacts | None,
    findings: Iterable[Finding],
) -> LostNow:
    """Return what damages hide, and what findings of codes that ``loses`` say is missing."""
    ranges = list(_hidden(target, surveys, facts))
    for finding in findings:
        if finding.code.loses and finding.offsets is not None:
            ranges += _apart(finding.offsets, ranges)
    ranges.sort(key=lambda one: one.offsets.first)
    return LostNow(tuple(ranges), any(one.damages > len(one.gaps) for one in surveys))


def _hidden(
    target: Target, surveys: tuple[Survey, ...], facts: PartitionFacts | None
) -> Iterator[LostRange]:
    for survey, next_base in neighbours(target, surveys):
        for gap in survey.gaps:
            behind = next_base if gap.offset_behind is None else gap.offset_behind
            if behind is None and gap.damage.reason is Reason.PREALLOCATED:
                continue
            records = records_behind(_tail(survey, gap), behind, facts)
            if not records:
                continue
            first, last = gap.time_before_ms, gap.time_behind_ms
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
            yield LostRange(timed, behind, blocks=True)


def _tail(survey: Survey, gap: Gap) -> Tail:
    """A damage as what ends a log, whether or not something sound follows."""
    known = None if survey.recovered is None else survey.recovered.tail
    if known is not None and known.first_offset == gap.offset_before + 1:
        return known
    return Tail(gap.offset_before + 1, None, gap.damage.reason is Reason.TORN_TAIL)


def _apart(missing: Offsets, known: Iterable[LostRange]) -> Iterator[LostRange]:
    """Yield the parts of ``missing`` that lie in none of the ranges ``known``."""
    first = missing.first
    if missing.last is None:
        if all(one.offsets.last is not None for one in known):
            yield LostRange(Span(0, first, None, unbounded=True), None, blocks=False)
        return
    end = missing.last + 1
    for one in sorted((each.offsets for each in known), key=lambda each: each.first):
        if one.first > first:
            stop = min(one.first, end)
            if stop > first:
                yield LostRange(Span(stop - first, first, stop - 1), stop, blocks=False)
        if one.last is None:
            return
        first = max(first, one.last + 1)
    if end > first:
        yield LostRange(Span(end - first, first, end - 1), end, blocks=False)
