"""A node's copy of the metadata log, and its end after the next start.

Spec: ``KafkaRaftLog.createLog``, ``truncateToLatestSnapshot``, ``lastFetchedEpoch``;
``QuorumState.initialize``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kdump.audit.facts.small_files import Read
from kdump.audit.startup.outcome import LogCut
from kdump.copies.lineage import EpochSpan
from kdump.errors import SourceError
from kdump.format.properties import MetaProperties, QuorumState
from kdump.metadata.log import MetadataSnapshot
from kdump.quorum.batches import LogDamage, MetadataBatches
from kdump.quorum.voter_set import (
    Entry,
    LeaderChange,
    ReplicaKey,
    VersionEntry,
    VotersEntry,
    VoterSet,
    directory_id,
)
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.paths import AnyPath
from kdump.values import frozen


class LogPosition(NamedTuple):
    """The end of a log as votes compare it: the last leader epoch first (``OffsetAndEpoch``)."""

    epoch: int
    offset: int


@frozen
class Refusal:
    """A reason why the node does not start; ``code`` is the finding's name, None without one."""

    text: str
    path: AnyPath
    code: str | None = None


@dataclass(frozen=True)
class MetadataReplica:
    """The copy of ``__cluster_metadata-0`` at ``path``, as typed.

    partition     The directory of the log; None if there is none, so that a start makes an empty
                  one.
    liveness      Whether a broker or controller uses it; None if it could not be opened.
    meta          ``meta.properties``; None if it is missing or malformed.
    roles         ``process.roles`` of the node's configuration; empty if it was not given.
    static        The voters of the configuration; None if it was not given or has none.
    quorum_state  The file ``quorum-state``; None if there is none.
    snapshots     The snapshots, by age.
    recorded      The control records in the snapshots that are whole, by age.
    log           The batches on disk, also those that a start cuts.
    first_base    The base offset of the first segment, None without segments.
    cuts          Where recovery cuts the log at the next start.
    refusals      Why the node does not start; empty if it starts.
    errors        What could not be read.
    reached       The offset up to which the log went once, None if nothing shows one past its end.
    """

    path: AnyPath
    partition: AnyPath | None = None
    liveness: Liveness | None = None
    meta: MetaProperties | None = None
    roles: tuple[str, ...] = ()
    static: VoterSet | None = None
    quorum_state: Read[QuorumState] | None = None
    snapshots: tuple[MetadataSnapshot, ...] = ()
    recorded: tuple[tuple[Entry, ...], ...] = ()
    log: MetadataBatches = field(default_factory=MetadataBatches)
    first_base: int | None = None
    cuts: tuple[LogCut, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    errors: tuple[SourceError, ...] = ()
    reached: int | None = None

    # --- the node

    @property
    def node_id(self) -> int | None:
        """The node id of ``meta.properties``; None if it is unknown."""
        return None if self.meta is None else self.meta.node_id

    @property
    def directory_id(self) -> str | None:
        """The directory id of ``meta.properties``, which it has since 3.7."""
        return None if self.meta is None else directory_id(self.meta.directory_id)

    @property
    def cluster_id(self) -> str | None:
        """The cluster id of ``meta.properties``."""
        return None if self.meta is None else self.meta.cluster_id

    @property
    def live(self) -> bool:
        """Whether a broker or controller uses the copy."""
        return self.liveness is not None and self.liveness.state is BrokerState.LIVE

    @property
    def starts(self) -> bool:
        """Whether the node starts, as far as these files decide it."""
        return not self.refusals and not self.errors

    @property
    def election(self) -> QuorumState | None:
        """The content of ``quorum-state``, None without a readable one."""
        return None if self.quorum_state is None else self.quorum_state.value

    @property
    def first_epoch(self) -> int:
        """The epoch in which the node starts; a former leader resigns, and ends its epoch."""
        state = self.election
        if state is not None and self.resigns:
            return state.leader_epoch + 1
        return self.end.epoch if state is None else max(state.leader_epoch, self.end.epoch)

    @property
    def resigns(self) -> bool:
        """Whether it starts as a former leader that ends its epoch, and tells the others so."""
        state = self.election
        return (
            state is not None
            and state.leader_id == self.node_id
            and state.leader_epoch >= self.end.epoch
        )

    def remembers(self, node_id: int | None, epoch: int) -> bool:
        """Return whether it starts with this node as the leader of ``epoch`` or a later one."""
        state = self.election
        if state is None or node_id is None or state.leader_id != node_id:
            return False
        return state.leader_epoch >= max(epoch, self.end.epoch)

    # --- the log after the next start

    @property
    def newest_snapshot(self) -> MetadataSnapshot | None:
        """The snapshot that a start loads, None without one."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def usable_snapshot(self) -> MetadataSnapshot | None:
        """The newest snapshot that is whole."""
        whole = (snapshot for snapshot in reversed(self.snapshots) if snapshot.fault is None)
        return next(whole, None)

    @cached_property
    def recovered(self) -> int:
        """The number of batches that recovery leaves in the log.

        It cuts at the first damage, and deletes the segments after it.
        """
        if not self.cuts:
            return len(self.log)
        first = min(self.cuts, key=lambda cut: (cut.segment, cut.position))
        return self.log.before(first.segment, first.position)

    @cached_property
    def restarts(self) -> bool:
        """Whether the newest snapshot is beyond the recovered log, which then begins after it."""
        newest = self.newest_snapshot
        return newest is not None and (newest.epoch, newest.end_offset) > self._recovered_end

    @property
    def started_batches(self) -> int:
        """The number of batches in the log after a start."""
        return 0 if self.restarts else self.recovered

    @property
    def start_offset(self) -> int:
        """The log start offset after a start."""
        newest = self.newest_snapshot
        if self.restarts and newest is not None:
            return newest.end_offset
        return self.first_base or 0

    @property
    def end(self) -> LogPosition:
        """The last leader epoch and the log end offset after a start."""
        newest = self.newest_snapshot
        if self.restarts and newest is not None:
            return LogPosition(newest.epoch, newest.end_offset)
        return self._recovered_end

    @property
    def start_epoch(self) -> int:
        """The greatest epoch that a record below the log start offset may have."""
        at_start = [each.epoch for each in self.snapshots if each.end_offset >= self.start_offset]
        return min(at_start, default=0) if self.start_offset else 0

    @cached_property
    def spans(self) -> tuple[EpochSpan, ...]:
        """The leader epochs of the log after a start."""
        spans: list[EpochSpan] = []
        log = self.log
        for index in range(self.started_batches):
            epoch, base, end = log.epochs[index], log.bases[index], log.lasts[index] + 1
            if spans and spans[-1].epoch == epoch:
                spans[-1] = EpochSpan(epoch, spans[-1].start, end)
            else:
                spans.append(EpochSpan(epoch, base, end))
        return tuple(spans)

    @property
    def damage(self) -> LogDamage | None:
        """The first damage of the log, None if it has none."""
        return self.log.damages[0] if self.log.damages else None

    @property
    def damage_offset(self) -> int:
        """The offset at which recovery cuts the log: that of the first damaged batch, if any."""
        return self._recovered_end.offset

    @property
    def cut_records(self) -> int:
        """The records in sound batches that a start cuts, and that no snapshot of it covers."""
        first = self.end.offset if self.restarts else 0
        return sum(
            self.log.counts[index]
            for index in range(self.recovered, len(self.log))
            if self.log.lasts[index] >= first
        )

    @property
    def _recovered_end(self) -> LogPosition:
        if self.recovered:
            last = self.recovered - 1
            return LogPosition(self.log.epochs[last], self.log.lasts[last] + 1)
        return LogPosition(0, self.first_base or 0)

    # --- voters

    @cached_property
    def leader_changes(self) -> tuple[LeaderChange, ...]:
        """The leader changes in the log, also those that a start cuts."""
        return tuple(entry for _, entry in self.log.entries if isinstance(entry, LeaderChange))

    @cached_property
    def voter_history(self) -> tuple[VotersEntry, ...]:
        """The different sets of voters in snapshots and log, in order of their offsets."""
        found = [entry for entry in self._entries() if isinstance(entry, VotersEntry)]
        found.sort(key=lambda entry: entry.offset)
        return tuple(
            entry
            for index, entry in enumerate(found)
            if not index or entry.voters != found[index - 1].voters
        )

    @property
    def kraft_version(self) -> int:
        """The last level of kraft.version: 0 for a static set of voters, 1 for a dynamic one."""
        found = [entry for entry in self._entries() if isinstance(entry, VersionEntry)]
        return max(found, key=lambda entry: entry.offset).level if found else 0

    @cached_property
    def dynamic(self) -> VotersEntry | None:
        """The last set of voters in snapshots and log, which overrides a static one."""
        return self.voter_history[-1] if self.voter_history else None

    @property
    def implied(self) -> VoterSet | None:
        """The static voters by the last leader change, or else by ``quorum-state``."""
        changes = [
            entry
            for index, entry in self.log.entries
            if index < self.started_batches and isinstance(entry, LeaderChange)
        ]
        if changes:
            return VoterSet.of(ReplicaKey(voter.node_id) for voter in changes[-1].voters.voters)
        listed = () if self.election is None else self.election.current_voters
        return VoterSet.of(map(ReplicaKey, listed)) if listed else None

    def _entries(self) -> Iterator[Entry]:
        for entries in self.recorded:
            yield from entries
        for index, entry in self.log.entries:
            if index < self.started_batches:
                yield entry
