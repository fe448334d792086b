"""Target: a partition or lone segment to work on; Root: a path as typed.

The partitions of a log directory, of which there may be thousands, are listed when they are read.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from kdump.audit.facts.small_files import DirectoryFacts, read_directory
from kdump.errors import (
    ForeignDirectoryError,
    ForeignFileError,
    MissingDirectoryError,
    SourceError,
    UsageError,
    VanishedError,
)
from kdump.storage.liveness import BrokerState, Liveness, liveness
from kdump.storage.logdir import (
    DirectoryEntry,
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
from kdump.storage.manifests.file import ManifestHead
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.objects.remote_path import as_path
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: Of a log in a manifest only headers are read: this times as fast.
_MANIFEST_TIMES: Final = 16

T = TypeVar("T")


@frozen
class Root:
    """A path as typed, its content, and whether a broker uses it.

    ``content`` is an error if the path cannot be opened; ``liveness`` is then None. ``directory``
    has the files at the top of the log directory that the path is or is in, None without one.
    ``manifest`` is the one that the path is in, None for other paths.
    """

    path: AnyPath
    content: PathContent | SourceError
    liveness: Liveness | None
    directory: DirectoryFacts | None = None
    manifest: ManifestHead | None = None

    @property
    def stopped(self) -> bool:
        """Whether certainly no broker uses it; an unknown state counts as live."""
        return self.liveness is not None and self.liveness.state is BrokerState.STOPPED


@frozen
class Target:
    """Segments that are verified together: a partition, or one segment of it alone.

    ``path`` is the partition directory or the segment's log. ``next_base`` is the base offset of
    the segment after the last of them, None if that is the partition's last. ``error`` is set if
    the directory could not be listed, ``partition`` if the target is a whole partition.
    ``directory`` is as in ``Root``. ``pending``: the partition has not been listed yet, or its
    listing was dropped.
    """

    path: AnyPath
    segments: tuple[Segment, ...]
    next_base: int | None
    stopped: bool
    size: int
    error: SourceError | None = None
    partition: Partition | None = None
    directory: DirectoryFacts | None = None
    pending: bool = False

    @property
    def name(self) -> str:
        """The last part of its path; ``.`` for the current directory."""
        return self.path.name or str(self.path)

    def with_listing(self) -> Target:
        """Return the target with the present listing of its directory, if it is pending."""
        if not self.pending:
            return self
        found = list_partition(self.path)
        if isinstance(found, SourceError):
            return replace(self, pending=False, directory=None, error=found)
        size = sum(map(log_bytes, found.segments))
        return replace(self, pending=False, segments=found.segments, size=size, partition=found)

    def without_listing(self) -> Target:
        """Return the target without the listing of its partition's directory."""
        if self.partition is None:
            return self
        return replace(self, pending=True, segments=(), size=0, partition=None)

    def is_sealed(self, segment: Segment) -> bool:
        """Return whether ``segment`` is not its partition's last."""
        return self.next_base is not None or segment is not self.segments[-1]


@frozen
class TopicSelection:
    """The selection of partitions in a log directory, by shell patterns for their topics.

    Without ``topics`` it has all topics, except those that match one of ``excluded``. With
    ``served`` it has only partitions that a broker serves: not those that it is about to delete,
    has renamed to -stray, or moves here.
    """

    topics: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    served: bool = False

    def selects(self, path: AnyPath) -> bool:
        """Return whether the selection has the partition directory at ``path``."""
        topic, name = _topic(path), directory_name(path)
        if self.served and name is not None and name.suffix:
            return False
        if any(fnmatchcase(topic, pattern) for pattern in self.excluded):
            return False
        return not self.topics or any(fnmatchcase(topic, pattern) for pattern in self.topics)


def open_roots(paths: Iterable[AnyPath], configured: Collection[AnyPath] = ()) -> Iterator[Root]:
    """Yield the root of each path.

    ``configured`` are the log directories that a broker's configuration names: a missing or empty
    one, or a file, is a root with a MissingDirectoryError. A directory that was named before, in
    whatever spelling, is left out. Raises UsageError for a broker's file that is not part of a
    segment.
    """
    configured_paths = {path.absolute() for path in configured}
    for path in without_repeats(paths, lambda path: path):
        is_configured = path.absolute() in configured_paths
        head = None
        try:
            head = path.manifest().head if isinstance(path, ManifestPath) else None
            content, state = open_path(path), liveness(path)
            if is_configured and isinstance(content, DirectoryEntry | Segment):
                yield Root(path, MissingDirectoryError.file(path), None)
                continue
            if isinstance(content, DirectoryEntry):
                raise UsageError(
                    f"{path}: expected a segment, a partition directory or a log directory, found "
                    f"a file of another kind ({content.name.kind.value})"
                )
            if is_configured and isinstance(content, Partition) and _is_empty(content):
                yield Root(path, MissingDirectoryError(path, "an empty directory"), None)
                continue
            yield Root(path, content, state, _directory(content, path, state), head)
        except VanishedError as error:
            missing = MissingDirectoryError(path, "nothing")
            yield Root(path, missing if is_configured else error, None, manifest=head)
        except ForeignFileError as error:
            yield Root(path, MissingDirectoryError.file(path) if is_configured else error, None)
        except ForeignDirectoryError as error:
            missing = MissingDirectoryError(path, "a directory that holds none of a broker's files")
            yield Root(path, missing if is_configured else error, None)
        except SourceError as error:
            yield Root(path, error, None, manifest=head)


def _is_empty(partition: Partition) -> bool:
    return not (partition.segments or partition.transient or partition.entries)


def without_repeats(items: Iterable[T], path_of: Callable[[T], AnyPath]) -> Iterator[T]:
    """Yield ``items`` without those whose directory came before, in whatever spelling."""
    seen: set[tuple[int, int]] = set()
    for item in items:
        same = identity(path_of(item))
        if same in seen:
            continue
        if same is not None:
            seen.add(same)
        yield item


def without_nested(targets: Iterable[Target]) -> list[Target]:
    """Return ``targets`` without repeats and without those inside others, by their spelling."""
    known: dict[AnyPath, Target] = {}
    for target in targets:
        known.setdefault(target.path.absolute(), target)
    return [target for path, target in known.items() if path.parent not in known]


def identity(path: AnyPath) -> tuple[int, int] | None:
    """Return an identity that all spellings of a directory share, None if it is not a directory."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def assign(root: Root, selection: TopicSelection | None = None) -> tuple[Target, ...]:
    """Return the targets of a root; the partitions of a log directory are pending.

    ``selection`` applies to the partitions of a log directory, not to a root that is a partition
    or a segment. A directory that cannot be listed is a target with an error.
    """
    return tuple(_targets(root, selection or TopicSelection()))


def unmatched_patterns(roots: Iterable[Root], selection: TopicSelection) -> tuple[str, ...]:
    """Return the patterns for topics that no partition of these log directories matches.

    Return none if there are no partitions at all: a directory may be empty.
    """
    targets = [root.content for root in roots if isinstance(root.content, LogDirectory)]
    topics = {_topic(path) for content in targets for path in content.partition_paths}
    return tuple(
        pattern
        for pattern in selection.topics
        if topics and not any(fnmatchcase(topic, pattern) for topic in topics)
    )


def leaves_nothing(roots: Iterable[Root], selection: TopicSelection) -> bool:
    """Return whether ``roots`` are log directories whose partitions are all left out.

    False if there are no partitions at all: a directory may be empty.
    """
    contents = [root.content for root in roots]
    paths = [
        path
        for content in contents
        if isinstance(content, LogDirectory)
        for path in content.partition_paths
    ]
    return (
        bool(paths)
        and all(isinstance(content, LogDirectory | SourceError) for content in contents)
        and not any(map(selection.selects, paths))
    )


def _topic(path: AnyPath) -> str:
    """Return the topic in the name of a partition directory, or the whole name."""
    name = directory_name(path)
    return path.name if name is None else name.topic


def _directory(content: PathContent, path: AnyPath, state: Liveness) -> DirectoryFacts | None:
    if isinstance(content, LogDirectory):
        return read_directory(content, state)
    if isinstance(content, Partition):
        parent = enclosing_log_directory(path)
        with suppress(SourceError):  # the partition may be readable even if its parent is not
            content_above = None if parent is None else open_path(parent)
            if isinstance(content_above, LogDirectory):
                return read_directory(content_above, state)
    return None


def _targets(root: Root, selection: TopicSelection) -> Iterator[Target]:
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
        # A path that was named must exist, beside a running broker too.
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
    with suppress(SourceError):  # the file may be readable even if its directory is not
        bases = [segment_.base_offset for segment_ in read_partition(segment.log.parent).segments]
        following = min((base for base in bases if base > segment.base_offset), default=None)
    return Target(segment.log, (segment,), following, root.stopped, log_bytes(segment))


def log_bytes(segment: Segment) -> int:
    """Return the size of the segment's log in bytes, 0 if it is unknown: opening it will fail."""
    try:
        return segment.log.stat().st_size
    except OSError:
        return 0


def log_cost(path: AnyPath, size: int) -> int:
    """Return the cost of a log of ``size`` bytes, or of one in a directory, in bytes read."""
    return size // _MANIFEST_TIMES if isinstance(path, ManifestPath) else size
