"""Queries of the data source without a session: what Spark asks of its reader, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kdump.fleet.datasource import KdumpDataSource

Rows = list[dict[str, Any]]


def query(path: Path | str, columns: StructType | None = None, /, **options: str) -> Rows:
    """The rows of a query, of two tasks at most."""
    return rows(*planned(path, columns, **options))


def planned(
    path: Path | str, columns: StructType | None = None, /, **options: str
) -> tuple[DataSourceReader, Sequence[InputPartition]]:
    source = KdumpDataSource({"path": str(path), "cores": "2", **options})
    reader = source.reader(columns or source.schema())
    return reader, reader.partitions()


def rows(reader: DataSourceReader, tasks: Sequence[InputPartition]) -> Rows:
    found: Rows = []
    for task in tasks:
        for table in reader.read(task):
            assert isinstance(table, pa.RecordBatch)
            found += table.to_pylist()
    return found
