"""Judges whole log directories by all checks that need no replay of producers, without a pool.

Must never print, nor write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import ParamSpec

from kdump.audit.checks import (
    directory,
    leftovers,
    metadata,
    partition_files,
    segments,
    topic,
)
from kdump.audit.checks.batches import check_segment, check_sequence
from kdump.audit.cluster import Node, find_cluster
from kdump.audit.facts import DirectoryFacts, PartitionFacts, read_directory, read_partition_facts
from kdump.audit.findings import Finding
from kdump.audit.metadata_log import read_snapshots
from kdump.audit.settings import Sources, topic_settings
from kdump.audit.survey import Survey, survey
from kdump.storage.liveness import Liveness, State
from kdump.storage.logdir import LogDirectory, Partition, Segment, open_path, read_partition
from kdump.storage.names import CLUSTER_METADATA_TOPIC

P = ParamSpec("P")
Check = Callable[..., Iterator[Finding]]

NOW_MS = 1_795_000_000_000
"""The present of the tests: November 2026."""

DIRECTORY_CHECKS: tuple[Check, ...] = (
    directory.check_foreign_directories,
    directory.check_foreign_files,
    directory.check_clean_marker,
    directory.check_checkpoints,
    directory.check_checkpoint_lines,
    directory.check_meta_properties,
)
CHECKS: tuple[Check, ...] = (
    *DIRECTORY_CHECKS,
    directory.check_node,
    directory.check_twice,
    directory.check_suffix,
    topic.check_partition_metadata,
    topic.check_topic_id,
    topic.check_segment_bytes,
    partition_files.check_file_names,
    partition_files.check_epoch_file,
    partition_files.check_epoch_end,
    partition_files.check_snapshot_files,
    partition_files.check_stray_snapshots,
    partition_files.check_log_start,
    partition_files.check_recovery_point,
    partition_files.check_high_watermark,
    partition_files.check_cleaner_offset,
    leftovers.check_leftovers,
    leftovers.check_foreign,
    leftovers.check_swaps,
    metadata.check_quorum_state,
    metadata.check_metadata_snapshots,
    segments.check_holes,
    segments.check_future_timestamps,
    segments.check_clean_stop,
    check_segment,
    check_sequence,
)
"""All that ``judge`` runs; those that need a file too large for a test are elsewhere."""


def judge(
    *paths: Path,
    state: State = State.STOPPED,
    one_node: bool = True,
    config: dict[str, str] | None = None,
    without: Collection[Check] = (),
    heard: set[Check] | None = None,
    now_ms: int = NOW_MS,
) -> list[Finding]:
    """All findings in the log directories ``paths``, by all of ``CHECKS`` but ``without``.

    ``heard`` is told which of them had something to say.
    """
    directories = [_directory(path) for path in paths]
    facts = [read_directory(one, Liveness(state, "a test says so")) for one in directories]
    found: list[Finding] = []

    def run(check: Callable[P, Iterator[Finding]], *args: P.args, **kwargs: P.kwargs) -> None:
        if check not in without:
            said = list(check(*args, **kwargs))
            found.extend(said)
            if said and heard is not None:
                heard.add(check)

    for one in facts:
        for check in DIRECTORY_CHECKS:
            run(check, one)
    for group in directory.siblings(facts, one_node=one_node):
        run(directory.check_node, group)
        run(directory.check_twice, group)
    meta = [one.meta.value for one in facts if one.meta is not None]
    first = next((value for value in meta if value is not None), None)
    node = Node(
        first is not None and first.version == 1,
        first.node_id if first else None,
        find_cluster(directories),
    )
    for one in facts:
        for path in one.directory.partition_paths:
            _partition(run, read_partition(path), one, node, config, now_ms)
    return found


def _directory(path: Path) -> LogDirectory:
    target = open_path(path)
    assert isinstance(target, LogDirectory)
    return target


def _partition(
    run: Callable[..., None],
    partition: Partition,
    directory_facts: DirectoryFacts,
    node: Node,
    config: dict[str, str] | None,
    now_ms: int,
) -> None:
    assert partition.name is not None
    key = partition.name.topic, partition.name.partition
    cleaned = directory_facts.cleaner_offsets
    settings = topic_settings(
        partition.name.topic,
        Sources(node.image, config, node.node_id),
        cleaned=cleaned is not None and key in (cleaned.value or {}),
    )
    facts = read_partition_facts(
        partition, directory_facts, settings, stopped=directory_facts.stopped
    )
    surveys = surveyed(partition.segments)
    ends = known_ends(surveys)
    first_base = partition.segments[0].base_offset if partition.segments else None
    log_end = ends.get(partition.segments[-1].base_offset) if partition.segments else None
    size = sum(one.size for one in surveys)
    run(directory.check_suffix, partition, size)
    alone: tuple[Check, ...] = (
        topic.check_partition_metadata,
        partition_files.check_epoch_file,
        partition_files.check_snapshot_files,
        partition_files.check_stray_snapshots,
        leftovers.check_leftovers,
        leftovers.check_foreign,
        metadata.check_quorum_state,
    )
    for check in alone:
        run(check, facts)
    run(topic.check_topic_id, facts, node, size)
    run(topic.check_segment_bytes, facts, node)
    run(partition_files.check_file_names, partition)
    for against_end in (
        partition_files.check_epoch_end,
        partition_files.check_log_start,
        partition_files.check_recovery_point,
    ):
        run(against_end, facts, log_end)
    run(partition_files.check_high_watermark, facts, first_base, log_end)
    run(partition_files.check_cleaner_offset, facts, first_base, log_end)
    swaps = known_ends(surveyed([one for one in partition.transient if one.suffix == ".swap"]))
    run(leftovers.check_swaps, facts, ends, swaps)
    if partition.name.topic == CLUSTER_METADATA_TOPIC:
        snapshots = read_snapshots(partition)
        run(metadata.check_metadata_snapshots, facts, snapshots, first_base, log_end)
    run(segments.check_holes, partition, settings, ends)
    newest = [(one.segment.log, one.max_timestamp) for one in surveys]
    run(segments.check_future_timestamps, newest, settings, now_ms)
    if surveys:
        run(segments.check_clean_stop, facts, surveys[-1])
    _batches(run, facts, surveys)


def _batches(run: Callable[..., None], facts: PartitionFacts, surveys: Sequence[Survey]) -> None:
    bases = [one.segment.base_offset for one in surveys]
    clean = segments.stopped_cleanly(facts)
    for place, one in enumerate(surveys):
        following = bases[place + 1] if one is not surveys[-1] else None
        run(check_segment, one, following, live=not facts.stopped, clean=clean)
    run(check_sequence, surveys)


def surveyed(listed: Sequence[Segment]) -> list[Survey]:
    return [
        survey(one, lambda _: None, mapped=False, sealed=one is not listed[-1], deep=False)
        for one in listed
    ]


def known_ends(surveys: Sequence[Survey]) -> dict[int, int]:
    """The offset behind the last record, of segments without damage."""
    return {
        one.segment.base_offset: one.segment.base_offset
        if one.last_offset is None
        else one.last_offset + 1
        for one in surveys
        if one.complete and not one.gaps
    }
