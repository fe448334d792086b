"""walk() calls sound what the broker calls valid: both stop at the same byte of a damaged segment.

The broker's loader recovers each segment after an unclean stop, and cuts it where it meets the
first batch that it does not accept; what is left of the file must end where walk() has its first
damage.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers.oracle import Oracle, Refused
from kdump.errors import DecodeError
from kdump.format.batch import MAX_OFFSET_DELTA, BatchTable, RecordBatch
from kdump.format.records import RecordReader
from kdump.storage.walk import walk
from support import forge
from support.cases import case
from support.memory import MemorySource
from support.mutations import ANYWHERE
from support.releases import LOADERS
from support.resealing import resealed

CASES = 120
LEGACY_BASE = 7
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


def unreadable(data: bytes, sound: list[RecordBatch]) -> bool:
    """Whether the records of any of these batches cannot be read."""
    reader = RecordReader()
    for batch in sound:
        try:
            for _ in reader.tables(batch, memoryview(data)[batch.position :][: batch.size]):
                pass
        except DecodeError:
            return True
    return False


def segments() -> Iterator[tuple[str, int, bytes]]:
    """What was done, the base offset and the bytes of damaged segments, old formats among them."""
    for seed in range(CASES):
        damaged_segment = case(seed, [".log"])
        base_offset = int(damaged_segment.path.stem)
        marked = any(
            batch.is_control and batch.producer_id >= 0
            for batch in prefix(damaged_segment.data, base_offset)
        )
        # Of markers alone recovery reads the records too; a right checksum may cover nonsense.
        if not (damaged_segment.resealed and marked):
            yield str(damaged_segment), base_offset, damaged_segment.data
    for seed in range(CASES // 2):
        rng = random.Random(seed)
        run = b"".join(legacy(rng))
        mutation = rng.choice((*ANYWHERE, *[resealed] * (len(ANYWHERE) // 2)))
        yield f"legacy {seed}: {mutation.__name__}", LEGACY_BASE, mutation(rng, run, run)


def legacy(rng: random.Random) -> Iterator[bytes]:
    """Messages and wrappers of one magic or of both, as an upgraded topic may have them."""
    magics = rng.choice(([0], [1], [0, 1]))
    offset = LEGACY_BASE
    for _ in range(10):
        magic, codec = rng.choice(magics), rng.choice(forge.CODECS[:4])
        values = [rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 4))]
        if codec == "none":
            yield forge.message(offset, values[0], magic=magic)
            offset += 1
            continue
        first = 0 if magic else offset
        inner = [forge.message(first + n, value, magic=magic) for n, value in enumerate(values)]
        offset += len(values)
        yield forge.wrapper(offset - 1, inner, codec=codec, magic=magic)


@pytest.mark.broker
@pytest.mark.parametrize("version", LOADERS)
def test_the_broker_cuts_where_the_first_damage_is(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    verdict: Counter[tuple[str, bool]] = Counter()
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
        old = any(batch.magic < 2 for batch in sound)
        if isinstance(loaded, Refused):
            # 4.x then reads the wrappers before the cut, and stops at one that it cannot read.
            verdict["stopped" if old and unreadable(data, sound) else "refused", old] += 1
        else:
            expected = sound[-1].position + sound[-1].size if sound else 0
            assert log.stat().st_size == expected, what
            verdict["cut" if expected < len(data) else "whole", old] += 1
        shutil.rmtree(directory)
    for old, least in ((False, CASES // 10), (True, CASES // 4)):
        assert verdict["cut", old] > least, verdict
        assert verdict["whole", old] > CASES // 10, verdict
    assert verdict["refused", False] + verdict["refused", True] < CASES // 10, verdict
    assert (verdict["stopped", True] > 0) == (version >= "4"), verdict
