"""The plan of moves: what is in the way, the room that they take, what brokers do then.

Spec: ``ReplicaManager.alterReplicaLogDirs``, ``ReplicaManager.maybeUpdateTopicAssignment``,
``AbstractKafkaConfig.cordonedLogDirs``; KIP-113, KIP-858, KIP-1066.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from kdump.audit.commands import undo_command
from kdump.audit.facts.cluster import Configs, Node
from kdump.audit.facts.settings import Sources, cordoned_directories
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.facts.space import BLOCK_BYTES, Space, allocated_bytes, read_space
from kdump.audit.targets.context import Context
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection, identity
from kdump.errors import Refused, SourceError, UsageError
from kdump.format.lines.shell import shell_text
from kdump.format.properties import MetaProperties
from kdump.repair.relocation.carry import (
    interrupted_move,
    is_finished,
    is_outdated,
    leftovers,
    recorded_move,
)
from kdump.repair.relocation.move import Move, read_move, takes_marker
from kdump.repair.transaction.lock import (
    check_other_partitions,
    check_stopped,
    finish_or_undo,
    interrupted_repair,
    same_file,
)
from kdump.storage.liveness import BrokerState
from kdump.storage.logdir import LogDirectory, Partition, directory_name, open_path
from kdump.storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES, DirectoryName
from kdump.storage.repair_record import RepairRecord, RepairState
from kdump.values import frozen

#: What a copy needs beside its files: its record, checkpoint files that are written again.
_SPARE_BYTES: Final = 1 << 20
_SPARE_FILES: Final = 16
_ANY: Final = "any"


@frozen
class PlannedMove:
    """A move, the directory that has its record if it has begun, and ids of log directories.

    ``source_id`` and ``target_id`` are the ``directory.id`` of both, None if they have none.
    ``takes_marker``: the clean shutdown file of the log directory that it goes to is removed.
    """

    move: Move
    begun: RepairRecord | None
    source_id: str | None
    target_id: str | None
    takes_marker: bool


class MovePlan:
    """The moves to ``target``, where the partitions ``there`` have been moved before.

    ``live`` says which broker is running, None if none is; ``reassignment`` is what it takes.
    """

    def __init__(
        self,
        target: Path,
        moves: Sequence[PlannedMove],
        there: Sequence[Path],
        space: Space | None,
        live: str | None,
        reassignment: Mapping[str, Any] | None,
    ) -> None:
        self.target, self.moves, self.there, self.space = target, tuple(moves), there, space
        self.live, self.reassignment = live, reassignment

    @cached_property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(planned.move.bytes for planned in self.moves)

    @cached_property
    def needed_bytes(self) -> int:
        """The bytes that their copies take."""
        return sum(map(_room, self._copied))

    @property
    def needed_files(self) -> int:
        """The inodes that their copies take."""
        return sum(2 + len(move.files) for move in self._copied)

    @property
    def copied(self) -> bool:
        """Whether any of them is a copy."""
        return any(planned.move.copied for planned in self.moves)

    @property
    def _copied(self) -> list[Move]:
        return [each.move for each in self.moves if each.move.copied and each.begun is None]


def plan_moves(
    paths: Sequence[Path], target: Path, config: Configs | None, *, assume_stopped: bool
) -> MovePlan:
    """Return the plan of moves of partition directories to the log directory ``target``.

    Raises Refused if one of them may not go there; SourceError, UsageError.
    """
    target, every = _whole(target), [_whole(path) for path in paths]
    there = [path for path in every if is_finished(path, target)]
    paths = [path for path in every if path not in there]
    sources = list(dict.fromkeys(_source_of(path, target) for path in paths))
    scope = list_scope([target, *sources], config, TopicSelection())
    found = {}
    for root in scope.roots:
        if isinstance(root.content, SourceError):
            raise root.content
        if not isinstance(root.content, LogDirectory) or root.directory is None:
            raise Refused(
                f"{root.path}: expected a log directory, found another directory: "
                "kafka-storage.sh format makes log directories"
            )
        found[identity(root.path)] = root.directory
    known = _Node(scope.context, found, config, target)
    known.check_target()
    live = known.live(sources)
    if live is None:
        for place in (target, *sources):
            check_stopped(place, assume_stopped=assume_stopped)
    moves = [known.plan(path, live=live is not None) for path in dict.fromkeys(paths)]
    reassignment = None if live is None else known.reassignment(moves)
    plan = MovePlan(target, moves, there, read_space(target), live, reassignment)
    _check_room(plan)
    return plan


def _whole(path: Path) -> Path:
    """Return the absolute path; one without a name of its own is resolved by its spelling."""
    path = path.absolute()
    return Path(os.path.normpath(path)) if path.name in ("", "..") else path


def _source_of(path: Path, target: Path) -> Path:
    """Return the log directory that a partition is in, or was in before its move began.

    Raises SourceError if there is no partition; UsageError for a log directory.
    """
    begun = interrupted_move(path, target) if target.is_dir() else None
    if begun is not None:
        return _begun_move(*begun, target).source
    content = open_path(path)
    if not isinstance(content, Partition):
        what = "a log directory" if isinstance(content, LogDirectory) else "a file"
        raise UsageError(f"{path}: expected the directory of a partition, found {what}")
    return path.parent


def _begun_move(home: Path, record: RepairRecord, target: Path) -> Move:
    """Return an interrupted move. Raises Refused if it goes elsewhere, SourceError."""
    move = recorded_move(home, record.id)
    if not same_file(move.target, target):
        raise Refused(
            f"{move.departed}: expected no interrupted move to another log directory, found "
            f"{record.id} to {move.target}: {finish_or_undo(record, home)}"
        )
    return move


class _Node:
    """The log directories of a node that are in sight, and what is known of its partitions."""

    def __init__(
        self,
        context: Context,
        found: Mapping[tuple[int, int] | None, DirectoryFacts],
        config: Configs | None,
        target: Path,
    ) -> None:
        self._context, self._found, self._config = context, found, config
        self._target = target
        self._facts = self._directory(target)
        self._node: Node = context.node_of(self._facts)

    def _directory(self, path: Path) -> DirectoryFacts:
        return self._found[identity(path)]

    def check_target(self) -> None:
        """Raise Refused if no partition may go to the target."""
        meta = self._facts.identity
        if meta is None:
            raise Refused(
                f"{self._target}: expected a {META_PROPERTIES}, found none that can be read: "
                "kafka-storage.sh format --ignore-formatted makes it"
            )
        sources = Sources(self._node.image, self._config, self._node.node_id)
        cordoned = cordoned_directories(sources)
        for name in cordoned:
            if name == "*" or _is_same(Path(name), self._target):
                raise Refused(
                    f"{self._target}: expected a log directory that takes partitions, found "
                    f"cordoned.log.dirs={','.join(cordoned)}: remove it from there first"
                )

    def live(self, sources: Sequence[Path]) -> str | None:
        """Return why a broker is running on one of the log directories, None if none is."""
        for path in (self._target, *sources):
            state = self._directory(path).liveness
            if state.state is BrokerState.LIVE:
                return state.reason
        return None

    def plan(self, path: Path, *, live: bool) -> PlannedMove:
        """Return the move of a partition directory. Raises Refused, SourceError."""
        begun = None if live else interrupted_move(path, self._target)
        if begun is not None:
            home, record = begun
            move = _begun_move(home, record, self._target)
            if record.state is RepairState.UNDOING:
                raise Refused(
                    f"{path}: expected no interrupted undo, found {record.id}: "
                    f"{finish_or_undo(record, home)}"
                )
            if not is_outdated(move):
                return self._with_ids(move, record)
            raise Refused(
                f"{path}: expected the files that move {record.id} was planned for, found other "
                "files, or none: a broker has run here, or another move has taken them: undo it "
                f"with {shell_text(undo_command(home, record.id))}, and plan again"
            )
        source = path.parent
        self._check_source(path, source)
        move = read_move(path, self._target)
        return self._with_ids(move, None)

    def _with_ids(self, move: Move, begun: RepairRecord | None) -> PlannedMove:
        facts = self._found.get(identity(move.source))
        source = None if facts is None else facts.identity
        target = self._facts.identity
        return PlannedMove(
            move,
            begun,
            None if source is None else source.directory_id,
            None if target is None else target.directory_id,
            takes_marker(move.source, move.target),
        )

    def _check_source(self, path: Path, source: Path) -> None:
        """Raise Refused if a partition may not go to the target."""
        name = directory_name(path)
        if path.is_symlink():
            raise Refused(f"{path}: expected a directory, found a symbolic link: move its target")
        if name is None or name.suffix:
            raise Refused(
                f"{path}: expected a partition that a broker serves, found a directory called "
                f"{path.name}"
            )
        if name.topic == CLUSTER_METADATA_TOPIC:
            raise Refused(
                f"{path}: expected a topic's partition, found the metadata log of the cluster: "
                "metadata.log.dir says where it is"
            )
        if _is_same(source, self._target):
            raise Refused(f"{path}: expected another log directory, found that it is in {source}")
        ours, theirs = self._directory(source).identity, self._facts.identity
        if ours is None or theirs is None or _node_of(ours) != _node_of(theirs):
            found = "no identity" if ours is None else f"that of {_node_text(ours)}"
            whose = "no node" if theirs is None else _node_text(theirs)
            raise Refused(
                f"{source}: expected a log directory of {whose}, as {self._target} is, found "
                f"{found}: its node would not serve the partition"
            )
        self._check_futures(name)
        if os.path.lexists(self._target / path.name):
            raise Refused(
                f"{self._target / path.name}: expected nothing of this name, found something: a "
                "broker does not start where two log directories have the same partition"
            )
        record = interrupted_repair(path)
        if record is not None:
            raise Refused(
                f"{path}: expected no interrupted repair, found {record.id}: "
                f"{finish_or_undo(record, path)}"
            )
        for place in (source, self._target):
            check_other_partitions(path, place)

    def _check_futures(self, name: DirectoryName) -> None:
        """Raise Refused if a log directory in sight has a copy that a broker makes."""
        seen = [*(facts.directory for facts in self._found.values()), *self._context.beyond]
        for future in (path for directory in seen for path in directory.partition_paths):
            other = directory_name(future)
            if (
                other is not None
                and other.suffix == "future"
                and (other.topic, other.partition) == (name.topic, name.partition)
            ):
                raise Refused(
                    f"{future}: expected no move by a broker, found one: let the broker finish it, "
                    "or cancel it with kafka-reassign-partitions.sh"
                )

    def reassignment(self, moves: Sequence[PlannedMove]) -> Mapping[str, Any]:
        """Return what ``kafka-reassign-partitions.sh`` takes. Raises Refused if it is unknown."""
        return {
            "version": 1,
            "partitions": [self._reassigned(planned.move) for planned in moves],
        }

    def _reassigned(self, move: Move) -> Mapping[str, Any]:
        name, node_id = directory_name(move.departed), self._node.node_id
        found = None if name is None else self._node.replicas(name.topic, name.partition)
        if name is None or found is None or node_id not in found.nodes:
            raise Refused(
                f"{move.departed}: expected its replicas in a metadata log in sight, found none: "
                "while the broker is running, kafka-reassign-partitions.sh moves it, with log_dirs"
            )
        places = [str(move.target) if node == node_id else _ANY for node in found.nodes]
        return {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": list(found.nodes),
            "log_dirs": places,
        }


def _node_of(meta: MetaProperties) -> tuple[int | None, str | None]:
    return meta.node_id, meta.cluster_id


def _node_text(meta: MetaProperties) -> str:
    return f"node {meta.node_id} of cluster {meta.cluster_id}"


def _is_same(path: Path, other: Path) -> bool:
    return identity(path) is not None and identity(path) == identity(other)


def _room(move: Move) -> int:
    """Return the bytes of whole blocks that the files of a copy take."""
    return sum(-(-stamp.size // BLOCK_BYTES) * BLOCK_BYTES for stamp in move.files.values())


def _check_room(plan: MovePlan) -> None:
    """Raise Refused unless the copies fit; copies of earlier attempts are removed before."""
    if plan.live is not None or not plan.needed_bytes or plan.space is None:
        return
    old = [
        path
        for planned in plan.moves
        for place in leftovers(plan.target, planned.move.name)
        for path in place.rglob("*")
    ]
    free = plan.space.free_bytes + sum(allocated_bytes(path) or 0 for path in old)
    needed = plan.needed_bytes + _SPARE_BYTES
    if needed > free:
        raise Refused(f"{plan.target}: expected {needed:,} free bytes, found {free:,}")
    files, wanted = plan.space.free_files, plan.needed_files + _SPARE_FILES
    if files is not None and wanted > files + len(old):
        raise Refused(f"{plan.target}: expected {wanted:,} free inodes, found {files + len(old):,}")
