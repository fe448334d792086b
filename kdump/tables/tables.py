"""Reads logs, and yields the tables of records, batches and findings as Arrow batches.

The table of records leaves out what cannot be read, and reports each such range to the caller, who
raises an error or goes on. The table of batches has a row for damage. What the system does not read
is an error in both: SourceError. The table of findings has rows for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kdump.audit.run.verify import verify
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.errors import DecodeError, VanishedError
from kdump.format.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchTable,
)
from kdump.format.kernel import columns as _columns
from kdump.format.lines.forms import codec_label
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import directory_name
from kdump.storage.names import DirectoryName
from kdump.storage.walk import Damage, walk
from kdump.tables.corruption import OnCorruption
from kdump.tables.findings import finding_rows
from kdump.tables.logs import Log, Origin
from kdump.tables.records import RecordColumns
from kdump.tables.schema import BATCHES
from kdump.tables.selected import Keep, SelectedRecords

OnVanished = Callable[[Log, int, VanishedError], None]
"""Is called with a log that is gone, and with its first offset that was not read."""


def _raise(_log: Log, _offset: int, error: VanishedError) -> None:
    raise error


def record_batches(
    logs: Iterable[Log],
    names: Sequence[str],
    corrupt: OnCorruption,
    *,
    keep: Keep | None = None,
    gone: OnVanished = _raise,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``names`` of the table ``RECORDS``, of the batches that ``keep`` returns.

    ``corrupt`` is called with each range that cannot be read, and ``gone`` with a log that is no
    longer there or became shorter; a log is passed over from there on if ``gone`` returns. Raise
    SourceError.
    """
    columns, reader = RecordColumns(names), RecordReader()
    for log in logs:
        columns.start(log.origin)
        next_offset = log.base_offset
        try:
            with open_source(log.path, mapped=False, sealed=log.sealed) as source:
                selected = SelectedRecords(log, source, corrupt)
                for run in selected.runs(reader, keep, log.selection.last_offset):
                    next_offset = run.batches[len(run.batches) - 1].last_offset + 1
                    if (batch := columns.add(run)) is not None:
                        yield batch
        except VanishedError as error:
            gone(log, next_offset, error)
    if (last := columns.finish()) is not None:
        yield last


def batch_tables(logs: Iterable[Log], *, strict: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the table ``BATCHES``. Raise SourceError, and DecodeError for damage if ``strict``."""
    for log in logs:
        origin = log.origin
        with open_source(log.path, mapped=False, sealed=log.sealed) as source:
            for piece in walk(source, log.base_offset):
                if isinstance(piece, Damage):
                    if strict:
                        _check_damage(log, piece)
                    yield damage_row(piece, origin)
                else:
                    yield batch_rows(piece, origin)


def finding_batches(
    targets: Sequence[Target], context: Context, *, deep: bool, jobs: int
) -> Iterator[pa.RecordBatch]:
    """Verify ``targets`` with ``jobs`` workers, and yield the table ``FINDINGS``."""
    verdicts = verify(
        targets,
        deep=deep,
        jobs=jobs,
        context=context,
        conclude=lambda verdict: verdict.without_evidence(segments=False),
    )
    with closing(verdicts):
        for verdict in verdicts:
            if verdict.findings:
                yield finding_rows(verdict.findings, _partition(verdict.target))


def _partition(target: Target) -> DirectoryName | None:
    return directory_name(target.path if target.path.suffix != ".log" else target.path.parent)


def _check_damage(log: Log, damage: Damage) -> None:
    if not damage.empty:  # unused space for later batches
        raise DecodeError(
            f"{log.path}: expected sound batches alone, found {damage.reason.value} at position "
            f"{damage.position}, {damage.size} bytes"
        )


# --- Rows of the table of batches.
# A row has the fields of a line of kdump dump --format json.


_CODECS: Final = [codec_label(number) for number in range(CODEC_MASK + 1)]


def batch_rows(table: BatchTable, origin: Origin) -> pa.RecordBatch:
    """Return the rows of the batches in ``table``; fields that old formats lack are null."""

    def column(name: str) -> pa.Array:
        data = pa.py_buffer(table.column(name).tobytes())
        return pa.Array.from_buffers(pa.int64(), len(table), [None, data])

    def unless(condition: pa.Array, values: pa.Array) -> pa.Array:
        return pc.if_else(condition, None, values)

    def bits(mask: int) -> pa.Array:
        return pc.not_equal(pc.bit_wise_and(attributes, mask), 0)

    attributes, magic = column("attributes"), column("magic")
    modern = pc.greater(magic, 1)
    codec = pc.bit_wise_and(attributes, CODEC_MASK)
    wrapper = pc.and_not(pc.not_equal(codec, 0), modern)
    untimed = pc.equal(magic, 0)
    base_sequence, base_timestamp = column("base_sequence"), column("base_timestamp")
    spans = pc.subtract(column("last_offset"), column("base_offset"))
    last_sequence = pc.bit_wise_and(pc.add(base_sequence, spans), 2**31 - 1)
    kinds = pc.if_else(untimed, 0, pc.if_else(bits(LOG_APPEND_TIME), 2, 1))
    values = {
        **{name: column(name) for name in ("position", "size", "last_offset", "crc")},
        **{name: column(name) for name in ("leader_epoch", "producer_id", "producer_epoch")},
        "base_offset": unless(wrapper, column("base_offset")),
        "count": unless(wrapper, column("count")),
        "magic": magic,
        "attributes": attributes,
        "codec": pa.array(_CODECS).take(codec),
        "timestamp_type": pa.array(_columns.TIMESTAMP_TYPES).take(kinds),
        "base_timestamp": unless(untimed, base_timestamp),
        "max_timestamp": unless(untimed, column("max_timestamp")),
        "base_sequence": base_sequence,
        "last_sequence": pc.if_else(pc.less(base_sequence, 0), -1, last_sequence),
        "transactional": pc.and_(modern, bits(TRANSACTIONAL)),
        "control": pc.and_(modern, bits(CONTROL)),
        "delete_horizon_ms": pc.if_else(
            pc.and_(modern, bits(DELETE_HORIZON)), base_timestamp, None
        ),
    }
    return _rows(len(table), values, origin)


def damage_row(damage: Damage, origin: Origin) -> pa.RecordBatch:
    """Return the row of bytes that are not a sound batch."""
    values = {
        "position": pa.array([damage.position]),
        "size": pa.array([damage.size]),
        "damage": pa.array([damage.reason.value]),
    }
    return _rows(1, values, origin)


def _rows(count: int, values: dict[str, pa.Array], origin: Origin) -> pa.RecordBatch:
    """Return ``count`` rows with the columns ``values``; all other columns are null."""
    values["topic"] = pa.repeat(pa.scalar(origin.topic, pa.string()), count)
    values["partition"] = pa.repeat(pa.scalar(origin.partition, pa.int32()), count)
    values["source_file"] = pa.repeat(pa.scalar(origin.source_file, pa.string()), count)
    columns = [
        values[field.name].cast(field.type) if field.name in values else pa.nulls(count, field.type)
        for field in BATCHES
    ]
    return pa.record_batch(columns, schema=BATCHES)
