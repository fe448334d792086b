"""mended_header(): a corrupt batch of which only the size or the magic is wrong.

No checksum covers these two fields of a batch, nor its base offset and its leader epoch. A wrong
size or magic makes the batch unreadable nevertheless. The bytes up to the next valid batch show the
right size, and a checksum that matches over them proves it.

Spec: ``DefaultRecordBatch.computeChecksum``, ``LegacyRecord.computeChecksum``; KOD 3.2.
"""

from __future__ import annotations

from typing import Final

from kdump.format.batch import HEADER_BYTES, LOG_OVERHEAD, RecordBatch, read_header
from kdump.storage.source import Source
from kdump.storage.walk import LARGEST_BATCH, Damage, WalkedLog, checksum_of

SIZE_POSITION: Final = 8
MAGIC_POSITION: Final = 16
_MAGIC: Final = 2
#: The sizes of the headers, by magic: that of a message ends with the sizes of key and value.
_LEAST: Final = {0: 26, 1: 34, _MAGIC: HEADER_BYTES}


def mended_header(source: Source, damage: Damage) -> RecordBatch | None:
    """Return the batch that ``damage`` is with another size or magic, None if it is none.

    Its base offset and leader epoch are those in the file, right or wrong. None for a log whose
    bytes are not there, as in a manifest. Raises SourceError.
    """
    if isinstance(source, WalkedLog) or damage.empty or damage.size > LARGEST_BATCH:
        return None
    head = bytes(source.window(damage.position, HEADER_BYTES)[: min(HEADER_BYTES, damage.size)])
    if len(head) <= MAGIC_POSITION or not any(head):  # a hole in a sparse file
        return None
    for magic in dict.fromkeys([head[MAGIC_POSITION], _MAGIC]):
        batch = _batch(source, damage, head, magic)
        if batch is not None:
            return batch
    return None


def _batch(source: Source, damage: Damage, head: bytes, magic: int) -> RecordBatch | None:
    """Return the batch that begins with ``head``, if its checksum matches with this magic."""
    if damage.size < _LEAST.get(magic, LARGEST_BATCH + 1):
        return None
    mended = bytearray(head.ljust(HEADER_BYTES, b"\0"))
    size = (damage.size - LOG_OVERHEAD).to_bytes(4, "big")
    mended[SIZE_POSITION : SIZE_POSITION + len(size)] = size
    mended[MAGIC_POSITION] = magic
    batch = read_header(memoryview(mended), damage.position)
    if batch is None or batch.last_offset < batch.base_offset:
        return None
    matches = checksum_of(source, damage.position, damage.size, magic) == batch.crc
    return batch if matches else None
