"""Scrub: one run over log directories: the quick pass, then the segments that are due.

Each segment that was read is written into the state at once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.checks.changes import SEGMENT_REMOVED, SEGMENT_REMOVED_UNPROVEN
from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.facts.missing_start import (
    first_line,
    missing_start,
    missing_unseen,
    retention_deletes,
)
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import Cure, Harm
from kdump.audit.findings import Detail, Finding, Offsets, file_finding
from kdump.audit.run.gather import gather
from kdump.audit.run.prescan import Small, quick_pass
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.recovery import Span
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target
from kdump.audit.targets.target import log_bytes as log_bytes_of
from kdump.audit.verdicts.loss import LostNow, LostRange
from kdump.audit.verdicts.next_start import read_recovered, with_forecast
from kdump.audit.verdicts.verdict import Conclude, Coverage, Verdict
from kdump.commands.scrub.deadline import Deadline
from kdump.commands.scrub.reading import ScrubbedSegment, SegmentReader
from kdump.errors import KdumpError
from kdump.format.lines.text import time_text
from kdump.history.directories import register_directories
from kdump.history.due import Item, reading_order, take_inventory
from kdump.history.records import (
    DirectoryRun,
    DirectoryStatus,
    EndReason,
    SegmentRecord,
    decode_findings,
)
from kdump.history.state import ScrubState
from kdump.storage import workers
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.throttle import Pace, use_idle_cpu, use_idle_io
from kdump.ui.units import count_text
from kdump.values import frozen

#: The rate that is assumed without a limit, in bytes a second.
_ASSUMED_RATE: Final = 100_000_000
#: The least age at which runs are removed from the state.
_FORGET_MS: Final = 90 * 86_400_000


@frozen
class Manners:
    """How a run reads: the number of processes, and the rate in bytes a second, 0 for no limit.

    ``mapped`` maps the logs of stopped brokers. Otherwise everything is read as beside a running
    broker: when disks and CPUs are idle, and past the page cache.
    """

    jobs: int
    limit_rate: int
    mapped: bool


class _Found:
    """What was found in the segments of one target that were read in this run."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._lost: list[LostRange] = []
        self._unlisted = False
        self._covered = Coverage()

    def add(self, verdict: Verdict) -> None:
        """Add the verdict on one segment."""
        self._findings += verdict.findings
        self._lost += verdict.lost.ranges
        self._unlisted |= verdict.lost.unlisted
        self._covered += replace(verdict.covered, partitions=0, size=0)

    def add_removed(self, finding: Finding) -> None:
        """Add the finding of segments that are gone, and what is lost with them."""
        self._findings.append(finding)
        offsets = finding.offsets
        if finding.code.loses and offsets is not None and offsets.last is not None:
            records = Span(offsets.last + 1 - offsets.first, offsets.first, offsets.last)
            self._lost.append(LostRange(records, offsets.last + 1, blocks=False))

    def added_to(self, quick: Verdict, standing: Iterable[Finding], *, due: bool) -> Verdict:
        """Return the verdict of the quick pass with all findings, each once.

        ``standing`` are those of earlier runs. ``due``: not all of the target was read.
        """
        findings = {
            (finding.code.name, finding.path, finding.position): finding
            for finding in (*standing, *quick.findings, *self._findings)
        }
        ranges = {lost.offsets.first: lost for lost in (*quick.lost.ranges, *self._lost)}
        covered = Coverage(quick.covered.partitions, size=quick.covered.size) + self._covered
        lost = LostNow(
            tuple(ranges[first] for first in sorted(ranges)),
            quick.lost.unlisted or self._unlisted,
        )
        return replace(
            quick, quick=due, findings=tuple(findings.values()), covered=covered, lost=lost
        )


class Scrub:
    """One run. ``max_age_s`` is the age in seconds within which everything has to be read.

    ``too_large`` is the size of the largest segment that cannot be read within a whole run, None
    without one.
    """

    def __init__(
        self,
        state: ScrubState,
        scope: Scope,
        manners: Manners,
        deadline: Deadline,
        max_age_s: int,
        version: str,
    ) -> None:
        self._state = state
        self._scope = scope
        self._targets = scope.targets
        self.manners = manners
        self._deadline = deadline
        self._max_age_s = max_age_s
        self._version = version
        self._pace = Pace(manners.limit_rate) if manners.limit_rate else None
        self._verdicts: list[Verdict] = []
        self._found: dict[int, _Found] = defaultdict(_Found)
        self._begin_ms = _now_ms()
        self._run = state.begin_run(self._begin_ms, max_age_s)
        with state.transaction():
            self._directories = register_directories(state, scope.roots)
        self._items: dict[int, dict[int, Item]] = {}
        self._begun: dict[int, Item] = {}
        self._left_out = False
        self.too_large: int | None = None
        if not manners.mapped:
            use_idle_io()  # the workers too

    def quick_pass(self, conclude: Conclude) -> Iterator[Verdict]:
        """Yield the verdict of the quick pass on each target, in order."""
        verdicts = quick_pass(
            self._targets,
            self._scope.context,
            jobs=self.manners.jobs,
            small=Small.ENDS,
            conclude=conclude,
        )
        for verdict in self._deadline.until(verdicts):
            self._verdicts.append(verdict)
            yield verdict

    @property
    def checked_all(self) -> bool:
        """Whether the quick pass came to its end."""
        return len(self._verdicts) == len(self._targets)

    def take_inventory(self) -> int:
        """List all segments, and return the size in bytes of those that are due.

        The end of the time ends it too.
        """
        start = 0
        for directory, part in zip(self._directories, self._scope.parts, strict=True):
            numbers = range(start, start + len(part))
            start += len(part)
            if directory is None:
                continue
            with self._state.transaction():
                listed = take_inventory(
                    self._state,
                    directory,
                    numbers,
                    self._targets,
                    self._begin_ms,
                    self._find_removed,
                )
                for items in self._deadline.until(listed):
                    for item in items:
                        self._items.setdefault(item.number, {})[item.base_offset] = item
        return sum(item.record.log_bytes for item in self._due())

    def read(self, on_progress: Callable[[int], None]) -> None:
        """Read what is due, until nothing is or the time is over.

        ``on_progress`` gets counts of bytes that were read.
        """
        reader = SegmentReader(
            self._targets,
            self._scope.context,
            self._version,
            mapped=self.manners.mapped,
            pace=self._pace,
        )

        def work(item: Item, report: Callable[[int], None]) -> ScrubbedSegment | None:
            if not self.manners.mapped:
                use_idle_cpu()
            return reader.read(item, report)

        results = workers.run(work, self._tasks(), self.manners.jobs, on_progress=on_progress)
        for result in self._deadline.until(results):
            self._begun.pop(result.index, None)
            self._add(result)
        for item in self._begun.values():  # the next run begins with another one
            tried = replace(item.record, tried_ms=self._begin_ms)
            self._state.record(item.partition, tried)
            if item.record.tried_ms is not None:
                self.too_large = max(self.too_large or 0, item.record.log_bytes)

    def forecast_corrupt(self) -> None:
        """Read what decides what a start removes of corrupt logs, while there is time."""
        corrupt = [
            number
            for number, verdict in enumerate(self.verdicts())
            if verdict.forecast is not None and verdict.forecast.unread and _is_corrupt(verdict)
        ]
        for number in corrupt:  # until that is read
            verdict = self._verdicts[number]
            if verdict.forecast is not None:
                harms = verdict.forecast.harms | {Harm.UNREAD}
                forecast = replace(verdict.forecast, harms=harms)
                self._verdicts[number] = replace(verdict, forecast=forecast)
        for number, known in self._deadline.until(self._read_recovered(corrupt)):
            if known is not None and known.exact:
                self._verdicts[number] = replace(self._verdicts[number], forecast=known)

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on all targets so far, in order.

        They have the findings of the quick pass, of what was read in this run, and of what was read
        in earlier ones. They are ``quick`` where something is still due.
        """
        due = {item.number for item in self._due()}
        return [
            self._found[number].added_to(verdict, self._standing(number), due=number in due)
            for number, verdict in enumerate(self._verdicts)
        ]

    def end(self, directories: Sequence[DirectoryRun], *, signalled: bool) -> None:
        """Write the end of the run, with what it did in each root.

        What it did is left out if the quick pass did not come to its end: it says too little.
        """
        reason = EndReason.DONE
        if signalled:
            reason = EndReason.SIGNAL
        elif self._deadline.reached or self._left_out:
            reason = EndReason.DURATION
        pairs = zip(self._directories, directories, strict=True)
        done = {number: run for number, run in pairs if number is not None}
        self._state.end_run(self._run, _now_ms(), reason, done if self.checked_all else {})
        self._state.forget_runs(self._begin_ms - max(_FORGET_MS, 2000 * self._max_age_s))

    def status(self, now_ms: int) -> list[DirectoryStatus]:
        """Return the state of the roots after the end of the run."""
        known = [number for number in self._directories if number is not None]
        return list(self._state.status(now_ms, known))

    def _find_removed(
        self, number: int, target: Target, gone: Sequence[SegmentRecord]
    ) -> Collection[int]:
        """Return which of the segments ``gone`` no broker can have deleted, and report them."""
        facts = gather(target, self._scope.context)
        if facts is None:
            return ()
        log_bytes = sum(map(log_bytes_of, target.segments))
        removed = removed_segments(facts, gone, log_bytes, self._begin_ms)
        if removed is None:
            return ()
        self._found[number].add_removed(removed.finding)
        return removed.base_offsets

    def _read_recovered(
        self, numbers: Iterable[int]
    ) -> Generator[tuple[int, Forecast | None], None, None]:
        """Yield the forecasts of targets, from all segments that decide them."""
        for number in numbers:
            targets, context = self._targets[number : number + 1], self._scope.context
            verdicts = list(quick_pass(targets, context, jobs=1, conclude=with_forecast))
            read = read_recovered(
                verdicts, jobs=self.manners.jobs, mapped=self.manners.mapped, pace=self._pace
            )
            for verdict in read:
                yield number, verdict.forecast

    def _due(self) -> list[Item]:
        now_ms = _now_ms()
        return [
            item
            for items in self._items.values()
            for item in items.values()
            if item.record.is_due(now_ms, self._max_age_s)
        ]

    def _tasks(self) -> Iterator[Item]:
        """Yield what is due in the order of reading, but what takes longer than the time left.

        The rate of its read is taken for the limit: a slower disk shows amid the read.
        """
        whole, number = self._deadline.left, 0
        rate = self.manners.limit_rate or _ASSUMED_RATE
        for item in sorted(self._due(), key=reading_order):
            seconds = item.record.log_bytes / rate
            if seconds <= self._deadline.left:
                self._begun[number] = item
                number += 1
                yield item
                continue
            self._left_out = True
            if seconds > whole:
                self.too_large = max(self.too_large or 0, item.record.log_bytes)

    def _add(self, result: workers.Result[Item, ScrubbedSegment | None]) -> None:
        item, value = result.task, result.value
        if isinstance(value, KdumpError):
            raise value
        of_partition = self._items[item.number]
        if isinstance(value, workers.WorkerDied):
            target = self._targets[item.number]
            finding = killed_reader(target.path, value, target)
            verdict = Verdict(target, (), (finding,), None, Coverage())
            self._found[item.number].add(verdict)
        elif value is None:
            del of_partition[item.base_offset]
        else:
            self._found[item.number].add(value.verdict)
            if value.record is not None:
                self._state.record(item.partition, value.record)
                of_partition[item.base_offset] = replace(item, record=value.record)

    def _standing(self, number: int) -> Iterator[Finding]:
        """Yield the findings of a target's segments that were read in earlier runs."""
        path = self._targets[number].path
        for item in self._items.get(number, {}).values():
            reading = item.record.reading
            if reading is not None and reading.read_ms < self._begin_ms:
                for finding in decode_findings(reading.findings, path):
                    yield _as_of(finding, reading.read_ms)


def _is_corrupt(verdict: Verdict) -> bool:
    """Return whether a start may truncate the log at something that was found."""
    cuts = Cure.CUT, Cure.CUT_IF_REFUSED
    return any(finding.code.cure in cuts for finding in verdict.findings)


def _as_of(finding: Finding, read_ms: int) -> Finding:
    detail = finding.detail
    if detail is not None:
        detail = Detail(detail.expected, f"{detail.found}; read at {time_text(read_ms)}")
    return replace(finding, detail=detail)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- Sealed segments that are gone before retention could delete them.
# These are the first segments of a log. Holes between segments show in the log itself, and a
# follower may truncate the end of its log: these are not looked for.


@frozen
class RemovedSegments:
    """Segments, by their base offsets, that something else than a broker removed."""

    base_offsets: tuple[int, ...]
    finding: Finding


def removed_segments(
    facts: PartitionFacts, gone: Sequence[SegmentRecord], log_bytes: int, now_ms: int
) -> RemovedSegments | None:
    """Return those of the segments ``gone`` that no broker can have deleted; None without any.

    ``gone`` ascend by base offset. ``log_bytes`` is the size of what is left.
    """
    shown = missing_start(facts)
    missing = shown or missing_unseen(facts)
    if missing is None:
        return None
    # DeleteRecords leaves the first leader epoch at the first segment, and a log start offset that
    # is not written down if it is there too.
    explained = shown is None and first_line(facts) is not None
    records = [
        record
        for record in gone
        if record.sealed and missing.first <= record.base_offset <= missing.last
    ]
    readings = [record.reading for record in records if record.reading is not None]
    if not readings:
        return None
    stamps = [reading.max_timestamp for reading in readings]
    youngest_ms = max((stamp for stamp in stamps if stamp is not None and stamp >= 0), default=None)
    if retention_deletes(facts, missing, log_bytes, now_ms, youngest_ms) is not False:
        return None
    bases = tuple(record.base_offset for record in records)
    last_read_ms = max(reading.read_ms for reading in readings)
    finding = file_finding(
        SEGMENT_REMOVED_UNPROVEN if explained else SEGMENT_REMOVED,
        facts.partition.path / format_file_name(FileKind.LOG, bases[0]),
        f"{count_text(len(bases), 'sealed segment')} from offset {bases[0]} on, last read at "
        f"{time_text(last_read_ms)}",
        f"a log that begins at offset {missing.last + 1}",
        offsets=Offsets(bases[0], missing.last),
    )
    return RemovedSegments(bases, finding)
