"""Decompression, bounded and as lax or strict as Kafka's own readers."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import time
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import DecodeError, LimitError
from kdump.format.codecs import Codec, compress, decompress, decompress_frame
from support import forge

MIB = 1024 * 1024
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = " ".join(f"word{random.Random(7).randrange(99)}" for _ in range(300)).encode()
LARGE = random.Random(8).randbytes(100_000) + bytes(400_000)

SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"12345"


def zstd(data: bytes, *, checksum: bool = False, size: bool = False) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size)
    return bytes(compressor.compress(data))


def lz4_frame(data: bytes, **options: bool) -> bytes:
    return bytes(
        lz4.frame.compress(data, **({"block_linked": False, "store_size": False} | options))
    )


XERIAL = forge.xerial(TEXT)
LZ4_HEADER = bytes.fromhex("04224d18604082")
LZ4_CHECKED = lz4_frame(TEXT, content_checksum=True)
ZSTD_CHECKED = zstd(TEXT, checksum=True)


# --- round trips


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"a", TEXT, LARGE], ids=["empty", "one", "text", "large"])
def test_round_trip(codec: Codec, data: bytes) -> None:
    block = compress(codec, data)
    assert decompress(codec, block) == data
    assert decompress(codec, memoryview(b"xx" + block)[2:]) == data
    assert compress(codec, memoryview(data)) == block


@settings(deadline=None)
@given(st.sampled_from(list(Codec)), st.binary(max_size=70_000))
def test_any_data_round_trip(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", TEXT, LARGE], ids=["empty", "text", "large"])
def test_what_the_forge_compresses(codec: Codec, data: bytes) -> None:
    assert decompress(codec, forge.compressed(codec.label, data)) == data


def test_labels_are_kafkas() -> None:
    assert [codec.label for codec in Codec] == list(forge.CODECS)


def test_none_is_not_copied() -> None:
    data = memoryview(TEXT)
    assert decompress(Codec.NONE, data) is data


# --- structure of what is written


def test_snappy_is_written_in_blocks_of_32_kib() -> None:
    block = compress(Codec.SNAPPY, LARGE)
    assert block[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    position, sizes = 16, []
    while position < len(block):
        (size,) = struct.unpack_from(">i", block, position)
        sizes.append(len(snappy.decompress(block[position + 4 : position + 4 + size])))
        position += 4 + size
    assert sizes == [32768] * 15 + [500_000 - 15 * 32768]


def test_lz4_is_written_with_the_header_that_kafka_writes() -> None:
    assert compress(Codec.LZ4, TEXT)[:7] == LZ4_HEADER
    assert compress(Codec.LZ4, TEXT)[-4:] == bytes(4)


def test_zstd_is_written_without_content_size() -> None:
    assert zstandard.frame_content_size(compress(Codec.ZSTD, TEXT)) == -1


# --- what Kafka's readers take

GOOD = {
    "gzip, two members": (Codec.GZIP, gzip.compress(TEXT) + gzip.compress(b"end"), TEXT + b"end"),
    "gzip, garbage behind": (Codec.GZIP, gzip.compress(TEXT) + b"garbage" * 9, TEXT),
    "gzip, zeros behind": (Codec.GZIP, gzip.compress(TEXT) + bytes(40), TEXT),
    "gzip, start of a member behind": (Codec.GZIP, gzip.compress(TEXT) + b"\x1f\x8b\x08", TEXT),
    "gzip, endless name behind": (
        Codec.GZIP,
        gzip.compress(TEXT) + b"\x1f\x8b\x08\x18" + bytes(6) + b"name\0" + b"name" * 40_000,
        TEXT,
    ),
    "gzip, file name": (
        Codec.GZIP,
        b"\x1f\x8b\x08\x08" + bytes(6) + b"name\0" + gzip.compress(TEXT)[10:],
        TEXT,
    ),
    "snappy, raw": (Codec.SNAPPY, snappy.compress(TEXT), TEXT),
    "snappy, raw and short": (Codec.SNAPPY, b"\x01\x00a", b"a"),
    "snappy, header again": (
        Codec.SNAPPY,
        XERIAL + forge.xerial(b"end"),
        TEXT + b"end",
    ),
    "snappy, small blocks": (Codec.SNAPPY, forge.xerial(TEXT, 100), TEXT),
    "snappy, three bytes behind": (Codec.SNAPPY, XERIAL + b"\0\0\1", TEXT),
    "snappy, almost a header behind": (
        Codec.SNAPPY,
        XERIAL + b"\x82SNAxxxxxxxxxxxxxx",
        TEXT,
    ),
    "lz4, content size": (Codec.LZ4, lz4_frame(TEXT, store_size=True), TEXT),
    "lz4, content checksum": (Codec.LZ4, LZ4_CHECKED, TEXT),
    "lz4, wrong content checksum": (
        Codec.LZ4,
        forge.flip(LZ4_CHECKED, -1),
        TEXT,
    ),
    "lz4, block checksums": (Codec.LZ4, lz4_frame(LARGE, block_checksum=True), LARGE),
    "lz4, bytes behind the end mark": (Codec.LZ4, lz4_frame(TEXT) + b"garbage", TEXT),
    "lz4, empty block": (Codec.LZ4, lz4_frame(TEXT)[:-4] + b"\1\0\0\0\0garbage", TEXT),
    "lz4, a frame behind the end mark": (Codec.LZ4, lz4_frame(TEXT) * 2, TEXT),
    "zstd, two frames": (Codec.ZSTD, zstd(TEXT) + zstd(b"end"), TEXT + b"end"),
    "zstd, empty frame first": (Codec.ZSTD, zstd(b"") + zstd(TEXT), TEXT),
    "zstd, skippable frame": (Codec.ZSTD, zstd(TEXT) + SKIPPABLE + zstd(b"end"), TEXT + b"end"),
    "zstd, checksum and size": (Codec.ZSTD, zstd(TEXT, checksum=True, size=True), TEXT),
    "zstd, nothing": (Codec.ZSTD, b"", b""),
    "zstd, a byte of a magic behind": (Codec.ZSTD, zstd(TEXT) + b"(", TEXT),
    "zstd, frame without its checksum behind": (
        Codec.ZSTD,
        zstd(TEXT) + zstd(b"end", checksum=True)[:-4],
        TEXT + b"end",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_blocks_that_kafka_reads(name: str) -> None:
    codec, block, content = GOOD[name]
    assert decompress(codec, block) == content


BAD = {
    "gzip, nothing": (Codec.GZIP, b"", "member at 0 is cut off"),
    "gzip, no member": (Codec.GZIP, b"garbage" * 9, "member at 0 is corrupt"),
    "gzip, second member cut": (
        Codec.GZIP,
        gzip.compress(TEXT) + gzip.compress(TEXT)[:-1],
        f"member at {len(gzip.compress(TEXT))} is cut off",
    ),
    "gzip, checksum": (Codec.GZIP, forge.flip(gzip.compress(TEXT), -6), "corrupt"),
    "snappy, nothing": (Codec.SNAPPY, b"", "block at 0 does not begin with a length"),
    "snappy, endless length": (Codec.SNAPPY, b"\xff" * 9, "does not begin with a length"),
    "snappy, impossible length": (Codec.SNAPPY, b"\xe8\x07abc", "claims 1000 bytes, more than 5"),
    "snappy, garbage": (Codec.SNAPPY, b"\x05\xff\xff\xff\xff\xff", "block at 0 is corrupt"),
    "snappy, block cut": (Codec.SNAPPY, forge.xerial(TEXT)[:-1], "block at 20 claims"),
    "snappy, empty block": (Codec.SNAPPY, XERIAL + bytes(4), "does not begin with"),
    "snappy, repeated header cut": (
        Codec.SNAPPY,
        XERIAL + b"\x82SNAPPY\0",
        "cut off after 8",
    ),
    "snappy, repeated header of version 0": (
        Codec.SNAPPY,
        XERIAL + b"\x82SNAPPY\0" + bytes(8),
        "has version 0, expected 1",
    ),
    "lz4, nothing": (Codec.LZ4, b"", "frame header is bad"),
    "lz4, skippable frame": (Codec.LZ4, SKIPPABLE, "lz4 frame"),
    "lz4, header checksum": (Codec.LZ4, forge.flip(lz4_frame(TEXT), 6), "frame header is bad"),
    "lz4, dependent blocks": (Codec.LZ4, lz4_frame(LARGE, block_linked=True), "dependent blocks"),
    "lz4, no end mark": (Codec.LZ4, lz4_frame(TEXT)[:-4], "no block and no end mark at"),
    "lz4, block cut": (Codec.LZ4, lz4_frame(TEXT)[:-9], "lz4 block at 11 has"),
    "lz4, no content checksum": (Codec.LZ4, LZ4_CHECKED[:-1], "no content checksum at"),
    "lz4, block too large": (
        Codec.LZ4,
        bytes.fromhex("04224d18604082") + b"\xff" * 90,
        "expected 86 at most",
    ),
    "lz4, garbage": (
        Codec.LZ4,
        bytes.fromhex("04224d1860408202000000f0f000000000"),
        "lz4 block at 11 is corrupt",
    ),
    "zstd, garbage": (Codec.ZSTD, b"garbage!", "expected at 0, found magic 0x62726167"),
    "zstd, garbage behind": (Codec.ZSTD, zstd(TEXT) + b"garbage!", "found magic 0x62726167"),
    "zstd, another byte behind": (Codec.ZSTD, zstd(TEXT) + b"x", "zstd block is corrupt"),
    "zstd, a byte behind in another buffer": (
        Codec.ZSTD,
        struct.pack("<II", 0x184D2A53, 131_067) + bytes(131_067) + b"(",
        "is cut off: 1 bytes are left",
    ),
    "zstd, skippable frame cut": (Codec.ZSTD, SKIPPABLE[:-1], "is cut off: 12 bytes are left"),
    "zstd, cut": (Codec.ZSTD, zstd(TEXT)[:-1], "frame at 0 is cut off"),
    "zstd, checksum cut": (Codec.ZSTD, ZSTD_CHECKED[:-1], "cut off in its checksum"),
    "zstd, checksum": (
        Codec.ZSTD,
        forge.flip(zstd(TEXT, checksum=True), -1),
        "zstd block is corrupt",
    ),
    "zstd, header": (Codec.ZSTD, bytes.fromhex("28b52ffdffffffff"), "frame at 0 is cut off at 8"),
    "zstd, reserved block": (Codec.ZSTD, bytes.fromhex("28b52ffd0058070000"), "corrupt"),
}


@pytest.mark.parametrize("name", BAD)
def test_blocks_that_kafka_does_not_read(name: str) -> None:
    codec, block, message = BAD[name]
    with pytest.raises(DecodeError, match=message):
        decompress(codec, block)


# --- limits


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_the_last_size_that_is_read(codec: Codec) -> None:
    block = compress(codec, LARGE)
    assert decompress(codec, block, len(LARGE)) == LARGE
    with pytest.raises(LimitError, match="limit"):
        decompress(codec, block, len(LARGE) - 1)


def test_a_raw_snappy_block_over_the_limit() -> None:
    with pytest.raises(LimitError, match="beyond the limit by 1 bytes"):
        decompress(Codec.SNAPPY, snappy.compress(TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_ends_at_the_limit_in_bounded_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            decompress(codec, bomb, 2 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


def test_a_zstd_frame_that_lies_about_its_size_allocates_nothing() -> None:
    block = bytes.fromhex("28b52ffde0ffffffffffffff7f010000")
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="zstd"):
            decompress(Codec.ZSTD, block)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_many_empty_members_and_frames_take_linear_time() -> None:
    started = time.process_time()
    assert decompress(Codec.GZIP, gzip.compress(b"") * 20_000) == b""
    assert decompress(Codec.ZSTD, zstd(b"") * 20_000) == b""
    assert decompress(Codec.SNAPPY, forge.xerial(b"") * 20_000) == b""
    assert time.process_time() - started < 5


BOMBS = """
import resource, sys
from kdump.errors import LimitError
from kdump.format.codecs import Codec, compress, decompress
codecs = (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD)
bombs = [compress(codec, bytes(1 << 20)) * 200 for codec in codecs]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for codec, bomb in zip(codecs, bombs):
    try:
        sys.exit(len(decompress(codec, bomb, 8 << 20)))
    except LimitError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_peak_memory_of_bombs_of_many_parts() -> None:
    command = [sys.executable, "-c", BOMBS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kib = int(done.stdout) // (1024 if sys.platform == "darwin" else 1)
    assert kib < 48 * 1024


# --- any bytes


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(COMPRESSED), st.binary(max_size=300))
def test_any_bytes_give_a_value_or_an_error_of_ours(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, MIB)) <= MIB
    except (DecodeError, LimitError) as error:
        assert str(error).startswith(codec.label)


@settings(deadline=None, max_examples=400)
@given(st.data(), st.sampled_from(sorted(GOOD)))
def test_any_change_gives_a_value_or_an_error_of_ours(data: st.DataObject, name: str) -> None:
    codec, block, _ = GOOD[name]
    changed = bytearray(block or b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(
            st.integers(0, min(len(changed), 40) - 1) | st.integers(0, len(changed) - 1)
        )
        changed[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | st.integers(0, len(changed)))
    try:
        assert len(decompress(codec, bytes(changed[:cut]), MIB)) <= MIB
    except (DecodeError, LimitError) as error:
        assert str(error).startswith(codec.label)


@pytest.mark.parametrize("sized", [False, True])
def test_a_single_frame_is_read_up_to_its_limit(sized: bool) -> None:
    data = bytes(range(256)) * 3
    frame = zstandard.ZstdCompressor(write_content_size=sized).compress(data)
    assert decompress_frame(frame, len(data)) == data
    for wrong, limit in (
        (frame, len(data) - 1),
        (frame, 0),
        (frame[:-1], len(data)),
        (frame + b"x", len(data)),
        (frame[:5], len(data)),
        (b"", 1),
        (b"no frame", 8),
    ):
        with pytest.raises(DecodeError):
            decompress_frame(wrong, limit)
