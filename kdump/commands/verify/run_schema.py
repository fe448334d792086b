"""The columns of the tables that runs of ``kdump verify`` are appended to.

Each table but ``runs`` has the id and the begin of the run in each row, so that runs can be
compared without a join. The names of columns are those of the JSON Lines of ``verify`` and of
``dump --summary``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kdump.tables.schema import FINDINGS, list_of

#: Times of this clock, unlike those in logs, fit into Spark's own type.
_TIME: Final = pa.timestamp("us", tz="UTC")
#: The columns by which rows belong to a run.
RUN_COLUMNS: Final = (pa.field("run_id", pa.string()), pa.field("run_begin", _TIME))
_LOST: Final = (
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("first_timestamp", pa.int64()),
    ("last_timestamp", pa.int64()),
)
_CAUSE: Final = (
    ("outcome", pa.string()),
    ("text", pa.string()),
    ("path", pa.string()),
    ("position", pa.int64()),
)
_CUT: Final = (
    ("segment", pa.int64()),
    ("position", pa.int64()),
    ("offset", pa.int64()),
    ("size", pa.int64()),
)
_PARTITION: Final = (
    pa.field("path", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
)
_OPEN: Final = (
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("first_offset", pa.int64()),
    ("since", pa.string()),
    ("last_batch", pa.string()),
    ("waiting_records_at_most", pa.int64()),
)
_CODEC: Final = (
    ("codec", pa.string()),
    ("batches", pa.int64()),
    ("records", pa.int64()),
    ("stored_bytes", pa.int64()),
    ("uncompressed_bytes", pa.int64()),
    ("ratio", pa.float64()),
)

#: A row is the forecast of a partition.
_FORECASTS: Final = (
    *_PARTITION,
    ("outcome", pa.string()),
    ("reasons", list_of(pa.struct(_CAUSE))),
    ("log_start_offset", pa.int64()),
    ("log_end_offset", pa.int64()),
    ("segments", list_of(pa.int64())),
    ("cuts", list_of(pa.struct(_CUT))),
    ("recovered_segments", list_of(pa.int64())),
    ("deleted_segments", list_of(pa.int64())),
    ("deleted_bytes", pa.int64()),
    ("replaced", list_of(pa.string())),
    ("reads_bytes", pa.int64()),
    ("lost", pa.struct([("sound", pa.int64()), ("unreadable", pa.int64()), *_LOST])),
    ("snapshots_lost", list_of(pa.int64())),
    ("exact", pa.bool_()),
    ("release", pa.string()),
    ("set_aside", pa.string()),
    ("lost_now", pa.struct([("records", pa.int64()), *_LOST])),
    ("last_stable_offset", pa.int64()),
    ("open_transaction", pa.struct(_OPEN)),
)
#: A row is the reading of a log by a host.
_LEDGER: Final = (
    *_PARTITION,
    ("host", pa.string()),
    ("bytes", pa.int64()),
    ("seconds", pa.float64()),
)
#: A row is a partition. ``bytes`` is the size of its logs. What only batches say is null if only
#: the ends of logs were read. What the run did not decompress is null.
_STATISTICS: Final = (
    *_PARTITION,
    ("segments", pa.int64()),
    ("bytes", pa.int64()),
    ("read_bytes", pa.int64()),
    ("complete", pa.bool_()),
    ("batches", pa.int64()),
    ("control_batches", pa.int64()),
    ("transactional_batches", pa.int64()),
    ("records", pa.int64()),
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("first_timestamp", pa.int64()),
    ("last_timestamp", pa.int64()),
    ("smallest_batch_bytes", pa.int64()),
    ("half_below_bytes", pa.int64()),
    ("largest_batch_bytes", pa.int64()),
    ("codecs", list_of(pa.struct(_CODEC))),
    ("producers", pa.int64()),
    ("committed", pa.int64()),
    ("aborted", pa.int64()),
    ("open_transactions", pa.int64()),
)
#: A row is a run that ended.
RUNS: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("begin", _TIME),
        ("end", _TIME),
        ("end_reason", pa.string()),
        ("exit", pa.int32()),
        ("version", pa.string()),
        ("paths", list_of(pa.string())),
        ("depth", pa.string()),
        ("partitions", pa.int64()),
        ("partitions_total", pa.int64()),
        ("bytes", pa.int64()),
        ("bytes_total", pa.int64()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        ("jobs", pa.int32()),
    ]
)
#: The tables by the names of their directories, without that of runs.
RUN_TABLES: Final[Mapping[str, pa.Schema]] = {
    "findings": pa.schema([*RUN_COLUMNS, *FINDINGS]),
    "forecasts": pa.schema([*RUN_COLUMNS, *_FORECASTS]),
    "ledger": pa.schema([*RUN_COLUMNS, *_LEDGER]),
    "statistics": pa.schema([*RUN_COLUMNS, *_STATISTICS]),
}
