"""verify(): surveys every segment over a pool of workers, and judges each partition in turn.

``assign()`` lists what there is to read, ``verify()`` reads it. Partitions come out in the order
in which they were listed, however the workers finish.

Spec: none of Kafka's. A bad, unreadable or vanished file becomes a finding.
It must never map a file where a broker may be running, and never print.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kdump.audit import codes
from kdump.audit.checks.batches import check_segment, check_sequence
from kdump.audit.checks.indexes import check_indexes
from kdump.audit.findings import Detail, Finding
from kdump.audit.survey import Survey, survey
from kdump.errors import KdumpError, SourceError, UsageError, VanishedError
from kdump.storage import workers
from kdump.storage.liveness import Liveness, State, liveness
from kdump.storage.logdir import (
    Entry,
    LogDirectory,
    Partition,
    Segment,
    Target,
    open_path,
    read_partition,
)


@dataclass(frozen=True, slots=True)
class Root:
    """A path as somebody typed it, what it is, and whether a broker uses it.

    ``target`` is the error where that cannot be said; ``liveness`` is None then.
    """

    path: Path
    target: Target | SourceError
    liveness: Liveness | None

    @property
    def stopped(self) -> bool:
        """Whether surely no broker uses it; what is unknown is taken for live."""
        return self.liveness is not None and self.liveness.state is State.STOPPED


@dataclass(frozen=True, slots=True)
class Group:
    """Segments that are judged together: a partition, or one segment of it alone.

    ``path`` is the partition directory or the segment's log. ``next_base`` is the base offset of
    the segment behind the last of them, None if that is the partition's last. ``error`` is set
    where the directory could not be listed.
    """

    path: Path
    segments: tuple[Segment, ...]
    next_base: int | None
    stopped: bool
    size: int
    error: SourceError | None = None


@dataclass(frozen=True, slots=True)
class Covered:
    """How much was looked at: sums over segments.

    ``size`` is the bytes of all logs when they were listed, ``read_bytes`` those that were read.
    ``wrappers`` are those of magic 0 and 1 whose records could not be counted without reading them.
    """

    partitions: int = 0
    segments: int = 0
    size: int = 0
    read_bytes: int = 0
    batches: int = 0
    control_batches: int = 0
    records: int = 0
    wrappers: int = 0

    def __add__(self, other: Covered) -> Covered:
        return Covered(
            self.partitions + other.partitions,
            self.segments + other.segments,
            self.size + other.size,
            self.read_bytes + other.read_bytes,
            self.batches + other.batches,
            self.control_batches + other.control_batches,
            self.records + other.records,
            self.wrappers + other.wrappers,
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """One group after all its checks; ``surveys`` are of those segments that could be surveyed."""

    group: Group
    surveys: tuple[Survey, ...]
    findings: tuple[Finding, ...]

    @property
    def covered(self) -> Covered:
        """What was looked at in this group."""
        surveys = self.surveys
        return Covered(
            partitions=int(self.group.error is None),
            segments=sum(survey.complete for survey in surveys),
            size=self.group.size,
            read_bytes=sum(survey.read_bytes for survey in surveys),
            batches=sum(survey.batches for survey in surveys),
            control_batches=sum(survey.control_batches for survey in surveys),
            records=sum(survey.records for survey in surveys),
            wrappers=sum(survey.wrappers for survey in surveys),
        )


@dataclass(frozen=True, slots=True)
class _Task:
    group: int
    segment: Segment
    mapped: bool
    sealed: bool
    deep: bool


def open_roots(paths: Iterable[Path]) -> Iterator[Root]:
    """Say of each path what it is and whether a broker uses it.

    Raises UsageError for a file that holds no batches and stands beside none.
    """
    for path in paths:
        try:
            target, state = open_path(path), liveness(path)
        except SourceError as error:
            yield Root(path, error, None)
            continue
        if isinstance(target, Entry):
            raise UsageError(
                f"{path}: expected a segment, a partition directory or a log directory, found a "
                f"file of another kind ({target.name.kind.value})"
            )
        yield Root(path, target, state)


def assign(root: Root) -> tuple[Group, ...]:
    """List what there is to judge; a directory that cannot be listed is a group with an error."""
    return tuple(_groups(root))


def verify(
    groups: Sequence[Group],
    *,
    deep: bool,
    jobs: int,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Judged, None, None]:
    """Survey and judge ``groups`` in at most ``jobs`` workers; every group comes out, in order.

    ``on_progress`` gets counts of bytes of logs that were read since its last call. Leaving early
    ends the workers.
    """
    results: dict[int, list[Survey | Finding]] = {number: [] for number in range(len(groups))}
    next_up = 0

    def complete() -> Iterator[Judged]:
        nonlocal next_up
        while next_up < len(groups) and len(results[next_up]) == len(groups[next_up].segments):
            yield _judge(groups[next_up], results.pop(next_up))
            next_up += 1

    outcomes = workers.run(
        _survey, _tasks(groups, deep=deep), jobs, retry=_unmapped, on_progress=on_progress
    )
    with closing(outcomes):
        for outcome in outcomes:
            group = groups[outcome.task.group]
            results[outcome.task.group].append(_result(group, outcome))
            yield from complete()
    yield from complete()


def _groups(root: Root) -> Iterator[Group]:
    target = root.target
    if isinstance(target, LogDirectory):
        for partition in target.partitions():
            yield _group(partition, root)
    elif isinstance(target, Segment):
        yield _lone(target, root)
    elif isinstance(target, Partition | SourceError):
        yield _group(target, root)


def _group(partition: Partition | SourceError, root: Root) -> Group:
    if isinstance(partition, SourceError):
        # A path that was asked for by name must be there, broker or not.
        stopped = root.stopped or partition is root.target
        return Group(Path(partition.path), (), None, stopped, 0, partition)
    segments = partition.segments
    return Group(partition.path, segments, None, root.stopped, sum(map(_size, segments)))


def _lone(segment: Segment, root: Root) -> Group:
    following = None
    with suppress(SourceError):  # the file itself can be read even where its directory cannot
        bases = [other.base_offset for other in read_partition(segment.log.parent).segments]
        following = min((base for base in bases if base > segment.base_offset), default=None)
    return Group(segment.log, (segment,), following, root.stopped, _size(segment))


def _size(segment: Segment) -> int:
    """The bytes of its log, 0 where that cannot be said: opening it will tell."""
    try:
        return segment.log.stat().st_size
    except OSError:
        return 0


def _tasks(groups: Sequence[Group], *, deep: bool) -> Iterator[_Task]:
    for number, group in enumerate(groups):
        for segment in group.segments:
            last = group.next_base is None and segment is group.segments[-1]
            yield _Task(number, segment, mapped=group.stopped, sealed=not last, deep=deep)


def _survey(task: _Task, report: Callable[[int], None]) -> Survey:
    return survey(task.segment, report, mapped=task.mapped, sealed=task.sealed, deep=task.deep)


def _unmapped(task: _Task, died: workers.Died) -> _Task | None:
    # The file was cut while it was mapped: somebody writes there after all.
    if died.signal == signal.SIGBUS and task.mapped:
        return replace(task, mapped=False)
    return None


def _result(group: Group, outcome: workers.Outcome[_Task, Survey]) -> Survey | Finding:
    value = outcome.value
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.Died):
        return Finding(
            codes.UNREADABLE,
            outcome.task.segment.log,
            detail=Detail("a reader that ends by itself", f"one that {value.label} killed"),
            remedy=_again(group.path),
        )
    return value


def _judge(group: Group, results: Sequence[Survey | Finding]) -> Judged:
    surveys = tuple(
        sorted(
            (result for result in results if isinstance(result, Survey)),
            key=lambda survey: survey.segment.base_offset,
        )
    )
    findings = [result for result in results if isinstance(result, Finding)]
    if group.error is not None:
        vanished = isinstance(group.error, VanishedError)
        findings.append(_unread(group, group.path, str(group.error), vanished=vanished))
    following = {
        segment.base_offset: after.base_offset
        for segment, after in zip(group.segments, group.segments[1:], strict=False)
    }
    for one in surveys:
        next_base = following.get(one.segment.base_offset, group.next_base)
        findings += check_segment(one, next_base, live=not group.stopped)
        findings += check_indexes(one, sealed=next_base is not None)
        findings += (
            _unread(group, unread.path, unread.text, vanished=unread.vanished)
            for unread in one.unread
        )
    findings += check_sequence(surveys)
    return Judged(group, surveys, tuple(findings))


def _unread(group: Group, path: Path, text: str, *, vanished: bool) -> Finding:
    code = codes.UNREADABLE
    if vanished:
        code = codes.VANISHED if group.stopped else codes.VANISHED_LIVE
    return Finding(
        code,
        path,
        detail=Detail("something that can be read", f"an error: {text}"),
        remedy=None if code is codes.VANISHED_LIVE else _again(group.path),
    )


def _again(path: Path) -> tuple[str, ...]:
    return "kdump", "verify", os.fspath(path)
