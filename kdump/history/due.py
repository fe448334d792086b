"""What is due: the segments of log directories beside the state, and the order of reading.

A sealed segment is due if it was never read, has changed since, was damaged, or was read too long
ago. The last segment of a partition changes all the time: once read, it is due again when it is
sealed or was read too long ago.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import replace

from kdump.audit.facts.small_files import read_topic_id
from kdump.audit.targets.target import Target
from kdump.history.records import FileState, SegmentRecord, signed
from kdump.history.state import ScrubState
from kdump.storage.names import PARTITION_METADATA
from kdump.storage.source import Identity
from kdump.values import frozen


@frozen
class Item:
    """A segment on disk: of the target with index ``number``, and of the state's ``partition``.

    ``sealed``: it is not its partition's last now. ``record`` is what the state knows of it.
    """

    number: int
    partition: int
    base_offset: int
    sealed: bool
    record: SegmentRecord


Removed = Callable[[int, Target, Sequence[SegmentRecord]], Collection[int]]
"""Returns the base offsets of segments that nothing explains to be gone.

Its arguments are the index of a target, the target, and the records of its segments that are gone.
"""


def take_inventory(
    state: ScrubState,
    directory: int,
    numbers: range,
    targets: Sequence[Target],
    now_ms: int,
    removed: Removed,
) -> Generator[list[Item], None, None]:
    """Yield the segments of each target of a directory, with what ``state`` knows of them.

    ``numbers`` are the indexes of the targets. New segments are written into ``state``, and
    segments and partitions that no longer exist are removed. What cannot be listed stays, as do all
    partitions if none is left: a mount may be missing. What ``removed`` returns stays too.
    """
    present = set[int | None]()
    for number in numbers:
        target = targets[number].with_listing()
        if target.partition is None:
            present.add(state.find_partition(directory, target.path.name, ""))
            continue
        partition = state.partition(directory, target.path.name, topic_id_of(target))
        items = list(_segments(state, partition, number, target, now_ms, removed))
        if items:
            present.add(partition)
        yield items
    if present - {None}:
        state.forget_partitions(directory, present)


def _segments(
    state: ScrubState, partition: int, number: int, target: Target, now_ms: int, removed: Removed
) -> Iterator[Item]:
    known = state.segments(partition)
    seen = set[int]()
    for segment in target.segments:
        base, sealed = signed(segment.base_offset), target.is_sealed(segment)
        try:
            file = FileState.of(Identity.of(segment.log.stat()))
        except FileNotFoundError:  # deleted since
            continue
        except OSError:  # the quick pass reports it
            seen.add(base)
            continue
        before = known.get(base)
        record = (
            SegmentRecord(base, now_ms, file, sealed, file.size)
            if before is None
            else _see(before, file, sealed=sealed)
        )
        if record != before:
            state.record(partition, record)
        seen.add(base)
        yield Item(number, partition, segment.base_offset, sealed, record)
    gone = [known[base] for base in sorted(known.keys() - seen)]
    kept = set(removed(number, target, gone)) if gone else set()
    for base in kept:  # what is gone has no bytes that are due
        state.record(partition, replace(known[base], log_bytes=0))
    state.forget_segments(partition, known.keys() - seen - kept)


def _see(record: SegmentRecord, file: FileState, *, sealed: bool) -> SegmentRecord:
    """Return the record of a segment that is seen again."""
    if record.reading is None:
        return replace(record, file=file, sealed=sealed, log_bytes=file.size)
    before = record.file
    if record.sealed and not sealed and before != file:  # a follower has truncated its log here
        return replace(record, sealed=False, log_bytes=file.size, changed=True)
    if record.sealed:
        changed = before != file
    else:  # the last segment grows
        changed = sealed or before.inode != file.inode or before.size > file.size
    return replace(record, log_bytes=file.size, changed=changed)


def topic_id_of(target: Target) -> str:
    """Return the topic id in ``partition.metadata``, empty if it is unknown."""
    return read_topic_id(target.path / PARTITION_METADATA) or ""


def reading_order(item: Item) -> tuple[int, bool, int, int, int]:
    """Return the sort key of a due segment: sealed ones first, what was not read for longest.

    Segments amid whose read a run ended come last: others get their turn.
    """
    record = item.record
    read_ms = -1 if record.reading is None or record.changed else record.reading.read_ms
    return record.tried_ms or -1, not item.sealed, read_ms, item.number, item.base_offset
