"""Requests to object stores for what will be read next, at the same time.

They cost nothing elsewhere. What is asked for in vain, such as an object that was removed, is an
error where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kdump.storage.logdir import EntryType, Partition, Segment
from kdump.storage.names import FileKind
from kdump.storage.objects.listings import list_ahead, listed_status
from kdump.storage.objects.ranges import LARGEST_BYTES, LEAST_BYTES, Range, read_ahead
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.objects.status import ObjectStatus
from kdump.storage.paths import AnyPath

#: The small files of a partition that are read as a whole, beside those of segments.
_SMALL: Final = frozenset(
    {
        FileKind.LEADER_EPOCHS,
        FileKind.PARTITION_METADATA,
        FileKind.QUORUM_STATE,
        FileKind.SNAPSHOT,
    }
)


def ask_for_listings(directories: Iterable[AnyPath]) -> None:
    """Ask for the listings of ``directories``, in place of those that were asked for before."""
    list_ahead(path for path in directories if isinstance(path, RemotePath))


def ask_for_partition(partition: Partition, *, whole: bool) -> None:
    """Ask for the small files of a partition, then for its first segments; see below for those."""
    if isinstance(partition.path, RemotePath):
        read_ahead(_partition(partition, whole))


def ask_for_segment(segment: Segment) -> None:
    """Ask for the start and the end of a segment's log, and for the ends of its indexes."""
    if isinstance(segment.log, RemotePath):
        read_ahead(_segment(segment, False))


def _partition(partition: Partition, whole: bool) -> Iterator[Range]:
    for entry in partition.entries:
        if entry.name.kind in _SMALL and not entry.name.suffix and entry.type is EntryType.FILE:
            yield from _small(entry.path)
    for segment in partition.segments:
        yield from _small(segment.snapshot)
        yield from _small(segment.txn_index)
    for segment in partition.segments:
        yield from _segment(segment, whole)


def _small(path: AnyPath | None) -> Iterator[Range]:
    """Yield all of a file that one request of the smallest size has."""
    for remote, status in _listed(path):
        if status.size <= LEAST_BYTES:
            yield Range(remote, status, 0, status.size)


def _segment(segment: Segment, whole: bool) -> Iterator[Range]:
    for path in (segment.index, segment.time_index, segment.log):
        for remote, status in _listed(path):
            if whole and status.size <= LARGEST_BYTES:
                yield Range(remote, status, 0, status.size)
                continue
            length = min(LEAST_BYTES, status.size)
            yield Range(remote, status, status.size - length, length)
            if path == segment.log and not whole:
                yield Range(remote, status, 0, length)


def _listed(path: AnyPath | None) -> Iterator[tuple[RemotePath, ObjectStatus]]:
    """Yield ``path`` if it is an object by the last listings, with its status."""
    if isinstance(path, RemotePath):
        try:
            status = listed_status(path)
        except FileNotFoundError:
            return
        if status is not None and not status.directory:
            yield path, status
