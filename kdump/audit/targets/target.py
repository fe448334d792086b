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
    PathContent,
    Segment,
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

    ``content`` is the error where that cannot be said; ``liveness`` is None then. ``directory`` has
    the files at the top of the log directory that the path is or stands in, None without one.
    """

    path: Path
    content: PathContent | SourceError
    liveness: Liveness | None
    directory: DirectoryFacts | None = None

    @property
    def stopped(self) -> bool:
        """Whether surely no broker uses it; what is unknown is taken for live."""
        return self.liveness is not None and self.liveness.state is State.STOPPED


@dataclass(frozen=True, slots=True)
class Target:
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

    def listed(self) -> Target:
        """Return the same with what is in its directory by now, if that is not known yet."""
        if not self.pending:
            return self
        found = list_partition(self.path)
        if isinstance(found, SourceError):
            return replace(self, pending=False, directory=None, error=found)
        size = sum(map(log_bytes, found.segments))
        return replace(self, pending=False, segments=found.segments, size=size, partition=found)

    def unlisted(self) -> Target:
        """Return the same without what was found in a partition's directory."""
        if self.partition is None:
            return self
        return replace(self, pending=True, segments=(), size=0, partition=None)

    def is_sealed(self, segment: Segment) -> bool:
        """Return whether one of the segments is not its partition's last."""
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

    def selects(self, path: Path) -> bool:
        """Return whether the partition directory at ``path`` is meant."""
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
    for path in without_repeats(paths, lambda path: path):
        needed = path.absolute() in wanted
        try:
            content, state = open_path(path), liveness(path)
            if isinstance(content, Entry):
                raise UsageError(
                    f"{path}: expected a segment, a partition directory or a log directory, found "
                    f"a file of another kind ({content.name.kind.value})"
                )
            if needed and isinstance(content, Partition) and _is_empty(content):
                yield Root(path, MissingDirectoryError(path, "an empty directory"), None)
                continue
            yield Root(path, content, state, _directory(content, path, state))
        except VanishedError as error:
            yield Root(path, MissingDirectoryError(path, "nothing") if needed else error, None)
        except ForeignDirectoryError as error:
            found = "a directory that holds none of a broker's files"
            yield Root(path, MissingDirectoryError(path, found) if needed else error, None)
        except SourceError as error:
            yield Root(path, error, None)


def _is_empty(partition: Partition) -> bool:
    return not (partition.segments or partition.transient or partition.entries)


def without_repeats(items: Iterable[T], path_of: Callable[[T], Path]) -> Iterator[T]:
    """Leave out items with directories that came before, however they were spelled."""
    seen: set[tuple[int, int]] = set()
    for item in items:
        same = identity(path_of(item))
        if same in seen:
            continue
        if same is not None:
            seen.add(same)
        yield item


def without_nested(targets: Iterable[Target]) -> list[Target]:
    """Leave out groups that came before, or that lie in others, by the spelling of their paths."""
    known: dict[Path, Target] = {}
    for target in targets:
        known.setdefault(target.path.absolute(), target)
    return [target for path, target in known.items() if path.parent not in known]


def identity(path: Path) -> tuple[int, int] | None:
    """Return what is the same for all spellings of a directory, None for what is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def assign(root: Root, selection: Selection | None = None) -> tuple[Target, ...]:
    """Say what there is to judge; the partitions of a log directory are pending.

    ``selection`` narrows a log directory down, not what was asked for by name. A directory that
    cannot be listed is a group with an error.
    """
    return tuple(_targets(root, selection or Selection()))


def unmatched_patterns(roots: Iterable[Root], selection: Selection) -> tuple[str, ...]:
    """Return the patterns for topics that no partition of these log directories matches.

    None are returned if there are no partitions at all: a directory may well be empty.
    """
    targets = [root.content for root in roots if isinstance(root.content, LogDirectory)]
    topics = {_topic(path) for content in targets for path in content.partition_paths}
    return tuple(
        pattern
        for pattern in selection.topics
        if topics and not any(fnmatchcase(topic, pattern) for topic in topics)
    )


def _topic(path: Path) -> str:
    """Return the topic in the name of a partition directory, or what else its name is."""
    name = directory_name(path)
    return path.name if name is None else name.topic


def _directory(content: PathContent, path: Path, state: Liveness) -> DirectoryFacts | None:
    if isinstance(content, LogDirectory):
        return read_directory(content, state)
    if isinstance(content, Partition):
        parent = enclosing_log_directory(path)
        with suppress(SourceError):  # the partition can be read even where what is above cannot
            content_above = None if parent is None else open_path(parent)
            if isinstance(content_above, LogDirectory):
                return read_directory(content_above, state)
    return None


def _targets(root: Root, selection: Selection) -> Iterator[Target]:
    content = root.content
    if isinstance(content, LogDirectory):
        for path in content.partition_paths:
            if selection.selects(path):
                yield Target(
                    path, (), None, root.stopped, 0, directory=root.directory, pending=True
                )
    elif isinstance(content, Segment):
        yield _segment_target(content, root)
    elif isinstance(content, Partition | SourceError):
        yield _partition_target(content, root)


def _partition_target(content: Partition | SourceError, root: Root) -> Target:
    if isinstance(content, SourceError):
        # A path that was asked for by name must be there, broker or not.
        return Target(as_path(content.path), (), None, stopped=True, size=0, error=content)
    size = sum(map(log_bytes, content.segments))
    return Target(
        content.path,
        content.segments,
        None,
        root.stopped,
        size,
        partition=content,
        directory=root.directory,
    )


def _segment_target(segment: Segment, root: Root) -> Target:
    following = None
    with suppress(SourceError):  # the file itself can be read even where its directory cannot
        bases = [segment_.base_offset for segment_ in read_partition(segment.log.parent).segments]
        following = min((base for base in bases if base > segment.base_offset), default=None)
    return Target(segment.log, (segment,), following, root.stopped, log_bytes(segment))


def log_bytes(segment: Segment) -> int:
    """Return the bytes of its log, 0 where that cannot be said: opening it will tell."""
    try:
        return segment.log.stat().st_size
    except OSError:
        return 0
