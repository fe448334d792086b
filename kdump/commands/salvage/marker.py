"""A transaction marker that replaces a lost marker.

Spec: ``EndTransactionMarker`` (KIP-98).
"""

from __future__ import annotations

from kdump.audit.replay.fates import LostEnd
from kdump.values import frozen


@frozen
class NewMarker:
    """A marker at ``offset``: the bytes of its batch, and the transaction that it ends."""

    offset: int
    data: bytes
    end: LostEnd
