"""The stream reader: ``spark.readStream.format("kdump")`` over sealed segments.

Each batch lists the paths again, so that brokers and partitions join, and each task the partitions
that it reads. Nothing is written but rows of corrupt ranges, where the options ask for them.

Spec: ``pyspark.sql.datasource.DataSourceStreamReader`` of Spark 4.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kdump.audit.run.gone_partitions import gone_partitions
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.listing import time_of
from kdump.audit.targets.scope import directories_of
from kdump.fleet.job.packing import pack_tasks
from kdump.fleet.source.admission import Backlog, ends_by_bytes, ends_by_offsets
from kdump.fleet.source.bad_records import BadRecords, shown_rows
from kdump.fleet.source.columns import record_names, record_rows
from kdump.fleet.source.offsets import first_wanted, log_tail, starting_offset, topic_partition
from kdump.fleet.source.options import Options, TopicPartition
from kdump.fleet.source.positions import (
    Key,
    Position,
    Positions,
    decode_positions,
    encode_positions,
)
from kdump.fleet.source.ranges import SealedRange, plan_ranges, read_range, report_loss
from kdump.fleet.source.sealed import (
    SealedCopy,
    SealedListing,
    copies_by_key,
    list_copies,
    next_copy,
    stable_end,
)
from kdump.storage.logdir import is_metadata_log
from kdump.storage.selection import Selection
from kdump.tables.absent import absent_ranges, within
from kdump.tables.corruption import MISSING, CorruptRange
from kdump.tables.logs import known_end, utf8
from kdump.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa


@frozen
class _Ranges(InputPartition):
    """The ranges that one task reads, or ranges that the driver knows to be unreadable."""

    ranges: tuple[SealedRange, ...]
    corrupt: tuple[CorruptRange, ...] = ()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads each record of sealed segments once, those of a partition in the order of offsets."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        #: What ``Trigger.AvailableNow`` reads.
        self._available: SealedListing | None = None
        self._said: set[Key] = set()
        #: Ranges that were found before a batch, whose rows are in the next one. None: not looked
        #: for yet.
        self._lost: tuple[CorruptRange, ...] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the position at which ``startingOffsets`` or timestamps start the stream."""
        listed, bad = list_copies(self._options, start=True), BadRecords(self._options)
        context = _context(listed)
        for name, target in listed.empty:
            absent = absent_ranges(target, context)
            first = first_wanted(name, target, self._options, absent)
            for each in () if first is None else within(absent, Selection(first_offset=first)):
                bad(each)
        bad.write()
        return encode_positions(starting_positions(listed.copies, context, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the bound of a batch that the options name."""
        if self._options.most_offsets is not None:
            return ReadMaxRows(self._options.most_offsets)
        if self._options.most_bytes is not None:
            return ReadMaxBytes(self._options.most_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read in this run of the query what is sealed now."""
        self._available = list_copies(self._options)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the position after the next batch."""
        listed = self._available or list_copies(self._options)
        before = decode_positions(start)
        by_key = copies_by_key(listed.copies, before)
        self._report_gone(before, by_key)
        if self._lost is None:
            self._lost = self._report_lost(listed, before, by_key)
        # Read for partitions that join alone: few batches have any.
        context = cache(partial(_context, listed))
        return encode_positions(next_positions(before, by_key, context, limit, self._options))

    def _report_gone(self, before: Positions, copies: Mapping[Key, Sequence[SealedCopy]]) -> None:
        """Report partitions of which no copy is left, each once."""
        bad = BadRecords(self._options)
        for key in before.keys() - copies.keys() - self._said:
            topic, _, number = key
            selected = self._options.subscription.selects((topic, number))
            if selected and self._options.selection.selects(Path(f"{topic}-{number}")):
                self._said.add(key)
                report_loss((topic, number), None, before[key].next, None, "no copy of it", bad)
        bad.write()

    def _report_lost(
        self, listed: SealedListing, before: Positions, copies: Mapping[Key, Sequence[SealedCopy]]
    ) -> tuple[CorruptRange, ...]:
        """Report what no batch can come to: partitions that are gone, and lost ends of logs.

        A stream goes on with the first offset of a partition that comes back, and does not pass the
        end of a log. Return the ranges that the next batch shows.
        """
        bad = BadRecords(self._options)
        known = {(topic, number) for topic, _, number in before}
        context = _context(listed)
        for each in gone_ranges(listed, known, self._options, context):
            bad(each)
        for key, same in copies.items():
            position = before[key].next if key in before else 0
            for each in lost_end(same, position, context):
                bad(each)
        bad.write()
        return bad.take_shown()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Distribute the offsets between two positions over tasks."""
        if start == end:
            return []
        bad = BadRecords(self._options)
        bad.prepare()
        before, after = decode_positions(start), decode_positions(end)
        listed = list_copies(self._options)
        by_key = copies_by_key(listed.copies, {**before, **after})
        ranges = plan_ranges(before, after, by_key, _context(listed), bad)
        bad.write()
        packs = pack_tasks([each.size for each in ranges], self._options.cores)
        tasks = [_Ranges(tuple(ranges[number] for number in pack)) for pack in packs]
        shown = _Ranges((), (*(self._lost or ()), *bad.take_shown()))
        self._lost = ()
        return [shown, *tasks] if shown.corrupt else tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one task."""
        assert isinstance(partition, _Ranges)
        kafka, strict = self._options.kafka, self._options.strict
        names = record_names(self._schema, kafka=kafka)
        yield from shown_rows(partition.corrupt, self._schema)
        for each in partition.ranges:
            bad = BadRecords(self._options)
            found = read_range(each, names, self._options, bad)
            yield from bad.rows(
                (record_rows(batch, self._schema, kafka=kafka, strict=strict) for batch in found),
                self._schema,
            )


def gone_ranges(
    listed: SealedListing,
    known: Collection[TopicPartition],
    options: Options,
    context: Context,
) -> Iterator[CorruptRange]:
    """Yield the offsets of selected partitions that are gone, from where the stream starts.

    The stream has positions of those that are ``known``.
    """
    for target in gone_partitions(listed.roots, context, options.selection):
        name = topic_partition(target)
        if name is not None and name not in known and options.subscription.selects(name):
            absent = absent_ranges(target, context)
            first = first_wanted(name, target, options, absent)
            yield from () if first is None else within(absent, Selection(first_offset=first))


def lost_end(
    copies: Sequence[SealedCopy], position: int, context: Context
) -> Iterator[CorruptRange]:
    """Yield the offsets from ``position`` on that the checkpoints have and no copy.

    Other files than checkpoints show the end of a metadata log.
    """
    if copies[0].target.partition is not None and is_metadata_log(copies[0].target.partition):
        copy = max(copies, key=lambda copy: log_tail(copy.target))
        first = max(position, log_tail(copy.target)[1])
        yield from within(absent_ranges(copy.target, context), Selection(first_offset=first))
        return
    end = max(known_end(copy.target) for copy in copies)
    if end <= max(copy.end for copy in copies):  # the active segment begins there or later
        return
    tails = {log_tail(copy.target)[1]: copy for copy in copies}
    first, copy = max(position, *tails), tails[max(tails)]
    if copy.target.stopped and first < end:
        detail = f"by its checkpoints the log ends at {end} or later"
        path, (topic, number) = utf8(str(copy.target.path)), copy.name
        yield CorruptRange(path, utf8(topic), number, None, None, first, end - 1, MISSING, detail)


def starting_positions(
    copies: Sequence[SealedCopy], context: Context, options: Options
) -> dict[Key, Position]:
    """Return the positions at which a stream starts to read partitions.

    A position may be that of records in remote storage: the batch that begins there reports them.
    With the mode FAILFAST they raise DecodeError here, before the checkpoint has a position. Raise
    UsageError.
    """
    found = {}
    bad = BadRecords(options)
    for key, same in copies_by_key(copies, ()).items():
        newest = max(same, key=lambda copy: log_tail(copy.target)) if same[1:] else same[0]
        absent = absent_ranges(newest.target, context)
        first = starting_offset(newest.name, newest.target, options, absent)
        found[key] = Position(first)
        if options.strict:
            last = min(copy.start for copy in same) - 1
            for each in within(absent, Selection(first_offset=first, last_offset=last)):
                bad(each)
    return found


def next_positions(
    before: Positions,
    copies: Mapping[Key, Sequence[SealedCopy]],
    context: Callable[[], Context],
    limit: ReadLimit,
    options: Options,
) -> dict[Key, Position]:
    """Return the positions after a batch that begins at ``before`` and keeps to ``limit``.

    A partition that joins begins with its first offset, which may be in remote storage.
    """
    backlogs = {}
    for key, same in copies.items():
        position = before[key].next if key in before else None
        if position is not None and all(copy.stable <= position for copy in same):
            continue
        copy = next_copy(same, position)
        first = copy.start if position is None else position
        end = stable_end(copy, max(first, copy.start), options)
        if end > first and position is None:
            absent = absent_ranges(copy.target, context())
            first = min([first, *(each.first_offset for each in absent)])
        if end > first:
            backlogs[key] = Backlog(copy, first, end)
    if isinstance(limit, ReadMaxRows):
        ends = ends_by_offsets(backlogs, limit.max_rows)
    elif isinstance(limit, ReadMaxBytes):
        ends = ends_by_bytes(backlogs, limit.max_bytes)
    else:
        ends = {key: backlog.end for key, backlog in backlogs.items()}
    after = dict(before)
    for key, end in ends.items():
        first = backlogs[key].first
        if key not in before:
            after[key] = Position(end, first) if end > first else Position(first)
        elif end > first:
            after[key] = Position(end)
    return after


def _context(listed: SealedListing) -> Context:
    """Return what the nodes of the listed paths know."""
    roots = listed.roots
    return read_context(directories_of(roots), None, time_of(roots, time.time_ns()))
