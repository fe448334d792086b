"""The logs of the new partition.

A broker reads an offset in the last segment whose base offset is not above it.

Spec: ``LogSegment``, ``LogSegments.floorSegment``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from kdump.commands.salvage.marker import NewMarker
from kdump.commands.salvage.selection import PieceSelection
from kdump.commands.salvage.stretches import Stretch
from kdump.errors import SourceError
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.source import WINDOW_BYTES, Identity
from kdump.values import frozen


@frozen
class SalvagedLog:
    """The log of a new segment: the bytes of ``stretches`` of old log ``number``, in order.

    The ``markers`` are inserted in the order of offsets.
    """

    number: int
    base_offset: int
    stretches: tuple[Stretch, ...]
    markers: tuple[NewMarker, ...] = ()

    @property
    def size(self) -> int:
        """The size in bytes."""
        taken = sum(stretch.stop - stretch.start for stretch in self.stretches)
        return taken + sum(len(marker.data) for marker in self.markers)

    def parts(self) -> Iterator[Stretch | NewMarker]:
        """Yield its stretches and markers in the order of offsets."""
        markers = list(self.markers)
        for stretch in self.stretches:
            while markers and markers[0].offset < stretch.first_offset:
                yield markers.pop(0)
            yield stretch
        yield from markers

    def pieces(self, selection: PieceSelection) -> Iterator[bytes]:
        """Yield its bytes. Raises SourceError, also if the old log has been replaced."""
        if not self.stretches:
            yield from (marker.data for marker in self.markers)
            return
        segment, identity = selection.segments[self.number], selection.identities[self.number]
        path = segment.log
        with selection.opener(segment) as source:
            if identity is None or not _is_continuation(source.identity, identity):
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


def _is_continuation(now: Identity, before: Identity) -> bool:
    """Return whether it is the same file, unchanged or longer than before."""
    if (now.device, now.inode) != (before.device, before.inode):
        return False
    return now == before or now.size > before.size


def new_logs(selection: PieceSelection) -> tuple[SalvagedLog, ...]:
    """Return the new logs in order, at least one if ``selection`` has segments.

    A log keeps its base offset, unless the log before reaches beyond it. A log of which nothing is
    taken is left out. The last log stays even if it is empty, so that the log end offset does not
    fall below its base offset.
    """
    taken: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in selection.stretches:
        taken[stretch.log].append(stretch)
    last = max(
        (number for number, segment in enumerate(selection.segments) if not segment.suffix),
        default=-1,
    )
    logs: list[SalvagedLog] = []
    end = -1
    for number, segment in enumerate(selection.segments):
        stretches = tuple(taken[number])
        base = max(segment.base_offset, end + 1)
        if stretches:
            end = stretches[-1].last_offset
        elif number != last or base != segment.base_offset:
            continue
        logs.append(SalvagedLog(number, base, stretches))
    if not logs and selection.segments:
        logs.append(SalvagedLog(0, selection.segments[0].base_offset, ()))
    bases = [log.base_offset for log in logs]
    of_log: dict[int, list[NewMarker]] = defaultdict(list)
    for marker in selection.markers:
        of_log[max(bisect_right(bases, marker.offset) - 1, 0)].append(marker)
    return tuple(replace(log, markers=tuple(of_log[number])) for number, log in enumerate(logs))


def log_name(log: SalvagedLog) -> str:
    """Return the file name of a new log."""
    return format_file_name(FileKind.LOG, log.base_offset)


def old_position(log: SalvagedLog, position: int) -> int:
    """Return the position in the old log of a byte of the new log."""
    for part in log.parts():
        size = len(part.data) if isinstance(part, NewMarker) else part.stop - part.start
        if position < size and not isinstance(part, NewMarker):
            return part.start + position
        position -= size
    raise ValueError(
        f"expected a position in the log, found a position {position} bytes after its end"
    )
