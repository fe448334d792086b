"""Problems and notes: their kinds, and those of a single copy."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from kdump.quorum.replica import MetadataReplica
from kdump.quorum.voter_set import VoterSet, directory_id
from kdump.values import frozen


class ProblemKind(Enum):
    """The kinds of problems and notes; the names are a promise to scripts."""

    UNREADABLE = "unreadable"
    DOES_NOT_START = "does-not-start"
    CLUSTER_ID_DIFFERS = "cluster-id-differs"
    DIRECTORY_ID_DIFFERS = "directory-id-differs"
    NODE_TWICE = "node-twice"
    LOG_CUT = "log-cut"
    LOG_END_MISSING = "log-end-missing"
    TORN_TAIL = "torn-tail"
    SNAPSHOT_DAMAGED = "snapshot-damaged"
    LOGS_DIVERGE = "logs-diverge"
    CONTENT_DIFFERS = "content-differs"
    VOTERS_DIFFER = "voters-differ"
    QUORUM_STATE_MISSING = "quorum-state-missing"
    VOTED_DIRECTORY_DIFFERS = "voted-directory-differs"
    LOG_MISSING = "log-missing"
    VOTER_NOT_GIVEN = "voter-not-given"
    NO_LEADER = "no-leader"
    RECORDS_LOST = "records-lost"
    LEADERSHIP_FORGOTTEN = "leadership-forgotten"
    LOG_BEHIND = "log-behind"
    VOTERS_UNKNOWN = "voters-unknown"
    IN_USE = "in-use"


#: What does not by itself prevent a quorum or lose a change of the metadata.
_NOTES = frozenset(
    {
        ProblemKind.TORN_TAIL,
        ProblemKind.SNAPSHOT_DAMAGED,
        ProblemKind.VOTERS_DIFFER,
        ProblemKind.QUORUM_STATE_MISSING,
        ProblemKind.VOTED_DIRECTORY_DIFFERS,
        ProblemKind.LOG_MISSING,
        ProblemKind.VOTER_NOT_GIVEN,
        ProblemKind.LOG_BEHIND,
        ProblemKind.IN_USE,
    }
)


@frozen
class Problem:
    """A problem, or a note; ``replicas`` are the numbers of the copies that it is about."""

    kind: ProblemKind
    replicas: tuple[int, ...]
    text: str

    @property
    def is_note(self) -> bool:
        """Whether it neither prevents a quorum nor loses changes of the metadata."""
        return self.kind in _NOTES


def copy_problems(
    replica: MetadataReplica, voters: VoterSet | None, reach: int
) -> Iterator[tuple[ProblemKind, str]]:
    """Yield the problems of one copy; ``reach`` is the offset up to which any copy goes."""
    for error in replica.errors:
        yield ProblemKind.UNREADABLE, str(error)
    for refusal in replica.refusals:
        yield ProblemKind.DOES_NOT_START, f"{refusal.path}: {refusal.text}"
    if replica.live:
        yield ProblemKind.IN_USE, "a broker or controller uses it: its end moves"
    if replica.partition is None and replica.starts:
        yield ProblemKind.LOG_MISSING, "no metadata log: its node starts with an empty one"
    damage = replica.damage
    if damage is not None and replica.recovered < len(replica.log):
        yield ProblemKind.LOG_CUT, _cut_text(replica)
    elif damage is not None and damage.torn:
        yield (
            ProblemKind.TORN_TAIL,
            f"{damage.path}: {damage.reason.value} at position {damage.position}: the next startup "
            f"removes {damage.size} bytes",
        )
    elif damage is not None:
        yield ProblemKind.LOG_CUT, _cut_text(replica)
    if replica.reached is not None and replica.reached > reach:
        yield (
            ProblemKind.LOG_END_MISSING,
            f"its other files show that its log went up to offset {replica.reached}: no given copy "
            f"has the metadata from offset {reach} on",
        )
    for snapshot in replica.snapshots[:-1]:
        if snapshot.fault is not None:
            yield ProblemKind.SNAPSHOT_DAMAGED, f"{snapshot.path}: {snapshot.fault}"
    yield from _identity_problems(replica, voters)


def _cut_text(replica: MetadataReplica) -> str:
    damage = replica.damage
    assert damage is not None
    size = damage.size
    text = f"{damage.path}: {damage.reason.value} at position {damage.position}, {size} bytes"
    later = replica.cut_records
    if replica.restarts:
        return (
            f"{text}: the next startup drops the log; it begins again after the snapshot, at "
            f"offset {replica.end.offset}, without {later} valid records after it"
        )
    return (
        f"{text}: the next startup truncates the log to offset {replica.end.offset}, and removes "
        f"{later} valid records"
    )


def _identity_problems(
    replica: MetadataReplica, voters: VoterSet | None
) -> Iterator[tuple[ProblemKind, str]]:
    own = replica.dynamic.voters if replica.dynamic is not None else voters
    voter = None if own is None else own.find(replica.node_id)
    if voter is not None and not voter.is_at(replica.directory_id):
        yield (
            ProblemKind.DIRECTORY_ID_DIFFERS,
            f"directory id {replica.directory_id} differs from {voter.directory_id} of voter "
            f"{voter.node_id}: the node is an observer, and votes sent to the voter are "
            "refused",
        )
    state = replica.election
    if replica.quorum_state is None and replica.end.epoch:
        yield (
            ProblemKind.QUORUM_STATE_MISSING,
            "quorum-state is missing: the node does not know its vote, and may vote a second time "
            "in an epoch",
        )
    if (
        state is not None
        and state.leader_id == replica.node_id
        and state.leader_epoch > replica.end.epoch
    ):
        yield (
            ProblemKind.LOG_BEHIND,
            f"by quorum-state the node led epoch {state.leader_epoch}, but its log ends in epoch "
            f"{replica.end.epoch}: records were removed from it, or it wrote none",
        )
    if (
        state is not None
        and state.voted_id == replica.node_id
        and state.voted_id >= 0
        and _is_other(state.voted_directory_id, replica.directory_id)
    ):
        yield (
            ProblemKind.VOTED_DIRECTORY_DIFFERS,
            f"quorum-state has a vote for node {state.voted_id} with directory id "
            f"{state.voted_directory_id}, which is not its own: the file is of another disk",
        )


def _is_other(voted: str | None, own: str | None) -> bool:
    known = directory_id(voted)
    return known is not None and known != own
