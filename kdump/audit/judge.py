"""judge(): runs all checks over one partition or log directory, in order.

A check of a partition takes ``Evidence``, a check of a log directory ``DirectoryFacts``, a check of
a node ``NodeEvidence``. The first lines of a check hold its conditions: they return if there is
nothing to check.

Spec: the invariants of KOD 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from kdump.audit.checks import directory, missing_offsets, repair_records
from kdump.audit.checks.read_errors import unread_file
from kdump.audit.codes import MODULES
from kdump.audit.evidence import Evidence, NodeEvidence, replay_of
from kdump.audit.facts.settings import longest_transaction_ms
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.remedies import add_remedies
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.survey.survey import ReadFailure, Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.loss import lost_now
from kdump.audit.verdicts.remembered import Remembered
from kdump.audit.verdicts.verdict import Coverage, Verdict
from kdump.errors import MissingDirectoryError

Check = Callable[[Evidence], Iterator[Finding]]
DirectoryCheck = Callable[[DirectoryFacts], Iterator[Finding]]
NodeCheck = Callable[[NodeEvidence], Iterator[Finding]]


def _all(kind: str) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(getattr(module, kind, ()) for module, _ in MODULES))


_SEGMENT_CHECKS: Final[tuple[Check, ...]] = _all("SEGMENT_CHECKS")
#: The checks of one partition, in the order in which their findings are reported.
CHECKS: Final[tuple[Check, ...]] = (*_SEGMENT_CHECKS, *_all("CHECKS"))
#: The checks of one log directory.
DIRECTORY_CHECKS: Final[tuple[DirectoryCheck, ...]] = _all("DIRECTORY_CHECKS")
#: The checks of all log directories of one node.
NODE_CHECKS: Final[tuple[NodeCheck, ...]] = _all("NODE_CHECKS")


def judge(
    target: Target,
    results: Sequence[Survey | Finding],
    facts: PartitionFacts | None = None,
    context: Context | None = None,
    *,
    quick: bool = False,
) -> Verdict:
    """Run all checks of one target and return its verdict.

    ``results`` has a survey of each segment, in any order, or the finding that takes its place.
    ``quick`` says that the surveys cover only the ends of logs. ``facts`` is None for a lone
    segment, and for a directory that could not be listed.
    """
    context = context or Context(now_ms=0)
    evidence = _evidence(target, results, facts, context, quick=quick)
    replay = replay_of(target, evidence.surveys, facts, quick=quick)
    evidence = replace(evidence, replay=replay)
    findings = [result for result in results if isinstance(result, Finding)]
    if isinstance(target.error, MissingDirectoryError):
        needed = context.metadata_directory in (None, target.path)
        findings.append(
            directory.missing_directory(target.error, kraft=context.kraft, needed=needed)
        )
    elif target.error is not None:
        findings.append(unread_file(target, ReadFailure.of(target.path, target.error)))
    for check in CHECKS:
        findings += check(evidence)
    return _verdict(evidence, findings)


def judge_segment(
    target: Target,
    results: Sequence[Survey | Finding],
    facts: PartitionFacts | None,
    context: Context | None,
    *,
    quick: bool = False,
) -> Verdict:
    """Run the checks of one segment, as far as they need no other; ``target`` has it alone.

    The arguments are those of ``judge``.
    """
    evidence = _evidence(target, results, facts, context or Context(now_ms=0), quick=quick)
    findings = [result for result in results if isinstance(result, Finding)]
    for check in (*_SEGMENT_CHECKS, missing_offsets.check_missing_offsets):
        findings += check(evidence)
    return _verdict(evidence, findings)


def _evidence(
    target: Target,
    results: Sequence[Survey | Finding],
    facts: PartitionFacts | None,
    context: Context,
    *,
    quick: bool,
) -> Evidence:
    """Return the evidence without a replay."""
    surveys = (result for result in results if isinstance(result, Survey))
    return Evidence(
        target,
        tuple(sorted(surveys, key=lambda survey: survey.segment.base_offset)),
        facts,
        node=context.node(target),
        now_ms=context.now_ms,
        quick=quick,
        longest_transaction_ms=longest_transaction_ms(context.config),
    )


def _verdict(evidence: Evidence, findings: Sequence[Finding]) -> Verdict:
    target, surveys, facts = evidence.target, evidence.surveys, evidence.facts
    if facts is not None:
        findings = list(repair_records.note_receipt_gaps(facts, findings, surveys))
    findings = tuple(add_remedies(evidence, findings))
    stable = None
    if evidence.replay is not None and facts is not None and not evidence.is_metadata_log:
        stable = StableOffset.of(evidence.replay, facts.start_offset)
    name = None if facts is None else facts.partition.name
    return Verdict(
        target,
        surveys,
        findings,
        facts,
        _covered(target, surveys),
        quick=evidence.quick,
        replay=evidence.replay,
        lost=lost_now(target, surveys, facts, findings),
        copies=None if name is None else evidence.node.copies(name.topic, name.partition),
        stable=stable,
    )


def _covered(target: Target, surveys: Sequence[Survey]) -> Coverage:
    return Coverage(
        partitions=int(target.error is None),
        segments=sum(survey.complete for survey in surveys),
        size=target.size,
        read_bytes=sum(survey.read_bytes for survey in surveys if survey.read_ms is None),
        batches=sum(survey.batches for survey in surveys),
        control_batches=sum(survey.control_batches for survey in surveys),
        records=sum(survey.records for survey in surveys),
        wrappers=sum(survey.wrappers for survey in surveys),
        remembered=Remembered.of(surveys),
    )


def judge_directories(context: Context) -> Iterator[Finding]:
    """Yield the findings of all log directories: of each directory, then of each node."""
    for siblings in context.siblings:
        for facts in siblings:
            for check in DIRECTORY_CHECKS:
                yield from check(facts)
        node = context.node_of(siblings[0])
        futures = tuple(
            future
            for future in context.futures
            if any(future.path.parent == facts.directory.path for facts in siblings)
        )
        evidence = NodeEvidence(
            siblings,
            node,
            context.config,
            context.strays,
            futures,
            context.missing.get(siblings[0].directory.path),
            context.beyond,
            context.repeated,
            context.metadata_directory,
        )
        for check_node in NODE_CHECKS:
            yield from check_node(evidence)
