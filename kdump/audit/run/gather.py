"""gather(): the evidence of a partition beside its segments."""

from __future__ import annotations

from dataclasses import replace

from kdump.audit.evidence import known_ends
from kdump.audit.facts.metadata_log import read_snapshots
from kdump.audit.facts.small_files import (
    PartitionFacts,
    SwapLog,
    TopicSettings,
    read_partition_facts,
)
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.survey.survey import survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.storage.logdir import Segment, is_metadata_log


def gather(target: Target, context: Context) -> PartitionFacts | None:
    """Read the small files of a group, and what waits to be swapped in.

    None where only a segment is judged, or the directory could not be listed.
    """
    partition = target.partition
    if partition is None:
        return None
    settings = context.settings(target)
    facts = read_partition_facts(partition, target.directory, settings, stopped=target.stopped)
    swaps = {
        segment.base_offset: _swap(segment, settings, whole=target.stopped)
        for segment in partition.transient
        if segment.suffix == ".swap"
    }
    snapshots = read_snapshots(partition) if is_metadata_log(partition) else ()
    return replace(
        facts,
        swaps=swaps,
        metadata_snapshots=snapshots,
        coordinator=context.node(target).coordinator,
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
