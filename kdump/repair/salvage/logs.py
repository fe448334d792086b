"""The logs of the new partition.

Spec: ``LogSegment``, ``LogSegments.floorSegment``: a consumer's offset leads to the last segment
whose base is not above it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kdump.errors import SourceError
from kdump.repair.salvage.marker import NewMarker
from kdump.repair.salvage.selection import PieceSelection
from kdump.repair.salvage.stretches import Stretch
from kdump.storage.access import open_source
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.source import WINDOW_BYTES, Identity


@dataclass(frozen=True, slots=True)
class NewLog:
    """The log of a new segment: the bytes of ``stretches`` of old log ``number``, in order.

    Each of the ``markers`` stands where its offset belongs.
    """

    number: int
    base_offset: int
    stretches: tuple[Stretch, ...]
    markers: tuple[NewMarker, ...] = ()

    @property
    def size(self) -> int:
        """Its bytes."""
        taken = sum(stretch.stop - stretch.start for stretch in self.stretches)
        return taken + sum(len(marker.data) for marker in self.markers)

    def parts(self) -> Iterator[Stretch | NewMarker]:
        """Yield what it is made of, by offset."""
        markers = list(self.markers)
        for stretch in self.stretches:
            while markers and markers[0].offset < stretch.first_offset:
                yield markers.pop(0)
            yield stretch
        yield from markers

    def pieces(self, selection: PieceSelection) -> Iterator[bytes]:
        """Read its bytes. Raises SourceError, also where the old log was replaced meanwhile."""
        if not self.stretches:
            yield from (marker.data for marker in self.markers)
            return
        path, identity = selection.segments[self.number].log, selection.identities[self.number]
        with open_source(path, mapped=False) as source:
            if identity is None or not _goes_on(source.identity, identity):
                raise SourceError(
                    path,
                    f"{path}: expected the file that was read before, found that it was "
                    "replaced: run the command again",
                )
            for part in self.parts():
                if isinstance(part, NewMarker):
                    yield part.data
                    continue
                position = part.start
                while position < part.stop:
                    view = source.window(position)[: min(WINDOW_BYTES, part.stop - position)]
                    yield bytes(view)
                    position += len(view)


def _goes_on(now: Identity, before: Identity) -> bool:
    """Whether it is the same file, at the most longer than before."""
    if (now.device, now.inode) != (before.device, before.inode):
        return False
    return now == before or now.size > before.size


def new_logs(selection: PieceSelection) -> tuple[NewLog, ...]:
    """The logs that are written, ascending; at least one if there is any to read.

    A log keeps its base offset, unless the one before reaches beyond that. One of which nothing is
    taken is left out. The last one stays, empty: where the log goes on must not lie below its base.
    """
    taken: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in selection.stretches:
        taken[stretch.log].append(stretch)
    last = max((n for n, each in enumerate(selection.segments) if not each.suffix), default=-1)
    logs: list[NewLog] = []
    end = -1
    for number, segment in enumerate(selection.segments):
        stretches = tuple(taken[number])
        base = max(segment.base_offset, end + 1)
        if stretches:
            end = stretches[-1].last_offset
        elif number != last or base != segment.base_offset:
            continue
        logs.append(NewLog(number, base, stretches))
    if not logs and selection.segments:
        logs.append(NewLog(0, selection.segments[0].base_offset, ()))
    bases = [log.base_offset for log in logs]
    of_log: dict[int, list[NewMarker]] = defaultdict(list)
    for marker in selection.markers:
        of_log[max(bisect_right(bases, marker.offset) - 1, 0)].append(marker)
    return tuple(replace(log, markers=tuple(of_log[at])) for at, log in enumerate(logs))


def log_name(log: NewLog) -> str:
    """The name of a new log."""
    return format_file_name(FileKind.LOG, log.base_offset)


def old_position(log: NewLog, position: int) -> int:
    """Where a byte of a new log stood in the old one."""
    for part in log.parts():
        size = len(part.data) if isinstance(part, NewMarker) else part.stop - part.start
        if position < size and not isinstance(part, NewMarker):
            return part.start + position
        position -= size
    raise ValueError(
        f"expected a position in the log, found a position {position} bytes after its end"
    )
