"""new_logs(): the logs that a salvage writes, each from what was picked of one old log.

Spec: ``LogSegment``, ``LogSegments.floorSegment``: a consumer's offset leads to the last segment
whose base is not above it. It must never let two logs share an offset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kdump.errors import SourceError
from kdump.repair.picking import Picked
from kdump.repair.stretches import Stretch
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.source import WINDOW_BYTES, Identity, open_source


@dataclass(frozen=True, slots=True)
class NewLog:
    """The log of a new segment: the bytes of ``stretches`` of old log ``number``, in order."""

    number: int
    base_offset: int
    stretches: tuple[Stretch, ...]

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(stretch.stop - stretch.start for stretch in self.stretches)

    def pieces(self, picked: Picked) -> Iterator[bytes]:
        """Read its bytes. Raises SourceError, also where the old log was replaced meanwhile."""
        if not self.stretches:
            return
        path, identity = picked.segments[self.number].log, picked.identities[self.number]
        with open_source(path, mapped=False) as source:
            if identity is None or not _goes_on(source.identity, identity):
                raise SourceError(
                    path, f"{path}: expected the file as it was read, found that it was replaced"
                )
            for stretch in self.stretches:
                position = stretch.start
                while position < stretch.stop:
                    view = source.window(position)[: min(WINDOW_BYTES, stretch.stop - position)]
                    yield bytes(view)
                    position += len(view)


def _goes_on(now: Identity, before: Identity) -> bool:
    """Whether it is the same file, at the most longer than before."""
    if (now.device, now.inode) != (before.device, before.inode):
        return False
    return now == before or now.size > before.size


def new_logs(picked: Picked) -> tuple[NewLog, ...]:
    """The logs that are written, ascending; at least one if there is any to read.

    A log keeps its base offset, unless the one before reaches beyond that. One of which nothing is
    taken is left out. The last one stays, empty: where the log goes on must not lie below its base.
    """
    taken: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in picked.stretches:
        taken[stretch.log].append(stretch)
    last = max((n for n, each in enumerate(picked.segments) if not each.suffix), default=-1)
    logs: list[NewLog] = []
    end = -1
    for number, segment in enumerate(picked.segments):
        stretches = tuple(taken[number])
        base = max(segment.base_offset, end + 1)
        if stretches:
            end = stretches[-1].last_offset
        elif number != last or base != segment.base_offset:
            continue
        logs.append(NewLog(number, base, stretches))
    if not logs and picked.segments:
        logs.append(NewLog(0, picked.segments[0].base_offset, ()))
    return tuple(logs)


def log_name(log: NewLog) -> str:
    """The name of a new log."""
    return format_file_name(FileKind.LOG, log.base_offset)


def old_position(log: NewLog, position: int) -> int:
    """Where a byte of a new log stood in the old one."""
    for stretch in log.stretches:
        size = stretch.stop - stretch.start
        if position < size:
            return stretch.start + position
        position -= size
    raise ValueError(f"expected a position in the log, found one {position} bytes behind it")
