"""A transaction marker written in the place of a lost one.

Spec: ``EndTransactionMarker`` (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass

from kdump.audit.replay.fates import LostEnd


@dataclass(frozen=True, slots=True)
class NewMarker:
    """A marker at ``offset``, as its batch stands in the new log, and what it stands for."""

    offset: int
    data: bytes
    end: LostEnd
