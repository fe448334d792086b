"""The columns of Spark's Kafka source, of records that no producer sends every day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.forge import batch, message, record, write_partition

pa = pytest.importorskip("pyarrow")

from kdump.errors import DecodeError  # noqa: E402
from kdump.fleet.source.columns import (  # noqa: E402
    KAFKA_WITH_HEADERS,
    kafka_rows,
    source_names,
)
from kdump.tables import api  # noqa: E402

pytestmark = pytest.mark.once

LIMIT = (2**63 - 1) // 1000


def columns(parent: Path, *batches: bytes, strict: bool = False) -> dict[str, list[Any]]:
    path = write_partition(parent, "t", 3, {0: batches})
    (records,) = api.records(path, columns=source_names(KAFKA_WITH_HEADERS))
    rows = kafka_rows(records, KAFKA_WITH_HEADERS, strict=strict)
    rows.validate(full=True)
    assert rows.schema == KAFKA_WITH_HEADERS
    place = rows.schema.names.index("timestamp")
    microseconds = rows.column("timestamp").cast(pa.int64())  # Python's own times end in 9999
    found: dict[str, list[Any]] = rows.set_column(place, "timestamp", microseconds).to_pydict()
    return found


def test_headers(tmp_path: Path) -> None:
    headers = [(b"name", b"\xff"), (b"name", None), (b"", b"")]
    found = columns(
        tmp_path,
        batch(
            0, [record(None, b""), record(headers=headers), record(headers=[(b"\xc3(\xff", b"")])]
        ),
    )
    assert found["headers"] == [
        None,
        [{"key": name.decode(), "value": value} for name, value in headers],
        [{"key": "\N{REPLACEMENT CHARACTER}(\N{REPLACEMENT CHARACTER}", "value": b""}],
    ]
    assert (found["key"][0], found["value"][0]) == (b"", None)
    assert (found["topic"], found["partition"]) == (["t"] * 3, [3] * 3)


def test_types_of_timestamps(tmp_path: Path) -> None:
    found = columns(
        tmp_path,
        message(0, b"v", magic=0),
        message(1, b"v", magic=1, timestamp=17),
        batch(2, [record(timestamp=-1)]),
        batch(3, [record(timestamp=5)], max_timestamp=19, timestamp_type="LogAppendTime"),
    )
    assert found["timestamp"] == [-1000, 17_000, -1000, 19_000]
    assert found["timestampType"] == [-1, 0, 0, 1]


def test_a_timestamp_beyond_those_of_spark_is_null(tmp_path: Path) -> None:
    def stamped(parent: Path, *stamps: int, strict: bool = False) -> list[int | None]:
        batches = [
            batch(at, [record()], base_timestamp=stamp, max_timestamp=stamp)
            for at, stamp in enumerate(stamps)
        ]
        return columns(parent, *batches, strict=strict)["timestamp"]

    far = [LIMIT, LIMIT + 1, -LIMIT, -LIMIT - 1, 2**63 - 1, -(2**63)]
    found = stamped(tmp_path / "a", *far)
    assert found == [LIMIT * 1000, None, -LIMIT * 1000, None, None, None]
    with pytest.raises(DecodeError, match=f"expected a timestamp up to {LIMIT} ms, found"):
        stamped(tmp_path / "b", *far, strict=True)
    assert stamped(tmp_path / "c", LIMIT, strict=True) == [LIMIT * 1000]
