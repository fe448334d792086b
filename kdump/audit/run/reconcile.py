"""The second read of a partition whose files have changed, and its verdict.

``recheck`` compares the two reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final, Protocol

from kdump.audit.checks.assigned_replicas import (
    REPLICA_DIRECTORY_MISSING,
    REPLICA_DIRECTORY_MISSING_ONLY,
    REPLICA_SET_ASIDE,
    REPLICA_SET_ASIDE_ONLY,
)
from kdump.audit.checks.directory import CHECKPOINT_LINE_UNKNOWN
from kdump.audit.checks.node import REPLICA_MISSING, REPLICA_MISSING_ONLY
from kdump.audit.checks.read_errors import unread_file
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts, read_directory
from kdump.audit.findings import Finding
from kdump.audit.judge import judge, judge_directories
from kdump.audit.run import recheck
from kdump.audit.run.gather import gather
from kdump.audit.run.recheck import Inspection
from kdump.audit.survey.survey import ReadFailure, Survey
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target, identity
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import SourceError
from kdump.storage.logdir import LogDirectory, Segment, directory_name, open_path, read_partition
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.source import Identity

#: The findings about partitions that do not exist but are named in files of a log directory.
_OF_PARTITIONS: Final = frozenset(
    {
        REPLICA_MISSING,
        REPLICA_MISSING_ONLY,
        REPLICA_DIRECTORY_MISSING,
        REPLICA_DIRECTORY_MISSING_ONLY,
        REPLICA_SET_ASIDE,
        REPLICA_SET_ASIDE_ONLY,
        CHECKPOINT_LINE_UNKNOWN,
    }
)


_RECHECK_SECONDS: Final = 0.5  # before a second read: a broker has renamed its segments by then

Resurvey = Callable[[Target, Sequence[Segment]], Sequence[Survey | Finding]]
"""Surveys some segments of a target once more."""


class Judge(Protocol):
    """``judge``, or ``judge_segment``."""

    def __call__(
        self,
        target: Target,
        results: Sequence[Survey | Finding],
        facts: PartitionFacts | None,
        context: Context | None,
        *,
        quick: bool = False,
    ) -> Verdict:
        """Return the verdict on ``target`` from the results for its segments."""


def reconcile(
    verdict: Verdict, context: Context | None, resurvey: Resurvey, judge: Judge = judge
) -> Verdict:
    """Return ``verdict``, reconciled with a second read of the target if that is needed.

    ``judge`` is what the verdict is from.
    """
    target = verdict.target
    if target.error is not None or not recheck.is_needed(verdict.findings):
        return verdict
    if isinstance(target.path, ManifestPath):
        return verdict  # it does not change
    first = Inspection(verdict.surveys, verdict.findings)
    try:
        if target.stopped:
            now = _list_again(target)
            same_files = now.partition == target.partition
            if same_files and not recheck.has_changed(verdict.surveys, _logs(now.segments)):
                return verdict
        time.sleep(_RECHECK_SECONDS)
        now = _list_again(target)
        logs = _logs(now.segments)
        suspects = recheck.suspects(first, now.segments, logs)
        results = list(resurvey(now, suspects))
        # Listed once more: files that appeared while the logs were read match these logs.
        facts = None
        if verdict.facts is not None and context is not None:
            facts = gather(_list_again(now), context)
            facts = facts and replace(facts, metadata_notes=verdict.facts.metadata_notes)
    except SourceError as error:
        vanished = unread_file(target, ReadFailure.of(target.path, error))
        return replace(
            verdict, findings=(vanished, *recheck.reconcile_findings(first, Inspection((), ())))
        )
    unchanged = {segment.base_offset for segment in now.segments if segment not in suspects}
    results += (survey for survey in verdict.surveys if survey.segment.base_offset in unchanged)
    second = judge(now, results, facts, context, quick=verdict.quick)
    # An object is replaced as a whole: what is in the new one is there to stay.
    stable = isinstance(target.path, RemotePath) and not recheck.has_changed(second.surveys, logs)
    findings = recheck.reconcile_findings(
        first, Inspection(second.surveys, second.findings), stable=stable
    )
    return replace(second, findings=tuple(findings))


def reconcile_directories(context: Context) -> tuple[Finding, ...]:
    """Return the findings of the log directories; a second read confirms the errors."""
    first = tuple(judge_directories(context))
    if not recheck.is_needed(first):
        return first
    directories = [facts for siblings in context.siblings for facts in siblings]
    if not all(facts.stopped for facts in directories):
        time.sleep(_RECHECK_SECONDS)
    now = [_read_again(facts) for facts in directories]
    context = read_context(now, context.config, context.now_ms, context.beyond)
    again = tuple(judge_directories(context))
    seen = {(finding.code.name, finding.path) for finding in first}
    return tuple(
        finding
        for finding in again
        if (finding.code.name, finding.path) in seen or not recheck.is_needed([finding])
    )


def _read_again(facts: DirectoryFacts) -> DirectoryFacts:
    with suppress(SourceError):
        content = open_path(facts.directory.path)
        if isinstance(content, LogDirectory):
            return read_directory(content, facts.liveness)
    return facts


def _list_again(target: Target) -> Target:
    """List ``target`` again, without segments that are new; raises SourceError."""
    known = {segment.base_offset for segment in target.segments}
    listed = read_partition(target.path if target.partition else target.path.parent)
    segments = tuple(segment for segment in listed.segments if segment.base_offset in known)
    last = segments[-1].base_offset if segments else 0
    later_bases = [segment.base_offset for segment in listed.segments if segment.base_offset > last]
    return replace(
        target,
        segments=segments,
        next_base=min(later_bases, default=None),
        partition=target.partition and listed,
    )


def _logs(segments: Iterable[Segment]) -> dict[int, Identity]:
    """Return the identities of the logs that exist now, by base offset."""
    logs = {}
    for segment in segments:
        with suppress(OSError):
            logs[segment.base_offset] = Identity.of(segment.log.stat())
    return logs


def requested_findings(findings: Iterable[Finding], scope: Scope) -> tuple[Finding, ...]:
    """Return ``findings`` without those about unrequested partitions, unless they stop a start."""
    findings = tuple(findings)
    if not findings:
        return ()
    requested = {identity(target.path) for target in chain.from_iterable(scope.parts)}
    directories = {root.path for root in scope.roots if isinstance(root.content, LogDirectory)}

    def concerns(finding: Finding) -> bool:
        if finding.code.stops is not None or not directories.isdisjoint(
            (finding.path, *finding.path.parents)
        ):
            return True
        if finding.code in _OF_PARTITIONS:
            return False
        same = None if directory_name(finding.path) is None else identity(finding.path)
        return same is None or same in requested

    return tuple(filter(concerns, findings))
