"""Sets of voters in snapshots and logs (KIP-853), and the disks that are none of a voter's."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kdump.audit.targets.target import open_roots
from kdump.commands.quorum.election import Answer
from kdump.commands.quorum.problems import ProblemKind
from kdump.commands.quorum.state import Quorum
from kdump.quorum.reading import read_replicas
from kdump.quorum.voter_set import ReplicaKey, VoterSet
from support.forge import batch, control_batch, record
from support.forge_metadata import METADATA, NO_OP, feature, segment_name, snapshot_name, uuid

LEADER_CHANGE, HEADER, FOOTER, VERSION, VOTERS = 2, 3, 4, 5, 6
CLUSTER = "kdumpFixturesCluster0A"
IDS = {node: f"kdumpControllerDirec{node}g" for node in (1, 2, 3, 4)}
#: The zero id, for no directory.
NONE = "A" * 22


def keys(nodes: Sequence[int]) -> bytes:
    listed = b"".join(struct.pack(">i", node) + uuid(IDS[node]) + b"\0" for node in nodes)
    return bytes([len(nodes) + 1]) + listed


def leader_change(offset: int, epoch: int, leader: int, voters: Sequence[int]) -> bytes:
    value = struct.pack(">hi", 1, leader) + keys(voters) + keys(voters[:2]) + b"\0"
    return control_batch(offset, LEADER_CHANGE, value, leader_epoch=epoch)


def voters_record(offset: int, epoch: int, ids: Mapping[int, str]) -> bytes:
    listed = b"".join(
        struct.pack(">i", node) + uuid(name) + b"\1" + struct.pack(">hh", 0, 1) + b"\0\0"
        for node, name in ids.items()
    )
    value = struct.pack(">h", 0) + bytes([len(ids) + 1]) + listed + b"\0"
    return control_batch(offset, VOTERS, value, leader_epoch=epoch)


def kraft_version(offset: int, epoch: int, level: int) -> bytes:
    return control_batch(offset, VERSION, struct.pack(">hhb", 0, level, 0), leader_epoch=epoch)


def disk(
    top: Path,
    node: int,
    log: Sequence[bytes],
    *,
    directory_id: str | None = None,
    bootstrap: Mapping[int, str] | None = None,
    quorum_state: str | None = None,
) -> Path:
    """The log directory of a node; ``bootstrap`` are the voters with which it was formatted."""
    directory = top / str(node)
    (directory / METADATA).mkdir(parents=True)
    own = IDS[node] if directory_id is None else directory_id
    (directory / "meta.properties").write_text(
        f"version=1\nnode.id={node}\ncluster.id={CLUSTER}\ndirectory.id={own}\n"
    )
    (directory / segment_name()).write_bytes(b"".join(log))
    if bootstrap is not None:
        pieces = [
            control_batch(0, HEADER, struct.pack(">hqb", 0, 1, 0)),
            kraft_version(1, 0, 1),
            voters_record(2, 0, bootstrap),
            control_batch(3, FOOTER, struct.pack(">hb", 0, 0)),
        ]
        (directory / snapshot_name(0, 0)).write_bytes(b"".join(pieces))
    if quorum_state is not None:
        (directory / METADATA / "quorum-state").write_text(quorum_state)
    return directory


def noops(first: int, count: int, epoch: int) -> list[bytes]:
    return [batch(first + n, [record(NO_OP)], leader_epoch=epoch) for n in range(count)]


def some(nodes: Sequence[int]) -> dict[int, str]:
    return {node: IDS[node] for node in nodes}


def quorum_of(*paths: Path) -> Quorum:
    return Quorum(tuple(read_replicas(open_roots(paths), None, jobs=1)))


LOG = [
    leader_change(0, 1, 1, (1, 2, 3)),
    batch(1, [record(feature("metadata.version", 25))], leader_epoch=1),
    *noops(2, 3, 1),
]


def test_the_last_set_in_snapshot_and_log_counts(tmp_path: Path) -> None:
    log = [*LOG, voters_record(5, 1, some([1, 2, 3, 4])), *noops(6, 2, 1)]
    quorum = quorum_of(disk(tmp_path, 1, log, bootstrap=some([1, 2, 3])))
    (replica,) = quorum.replicas
    assert replica.kraft_version == 1
    assert [(entry.offset, entry.epoch) for entry in replica.voter_history] == [(-1, 0), (5, 1)]
    assert [
        [voter.node_id for voter in entry.voters.voters] for entry in replica.voter_history
    ] == [[1, 2, 3], [1, 2, 3, 4]]
    assert quorum.voters == VoterSet(tuple(ReplicaKey(node, IDS[node]) for node in (1, 2, 3, 4)))
    assert quorum.voters.majority == 3
    (change,) = replica.leader_changes
    assert (change.leader_id, change.granting) == (
        1,
        (ReplicaKey(1, IDS[1]), ReplicaKey(2, IDS[2])),
    )


def test_a_set_that_a_start_cuts_does_not_count(tmp_path: Path) -> None:
    broken = bytearray(noops(5, 1, 1)[0])
    broken[-1] ^= 1
    log = [*LOG, bytes(broken), voters_record(6, 1, some([1, 2]))]
    (replica,) = quorum_of(disk(tmp_path, 1, log, bootstrap=some([1, 2, 3]))).replicas
    assert replica.end == (1, 5)
    assert [entry.offset for entry in replica.voter_history] == [-1]


@pytest.mark.parametrize("own", ["otherOtherOtherOther1g", NONE])
def test_a_voter_with_another_directory_neither_votes_nor_leads(tmp_path: Path, own: str) -> None:
    voters = some([1, 2, 3])
    one = disk(tmp_path, 1, LOG, bootstrap=voters)
    two = disk(tmp_path, 2, LOG, bootstrap=voters, directory_id=own)
    quorum = quorum_of(one, two)
    assert not quorum.leaders
    first, second = quorum.candidacies
    assert [vote.answer for vote in first.votes] == [
        Answer.GRANTED,
        Answer.OTHER_DIRECTORY,
        Answer.NOT_GIVEN,
    ]
    assert second.obstacle is not None
    assert IDS[2] in second.obstacle
    kinds = {problem.kind for problem in quorum.problems}
    assert {ProblemKind.DIRECTORY_ID_DIFFERS, ProblemKind.NO_LEADER} <= kinds


def test_a_node_that_lags_behind_a_change_of_voters_uses_its_own_set(tmp_path: Path) -> None:
    # Nodes 2 and 3 do not know yet that node 1 and 2 alone are voters.
    new = [*LOG, voters_record(5, 1, some([1, 2]))]
    disks = [disk(tmp_path, 1, new, bootstrap=some([1, 2, 3]))]
    disks += [disk(tmp_path, node, LOG, bootstrap=some([1, 2, 3])) for node in (2, 3)]
    quorum = quorum_of(*disks)
    assert quorum.voters == VoterSet((ReplicaKey(1, IDS[1]), ReplicaKey(2, IDS[2])))
    assert [leader.replica for leader in quorum.leaders] == [0, 1, 2]
    assert ProblemKind.VOTERS_DIFFER in {problem.kind for problem in quorum.problems}
    assert quorum.leaders[1].losses[0].loss.first == 5


def test_an_observer_does_not_lead(tmp_path: Path) -> None:
    disks = [disk(tmp_path, node, LOG, bootstrap=some([1, 2, 3])) for node in (1, 4)]
    quorum = quorum_of(*disks)
    assert quorum.candidacies[1].obstacle == "its node is none of the voters 1, 2, 3"
    assert not quorum.leaders


def test_a_single_voter_leads_with_a_vote_of_its_former_directory(tmp_path: Path) -> None:
    state = (
        '{"leaderId":-1,"leaderEpoch":7,"votedId":1,"votedDirectoryId":"otherOtherOtherOther1g",'
        '"data_version":1}'
    )
    path = disk(tmp_path, 1, LOG, bootstrap=some([1]), quorum_state=state)
    quorum = quorum_of(path)
    assert [leader.replica for leader in quorum.leaders] == [0]
    assert {problem.kind for problem in quorum.problems} == {ProblemKind.VOTED_DIRECTORY_DIFFERS}


def test_a_node_without_voters_may_stop_beside_a_former_leader(tmp_path: Path) -> None:
    state = '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"%s","data_version":1}'
    leader = disk(tmp_path, 1, LOG, bootstrap=some([1, 2, 3]), quorum_state=state % NONE)
    quorum = quorum_of(leader, disk(tmp_path, 2, []))
    assert quorum.without_voters == quorum.at_risk == (1,)
    assert [leader.replica for leader in quorum.leaders] == [0]
    assert ProblemKind.VOTERS_UNKNOWN in {problem.kind for problem in quorum.problems}
    follower = disk(tmp_path, 3, LOG, bootstrap=some([1, 2, 3]))
    assert quorum_of(follower, tmp_path / "2").at_risk == ()
