"""The state of the quorum: elections, losses, problems, and what to do.

Only the given disks are known: a voter whose disk is not given counts as one that does not vote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from kdump.commands.quorum.election import Answer, Candidacy, hold_elections, voters_of
from kdump.commands.quorum.problems import Problem, ProblemKind, copy_problems
from kdump.commands.quorum.replacement import Replacement, replacement
from kdump.quorum.lineage import ReplicaLoss, different_content, losses, shared_end
from kdump.quorum.replica import MetadataReplica
from kdump.quorum.voter_set import ReplicaKey, VoterSet
from kdump.values import frozen


@frozen
class CopyLoss:
    """A loss of the copy of number ``replica``; ``holders`` are the nodes that have its records."""

    replica: int
    loss: ReplicaLoss
    holders: tuple[int | None, ...]


@frozen
class QuorumLeadership:
    """The copy of number ``replica`` as the leader, and what the copies lose then.

    ``unreadable`` are the copies whose damage may have held records that the leader does not have.
    """

    replica: int
    losses: tuple[CopyLoss, ...]
    unreadable: tuple[int, ...]

    @property
    def changes(self) -> int:
        """The number of lost records that change metadata."""
        return sum(each.loss.changes for each in self.losses)

    @property
    def records(self) -> int:
        """The number of lost records."""
        return sum(each.loss.records for each in self.losses)


@dataclass(frozen=True)
class Quorum:
    """The copies at hand, and what follows from them."""

    replicas: tuple[MetadataReplica, ...]

    @cached_property
    def voters(self) -> VoterSet | None:
        """The voters that the copy with the latest end knows; None if no copy knows any."""
        ordered = sorted(self.replicas, key=lambda replica: replica.end, reverse=True)
        known = (voters_of(replica, None) for replica in ordered)
        return next((voters for voters in known if voters is not None), None)

    @cached_property
    def candidacies(self) -> tuple[Candidacy, ...]:
        """The election of each copy."""
        return hold_elections(self.replicas, self.voters)

    @cached_property
    def leaders(self) -> tuple[QuorumLeadership, ...]:
        """The copies that can be elected; first the one whose log ends latest."""
        winners = [each.replica for each in self.candidacies if each.wins]
        found = [
            QuorumLeadership(number, tuple(self._losses(number)), tuple(self._unreadable(number)))
            for number in winners
        ]

        def rank(leader: QuorumLeadership) -> tuple[int, int, int]:
            end = self.replicas[leader.replica].end
            return -end.epoch, -end.offset, leader.changes

        return tuple(sorted(found, key=rank))

    @cached_property
    def forgotten(self) -> Mapping[int, tuple[int, ...]]:
        """The copies whose nodes led an epoch by ``quorum-state`` of others, but not by their own.

        Each has the copies that say so. Such a node stops when one of them tells it the leader of
        that epoch (``KafkaRaftClient.maybeTransition``); once a later epoch has begun, it does not.
        """
        found = {}
        for number, replica in enumerate(self.replicas):
            epoch = replica.first_epoch
            witnesses = tuple(
                other
                for other in self._comparable(number)
                if other != number
                and self.replicas[other].starts
                and self.replicas[other].remembers(replica.node_id, epoch)
            )
            if replica.starts and witnesses:
                found[number] = witnesses
        return found

    @cached_property
    def without_voters(self) -> tuple[int, ...]:
        """The copies that hold no voters, though these are dynamic, beside a former leader.

        Such a node stops if the former leader tells it that its epoch ends, before it has fetched
        the voters: it does not know the endpoints (``KafkaRaftClient.transitionToFollower``).
        """
        return tuple(
            number
            for number, replica in enumerate(self.replicas)
            if replica.starts
            and voters_of(replica, None) is None
            and any(
                other != number and self.replicas[other].starts and self.replicas[other].resigns
                for other in self._comparable(number)
            )
        )

    @property
    def at_risk(self) -> tuple[int, ...]:
        """The copies whose nodes may stop soon after their start."""
        return tuple(sorted({*self.forgotten, *self.without_voters}))

    @property
    def companions(self) -> tuple[int, ...]:
        """The copies whose nodes, with the first of ``leaders``, are a majority that elects it.

        They have the shortest logs: none of them is elected before it.
        """
        if not self.leaders:
            return ()
        candidacy = self.candidacies[self.leaders[0].replica]
        granting = [
            vote.replica
            for vote in candidacy.votes
            if vote.answer is Answer.GRANTED and vote.replica not in (None, candidacy.replica)
        ]
        numbers = [number for number in granting if number is not None]
        numbers.sort(key=lambda number: (number in self.at_risk, self.replicas[number].end))
        majority = 1 if candidacy.voters is None else candidacy.voters.majority
        return tuple(numbers[: majority - 1])

    @cached_property
    def replacement(self) -> Replacement | None:
        """The voters to replace where the disks of a majority are lost; None where they are not."""
        return None if self.leaders else replacement(self.replicas, self.voters)

    @property
    def dynamic(self) -> bool:
        """Whether the voters are in the metadata log, with the ids of their directories."""
        return any(replica.dynamic is not None for replica in self.replicas)

    @property
    def cluster_id(self) -> str | None:
        """The cluster id of the first copy that has one."""
        return next((each.cluster_id for each in self.replicas if each.cluster_id), None)

    @property
    def refused(self) -> Mapping[int, ReplicaKey]:
        """The copies whose votes elect a leader, but that forgot that they led the last epoch.

        Such a node stops before it votes. Each has the voter whose disk is not given, and that is
        to be replaced instead.
        """
        given = {replica.node_id for replica in self.replicas}
        others = [voter for voter in self._voters() if voter.node_id not in given]
        leaders = [each.replica for each in self.leaders[:1]]
        needed = {*leaders, *self.companions} & self.forgotten.keys()
        return dict.fromkeys(sorted(needed), others[0]) if others else {}

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """All problems and notes: those of single copies, of pairs, of the quorum."""
        found: list[Problem] = []
        reach = max((replica.end.offset for replica in self.replicas), default=0)
        for number, replica in enumerate(self.replicas):
            found += (
                Problem(kind, (number,), text)
                for kind, text in copy_problems(replica, self.voters, reach)
            )
        found += self._pairs()
        found += self._quorum()
        return tuple(found)

    def _losses(self, leader: int) -> Iterator[CopyLoss]:
        for number in self._comparable(leader):
            for loss in losses(self.replicas[leader], self.replicas[number]):
                yield CopyLoss(number, loss, self._holders(number, loss))

    def _unreadable(self, leader: int) -> Iterator[int]:
        end = self.replicas[leader].end.offset
        for number in self._comparable(leader):
            replica = self.replicas[number]
            damage = replica.damage
            if damage is not None and not damage.torn and replica.damage_offset >= end:
                yield number

    def _holders(self, number: int, loss: ReplicaLoss) -> tuple[int | None, ...]:
        replica = self.replicas[number]
        if loss.cut:
            return (replica.node_id,)
        return tuple(
            self.replicas[other].node_id
            for other in self._comparable(number)
            if other == number or shared_end(replica, self.replicas[other]) >= loss.end
        )

    def _comparable(self, number: int) -> list[int]:
        """Return the copies of the same cluster that could be read, the one of ``number`` too."""
        cluster = self.replicas[number].cluster_id
        return [
            other
            for other, replica in enumerate(self.replicas)
            if other == number
            or (not replica.errors and (cluster is None or replica.cluster_id in (None, cluster)))
        ]

    def _pairs(self) -> Iterator[Problem]:
        for pair in combinations(range(len(self.replicas)), 2):
            replica, other = (self.replicas[number] for number in pair)
            if replica.errors or other.errors:
                continue
            if replica.node_id is not None and replica.node_id == other.node_id:
                yield Problem(
                    ProblemKind.NODE_TWICE,
                    pair,
                    f"both are of node {replica.node_id}; it has one vote",
                )
            if None not in (replica.cluster_id, other.cluster_id) and (
                replica.cluster_id != other.cluster_id
            ):
                yield Problem(
                    ProblemKind.CLUSTER_ID_DIFFERS,
                    pair,
                    f"cluster ids {replica.cluster_id} and {other.cluster_id}: each refuses the "
                    "requests of the other",
                )
                continue
            shared = shared_end(replica, other)
            if shared < min(replica.end.offset, other.end.offset):
                yield Problem(
                    ProblemKind.LOGS_DIVERGE,
                    pair,
                    f"from offset {shared} on they are of different leader epochs",
                )
            different = different_content(replica, other)
            if different is not None:
                yield Problem(
                    ProblemKind.CONTENT_DIFFERS,
                    pair,
                    f"different batches from offset {different} on, of the same leader epoch: one "
                    "of them was changed on disk or written by another cluster",
                )
            voters = [each.dynamic for each in (replica, other)]
            if None not in voters and voters[0].voters != voters[1].voters:  # type: ignore[union-attr]
                yield Problem(
                    ProblemKind.VOTERS_DIFFER, pair, "the last sets of voters in them differ"
                )

    def _quorum(self) -> Iterator[Problem]:
        for number, witnesses in self.forgotten.items():
            nodes = ", ".join(str(self.replicas[other].node_id) for other in witnesses)
            yield Problem(
                ProblemKind.LEADERSHIP_FORGOTTEN,
                (number,),
                f"by quorum-state of node {nodes} it led an epoch that its own files do not know: "
                "it stops with an IllegalStateException if it hears of that before a later epoch "
                "begins",
            )
        for number in self.without_voters:
            yield Problem(
                ProblemKind.VOTERS_UNKNOWN,
                (number,),
                "it holds no voters: it stops with an IllegalArgumentException if it hears of a "
                "former leader's end of epoch before it has fetched them",
            )
        given = {replica.node_id for replica in self.replicas}
        missing = [voter for voter in self._voters() if voter.node_id not in given]
        nameless = [str(n) for n, each in enumerate(self.replicas, 1) if each.node_id is None]
        unless = f", unless replica {' or '.join(nameless)} is it" if nameless else ""
        for voter in missing:
            yield Problem(
                ProblemKind.VOTER_NOT_GIVEN,
                (),
                f"voter {voter.node_id}: its disk is not given{unless}",
            )
        if not self.leaders:
            yield Problem(ProblemKind.NO_LEADER, (), self._why_no_leader())
        for leader in self.leaders:
            if leader.changes:
                yield Problem(
                    ProblemKind.RECORDS_LOST,
                    (leader.replica,),
                    f"if node {self.replicas[leader.replica].node_id} leads, {leader.records} "
                    f"records are lost; {leader.changes} of them change metadata",
                )

    def _voters(self) -> tuple[ReplicaKey, ...]:
        return () if self.voters is None else self.voters.voters

    def _why_no_leader(self) -> str:
        voters = self.voters
        if voters is None:
            return "no replica and no configuration names the voters: name them with --config"
        usable = [
            voter.node_id
            for voter in voters.voters
            if any(
                replica.node_id == voter.node_id
                and replica.starts
                and voter.is_at(replica.directory_id)
                for replica in self.replicas
            )
        ]
        total, need = len(voters.voters), voters.majority
        if len(usable) < need:
            named = f": {', '.join(map(str, usable))}" if usable else ""
            return (
                f"of {total} voters the given disks have {len(usable)} that can vote{named}; "
                f"{need} elect a leader"
            )
        best = max(
            (each for each in self.candidacies if each.obstacle is None),
            key=lambda each: each.granted,
            default=None,
        )
        if best is None:
            return "no replica can be a candidate"
        node = self.replicas[best.replica].node_id
        return f"no replica gets {need} of {total} votes; node {node} gets {best.granted}"
