"""Checks of backups and unfinished repairs in a partition.

Spec: none in Kafka; ``kdump.storage.repair_record`` reads the folders of repairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

from kdump.audit.checks import missing_offsets, segments, transactions
from kdump.audit.commands import repair_resume_command, resume_command
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts
from kdump.audit.finding_code import FindingCode, Severity
from kdump.audit.findings import Detail, Finding, explain_command
from kdump.audit.survey.anomalies import FaultKind
from kdump.audit.survey.survey import LISTED, Survey
from kdump.errors import SourceError
from kdump.storage.paths import AnyPath
from kdump.storage.repair_journal import repair_journals
from kdump.storage.repair_record import FOLDERS, RepairRecord, RepairState, interrupted_moves

BACKUP_KEPT: Final = FindingCode(
    "backup-kept",
    Severity.INFO,
    "A repair by kdump left its backup in the partition, in the directory .kdump. A move left "
    "the old directory in the log directory that the partition was in.",
    "The broker ignores the backup. When the topic is deleted, a backup in the partition is "
    "deleted too; the old directory of a move stays.",
    "Nothing to do. kdump undo reverts the repair. With --discard, it removes the backup and frees "
    "the space.",
)
BACKUPS_LINKED: Final = FindingCode(
    "backups-linked",
    Severity.WARNING,
    "The .kdump of a partition, where repairs keep their backups, is a symbolic link.",
    "The broker ignores the link.",
    "Move the link out of the partition. kdump does not follow it and begins no repair: the target "
    "may belong to another user, or be on another disk.",
)
HOLE_SALVAGED: Final = FindingCode(
    "hole-salvaged",
    Severity.INFO,
    "Offsets are missing because kdump salvage could not copy their records, or because kdump "
    "repair --only-copy dropped corrupt batches. The receipt in the partition lists these offsets.",
    "The broker does not detect this. Consumers continue after the missing offsets.",
    "Nothing to do. If kdump undo with --discard removes the receipt, kdump reports these offsets "
    "as missing.",
)
REPAIR_PENDING: Final = FindingCode(
    "repair-pending",
    Severity.ERROR,
    "A repair by kdump, or its undo, was interrupted or is still running: the partition is only "
    "partly changed.",
    "A broker that starts now loses no more records than it would have lost before the repair. But "
    "after that startup, kdump can neither finish nor undo the repair.",
    "Before a broker starts, run the same command again to finish the repair, or kdump undo to "
    "revert it.",
)

DIRECTORY_REPAIR_PENDING: Final = FindingCode(
    "directory-repair-pending",
    Severity.WARNING,
    "A kdump repair of a log directory was interrupted, or is still running. Each of its "
    "partitions is as it was, or is repaired, but for one with a repair-pending of its own.",
    "The broker ignores the journal of the repair. It starts with partitions that are not repaired "
    "yet.",
    "Before a broker starts, run kdump repair again with --apply, or kdump undo with the id of the "
    "repair. If the journal cannot be read, move it away: the backups are in the partitions.",
)

#: The codes of missing offsets.
_GAP_CODES: Final = frozenset(
    {
        missing_offsets.BATCHES_HOLE,
        missing_offsets.BATCH_OFFSET_CHANGED,
        segments.FIRST_SEGMENT_MISSING,
        segments.LOG_START_RAISED,
        segments.LOG_START_UNEXPLAINED,
        missing_offsets.OFFSETS_MISSING,
        missing_offsets.RECORDS_MISSING,
        missing_offsets.SEGMENTS_HOLE,
    }
)


def check_repair_records(evidence: Evidence) -> Iterator[Finding]:
    """Report the backup of each repair, and each repair that was interrupted."""
    facts = evidence.facts
    if facts is None or facts.repairs is None:
        return
    if facts.repairs_linked:
        path = facts.partition.path / FOLDERS
        yield Finding(
            BACKUPS_LINKED,
            path,
            detail=Detail("a directory that a repair made", "a symbolic link"),
            remedy=explain_command(BACKUPS_LINKED),
        )
    for record in facts.repairs.value or ():
        match record.state:
            case RepairState.DONE:
                yield _backup(record, f"the backup of {_describe(record)}")
            case RepairState.PREPARED:
                yield _backup(
                    record,
                    f"{_describe(record)}, prepared and not begun: nothing was changed, the next "
                    "repair removes it",
                )
            case RepairState.PENDING | RepairState.UNDOING:
                yield _pending(facts.partition.path, record)


def check_interrupted_copies(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report each move that was interrupted before its copy got the name of the partition."""
    for path in facts.directory.set_aside:
        try:
            for copy, record in interrupted_moves([path]):
                yield _pending(copy, record, f" of {record.moved}")
        except SourceError:  # the kept directory of a finished move need not be readable
            continue


def check_journals(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report each repair of the log directory that was interrupted."""
    directory = facts.directory.path
    if not any(entry.name.name.startswith(f"{FOLDERS}.") for entry in facts.directory.entries):
        return
    try:
        journals = repair_journals(directory)
    except SourceError as error:
        yield Finding(
            DIRECTORY_REPAIR_PENDING,
            directory,
            detail=Detail("the journal of a repair", str(error)),
            remedy=explain_command(DIRECTORY_REPAIR_PENDING),
        )
        return
    for journal in journals:
        if not journal.done:
            yield Finding(
                DIRECTORY_REPAIR_PENDING,
                journal.path,
                detail=Detail("a finished repair", f"repair {journal.id}, begun and not finished"),
                remedy=repair_resume_command(directory, journal),
            )


def note_receipt_gaps(
    facts: PartitionFacts, findings: Iterable[Finding], surveys: Sequence[Survey]
) -> Iterator[Finding]:
    """Yield ``findings`` as ``note_listed_gaps`` does, with the gaps of a partition's receipts."""
    repairs = None if facts.repairs is None else facts.repairs.value
    gaps = {
        gap for record in repairs or () if record.state is RepairState.DONE for gap in record.gaps
    }
    return note_listed_gaps(gaps, findings, surveys)


def note_listed_gaps(
    gaps: Set[tuple[int, int]], findings: Iterable[Finding], surveys: Sequence[Survey]
) -> Iterator[Finding]:
    """Yield ``findings``, with missing offsets inside one of ``gaps`` as notes.

    ``gaps`` are the first and last offsets that a receipt lists. The receipt also lists the
    transactions that end there: findings about these are left out. A finding that counts further
    gaps of its segment is a note if ``gaps`` are all gaps of the segment, by ``surveys``.
    """
    by_log = {survey.segment.log: survey for survey in surveys}
    for finding in findings:
        offsets = finding.offsets
        if (
            finding.code is transactions.TRANSACTION_END_LOST
            and offsets is not None
            and offsets.last is not None
        ):
            missing = offsets.last + 1
            if any(first <= missing <= last for first, last in gaps):
                continue
        listed = (
            finding.code in _GAP_CODES
            and (not finding.repeats or _counts_only(gaps, finding, by_log.get(finding.path)))
            and offsets is not None
            and offsets.last is not None
            and any(first <= offsets.first and offsets.last <= last for first, last in gaps)
        )
        if listed:
            remedy = explain_command(HOLE_SALVAGED)
            yield replace(finding, code=HOLE_SALVAGED, remedy=remedy)
        else:
            yield finding


def _counts_only(gaps: Set[tuple[int, int]], finding: Finding, survey: Survey | None) -> bool:
    """Return whether the gaps that ``finding`` counts, and does not list, are among ``gaps``.

    It counts gaps of one segment. They are known by their number alone: all gaps that are listed
    have to be among ``gaps`` too.
    """
    if survey is None or survey.last_offset is None:
        return False
    faults = [fault for fault in survey.faults if fault.kind is FaultKind.GAP]
    listed = [(fault.reference + 1, fault.batch.base_offset - 1) for fault in faults]
    count = survey.counts[FaultKind.GAP]
    if finding.repeats != count - LISTED or not gaps >= set(listed):
        return False
    # A quick pass begins late in the segment: gaps before the first that is listed do not count.
    inside = [gap for gap in gaps if listed[0][0] <= gap[0] and gap[1] <= survey.last_offset]
    return len(inside) == count


def _backup(record: RepairRecord, found: str) -> Finding:
    detail = Detail("nothing of a repair", found)
    return Finding(BACKUP_KEPT, record.path, size=record.size_bytes, detail=detail)


def _pending(partition: AnyPath, record: RepairRecord, of: str = "") -> Finding:
    prefix = "the undo of " if record.state is RepairState.UNDOING else ""
    return Finding(
        REPAIR_PENDING,
        record.path,
        size=record.size_bytes,
        detail=Detail(
            "finished repairs", f"{prefix}{_describe(record)}{of}, begun and not finished"
        ),
        remedy=resume_command(partition, record),
    )


def _describe(record: RepairRecord) -> str:
    return f"{'a repair' if record.command is None else record.command} {record.id}"


CHECKS: Final = (check_repair_records,)
DIRECTORY_CHECKS: Final = (check_interrupted_copies, check_journals)
