"""The steps that give a quorum whose disks are lost a leader again, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kdump.audit.commands import Remedy
from kdump.commands.quorum.names import list_text, node_text
from kdump.commands.quorum.replacement import LogSource, Replacement
from kdump.commands.quorum.state import Quorum
from kdump.format.lines.shell import operand, shell_text
from kdump.program import program
from kdump.quorum.voter_set import ReplicaKey
from kdump.storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES
from kdump.ui.units import count_text
from kdump.values import frozen

_LOG = f"{CLUSTER_METADATA_TOPIC}-0"


@frozen
class Sentence:
    """A sentence of a verdict, or a step; ``command`` is what its text leads to, if any."""

    text: str
    command: Remedy | None = None

    def __str__(self) -> str:
        return self.text if self.command is None else f"{self.text} {shell_text(self.command)}"


def replacement_steps(quorum: Quorum, found: Replacement) -> Iterator[Sentence]:
    """Yield what the lost disks had, as far as that is known, and what to do, in order."""
    yield from map(Sentence, _lacking(quorum, found))
    if found.survivor is None and not found.sources:
        yield Sentence(f"No metadata log is given: the {_LOG} of any broker of the cluster is one.")
        return
    nodes = list_text([f"node {voter.node_id}" for voter in found.lost])
    those = "disk of" if len(found.lost) == 1 else "disks of"
    yield Sentence(f"If the {those} {nodes} cannot be brought back, do this, in this order:")
    for number, step in enumerate(_steps(quorum, found), 1):
        yield replace(step, text=f"{number}. {step.text}")


def _lacking(quorum: Quorum, found: Replacement) -> Iterator[str]:
    """Yield what the lost disks had committed and the survivor lacks, by offset."""
    if found.end is not None and found.survivor is not None:
        node = node_text(quorum, found.survivor)
        yield (
            f"The lost disks were a majority: they may have committed records from offset "
            f"{found.end.offset} on, which {node} does not have."
        )
    for source in found.sources:
        for loss in source.beyond:
            changes = count_text(loss.changes, "change of the metadata", "changes of the metadata")
            yield (
                f"{node_text(quorum, source.replica).capitalize()} has offsets "
                f"{loss.first}..{loss.end - 1} of them, {count_text(loss.records, 'record')} "
                f"({changes})."
            )


def _steps(quorum: Quorum, found: Replacement) -> Iterator[Sentence]:
    many = found.first[1:]
    nodes = list_text([f"node {voter.node_id}" for voter in found.first])
    disks = f"{len(found.first)} new disks, for {nodes}" if many else f"one new disk, for {nodes}"
    text = f"Format {disks}"
    if any(voter.node_id == found.last_leader for voter in found.later):
        text += f" (not of node {found.last_leader}: it led last, and would stop at every startup)"
    yield Sentence(f"{text}:", _format_command(quorum))
    if quorum.dynamic:
        yield Sentence(_identity_text(found.first))
    if found.sources:
        yield Sentence(_source_text(quorum, found, found.sources[0]))
    given = [replica.path for replica in quorum.replicas if replica.partition is not None]
    paths = *(operand(path) for path in given), "NEW_DIRECTORY"
    text = "Run this, and start the nodes in the order that it prints:"
    yield Sentence(text, (program(), "quorum", *paths))
    if found.later:
        others = list_text([f"node {voter.node_id}" for voter in found.later])
        text = f"When there is a leader, format the new disk of {others} likewise, and start it"
        yield Sentence(f"{text}: it fetches the log")


def _format_command(quorum: Quorum) -> Remedy:
    cluster = quorum.cluster_id or "CLUSTER_ID"
    options = ("--no-initial-controllers",) if quorum.dynamic else ()
    return "kafka-storage.sh", "format", "-t", cluster, "-c", "server.properties", *options


def _identity_text(voters: tuple[ReplicaKey, ...]) -> str:
    ids = [
        f"directory.id={voter.directory_id} for node {voter.node_id}"
        for voter in voters
        if voter.directory_id is not None
    ]
    return (
        f"In its {META_PROPERTIES}, before its first start, write the old directory id, by which "
        f"the others know the voter: {list_text(ids)}"
    )


def _source_text(quorum: Quorum, found: Replacement, source: LogSource) -> str:
    """Return how the whole metadata log of a broker replaces what the voters lack."""
    replica = quorum.replicas[source.replica]
    to = f"node {found.first[0].node_id}"
    return (
        f"To keep the later records of {node_text(quorum, source.replica)}, copy the whole "
        f"{replica.partition} into the new directory of {to}, and delete quorum-state in the copy"
    )
