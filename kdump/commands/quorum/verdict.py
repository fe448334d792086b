"""What to do, in sentences, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.audit.verdicts.state import RunState
from kdump.commands.quorum.names import list_text, node_text
from kdump.commands.quorum.problems import ProblemKind
from kdump.commands.quorum.replacement_text import Sentence, replacement_steps
from kdump.commands.quorum.state import CopyLoss, Quorum, QuorumLeadership
from kdump.format.lines.shell import shell_text
from kdump.program import program
from kdump.ui.exits import Ending
from kdump.ui.units import count_text


def exit_code(quorum: Quorum) -> int:
    """Return the exit code of the command."""
    return _ending(quorum).exit_code


def state(quorum: Quorum) -> RunState:
    """Return the first word of the report."""
    ending = _ending(quorum)
    if ending.problems:  # an error that was found is one, whatever else could not be read
        return RunState.ERROR
    return RunState.INCOMPLETE if ending.unread else RunState.OK


def _ending(quorum: Quorum) -> Ending:
    return Ending(
        unread=any(replica.errors for replica in quorum.replicas),
        problems=not all(problem.is_note for problem in quorum.problems),
    )


def verdict(quorum: Quorum) -> Iterator[Sentence]:
    """Yield what can be elected from the given disks, what it costs, and what to do first."""
    if quorum.leaders:
        yield from map(Sentence, _elected(quorum))
    else:
        why = (each.text for each in quorum.problems if each.kind is ProblemKind.NO_LEADER)
        yield Sentence(f"No leader can be elected from the given disks: {next(why)}.")
        yield from map(Sentence, _remedies(quorum))
        if quorum.replacement is not None:
            yield from replacement_steps(quorum, quorum.replacement)
    if any(problem.kind is ProblemKind.VOTER_NOT_GIVEN for problem in quorum.problems):
        yield Sentence("Only the given disks are known: other voters can change this result.")


def _elected(quorum: Quorum) -> Iterator[str]:
    best, *others = quorum.leaders
    first = node_text(quorum, best.replica)
    lossy = [leader for leader in others if leader.changes]
    companions = [node_text(quorum, number) for number in quorum.companions]
    end = quorum.replicas[best.replica].end
    if not others:
        yield f"Only {first} can be elected: its log ends at {end.offset}, epoch {end.epoch}."
    elif lossy:
        yield (
            f"{first.capitalize()} has the latest end, offset {end.offset} of epoch {end.epoch}, "
            f"but {list_text([node_text(quorum, each.replica) for each in others])} can be elected "
            "too."
        )
    else:
        names = [node_text(quorum, each.replica) for each in quorum.leaders]
        yield f"{list_text(names).capitalize()} can be elected."
    for leader in (best, *lossy):
        for loss in leader.losses:
            if leader is not best or loss.loss.changes:
                yield loss_text(quorum, leader, loss)
    if any(problem.kind is ProblemKind.LOG_END_MISSING for problem in quorum.problems):
        yield (
            f"If {first} leads, the offsets that no given copy has are lost for good: look for a "
            "backup, or for a broker whose metadata log reaches further, before you start it."
        )
    elif not best.changes:
        yield f"If {first} leads, no change of the metadata that can be read here is lost."
    for number in best.unreadable:
        yield (
            f"{first.capitalize()} does not have the records in the corrupt bytes of "
            f"{node_text(quorum, number)}, from offset {quorum.replicas[number].damage_offset} on."
        )
    if quorum.refused:
        yield from _refused(quorum)
    elif lossy:
        if companions:
            yield (
                f"Start {first} and {list_text(companions)} first, and the others once {first} "
                "leads."
            )
        else:
            yield f"Start {first} first."
    elif not others and companions:
        yield f"Start {first} first; it leads as soon as {list_text(companions)} runs too."
    elif others:
        yield "The order of the starts does not matter."
    else:
        yield f"Start {first}."
    for number in quorum.at_risk:
        if number in quorum.refused:
            continue
        named = node_text(quorum, number)
        yield (
            f"{named.capitalize()} may stop soon after its startup, see above: start it once the "
            "others have a leader of a later epoch, or restart it until they do."
        )
    yield from _remedies(quorum)


def _refused(quorum: Quorum) -> Iterator[str]:
    """Yield which disks to replace instead of those whose nodes stop before they vote."""
    for number, voter in quorum.refused.items():
        named = node_text(quorum, number)
        yield (
            f"{named.capitalize()} led last, and stops at every startup before it votes: replace "
            f"the disk of node {voter.node_id} instead, and the disk of {named} once there is a "
            "leader."
        )


def loss_text(quorum: Quorum, leader: QuorumLeadership, loss: CopyLoss) -> str:
    """Return a sentence about what a copy loses if another one leads."""
    lost, owner = loss.loss, node_text(quorum, loss.replica)
    changes = count_text(lost.changes, "change of the metadata", "changes of the metadata")
    records = f"{count_text(lost.records, 'record')} ({changes})"
    offsets = f"offsets {lost.first}..{lost.end - 1}"
    if lost.cut:
        text = f"The next startup of {owner} removes {offsets}, {records}: they are lost"
        if leader.replica != loss.replica:
            text += f" if {node_text(quorum, leader.replica)} leads"
        return f"{text}."
    total = "" if quorum.voters is None else f" of {len(quorum.voters.voters)} voters"
    return (
        f"If {node_text(quorum, leader.replica)} leads, {owner} loses {offsets}, {records}; "
        f"{len(loss.holders)}{total} have them."
    )


def _remedies(quorum: Quorum) -> Iterator[str]:
    for number, replica in enumerate(quorum.replicas):
        codes = {refusal.code: None for refusal in replica.refusals if refusal.code is not None}
        commands = [shell_text((program(), "explain", code)) for code in codes]
        if commands:
            yield f"{node_text(quorum, number).capitalize()} does not start: {list_text(commands)}."
        elif replica.refusals:
            yield f"{node_text(quorum, number).capitalize()} does not start: see above."
