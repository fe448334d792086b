"""gather(): everything that is known of a partition beside its logs and indexes.

Spec: none of Kafka's. It must never read more than the ends of logs and indexes; small files, a
metadata log's snapshots, and what a start will swap in, are read whole.
"""

from __future__ import annotations

from dataclasses import replace

from kdump.audit.case import known_ends
from kdump.audit.context import Context
from kdump.audit.facts import PartitionFacts, SwapLog, TopicSettings, read_partition_facts
from kdump.audit.groups import Group
from kdump.audit.metadata_log import read_snapshots
from kdump.audit.quick import quick_survey
from kdump.audit.survey import survey
from kdump.storage.logdir import Segment, is_metadata_log


def gather(group: Group, context: Context) -> PartitionFacts | None:
    """Read the small files of a group, and what waits to be swapped in.

    None where only a segment is judged, or the directory could not be listed.
    """
    partition = group.partition
    if partition is None:
        return None
    settings = context.settings(group)
    facts = read_partition_facts(partition, group.directory, settings, stopped=group.stopped)
    swaps = {
        segment.base_offset: _swap(segment, settings, whole=group.stopped)
        for segment in partition.transient
        if segment.suffix == ".swap"
    }
    snapshots = read_snapshots(partition) if is_metadata_log(partition) else ()
    return replace(
        facts,
        swaps=swaps,
        metadata_snapshots=snapshots,
        coordinator=context.node(group).coordinator,
    )


def _swap(segment: Segment, settings: TopicSettings, *, whole: bool) -> SwapLog:
    """What a ``.swap`` log holds; a broker that runs is about to rename it."""
    base = segment.base_offset
    if not whole:
        found = quick_survey(segment, sealed=True)
        return SwapLog(known_ends([found]).get(base), None, found.cleaned, dense=False)
    found = survey(
        segment, lambda _: None, mapped=False, sealed=True, deep=False, settings=settings
    )
    end = base if found.last_offset is None else found.last_offset + 1
    dense = found.first_offset == base and found.counted == end - base
    return SwapLog(end if found.complete else None, found.counted, found.cleaned, dense)
