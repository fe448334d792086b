"""A Source over bytes, for tests: whole like a map, or through small windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kdump.format.batch import BatchTable, Record, RecordBatch
from kdump.format.records import RecordReader
from kdump.storage.source import Closing, Identity
from kdump.storage.walk import Damage, walk


class MemorySource(Closing):
    """``window_bytes`` None gives everything from a position on, as MappedFile does."""

    def __init__(self, data: bytes, window_bytes: int | None = None) -> None:
        self._data = memoryview(data)
        self._window_bytes = window_bytes
        self.path = Path("00000000000000000000.log")
        self.size = len(data)
        self.identity = Identity(0, 0, len(data), 0)
        self.bytes_handed = 0

    def window(self, position: int, at_least: int = 1) -> memoryview:
        if self._window_bytes is None:
            return self._data[position:]
        view = self._data[position : position + max(at_least, self._window_bytes)]
        self.bytes_handed += len(view)
        return view

    def close(self) -> None:
        self._data = memoryview(b"")


def pieces(data: bytes, base: int = 0, window: int | None = None) -> list[BatchTable | Damage]:
    return list(walk(MemorySource(data, window), base))


def assert_tiles(data: bytes, found: list[BatchTable | Damage]) -> None:
    """Each piece starts where the one before ends, batches within a table too."""
    position = 0
    for piece in found:
        assert piece.position == position
        if isinstance(piece, Damage):
            assert piece.size > 0
            position += piece.size
            continue
        assert 0 < len(piece) <= 8192
        for one in piece:
            assert one.position == position
            position += one.size
        assert piece.end == position
    assert position == len(data)


def batches(data: bytes, base: int = 0, window: int | None = None) -> list[RecordBatch]:
    """The sound batches of ``data``, in order."""
    return [
        batch
        for piece in pieces(data, base, window)
        if isinstance(piece, BatchTable)
        for batch in piece
    ]


def damages(data: bytes, base: int = 0, window: int | None = None) -> list[Damage]:
    return [piece for piece in pieces(data, base, window) if isinstance(piece, Damage)]


def records(data: bytes, base: int = 0) -> Iterator[Record]:
    """Every record of the sound batches of ``data``."""
    reader = RecordReader()
    for batch in batches(data, base):
        whole = memoryview(data)[batch.position : batch.position + batch.size]
        for table in reader.tables(batch, whole):
            yield from table
