"""The columns of the tables, in Arrow and in Spark.

A timestamp is a number of milliseconds. A log may hold any 64-bit value, and Spark's own type
counts microseconds, so that large values would overflow. Bytes that are text only by convention,
such as the keys of headers, are binary. ``topic`` and ``partition`` are null for a file outside a
partition directory, and ``timestamp`` is null in magic 0.

The names are those of the JSON Lines of ``dump``, ``verify`` and ``compare``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa


def list_of(of: pa.DataType) -> pa.DataType:
    """Return the type of lists, with the name that Spark gives to elements."""
    return pa.list_(pa.field("element", of))


_HEADERS: Final = list_of(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_HELD: Final = pa.struct(
    [("copy", pa.int32()), ("first_offset", pa.int64()), ("last_offset", pa.int64())]
)
_DAMAGE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("position", pa.int64()),
        ("size", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("reason", pa.string()),
        ("sound_in", list_of(pa.int32())),
        ("held", list_of(_HELD)),
    ]
)
_DIFFERENCE: Final = pa.struct(
    [
        ("copy", pa.int32()),
        ("kind", pa.string()),
        ("offset", pa.int64()),
        ("detail", pa.string()),
    ]
)
_TRUNCATION: Final = pa.struct(
    [
        ("copy", pa.int32()),
        ("offset", pa.int64()),
        ("restart", pa.bool_()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int64()),
        ("deleted_first_offset", pa.int64()),
        ("deleted_last_offset", pa.int64()),
        ("deleted_records", pa.int64()),
    ]
)
_UNCOMPARED: Final = pa.struct([("copies", list_of(pa.int32())), ("batches", pa.int64())])

#: A row is a record; ``position`` is that of its batch in ``source_file``.
RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("sequence", pa.int32()),
        ("codec", pa.string()),
        ("magic", pa.int8()),
        ("leader_epoch", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("source_file", pa.string()),
        ("position", pa.int64()),
    ]
)

#: A row is a sound batch or damage. Damage has its reason in ``damage``; of the other columns it
#: has only position, size and origin. The rows together cover each byte of a file.
BATCHES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("size", pa.int64()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("count", pa.int32()),
        ("magic", pa.int8()),
        ("crc", pa.int64()),
        ("attributes", pa.int16()),
        ("codec", pa.string()),
        ("timestamp_type", pa.string()),
        ("base_timestamp", pa.int64()),
        ("max_timestamp", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("last_sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("delete_horizon_ms", pa.int64()),
        ("damage", pa.string()),
        ("source_file", pa.string()),
    ]
)

#: A row is a finding of ``kdump verify``; the remedy is a command line.
FINDINGS: Final = pa.schema(
    [
        ("code", pa.string()),
        ("severity", pa.string()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("size", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("expected", pa.string()),
        ("found", pa.string()),
        ("remedy", pa.string()),
        ("repeats", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)

#: A row is a copy of a partition, as ``kdump compare`` shows it; ``state`` and what follows are
#: those of the partition. ``differences`` are those of this copy and of ``copy``.
COPIES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("copy", pa.int32()),
        ("path", pa.string()),
        ("node_id", pa.int32()),
        ("live", pa.bool_()),
        ("starts", pa.bool_()),
        ("stray", pa.bool_()),
        ("start_loses", pa.bool_()),
        (
            "leader_epochs",
            list_of(pa.struct([("epoch", pa.int32()), ("start_offset", pa.int64())])),
        ),
        ("log_start_offset", pa.int64()),
        ("remote", list_of(pa.struct([("first_offset", pa.int64()), ("last_offset", pa.int64())]))),
        ("log_end_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("size", pa.int64()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        ("in_sync", pa.bool_()),
        ("eligible", pa.bool_()),
        ("preference", pa.int32()),
        ("heal_from", list_of(pa.int32())),
        ("damages", list_of(_DAMAGE)),
        ("alone", list_of(pa.struct([("first_offset", pa.int64()), ("last_offset", pa.int64())]))),
        ("differences", list_of(_DIFFERENCE)),
        ("truncations", list_of(_TRUNCATION)),
        ("state", pa.string()),
        ("first", pa.int32()),
        ("unclean", pa.bool_()),
        ("missing_nodes", list_of(pa.int32())),
        ("uncompared", list_of(_UNCOMPARED)),
        ("unread", list_of(pa.string())),
    ]
)

#: The tables by the names that ``option("table", …)`` takes.
TABLES: Final[Mapping[str, pa.Schema]] = {
    "records": RECORDS,
    "batches": BATCHES,
    "findings": FINDINGS,
    "copies": COPIES,
}
