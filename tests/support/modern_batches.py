"""Batches of magic 2 as the Java client writes them, of records as they are read."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.format.batch import Record
from kdump.format.codecs import Codec, compress
from support.forge import batch, record


def encode_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch that begins at its first record and ends at its last one."""
    first = records[0]
    forged = [
        record(
            each.value,
            each.key,
            each.headers,
            timestamp=each.timestamp,
            offset_delta=each.offset - first.offset,
        )
        for each in records
    ]
    block = b"".join(each.encode(0, first.timestamp) for each in forged)
    return batch(
        first.offset,
        forged,
        codec=codec.label,
        base_timestamp=first.timestamp,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        base_sequence=base_sequence,
        block=compress(codec, block) if codec else block,
    )
