"""The segments that may go: up to an offset or a time, by retention, or to free bytes.

They go from the oldest on, and never past the high watermark or the active segment, as
``DeleteRecords`` and retention do. The first segment that does not qualify keeps all later ones.

Spec: ``UnifiedLog.deleteOldSegments``, ``ReplicaManager.deleteRecords``,
``UnifiedLog.maybeIncrementLogStartOffset``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile

from kdump.audit.facts.retention import Hold, RetentionConfigs
from kdump.audit.sizes.measure import OldSegment, PartitionSpace, aged
from kdump.storage.names import CLUSTER_METADATA_TOPIC

#: Chooses the segments of each partition that go, from the oldest on.
Choose = Callable[[Sequence[PartitionSpace]], list[Sequence[OldSegment]]]


def why_kept(found: PartitionSpace) -> str | None:
    """Return why no segment of a partition may go, None if its old segments may."""
    name, configs = found.name, found.configs
    if name is None or name.suffix:
        return "no broker serves a directory of this name"
    if name.topic == CLUSTER_METADATA_TOPIC:
        return "the metadata log of the cluster: its snapshots decide what goes"
    if name.topic.startswith("__"):
        return "a topic of Kafka itself"
    if configs is None:
        return "no whole metadata log in sight has its cleanup.policy"
    if not configs.delete:
        return _without_deletion(configs)
    if configs.policy_guessed:
        return "its cleanup.policy is the broker's: give its server.properties with --config"
    if configs.copy_disabled:
        return "its log begins in remote storage, to which nothing is copied any more"
    return None if _free_to_go(found) else _why_none(found)


def _why_none(found: PartitionSpace) -> str:
    """Return why a deletion reaches no segment."""
    hold = None if found.due is None else found.due.hold
    if found.segments <= 1:
        return "it has no segment but the active one"
    if hold is Hold.CLEANER_OFF:
        return "compacted, and log.cleaner.enable is off: no broker deletes of it"
    if hold is Hold.NOT_COPIED:
        return "its oldest segment is not copied to remote storage"
    if found.reach is None:
        return "no checkpoint has its high watermark"
    if hold is Hold.UNKNOWN:
        return "what of it is in remote storage is unknown"
    return "its high watermark is in its oldest segment"


def _without_deletion(configs: RetentionConfigs) -> str:
    if configs.compact:
        return "compacted: its old segments hold the newest values of keys"
    return "its cleanup.policy deletes nothing"


def _free_to_go(found: PartitionSpace) -> Sequence[OldSegment]:
    """Return the segments that a deletion may reach: not the active one."""
    return found.old[: max(found.segments - 1, 0)]


def before_offset(offset: int) -> Choose:
    """Return a choice of the segments all of whose offsets are below ``offset``."""
    return _leading(lambda _, segment: segment.end_offset <= offset)


def before_time(time_ms: int) -> Choose:
    """Return a choice of the segments all of whose records are older, as retention compares."""
    return _leading(
        lambda _, segment: segment.largest_ms is not None and segment.largest_ms < time_ms
    )


def by_retention() -> Choose:
    """Return a choice of the segments that a broker would delete at its first check.

    None of a partition whose limits are unknown.
    """
    return _leading(_is_due)


def _is_due(found: PartitionSpace, segment: OldSegment) -> bool:
    guessed = found.configs is None or found.configs.limits_guessed
    return not guessed and found.due is not None and segment.end_offset <= found.due.before


def _leading(goes: Callable[[PartitionSpace, OldSegment], bool]) -> Choose:
    def choose(partitions: Sequence[PartitionSpace]) -> list[Sequence[OldSegment]]:
        return [tuple(takewhile(partial(goes, found), _free_to_go(found))) for found in partitions]

    return choose


def freeing(wanted_bytes: int, latest_ms: int) -> Choose:
    """Return a choice that frees ``wanted_bytes`` or more: the oldest records of all partitions.

    None is younger than ``latest_ms``. It frees less if no more are old enough. In each log, a
    segment whose files have other hard links frees nothing, and keeps all later ones.
    """

    def choose(partitions: Sequence[PartitionSpace]) -> list[Sequence[OldSegment]]:
        ages = sorted(
            (time_ms, number, segment.base_offset, segment.bytes)
            for number, found in enumerate(partitions)
            for time_ms, segment in takewhile(lambda old: old[1].bytes, aged(_free_to_go(found)))
        )
        left, gone = wanted_bytes, [0] * len(partitions)
        for time_ms, number, _, size in ages:
            if left <= 0 or time_ms > latest_ms:
                break
            left -= size
            gone[number] += 1
        return [found.old[:count] for found, count in zip(partitions, gone, strict=True)]

    return choose
