"""Offsets of a partition that no log of its directory has.

They are in remote storage only, their segments are gone, the whole directory is, or a future log is
in its place.

Spec: ``UnifiedLog`` with remote storage (KIP-405): consumers get offsets from the log start offset
on, and a broker fetches from remote storage those below its first segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kdump.audit.facts.remote_storage import OffsetRanges, remote_offsets
from kdump.audit.facts.small_files import log_start_line, read_topic_id
from kdump.audit.run.gone_partitions import futures_alone
from kdump.audit.run.lost_segments import lost_segments
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.storage.logdir import directory_name
from kdump.storage.names import PARTITION_METADATA
from kdump.storage.paths import AnyPath, exists
from kdump.storage.selection import HIGHEST, Selection
from kdump.tables.corruption import FUTURE, MISSING, NO_PARTITION, REMOTE, CorruptRange
from kdump.tables.logs import known_end, swaps, utf8

_Absent = tuple[int, int | None, str, str]
"""The first and the last offset, the reason, and what was found."""


def absent_ranges(target: Target, context: Context) -> list[CorruptRange]:
    """Return the offsets of a listed partition that are not here, ascending.

    Of a partition that is gone, the last offset may be unknown. Nothing is known to be absent of a
    lone segment, of a directory that a broker does not serve, and of a partition whose settings are
    unknown and that no log of remote storage names. Offsets after the last log are not among them.
    """
    partition = target.partition
    name = None if partition is None else partition.name
    if name is None or name.suffix:
        return []
    log_start = log_start_line(target.directory, name)
    bases = [*(segment.base_offset for segment in target.segments[:1]), *swaps(target)]
    local_start = min(bases, default=None)
    here = "no log" if local_start is None else f"a log from offset {local_start} on"
    found: list[_Absent] = [
        (first, last, REMOTE, f"here is {here}")
        for first, last in _remote_ranges(target, context, log_start, local_start)
    ]
    start = max([log_start or 0, *(last + 1 for _, last, _, _ in found if last is not None)])
    found += _lost(target, context, start)
    path, topic = utf8(str(target.path)), utf8(name.topic)
    return [
        CorruptRange(
            None if reason in (NO_PARTITION, FUTURE) else path,
            topic,
            name.partition,
            None,
            None,
            first,
            last,
            reason,
            detail,
        )
        for first, last, reason, detail in sorted(found, key=lambda each: each[0])
    ]


def within(absent: Iterable[CorruptRange], wanted: Selection) -> Iterator[CorruptRange]:
    """Yield the parts of ranges that have wanted offsets. An unknown end stays unknown."""
    for found in absent:
        first = max(found.first_offset, wanted.first_offset)
        last = min(HIGHEST if found.last_offset is None else found.last_offset, wanted.last_offset)
        if first <= last:
            yield replace(found, first_offset=first, last_offset=None if last == HIGHEST else last)


def _lost(target: Target, context: Context, start: int) -> Iterator[_Absent]:
    """Yield what is neither here nor in remote storage, from ``start`` on."""
    end, directory = known_end(target), target.directory
    if directory is not None and target.stopped and not exists(target.path):
        last = end - 1 if start < end else None
        where = utf8(str(directory.directory.path))
        futures = (future.path for future in futures_alone(context))
        path = next((path for path in futures if _is_future_of(target, path)), None)
        if path is not None:
            detail = f"{utf8(str(path))}, before a startup of the broker decides over it"
            yield start, last, FUTURE, detail
            return
        detail = f"no directory in {where}, where the cluster's metadata or a checkpoint has it"
        yield start, last, NO_PARTITION, detail
        return
    lost = [*lost_segments(target, context)]
    for finding, first, last in lost:
        if last >= start:
            reason = finding.code.name if target.segments else MISSING
            yield max(first, start), last, reason, str(finding.detail)
    if not lost and not target.segments and not swaps(target) and start < end:
        yield start, end - 1, MISSING, f"no log, though by its checkpoints it ends at {end}"


def _is_future_of(target: Target, path: AnyPath) -> bool:
    """Return whether ``path`` is a future log, beside where ``target`` should be, of the same."""
    name, own = directory_name(path), directory_name(target.path)
    if name is None or own is None or path.parent != target.path.parent:
        return False
    return (name.topic, name.partition) == (own.topic, own.partition)


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
