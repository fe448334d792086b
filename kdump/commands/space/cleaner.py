"""The cleaner of each node: the partition that it takes next, and whether it stands still.

Spec: ``LogCleanerManager.grabFilthiestCompactedLog``: of the logs of all directories of a node, the
one with the highest dirty ratio comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from kdump.audit.facts.compaction import CleanableLog, Wait
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.targets.context import Context
from kdump.storage.liveness import BrokerState
from kdump.storage.names import DirectoryName
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: A cleaner that has something to clean begins within ``log.cleaner.backoff.ms``, 15 s by default.
#: One that has ended nothing for this time may be at a large log.
_STILL_MS: Final = 3_600_000


@frozen
class CompactedPartition:
    """A partition of a compacted topic, with the bytes of its logs.

    ``log`` is what the cleaner makes of it, None if that is unknown. ``unfinished`` says that it
    has ``.cleaned`` files.
    """

    path: AnyPath
    name: DirectoryName
    log_bytes: int
    log: CleanableLog | None
    unfinished: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether the cleaner takes it in its turn."""
        return self.log is not None and self.log.wait is Wait.READY


@frozen
class CleanerTurn:
    """The cleaner of a node.

    ``first`` are the partitions with the highest dirty ratio of those that are ready: it takes one
    of them next; the one that is ready for longest comes first. ``busy`` are those that a running
    broker is cleaning. ``idle_ms`` is the time since when it could have taken the first one, None
    unless that is long ago, and ``written_ms`` when its checkpoint was last written, as after each
    cleaning, 0 without one.
    """

    running: bool
    first: tuple[CompactedPartition, ...]
    busy: tuple[CompactedPartition, ...]
    idle_ms: int | None
    written_ms: int


def cleaner_turns(
    partitions: Iterable[CompactedPartition],
    directories: Sequence[DirectoryFacts],
    context: Context,
) -> tuple[CleanerTurn, ...]:
    """Return the cleaners that have something to clean, of the nodes of ``directories``."""
    by_directory: dict[AnyPath, list[CompactedPartition]] = defaultdict(list)
    for partition in partitions:
        by_directory[partition.path.parent].append(partition)
    known = {facts.directory.path: facts for facts in directories}
    groups = [[facts for facts in group if facts.directory.path in known]
              for group in context.siblings]  # fmt: skip
    found = []
    for group in groups:
        own = [each for facts in group for each in by_directory.get(facts.directory.path, ())]
        turn = _turn(own, group, context.now_ms)
        if turn.first or turn.busy:
            found.append(turn)
    return tuple(found)


def _turn(
    partitions: Sequence[CompactedPartition], group: Sequence[DirectoryFacts], now_ms: int
) -> CleanerTurn:
    running = any(facts.liveness.state is BrokerState.LIVE for facts in group)
    busy = tuple(each for each in partitions if running and each.unfinished)
    ready = [(each.log.ratio, each) for each in partitions
             if each.is_ready and each.log is not None and each not in busy]  # fmt: skip
    highest = max((ratio for ratio, _ in ready), default=0)
    highest_first = [each for ratio, each in ready if ratio == highest]
    first = tuple(sorted(highest_first, key=lambda each: _ready_ms(each, now_ms)))
    since_ms = _ready_ms(first[0], now_ms) if first else now_ms
    idle = running and not busy and since_ms < now_ms - _STILL_MS
    return CleanerTurn(running, first, busy, since_ms if idle else None, _written_ms(group))


def _ready_ms(partition: CompactedPartition, now_ms: int) -> int:
    """Return since when a partition is ready, at the latest."""
    ready_ms = None if partition.log is None else partition.log.ready_ms
    return now_ms if ready_ms is None else ready_ms


def _written_ms(group: Iterable[DirectoryFacts]) -> int:
    """Return when a cleaner last wrote a checkpoint of these directories, 0 without one."""
    times = [0]
    for facts in group:
        if facts.cleaner_offsets is not None:
            try:
                times.append(facts.cleaner_offsets.path.stat().st_mtime_ns // 1_000_000)
            except OSError:
                continue
    return max(times)
