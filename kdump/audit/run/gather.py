"""gather(): reads the facts of a partition from its small files and ``.swap`` logs."""

from __future__ import annotations

from dataclasses import replace

from kdump.audit.evidence import known_ends
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
from kdump.metadata.log import read_snapshots
from kdump.metadata.replay import read_state
from kdump.storage.logdir import Segment, is_metadata_log


def gather(target: Target, context: Context, *, deep: bool = False) -> PartitionFacts | None:
    """Read the small files of a target, and its pending ``.swap`` logs.

    ``deep`` also replays a metadata log. Return None for a lone segment, and for a directory that
    could not be listed.
    """
    partition = target.partition
    if partition is None:
        return None
    settings = context.settings(target)
    facts = read_partition_facts(partition, target.directory, settings, stopped=target.stopped)
    swaps = {
        segment.base_offset: _swap(segment, settings, stopped=target.stopped)
        for segment in partition.transient
        if segment.suffix == ".swap"
    }
    is_metadata = is_metadata_log(partition)
    return replace(
        facts,
        swaps=swaps,
        metadata_snapshots=read_snapshots(partition) if is_metadata else (),
        metadata_notes=read_state(partition).notes if is_metadata and deep else (),
        coordinator=context.node(target).coordinator,
    )


def _swap(segment: Segment, settings: TopicSettings, *, stopped: bool) -> SwapLog:
    """Return the content of a ``.swap`` log; a running broker is about to rename it."""
    base = segment.base_offset
    if not stopped:
        log = quick_survey(segment, sealed=True)
        return SwapLog(known_ends([log]).get(base), None, log.cleaned, dense=False)
    log = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False, settings=settings)
    dense = log.first_offset == base and log.counted == log.end_offset - base
    return SwapLog(log.end_offset if log.complete else None, log.counted, log.cleaned, dense)
