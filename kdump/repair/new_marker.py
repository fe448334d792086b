"""NewMarker: a marker that a salvage writes in the place of one that is missing.

Spec: ``EndTransactionMarker`` (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass

from kdump.audit.fates import LostEnd


@dataclass(frozen=True, slots=True)
class NewMarker:
    """A marker at ``offset``, as its batch stands in the new log, and what it stands for."""

    offset: int
    data: bytes
    end: LostEnd
