"""plan_reindex(): all files beside the logs of a partition.

Spec: ``LogSegment.recover``, ``ProducerStateManager``; KOD 4.2, 5 and 7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from kdump.audit.evidence import Evidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import DirectoryFacts, TopicSettings
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import UsageError
from kdump.repair.content.extent import log_end_of
from kdump.repair.content.indexes import index_steps
from kdump.repair.content.replayed import producer_steps
from kdump.repair.content.small_files import small_file_steps
from kdump.repair.side_files.checkpoints import checkpoint_steps, log_start_steps
from kdump.repair.transaction.fingerprint import read_fingerprint, refuse_swaps
from kdump.repair.transaction.plan import Plan, Step, log_directory_of
from kdump.storage.paths import as_local


def plan_reindex(
    verdict: Verdict,
    *,
    every: bool,
    settings: TopicSettings,
    node: Node,
    checkpoints: DirectoryFacts | None = None,
    logs: Collection[str] = (),
    arguments: tuple[str, ...],
) -> Plan:
    """Return the plan that rebuilds the damaged files beside the logs of a partition of ``node``.

    ``verdict`` has its evidence, and its surveys have the indexes rebuilt by ``settings``.
    ``every``: also replace sound files that differ from the rebuilt ones; the indexes of ``logs``
    are replaced in any case. ``checkpoints`` is the log directory, if its checkpoint files are part
    of this plan. Raises SourceError if files have
    changed since the verdict, Refused if the next start swaps files in, UsageError for a lone
    segment.
    """
    if verdict.target.error is not None:
        raise verdict.target.error
    if verdict.facts is None:
        path = verdict.target.path
        raise UsageError(f"{path}: expected a partition directory, found a segment's file")
    # No repair runs beside a broker, so the broker counts as stopped.
    facts = replace(verdict.facts, stopped=True)
    start_steps, start_notes = log_start_steps(verdict, facts)
    if start_steps:  # without its line, the log starts at its first segment
        facts = replace(facts, log_start=None)
    target = replace(verdict.target, stopped=True)
    evidence = Evidence(target, verdict.surveys, facts, verdict.replay, node)
    files, identity = read_fingerprint(facts.partition, verdict.surveys)
    steps: list[Step] = []
    notes = list(_unread(verdict))
    name = facts.partition.name
    if name is not None and name.suffix == "delete":
        notes = ["a broker deletes this directory at startup, so nothing in it is rebuilt"]
    else:
        # Producers first, and the .index of each segment last: while it is missing, a start
        # rebuilds all files beside the log of the segment.
        for more_steps, more_notes in (
            producer_steps(evidence, facts, files, every=every),
            small_file_steps(evidence, facts, files),
            (start_steps, start_notes),
            index_steps(evidence, files, settings, every=every, logs=logs),
        ):
            steps += more_steps
            notes += more_notes
    if checkpoints is not None:
        more_steps, more_notes = checkpoint_steps(checkpoints, node)
        steps += more_steps
        notes += more_notes
    if steps:
        refuse_swaps(facts.partition)
    end = log_end_of(verdict)
    return Plan(
        "reindex",
        arguments,
        as_local(facts.partition.path),
        identity,
        log_directory_of(verdict.target),
        tuple(steps),
        files,
        log_start=facts.log_start_offset,
        log_end=(end, end),
        notes=tuple(notes),
    )


def _unread(verdict: Verdict) -> Iterator[str]:
    surveyed = {survey.segment.log for survey in verdict.surveys if survey.complete}
    for segment in verdict.target.segments:
        if segment.log not in surveyed:
            yield f"{segment.log.name} could not be read to its end: its indexes stay as they are"
