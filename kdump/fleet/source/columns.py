"""Records with the columns of Spark's Kafka source.

A record without a timestamp, of magic 0, has the timestamp -1 ms, as consumers get it. A timestamp
beyond the microseconds of Spark's type is null. A record without headers has null headers. The key
of a header is text: bytes that are not UTF-8 become U+FFFD.

Spec: ``KafkaRecordToRowConverter`` of ``spark-sql-kafka-0-10`` 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kdump.errors import DecodeError
from kdump.format.kernel import columns as _columns
from kdump.tables.corruption import CorruptRange

_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
#: The columns without headers.
KAFKA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
#: The columns with headers.
KAFKA_WITH_HEADERS: Final = KAFKA.append(pa.field("headers", _HEADERS))

#: The column that a schema may have for corrupt ranges, by Spark's name.
CORRUPT: Final = pa.field("_corrupt_record", pa.string())

#: The columns of the table of records that have other names.
_SOURCES: Final[Mapping[str, str]] = {"timestampType": "timestamp_type"}
#: The numbers of the types of timestamps (``TimestampType.id``).
_TYPES: Final = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_NO_TIMESTAMP: Final = -1
_MOST_MS: Final = (2**63 - 1) // 1000


def source_names(schema: pa.Schema) -> list[str]:
    """Return the columns of the table of records of which the columns of ``schema`` are made."""
    return [_SOURCES.get(name, name) for name in schema.names]


def record_names(schema: pa.Schema, *, kafka: bool) -> list[str]:
    """Return the columns of the table of records that are read for those of ``schema``."""
    names = source_names(schema) if kafka else schema.names
    return [name for name in names if name != CORRUPT.name] or ["offset"]


def record_rows(
    records: pa.RecordBatch, schema: pa.Schema, *, kafka: bool, strict: bool
) -> pa.RecordBatch:
    """Return records with the columns of ``schema``, which are Spark's for ``kafka``.

    Raise DecodeError as ``kafka_rows`` does.
    """
    if CORRUPT.name in schema.names:
        nulls = pa.nulls(records.num_rows, CORRUPT.type)
        records = records.append_column(CORRUPT, nulls)
    if kafka:
        return kafka_rows(records, schema, strict=strict)
    return records.select(schema.names).cast(schema)


def corrupt_rows(ranges: Sequence[CorruptRange], schema: pa.Schema) -> pa.RecordBatch | None:
    """Return a row for each range, None if ``schema`` has no column for it.

    Beside the range as JSON it has the topic, the partition and the first offset of the range, and
    the position in the file; all else is null.
    """
    if CORRUPT.name not in schema.names:
        return None
    rows = [
        {
            "topic": found.topic,
            "partition": found.partition,
            "offset": found.first_offset,
            "source_file": found.path,
            "position": found.position,
            CORRUPT.name: json.dumps(found.fields),
        }
        for found in ranges
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def kafka_rows(records: pa.RecordBatch, schema: pa.Schema, *, strict: bool) -> pa.RecordBatch:
    """Return records, with the columns of ``source_names``, with those of ``schema``.

    Raise DecodeError if a timestamp does not fit, and that is ``strict``.
    """
    columns = []
    for field in schema:
        column = records.column(_SOURCES.get(field.name, field.name))
        if field.name == "timestamp":
            column = _timestamps(column, records if strict else None)
        elif field.name == "timestampType":
            numbers = pa.array([_TYPES[word] for word in _columns.TIMESTAMP_TYPES], pa.int32())
            column = numbers.take(pc.index_in(column, pa.array(_columns.TIMESTAMP_TYPES)))
        elif field.name == "headers":
            column = _headers(column)
        columns.append(column)
    return pa.record_batch(columns, schema=schema)


def _timestamps(milliseconds: pa.Array, strict: pa.RecordBatch | None) -> pa.Array:
    """Return the timestamps; raise DecodeError for one that does not fit in the rows ``strict``."""
    known = pc.fill_null(milliseconds, _NO_TIMESTAMP)
    beyond = pc.or_(pc.less(known, -_MOST_MS), pc.greater(known, _MOST_MS))
    if pc.any(beyond).as_py():
        if strict is not None:
            row = strict.filter(beyond).slice(0, 1).to_pylist()[0]
            where = ", ".join(
                f"{name} {row[name]}" for name in ("topic", "partition", "offset") if name in row
            )
            raise DecodeError(
                f"expected a timestamp up to {_MOST_MS} ms, found {row['timestamp']} ms "
                f"({where or 'a record'}); with the option mode PERMISSIVE or DROPMALFORMED such a "
                "timestamp is null"
            )
        known = pc.if_else(beyond, None, known)
    return pc.multiply(known, 1000).cast(pa.timestamp("us")).cast(KAFKA.field("timestamp").type)


def _headers(lists: pa.Array) -> pa.Array:
    pairs = lists.values
    keys, values = _text(pairs.field("key")), pairs.field("value")
    structs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADERS.value_type))
    empty = pc.equal(pc.list_value_length(lists), 0)
    return pa.ListArray.from_arrays(lists.offsets, structs, type=_HEADERS, mask=empty)


def _text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [key.as_py().decode("utf-8", "replace") for key in keys]
        return pa.array(texts, pa.string())
