"""walk(): every byte in exactly one piece, sound batches as the broker has them, and resync."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.kernel import headers as _headers
from kdump.storage.walk import (
    HUNTING_BOUND,
    HUNTING_FLOOR,
    WINDOW_BYTES,
    Damage,
    Reason,
    first_batch,
    walk,
)
from support.forge import CODECS, batch, flip, message, record, segment
from support.memory import MemorySource, assert_tiles, batches, damages, pieces

WINDOWS = (None, 61, 100, 1000)


def small_segment(codec: str = "none", base: int = 0, count: int = 4) -> list[bytes]:
    return [
        batch(
            base + 3 * index,
            [record(f"value {index}.{i}".encode() * 3, b"key") for i in range(3)],
            codec=codec,
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("codec", CODECS)
def test_sound_segment_is_its_batches(codec: str, window: int | None) -> None:
    parts = small_segment(codec, base=700)
    found = batches(segment(parts), 700, window)
    assert [b.size for b in found] == [len(part) for part in parts]
    assert [(b.base_offset, b.last_offset, b.count) for b in found] == [
        (700, 702, 3),
        (703, 705, 3),
        (706, 708, 3),
        (709, 711, 3),
    ]
    assert {b.codec.label for b in found} == {codec}


def test_empty_file_has_no_pieces() -> None:
    assert pieces(b"") == []


def test_tables_are_bounded() -> None:
    data = segment([batch(offset, [record()]) for offset in range(9000)])
    found = pieces(data)
    assert [len(piece) for piece in found if isinstance(piece, BatchTable)] == [8192, 808]
    assert_tiles(data, found)


@pytest.mark.parametrize("window", WINDOWS)
def test_damage_inside_goes_on_at_the_claimed_end(window: int | None) -> None:
    parts = small_segment()
    data = flip(segment(parts), len(parts[0]) + 70)
    found = pieces(data, 0, window)
    assert_tiles(data, found)
    assert [p.size for p in found if isinstance(p, Damage)] == [len(parts[1])]
    tables = [p for p in found if isinstance(p, BatchTable)]
    assert [b.base_offset for t in tables for b in t] == [0, 6, 9]
    assert not any(table.hunted for table in tables)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", [0, -1, 13, 14, 48, 50, 2**31 - 1, -(2**31)])
def test_false_length_is_hunted_over(length: int, window: int | None) -> None:
    parts = small_segment()
    bad = batch(3, [record(b"x" * 40)], length=length)
    data = segment([parts[0], bad, *parts[2:]])
    found = pieces(data, 0, window)
    assert_tiles(data, found)
    (damage,) = [piece for piece in found if isinstance(piece, Damage)]
    assert (damage.position, damage.size) == (len(parts[0]), len(bad))
    assert damage.claimed_bytes == length + 12
    tables = [piece for piece in found if isinstance(piece, BatchTable)]
    assert [b.base_offset for table in tables for b in table] == [0, 6, 9]
    assert next(table.hunted for table in tables if table.position > damage.position)
    expected = Reason.BAD_CHECKSUM if length in (50,) else Reason.IMPOSSIBLE_SIZE
    assert damage.reason is expected


def nested(outer_base: int, inner_base: int) -> bytes:
    """A batch whose values hold whole batches, as a mirror or a backup might."""
    inner = [batch(inner_base + i, [record(b"inner")]) for i in range(3)]
    return batch(outer_base, [record(b"".join(inner)), record(inner[0]), record(segment(inner))])


@pytest.mark.parametrize("window", WINDOWS)
def test_resync_never_takes_a_batch_inside_a_value(window: int | None) -> None:
    """The claimed length is tried first, so the inner batches, though sound, are not reached."""
    outer = nested(1, inner_base=5)
    data = segment([batch(0, [record()]), flip(outer, 61 + 3), batch(4, [record(b"next")])])
    found = batches(data, 0, window)
    assert [b.base_offset for b in found] == [0, 4]
    (damage,) = damages(data, 0, window)
    assert damage.size == len(outer)


def test_last_batch_damaged_with_batches_inside() -> None:
    """A record ends with its headers, so a batch that ends with the file is not inside a value."""
    data = segment([batch(0, [record()]), flip(nested(1, inner_base=5), 63)])
    assert [b.base_offset for b in batches(data)] == [0]
    assert [d.reason for d in damages(data)] == [Reason.BAD_CHECKSUM]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("after", [bytes(1), bytes(100_000), small_segment(base=12)[0][:61]])
def test_the_last_batch_is_found_behind_a_lost_header(after: bytes, window: int | None) -> None:
    """Zeros of preallocation, or a batch that is not there as a whole, may follow it."""
    parts = small_segment()
    data = segment([*parts[:2], bytes(len(parts[2])), parts[3]]) + after
    assert_tiles(data, pieces(data, 0, window))
    assert [b.base_offset for b in batches(data, 0, window)] == [0, 3, 9]


@pytest.mark.parametrize("room", [1, 100_000])
def test_a_batch_at_the_end_of_the_last_record_is_inside_it(room: int) -> None:
    """The record ends with its count of headers, which may be a zero before zeros."""
    outer = batch(1, [record(batch(5, [record(b"inner")]))])
    data = segment([batch(0, [record()]), flip(outer, 63)]) + bytes(room)
    assert [b.base_offset for b in batches(data)] == [0]


def test_candidates_before_the_same_zeros_do_not_read_them_again() -> None:
    """A hunt reads no more than a few times what it passes."""
    inner = b""
    for offset in range(300, 0, -1):
        inner = batch(offset, [record(inner)])
    start = 61 + len(inner) + (1 << 19)
    asked = []

    class Counted(MemorySource):
        def window(self, position: int, at_least: int = 1) -> memoryview:
            asked.append(position)
            return super().window(position, at_least)

    data = bytes(61) + inner + bytes(1 << 20) + b"\1"
    assert list(walk(Counted(data, 1 << 16), 0))
    # 8 windows of the second half of the zeros, at the sight of each of 300 candidates or once.
    assert 8 <= sum(position >= start for position in asked) < 40


def test_inner_batches_reached_by_hunting_are_marked() -> None:
    outer = nested(1, inner_base=5)
    torn_length = outer[:8] + (10**6).to_bytes(4, "big") + outer[12:]
    data = segment([batch(0, [record()]), torn_length, batch(50, [record(b"next")])])
    found = pieces(data)
    assert_tiles(data, found)
    hunted = [p for p in found if isinstance(p, BatchTable) and p.position > 0]
    assert hunted
    assert all(table.hunted for table in hunted)


def test_offsets_that_do_not_fit_are_not_resynced_to() -> None:
    """Behind damage only offsets above the last sound one, within 2^31-1 of the base, count."""
    before = batch(10, [record()])
    bad = batch(11, [record(b"x" * 30)], length=0)
    low = batch(9, [record(b"old copy")])
    high = batch(10 + 2**31, [record(b"beyond")])
    good = batch(12, [record(b"next")])
    data = segment([before, bad, low, high, good])
    assert [b.base_offset for b in batches(data, 10)] == [10, 12]


def test_torn_tail_and_preallocated_zeros_are_told_apart() -> None:
    parts = small_segment()
    data = segment(parts)
    assert [d.reason for d in damages(data[:-1])] == [Reason.TORN_TAIL]
    assert [d.reason for d in damages(data + parts[0][:12])] == [Reason.TORN_TAIL]
    zeros = damages(data + bytes(100_000))
    assert [(d.reason, d.size) for d in zeros] == [(Reason.PREALLOCATED, 100_000)]
    assert [d.reason for d in damages(bytes(70))] == [Reason.PREALLOCATED]


def test_zeros_between_sound_batches_are_no_preallocation() -> None:
    parts = small_segment()
    data = segment([*parts[:2], bytes(4096), *parts[2:]])
    found = pieces(data)
    assert_tiles(data, found)
    (damage,) = [piece for piece in found if isinstance(piece, Damage)]
    assert (damage.reason, damage.size) == (Reason.IMPOSSIBLE_SIZE, 4096)


def test_legacy_messages_are_checked_by_their_own_checksum() -> None:
    parts = [message(0, magic=0), message(1, magic=1, timestamp=5), batch(2, [record()])]
    found = batches(segment(parts))
    assert [(b.base_offset, b.magic, b.max_timestamp) for b in found[:2]] == [(0, 0, -1), (1, 1, 5)]
    (damage,) = damages(flip(segment(parts), len(parts[0]) + 20))
    assert damage.reason is Reason.BAD_CHECKSUM
    assert damage.position == len(parts[0])


@pytest.mark.parametrize("magic", [3, 77, 127])
def test_any_magic_above_two_is_sound_as_for_the_broker(magic: int) -> None:
    assert [b.magic for b in batches(batch(0, [record()], magic=magic))] == [magic]


def test_batch_larger_than_a_window_is_checksummed_piecewise() -> None:
    large = batch(0, [record(random.Random(1).randbytes(3 * WINDOW_BYTES))])
    data = segment([large, batch(1, [record()])])
    source = MemorySource(data, 4096)
    found = [b.size for p in walk(source, 0) if isinstance(p, BatchTable) for b in p]
    assert found == [len(large), len(data) - len(large)]
    damaged = damages(flip(data, len(large) // 2), 0, 4096)
    assert [(d.position, d.size) for d in damaged] == [(0, len(large))]


def test_nothing_but_plausible_headers_stays_linear() -> None:
    """Each header claims all the rest of the file, so each candidate would cost the whole file."""

    def header_only(left: int) -> bytes:
        return batch(1, [record()], length=left - 12)[:61]

    def build(count: int) -> bytes:
        return b"".join(header_only((count - index) * 61) for index in range(count))

    data = build(4000)
    source = MemorySource(data, 1 << 16)
    (damage,) = list(walk(source, 0))
    assert isinstance(damage, Damage)
    assert damage.size == len(data)
    assert source.bytes_handed < (HUNTING_BOUND + 4) * len(data) + HUNTING_FLOOR + 40 * (1 << 16)

    started = time.process_time()
    assert len(pieces(build(16_000))) == 1
    assert time.process_time() - started < 20


def test_batches_that_claim_all_the_rest_stay_linear() -> None:
    """Each claim costs a checksum of all the rest, and a sound batch follows it all the same."""
    data = b""
    for offset in range(6000, 0, -2):
        data = batch(offset + 1, [record()]) + data
        data = batch(offset, length=48 + len(data)) + data  # ends one byte before the file
    source = MemorySource(data, 1 << 16)
    assert_tiles(data, list(walk(source, 0)))
    assert source.bytes_handed < 10 * HUNTING_BOUND * len(data)


def test_damage_after_damage_stays_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that were scanned after a bad one are scanned again: a few at a time."""
    data = segment(
        batch(offset, [record(b"y" * 700)])
        if offset % 4
        else flip(batch(offset, [record(b"x" * 1200)]), 100)
        for offset in range(16_000)
    )
    scan, rows = _headers.scan_headers, [0]

    def counted(*arguments: Any) -> tuple[int, int, int]:
        found: tuple[int, int, int] = scan(*arguments)
        rows[0] += found[0]
        return found

    monkeypatch.setattr(_headers, "scan_headers", counted)
    assert len(damages(data)) == 4000
    assert rows[0] < 10 * 16_000


def test_lowest_possible_base_offset() -> None:
    """As the name of a file that is read by itself may have it."""
    bad = batch(0, [record(b"x" * 30)], length=0)
    assert [d.size for d in damages(bad, -(2**63))] == [len(bad)]


def test_a_flipped_base_offset_does_not_hide_what_follows_damage() -> None:
    """No checksum covers it, so the last sound offset may be far too high."""
    parts = [batch(i, [record(b"value")]) for i in range(10)]
    parts[1] = flip(parts[1], 4, 0x40)
    parts[2] = flip(parts[2], 70)
    found = batches(segment(parts))
    assert [b.base_offset for b in found] == [0, 1 + 2**30, *range(3, 10)]


@pytest.mark.parametrize("window", WINDOWS)
def test_many_damaged_batches_do_not_use_up_the_bound(window: int | None) -> None:
    """Going on at a claimed end is progress; only looking in vain is bounded."""
    parts = [batch(i, [record()]) for i in range(20_000 if window is None else 2_000)]
    data = segment(flip(part, 70) if i % 2 else part for i, part in enumerate(parts))
    found = pieces(data, 0, window)
    assert_tiles(data, found)
    assert sum(len(piece) for piece in found if isinstance(piece, BatchTable)) == len(parts) // 2
    assert sum(isinstance(piece, Damage) for piece in found) == len(parts) // 2


def test_highest_possible_base_offset() -> None:
    """The last offset that a segment may hold lies beyond the last that there is."""
    base = 2**63 - 2  # also a file so small that looking at one candidate exceeds its size
    good = batch(base, [record()])
    data = segment([batch(base, [record(b"x" * 30)], length=0), good])
    assert [b.base_offset for b in batches(data, base)] == [base]
    assert pieces(b"\x02" * 500, 2**63 - 1) == pieces(b"\x02" * 500, 0)


SEGMENT = segment(small_segment() + small_segment("zstd", base=12) + [nested(24, 40)])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(SEGMENT) - 1), st.integers(1, 255)), max_size=6),
    st.integers(0, len(SEGMENT)),
    st.binary(max_size=80),
    st.sampled_from(WINDOWS),
)
def test_any_bytes_tile(
    flips: list[tuple[int, int]], cut: int, tail: bytes, window: int | None
) -> None:
    data = bytearray(SEGMENT)
    for position, mask in flips:
        data[position] ^= mask
    changed = bytes(data[:cut]) + tail
    assert_tiles(changed, pieces(changed, 0, window))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 2**40), st.sampled_from(WINDOWS))
def test_noise_tiles(data: bytes, base: int, window: int | None) -> None:
    assert_tiles(data, pieces(data, base, window))


def test_window_size_does_not_change_what_is_found() -> None:
    rng = random.Random(7)
    for _ in range(60):
        data = bytearray(SEGMENT)
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        segment = bytes(data)
        expected: list[RecordBatch] = batches(segment)
        for window in (61, 90, 500, 5000):
            assert batches(segment, 0, window) == expected
            assert damages(segment, 0, window) == damages(segment)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_walk_from_any_batch_finds_what_the_whole_walk_finds_from_there(
    window: int | None,
) -> None:
    rng = random.Random(11)
    for _ in range(30):
        data = bytearray(SEGMENT)
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        segment = bytes(data)
        sound, damaged = batches(segment, 0, window), damages(segment, 0, window)
        for start in sound:
            found = list(walk(MemorySource(segment, window), 0, start.position))
            tables = [piece for piece in found if isinstance(piece, BatchTable)]
            assert [b for table in tables for b in table] == sound[sound.index(start) :]
            assert [piece for piece in found if isinstance(piece, Damage)] == [
                damage for damage in damaged if damage.position > start.position
            ]


@pytest.mark.parametrize("codec", CODECS)
def test_the_first_batch_by_its_header_and_the_next(codec: str) -> None:
    parts = small_segment(codec, base=700)
    for data in (segment(parts), parts[0], flip(segment(parts), 80)):  # records are not looked at
        found = first_batch(MemorySource(data), 700)
        assert found is not None
        assert (found.base_offset, found.last_offset, found.size) == (700, 702, len(parts[0]))
    zeros = bytes(100)
    for data in (
        b"",
        zeros,
        parts[0][:-1],
        parts[0] + zeros,
        parts[0] + parts[0],
        flip(segment(parts), 10),
        flip(segment(parts), 16, 0x40),
    ):
        assert first_batch(MemorySource(data), 700) is None, data[:20]
    assert first_batch(MemorySource(segment(parts)), 701) is None
    assert first_batch(MemorySource(message(5, b"v", magic=1) + message(6, b"v")), 5) is not None


def test_of_the_first_batch_two_pieces_are_read() -> None:
    data = segment([batch(offset, [record(b"x" * 100_000)]) for offset in range(3)])
    source = MemorySource(data, 100)
    assert first_batch(source, 0) is not None
    assert 0 < source.bytes_handed <= 400
