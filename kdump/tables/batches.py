"""Rows of the table of batches.

A row has the fields of a line of ``kdump dump --format json``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

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
from kdump.storage.walk import Damage
from kdump.tables.logs import Origin
from kdump.tables.schema import BATCHES

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
