"""measure_targets(): the partitions of a run measured, each with what lies outside of it.

These are its lines in checkpoints, its replicas, and the configs of its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kdump.audit.facts.settings import Sources, compaction_configs, retention_configs
from kdump.audit.facts.small_files import (
    DirectoryFacts,
    checkpoint_line,
    log_start_line,
    read_topic_id,
)
from kdump.audit.run.spread import Spread, failure_text
from kdump.audit.sizes.cleaning import CleanerFacts
from kdump.audit.sizes.measure import PartitionSpace, SpaceTask, measure_all
from kdump.audit.targets.context import Context
from kdump.audit.targets.future_logs import FutureFate
from kdump.audit.targets.target import Target
from kdump.errors import SourceError
from kdump.storage.logdir import directory_name
from kdump.storage.names import PARTITION_METADATA, DirectoryName
from kdump.storage.workers import progress_counter

#: The partitions of a task: their files are asked for in one process.
_PARTITIONS: Final = 32


def measure_targets(
    targets: Sequence[Target],
    context: Context,
    spread: Spread,
    *,
    listing: bool = False,
    cleaning: bool = False,
    high_watermark: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[Target, PartitionSpace | SourceError]]:
    """Yield each partition of ``targets`` with its bytes, in any order; ``listing``: old segments.

    ``cleaning`` asks for what the cleaner makes of compacted ones. ``high_watermark`` is that of
    partitions without a line in the checkpoint. ``on_progress`` gets the number of partitions that
    are done.
    """
    cleaners = _Cleaners(context) if cleaning else None
    tasks = [
        _task(target, context, cleaners, high_watermark, listing=listing) for target in targets
    ]
    starts = range(0, len(tasks), _PARTITIONS)
    chunks = [tasks[at : at + _PARTITIONS] for at in starts]
    sizes = [len(chunk) for chunk in chunks]
    advance = None if on_progress is None else progress_counter(len(tasks), on_progress)
    for number, found in spread(measure_all, chunks, sizes, on_progress=advance):
        of = targets[starts[number] : starts[number] + len(chunks[number])]
        if isinstance(found, list):
            yield from zip(of, found, strict=True)
        else:
            for target in of:
                text = f"{target.path}: not measured: {failure_text(found)}"
                yield target, SourceError(target.path, text)


def _task(
    target: Target,
    context: Context,
    cleaners: _Cleaners | None,
    high_watermark: int | None,
    *,
    listing: bool,
) -> SpaceTask:
    name, node = directory_name(target.path), context.node(target)
    now_ms = context.now_ms
    if name is None:
        return SpaceTask(target.path, None, None, None, None, False, now_ms, now_ms)
    topic_id = None
    ranges: Sequence[tuple[int, int]] = ()
    sources = Sources(node.image, context.config, node.node_id)
    configs = retention_configs(name.topic, sources)
    if configs is not None and configs.remote and node.remote is not None:
        topic_id = read_topic_id(target.path / PARTITION_METADATA)
        ranges = node.remote.ranges(name.topic, name.partition, topic_id)
    marks = None if target.directory is None else target.directory.high_watermarks
    line = checkpoint_line(marks, name)
    others = node.copies(name.topic, name.partition)
    return SpaceTask(
        target.path,
        name,
        configs,
        high_watermark if line is None else line,
        log_start_line(target.directory, name),
        others is not None and not others.nodes,
        now_ms,
        _written_ms(target.directory, now_ms),
        None if node.remote is None else ranges[-1][1] if ranges else -1,
        listing,
        None if name.suffix or cleaners is None else cleaners.facts(target, name, sources),
    )


class _Cleaners:
    """The cleaners of nodes: their checkpoints, and the partitions that they leave to a move."""

    def __init__(self, context: Context) -> None:
        self._nodes = {facts.directory.path: group for group in context.siblings for facts in group}
        self._moving = {
            future.current for future in context.futures if future.fate is FutureFate.CONTINUES
        }

    def facts(self, target: Target, name: DirectoryName, sources: Sources) -> CleanerFacts | None:
        """Return what the cleaner goes by for a partition, None if it is not compacted.

        A broker reads the checkpoints of all its log directories as one.
        """
        configs = compaction_configs(name.topic, sources)
        if configs is None or target.directory is None:
            return None
        group = self._nodes.get(target.directory.directory.path, (target.directory,))
        reads = [facts.cleaner_offsets for facts in group if facts.cleaner_offsets is not None]
        lines = {checkpoint_line(read, name) for read in reads} - {None}
        return CleanerFacts(
            configs,
            min((line for line in lines if line is not None), default=None),
            known=len(lines) <= 1 and all(read.value is not None for read in reads),
            moving=target.path in self._moving,
        )


def _written_ms(facts: DirectoryFacts | None, now_ms: int) -> int:
    """Return the time up to which a broker has written to a log directory."""
    if facts is None or not facts.stopped or not facts.written_ms:
        return now_ms
    return min(facts.written_ms, now_ms)
