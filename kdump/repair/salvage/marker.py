"""A transaction marker that replaces a lost marker.

Spec: ``EndTransactionMarker`` (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass

from kdump.audit.replay.fates import LostEnd


@dataclass(frozen=True, slots=True)
class NewMarker:
    """A marker at ``offset``: the bytes of its batch, and the transaction that it ends."""

    offset: int
    data: bytes
    end: LostEnd
