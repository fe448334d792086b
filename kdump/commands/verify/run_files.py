"""Tables that a run is appended to: one Parquet file for each table.

A file is ``TABLE/run_date=2026-11-27/RUN.parquet``. So each table is a directory that Spark, DuckDB
and pandas read as one table with a partition column, runs never change each other's files, and old
runs are removed by their date. The file of the table ``runs`` is written last.

Rows are made when the run is over, from values that wait on disk: pyarrow starts threads when it is
imported, and the workers of a run are forked.
"""

from __future__ import annotations

import pickle
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from uuid import uuid4

from zstandard import ZstdCompressor, ZstdDecompressor

from kdump.output.destination import Destination, Sink, discard, open_sink, write_error
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.rights import acting
from kdump.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, object]
#: The number of values that are pickled together, and of rows in a row group.
_TOGETHER: Final = 256
_GROUP_ROWS: Final = 4_096
_LENGTH: Final = struct.Struct("=Q")


@frozen
class RunId:
    """The id of a run, a UUID, and its begin."""

    id: str
    begin: datetime

    @classmethod
    def new(cls) -> RunId:
        """Return the id of a run that begins now."""
        return cls(str(uuid4()), datetime.now(UTC))

    def file(self, table: str) -> str:
        """Return the name of the run's file of a table."""
        return f"{table}/run_date={self.begin:%Y-%m-%d}/{self.id}.parquet"


class Spool:
    """Values of a run that wait on disk, in a file without a name, which ends with the process.

    It is on the file system of the destination, or in the directory for temporary files if that is
    an object store. Methods raise SourceError.
    """

    def __init__(self, destination: Destination) -> None:
        folder = destination.folder
        local = None if isinstance(folder, RemotePath) else Path(folder)
        self._path = Path(tempfile.gettempdir()) if local is None else local
        self._held: list[object] = []
        try:
            with acting(destination.rights):
                # Stays open as long as the spool.
                self._file: IO[bytes] = tempfile.TemporaryFile(dir=local)  # noqa: SIM115
        except OSError as error:
            raise write_error(self._path, error) from error

    def add(self, value: object) -> None:
        """Add a value."""
        self._held.append(value)
        if len(self._held) >= _TOGETHER:
            self._write()

    def values(self) -> Iterator[Any]:
        """Yield all values, in order."""
        self._write()
        try:
            self._file.seek(0)
            while length := self._file.read(_LENGTH.size):
                packed = self._file.read(*_LENGTH.unpack(length))
                yield from pickle.loads(ZstdDecompressor().decompress(packed))
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Remove the file."""
        with suppress(OSError):  # what was not written is not needed
            self._file.close()

    def _write(self) -> None:
        packed = ZstdCompressor(level=1).compress(pickle.dumps(self._held))
        self._held.clear()
        try:
            self._file.write(_LENGTH.pack(len(packed)))
            self._file.write(packed)
        except OSError as error:
            raise write_error(self._path, error) from error


def write_run(
    destination: Destination,
    run: RunId,
    rows: Iterable[tuple[str, Row]],
    make_last: Callable[[], Row],
) -> None:
    """Write the files of a run from ``rows``, each with the name of its table.

    ``make_last`` returns the row of the table of runs. Raise SourceError.
    """
    import pyarrow as pa

    from kdump.commands.verify.run_schema import RUN_TABLES, RUNS

    files: dict[str, _File] = {}
    try:
        for name, schema in RUN_TABLES.items():
            files[name] = _File(destination, name, run, schema)
        for name, row in rows:
            files[name].add(row)
        for file in files.values():
            file.close()
    except BaseException as error:  # Ctrl-C too: uploads would stay unfinished
        for file in files.values():
            discard(file.path, destination.rights)
        if isinstance(error, OSError):
            raise write_error(destination.folder, error) from error
        raise
    for name, file in files.items():
        destination.take(file.path, run.file(name))
    out = pa.BufferOutputStream()
    with _writer(out, RUNS) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([make_last()], schema=RUNS))
    destination.finish(out.getvalue().to_pybytes(), run.file("runs"))


class _File:
    """A file of one table; methods raise OSError."""

    def __init__(self, destination: Destination, table: str, run: RunId, schema: pa.Schema) -> None:
        import pyarrow as pa

        self.path = destination.folder / f"{table}.parquet"
        self._schema = schema
        self._run = {"run_id": run.id, "run_begin": run.begin}
        self._rows: list[Row] = []
        self._sink: Sink = open_sink(self.path, destination.rights)
        self._writer = _writer(pa.PythonFile(self._sink, "w"), schema)

    def add(self, row: Row) -> None:
        self._rows.append({**self._run, **row})
        if len(self._rows) >= _GROUP_ROWS:
            self._write()

    def close(self) -> None:
        self._write()
        self._writer.close()
        self._sink.close()

    def _write(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()


def _writer(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, compression="zstd")
