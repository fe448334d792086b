"""A file of a task: its format, and the digest of its bytes.

A line of JSON is a line of ``kdump dump --format json --records``.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from enum import Enum
from typing import IO, Any, Final, Protocol, cast

from zstandard import STRATEGY_FAST, ZstdCompressionParameters, ZstdCompressor

from kdump.format.batch import RecordRun
from kdump.format.lines.lines import JsonLines
from kdump.output.destination import Sink, discard, open_sink
from kdump.storage.paths import AnyPath
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


class FileFormat(Enum):
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
    @property
    def held_bytes(self) -> int: ...

    def add(self, run: RecordRun, origin: Origin) -> None: ...

    def flush(self) -> None: ...

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

    @property
    def held_bytes(self) -> int:
        return 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._stream.close()


class ExportFile:
    """A new file of a task. Raises OSError, as its methods do."""

    def __init__(self, path: AnyPath, rights: Rights | None, form: FileFormat) -> None:
        self._path = path
        self._rights = rights
        self._sink = _HashedFile(path, rights)
        try:
            self._writer = _writer(form, self._sink)
        except BaseException:  # Ctrl-C too: nobody else knows the file yet
            self.discard()
            raise

    def add(self, run: RecordRun, origin: Origin) -> None:
        """Add the records of ``run``."""
        self._writer.add(run, origin)

    @property
    def held_bytes(self) -> int:
        """The bytes of records that it holds in memory, about."""
        return self._writer.held_bytes

    def flush(self) -> None:
        """Write the records that it holds in memory."""
        self._writer.flush()

    def close(self) -> WrittenFile:
        """Finish the file, and return it."""
        self._writer.close()
        self._sink.close()
        return WrittenFile(self._path, self._sink.bytes, self._sink.digest)

    def discard(self) -> None:
        """Close and remove the file."""
        self._sink.abandon()
        discard(self._path, self._rights)


def _writer(form: FileFormat, sink: _HashedFile) -> _Writer:
    if form is FileFormat.JSONL:
        return _Jsonl(sink)
    from kdump.commands.export.parquet import ParquetRecords  # needs pyarrow

    return ParquetRecords(sink)
