"""The segments that a loader opens beside files of an unfinished cleaning or split.

Spec: ``LogLoader.removeTempFilesAndCollectSwapFiles`` and the first passes of ``load``; KOD 5,
steps 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.storage.logdir import DirectoryEntry, EntryType, Partition, Segment
from kdump.storage.names import EXTENSIONS, FileKind, Suffix
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@frozen
class ResolvedSwaps:
    """The files of a partition after a loader has finished its swaps.

    ``segments`` ascend by base offset; the paths of a swapped segment still end in ``.swap``.
    ``snapshots`` are the offsets of the remaining producer snapshots, ``replaced`` the files that
    swaps replace or delete.
    """

    segments: tuple[Segment, ...]
    snapshots: frozenset[int]
    replaced: tuple[AnyPath, ...]


@frozen
class _File:
    base: int
    kind: FileKind
    suffix: Suffix
    path: AnyPath


def misnamed_file(partition: Partition) -> DirectoryEntry | None:
    """Return the first file whose name lacks the number that a loader reads there, or None."""
    for entry in partition.entries:
        is_transient = entry.name.suffix in (".swap", ".cleaned")
        plain = entry.name.suffix == "" and entry.name.kind in EXTENSIONS
        if (
            entry.type is EntryType.FILE
            and (is_transient or plain)
            and entry.name.base_offset is None
            and not _is_number(entry.path.name.partition(".")[0])
        ):
            return entry
    return None


def _is_number(text: str) -> bool:
    """Return whether ``Long.parseLong`` accepts ``text``, which may have a sign."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isdecimal() and -(1 << 63) <= int(text) < 1 << 63


def pending_swaps(partition: Partition) -> tuple[Segment, ...]:
    """Return the ``.log.swap`` files that a loader swaps in, with their companions."""
    swaps = [log for log in partition.transient if log.suffix == ".swap"]
    cleaned = _lowest_cleaned(_files(partition)) if swaps else None
    return tuple(log for log in swaps if cleaned is None or log.base_offset < cleaned)


def resolve_swaps(partition: Partition, next_offset: Callable[[Segment], int]) -> ResolvedSwaps:
    """Return the files after the swaps; ``next_offset`` returns the end offset of a swapped log."""
    resolved = _resolve_plain(partition)
    if resolved is not None:  # as nearly always, over thousands of partitions
        return resolved
    files = _files(partition)
    cleaned = _lowest_cleaned(files)
    swaps = {
        (file.base, file.kind): file.path
        for file in files
        if file.suffix == ".swap" and (cleaned is None or file.base < cleaned)
    }
    remaining = {(file.base, file.kind): file.path for file in files if file.suffix == ""}
    ends = [(log.base_offset, next_offset(log)) for log in pending_swaps(partition)]
    replaced: list[AnyPath] = []
    if ends:
        first, stop = min(base for base, _ in ends), max(end for _, end in ends)
        replaced += [remaining.pop(key) for key in list(remaining) if first <= key[0] < stop]
    replaced += [remaining[key] for key in swaps if key in remaining]
    remaining |= swaps
    return ResolvedSwaps(
        tuple(
            Segment(
                base,
                path,
                remaining.get((base, FileKind.INDEX)),
                remaining.get((base, FileKind.TIME_INDEX)),
                remaining.get((base, FileKind.TXN_INDEX)),
                remaining.get((base, FileKind.SNAPSHOT)),
                "",
            )
            for (base, kind), path in sorted(remaining.items(), key=lambda item: item[0][0])
            if kind is FileKind.LOG
        ),
        frozenset(base for base, kind in remaining if kind is FileKind.SNAPSHOT),
        tuple(replaced),
    )


def _resolve_plain(partition: Partition) -> ResolvedSwaps | None:
    """Return the files of a partition without transient files and odd names, None for others."""
    loose = [entry for entry in partition.entries if _is_numbered(entry)]
    plain = all(
        entry.name.kind is FileKind.SNAPSHOT and not entry.name.suffix and entry.name.canonical
        for entry in loose
    )
    if partition.transient or not plain:
        return None
    snapshots = [segment.base_offset for segment in partition.segments if segment.snapshot]
    snapshots += [entry.name.base_offset for entry in loose if entry.name.base_offset is not None]
    return ResolvedSwaps(partition.segments, frozenset(snapshots), ())


def _is_numbered(entry: DirectoryEntry) -> bool:
    return entry.type is EntryType.FILE and entry.name.base_offset is not None


def _lowest_cleaned(files: Iterable[_File]) -> int | None:
    return min((file.base for file in files if file.suffix == ".cleaned"), default=None)


def _files(partition: Partition) -> list[_File]:
    """Return all files with an offset in their names."""
    found = [
        _File(segment.base_offset, kind, segment.suffix, path)
        for segment in (*partition.segments, *partition.transient)
        for kind, path in _paths(segment).items()
        if path is not None
    ]
    found += [
        _File(entry.name.base_offset, entry.name.kind, entry.name.suffix, entry.path)
        for entry in partition.entries
        if entry.type is EntryType.FILE and entry.name.base_offset is not None
    ]
    return found


def _paths(segment: Segment) -> dict[FileKind, AnyPath | None]:
    return {
        FileKind.LOG: segment.log,
        FileKind.INDEX: segment.index,
        FileKind.TIME_INDEX: segment.time_index,
        FileKind.TXN_INDEX: segment.txn_index,
        FileKind.SNAPSHOT: segment.snapshot,
    }
