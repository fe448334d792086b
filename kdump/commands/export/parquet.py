"""Records to a Parquet file."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kdump.format.batch import RecordRun
from kdump.tables.logs import Origin
from kdump.tables.records import RecordColumns
from kdump.tables.schema import RECORDS

#: The columns of the files: without the topic, which is in the name of the directory.
_COLUMNS: Final = [name for name in RECORDS.names if name != "topic"]
#: The size from which a row group is written.
_GROUP_BYTES: Final = 64 << 20
#: Columns with statistics, by which readers skip. Keys and values would take a sixth of the time.
_STATISTICS: Final = ["partition", "offset", "timestamp"]
#: Columns of growing numbers: their differences compress better.
_GROWING: Final = ("offset", "timestamp", "sequence", "position")


class ParquetRecords:
    """Writes the records of one topic, which is not among the columns: it is in a directory's name.

    ``sink`` is a new file, with the methods that pyarrow calls. Methods raise what those of
    ``sink`` raise.
    """

    def __init__(self, sink: Any) -> None:
        self._columns = RecordColumns(_COLUMNS, encoded=True)
        self._origin: Origin | None = None
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        schema = self._columns.schema
        dictionaries = [column.name for column in schema if pa.types.is_dictionary(column.type)]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(sink, "w"),
            schema,
            compression="zstd",
            use_dictionary=dictionaries,
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=_STATISTICS,
        )

    def add(self, run: RecordRun, origin: Origin) -> None:
        """Add the records of ``run``."""
        if origin is not self._origin:
            self._columns.start(origin)
            self._origin = origin
        self._add_batch(self._columns.add(run))

    @property
    def held_bytes(self) -> int:
        """The bytes of the records that are not written yet, about."""
        return self._batch_bytes + self._columns.held_bytes

    def flush(self) -> None:
        """Write the records that are not written yet, as a row group."""
        self._add_batch(self._columns.finish())
        self._write()

    def _add_batch(self, batch: pa.RecordBatch | None) -> None:
        if batch is not None:
            self._batches.append(batch)
            self._batch_bytes += batch.nbytes
            if self._batch_bytes >= _GROUP_BYTES:
                self._write()

    def _write(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
        self._batches, self._batch_bytes = [], 0

    def close(self) -> None:
        """Finish the file."""
        self.flush()
        self._writer.close()
