"""The producers before the first segment of a partition.

Spec: ``ProducerStateManager.truncateAndReload``, ``UnifiedLog.rebuildProducerState``; KOD 5 and
7.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.survey import Survey
from kdump.format.snapshot import ProducerEntry


def start_of(facts: PartitionFacts, surveys: Sequence[Survey]) -> tuple[ProducerEntry, ...] | str:
    """Return the producers before the first of ``surveys``, or a sentence why they are unknown.

    They are those of a sound snapshot at that offset, or between the log start and that offset. At
    the log start there are none. ``surveys``, at least one, are in the order of base offsets.
    """
    first = surveys[0].segment.base_offset
    start = max(facts.log_start or 0, facts.first_epoch_start)
    for offset in sorted(facts.snapshots, reverse=True):
        entries = facts.snapshots[offset].value
        usable = offset == first or start < offset < first
        if usable and entries is not None and can_precede(entries, offset):
            return tuple(entries)
    if first <= start:
        return ()
    where = "in remote storage or gone" if facts.settings.remote_storage else "gone"
    return (
        f"the segments before offset {first} are {where}, and no valid snapshot holds the "
        "producers and open transactions at that offset"
    )


def can_precede(entries: Iterable[ProducerEntry], offset: int) -> bool:
    """Return whether ``entries`` can be the producers before ``offset``.

    Each producer may occur once, and no entry may point to ``offset`` or above.
    """
    listed = list(entries)
    ahead = any(
        max(entry.last_offset, entry.current_txn_first_offset) >= offset for entry in listed
    )
    return not ahead and len({entry.producer_id for entry in listed}) == len(listed)
