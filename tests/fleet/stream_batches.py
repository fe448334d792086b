"""Batches of a stream without a session: what Spark asks of a stream reader, in its order."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kdump.fleet.source.options import Options
from kdump.fleet.source.stream import StreamReader
from kdump.tables.schema import TABLES

Offsets = dict[str, list[int]]
ALL = ReadAllAvailable()
COLUMNS = pa.schema([TABLES["records"].field(name) for name in ("topic", "partition", "offset")])


class Stream:
    """A query that starts anew for each batch, from the JSON of its checkpoint."""

    def __init__(self, *paths: Path | str, **options: str) -> None:
        self.options = {"paths": json.dumps(list(map(str, paths))), **options}
        self.columns = COLUMNS
        self.checkpoint = ""
        self.got: Offsets = defaultdict(list)

    def reader(self) -> StreamReader:
        return StreamReader(Options.parse(self.options, stream=True), self.columns)

    def plan(self, limit: ReadLimit | None = None) -> tuple[StreamReader, Sequence[Any]]:
        reader = self.reader()
        start = json.loads(self.checkpoint or json.dumps(reader.initialOffset()))
        end = reader.latestOffset(start, limit or reader.getDefaultReadLimit())
        self.checkpoint = json.dumps(end)
        return reader, reader.partitions(start, json.loads(self.checkpoint))

    def batch(self, limit: ReadLimit | None = None) -> Offsets:
        found = rows(*self.plan(limit))
        for name, offsets in found.items():
            self.got[name] += offsets
        return found

    @property
    def next(self) -> dict[str, Any]:
        return dict(json.loads(self.checkpoint)["offsets"])


def rows(reader: StreamReader, tasks: Iterable[Any]) -> Offsets:
    found: Offsets = defaultdict(list)
    for task in tasks:
        for table in reader.read(task):
            assert table.schema.names[: len(COLUMNS)] == COLUMNS.names
            for row in table.to_pylist():
                found[f"{row['topic']}-{row['partition']}"].append(row["offset"])
    return dict(found)
