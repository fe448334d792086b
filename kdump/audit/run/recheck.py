"""Which files are read again before an error is reported, and which findings stand.

Beside a running broker files grow, are rolled, trimmed, cleaned and deleted between the reading of
one and of the next. An error stands if both looks have it, at the same place of the same file.

Spec: ``UnifiedLog.roll``, ``replaceSegments``, ``deleteSegments`` and ``truncateTo`` are what
happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import Severity
from kdump.audit.findings import Detail, Finding
from kdump.audit.survey.survey import Survey
from kdump.storage.logdir import Segment
from kdump.storage.source import Identity

_VANISHED: Final = (codes.VANISHED, codes.VANISHED_LIVE)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was seen of one partition: surveys ascending by base offset, and what was found."""

    surveys: tuple[Survey, ...]
    findings: tuple[Finding, ...]


def needed(findings: Sequence[Finding]) -> bool:
    """Whether anything was found that may look otherwise a moment later."""
    return any(
        finding.code.severity is Severity.ERROR or finding.code in _VANISHED for finding in findings
    )


def changed(surveys: Sequence[Survey], logs: Mapping[int, Identity]) -> bool:
    """Whether the partition is no longer what was surveyed.

    ``logs`` are those that are there now, by base offset.
    """
    return {survey.segment.base_offset: survey.identity for survey in surveys} != logs


def suspects(
    inspection: Inspection, segments: Sequence[Segment], logs: Mapping[int, Identity]
) -> tuple[Segment, ...]:
    """Which of ``segments``, as they are listed now, must be read again to judge once more.

    Those are the segments with errors, those with another log or other companions by now, those
    that were not read to their end, and the last one: it changes all the time, and may be at the
    bottom of an error of the partition as a whole.
    """
    before = {survey.segment.base_offset: survey for survey in inspection.surveys}
    accused = {_stem(finding.path) for finding in inspection.findings if _is_error(finding)}

    def suspicious(segment: Segment) -> bool:
        survey = before.get(segment.base_offset)
        return (
            segment is segments[-1]
            or survey is None
            or survey.segment != segment
            or survey.identity != logs.get(segment.base_offset)
            or bool(survey.unread)
            or _stem(segment.log) in accused
        )

    return tuple(segment for segment in segments if suspicious(segment))


def reconcile_findings(first: Inspection, second: Inspection) -> Iterator[Finding]:
    """The findings of the second look, with errors and warnings that do not stand as mere notes.

    What vanished before the first look was over, and was not read since, is still said.
    """
    steady = _Steady(first.surveys, second.surveys)
    seen = {_key(finding) for finding in first.findings}
    again = {_key(finding) for finding in second.findings}
    for finding in second.findings:
        stands = _key(finding) in seen and steady(finding.path)
        yield finding if stands or not _may_pass(finding) else _note(finding, "second")
    read = {path for survey in second.surveys for path in _files(survey.segment)}
    for finding in first.findings:
        if _may_pass(finding) and _key(finding) not in again:
            yield _note(finding, "first")
        if finding.code in _VANISHED and finding.path not in read:
            yield finding


class _Steady:
    """Tells of a path whether both looks saw the same segment there, with the same one behind."""

    def __init__(self, first: Sequence[Survey], second: Sequence[Survey]) -> None:
        self._first = _by_stem(first)
        self._second = _by_stem(second)

    def __call__(self, path: Path) -> bool:
        stem = _stem(path)
        if stem not in self._first and stem not in self._second:
            return True  # no file of a segment: these are written anew all the time
        if stem not in self._first or stem not in self._second:
            return False
        (one, after_one), (other, after_other) = self._first[stem], self._second[stem]
        if one.identity is None or other.identity is None:
            return False
        if after_one is None or after_other is None:  # the last one may have grown
            return after_one is after_other and _same_file(one.identity, other.identity)
        same_behind = after_one.segment.base_offset == after_other.segment.base_offset
        return same_behind and one.identity == other.identity


def _by_stem(surveys: Sequence[Survey]) -> dict[Path, tuple[Survey, Survey | None]]:
    """The survey of each segment and that of the one behind it."""
    return {
        _stem(survey.segment.log): (survey, after)
        for survey, after in zip_longest(surveys, surveys[1:])
    }


def _stem(path: Path) -> Path:
    """What all files of a segment have in common, those too that are missing."""
    return path.parent / path.name.partition(".")[0]


def _same_file(one: Identity, other: Identity) -> bool:
    return (one.device, one.inode) == (other.device, other.inode)


def _files(segment: Segment) -> set[Path]:
    companions = (segment.index, segment.time_index, segment.txn_index, segment.snapshot)
    return {segment.log, *(path for path in companions if path is not None)}


def _is_error(finding: Finding) -> bool:
    return finding.code.severity is Severity.ERROR


def _may_pass(finding: Finding) -> bool:
    return finding.code.severity in (Severity.ERROR, Severity.WARNING)


def _key(finding: Finding) -> tuple[str, Path, int | None]:
    return finding.code.name, finding.path, finding.position


def _note(finding: Finding, inspection: str) -> Finding:
    return Finding(
        codes.CHANGED_WHILE_READ,
        finding.path,
        finding.position,
        finding.size,
        detail=Detail(
            "the same finding in two reads", f"{finding.code.name} in the {inspection} read only"
        ),
    )
