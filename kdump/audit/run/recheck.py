"""The rules of a second read: what is read again, which findings remain. Reads nothing.

A running broker appends to files, rolls, trims, cleans and deletes them between two reads. An error
remains if both reads find it, at the same position of the same file.

Spec: ``UnifiedLog.roll``, ``replaceSegments``, ``deleteSegments`` and ``truncateTo`` change files
between two reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from kdump.audit.checks.read_errors import CHANGED_WHILE_READ, VANISHED, VANISHED_LIVE
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Detail, Finding
from kdump.audit.survey.survey import Survey
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity
from kdump.values import frozen

_SWAP: Final = ".swap"
_VANISHED: Final = (VANISHED, VANISHED_LIVE)


@frozen
class Inspection:
    """One read of a partition: its surveys, ascending by base offset, and its findings."""

    surveys: tuple[Survey, ...]
    findings: tuple[Finding, ...]


def is_needed(findings: Sequence[Finding]) -> bool:
    """Return whether a finding may no longer hold a moment later."""
    return any(
        finding.code.severity is Severity.ERROR or finding.code in _VANISHED for finding in findings
    )


def has_changed(surveys: Sequence[Survey], logs: Mapping[int, Identity]) -> bool:
    """Return whether the partition has changed since it was surveyed.

    ``logs`` are the present logs, by base offset.
    """
    return {survey.segment.base_offset: survey.identity for survey in surveys} != logs


def suspects(
    inspection: Inspection, segments: Sequence[Segment], logs: Mapping[int, Identity]
) -> tuple[Segment, ...]:
    """Return those of ``segments``, as they are listed now, that a recheck must read again.

    Those are segments with errors, with a changed log or companion, or with an incomplete read, and
    the last segment. The last segment changes all the time, and may be the cause of an error of the
    whole partition.
    """
    before = {survey.segment.base_offset: survey for survey in inspection.surveys}
    stems_with_errors = {
        _stem(finding.path) for finding in inspection.findings if _is_error(finding)
    }

    def is_suspect(segment: Segment) -> bool:
        survey = before.get(segment.base_offset)
        return (
            segment is segments[-1]
            or survey is None
            or survey.segment != segment
            or survey.identity != logs.get(segment.base_offset)
            or bool(survey.unread)
            or _stem(segment.log) in stems_with_errors
        )

    return tuple(segment for segment in segments if is_suspect(segment))


def reconcile_findings(
    first: Inspection, second: Inspection, *, stable: bool = False
) -> Iterator[Finding]:
    """Yield the findings of the second read; unconfirmed errors and warnings become notes.

    Those of a ``stable`` second read need no first one. Findings about files that vanished during
    the first read, and were not read since, remain.
    """
    steady = _Steady(first.surveys, second.surveys)
    found_first = {_key(finding) for finding in first.findings}
    found_again = {_key(finding) for finding in second.findings}
    for finding in second.findings:
        confirmed = stable or (_key(finding) in found_first and steady(finding.path))
        yield finding if confirmed or not _may_pass(finding) else _note(finding, "second")
    read = {path for survey in second.surveys for path in _files(survey.segment)}
    for finding in first.findings:
        if _may_pass(finding) and _key(finding) not in found_again:
            yield _note(finding, "first")
        if finding.code in _VANISHED and finding.path not in read:
            yield finding


class _Steady:
    """Whether both reads saw the same segment at a path, followed by the same segment.

    A finding at a ``.swap`` file compares it with the segments that it replaces: both reads must
    have seen the same segments.
    """

    def __init__(self, first: Sequence[Survey], second: Sequence[Survey]) -> None:
        self._first = _by_stem(first)
        self._second = _by_stem(second)
        self._all = [survey.identity for survey in first] == [survey.identity for survey in second]

    def __call__(self, path: AnyPath) -> bool:
        if path.name.endswith(_SWAP):
            return self._all
        stem = _stem(path)
        if stem not in self._first and stem not in self._second:
            return True  # not a segment's file: brokers rewrite these all the time
        if stem not in self._first or stem not in self._second:
            return False
        (first, first_next), (second, second_next) = self._first[stem], self._second[stem]
        if first.identity is None or second.identity is None:
            return False
        if first_next is None or second_next is None:  # the last segment may have grown
            return first_next is second_next and _same_file(first.identity, second.identity)
        same_next = first_next.segment.base_offset == second_next.segment.base_offset
        return same_next and first.identity == second.identity


def _by_stem(surveys: Sequence[Survey]) -> dict[AnyPath, tuple[Survey, Survey | None]]:
    """Return the survey of each segment and that of the next segment, by stem."""
    return {
        _stem(survey.segment.log): (survey, next_survey)
        for survey, next_survey in zip_longest(surveys, surveys[1:])
    }


def _stem(path: AnyPath) -> AnyPath:
    """Return the path that all files of a segment have in common, existing or missing."""
    return path.parent / path.name.partition(".")[0]


def _same_file(first: Identity, second: Identity) -> bool:
    return (first.device, first.inode) == (second.device, second.inode)


def _files(segment: Segment) -> set[AnyPath]:
    companions = (segment.index, segment.time_index, segment.txn_index, segment.snapshot)
    return {segment.log, *(path for path in companions if path is not None)}


def _is_error(finding: Finding) -> bool:
    return finding.code.severity is Severity.ERROR


def _may_pass(finding: Finding) -> bool:
    return finding.code.severity in (Severity.ERROR, Severity.WARNING)


def _key(finding: Finding) -> tuple[str, AnyPath, int | None]:
    return finding.code.name, finding.path, finding.position


def _note(finding: Finding, inspection: str) -> Finding:
    return Finding(
        CHANGED_WHILE_READ,
        finding.path,
        finding.position,
        finding.size,
        detail=Detail(
            "the same finding in two reads", f"{finding.code.name} in the {inspection} read only"
        ),
    )
