"""Changes of a segment between two readings that no broker makes.

A sealed segment does not change, unless the cleaner or a repair rewrites it. The header digest
shows a change of any byte, also of offsets, leader epochs and the order of batches, which no
checksum covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kdump.audit.checks.changes import SEGMENT_CHANGED_SILENTLY, SEGMENT_REWRITTEN
from kdump.audit.checks.read_errors import unread_file
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import FindingCode
from kdump.audit.findings import Finding, file_finding
from kdump.audit.survey.header_digest import DIGEST_FORM
from kdump.audit.survey.survey import ReadFailure, Survey
from kdump.audit.targets.target import Target
from kdump.errors import SourceError
from kdump.format.lines.text import time_text
from kdump.history.records import FileState, SegmentReading, SegmentRecord, encode_findings, signed
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity
from kdump.values import frozen


@frozen
class NewReading:
    """A segment of ``target`` that the release ``version`` read at ``read_ms``, with a digest.

    ``ctime_ns`` is as for ``SegmentReading``; ``findings`` are those on the segment. ``sealed``: it
    is not its partition's last now.
    """

    target: Target
    survey: Survey
    ctime_ns: int
    read_ms: int
    version: str
    sealed: bool
    findings: Sequence[Finding] = ()


@frozen
class SegmentChange:
    """The finding that a comparison adds, if any, and the new record of the segment.

    ``record`` is None if each read gives other bytes.
    """

    finding: Finding | None
    record: SegmentRecord | None


def compare(
    before: SegmentRecord,
    new: NewReading,
    facts: Callable[[], PartitionFacts],
    read_again: Callable[[], Survey],
) -> SegmentChange:
    """Compare a reading with the record ``before`` it.

    ``facts`` are called if digests differ, ``read_again`` if the file is the same nevertheless.
    """
    found, last = new.survey, before.reading
    assert found.identity is not None and found.header_digest is not None
    log, digest, file = found.segment.log, found.header_digest, FileState.of(found.identity)
    finding = None
    if last is not None and last.digest != digest:
        if _changed_silently(before, file, digest, new.ctime_ns, facts):
            again = read_again()
            if not again.complete or again.identity != found.identity:
                return SegmentChange(None, None)
            if again.header_digest != digest:
                return SegmentChange(_unstable(new.target, found.segment), None)
            finding = _finding(SEGMENT_CHANGED_SILENTLY, log, last, digest)
            # The segment is compared with its first content until that is back.
            reading = replace(
                last,
                read_ms=new.read_ms,
                version=new.version,
                findings=encode_findings((*new.findings, finding)),
            )
            return SegmentChange(
                finding, replace(before, changed=False, tried_ms=None, reading=reading)
            )
        # If it has become the last segment, the broker has truncated the log.
        if new.sealed and _rewritten(before, digest, facts):
            finding = _finding(SEGMENT_REWRITTEN, log, last, digest)
    earlier, digest_ms = None, new.read_ms
    if last is not None and before.sealed:
        same = last.digest == digest
        earlier = last.earlier if same else last.digest
        digest_ms = last.digest_ms if same else new.read_ms
    reading = SegmentReading(
        new.read_ms,
        found.batches,
        digest,
        digest_ms,
        DIGEST_FORM,
        new.ctime_ns,
        new.version,
        earlier,
        encode_findings(new.findings if finding is None else (*new.findings, finding)),
        found.max_timestamp,
    )
    record = SegmentRecord(
        before.base_offset, before.seen_ms, file, new.sealed, file.size, reading=reading
    )
    return SegmentChange(finding, record)


def steady_since(found: Survey, *, sealed: bool) -> int | None:
    """Return the time of the log's last change in ns; None if it changed while it was read.

    None too if it was not read to its end. Only a log that is not ``sealed`` may grow then.
    """
    if not found.complete or found.identity is None or found.header_digest is None:
        return None
    try:
        status = found.segment.log.stat()
    except OSError:
        return None
    if sealed and Identity.of(status) != found.identity:
        return None
    return signed(status.st_ctime_ns)


def _changed_silently(
    record: SegmentRecord,
    file: FileState,
    digest: bytes,
    ctime_ns: int,
    facts: Callable[[], PartitionFacts],
) -> bool:
    """Return whether a sealed segment has another content, though nothing wrote to its file.

    The cleaner gives a segment the modification time of the one that it replaces, and two cleanings
    later the inode may be the same: only the time of the inode's change then tells them apart.
    """
    before = record.reading
    if before is None or not record.sealed or record.file != file:
        return False
    if before.digest == digest or before.digest_form != DIGEST_FORM:
        return False
    return before.ctime_ns == ctime_ns or facts().compacted is False


def _rewritten(record: SegmentRecord, digest: bytes, facts: Callable[[], PartitionFacts]) -> bool:
    """Return whether something has rewritten a sealed segment that only kdump may rewrite.

    The cleaner rewrites segments of compacted topics, and repairs by kdump those of any topic.
    """
    before = record.reading
    if before is None or not record.sealed or digest in (before.digest, before.earlier):
        return False
    if before.digest_form != DIGEST_FORM:
        return False
    known = facts()
    return known.compacted is False and not repaired_since(known, before.read_ms)


def repaired_since(facts: PartitionFacts, read_ms: int) -> bool:
    """Return whether a repair by kdump changed the partition after ``read_ms``."""
    repairs = None if facts.repairs is None else facts.repairs.value
    begun = (record.begun_ns for record in repairs or ())
    return any(begun_ns is not None and begun_ns >= read_ms * 1_000_000 for begun_ns in begun)


def _finding(code: FindingCode, log: AnyPath, before: SegmentReading, digest: bytes) -> Finding:
    return file_finding(
        code,
        log,
        f"the batches read at {time_text(before.digest_ms)}, with header digest "
        f"{before.digest.hex()}",
        f"header digest {digest.hex()}",
    )


def _unstable(target: Target, segment: Segment) -> Finding:
    error = SourceError(
        segment.log,
        f"{segment.log}: expected the same bytes each time that the segment is read, found others: "
        "check the disk, its cable and the memory of this machine",
    )
    return unread_file(target, ReadFailure.of(segment.log, error))
