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
    """The producers as they are before the first of ``surveys``, or why nobody knows them.

    They are those of a sound snapshot there, or below but above the log start; none at all where
    the log starts. ``surveys`` ascend by base offset; at least one.
    """
    first = surveys[0].segment.base_offset
    start = _log_start(facts)
    for offset in sorted(facts.snapshots, reverse=True):
        entries = facts.snapshots[offset].value
        usable = offset == first or start < offset < first
        if usable and entries is not None and possible(entries, offset):
            return tuple(entries)
    if first <= start:
        return ()
    where = "in remote storage or gone" if facts.settings.remote_storage else "gone"
    return (
        f"the segments before offset {first} are {where}, and no sound snapshot holds the "
        "producers and open transactions at that offset"
    )


def possible(entries: Iterable[ProducerEntry], offset: int) -> bool:
    """Whether they can be the producers before ``offset``: each of them once, none ahead."""
    told = list(entries)
    ahead = any(max(one.last_offset, one.current_txn_first_offset) >= offset for one in told)
    return not ahead and len({one.producer_id for one in told}) == len(told)


def _log_start(facts: PartitionFacts) -> int:
    """Where the log starts; retention moves the first leader epoch along with it."""
    epochs = None if facts.epochs is None else facts.epochs.value
    return max(facts.log_start or 0, epochs[0].start_offset if epochs else 0)
