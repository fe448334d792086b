"""Offsets of a partition that no log of its directory has.

They are in remote storage only, or the directory has no log although the high watermark of the
checkpoint is above the log start offset.

Spec: ``UnifiedLog`` with remote storage (KIP-405): consumers get offsets from the log start offset
on, and a broker fetches from remote storage those below its first segment.
"""

from __future__ import annotations

from kdump.audit.facts.remote_storage import OffsetRanges, remote_offsets
from kdump.audit.facts.small_files import log_start_line, read_topic_id
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.storage.names import PARTITION_METADATA
from kdump.tables.corruption import MISSING, REMOTE, CorruptRange
from kdump.tables.logs import replicated, swaps, utf8


def absent_ranges(target: Target, context: Context) -> list[CorruptRange]:
    """Return the offsets of a listed partition that are not here, ascending.

    The last offset of each range is known. Nothing is known to be absent of a lone segment, of a
    directory that a broker does not serve, and of a partition whose settings are unknown and that
    no log of remote storage names.
    """
    partition = target.partition
    name = None if partition is None else partition.name
    if name is None or name.suffix:
        return []
    log_start = log_start_line(target.directory, name)
    bases = [*(segment.base_offset for segment in target.segments[:1]), *swaps(target)]
    local_start = min(bases, default=None)
    here = "no log" if local_start is None else f"a log from offset {local_start} on"
    found = [
        (first, last, REMOTE, f"here is {here}")
        for first, last in _remote_ranges(target, context, log_start, local_start)
    ]
    end = replicated(target)
    start = max([log_start or 0, *(last + 1 for _, last, _, _ in found)])
    if local_start is None and start < end:
        found.append((start, end - 1, MISSING, f"no log, and the high watermark is {end}"))
    path, topic = utf8(str(target.path)), utf8(name.topic)
    return [
        CorruptRange(path, topic, name.partition, None, None, first, last, reason, detail)
        for first, last, reason, detail in found
    ]


def _remote_ranges(
    target: Target, context: Context, log_start: int | None, local_start: int | None
) -> OffsetRanges:
    is_remote, remote = context.settings(target).remote_storage, context.node(target).remote
    name = None if target.partition is None else target.partition.name
    if name is None or is_remote is False or (is_remote is None and remote is None):
        return ()
    topic_id = read_topic_id(target.path / PARTITION_METADATA)
    if is_remote is None and not (
        remote is not None and remote.ranges(name.topic, name.partition, topic_id)
    ):
        return ()
    return remote_offsets(remote, name, topic_id, log_start, local_start)
