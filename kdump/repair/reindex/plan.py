"""plan_reindex(): all files beside the logs of a partition.

Spec: ``LogSegment.recover``, ``ProducerStateManager``; KOD 4.2, 5 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kdump.audit.evidence import Evidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import DirectoryFacts, TopicSettings
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import UsageError
from kdump.repair.content.extent import log_end_of, log_start_of
from kdump.repair.reindex.checkpoints import checkpoint_steps, log_start_steps
from kdump.repair.reindex.indexes import index_steps
from kdump.repair.reindex.producers import producer_steps
from kdump.repair.reindex.small_files import small_file_steps
from kdump.repair.transaction.fingerprint import present, refuse_swaps
from kdump.repair.transaction.plan import Plan, Step


def plan_reindex(
    verdict: Verdict,
    *,
    every: bool,
    settings: TopicSettings,
    node: Node,
    checkpoints: DirectoryFacts | None = None,
    arguments: tuple[str, ...],
) -> Plan:
    """Say what makes the files sound again that are made from the logs of a partition of ``node``.

    ``verdict`` has its evidence, and the indexes of its surveys rebuilt by ``settings``.
    ``every``: also the files that keep all they promise, if they would be others anew.
    ``checkpoints`` is the log directory, if its checkpoint files are part of this plan.
    Raises SourceError where files have changed since, Refused where a start first puts others in
    place, UsageError for a lone segment.
    """
    if verdict.target.error is not None:
        raise verdict.target.error
    if verdict.facts is None:
        path = verdict.target.path
        raise UsageError(f"{path}: expected a partition directory, found a segment's file")
    # Beside a broker nothing is repaired: what is not known to be stopped counts as stopped.
    facts = replace(verdict.facts, stopped=True)
    target = replace(verdict.target, stopped=True)
    evidence = Evidence(target, verdict.surveys, facts, verdict.replay, node)
    files, identity = present(facts.partition, verdict.surveys)
    steps: list[Step] = []
    notes = list(_unread(verdict))
    name = facts.partition.name
    if name is not None and name.suffix == "delete":
        notes = ["a broker deletes this directory at its start, so nothing in it is rebuilt"]
    else:
        # Producers first, and of each segment its .index last: while that one is missing, a start
        # builds all that belongs to the segment.
        for found, said in (
            producer_steps(evidence, facts, files, every=every),
            small_file_steps(evidence, facts, files),
            log_start_steps(verdict, facts),
            index_steps(evidence, files, settings, every=every),
        ):
            steps += found
            notes += said
    if checkpoints is not None:
        found, said = checkpoint_steps(checkpoints, node)
        steps += found
        notes += said
    if steps:
        refuse_swaps(facts.partition)
    end = log_end_of(verdict)
    directory = verdict.target.directory
    return Plan(
        "reindex",
        arguments,
        facts.partition.path,
        identity,
        None if directory is None else directory.directory.path,
        tuple(steps),
        files,
        log_start=log_start_of(facts),
        log_end=(end, end),
        notes=tuple(notes),
    )


def _unread(verdict: Verdict) -> Iterator[str]:
    surveyed = {survey.segment.log for survey in verdict.surveys if survey.complete}
    for segment in verdict.target.segments:
        if segment.log not in surveyed:
            yield f"{segment.log.name} could not be read to its end: its indexes stay as they are"
