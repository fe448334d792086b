"""Partitions of old messages whose keys are all there and all different.

A cleaner finds nothing in them to take away. What is drawn from a seed is built with ``forge``
alone; what real brokers wrote keeps its bytes, without the messages and wrappers that repeat a key.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from support import forge, messages
from support.resealing import places

Logs = dict[int, bytes]
"""Logs by their base offsets."""

CREATE_TIME, LOG_APPEND_TIME = 0, 8
SEGMENTS = 4
UNITS = 12
MOST_INSIDE = 6
LEGACY_CODECS = ("gzip", "snappy", "lz4")
#: No time, the earliest, one long ago and one far ahead: deltas of all lengths.
TIMES = (-1, 0, 1_000_000, forge.TIMESTAMP, 1 << 42, 1 << 60)


def forged(seed: int, *, tombstones: bool = False, codecs: tuple[str, ...] = LEGACY_CODECS) -> Logs:
    """Several logs of messages, wrappers with these codecs if any, and batches of magic 2.

    The last one is empty, as a broker leaves its active one when it has just rolled.
    """
    return _Forging(random.Random(seed), codecs, tombstones).logs()


class _Forging:
    """What is drawn for one partition."""

    def __init__(self, rng: random.Random, codecs: tuple[str, ...], tombstones: bool) -> None:
        self._rng = rng
        self._codecs = codecs
        self._tombstones = tombstones
        self._offset = rng.choice((0, 0, 5, 1 << 33))
        self._keys = 0

    def logs(self) -> Logs:
        made = {}
        for _ in range(SEGMENTS):
            base = self._offset
            units = [self._wrapper_at_zero()] if base == 0 and self._codecs else []
            units += [self._unit() for _ in range(self._rng.randint(UNITS // 2, UNITS))]
            made[base] = forge.segment(units)
            # The next one may begin behind a gap.
            self._offset += self._rng.choice((0, 0, 1000))
        return made | {self._offset: b""}

    def _unit(self) -> bytes:
        kinds = [self._message, self._message, self._batch]
        if self._codecs:
            kinds += [self._wrapper, self._wrapper]
        return self._rng.choice(kinds)()

    def _message(self) -> bytes:
        magic = self._rng.randrange(2)
        attributes = self._rng.choice((CREATE_TIME, LOG_APPEND_TIME)) if magic else CREATE_TIME
        (offset,) = self._offsets(1)
        return self._inner(offset, magic, self._time(attributes), attributes)

    def _wrapper(self) -> bytes:
        """With gaps inside, or with messages of the other format (KAFKA-4298).

        Not so under LogAppendTime: the cleaner gives the wrapper's time to messages inside that
        have none, where kdump keeps that they have none.
        """
        magic = self._rng.randrange(2)
        attributes = self._rng.choice((CREATE_TIME, LOG_APPEND_TIME)) if magic else CREATE_TIME
        outer_time = self._time(attributes)
        offsets = self._offsets(self._rng.randint(1, MOST_INSIDE))
        # Before 0.11 brokers left the bit inside unset.
        inside = attributes * self._rng.randrange(2)
        inner = []
        for offset in offsets:
            kept = attributes == LOG_APPEND_TIME or self._rng.random() < 0.9
            inner_magic = magic if kept else 1 - magic
            place = offset - offsets[0] if magic else offset
            inner.append(self._inner(place, inner_magic, self._time(inside), inside * inner_magic))
        return forge.wrapper(
            offsets[-1],
            inner,
            codec=self._rng.choice(self._codecs),
            magic=magic,
            timestamp=outer_time,
            attributes=attributes,
        )

    def _wrapper_at_zero(self) -> bytes:
        """As an old librdkafka sent it: offset 0 outside, and inside they begin there."""
        inner = [self._inner(offset, 1, self._time(CREATE_TIME), 0) for offset in range(3)]
        self._offset = 3
        return forge.wrapper(0, inner, codec=self._rng.choice(self._codecs))

    def _batch(self) -> bytes:
        offsets = self._offsets(self._rng.randint(1, MOST_INSIDE))
        producer = self._rng.choice((-1, 7))
        records = [
            forge.record(
                self._value(),
                self._key(),
                [(b"name", self._value())] * self._rng.randrange(2),
                offset_delta=offset - offsets[0],
                timestamp=forge.TIMESTAMP + self._rng.randrange(1000),
            )
            for offset in offsets
        ]
        return forge.batch(
            offsets[0],
            records,
            codec=self._rng.choice(("none", *self._codecs)),
            producer_id=producer,
            producer_epoch=min(producer, 0),
            base_sequence=min(producer, 0),
            leader_epoch=0,
        )

    def _inner(self, offset: int, magic: int, timestamp: int, attributes: int) -> bytes:
        return forge.message(
            offset,
            self._value(),
            self._key(),
            magic=magic,
            timestamp=timestamp,
            attributes=attributes,
        )

    def _offsets(self, count: int) -> list[int]:
        """Offsets of neighbours, some with gaps before them."""
        offsets = []
        for _ in range(count):
            self._offset += self._rng.choice((0, 0, 0, 1, 70, 9000))
            offsets.append(self._offset)
            self._offset += 1
        return offsets

    def _time(self, attributes: int) -> int:
        # A broker that stamps messages has a time.
        times = TIMES[3:4] if attributes == LOG_APPEND_TIME else TIMES
        chosen = self._rng.choice(times)
        return chosen if chosen == -1 else chosen + self._rng.randrange(100_000)

    def _key(self) -> bytes:
        """Empty for the first; of one length or another, so that their lengths' varints differ."""
        self._keys += 1
        number = self._keys
        return b"" if number == 1 else b"%d" % number + b"-" * self._rng.choice((0, 60, 61, 9000))

    def _value(self) -> bytes | None:
        if self._tombstones and self._rng.random() < 0.2:
            return None
        return self._rng.randbytes(self._rng.choice((0, 1, 20, 63, 64, 500)))


def drawn(partition: Path) -> Logs:
    """What a real broker wrote of magic 0 and 1, without what repeats a key or has none.

    Logs of which nothing is left are left out, and an empty one goes behind all.
    """
    seen: set[bytes | None] = {None}
    made: Logs = {}
    end = 0
    for log in sorted(partition.glob("*.log")):
        kept = [(data, unit) for data, unit in _units(log.read_bytes()) if _is_new(unit, seen)]
        if kept:
            made[int(log.stem)] = forge.segment(data for data, _ in kept)
            *_, (last, *_) = kept[-1][1].records()
            end = last + 1
    return made | {end: b""} if made else {}


def _units(content: bytes) -> Iterator[tuple[bytes, messages.Unit]]:
    for start, end in places(content):
        for unit in messages.units(content[start:end]):
            yield content[start:end], unit


def _is_new(unit: messages.Unit, seen: set[bytes | None]) -> bool:
    """Whether its keys are none of those ``seen``, which they then are."""
    keys = [key for _, _, _, key, _ in unit.records()]
    new = seen.isdisjoint(keys) and len(set(keys)) == len(keys)
    if new:
        seen.update(keys)
    return new
