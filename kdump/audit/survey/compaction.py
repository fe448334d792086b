"""Whether settings and batches show that the cleaner has compacted a log.

The cleaner removes records from batches, and sets delete horizons; the checksum covers both. Gaps
between batches show less: compaction leaves many of them, and so do lost batches. Tombstones are
not evidence: clients also write them to topics that are never compacted, and the cleaner leaves a
delete horizon in the header of their batch.

Spec: ``Cleaner``, ``RecordBatch.deleteHorizonMs`` (KIP-534); KOD 3.5.
"""

from __future__ import annotations

from enum import Enum


class Compaction(Enum):
    """Whether the cleaner has compacted a log."""

    SHOWN = "shown"
    POSSIBLE = "possible"
    UNLIKELY = "unlikely"  # no evidence shows it, and the settings are unknown
    EXCLUDED = "excluded"


def compaction_evidence(compacted: bool | None, *, gaps: int, cleaned: bool) -> Compaction:
    """Return what the evidence shows; ``compacted`` is by the settings, None if they are unknown.

    ``gaps`` counts gaps between the batches of a segment. ``cleaned``: a batch has fewer records
    than offsets, or a delete horizon.
    """
    if compacted or (compacted is None and cleaned):
        return Compaction.SHOWN
    # A single gap may come from a changed offset.
    if cleaned or (compacted is None and gaps > 1):
        return Compaction.POSSIBLE
    return Compaction.UNLIKELY if compacted is None else Compaction.EXCLUDED


def missing_means_lost(compacted: bool | None, *, gaps: int, cleaned: bool) -> bool:
    """Return whether missing offsets count as lost batches, which may have been markers.

    They do if the settings exclude compaction, or are unknown and no evidence shows it. The
    arguments are those of ``compaction_evidence``.
    """
    evidence = compaction_evidence(compacted, gaps=gaps, cleaned=cleaned)
    return compacted is False or evidence is Compaction.UNLIKELY
