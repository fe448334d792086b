"""read_back(): a log that was written, read again from its file: what is there, not what should be.

Spec: ``DefaultRecordBatch.ensureValid``, ``LogSegment.recover``; KOD 3.2, 4.2. It must never take
anything from who wrote the log, nor accept a batch of an old format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from xxhash import xxh3_128

from kdump.audit.facts import TopicSettings
from kdump.audit.rebuild import Rebuild, RebuiltIndexes
from kdump.errors import DecodeError, LimitError, Refused, SourceError
from kdump.format.batch import BatchTable
from kdump.format.record_digest import RecordDigest
from kdump.format.records import RecordReader
from kdump.repair.batch_digests import add_batches
from kdump.storage.source import Source, open_source
from kdump.storage.walk import Damage, walk

_MAGIC: Final = 2


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What stands in a log: its bytes, its batches, and the digest of all its records.

    ``xxh3`` of 128 bits is for comparing the bytes with what was written, ``sha256`` for keeping.
    """

    size: int
    sha256: str
    xxh3: str
    batches: int
    records: int
    digest: str
    rebuilt: RebuiltIndexes


def read_back(path: Path, base_offset: int, settings: TopicSettings, room: int) -> ReadBack:
    """Read the log at ``path`` from its file, past the page cache where that can be.

    Its indexes are built by ``settings``; their content is kept if it is of at most ``room`` bytes.
    Raises Refused where anything but sound batches of magic 2 stands there; SourceError.
    """
    records, kept, compared = RecordDigest(), sha256(), xxh3_128()
    reader, rebuild = RecordReader(), Rebuild(base_offset, settings, room=room)
    batches = 0
    with open_source(path, mapped=False, sealed=True) as source:
        try:
            for piece in walk(source, base_offset):
                if isinstance(piece, Damage):
                    raise _unsound(path, f"{piece.reason.value} at position {piece.position}")
                if set(piece.column("magic")) != {_MAGIC}:
                    raise _unsound(path, f"others behind position {piece.position}")
                for view in _windows(source, piece):
                    kept.update(view)
                    compared.update(view)
                rebuild.add(piece)
                add_batches(records, piece, source, reader)
                batches += len(piece)
        except DecodeError as error:
            raise _unsound(path, str(error)) from error
        except LimitError as error:
            raise SourceError(path, f"{path}: {error}") from error
        size = source.size
    return ReadBack(
        size,
        kept.hexdigest(),
        compared.hexdigest(),
        batches,
        records.count,
        records.hexdigest(),
        rebuild.finish(),
    )


def _windows(source: Source, table: BatchTable) -> Iterator[memoryview]:
    """The bytes of ``table``, which may hold a batch that is larger than a window."""
    position = table.position
    while position < table.end:
        view = source.window(position)[: table.end - position]
        yield view
        position += len(view)


def _unsound(path: Path, found: str) -> Refused:
    return Refused(
        f"{path}: expected sound batches of magic 2 to be read back, found {found}: nothing was "
        "changed; check memory, controller and disk"
    )
