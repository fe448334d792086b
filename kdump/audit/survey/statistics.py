"""Statistics of batches from their headers, many batches at a time, and of the reading itself."""

from __future__ import annotations

import socket
import time
from array import array
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Final

from kdump.format.batch import BatchTable
from kdump.format.codecs import Codec
from kdump.format.kernel import select as _select
from kdump.format.lines.forms import codec_label
from kdump.format.records import CODEC_NUMBERS, BlockSizes
from kdump.values import frozen

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
#: The fields of the kernel's state that do not add up.
_LOWEST_FIELDS: Final = (_select.S_FIRST_OFFSET, _select.S_FIRST_TIMESTAMP, _select.S_SMALLEST)
_HIGHEST_FIELDS: Final = (_select.S_LAST_OFFSET, _select.S_LAST_TIMESTAMP, _select.S_LARGEST)


@frozen
class CodecTotals:
    """The batches of one codec.

    ``stored_bytes`` is the size of their records in the file. ``uncompressed_bytes`` and ``ratio``
    (uncompressed to stored) leave out batches that were not decompressed; ``ratio`` is None if none
    was.
    """

    codec: str
    batches: int
    records: int
    stored_bytes: int
    uncompressed_bytes: int
    ratio: float | None


class BatchSums:
    """The sums over tables of batches.

    ``blocks`` has the sizes of the compressed batches that were decompressed. ``wrapped`` counts by
    codec the records in wrappers of magic 0 and 1, of which headers know nothing.
    """

    __slots__ = ("blocks", "state", "wrapped")

    def __init__(self) -> None:
        self.blocks = BlockSizes()
        self.wrapped = array("q", bytes(8 * CODEC_NUMBERS))
        self.state = array("q", bytes(8 * _select.SUM_FIELDS))
        for field in _LOWEST_FIELDS:
            self.state[field] = _HIGHEST
        for field in (_select.S_LAST_OFFSET, _select.S_LAST_TIMESTAMP):
            self.state[field] = _LOWEST

    def add(self, table: BatchTable) -> None:
        """Add the batches of ``table``."""
        _select.sum_batches(table.rows, self.state)

    def merge(self, other: BatchSums) -> None:
        """Add the batches of ``other``."""
        self.blocks.merge(other.blocks)
        state = self.state
        for codec, records in enumerate(other.wrapped):
            self.wrapped[codec] += records
        for field, value in enumerate(other.state):
            if field in _LOWEST_FIELDS:
                state[field] = min(state[field], value)
            elif field in _HIGHEST_FIELDS:
                state[field] = max(state[field], value)
            else:
                state[field] += value

    @property
    def batches(self) -> int:
        """The number of batches."""
        return self.state[_select.S_BATCHES]

    @property
    def compressed(self) -> int:
        """The number of compressed batches."""
        return self.batches - self.state[_select.S_CODECS]

    @property
    def transactional(self) -> int:
        """The number of batches that belong to transactions, markers among them."""
        return self.state[_select.S_TRANSACTIONAL]

    @property
    def records(self) -> int:
        """The number of records by headers, and of those in wrappers that were read."""
        return self.state[_select.S_RECORDS] + sum(self.wrapped)

    @property
    def timestamps(self) -> tuple[int, int] | None:
        """The lowest timestamp of a batch's first record, and the highest, in ms."""
        last = self.state[_select.S_LAST_TIMESTAMP]
        return None if last < 0 else (min(self.state[_select.S_FIRST_TIMESTAMP], last), last)

    @property
    def batch_bytes(self) -> tuple[int, int, int] | None:
        """The sizes of batches: the smallest, a power of two, the largest.

        At least half of the batches are smaller than the power of two. None without batches.
        """
        if not self.batches:
            return None
        half = (self.batches + 1) // 2
        counts = self.state[_select.S_SIZES : _select.SUM_FIELDS]
        bits = next(bits for bits, reached in enumerate(accumulate(counts)) if reached >= half)
        return self.state[_select.S_SMALLEST], 1 << bits, self.state[_select.S_LARGEST]

    def codecs(self) -> Iterator[CodecTotals]:
        """Yield the totals of each codec that a batch has."""
        numbers = self.state[_select.S_CODECS : _select.S_SIZES]
        for codec, (batches, records, stored) in enumerate(
            zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True)
        ):
            if batches:
                plain = codec == Codec.NONE
                read = stored if plain else self.blocks.stored[codec]
                uncompressed = stored if plain else self.blocks.uncompressed[codec]
                yield CodecTotals(
                    codec_label(codec),
                    batches,
                    records + self.wrapped[codec],
                    stored,
                    uncompressed,
                    uncompressed / read if read else None,
                )


@frozen
class SegmentStatistics:
    """The sums of the batches that were read of one log, by which host, and in which time."""

    host: str
    seconds: float
    sums: BatchSums


class Measurement:
    """The statistics of one pass over a log; the time runs from the creation on."""

    def __init__(self) -> None:
        self.sums = BatchSums()
        self._began = time.perf_counter()

    def finish(self) -> SegmentStatistics:
        """Return the statistics."""
        return SegmentStatistics(_host(), time.perf_counter() - self._began, self.sums)


@cache
def _host() -> str:
    return socket.gethostname()
