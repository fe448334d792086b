"""Which producer snapshots a loader deletes and writes, and which segments it replays for them.

Spec: ``UnifiedLog.rebuildProducerState``, ``ProducerStateManager.truncateAndReload``,
``takeSnapshot`` and ``removeStraySnapshots``; KOD 5, 7. It must never look at producers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Snapshots:
    """The snapshot files of a partition while it is loaded, and the manager that is at work.

    ``files`` says of each offset whether its snapshot can be read. ``map_end`` is the offset up to
    which the manager knows the producers, ``last`` that of its last snapshot.
    """

    files: dict[int, bool]
    map_end: int = 0
    last: int = 0

    def take(self) -> None:
        """Write a snapshot, if there is anything new to be said."""
        if self.map_end > self.last:
            self.files[self.map_end] = True
            self.last = self.map_end

    def remove_stray(self, bases: Collection[int]) -> None:
        """Delete those of no segment; the newest of them stays if it lies above the last one."""
        strays = sorted(set(self.files).difference(bases))
        if strays and strays[-1] >= max(bases):
            strays.pop()
        for offset in strays:
            del self.files[offset]

    def rebuild(
        self, bases: list[int], log_start: int, last_offset: int, *, trusting: bool
    ) -> Iterator[tuple[int, int]]:
        """Start a manager and bring it to ``last_offset``.

        ``bases`` are those of the segments that are open, ascending. ``trusting``: after a clean
        stop, where no snapshot means that there was no producer. Gives (base, start offset) of the
        segments that are replayed on the way.
        """
        self.map_end = self.last = 0
        told = {*bases[-2:], last_offset}
        if trusting and not self.files:
            for offset in (*bases[-2:], last_offset):
                self.map_end = offset
                self.take()
            return
        self._reload(log_start, last_offset)
        if last_offset > self.map_end and last_offset > 0:
            for base in _holding(bases, self.map_end, last_offset):
                self.map_end = max(base, self.map_end, log_start)
                if base in told:
                    self.take()
                yield base, self.map_end
        self.map_end = last_offset
        self.take()

    def _reload(self, log_start: int, last_offset: int) -> None:
        for offset in [o for o in self.files if o > last_offset or o <= log_start]:
            del self.files[offset]
        if last_offset == 0:
            self.map_end = max(self.map_end, log_start)
            self.last = max(self.files, default=log_start)
            return
        while self.files and not self.files[max(self.files)]:
            del self.files[max(self.files)]
        self.map_end = self.last = max(self.files, default=log_start)


def _holding(bases: list[int], start: int, stop: int) -> list[int]:
    """The segments that hold offsets from ``start`` up to ``stop``, as far as bases can say."""
    floor = max((base for base in bases if base <= start), default=None)
    return [base for base in bases if (floor is None or base >= floor) and base < stop]
