"""The segments that a scrub has read, and that have not changed since."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target
from kdump.history.directories import find_root
from kdump.history.due import topic_id_of
from kdump.history.records import FileState, signed
from kdump.history.state import ScrubState
from kdump.storage.source import Identity


class Unchanged:
    """Finds such segments of the targets of ``scope``, and counts them.

    Call it with the index of a target and the target. Damaged segments count as changed.
    """

    def __init__(self, state: ScrubState, scope: Scope) -> None:
        self._state = state
        self._directories: list[int | None] = []
        for root, part in zip(scope.roots, scope.parts, strict=True):
            self._directories += [find_root(state, root)] * len(part)
        self.segments = self.log_bytes = 0

    def __call__(self, number: int, target: Target) -> Collection[int]:
        """Return the base offsets of the unchanged segments of a target."""
        found = dict(self._unchanged(self._directories[number], target))
        self.segments += len(found)
        self.log_bytes += sum(found.values())
        return found.keys()

    def _unchanged(self, directory: int | None, target: Target) -> Iterator[tuple[int, int]]:
        """Yield base offset and size of each unchanged segment."""
        if directory is None or target.partition is None:
            return
        partition = self._state.find_partition(directory, target.path.name, topic_id_of(target))
        if partition is None:
            return
        known = self._state.segments(partition)
        for segment in target.segments:
            record = known.get(signed(segment.base_offset))
            if record is None or record.reading is None or not record.reading.is_sound:
                continue
            try:
                file = FileState.of(Identity.of(segment.log.stat()))
            except OSError:
                continue
            if file == record.file:
                yield segment.base_offset, file.size
