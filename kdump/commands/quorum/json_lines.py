"""JSON Lines: a line for each copy, set of voters, leader change, election and problem.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kdump.commands.quorum.replacement import Replacement
from kdump.commands.quorum.state import Quorum, QuorumLeadership
from kdump.commands.quorum.verdict import exit_code, verdict
from kdump.quorum.replica import MetadataReplica
from kdump.quorum.voter_set import ReplicaKey, VoterSet
from kdump.ui import jsonl


def print_json(quorum: Quorum, emit: Callable[[str], None]) -> int:
    """Print the lines; return the exit code. Copies are counted from 1."""

    def say(kind: str, **fields: object) -> None:
        emit(jsonl.line(kind, fields))

    say("header", **jsonl.header("quorum", [each.path for each in quorum.replicas]))
    for number, replica in enumerate(quorum.replicas, 1):
        say("copy", copy=number, **_copy_fields(replica))
        for entry in replica.voter_history:
            voters, path = _voters(entry.voters), jsonl.path_field(entry.path)
            say(
                "voters", copy=number, offset=entry.offset, epoch=entry.epoch, voters=voters, **path
            )  # fmt: skip
        for change in replica.leader_changes:
            say(
                "leader_change", copy=number, offset=change.offset, epoch=change.epoch,
                time_ms=change.timestamp_ms, leader_id=change.leader_id,
                granting=_listed(change.granting), voters=_voters(change.voters),
            )  # fmt: skip
    for candidacy in quorum.candidacies:
        votes = [
            {
                "node_id": vote.voter.node_id,
                "copy": None if vote.replica is None else vote.replica + 1,
                "answer": vote.answer.name.lower(),
            }
            for vote in candidacy.votes
        ]
        say(
            "election", copy=candidacy.replica + 1,
            node_id=quorum.replicas[candidacy.replica].node_id, can_lead=candidacy.wins,
            obstacle=candidacy.obstacle, voters=candidacy.voters and _voters(candidacy.voters),
            granted=candidacy.granted, votes=votes,
        )  # fmt: skip
    for leader in quorum.leaders:
        say("leader", **_leader_fields(quorum, leader))
    for problem in quorum.problems:
        copies = [number + 1 for number in problem.replicas]
        fields = {"kind": problem.kind.value, "copies": copies, "note": problem.is_note}
        emit(jsonl.line("problem", {**fields, "text": problem.text}))
    code = exit_code(quorum)
    nodes = [quorum.replicas[leader.replica].node_id for leader in quorum.leaders]
    first = [leader.replica for leader in quorum.leaders[:1]] + list(quorum.companions)
    summary: dict[str, object] = {
        "exit": code,
        "voters": quorum.voters and _voters(quorum.voters),
        "can_lead": nodes,
        "start_first": [quorum.replicas[number].node_id for number in first],
        "replacement": quorum.replacement and _replacement(quorum.replacement),
        "problems": sum(not problem.is_note for problem in quorum.problems),
        "verdict": " ".join(map(str, verdict(quorum))),
    }
    emit(jsonl.line("summary", summary))
    return code


def _copy_fields(replica: MetadataReplica) -> dict[str, Any]:
    state, damage, usable = replica.quorum_state, replica.damage, replica.usable_snapshot
    return {
        **jsonl.path_field(replica.path),
        "log_found": replica.partition is not None,
        "use": replica.liveness and replica.liveness.state.value,
        "node_id": replica.node_id,
        "directory_id": replica.directory_id,
        "cluster_id": replica.cluster_id,
        "roles": list(replica.roles),
        "quorum_state": state and state.value and asdict(state.value),
        "quorum_state_error": None if state is None or state.error is None else str(state.error),
        "kraft_version": replica.kraft_version,
        "static_voters": _static(replica),
        "log_start_offset": replica.start_offset,
        "log_end_offset": replica.end.offset,
        "last_epoch": replica.end.epoch,
        "epochs": [span._asdict() for span in replica.spans],
        "damage": damage
        and {
            **jsonl.path_field(damage.path),
            "position": damage.position,
            "size": damage.size,
            "reason": damage.reason.value,
            "torn": damage.torn,
        },
        "cut_records": replica.cut_records,
        "snapshots": [
            {
                **jsonl.path_field(snapshot.path),
                "end_offset": snapshot.end_offset,
                "epoch": snapshot.epoch,
                "fault": snapshot.fault,
            }
            for snapshot in replica.snapshots
        ],
        "usable_snapshot": usable and [usable.end_offset, usable.epoch],
        "starts": replica.starts,
        "refusals": [
            {**jsonl.path_field(refusal.path), "code": refusal.code, "text": refusal.text}
            for refusal in replica.refusals
        ],
        "errors": [str(error) for error in replica.errors],
    }


def _leader_fields(quorum: Quorum, leader: QuorumLeadership) -> dict[str, Any]:
    return {
        "copy": leader.replica + 1,
        "node_id": quorum.replicas[leader.replica].node_id,
        "lost_records": leader.records,
        "lost_changes": leader.changes,
        "unreadable": [number + 1 for number in leader.unreadable],
        "losses": [
            {
                "copy": each.replica + 1,
                "node_id": quorum.replicas[each.replica].node_id,
                "first_offset": each.loss.first,
                "end_offset": each.loss.end,
                "records": each.loss.records,
                "changes": each.loss.changes,
                "cut_at_start": each.loss.cut,
                "holders": list(each.holders),
            }
            for each in leader.losses
        ],
    }


def _replacement(found: Replacement) -> dict[str, object]:
    """Return the voters to replace; ``sources`` are the copies that reach further."""
    return {
        "first": _listed(found.first),
        "later": _listed(found.later),
        "last_leader": found.last_leader,
        "lacks_from_offset": found.end and found.end.offset,
        "sources": [
            {
                "copy": source.replica + 1,
                "first_offset": loss.first,
                "end_offset": loss.end,
                "records": loss.records,
                "changes": loss.changes,
            }
            for source in found.sources
            for loss in source.beyond
        ],
    }


def _static(replica: MetadataReplica) -> list[dict[str, object]] | None:
    known = replica.static or replica.implied
    return None if known is None else _voters(known)


def _voters(voters: VoterSet) -> list[dict[str, object]]:
    return _listed(voters.voters)


def _listed(voters: tuple[ReplicaKey, ...]) -> list[dict[str, object]]:
    return [{"node_id": each.node_id, "directory_id": each.directory_id} for each in voters]
