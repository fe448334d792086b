"""New disks for voters whose disks are lost, so that the others elect a leader again.

A node stops at every start if a voter remembers it as the leader of an epoch that its own files do
not know (``KafkaRaftClient.maybeTransition``): of the lost voters, the last leader is not replaced
first. Dynamic voters are known by their directory ids (KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence

from kdump.quorum.lineage import ReplicaLoss, losses
from kdump.quorum.replica import LogPosition, MetadataReplica
from kdump.quorum.voter_set import ReplicaKey, VoterSet
from kdump.values import frozen


@frozen
class LogSource:
    """The copy of number ``replica``, whose node is no voter that is there.

    ``beyond`` are its records that no copy of a voter has.
    """

    replica: int
    beyond: tuple[ReplicaLoss, ...]


@frozen
class Replacement:
    """The lost voters: ``first`` are to be replaced for a majority, ``later`` are all others.

    ``lost`` has both. ``last_leader`` is the node that led last, None if unknown. ``survivor`` is
    the number of the furthest copy of a voter, None without one, and ``end`` the end of its log.
    ``sources`` are the copies that reach further, the furthest first.
    """

    lost: tuple[ReplicaKey, ...]
    first: tuple[ReplicaKey, ...]
    later: tuple[ReplicaKey, ...]
    last_leader: int | None
    survivor: int | None
    end: LogPosition | None
    sources: tuple[LogSource, ...]


def replacement(replicas: Sequence[MetadataReplica], voters: VoterSet | None) -> Replacement | None:
    """Return the voters to replace; None if the disks that are there can be a majority.

    A voter is lost if none of ``replicas`` is its copy, or only empty directories are. One that is
    there and does not start is not lost: it is to be repaired.
    """
    if voters is None:
        return None
    there = [
        number
        for number, replica in enumerate(replicas)
        if (voter := voters.find(replica.node_id)) is not None
        and voter.is_at(replica.directory_id)
        and not replica.errors
    ]
    present = {replicas[number].node_id for number in there}
    lost = [voter for voter in voters.voters if voter.node_id not in present]
    need = voters.majority - len(present)
    if need <= 0:
        return None
    leader = last_leader(replicas)
    ordered = sorted(lost, key=lambda voter: voter.node_id == leader)
    held = [number for number in there if replicas[number].partition is not None]
    survivor = max(held, key=lambda number: replicas[number].end, default=None)
    return Replacement(
        tuple(lost),
        tuple(ordered[:need]),
        tuple(ordered[need:]),
        leader,
        survivor,
        None if survivor is None else replicas[survivor].end,
        tuple(_sources(replicas, there, survivor)),
    )


def last_leader(replicas: Sequence[MetadataReplica]) -> int | None:
    """Return the node that led the latest epoch that ``replicas`` know, None without any."""
    known = [
        (state.leader_epoch, state.leader_id)
        for replica in replicas
        if (state := replica.election) is not None and state.leader_id >= 0
    ]
    known += [
        (change.epoch, change.leader_id)
        for replica in replicas
        for change in replica.leader_changes
    ]
    return max(known)[1] if known else None


def _sources(
    replicas: Sequence[MetadataReplica], there: Sequence[int], survivor: int | None
) -> list[LogSource]:
    """Return the copies of other nodes that reach further than ``survivor``, the furthest first."""
    base = MetadataReplica(replicas[0].path) if survivor is None else replicas[survivor]
    found = [
        LogSource(number, beyond)
        for number, replica in enumerate(replicas)
        if number not in there
        and replica.partition is not None
        and not replica.errors
        and replica.end > base.end
        and (beyond := tuple(loss for loss in losses(base, replica) if not loss.cut))
    ]
    return sorted(found, key=lambda source: replicas[source.replica].end, reverse=True)
