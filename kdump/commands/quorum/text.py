"""The verdict, the replicas, the elections between them and problems, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kdump.commands.quorum.election import Candidacy
from kdump.commands.quorum.names import node_text
from kdump.commands.quorum.problems import Problem
from kdump.commands.quorum.state import Quorum
from kdump.commands.quorum.verdict import exit_code, state, verdict
from kdump.format.lines.text import printable, time_text
from kdump.quorum.replica import MetadataReplica
from kdump.quorum.voter_set import ReplicaKey, VoterSet
from kdump.ui.paragraphs import command_line, paragraph, wrap
from kdump.ui.units import count_text
from kdump.ui.verdicts.verdict_text import state_lines


def print_text(quorum: Quorum, emit: Callable[[str], None], leader_changes: int) -> int:
    """Print the report with the last ``leader_changes`` of each log; return the exit code."""
    first, *others = verdict(quorum)
    for line in state_lines(state(quorum), printable(first.text)):
        emit(line)
    for number, replica in enumerate(quorum.replicas):
        emit(printable(f"REPLICA {number + 1}: {replica.path}"))
        for label, text in _rows(replica, leader_changes):
            _print(emit, f"  {label}", text)
        emit("")
    _print_lines(emit, wrap(f"ELECTIONS, {_voters_text(quorum.voters)}", 0))
    for candidacy in quorum.candidacies:
        node = node_text(quorum, candidacy.replica)
        _print_lines(emit, wrap(f"  {node}: {_candidacy_text(candidacy)}", 0))
    emit("")
    for problem in quorum.problems:
        _print(emit, "note" if problem.is_note else "problem", _problem_text(quorum, problem))
    for number, sentence in enumerate(others):
        _print(emit, "" if number else "result", sentence.text)
        if sentence.command is not None:
            emit(command_line(sentence.command))
    return exit_code(quorum)


def _print(emit: Callable[[str], None], label: str, text: str) -> None:
    _print_lines(emit, paragraph(label, text).split("\n"))


def _print_lines(emit: Callable[[str], None], lines: Iterable[str]) -> None:
    for line in lines:
        emit(printable(line))


def _rows(replica: MetadataReplica, leader_changes: int) -> Iterator[tuple[str, str]]:
    yield "node", _node_text(replica)
    if replica.roles:
        yield "roles", ", ".join(replica.roles)
    if replica.liveness is not None:
        yield "used by", f"{replica.liveness.state.value}: {replica.liveness.reason}"
    yield "quorum", _quorum_state_text(replica)
    for entry in replica.voter_history:
        yield (
            "voters",
            f"{_names(entry.voters)}, dynamic, written at offset {entry.offset} in epoch "
            f"{entry.epoch} ({entry.path.name})",
        )
    if not replica.voter_history:
        known = replica.static or replica.implied
        implied = "last leader change" if replica.leader_changes else "quorum-state"
        origin = "of the configuration" if replica.static else f"by its {implied}"
        yield "voters", "unknown" if known is None else f"{_names(known)}, static, {origin}"
    yield "log", _log_text(replica)
    yield "snapshots", _snapshot_text(replica)
    for change in replica.leader_changes[max(0, len(replica.leader_changes) - leader_changes) :]:
        yield (
            "leader",
            f"node {change.leader_id} from offset {change.offset} on, epoch {change.epoch}, "
            f"{time_text(change.timestamp_ms)}, elected by {_names(VoterSet(change.granting))}",
        )
    more = len(replica.leader_changes) - leader_changes
    if more > 0:
        yield "", f"{count_text(more, 'earlier leader change')} not shown"
    yield "start", "starts" if replica.starts else "does not start"


def _node_text(replica: MetadataReplica) -> str:
    if replica.meta is None:
        return "unknown: no usable meta.properties"
    return (
        f"{replica.node_id}, directory id {replica.directory_id or 'none'}, cluster id "
        f"{replica.cluster_id or 'none'}"
    )


def _quorum_state_text(replica: MetadataReplica) -> str:
    if replica.quorum_state is None:
        return "no quorum-state"
    state = replica.quorum_state.value
    if state is None:
        return f"quorum-state: {replica.quorum_state.error}"
    leader = "no leader" if state.leader_id < 0 else f"leader {state.leader_id}"
    vote = "no vote" if state.voted_id < 0 else f"vote for {state.voted_id}"
    if state.voted_id >= 0 and state.voted_directory_id is not None:
        vote += f" with directory id {state.voted_directory_id}"
    return f"version {state.version}: epoch {state.leader_epoch}, {leader}, {vote}"


def _log_text(replica: MetadataReplica) -> str:
    if replica.partition is None:
        return "none"
    epoch, end = replica.end
    text = (
        f"starts at offset {replica.start_offset}, ends at offset {end}, last leader epoch {epoch}"
    )
    damage = replica.damage
    if damage is not None:
        text += (
            f"; corruption ({damage.reason.value}) at position {damage.position} of "
            f"{damage.path.name}"
        )
    return text


def _snapshot_text(replica: MetadataReplica) -> str:
    if not replica.snapshots:
        return "none"
    usable = replica.usable_snapshot
    text = count_text(len(replica.snapshots), "snapshot")
    if usable is not None:
        text += f", newest usable up to offset {usable.end_offset}, epoch {usable.epoch}"
    for snapshot in replica.snapshots:
        if snapshot.fault is not None:
            text += f"; {snapshot.path.name} is corrupt: {snapshot.fault}"
    return text


def _voters_text(voters: VoterSet | None) -> str:
    if voters is None:
        return "voters unknown"
    verb = "elects" if voters.majority == 1 else "elect"
    return f"voters {_names(voters)}; {count_text(voters.majority, 'vote')} {verb} a leader"


def _names(voters: VoterSet) -> str:
    return ", ".join(map(_name, voters.voters)) or "none"


def _name(voter: ReplicaKey) -> str:
    return str(voter.node_id) + ("" if voter.directory_id is None else f" ({voter.directory_id})")


def _candidacy_text(candidacy: Candidacy) -> str:
    if candidacy.obstacle is not None:
        return f"no candidate: {candidacy.obstacle}"
    votes = ", ".join(f"{vote.voter.node_id} {vote.answer.value}" for vote in candidacy.votes)
    result = "can lead" if candidacy.wins else "cannot lead"
    return f"{result}, {count_text(candidacy.granted, 'vote')}: {votes}"


def _problem_text(quorum: Quorum, problem: Problem) -> str:
    named = " and ".join(node_text(quorum, number) for number in problem.replicas)
    return ": ".join(filter(None, (problem.kind.value, named, problem.text)))
