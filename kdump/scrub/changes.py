"""Changes of a segment between two scrubs that no broker makes.

A sealed segment does not change, unless the cleaner or a repair rewrites it. The header digest
shows a change of any byte, also of offsets, leader epochs and the order of batches, which no
checksum covers.
"""

from __future__ import annotations

from kdump.audit import codes
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding, file_finding
from kdump.audit.survey.header_digest import DIGEST_FORM
from kdump.format.lines.text import time_text
from kdump.scrub.records import FileState, SegmentRecord
from kdump.storage.objects.address import AnyPath


def changed_silently(
    record: SegmentRecord, file: FileState, digest: bytes, *, ctime_ns: int, compacted: bool | None
) -> bool:
    """Return whether a sealed segment has another content, though nothing wrote to its file.

    The cleaner gives a segment the modification time of the one that it replaces, and two cleanings
    later the inode may be the same: only the time of the inode's change then tells them apart.
    """
    before = record.reading
    if before is None or not record.sealed or record.file != file or before.digest == digest:
        return False
    same_inode = compacted is False or before.ctime_ns == ctime_ns
    return same_inode and before.digest_form == DIGEST_FORM


def silent_change(log: AnyPath, record: SegmentRecord, digest: bytes) -> Finding:
    """Return the finding on a segment that changed silently."""
    return _finding(codes.SEGMENT_CHANGED_SILENTLY, log, record, digest)


def rewriting(
    log: AnyPath, record: SegmentRecord, digest: bytes, facts: PartitionFacts
) -> Finding | None:
    """Return the finding on a sealed segment that something has rewritten, None if it is explained.

    The cleaner rewrites segments of compacted topics, and repairs by kdump those of any topic.
    """
    before = record.reading
    if before is None or not record.sealed or digest in (before.digest, before.earlier):
        return None
    if before.digest_form != DIGEST_FORM:
        return None
    if facts.compacted is not False or repaired_since(facts, before.read_ms):
        return None
    return _finding(codes.SEGMENT_REWRITTEN, log, record, digest)


def repaired_since(facts: PartitionFacts, read_ms: int) -> bool:
    """Return whether a repair by kdump changed the partition after ``read_ms``."""
    repairs = None if facts.repairs is None else facts.repairs.value
    begun = (record.begun_ns for record in repairs or ())
    return any(begun_ns is not None and begun_ns >= read_ms * 1_000_000 for begun_ns in begun)


def _finding(
    code: codes.FindingCode, log: AnyPath, record: SegmentRecord, digest: bytes
) -> Finding:
    assert record.reading is not None
    before = record.reading
    return file_finding(
        code,
        log,
        f"the batches read at {time_text(before.digest_ms)}, with header digest "
        f"{before.digest.hex()}",
        f"header digest {digest.hex()}",
    )
