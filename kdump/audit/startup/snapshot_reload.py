"""The producer snapshots that a loader deletes and writes, and the segments it reads for them.

Spec: ``UnifiedLog.rebuildProducerState``, ``ProducerStateManager.truncateAndReload``,
``takeSnapshot`` and ``removeStraySnapshots``; KOD 5, 7.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set


class SnapshotError(Exception):
    """A file cannot be written or removed, and a loader gets an I/O error."""

    def __init__(self, text: str = "its user may not change the files of the directory") -> None:
        super().__init__(text)


class Snapshots:
    """The snapshot files of a partition during loading, and the producer state manager.

    ``map_end`` is the offset up to which the manager knows the producers, ``last`` the offset of
    its last snapshot. A loader rebuilds the state for every segment that it recovers, so that a
    rebuild must not take time proportional to the number of segments.
    """

    def __init__(
        self, files: Mapping[int, bool], blocked: Set[int] = frozenset(), *, writable: bool = True
    ) -> None:
        """Take the existing snapshots; ``files`` has, by offset, whether each is readable.

        At ``blocked`` offsets the name of the snapshot is taken by what is no file. ``writable``:
        the loader may make and remove files. Otherwise its first change raises SnapshotError.
        """
        self.map_end = self.last = 0
        self._blocked, self._writable = blocked, writable
        self._readable = dict(files)
        self._offsets = sorted(files)

    @property
    def offsets(self) -> frozenset[int]:
        """The offsets of all snapshot files."""
        return frozenset(self._offsets)

    def remove(self, offsets: Iterable[int]) -> None:
        """Delete the snapshots at ``offsets`` that exist."""
        removed = [offset for offset in offsets if self._readable.pop(offset, None) is not None]
        if removed:
            self._change()
            self._offsets = sorted(self._readable)

    def take(self) -> None:
        """Write a snapshot if the state has advanced since the last one."""
        if self.map_end > self.last:
            if self.map_end in self._blocked:
                raise SnapshotError(f"what is no file has the name of the snapshot {self.map_end}")
            if self.map_end not in self._readable:
                self._change()
                insort(self._offsets, self.map_end)
            self._readable[self.map_end] = True
            self.last = self.map_end

    def remove_stray(self, bases: Sequence[int]) -> None:
        """Delete snapshots at no segment's base, except the newest if it is above the last base."""
        known = set(bases)
        strays = [offset for offset in self._offsets if offset not in known]
        if strays and strays[-1] >= bases[-1]:
            strays.pop()
        self.remove(strays)

    def rebuild(
        self, bases: Sequence[int], log_start: int, last_offset: int, *, clean: bool
    ) -> Iterator[tuple[int, int]]:
        """Rebuild the producer state up to ``last_offset``.

        ``bases`` are the base offsets of the open segments, ascending. ``clean``: after a clean
        stop, when no snapshot means that there was no producer. Yields (base offset, start offset)
        of the segments that are replayed.
        """
        self.map_end = self.last = 0
        snapshot_offsets = {*bases[-2:], last_offset}
        if clean and not self._offsets:
            for offset in (*bases[-2:], last_offset):
                self.map_end = offset
                self.take()
            return
        self._reload(log_start, last_offset)
        if last_offset > self.map_end and last_offset > 0:
            for base in _segments_between(bases, self.map_end, last_offset):
                self.map_end = max(base, self.map_end, log_start)
                if base in snapshot_offsets:
                    self.take()
                yield base, self.map_end
        self.map_end = last_offset
        self.take()

    def _reload(self, log_start: int, last_offset: int) -> None:
        self._drop(bisect_right(self._offsets, last_offset), len(self._offsets))
        self._drop(0, bisect_right(self._offsets, log_start))
        if last_offset == 0:
            self.map_end = max(self.map_end, log_start)
            self.last = self._newest(log_start)
            return
        while self._offsets and not self._readable[self._offsets[-1]]:
            self._drop(len(self._offsets) - 1, len(self._offsets))
        self.map_end = self.last = self._newest(log_start)

    def _change(self) -> None:
        if not self._writable:
            raise SnapshotError

    def _drop(self, start: int, stop: int) -> None:
        if stop > start:
            self._change()
        for offset in self._offsets[start:stop]:
            del self._readable[offset]
        del self._offsets[start:stop]

    def _newest(self, default: int) -> int:
        return self._offsets[-1] if self._offsets else default


def _segments_between(bases: Sequence[int], start: int, stop: int) -> Sequence[int]:
    """Return the bases of the segments that hold offsets from ``start`` up to ``stop``."""
    floor = max(bisect_right(bases, start) - 1, 0)
    return bases[floor : bisect_left(bases, stop)]
