"""The logs whose records are read, and the origin of these records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from kdump.audit.facts.small_files import checkpoint_line
from kdump.audit.targets.target import Root, Target, log_bytes, without_nested
from kdump.errors import ForeignDirectoryError, SourceError, VanishedError
from kdump.storage.logdir import (
    EntryType,
    LogDirectory,
    directory_name,
    has_lines,
    is_log_directory,
    list_partition,
)
from kdump.storage.names import EXTENSIONS, FileKind
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from kdump.values import frozen

#: The files that only partitions have.
_OF_PARTITIONS: Final = {*EXTENSIONS, FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA}


@frozen
class Origin:
    """The origin of records; ``topic`` and ``partition`` are None outside partition directories."""

    topic: str | None
    partition: int | None
    source_file: str


@frozen
class Log:
    """The log of a segment; ``size`` is its size in bytes when it was listed.

    ``selection`` has the offsets that are read of it; ``index`` is its offset index, which says
    from where they are read. ``following`` is the base offset of the next segment, None for the
    last one, which ends at the offset ``known_end`` or later. ``compacted`` says whether the
    cleaner may have removed records, None if unknown; ``stopped`` that certainly no broker appends.
    """

    path: AnyPath
    base_offset: int
    sealed: bool
    size: int
    index: AnyPath | None = None
    selection: Selection = Selection()
    following: int | None = None
    known_end: int = 0
    compacted: bool | None = None
    stopped: bool = False

    @property
    def origin(self) -> Origin:
        """The origin of its records."""
        name = directory_name(self.path.parent)
        topic = None if name is None else utf8(name.topic)
        partition = None if name is None else name.partition
        return Origin(topic, partition, utf8(str(self.path)))


def check_roots(roots: Iterable[Root]) -> None:
    """Raise SourceError for a root that cannot be opened, or that has nothing of a broker in it.

    Directories elsewhere have names like those of partitions too, such as ``/etc/dbus-1``.
    """
    for root in roots:
        if isinstance(root.content, SourceError):
            raise root.content
        if (
            isinstance(root.content, LogDirectory)
            and not is_log_directory(root.path)
            and not any(map(_may_be_partition, root.content.partition_paths))
        ):
            raise ForeignDirectoryError(
                root.path,
                f"{root.path}: expected a segment, a partition directory or a log directory, found "
                "a directory without meta.properties, checkpoints and files of partitions",
            )


def _may_be_partition(path: AnyPath) -> bool:
    """Return whether a directory has a file of a partition; one that cannot be listed may have."""
    listed = list_partition(path)
    if isinstance(listed, SourceError):
        return not isinstance(listed, VanishedError)
    return bool(listed.segments or listed.transient) or any(
        entry.name.kind in _OF_PARTITIONS for entry in listed.entries
    )


def list_logs(targets: Iterable[Target], *, strict: bool = False) -> Iterator[Log]:
    """Yield the logs of partitions that a broker would load, in order, each log once.

    A partition that cannot be listed yields none, or with ``strict`` raises SourceError.
    """
    for listed in list_targets(targets, strict=strict):
        yield from logs_of(listed)


def list_targets(targets: Iterable[Target], *, strict: bool = False) -> Iterator[Target]:
    """Yield the targets with their listings, in order, without those in others.

    Raise SourceError for one that cannot be listed, if that is ``strict``.
    """
    for target in without_nested(targets):
        listed = target.with_listing()
        if strict:
            check_listing(listed)
        yield listed


def check_listing(target: Target) -> None:
    """Raise SourceError for a partition that cannot be listed, in part or as a whole."""
    if target.error is not None:
        raise target.error
    for entry in () if target.partition is None else target.partition.entries:
        name = entry.name
        is_log = name.kind is FileKind.LOG and name.suffix == "" and name.canonical
        if is_log and entry.type in (EntryType.LINK, EntryType.OTHER):
            raise SourceError(
                entry.path,
                f"{entry.path}: expected a file, found something else, or a link to what cannot be "
                "read",
            )


def logs_of(
    target: Target, selection: Selection | None = None, *, compacted: bool | None = None
) -> Iterator[Log]:
    """Yield the logs of a partition that is listed, those that may hold selected offsets."""
    selected = selection or Selection()
    bases = [*(segment.base_offset for segment in target.segments), target.next_base]
    following = dict(pairwise(bases))
    for segment in selected.segments(target.segments):
        yield Log(
            segment.log,
            segment.base_offset,
            target.is_sealed(segment),
            log_bytes(segment),
            segment.index,
            selected,
            following[segment.base_offset],
            known_end(target),
            compacted,
            target.stopped,
        )


def swaps(target: Target) -> list[int]:
    """Return the base offsets of segments that the cleaner is about to put in place of others.

    It has taken these away before, for a moment in which neither is there (``replaceSegments``).
    """
    partition = target.partition
    transient = () if partition is None else partition.transient
    return [segment.base_offset for segment in transient if segment.suffix == ".swap"]


def known_end(target: Target) -> int:
    """Return the offset up to which a log was written by its checkpoints, 0 if nothing says it.

    It is the high watermark. Where no broker runs, it is the recovery point too, up to which the
    log was on the disk: a running broker may truncate below it.
    """
    directory, partition = target.directory, target.partition
    if directory is None or partition is None or not has_lines(target.path):
        return 0
    reads = [directory.high_watermarks, *([directory.recovery_points] if target.stopped else ())]
    return max(checkpoint_line(read, partition.name) or 0 for read in reads)


def utf8(text: str) -> str:
    """Return ``text`` with escapes for bytes that are not UTF-8, which no column can hold."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
