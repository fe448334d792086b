"""space_task(): what the bytes of a partition depend on outside of it.

These are its lines in checkpoints, its replicas, and the configs of its topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from kdump.audit.facts.settings import Sources, retention_configs
from kdump.audit.facts.small_files import (
    DirectoryFacts,
    checkpoint_line,
    log_start_line,
    read_topic_id,
)
from kdump.audit.sizes.measure import SpaceTask
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.storage.logdir import directory_name
from kdump.storage.names import PARTITION_METADATA


def space_task(target: Target, context: Context, *, listing: bool) -> SpaceTask:
    """Return the task that measures a partition; ``listing`` asks for its old segments."""
    name, node = directory_name(target.path), context.node(target)
    now_ms = context.now_ms
    if name is None:
        return SpaceTask(target.path, None, None, None, None, False, now_ms, now_ms)
    topic_id = None
    ranges: Sequence[tuple[int, int]] = ()
    configs = retention_configs(name.topic, Sources(node.image, context.config, node.node_id))
    if configs is not None and configs.remote and node.remote is not None:
        topic_id = read_topic_id(target.path / PARTITION_METADATA)
        ranges = node.remote.ranges(name.topic, name.partition, topic_id)
    marks = None if target.directory is None else target.directory.high_watermarks
    others = node.copies(name.topic, name.partition)
    return SpaceTask(
        target.path,
        name,
        configs,
        checkpoint_line(marks, name),
        log_start_line(target.directory, name),
        others is not None and not others.nodes,
        now_ms,
        _written_ms(target.directory, now_ms),
        None if node.remote is None else ranges[-1][1] if ranges else -1,
        listing,
    )


def _written_ms(facts: DirectoryFacts | None, now_ms: int) -> int:
    """Return the time up to which a broker has written to a log directory."""
    if facts is None or not facts.stopped or not facts.written_ms:
        return now_ms
    return min(facts.written_ms, now_ms)
