"""The batch at the cut, read again bypassing the page cache.

Faulty memory, a controller or a cable can return different bytes each time. Then nothing is cut.
"""

from __future__ import annotations

from kdump.audit.survey.survey import Survey
from kdump.commands.truncate.cut_point import CutPoint
from kdump.errors import Refused
from kdump.format.batch import HEADER_BYTES, LOG_OVERHEAD
from kdump.repair.rewrite.prefix import PrefixSource
from kdump.storage.paths import as_local
from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, Reason, walk
from kdump.values import frozen


@frozen
class _Reading:
    """One reading of a batch: its header, whether it is sound, and its checksums if not."""

    head: bytes
    sound: bool
    stored_crc: int | None = None
    computed_crc: int | None = None


def confirm(survey: Survey, cut_point: CutPoint) -> None:
    """Read the batch at ``cut_point`` twice more, once bypassing the page cache where possible.

    Does nothing if the log stays whole. Raises Refused unless both readings agree with ``survey``;
    SourceError.
    """
    if cut_point.position == survey.size:
        return
    cached, direct = (_read(survey, cut_point.position, sealed=sealed) for sealed in (False, True))
    if cached != direct or not _as_surveyed(direct, _expected(survey, cut_point)):
        raise Refused(
            f"{survey.segment.log}: unstable-read: expected the same bytes each time that the "
            f"batch at position {cut_point.position} is read, found different bytes: check memory, "
            "controller and disk before you cut anything"
        )


def _expected(survey: Survey, cut_point: CutPoint) -> Damage | None:
    """Return the damage at the cut by ``survey``; by ``cut_point`` if the survey omits some."""
    if survey.damages > len(survey.gaps):
        return cut_point.damage
    found = (gap.damage for gap in survey.gaps if gap.damage.position == cut_point.position)
    return next(found, None)


def _as_surveyed(reading: _Reading, damage: Damage | None) -> bool:
    if damage is None:
        return reading.sound
    if reading.sound or damage.empty:
        return not reading.sound and not any(reading.head)
    if damage.claimed_bytes != _claimed(reading.head):
        return False
    if damage.reason is not Reason.BAD_CHECKSUM:
        return True
    return (damage.stored_crc, damage.computed_crc) == (reading.stored_crc, reading.computed_crc)


def _read(survey: Survey, position: int, *, sealed: bool) -> _Reading:
    with WindowedFile(as_local(survey.segment.log), sealed=sealed) as source:
        head = bytes(source.window(position, HEADER_BYTES)[:HEADER_BYTES])
        claimed = _claimed(head)
        if claimed is None or not 0 < claimed <= source.size - position:
            return _Reading(head, sound=False)
        # The source ends after the batch, so that the walk does not search further.
        batch = PrefixSource(source, position + claimed)
        piece = next(walk(batch, survey.segment.base_offset, position))
        if isinstance(piece, Damage):
            return _Reading(head, False, piece.stored_crc, piece.computed_crc)
        return _Reading(head, sound=True)


def _claimed(head: bytes) -> int | None:
    """Return the size in a header, None if the header is incomplete."""
    if len(head) < LOG_OVERHEAD:
        return None
    return int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
