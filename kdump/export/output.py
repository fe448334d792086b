"""The file of a task: its format, and the digest of its bytes.

A line of JSON is a line of ``kdump dump --format json --records``.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from enum import Enum
from typing import IO, Any, Final, Protocol, cast

from zstandard import STRATEGY_FAST, ZstdCompressionParameters, ZstdCompressor

from kdump.export.destination import Sink, discard, open_sink
from kdump.format.batch import RecordRun, RecordTable
from kdump.format.lines.lines import JsonLines
from kdump.storage.objects.address import AnyPath
from kdump.storage.rights import Rights
from kdump.tables.logs import Origin
from kdump.values import frozen

#: As level -2 of zstd, but what it searches fits into the nearest caches of a processor: a line
#: repeats the names of the one before. Level 1 takes a third longer for files two thirds as large.
_FAST: Final = ZstdCompressionParameters(
    window_log=17,
    chain_log=6,
    hash_log=13,
    search_log=1,
    min_match=7,
    target_length=2,
    strategy=STRATEGY_FAST,
)


class Form(Enum):
    """The format of the files; the value is the extension."""

    PARQUET = "parquet"
    JSONL = "jsonl.zst"


@frozen
class WrittenFile:
    """A file at ``path``, its size, and the digest of its bytes."""

    path: AnyPath
    bytes: int
    sha256: str


class _HashedFile:
    """A new file that hashes its bytes, with the methods that pyarrow calls."""

    def __init__(self, path: AnyPath, rights: Rights | None) -> None:
        self._file: Sink = open_sink(path, rights)
        self._hash = hashlib.sha256()
        self.bytes = 0
        self._abandoned = False

    def write(self, data: Any) -> int:
        if self._abandoned:
            return memoryview(data).nbytes
        self._hash.update(data)
        self.bytes += memoryview(data).nbytes
        return self._file.write(data)

    def flush(self) -> None:
        if not self._abandoned:
            self._file.flush()

    def tell(self) -> int:
        return self.bytes

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        """Close the file, ignore errors, and drop what is written later."""
        self._abandoned = True
        with suppress(OSError):
            self._file.close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class _Writer(Protocol):
    def add(self, run: RecordRun, origin: Origin) -> None: ...

    def close(self) -> None: ...


class _Jsonl:
    def __init__(self, sink: _HashedFile) -> None:
        self._origin: Origin | None = None
        self._lines = JsonLines(None, None, force_base64=False)
        # Any: zstandard's types ask for a whole IO, of which it calls write() alone.
        self._stream: Any = ZstdCompressor(compression_params=_FAST).stream_writer(
            cast("IO[bytes]", sink), closefd=False
        )

    def add(self, run: RecordRun, origin: Origin) -> None:
        if origin is not self._origin:
            self._lines = JsonLines(
                origin.topic,
                origin.partition,
                force_base64=False,
                source_file=origin.source_file,
            )
            self._origin = origin
        for lines in self._lines.run(run):
            self._stream.write(lines)

    def close(self) -> None:
        self._stream.close()


class Output:
    """The file of a task, which is created with the first record."""

    def __init__(self, path: AnyPath, rights: Rights | None, form: Form) -> None:
        self.records = 0
        self._path = path
        self._rights = rights
        self._form = form
        self._sink: _HashedFile | None = None
        self._writer: _Writer | None = None

    def add(self, run: RecordRun, origin: Origin) -> None:
        """Add the records of ``run``. Raise OSError."""
        if self._writer is None:
            self._sink = _HashedFile(self._path, self._rights)
            self._writer = _writer(self._form, self._sink)
        self._writer.add(run, origin)
        self.records += len(run.rows) // RecordTable.WIDTH

    def close(self) -> WrittenFile | None:
        """Finish the file, and return it; None if there was no record."""
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        self._sink.close()
        return WrittenFile(self._path, self._sink.bytes, self._sink.digest)

    def discard(self) -> None:
        """Close and remove the file."""
        if self._sink is not None:
            self._sink.abandon()
            discard(self._path, self._rights)


def _writer(form: Form, sink: _HashedFile) -> _Writer:
    if form is Form.JSONL:
        return _Jsonl(sink)
    from kdump.tables.parquet import ParquetRecords  # needs pyarrow

    return ParquetRecords(sink)
