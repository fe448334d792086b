"""Random partitions of old formats, the same one for the same seed, and what must be kept of them.

Spec: KOD 3.1, 3.4, 3.5: what brokers of 0.8 to 0.11, their cleaners and their clients left, of
magic 2 too. Built with ``forge`` alone. Imports nothing of kdump.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import snappy

from support import forge

LOG_APPEND_TIME = 8
WRAPPING = ("gzip", "snappy", "lz4")
#: The magics in a segment, the first one in any case; of several they take turns.
_MIXTURES = ((0,), (1,), (1,), (0, 1), (0, 1, 2), (1, 2), (2,))
_LEGACY_MIXTURES = _MIXTURES[:-1]
#: Magic 0 wrote the checksum of its lz4 frames over the frame's magic number too (KAFKA-3160).
_LZ4_DESCRIPTOR, _LZ4_WRONG_CHECKSUM = b"\x60\x40", b"\x1a"


class WrittenRecord(NamedTuple):
    """What must be kept of a record; ``timestamp`` in ms is -1 where there is none."""

    offset: int
    timestamp: int
    appended: bool
    key: bytes | None
    value: bytes | None


class Piece(NamedTuple):
    """A message, a wrapper or a batch as it stands in a log.

    ``records`` are those of a message or a wrapper: a batch of magic 2 is not converted. ``shown``
    are names of the odd things that it shows.
    """

    data: bytes
    magic: int
    codec: str = "none"
    records: tuple[WrittenRecord, ...] = ()
    shown: frozenset[str] = frozenset()

    @property
    def is_legacy(self) -> bool:
        return self.magic < 2

    @property
    def is_wrapper(self) -> bool:
        return self.is_legacy and self.codec != "none"


@dataclass(frozen=True, slots=True)
class Partition:
    """Pieces by the base offsets of their segments, and other files by name."""

    segments: Mapping[int, Sequence[Piece]]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def write(self, log_directory: Path, topic: str) -> Path:
        """Write it as ``<topic>-0`` and return its directory."""
        segments = {base: [piece.data for piece in self.segments[base]] for base in self.segments}
        return forge.write_partition(log_directory, topic, 0, segments, files=self.files)

    def pieces(self) -> Iterator[Piece]:
        """All of all segments, in order."""
        return itertools.chain.from_iterable(self.segments[base] for base in sorted(self.segments))


def forged(seed: int) -> Partition:
    """A partition of one to five segments, some of which hold magic 0 or 1."""
    return _Writer(Random(seed)).partition()


class _Writer:
    """Writes pieces one behind the other; ``offset`` is the next one that is free."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.offset = random.choice((0, 0, 17, 2**31 + 5, 2**40))
        self.now = forge.TIMESTAMP
        self.epoch = 0
        self.producers = itertools.count(1000)
        self.aborted: list[tuple[int, int, int, int]] = []

    def partition(self) -> Partition:
        mixtures = self.random.choices(_MIXTURES, k=self.random.randint(1, 5))
        mixtures[self.random.randrange(len(mixtures))] = self.random.choice(_LEGACY_MIXTURES)
        segments: dict[int, Sequence[Piece]] = {}
        files = {}
        for mixture in mixtures:
            base, self.aborted = self.offset, []
            segments[base] = list(self.segment(mixture))
            if self.aborted:
                files[f"{base:020d}.txnindex"] = forge.txn_index(self.aborted)
        if self.chance(0.1):
            segments[self.offset] = []
        return Partition(segments, files)

    def segment(self, magics: Sequence[int]) -> Iterator[Piece]:
        if self.offset == 0 and magics[0] < 2 and self.chance(0.5):
            yield self.wrapper(magics[0], at_zero=True)
        order = [magics[0], *self.random.choices(magics, k=self.random.randint(0, 9))]
        self.random.shuffle(order)
        for magic in order:
            self.skip()
            if magic == 2:
                yield from self.batches()
            elif self.chance(0.5):
                yield self.wrapper(magic)
            else:
                yield from self.messages(magic)

    # --- magic 0 and 1

    def messages(self, magic: int) -> Iterator[Piece]:
        """Some that are not compressed, one behind the other."""
        appended = magic == 1 and self.chance(0.4)
        holes = self.chance(0.3)
        stamp = self.later()
        for _ in range(self.random.choice((1, 2, 5, 20, 60))):
            if not appended:
                stamp = self.create_time()
            elif self.chance(0.2):
                stamp = self.later()
            key, value = self.content(), self.content()
            data = forge.message(
                self.offset,
                value,
                key,
                magic=magic,
                timestamp=stamp,
                attributes=LOG_APPEND_TIME * appended,
            )
            kept = WrittenRecord(self.offset, stamp if magic else -1, appended, key, value)
            yield Piece(data, magic, "none", (kept,))
            self.offset += self.random.choice((1, 1, 3)) if holes else 1

    def wrapper(self, magic: int, *, at_zero: bool = False) -> Piece:
        """One with some messages inside; ``at_zero``: old librdkafka left its offset at 0."""
        codec = self.random.choice(WRAPPING)
        appended, cleaned = magic == 1 and self.chance(0.4), self.chance(0.3)
        inner_bit = appended and self.chance(0.5)
        mixed = self.chance(0.15)  # by the cleaner of 0.10.0 (KAFKA-4298)
        moment = self.later()
        relative = range(self.random.choice((1, 2, 5, 30)))
        places = [place for place in relative if not (cleaned and self.chance(0.4))] or [
            relative[-1]
        ]
        # The broker counts from the last one, so where the first ones start is of no importance.
        shift = self.offset if magic == 0 or at_zero else self.random.choice((0, 0, -places[0]))
        inner, kept = [], []
        for place in places:
            stamp, key, value = self.create_time(), self.content(), self.content()
            own = self.random.choice((0, 1)) if mixed else magic
            data = forge.message(
                place + shift,
                value,
                key,
                magic=own,
                timestamp=stamp,
                attributes=LOG_APPEND_TIME * (inner_bit and own == 1),
            )
            inner.append(data)
            told = moment if appended else stamp
            offset = self.offset + place
            kept.append(
                WrittenRecord(offset, told if own else -1, appended and own == 1, key, value)
            )
        self.offset = kept[-1].offset + 1
        latest = moment if appended else max(record.timestamp for record in kept)
        data = forge.message(
            0 if at_zero else kept[-1].offset,
            self.compressed(codec, magic, inner),
            magic=magic,
            timestamp=latest,
            attributes=LOG_APPEND_TIME * appended | forge.CODECS.index(codec),
        )
        shown = {
            "at zero": at_zero and len(places) > 1,
            "gaps": any(after - before > 1 for before, after in itertools.pairwise(places)),
            "first cleaned away": places[0] > 0,
            "append time, bit set inside": inner_bit,
            "append time, bit clear inside": appended and not inner_bit,
            "create time": magic == 1 and not appended,
            "append time over magic 0": appended and any(not one.appended for one in kept),
            "other magic inside": any(one[16] != magic for one in inner),
        }
        names = frozenset(name for name, holds in shown.items() if holds)
        return Piece(data, magic, codec, tuple(kept), names)

    def compressed(self, codec: str, magic: int, messages: Sequence[bytes]) -> bytes:
        """A run of messages as one of many clients compressed it."""
        run = b"".join(messages)
        if codec == "gzip" and self.chance(0.3):
            return b"".join(forge.compressed(codec, one) for one in messages)
        if codec == "snappy" and self.chance(0.6):
            small: bytes = forge.xerial(run, 1024)
            return small if self.chance(0.5) else bytes(snappy.compress(run))
        block = forge.compressed(codec, run)
        if codec == "lz4" and magic == 0:
            assert block[4:6] == _LZ4_DESCRIPTOR
            return block[:6] + _LZ4_WRONG_CHECKSUM + block[7:]
        return block

    # --- magic 2

    def batches(self) -> Iterator[Piece]:
        """A batch, or a transaction."""
        self.epoch += self.chance(0.2)
        if self.chance(0.2):
            yield from self.transaction()
            return
        first, last = self.offset, self.offset + self.random.choice((0, 4, 11))
        self.offset = last + 1
        if self.chance(0.1):
            yield Piece(
                forge.batch(
                    first,
                    base_timestamp=-1,
                    max_timestamp=self.later(),
                    last_offset_delta=last - first,
                    leader_epoch=self.epoch,
                ),
                2,
            )
            return
        codec = self.random.choice(forge.CODECS)
        appended = self.chance(0.3)
        stamp = self.later()
        records = [
            forge.record(
                self.content(),
                self.content(),
                self.headers(),
                timestamp=None if appended else self.create_time(),
            )
            for _ in range(first, last + 1)
        ]
        data = forge.batch(
            first,
            records,
            codec=codec,
            base_timestamp=stamp,
            timestamp_type="LogAppendTime" if appended else "CreateTime",
            leader_epoch=self.epoch,
            delete_horizon=not appended and self.chance(0.2),
        )
        yield Piece(data, 2, codec)

    def transaction(self) -> Iterator[Piece]:
        """A batch of a new producer, and the marker that ends it."""
        producer, first, commit = next(self.producers), self.offset, self.chance(0.5)
        records = [forge.record(self.content(), self.content()) for _ in range(3)]
        data = forge.batch(
            first,
            records,
            base_timestamp=self.later(),
            leader_epoch=self.epoch,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        end = first + len(records)
        yield Piece(data, 2)
        yield Piece(
            forge.marker(
                end, producer, commit=commit, timestamp=self.later(), leader_epoch=self.epoch
            ),
            2,
        )
        self.offset = end + 1
        if not commit:
            self.aborted.append((producer, first, end, self.offset))

    # --- what is in records

    def content(self) -> bytes | None:
        """A key or a value."""
        size = self.random.choices((None, 0, 5, 40, 200, 3000, 20_000), (8, 8, 30, 30, 20, 3, 1))[0]
        return (
            None if size is None else self.random.randbytes(size // 2) + b"v" * (size - size // 2)
        )

    def headers(self) -> list[forge.Header]:
        count = self.random.choice((0, 0, 1, 3))
        return [(b"name %d" % number, self.content()) for number in range(count)]

    def create_time(self) -> int:
        """A producer's clock, which may be wrong, or missing."""
        odd = self.random.random()
        return self.later() if odd > 0.1 else -1 if odd < 0.02 else self.now - int(odd * 1_000_000)

    def later(self) -> int:
        """The broker's clock."""
        self.now += self.random.choice((0, 1, 40))
        return self.now

    # --- helpers

    def skip(self) -> None:
        """Leave out offsets, as the cleaner would."""
        self.offset += self.random.choice((0, 0, 0, 1, 7, 100_000))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability
