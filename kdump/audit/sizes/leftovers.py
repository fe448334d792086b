"""What takes space in a log directory and belongs to no log that a broker loads.

Spec: ``LogLoader.removeTempFilesAndCollectSwapFiles``, ``LogManager.loadLog``.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Final

from kdump.audit.facts.small_files import DirectoryFacts, read_topic_id
from kdump.audit.sizes.files import TreeSpace, file_space, tree_space
from kdump.audit.sizes.measure import FOREIGN, PartitionSpace
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import identity
from kdump.storage.logdir import EntryType
from kdump.storage.names import PARTITION_METADATA, REMOTE_INDEX_CACHE, FileKind, is_aside_name
from kdump.storage.paths import AnyPath
from kdump.storage.repair_record import FOLDERS
from kdump.values import frozen


class Leftover(Enum):
    """What takes space and belongs to no log that a broker loads."""

    DELETED = "deleted"
    CLEANED = "cleaned"
    CLEANED_AND_SWAP = "cleaned-beside-swap"
    SWAP = "swap"
    TEMPORARY = "temporary"
    DELETE = "delete-directories"
    STRAY_GONE = "stray-directories"
    STRAY = "stray-directories-in-doubt"
    FUTURE_GONE = "future-directories-of-others"
    FUTURE = "future-directories"
    BACKUPS = "backups"
    UNNAMED = "unnamed-partitions"
    REMOTE_CACHE = "remote-index-cache"
    FOREIGN = "foreign"


#: What is left of a log, and whether it may go. No sentence allows a file to be deleted by hand
#: that a broker may still need.
ABOUT: Final = {
    Leftover.DELETED: "segments that a broker was deleting (.deleted): startup removes them",
    Leftover.CLEANED: "unfinished compaction (.cleaned): startup removes them",
    Leftover.CLEANED_AND_SWAP: "unfinished compaction (.cleaned) beside .swap files: never delete "
    "these, startup decides over both",
    Leftover.SWAP: "finished compaction (.swap): never delete these, they are the log",
    Leftover.TEMPORARY: "unfinished small files: the broker replaces or ignores them",
    Leftover.DELETE: "partitions that a broker was deleting (-delete), of deleted topics or after "
    "a move: the broker removes them",
    Leftover.STRAY_GONE: "-stray directories; by the metadata log the topic is deleted, or its "
    "replicas in sync are on other nodes: they may go",
    Leftover.STRAY: "-stray directories that may be the only replica: compare before you delete "
    "one",
    Leftover.FUTURE_GONE: "-future directories; by the metadata log the topic is deleted, or its "
    "replicas in sync are on other nodes: they may go",
    Leftover.FUTURE: "moves between log directories that are not finished (-future)",
    Leftover.BACKUPS: "backups of repairs and moves: kdump undo lists them, those of a move in the "
    "log directory that it led to, and --discard frees them",
    Leftover.UNNAMED: "segments in directories whose names are no partition's: they may be the "
    "only copy",
    Leftover.REMOTE_CACHE: "indexes of remote segments (remote-log-index-cache): those of a "
    "stopped broker may go, it fetches them again",
    Leftover.FOREIGN: "files that kdump does not know",
}
#: The kinds that a stopped broker does not need.
MAY_GO: Final = frozenset(
    {
        Leftover.DELETED,
        Leftover.CLEANED,
        Leftover.DELETE,
        Leftover.STRAY_GONE,
        Leftover.FUTURE_GONE,
        Leftover.REMOTE_CACHE,
    }
)
_BY_SUFFIX: Final = {
    ".deleted": Leftover.DELETED,
    ".cleaned": Leftover.CLEANED,
    ".swap": Leftover.SWAP,
    ".tmp": Leftover.TEMPORARY,
    ".part": Leftover.TEMPORARY,
    FOLDERS: Leftover.BACKUPS,
    FOREIGN: Leftover.FOREIGN,
}


@frozen
class LeftoverFiles:
    """Leftovers of one kind in the directory at ``path``: the files ``names``, or all of it.

    ``bytes`` are those that go with them; ``names`` are empty for the whole directory, or a file
    at ``path``.
    """

    kind: Leftover
    path: AnyPath
    bytes: int
    names: tuple[str, ...] = ()


def leftovers_of(found: PartitionSpace, context: Context) -> Iterator[LeftoverFiles]:
    """Yield what a partition has beside its log, or the whole of one that no broker serves."""
    for suffix, beside in found.beside.items():
        kind = _BY_SUFFIX[suffix]
        if kind is Leftover.CLEANED and ".swap" in found.beside:
            # Those of a split that was interrupted amid its renames: startup removes both, and
            # would take the .swap files for the whole of it without the .cleaned ones.
            kind = Leftover.CLEANED_AND_SWAP
        yield LeftoverFiles(kind, found.path, beside.bytes, beside.names)
    name = found.name
    left = found.own_bytes
    if name is None:
        kind = Leftover.BACKUPS if is_aside_name(found.path.name) else Leftover.UNNAMED
        yield LeftoverFiles(kind, found.path, left)
    elif name.suffix == "delete":
        yield LeftoverFiles(Leftover.DELETE, found.path, left)
    elif name.suffix == "future":
        gone = _is_gone(found, context)
        kind = Leftover.FUTURE_GONE if gone else Leftover.FUTURE
        yield LeftoverFiles(kind, found.path, left)
    elif name.suffix == "stray":
        gone = _is_gone(found, context)
        kind = Leftover.STRAY_GONE if gone else Leftover.STRAY
        yield LeftoverFiles(kind, found.path, left)


def other_entries(
    directories: Iterable[DirectoryFacts],
) -> Iterator[tuple[LeftoverFiles, TreeSpace]]:
    """Yield the entries at the top of log directories that are neither partitions nor small files.

    Log directories inside others are measured as such.
    """
    own = [identity(facts.directory.path) for facts in directories]
    roots = {each for each in own if each is not None}
    for facts in directories:
        for entry in facts.directory.entries:
            if entry.type is EntryType.DIRECTORY:
                tree = tree_space(entry.path, roots)
                kind = Leftover.UNNAMED if tree.segments else Leftover.FOREIGN
                if entry.name.name == REMOTE_INDEX_CACHE:
                    kind = Leftover.REMOTE_CACHE
                elif is_aside_name(entry.name.name):
                    kind = Leftover.BACKUPS
                yield LeftoverFiles(kind, entry.path, tree.bytes), tree
            elif entry.name.kind is FileKind.UNKNOWN and entry.type is EntryType.FILE:
                with suppress(OSError):
                    status = entry.path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        space = file_space(status, link=False)
                        found = LeftoverFiles(Leftover.FOREIGN, entry.path, space.bytes)
                        yield found, TreeSpace(space.bytes, space.linked)


def _is_gone(found: PartitionSpace, context: Context) -> bool:
    """Return whether the metadata log shows that no one needs the log of a directory of no use.

    Its topic is deleted, or its replicas in sync are on other nodes.
    """
    node, name = context.nodes.get(found.path.parent), found.name
    topic_id = read_topic_id(found.path / PARTITION_METADATA)
    if node is None or node.image is None or name is None or topic_id is None:
        return False
    if topic_id in node.image.deleted:
        return True
    replicas = node.image.replicas.get(topic_id, {}).get(name.partition)
    if replicas is None or node.node_id is None:
        return False
    return bool(replicas.in_sync) and node.node_id not in replicas.nodes
