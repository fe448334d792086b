"""The votes that a copy gets from the others, and whether it can lead.

Spec: ``KafkaRaftClient.handleVoteRequest``, ``QuorumState.isVoter``. The epoch of a candidate grows
until it is above all votes that were given before, so that these do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from kdump.quorum.replica import MetadataReplica
from kdump.quorum.voter_set import ReplicaKey, VoterSet
from kdump.values import frozen


class Answer(Enum):
    """A voter's answer to a candidate."""

    GRANTED = "granted"
    LOG_IS_LONGER = "its log ends later"
    DOES_NOT_START = "it does not start"
    OTHER_CLUSTER = "it is of another cluster"
    OTHER_DIRECTORY = "its directory id is not that of the voter"
    NOT_GIVEN = "its disk is not among those given"


@frozen
class Vote:
    """The answer of a voter; ``replica`` is the number of its copy, None if it is not given."""

    voter: ReplicaKey
    answer: Answer
    replica: int | None


@frozen
class Candidacy:
    """An election with the copy of number ``replica`` as the candidate.

    ``obstacle`` says why the node is no candidate at all, None if it is one; ``votes`` are then
    those of all ``voters``.
    """

    replica: int
    voters: VoterSet | None
    obstacle: str | None
    votes: tuple[Vote, ...] = ()

    @property
    def granted(self) -> int:
        """The number of votes, with its own."""
        return sum(vote.answer is Answer.GRANTED for vote in self.votes)

    @property
    def wins(self) -> bool:
        """Whether a majority of the voters votes for the copy."""
        majority = None if self.voters is None else self.voters.majority
        return self.obstacle is None and majority is not None and self.granted >= majority


def hold_elections(
    replicas: Sequence[MetadataReplica], assumed: VoterSet | None
) -> tuple[Candidacy, ...]:
    """Return the candidacy of each copy; ``assumed`` are the voters of copies that know none."""
    return tuple(_candidacy(number, replicas, assumed) for number in range(len(replicas)))


def voters_of(replica: MetadataReplica, assumed: VoterSet | None) -> VoterSet | None:
    """Return the voters that a node knows: those in its log, or the static ones."""
    if replica.dynamic is not None:
        return replica.dynamic.voters
    return replica.static or replica.implied or assumed


def _candidacy(
    number: int, replicas: Sequence[MetadataReplica], assumed: VoterSet | None
) -> Candidacy:
    replica = replicas[number]
    voters = voters_of(replica, assumed)
    obstacle = _obstacle(replica, voters)
    if obstacle is not None or voters is None:
        return Candidacy(number, voters, obstacle)
    votes = tuple(_vote(voter, number, replicas) for voter in voters.voters)
    return Candidacy(number, voters, None, votes)


def _obstacle(replica: MetadataReplica, voters: VoterSet | None) -> str | None:
    if replica.errors:
        return "it could not be read"
    if replica.refusals:
        return "its node does not start"
    if voters is None:
        return "no voters are known"
    if replica.roles and "controller" not in replica.roles:
        return "its node is no controller"
    voter = voters.find(replica.node_id)
    if voter is None:
        return f"its node is none of the voters {', '.join(map(str, _ids(voters)))}"
    if not voter.is_at(replica.directory_id):
        return f"its directory id differs from {voter.directory_id} of voter {voter.node_id}"
    return None


def _ids(voters: VoterSet) -> list[int]:
    return [voter.node_id for voter in voters.voters]


def _vote(voter: ReplicaKey, candidate: int, replicas: Sequence[MetadataReplica]) -> Vote:
    """Return the answer of a voter; of several copies of one node, the one that grants counts."""
    if voter.node_id == replicas[candidate].node_id:
        return Vote(voter, Answer.GRANTED, candidate)
    answers = [
        Vote(voter, _answer(voter, replica, replicas[candidate]), number)
        for number, replica in enumerate(replicas)
        if replica.node_id == voter.node_id
    ]
    granted = (vote for vote in answers if vote.answer is Answer.GRANTED)
    return next(granted, answers[0] if answers else Vote(voter, Answer.NOT_GIVEN, None))


def _answer(voter: ReplicaKey, replica: MetadataReplica, candidate: MetadataReplica) -> Answer:
    if not replica.starts:
        return Answer.DOES_NOT_START
    if replica.cluster_id != candidate.cluster_id:
        return Answer.OTHER_CLUSTER
    if not voter.is_at(replica.directory_id):
        return Answer.OTHER_DIRECTORY
    return Answer.GRANTED if candidate.end >= replica.end else Answer.LOG_IS_LONGER
