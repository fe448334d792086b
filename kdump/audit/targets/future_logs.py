"""What the next start of a node does with its ``-future`` logs, which a move writes.

Spec: ``LogManager.loadLog``, ``LogManager.recoverAbandonedFutureLogs`` (KAFKA-16082),
``ReplicaManager.maybeAddLogDirFetchers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import DirectoryFacts, log_start_line, read_small
from kdump.format.properties import decode_partition_metadata
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import PARTITION_METADATA, DirectoryName
from kdump.storage.paths import AnyPath
from kdump.values import frozen


class FutureFate(Enum):
    """What a start does with a future log."""

    CONTINUES = "the move goes on"
    PROMOTED = "it becomes the current log"
    REFUSED = "it cannot be renamed to the current log, which is in the same directory"
    IGNORED = "it stays unused in the directory of the current log"
    STRAY = "it is renamed to -stray"
    EMPTIED = "an empty current log is created, and the future log follows that"


@frozen
class FutureLog:
    """A ``-future`` directory, the current log of its partition, and what a start does.

    ``current`` is None if no log directory of the node in sight has a current log that a start
    keeps. ``log_start`` is the offset of its line in log-start-offset-checkpoint, None without one.
    """

    path: AnyPath
    current: AnyPath | None
    fate: FutureFate
    log_start: int | None = None


def find_future_logs(
    directories: Sequence[DirectoryFacts], beyond: Iterable[LogDirectory], node: Node
) -> Iterator[FutureLog]:
    """Yield the future logs in ``directories`` of one node.

    ``beyond`` are further log directories of the node. Directories that a start refuses for their
    names or their partition.metadata are left to the checks of these.
    """
    futures = [
        (facts, path, name)
        for facts in directories
        for path in facts.directory.partition_paths
        if (name := directory_name(path)) is not None and name.suffix == "future"
    ]
    if not futures:
        return
    wanted = {(name.topic, name.partition) for _, _, name in futures}
    listed = [*(facts.directory for facts in directories), *beyond]
    currents: dict[tuple[str, int], list[AnyPath]] = {}
    for directory in listed:
        for path in directory.partition_paths:
            name = directory_name(path)
            if name is not None and name.suffix == "" and (name.topic, name.partition) in wanted:
                currents.setdefault((name.topic, name.partition), []).append(path)
    for facts, path, name in futures:
        kept = [
            current
            for current in currents.get((name.topic, name.partition), ())
            if not _is_set_aside(current, name.partition, node)
        ]
        beside = next((current for current in kept if current.parent == path.parent), None)
        yield FutureLog(
            path,
            beside or next(iter(kept), None),
            _fate(facts, directories, path, name, node, kept=bool(kept), beside=beside is not None),
            log_start_line(facts, name),
        )


def _fate(
    facts: DirectoryFacts,
    directories: Sequence[DirectoryFacts],
    path: AnyPath,
    name: DirectoryName,
    node: Node,
    *,
    kept: bool,
    beside: bool,
) -> FutureFate:
    """Return the fate of one future log; ``kept``: a current log remains, ``beside``: beside it."""
    if not node.kraft:
        return FutureFate.IGNORED if beside else FutureFate.CONTINUES
    topic_id, readable = _topic_id(path)
    if not readable:
        return FutureFate.CONTINUES
    if node.sets_aside(topic_id, name.partition):
        return FutureFate.STRAY
    if node.image is None:
        # The cluster assigns the replica to the directory of the current log, but for rare cases.
        return FutureFate.REFUSED if beside else FutureFate.CONTINUES
    replicas = node.image.replicas.get(topic_id or "", {}).get(name.partition)
    assigned = None
    if replicas is not None and node.node_id is not None:
        assigned = replicas.directory_of(node.node_id)
    here = None if facts.identity is None else facts.identity.directory_id
    if assigned is not None and assigned == here:
        return FutureFate.REFUSED if beside else FutureFate.PROMOTED
    if beside:
        return FutureFate.IGNORED
    known = {each.identity.directory_id for each in directories if each.identity is not None}
    return FutureFate.CONTINUES if kept or assigned not in known else FutureFate.EMPTIED


def _is_set_aside(path: AnyPath, partition: int, node: Node) -> bool:
    topic_id, readable = _topic_id(path)
    return readable and node.sets_aside(topic_id, partition)


def _topic_id(path: AnyPath) -> tuple[str | None, bool]:
    """Return the topic id of a partition's directory, and whether a broker can read the file."""
    file = path / PARTITION_METADATA
    try:
        exists = file.exists()
    except OSError:
        return None, False
    if not exists:
        return None, True
    read = read_small(file, decode_partition_metadata)
    return (None if read.value is None else read.value.topic_id), read.value is not None
