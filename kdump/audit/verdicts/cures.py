"""cures_of(): the cures of a partition by its verdict, the one that loses least first.

Spec: none in Kafka, whose recovery has one cure: it truncates a log at the first corrupt batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from kdump.audit.checks.batches import (
    BATCH_BELOW_SEGMENT,
    BATCH_MAGIC_UNKNOWN,
    OFFSET_OVERFLOW,
    OFFSETS_NOT_INCREASING,
    SEGMENTS_OVERLAP,
)
from kdump.audit.checks.epochs import LEADER_EPOCH_FALLS, LEADER_EPOCH_NEGATIVE
from kdump.audit.checks.missing_offsets import (
    BATCH_OFFSET_CHANGED,
    BATCHES_HOLE,
    OFFSETS_MISSING,
    RECORDS_MISSING,
)
from kdump.audit.checks.read_errors import DENIED, UNREADABLE, VANISHED
from kdump.audit.checks.repair_records import REPAIR_PENDING
from kdump.audit.checks.topic import PARTITION_STRAY_ONLY
from kdump.audit.checks.transactions import TRANSACTION_END_LOST
from kdump.audit.commands import (
    Remedy,
    reindex_command,
    salvage_command,
    truncate_command,
    verify_command,
)
from kdump.audit.finding_code import Cure, Severity
from kdump.audit.findings import Finding, explain_command
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.recovery import Span
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.shell import operand
from kdump.format.lines.text import printable
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath
from kdump.values import frozen


class CureKind(Enum):
    """The cures of a partition, the one that loses least first."""

    REBUILD = "rebuild"  # the files beside the logs are rebuilt from them
    FIELD = "field"  # fields outside the checksum are set to the value that the log leaves them
    TAIL = "tail"  # the unreadable end of the log is removed
    REPLICA = "replica"  # a replica gives what is corrupt or missing
    REFETCH = "refetch"  # all is moved aside, and the broker fetches it from its leader
    DROP = "drop"  # corrupt batches are dropped, and the valid ones stay
    AS_BROKER = "as-broker"  # the log is truncated where log recovery truncates it


#: The option of ``kdump repair`` that allows a cure. The other cures need none.
OPTIONS: Final = {
    CureKind.REPLICA: "--from REPLICA",
    CureKind.REFETCH: "--refetch",
    CureKind.DROP: "--only-copy",
    CureKind.AS_BROKER: "--as-broker",
}

#: What is found where a batch has a wrong base offset, leader epoch or magic.
_OF_FIELDS: Final = frozenset(
    {
        BATCH_BELOW_SEGMENT,
        BATCH_MAGIC_UNKNOWN,
        BATCH_OFFSET_CHANGED,
        LEADER_EPOCH_FALLS,
        LEADER_EPOCH_NEGATIVE,
        OFFSETS_NOT_INCREASING,
        OFFSET_OVERFLOW,
        SEGMENTS_OVERLAP,
    }
)
#: What is found before the last batch of a log, too, if its base offset is too high.
_HOLES: Final = frozenset({BATCHES_HOLE, OFFSETS_MISSING, RECORDS_MISSING})


@frozen
class Diagnosis:
    """What can be done about a partition: its ``cures``, the one that loses least first.

    ``left`` is why a person has to decide, None if no cure is missing; ``command`` is what helps
    then.
    """

    cures: tuple[CureKind, ...] = ()
    left: str | None = None
    command: Remedy | None = None


def cures_of(verdict: Verdict) -> Diagnosis:
    """Return what can be done about a partition, as far as its logs were read.

    Notes need no cure. A finding that a cure removes together with another one has none of its own.
    """
    found = [each for each in verdict.findings if each.code.severity is not Severity.INFO]
    errors = [finding for finding in found if finding.code.severity is Severity.ERROR]
    if not found and not verdict.lost.records:
        return _with_causes(verdict, Diagnosis())
    pending = pending_remedy(verdict.findings)
    if pending is not None:
        return Diagnosis(left="a repair was interrupted", command=pending)
    unread = next((each for each in found if each.code in (UNREADABLE, DENIED, VANISHED)), None)
    if unread is not None:
        return Diagnosis(left=f"{unread.path.name} could not be read")
    if verdict.is_metadata_log:
        return _of_metadata_log(verdict, errors)
    return _with_causes(verdict, _of_remedies(verdict, found, errors))


def _of_metadata_log(verdict: Verdict, errors: Sequence[Finding]) -> Diagnosis:
    """Return why a person decides about a metadata log: no cure changes it."""
    path = verdict.target.path
    rebuild = reindex_command(path)
    if verdict.lost.records or any(finding.code.cure is Cure.CUT for finding in errors):
        why = "the quorum decides what is valid in the metadata log"
        return Diagnosis(left=why, command=("kdump", "quorum", operand(path)))
    first = next((finding for finding in errors if finding.remedy != rebuild), None)
    if first is not None:
        return Diagnosis(left=_left(path, first, errors), command=first.remedy)
    why = "files of the metadata log are rebuilt by a command of their own"
    return _with_causes(verdict, Diagnosis(left=why, command=rebuild) if errors else Diagnosis())


def why_left(finding: Finding, place: str = "") -> str:
    """Return why an error that no cure removes is left: its code, and what a person can do.

    ``place`` follows the code.
    """
    if finding.remedy is not None and finding.remedy != explain_command(finding.code):
        return f"{finding.code.name}{place}"
    return f"{finding.code.name}{place}. {finding.code.first_advice}"


def file_text(path: AnyPath, findings: Sequence[Finding]) -> str:
    """Return in which files of the partition at ``path`` findings of one code are."""
    names = [*dict.fromkeys(each.path.name for each in findings if each.path != path)]
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f" in {printable(names[0])}{more}" if names else ""


def _left(path: AnyPath, first: Finding, errors: Sequence[Finding]) -> str:
    """Return why a partition is left: ``first`` is the first error that no cure removes."""
    same = [finding for finding in errors if finding.code is first.code]
    return why_left(first, file_text(path, same))


def _with_causes(verdict: Verdict, diagnosis: Diagnosis) -> Diagnosis:
    """Return what can be done, also about a startup that fails for a reason that is no finding."""
    advice = unnamed_advice(verdict)
    if diagnosis.left is not None or advice is None:
        return diagnosis
    return replace(diagnosis, left=advice)


def unnamed_advice(verdict: Verdict) -> str | None:
    """Return what to do about a failing startup for which no finding says it, None without one."""
    causes = () if verdict.forecast is None else verdict.forecast.causes
    return next((f"{each.text}. {each.advice}" for each in causes if each.advice), None)


def _of_remedies(verdict: Verdict, found: list[Finding], errors: list[Finding]) -> Diagnosis:
    path = verdict.target.path
    other_topic = next((each for each in found if each.code is PARTITION_STRAY_ONLY), None)
    if other_topic is not None:
        why = "the records may be of another topic of this name"
        return Diagnosis(left=why, command=explain_command(PARTITION_STRAY_ONLY))
    remedies = {finding.remedy for finding in found}
    rebuild = (CureKind.REBUILD,) if reindex_command(path) in remedies else ()
    replica = (CureKind.REPLICA,) if verdict.lost.records else ()
    refetch = _refetch(path)
    field = (CureKind.FIELD,) if has_wrong_field(verdict) else ()
    if salvage_command(path) in remedies:
        why = "valid batches follow corrupt ones"
        drop: tuple[CureKind, ...] = (CureKind.DROP,)
        if any(finding.code is TRANSACTION_END_LOST for finding in found):
            why, drop = "the end of a transaction is corrupt, and valid batches follow it", ()
        elif not verdict.lost.corrupt or _is_internal(path):
            drop = ()  # an older state of groups or transactions would return
        cures = *field, CureKind.REPLICA, *refetch, *drop, CureKind.AS_BROKER
        return Diagnosis(cures, why, salvage_command(path))
    if truncate_command(path) in remedies:
        return Diagnosis((*field, *replica, CureKind.TAIL))
    if verdict.quick and verdict.lost.corrupt:  # by a scan of what recovery reads
        why = "a log is corrupt, and not all of it was read"
        return Diagnosis((*replica, *refetch, *rebuild), why, verify_command(path))
    if verdict.lost.records:
        why = "records are missing, and nothing on this disk has them"
        return Diagnosis((*field, *replica, *refetch, *rebuild), why)
    cured = {reindex_command(path)}
    others = [finding for finding in errors if finding.remedy not in cured]
    if not others:
        return Diagnosis((*field, *rebuild))
    first = others[0]
    if not any(finding.code.by_replica for finding in others):
        refetch = ()
    cures = *field, *refetch, *rebuild
    return Diagnosis(cures, left=_left(path, first, errors), command=first.remedy)


def has_wrong_field(verdict: Verdict) -> bool:
    """Return whether a field that no checksum covers is wrong, or may be the only one that is.

    A plan of the partition knows whether the log leaves it one value.
    """
    if any(gap.mended is not None for survey in verdict.surveys for gap in survey.gaps):
        return True
    ends = {(survey.segment.log, survey.last_position) for survey in verdict.surveys[-1:]}
    return any(
        each.code in _OF_FIELDS or (each.code in _HOLES and (each.path, each.position) in ends)
        for each in verdict.findings
    )


def _refetch(path: AnyPath) -> tuple[CureKind, ...]:
    """Return the cure that leaves a log to its leader: brokers serve current logs alone."""
    name = directory_name(path)
    return (CureKind.REFETCH,) if name is not None and not name.suffix else ()


def _is_internal(path: AnyPath) -> bool:
    name = directory_name(path)
    return name is not None and name.topic.startswith("__")


def pending_remedy(findings: Iterable[Finding]) -> Remedy | None:
    """Return the command that finishes an interrupted repair, None if there is none."""
    return next((finding.remedy for finding in findings if finding.code is REPAIR_PENDING), None)


def may_heal(verdict: Verdict, forecast: Forecast | None) -> bool:
    """Return whether ``heal`` takes from a copy what is lost here, or what the next start loses."""
    covered = verdict.covered  # a scrub may have read none of its segments
    if verdict.is_metadata_log or not (covered.segments or covered.size):
        return False
    lost = forecast is not None and (forecast.lost.sound or forecast.lost.unreadable)
    return bool(verdict.lost.records or lost)


def records_after_damage(verdict: Verdict) -> tuple[Span, int | None]:
    """Return the records that damage hides, and the number of sound records after the first damage.

    The number is None if not all was read, or if the cut is not at damage.
    """
    cut = salvage_command(verdict.target.path)
    cut_points = {
        (finding.path, finding.position) for finding in verdict.findings if finding.remedy == cut
    }
    sound: int | None = None
    for survey in verdict.surveys:
        log = survey.segment.log
        damaged = {(log, gap.damage.position) for gap in survey.gaps}
        if survey.recovered is None or any(
            cut_point not in damaged for cut_point in cut_points if cut_point[0] == log
        ):
            return Span(), None
        if sound is not None:
            sound += survey.recovered.sound.count
        elif damaged:
            sound = survey.recovered.later_records.sound.count
    return verdict.lost.corrupt, sound
