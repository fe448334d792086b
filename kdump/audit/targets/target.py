"""The partitions and segments that a path leads to.

The partitions of a log directory, of which there may be thousands, are listed by who reads them.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from kdump.audit.facts.small_files import DirectoryFacts, read_directory
from kdump.errors import (
    ForeignDirectoryError,
    MissingDirectoryError,
    SourceError,
    UsageError,
    VanishedError,
)
from kdump.storage.liveness import Liveness, State, liveness
from kdump.storage.logdir import (
    Entry,
    LogDirectory,
    Partition,
    Segment,
    Target,
    directory_name,
    enclosing_log_directory,
    list_partition,
    open_path,
    read_partition,
)
from kdump.storage.objects.address import as_path

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Root:
    """A path as somebody typed it, what it is, and whether a broker uses it.

    ``target`` is the error where that cannot be said; ``liveness`` is None then. ``directory`` has
    the files at the top of the log directory that the path is or stands in, None without one.
    """

    path: Path
    target: Target | SourceError
    liveness: Liveness | None
    directory: DirectoryFacts | None = None

    @property
    def stopped(self) -> bool:
        """Whether surely no broker uses it; what is unknown is taken for live."""
        return self.liveness is not None and self.liveness.state is State.STOPPED


@dataclass(frozen=True, slots=True)
class Group:
    """Segments that are judged together: a partition, or one segment of it alone.

    ``path`` is the partition directory or the segment's log. ``next_base`` is the base offset of
    the segment behind the last of them, None if that is the partition's last. ``error`` is set
    where the directory could not be listed, ``partition`` where it is judged as a whole.
    ``directory`` is as in ``Root``. ``pending``: the partition has not been listed yet, or what was
    listed is not kept.
    """

    path: Path
    segments: tuple[Segment, ...]
    next_base: int | None
    stopped: bool
    size: int
    error: SourceError | None = None
    partition: Partition | None = None
    directory: DirectoryFacts | None = None
    pending: bool = False

    def listed(self) -> Group:
        """The same with what is in its directory by now, if that is not known yet."""
        if not self.pending:
            return self
        found = list_partition(self.path)
        if isinstance(found, SourceError):
            return replace(self, pending=False, directory=None, error=found)
        size = sum(map(log_bytes, found.segments))
        return replace(self, pending=False, segments=found.segments, size=size, partition=found)

    def unlisted(self) -> Group:
        """The same without what was found in a partition's directory."""
        if self.partition is None:
            return self
        return replace(self, pending=True, segments=(), size=0, partition=None)

    def is_sealed(self, segment: Segment) -> bool:
        """Whether one of the segments is not its partition's last."""
        return self.next_base is not None or segment is not self.segments[-1]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions of a log directory are meant, by shell patterns for their topics.

    Without ``topics`` all are; what matches one of ``excluded`` is not. With ``served`` those are
    meant that a broker serves, not what it is about to delete, has set aside, or moves here.
    """

    topics: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    served: bool = False

    def takes(self, path: Path) -> bool:
        """Whether the partition directory at ``path`` is meant."""
        topic, name = _topic(path), directory_name(path)
        if self.served and name is not None and name.suffix:
            return False
        if any(fnmatchcase(topic, pattern) for pattern in self.excluded):
            return False
        return not self.topics or any(fnmatchcase(topic, pattern) for pattern in self.topics)


def open_roots(paths: Iterable[Path], configured: Collection[Path] = ()) -> Iterator[Root]:
    """Say of each path what it is and whether a broker uses it.

    ``configured`` are the log directories that a broker's configuration names: one that is not
    there, or is empty, is a root with a MissingDirectoryError.

    A directory that was named before, however it was spelled, is left out.
    Raises UsageError for a file that holds no batches and stands beside none.
    """
    wanted = {path.absolute() for path in configured}
    for path in distinct(paths, lambda path: path):
        needed = path.absolute() in wanted
        try:
            target, state = open_path(path), liveness(path)
            if isinstance(target, Entry):
                raise UsageError(
                    f"{path}: expected a segment, a partition directory or a log directory, found "
                    f"a file of another kind ({target.name.kind.value})"
                )
            if needed and isinstance(target, Partition) and _is_empty(target):
                yield Root(path, MissingDirectoryError(path, "an empty directory"), None)
                continue
            yield Root(path, target, state, _directory(target, path, state))
        except VanishedError as error:
            yield Root(path, MissingDirectoryError(path, "nothing") if needed else error, None)
        except ForeignDirectoryError as error:
            found = "a directory that holds none of a broker's files"
            yield Root(path, MissingDirectoryError(path, found) if needed else error, None)
        except SourceError as error:
            yield Root(path, error, None)


def _is_empty(partition: Partition) -> bool:
    return not (partition.segments or partition.transient or partition.entries)


def distinct(items: Iterable[T], path_of: Callable[[T], Path]) -> Iterator[T]:
    """Leave out items with directories that came before, however they were spelled."""
    seen: set[tuple[int, int]] = set()
    for item in items:
        same = identity(path_of(item))
        if same in seen:
            continue
        if same is not None:
            seen.add(same)
        yield item


def disjoint(groups: Iterable[Group]) -> list[Group]:
    """Leave out groups that came before, or that lie in others, by the spelling of their paths."""
    known: dict[Path, Group] = {}
    for group in groups:
        known.setdefault(group.path.absolute(), group)
    return [group for path, group in known.items() if path.parent not in known]


def identity(path: Path) -> tuple[int, int] | None:
    """Return what is the same for all spellings of a directory, None for what is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def assign(root: Root, selection: Selection | None = None) -> tuple[Group, ...]:
    """Say what there is to judge; the partitions of a log directory are pending.

    ``selection`` narrows a log directory down, not what was asked for by name. A directory that
    cannot be listed is a group with an error.
    """
    return tuple(_groups(root, selection or Selection()))


def unmatched(roots: Iterable[Root], selection: Selection) -> tuple[str, ...]:
    """Return the patterns for topics that no partition of these log directories matches.

    None are returned if there are no partitions at all: a directory may well be empty.
    """
    targets = [root.target for root in roots if isinstance(root.target, LogDirectory)]
    topics = {_topic(path) for target in targets for path in target.partition_paths}
    return tuple(
        pattern
        for pattern in selection.topics
        if topics and not any(fnmatchcase(topic, pattern) for topic in topics)
    )


def _topic(path: Path) -> str:
    """The topic in the name of a partition directory, or what else its name is."""
    name = directory_name(path)
    return path.name if name is None else name.topic


def _directory(target: Target, path: Path, state: Liveness) -> DirectoryFacts | None:
    if isinstance(target, LogDirectory):
        return read_directory(target, state)
    if isinstance(target, Partition):
        above = enclosing_log_directory(path)
        with suppress(SourceError):  # the partition can be read even where what is above cannot
            around = None if above is None else open_path(above)
            if isinstance(around, LogDirectory):
                return read_directory(around, state)
    return None


def _groups(root: Root, selection: Selection) -> Iterator[Group]:
    target = root.target
    if isinstance(target, LogDirectory):
        for path in target.partition_paths:
            if selection.takes(path):
                yield Group(path, (), None, root.stopped, 0, directory=root.directory, pending=True)
    elif isinstance(target, Segment):
        yield _lone(target, root)
    elif isinstance(target, Partition | SourceError):
        yield _whole(target, root)


def _whole(target: Partition | SourceError, root: Root) -> Group:
    if isinstance(target, SourceError):
        # A path that was asked for by name must be there, broker or not.
        return Group(as_path(target.path), (), None, stopped=True, size=0, error=target)
    size = sum(map(log_bytes, target.segments))
    return Group(
        target.path,
        target.segments,
        None,
        root.stopped,
        size,
        partition=target,
        directory=root.directory,
    )


def _lone(segment: Segment, root: Root) -> Group:
    following = None
    with suppress(SourceError):  # the file itself can be read even where its directory cannot
        bases = [other.base_offset for other in read_partition(segment.log.parent).segments]
        following = min((base for base in bases if base > segment.base_offset), default=None)
    return Group(segment.log, (segment,), following, root.stopped, log_bytes(segment))


def log_bytes(segment: Segment) -> int:
    """The bytes of its log, 0 where that cannot be said: opening it will tell."""
    try:
        return segment.log.stat().st_size
    except OSError:
        return 0
