"""Shorter retention that frees a number of bytes: the oldest records of all topics first.

The same time bounds all topics, so that none loses records that are younger than those of another.
Topics that are compacted, or copied to remote storage, and internal topics keep what they have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kdump.audit.commands import Remedy, retention_command
from kdump.audit.facts.cluster import Configs
from kdump.audit.sizes.measure import PartitionSpace, aged
from kdump.values import frozen

#: Records that are younger than that are not deleted.
LEAST_MS: Final = 3_600_000
_NUMBER: Final = re.compile(r"-1|\d{1,19}", re.ASCII)


@frozen
class ShorterRetention:
    """The retention of a topic that frees ``bytes`` with ``offsets`` in ``segments``.

    ``command`` sets it, and ``restore`` brings back what the topic has now.
    """

    topic: str
    retention_ms: int
    bytes: int
    segments: int
    offsets: int
    command: Remedy
    restore: Remedy


@dataclass(slots=True)
class _Freed:
    bytes: int = 0
    segments: int = 0
    offsets: int = 0


def shorter_retention(
    partitions: Iterable[PartitionSpace],
    configs: Mapping[str, Configs],
    wanted_bytes: int,
    now_ms: int,
) -> tuple[ShorterRetention, ...]:
    """Return the retention of topics, the largest gain first, that frees ``wanted_bytes`` or more.

    It frees less if no more is old enough. ``configs`` are the topics' own.
    """
    ages = sorted(
        (time_ms, segment.bytes, segment.offsets, found.name.topic)
        for found in partitions
        if found.name is not None and may_be_shorter(found)
        for time_ms, segment in aged(found.old[0 if found.due is None else found.due.count :])
        if time_ms <= now_ms - LEAST_MS
    )
    freed: dict[str, _Freed] = defaultdict(_Freed)
    left, latest = wanted_bytes, None
    for time_ms, size, offsets, topic in ages:
        # Segments of the same time go together.
        if left <= 0 and time_ms != latest:
            break
        of_topic = freed[topic]
        of_topic.bytes += size
        of_topic.segments += 1
        of_topic.offsets += offsets
        left, latest = left - size, time_ms
    if latest is None:
        return ()
    retention_ms = now_ms - latest - 1
    result = []
    for topic, gain in sorted(freed.items(), key=lambda pair: -pair[1].bytes):
        own = configs.get(topic, {}).get("retention.ms", "").strip()
        before = int(own) if _NUMBER.fullmatch(own) else None
        result.append(
            ShorterRetention(
                topic,
                retention_ms,
                gain.bytes,
                gain.segments,
                gain.offsets,
                retention_command(topic, retention_ms),
                retention_command(topic, before),
            )
        )
    return tuple(result)


def may_be_shorter(found: PartitionSpace) -> bool:
    """Return whether retention by time of a topic may be shortened to free space."""
    configs, name = found.configs, found.name
    if configs is None or name is None or name.topic.startswith("__"):
        return False
    return configs.delete and not configs.compact and not configs.remote
