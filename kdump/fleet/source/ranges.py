"""Ranges of sealed offsets: their plan from two positions of a stream, and their read in a task.

Retention, compaction and a broker that moves a partition change directories during a read: a file
that is gone leads to another listing, and the read goes on at the same offset. What no listing has
any more is lost: that fails, or is reported and passed over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, log_bytes
from kdump.errors import DecodeError, SourceError, VanishedError
from kdump.fleet.source.bad_records import BadRecords
from kdump.fleet.source.committed import WITHOUT_MARKERS, committed_until
from kdump.fleet.source.offsets import PartitionLogs, is_gone
from kdump.fleet.source.options import Options, TopicPartition
from kdump.fleet.source.positions import Key, Positions
from kdump.fleet.source.sealed import SealedCopy, newest, sealed_logs
from kdump.storage.logdir import list_partition
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from kdump.tables.absent import absent_ranges, within
from kdump.tables.corruption import VANISHED, CorruptRange, OnCorruption
from kdump.tables.logs import check_listing, swaps, utf8
from kdump.tables.selected import Keep
from kdump.tables.tables import record_batches
from kdump.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa

#: A broker that swaps compacted segments takes less than a second for it.
_LISTINGS: Final = 5
_WAIT_S: Final = 0.5


@frozen
class SealedRange:
    """The offsets of a partition from ``first`` to before ``end``, in the copy at ``path``.

    ``size`` is that of the segments with these offsets, in bytes. ``compacted`` and ``coordinator``
    are as for ``PartitionLogs``.
    """

    path: AnyPath
    name: TopicPartition
    first: int
    end: int
    size: int
    compacted: bool | None
    coordinator: Coordinator | None


def plan_ranges(
    start: Positions,
    end: Positions,
    copies: Mapping[Key, Sequence[SealedCopy]],
    context: Context,
    bad: BadRecords,
) -> list[SealedRange]:
    """Return the ranges between two positions, by topic and partition.

    ``bad`` gets offsets that no copy has. Raise SourceError if they are gone, unless the options
    allow that.
    """
    found = []
    for key, position in sorted(end.items(), key=lambda pair: pair[0]):
        before = start.get(key)
        low = position.first if before is None else before.next
        if low is None or low >= position.next:
            continue
        topic, _, number = key
        copy = _covering(copies.get(key, ()), low, position.next)
        if copy is None:
            report_loss((topic, number), None, low, position.next, "no copy of it", bad)
            continue
        first = min(max(low, copy.start), position.next)
        last = max(min(position.next, copy.end), first)
        for lost, until in ((low, first), (last, position.next)):
            if lost < until:
                _report_absent(copy, lost, until, context, bad)
        if first < last:
            found.append(_range(copy, first, last, context))
    return found


def _covering(copies: Sequence[SealedCopy], first: int, end: int) -> SealedCopy | None:
    """Return a copy with all offsets of a range, or else the one with the most of them."""
    whole = [copy for copy in copies if copy.start <= first and copy.end >= end]
    if whole:
        return newest(whole)
    return max(copies, key=lambda copy: min(end, copy.end) - max(first, copy.start), default=None)


def _range(copy: SealedCopy, first: int, end: int, context: Context) -> SealedRange:
    size = sum(map(log_bytes, copy.segments(first, end)))
    compacted = context.settings(copy.target).compacted
    coordinator = context.node(copy.target).coordinator
    return SealedRange(copy.target.path, copy.name, first, end, size, compacted, coordinator)


def _report_absent(
    copy: SealedCopy, first: int, end: int, context: Context, bad: BadRecords
) -> None:
    """Report offsets that a copy does not have: in remote storage, or gone."""
    held = f"offsets {copy.start} to {copy.end - 1} in sealed segments"
    wanted = Selection(first_offset=first, last_offset=end - 1)
    position = first
    for found in within(absent_ranges(copy.target, context), wanted):
        if position < found.first_offset:
            report_loss(copy.name, copy.target.path, position, found.first_offset, held, bad)
        bad(found)
        position = end if found.last_offset is None else found.last_offset + 1
    if position < end:
        report_loss(copy.name, copy.target.path, position, end, held, bad)


def report_loss(
    name: TopicPartition,
    path: AnyPath | None,
    first: int,
    end: int | None,
    found: str,
    bad: BadRecords,
) -> None:
    """Raise SourceError for offsets that were not read and are gone, or pass over them.

    ``path`` is None if no directory of the partition is left, ``end`` if it is unknown whether
    there were any.
    """
    topic, number = name
    if not bad.lenient:
        where = f"{topic}-{number}" if path is None else path
        offsets = f"offset {first} and later" if end is None else f"offsets {first} to {end - 1}"
        raise SourceError(
            str(where),
            f"{where}: expected {offsets}, not read so far, found {found}; with "
            "failOnDataLoss=false they are passed over",
        )
    text = None if path is None else utf8(str(path))
    last = None if end is None else end - 1
    bad.pass_over(
        CorruptRange(text, utf8(topic), number, None, None, first, last, VANISHED, f"found {found}")
    )


def read_range(
    wanted: SealedRange, names: Sequence[str], options: Options, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``names`` of the records of a range, in order.

    ``bad`` gets the ranges that cannot be read. Raise SourceError for what the system does not
    read, and for offsets that are gone, unless the options allow that.
    """
    position, attempts = wanted.first, 0
    while position < wanted.end:
        target = _listed(wanted, position, bad)
        if target is None:
            return
        if attempts + 1 < _LISTINGS and swaps(target):
            attempts += 1
            time.sleep(_WAIT_S)
            continue
        start, active = target.segments[0].base_offset, target.segments[-1].base_offset
        if active < wanted.end:
            found = f"the active segment at offset {active}"
            first = max(position, active)
            report_loss(wanted.name, wanted.path, first, wanted.end, found, bad)
            wanted = replace(wanted, end=active)
            continue
        if position < start:
            lost = min(start, wanted.end)
            found = f"a log from offset {start} on"
            report_loss(wanted.name, wanted.path, position, lost, found, bad)
            position = start
            continue
        at = position
        try:
            for reached, batch in _read_logs(wanted, target, at, names, options, bad):
                position = reached
                if batch is not None:
                    yield batch
        except VanishedError:
            attempts = 1 if position > at else attempts + 1
            if attempts == _LISTINGS:
                raise
            time.sleep(_WAIT_S)


def _listed(wanted: SealedRange, position: int, bad: BadRecords) -> Target | None:
    """Return the present listing of a partition, None if it is gone and that is allowed."""
    found = list_partition(wanted.path)
    if isinstance(found, SourceError) and not (
        isinstance(found, VanishedError) and is_gone(wanted.path)
    ):
        raise found
    if isinstance(found, SourceError) or not found.segments:
        report_loss(wanted.name, wanted.path, position, wanted.end, "no log", bad)
        return None
    listed = Target(wanted.path, found.segments, None, stopped=False, size=0, partition=found)
    check_listing(listed)
    return listed


def _read_logs(
    wanted: SealedRange,
    target: Target,
    first: int,
    names: Sequence[str],
    options: Options,
    corrupt: OnCorruption,
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Yield the batches of the logs of a listing, and after each log the offset that is next.

    Raise VanishedError for a log that is gone, before any of its batches.
    """
    keep = _committed(wanted, target, first, options, corrupt)
    selection = Selection(first_offset=first, last_offset=wanted.end - 1)
    logs = sealed_logs(target, selection, compacted=wanted.compacted)
    following = [*(log.base_offset for log in logs[1:]), wanted.end]
    position = first
    for log, after in zip(logs, following, strict=False):
        begun = False
        try:
            for batch in record_batches([log], names, corrupt, keep=keep):
                begun = True
                yield position, batch
        except VanishedError as error:
            if begun:  # these rows are there: only the whole task can be repeated
                raise SourceError(error.path, str(error)) from error
            raise
        position = after
        yield position, None
    yield wanted.end, None


def _committed(
    wanted: SealedRange, target: Target, first: int, options: Options, corrupt: OnCorruption
) -> Keep | None:
    """Return the filter for the batches of a range, None for all."""
    if not options.committed:
        return WITHOUT_MARKERS.batches if options.kafka else None
    evidence = sealed_logs(target, Selection(first_offset=first))
    logs = PartitionLogs((), evidence, wanted.name, wanted.compacted, wanted.coordinator)
    active = target.segments[-1].base_offset
    found = committed_until(logs, wanted.end, following=active, corrupt=corrupt)
    if found.end < wanted.end:
        raise DecodeError(
            f"{wanted.path}: expected the marker of the transaction from offset {found.end} on in "
            f"the segments before offset {active}, found none"
        )
    return found.batches
