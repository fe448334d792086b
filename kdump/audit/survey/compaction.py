"""Whether settings and batches show that the cleaner has been at a log.

The cleaner takes records out of batches, and sets delete horizons; both are under the checksum.
Gaps between batches show less: compaction leaves many of them, and so do lost batches. Tombstones
are no evidence: clients also write them to topics that are never compacted, and where the cleaner
came by them, it left a delete horizon, which headers show.

Spec: ``Cleaner``, ``RecordBatch.deleteHorizonMs`` (KIP-534); KOD 3.5.
"""

from __future__ import annotations

from enum import Enum


class Compaction(Enum):
    """Whether the cleaner was at a log."""

    SHOWN = "shown"
    POSSIBLE = "possible"
    UNLIKELY = "unlikely"  # nothing shows it, and the settings are unknown
    EXCLUDED = "excluded"


def compaction_evidence(compacted: bool | None, *, gaps: int, cleaned: bool) -> Compaction:
    """Weigh what is known: ``compacted`` is what settings say, None where they are unknown.

    ``gaps`` counts gaps between the batches of a segment. ``cleaned``: a batch has fewer records
    than offsets, or a delete horizon.
    """
    if compacted or (compacted is None and cleaned):
        return Compaction.SHOWN
    # A single gap may be an offset that was changed.
    if cleaned or (compacted is None and gaps > 1):
        return Compaction.POSSIBLE
    return Compaction.UNLIKELY if compacted is None else Compaction.EXCLUDED
