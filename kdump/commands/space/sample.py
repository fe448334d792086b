"""The compression of a topic by a sample of its batches, and what zstd would make of them.

A sample has places that are spread evenly over the bytes of the topic's logs. Each place has the
batches from there on, so that a batch is as likely in the sample as it is large. Their records are
compressed anew, batch by batch, at the level that is Kafka's default. A topic with small logs is
read as a whole.

Spec: ``LogValidator``, which compresses each batch of a producer as one batch; ``compression.type``
and ``compression.zstd.level`` of topics, 3 by default (``CompressionType.ZSTD``);
``ZstdOutputStreamNoFinalizer`` for the structure of what Kafka writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from statistics import fmean, stdev
from typing import Final

import zstandard

from kdump.errors import DecodeError, LimitError, SourceError
from kdump.format import legacy
from kdump.format.batch import HEADER_BYTES, RecordBatch, record_block
from kdump.format.codecs import Codec
from kdump.format.index import OffsetIndex
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment, read_partition
from kdump.storage.paths import AnyPath
from kdump.storage.source import Source, source_error
from kdump.storage.throttle import Pace, use_idle_io
from kdump.storage.walk import batch_bytes, sound_batch
from kdump.values import frozen

#: The places of a sample, and the bytes of batches at each; a larger batch is a place by itself.
PLACES: Final = 32
_PLACE_BYTES: Final = 128 << 10
#: Of a topic whose logs are not larger, all is read.
WHOLE_BYTES: Final = PLACES * _PLACE_BYTES
#: No place is begun once a sample has so many bytes, as it may with large batches.
_MOST_BYTES: Final = 32 << 20
#: The most bytes to which a batch may decompress; it is left out otherwise.
_MOST_BLOCK_BYTES: Final = 32 << 20
_COMPRESSOR: Final = zstandard.ZstdCompressor(level=3, write_content_size=False)
_ENTRY: Final = OffsetIndex.ENTRY_BYTES
_NO_ENTRY: Final = 2**63


@frozen
class SampleTask:
    """A topic, and the places of its sample.

    A place is the path of a partition, and how far into the bytes of its logs: 0 to 1, None for all
    of them.
    """

    topic: str
    places: tuple[tuple[AnyPath, float | None], ...]


@frozen
class TopicSample:
    """The compression of a topic by a sample of ``bytes`` in ``batches``.

    ``types`` are the parts of these bytes by compression type, which add up to 1. ``ratio`` is that
    of uncompressed to stored bytes, headers included, and ``zstd`` that of the bytes that zstd
    would make of them to the stored ones. ``error`` is twice the standard error of ``zstd``: 0 if
    all was read, None if it is unknown. ``unread`` batches cannot be decompressed.
    """

    bytes: int
    batches: int
    types: Mapping[str, float]
    ratio: float
    zstd: float
    error: float | None
    unread: int


@dataclass(slots=True)
class _Place:
    """The sums over the batches at one place, in bytes."""

    stored: int = 0
    uncompressed: int = 0
    zstd: int = 0
    batches: int = 0
    unread: int = 0
    types: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def sample_task(topic: str, logs: Iterable[tuple[AnyPath, int]]) -> SampleTask:
    """Return the places of a topic, whose partitions have ``logs`` of so many bytes.

    They are the same each time for the same logs.
    """
    ordered = sorted((each for each in logs if each[1]), key=lambda each: str(each[0]))
    ends = list(accumulate(size for _, size in ordered))
    if not ends or ends[-1] <= WHOLE_BYTES:
        return SampleTask(topic, tuple((path, None) for path, _ in ordered))
    random = Random(topic)
    found = []
    for number in range(PLACES):
        at = (number + random.random()) * ends[-1] / PLACES
        index = min(bisect_right(ends, at), len(ends) - 1)
        path, size = ordered[index]
        found.append((path, min((at - ends[index] + size) / size, 1.0)))
    # Those that are left out in the end, because batches are large, are anywhere.
    random.shuffle(found)
    return SampleTask(topic, tuple(found))


def read_sample(task: SampleTask, pace: Pace | None = None) -> TopicSample | None:
    """Return the sample of a topic, None if no batch could be read. Runs in a task."""
    if pace is not None:
        use_idle_io()
    reader = _Reader(pace)
    places: list[_Place] = []
    whole = True
    for path, fraction in task.places:
        if sum(place.stored for place in places) >= _MOST_BYTES:
            whole = False
            break
        try:
            places += reader.all_of(path) if fraction is None else reader.at(path, fraction)
        except SourceError:  # a broker has deleted it, or measuring has said it
            whole = False
    unread = sum(place.unread for place in places)
    places = [place for place in places if place.stored]
    if not places:
        return None
    if all(fraction is None for _, fraction in task.places):
        total = _sum(places)
        return _sample([total], total, 0.0 if whole else None, unread)
    rates = [place.zstd / place.stored for place in places]
    error = 2 * stdev(rates) / len(rates) ** 0.5 if len(rates) > 1 else None
    return _sample(places, _sum(places), error, unread)


def _sum(places: Sequence[_Place]) -> _Place:
    total = _Place()
    for place in places:
        total.stored += place.stored
        total.uncompressed += place.uncompressed
        total.zstd += place.zstd
        total.batches += place.batches
        for label, size in place.types.items():
            total.types[label] += size
    return total


def _sample(
    places: Sequence[_Place], total: _Place, error: float | None, unread: int
) -> TopicSample:
    """Return the means over ``places``, each of which stands for as many bytes of the topic."""
    shares = {
        label: fmean(place.types.get(label, 0) / place.stored for place in places)
        for label in sorted(total.types)
    }
    return TopicSample(
        total.stored,
        total.batches,
        dict(sorted(shares.items(), key=lambda pair: -pair[1])),
        fmean(place.uncompressed / place.stored for place in places),
        fmean(place.zstd / place.stored for place in places),
        error,
        unread,
    )


class _Reader:
    """Reads places of logs, past the page cache where the file system can; ``pace`` is the rate."""

    def __init__(self, pace: Pace | None) -> None:
        self._pace = pace
        self._partitions: dict[AnyPath, tuple[Sequence[Segment], list[int]]] = {}

    def all_of(self, path: AnyPath) -> Iterator[_Place]:
        """Yield the batches of a partition. Raise SourceError."""
        segments, _ = self._listed(path)
        for segment in segments:
            with self._open(segment, sealed=segment is not segments[-1]) as source:
                yield _read(source, segment.base_offset, 0, _MOST_BYTES)

    def at(self, path: AnyPath, fraction: float) -> Iterator[_Place]:
        """Yield the batches at one place in the logs of a partition. Raise SourceError."""
        segments, ends = self._listed(path)
        if not ends or not ends[-1]:
            return
        at = fraction * ends[-1]
        number = min(bisect_right(ends, at), len(ends) - 1)
        segment = segments[number]
        before = ends[number - 1] if number else 0
        start = self._batch_before(segment, int(at) - before)
        with self._open(segment, sealed=number < len(segments) - 1) as source:
            if start and sound_batch(source, segment.base_offset, start) is None:
                start = 0  # the index is damaged
            yield _read(source, segment.base_offset, start, _PLACE_BYTES)

    def _listed(self, path: AnyPath) -> tuple[Sequence[Segment], list[int]]:
        """Return the segments of a partition, and how many bytes they have up to each of them."""
        if path not in self._partitions:
            segments = read_partition(path).segments
            try:
                sizes = [segment.log.stat().st_size for segment in segments]
            except OSError as error:
                raise source_error(path, error) from error
            self._partitions[path] = segments, list(accumulate(sizes))
        return self._partitions[path]

    def _batch_before(self, segment: Segment, position: int) -> int:
        """Return where the last batch begins, of those in the offset index, up to ``position``."""
        if segment.index is None:
            return 0
        with open_source(segment.index, mapped=False, window_bytes=_ENTRY) as source:

            def position_at(number: int) -> int:
                entry = bytes(source.window(number * _ENTRY, _ENTRY)[:_ENTRY])
                # Zeros are room for entries.
                return int.from_bytes(entry[4:], "big") if any(entry) else _NO_ENTRY

            entries = range(source.size // _ENTRY)
            number = bisect_right(entries, position, key=position_at)
            return position_at(number - 1) if number else 0

    def _open(self, segment: Segment, *, sealed: bool) -> Source:
        return open_source(
            segment.log, mapped=False, sealed=sealed, pace=self._pace, window_bytes=_PLACE_BYTES
        )


def _read(source: Source, base_offset: int, start: int, most_bytes: int) -> _Place:
    """Return the sums over the sound batches from ``start`` on, up to the first that is not.

    They end after ``most_bytes``. Raise SourceError.
    """
    place, position = _Place(), start
    while place.stored < most_bytes:
        batch = sound_batch(source, base_offset, position)
        if batch is None:
            break
        _add(place, batch, source)
        position += batch.size
    return place


def _add(place: _Place, batch: RecordBatch, source: Source) -> None:
    """Add a batch. Raise SourceError.

    Brokers compress no control batch, and message formats v0 and v1 have no zstd: these keep their
    size, and so do batches without records.
    """
    read = record_block if batch.magic > 1 else legacy.record_block
    try:
        block = read(batch, batch_bytes(source, batch, _MOST_BLOCK_BYTES), _MOST_BLOCK_BYTES)
    except (DecodeError, LimitError):
        place.unread += 1
        return
    uncompressed = zstd = batch.size
    if batch.magic > 1:
        uncompressed = HEADER_BYTES + len(block)
    elif batch.codec is not Codec.NONE:
        uncompressed = len(block)
    if batch.magic > 1 and not batch.is_control and len(block):
        zstd = HEADER_BYTES + _zstd_bytes(block)
    place.stored += batch.size
    place.uncompressed += uncompressed
    place.zstd += zstd
    place.batches += 1
    place.types[batch.codec.label] += batch.size


def _zstd_bytes(block: memoryview) -> int:
    """Return the size that records have once Kafka has compressed them.

    It does not tell the library beforehand how many bytes come, and flushes before the end.
    """
    stream = _COMPRESSOR.compressobj()
    size = len(stream.compress(block))
    size += len(stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    return size + len(stream.flush())
