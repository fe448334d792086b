"""walk() calls sound what the broker calls valid: both stop at the same byte of a damaged segment.

The broker's loader recovers each segment after an unclean stop, and cuts it where it meets the
first batch that it does not accept; what is left of the file must end where walk() has its first
damage.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import forge
import pytest
from brokers import jars
from brokers.oracle import Oracle, Refused
from memory import MemorySource
from mutations import ANYWHERE, case

from kdump.format.batch import MAX_OFFSET_DELTA, BatchTable, RecordBatch
from kdump.storage.walk import walk

CASES = 120
Of = Callable[[str], Oracle]


def prefix(data: bytes, base_offset: int) -> list[RecordBatch]:
    """The sound batches before the first damage."""
    found: list[RecordBatch] = []
    for piece in walk(MemorySource(data), base_offset):
        if not isinstance(piece, BatchTable):
            break
        found += piece
    return found


def in_order(sound: list[RecordBatch], base_offset: int) -> bool:
    """Whether offsets rise within the segment's range: else the broker splits or empties it."""
    last = base_offset - 1
    for batch in sound:
        if not last < batch.base_offset <= batch.last_offset <= base_offset + MAX_OFFSET_DELTA:
            return False
        last = batch.last_offset
    return True


def segments() -> Iterator[tuple[str, int, bytes]]:
    """What was done, the base offset and the bytes of damaged segments, old formats among them."""
    for seed in range(CASES):
        one = case(seed, [".log"])
        base_offset = int(one.path.stem)
        marked = any(
            batch.is_control and batch.producer_id >= 0 for batch in prefix(one.data, base_offset)
        )
        # Of markers alone recovery reads the records too; a right checksum may cover nonsense.
        if not (one.resealed and marked):
            yield str(one), base_offset, one.data
    for seed in range(CASES // 4):
        rng = random.Random(seed)
        messages = [
            forge.message(7 + offset, rng.randbytes(rng.randrange(200)), magic=seed % 2)
            for offset in range(20)
        ]
        mutation = rng.choice(ANYWHERE)
        data = mutation(rng, b"".join(messages), b"".join(messages))
        yield f"legacy {seed}: {mutation.__name__}", 7, data


@pytest.mark.broker
@pytest.mark.parametrize("version", sorted(jars.RELEASES))
def test_the_broker_cuts_where_the_first_damage_is(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    whole = cut = refused = 0
    for what, base_offset, data in segments():
        sound = prefix(data, base_offset)
        if not in_order(sound, base_offset):
            continue
        directory = tmp_path / "topic-0"
        directory.mkdir()
        log = directory / f"{base_offset:020}.log"
        log.write_bytes(data)
        log.with_suffix(".index").touch()
        loaded = oracle(version).load(directory, log_start=base_offset)
        if isinstance(loaded, Refused):
            refused += 1
        else:
            expected = sound[-1].position + sound[-1].size if sound else 0
            assert log.stat().st_size == expected, what
            cut += expected < len(data)
            whole += expected == len(data)
        shutil.rmtree(directory)
    assert cut > CASES // 2
    assert whole > CASES // 10
    assert refused < CASES // 10
