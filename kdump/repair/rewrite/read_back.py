"""A written log, read again from its file and compared.

Spec: ``DefaultRecordBatch.ensureValid``, ``LogSegment.recover``; KOD 3.2, 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from xxhash import xxh3_128

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.rebuilt_indexes import Rebuild, RebuiltIndexes
from kdump.errors import DecodeError, LimitError, Refused, SourceError
from kdump.format.batch import BatchTable
from kdump.format.record_digest import RecordDigest
from kdump.format.records import RecordReader
from kdump.repair.rewrite.batch_digests import add_batches
from kdump.repair.rewrite.prefix import PrefixSource
from kdump.storage.access import open_source
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

_MAGIC: Final = 2
#: Bytes that must be written before the reading of a growing log continues.
STRETCH_BYTES: Final = 8 << 20


@frozen
class ReadBack:
    """The content of a log: digests of its bytes and its records, counts, rebuilt indexes.

    ``xxh3``, of 128 bits, is compared with the digest of the written bytes. ``sha256`` goes into
    the receipt.
    """

    size: int
    sha256: str
    xxh3: str
    batches: int
    records: int
    digest: str
    rebuilt: RebuiltIndexes


class LogReader:
    """Reads the log at ``path`` from its file, bypassing the page cache where possible.

    Indexes are built by ``settings``. Their content is held in memory if it has at most ``room``
    bytes.
    """

    def __init__(self, path: Path, base_offset: int, settings: TopicSettings, room: int) -> None:
        self._path, self._base_offset = path, base_offset
        self._position = self._batches = 0
        self._records, self._sha256, self._xxh3 = RecordDigest(), sha256(), xxh3_128()
        self._reader = RecordReader()
        self._rebuild = Rebuild(base_offset, settings, room=room)

    def follow(self, size: int) -> None:
        """Read on if enough bytes are new; the first ``size`` bytes of the log are whole batches.

        Raises as ``finish`` does.
        """
        if size - self._position >= STRETCH_BYTES:
            self._read(size)

    def finish(self) -> ReadBack:
        """Read to the end of the file, which no longer grows; return the content.

        Raises Refused if it holds anything but sound batches of magic 2; SourceError.
        """
        self._read(None)
        return ReadBack(
            self._position,
            self._sha256.hexdigest(),
            self._xxh3.hexdigest(),
            self._batches,
            self._records.count,
            self._records.hexdigest(),
            self._rebuild.finish(),
        )

    def _read(self, size: int | None) -> None:
        """Read up to position ``size``, None for the end; open the file again, because it grows."""
        path = self._path
        with open_source(path, mapped=False, sealed=True) as opened:
            source = PrefixSource(opened, opened.size if size is None else size)
            try:
                for piece in walk(source, self._base_offset, self._position):
                    if isinstance(piece, Damage):
                        raise _mismatch(path, f"{piece.reason.value} at position {piece.position}")
                    if set(piece.column("magic")) != {_MAGIC}:
                        raise _mismatch(
                            path,
                            f"batches of another message format after position {piece.position}",
                        )
                    self._add(source, piece)
            except DecodeError as error:
                raise _mismatch(path, str(error)) from error
            except LimitError as error:
                raise SourceError(path, f"{path}: {error}") from error

    def _add(self, source: Source, table: BatchTable) -> None:
        for view in _windows(source, table):
            self._sha256.update(view)
            self._xxh3.update(view)
        self._rebuild.add(table)
        add_batches(self._records, table, source, self._reader)
        self._batches += len(table)
        self._position = table.end


def _windows(source: Source, table: BatchTable) -> Iterator[memoryview]:
    """Yield the bytes of ``table``, which may hold a batch that is larger than a window."""
    position = table.position
    while position < table.end:
        view = source.window(position)[: table.end - position]
        yield view
        position += len(view)


def _mismatch(path: Path, found: str) -> Refused:
    return Refused(
        f"{path}: expected to read back valid batches of message format v2, found {found}: nothing "
        "was changed; check memory, controller and disk"
    )
