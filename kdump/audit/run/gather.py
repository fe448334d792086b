"""gather(): reads the facts of a partition from its small files and ``.swap`` logs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from kdump.audit.facts.missing_start import first_line
from kdump.audit.facts.small_files import (
    PartitionFacts,
    Successor,
    SwapLog,
    TopicSettings,
    end_without_segments,
    read_partition_facts,
)
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.survey.survey import survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.future_logs import FutureLog
from kdump.audit.targets.target import Target, log_bytes
from kdump.errors import SourceError
from kdump.metadata.log import read_snapshots
from kdump.metadata.replay import read_state
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment, is_metadata_log, read_partition
from kdump.storage.walk import first_batch


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
    successor = context.successor(target)
    return replace(
        facts,
        swaps=swaps,
        metadata_snapshots=read_snapshots(partition) if is_metadata else (),
        metadata_notes=read_state(partition).notes if is_metadata and deep else (),
        coordinator=context.node(target).coordinator,
        first_timestamp=_first_timestamp(facts),
        successor=None if successor is None else _successor(successor, settings),
        promoted=context.is_promoted_alone(target),
        remote=context.node(target).remote,
    )


def _first_timestamp(facts: PartitionFacts) -> int | None:
    """Return the time of the first record on disk, where the first leader epoch begins before."""
    line, segments = first_line(facts), facts.partition.segments
    if line is None or not segments or line.start_offset >= segments[0].base_offset:
        return None
    with suppress(SourceError), open_source(segments[0].log, mapped=False) as source:
        first = first_batch(source, segments[0].base_offset)
        return None if first is None else first.base_timestamp
    return None


def _successor(future: FutureLog, settings: TopicSettings) -> Successor:
    """Return the end of a future log, from the end of its last segment, and its small files."""
    try:
        partition = read_partition(future.path)
        segments = partition.segments
        end = end_without_segments(partition, future.log_start)
        if segments:
            end = quick_survey(segments[-1], sealed=False).written_end
        facts = read_partition_facts(partition, None, settings, stopped=True)
        facts = replace(facts, in_log_directory=True, log_start=future.log_start, promoted=True)
        facts = replace(facts, first_timestamp=_first_timestamp(facts))
        return Successor(future.path, end, facts, sum(map(log_bytes, segments)))
    except SourceError:  # it has findings of its own
        return Successor(future.path, None)


def _swap(segment: Segment, settings: TopicSettings, *, stopped: bool) -> SwapLog:
    """Return the content of a ``.swap`` log; a running broker is about to rename it."""
    base = segment.base_offset
    if not stopped:
        log = quick_survey(segment, sealed=True)
        return SwapLog(log.known_end, None, log.cleaned, dense=False)
    log = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False, settings=settings)
    dense = log.first_offset == base and log.counted == log.end_offset - base
    return SwapLog(log.end_offset if log.complete else None, log.counted, log.cleaned, dense)
