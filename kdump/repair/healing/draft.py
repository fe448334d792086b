"""The logs of a healed partition, as parts of their old logs and of copies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from kdump.errors import VanishedError
from kdump.repair.healing.alignment import BatchRun
from kdump.repair.healing.own_log import OwnSegment, read_segment
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights, acting
from kdump.storage.source import Closing, Identity, Source
from kdump.values import frozen


class LogPart(NamedTuple):
    """The ``size`` bytes from ``position`` on of the log at ``path``; None for the old log.

    ``rights`` are those to open it with, None for those that this process has. ``content`` takes
    the place of these bytes, if there is any.
    """

    path: AnyPath | None
    position: int
    size: int
    rights: Rights | None = None
    content: bytes = b""


@frozen
class Draft:
    """A log of ``size`` bytes: ``runs`` of copies, and between them the bytes of its old log.

    The runs ascend and do not overlap. ``own`` is what a walk over it finds. ``old_size`` is the
    size of its old log, None for a new log.
    """

    own: OwnSegment
    size: int
    old_size: int | None
    runs: tuple[BatchRun, ...] = ()

    @property
    def segment(self) -> Segment:
        """The segment of the log."""
        return self.own.segment

    @property
    def changed(self) -> bool:
        """Whether the log differs from the old one."""
        return bool(self.runs) or self.size != self.old_size

    def parts(self) -> Iterator[LogPart]:
        """Yield its parts in order."""
        position = 0
        for run in self.runs:
            if run.at > position:
                yield LogPart(None, position, run.at - position)
            yield LogPart(run.log, run.position, run.size, run.rights)
            position = run.at + run.size
        if position < self.size:
            yield LogPart(None, position, self.size - position)

    def open(self) -> PartsSource:
        """Return a source of its bytes. Raises SourceError."""
        return PartsSource(self.segment.log, self.parts())

    def with_runs(self, runs: Iterable[BatchRun], size: int) -> Draft:
        """Return the draft with more runs, and ``size`` bytes. Raises SourceError."""
        together = tuple(sorted((*self.runs, *runs), key=lambda run: run.at))
        draft = replace(self, runs=together, size=size)
        with draft.open() as source:
            return replace(draft, own=read_segment(self.segment, source))


class PartsSource(Closing):
    """A Source over parts of several logs, one after the other; ``log`` is the old log.

    ``identity`` is that of the old log, or of the first part. A window raises VanishedError if a
    log ends before its part does: a broker has truncated it since it was opened.
    """

    def __init__(self, log: AnyPath, parts: Iterable[LogPart]) -> None:
        self._stack = ExitStack()
        self._sources: dict[AnyPath, Source] = {}
        self._parts: list[LogPart] = []
        self._starts: list[int] = []
        self.size, self.path = 0, log
        for part in parts:
            self._parts.append(part)
            self._starts.append(self.size)
            self.size += part.size
        self.identity: Identity = self._open(self._parts[0] if self._parts else None).identity

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """See ``Source.window``."""
        wanted = min(at_least, self.size - position)
        if wanted <= 0:
            return memoryview(b"")
        index = self._index_of(position)
        inside = position - self._starts[index]
        if self._parts[index].size - inside >= wanted:
            return self._piece(index, inside, wanted)
        data = bytearray()
        while len(data) < wanted:
            index = self._index_of(position + len(data))
            inside = position + len(data) - self._starts[index]
            count = min(self._parts[index].size - inside, wanted - len(data))
            data += self._piece(index, inside, count)[:count]
        return memoryview(bytes(data))

    def close(self) -> None:
        """See ``Source.close``."""
        self._stack.close()

    def _index_of(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _piece(self, index: int, inside: int, count: int) -> memoryview:
        """Return at least ``count`` bytes from position ``inside`` of a part on, to its end."""
        part = self._parts[index]
        if part.content:
            return memoryview(part.content)[inside:]
        at, source = part.position + inside, self._open(part)
        piece = source.window(at, count)[: part.size - inside]
        if len(piece) < count:
            raise VanishedError(
                source.path,
                f"{source.path}: expected {count} bytes at position {at}, found the end of the "
                f"file at {at + len(piece)}: it was truncated since it was opened; run the command "
                "again",
            )
        return piece

    def _open(self, part: LogPart | None) -> Source:
        path = self.path if part is None or part.path is None else part.path
        if path not in self._sources:
            # A copy may belong to a running broker.
            sealed = part is None or part.path is None
            with acting(None if part is None else part.rights):
                source = open_source(path, mapped=False, sealed=sealed)
            self._sources[path] = self._stack.enter_context(source)
        return self._sources[path]


def new_draft(segment: Segment, runs: Iterable[BatchRun]) -> Draft:
    """Return the log of a new segment that consists of ``runs``. Raises SourceError."""
    laid: list[BatchRun] = []
    size = 0
    for run in runs:
        laid.append(replace(run, at=size))
        size += run.size
    empty = Draft(OwnSegment(segment, 0, ()), 0, None)
    return empty.with_runs(laid, size)


def uncovered(run: BatchRun, covered: Iterable[BatchRun]) -> Iterator[BatchRun]:
    """Yield the parts of ``run`` that none of the runs in ``covered``, which ascend, covers."""
    at, stop = run.at, run.at + run.size
    for other in covered:
        if other.at + other.size <= at or other.at >= stop:
            continue
        if other.at > at:
            yield _part(run, at, other.at)
        at = other.at + other.size
    if at < stop:
        yield _part(run, at, stop)


def _part(run: BatchRun, at: int, stop: int) -> BatchRun:
    return replace(run, at=at, size=stop - at, position=run.position + at - run.at)
