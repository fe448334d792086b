"""The forge, against bytes that Kafka 4.3.1's own classes wrote."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from crc32c import crc32c

from support.forge import (
    ABORT,
    CODECS,
    SNAPSHOT_FOOTER,
    TIMESTAMP,
    batch,
    checkpoint,
    compressed,
    control_batch,
    epoch_rows,
    flip,
    index_entries,
    marker,
    message,
    offset_index,
    partition_metadata,
    record,
    time_index,
    uvarint,
    varint,
    wrapper,
    write_partition,
)

RECORDS = [
    record(b"v", b"k", [(b"h", b"x"), (b"n", None)], timestamp=TIMESTAMP),
    record(None, timestamp=TIMESTAMP + 5),
    record(b"0123456789", b"", timestamp=TIMESTAMP + 2),
]
KAFKAS = {
    "batch": (
        batch(
            100,
            RECORDS,
            leader_epoch=5,
            producer_id=1000,
            producer_epoch=3,
            base_sequence=7,
            transactional=True,
        ),
        "00000000000000640000005900000005025faaca020010000000020000018bcfe568000000018bcfe56805"
        "00000000000003e8000300000007000000031e000000026b02760402680278026e010c000a020101002000"
        "040400143031323334353637383900",
    ),
    "log append time": (
        batch(
            5,
            [record(b"v", b"k")],
            timestamp_type="LogAppendTime",
            max_timestamp=TIMESTAMP + 9,
            leader_epoch=-1,
        ),
        "00000000000000050000003affffffff02a8371a590008000000000000018bcfe568000000018bcfe56809"
        "ffffffffffffffffffffffffffff0000000110000000026b027600",
    ),
    "marker": (
        marker(120, 1000, 3, commit=False, coordinator_epoch=6, leader_epoch=4),
        "00000000000000780000004200000004024aae42f40030000000000000018bcfe568000000018bcfe56800"
        "00000000000003e80003ffffffff000000012000000008000000000c00000000000600",
    ),
    "magic 0": (
        message(5, b"v", b"k", magic=0) + message(6, None, magic=0),
        "0000000000000005000000101fecd70a0000000000016b000000017600000000000000060000000ea7ec68"
        "030000ffffffffffffffff",
    ),
    "magic 1": (
        message(5, b"v", b"k") + message(6, None),
        "00000000000000050000001839268c3301000000018bcfe56800000000016b000000017600000000000000"
        "0600000016a0e10e1b01000000018bcfe56800ffffffffffffffff",
    ),
}


@pytest.mark.parametrize("name", KAFKAS)
def test_bytes_are_those_of_kafka(name: str) -> None:
    forged, kafkas = KAFKAS[name]
    assert forged.hex() == kafkas


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_batches_have_codec_and_checksum(codec: str) -> None:
    data = batch(0, RECORDS, codec=codec)
    crc, attributes = struct.unpack_from(">Ih", data, 17)
    assert crc == crc32c(data[21:])
    assert attributes == CODECS.index(codec)
    assert data[61:] == compressed(codec, batch(0, RECORDS)[61:])


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_holds_its_messages(magic: int) -> None:
    inner = [message(0, magic=magic), message(1, magic=magic)]
    data = wrapper(8, inner, codec="snappy", magic=magic)
    (offset, size, crc, found, attributes) = struct.unpack_from(">qiIbb", data)
    assert (offset, size, found, attributes) == (8, len(data) - 12, magic, 2)
    assert crc == zlib.crc32(data[16:])
    assert data.endswith(compressed("snappy", b"".join(inner)))


@pytest.mark.parametrize(
    ("number", "signed", "unsigned"),
    [(0, "00", "00"), (1, "02", "01"), (63, "7e", "3f"), (64, "8001", "40"), (300, "d804", "ac02")],
)
def test_varints(number: int, signed: str, unsigned: str) -> None:
    assert varint(number).hex() == signed
    assert uvarint(number).hex() == unsigned
    assert varint(-number - 1)[0] == varint(number)[0] + 1


def test_fields_are_overridden_behind_a_right_checksum() -> None:
    data = batch(7, RECORDS, count=9, last_offset_delta=50, attributes=0x40, block=b"junk")
    assert struct.unpack_from(">h", data, 21) == (0x40,)
    assert struct.unpack_from(">i", data, 23) == (50,)
    assert struct.unpack_from(">i", data, 57) == (9,)
    assert data[61:] == b"junk"
    assert struct.unpack_from(">I", data, 17) == (crc32c(data[21:]),)


def test_prefix_fields_are_overridden() -> None:
    data = batch(7, length=3, magic=9, crc=1, leader_epoch=-2)
    assert struct.unpack_from(">qiibI", data) == (7, 3, -2, 9, 1)
    assert struct.unpack_from(">iI", message(1, size=4, crc=2), 8) == (4, 2)


def test_offset_deltas_may_have_gaps() -> None:
    data = batch(0, [record(offset_delta=3), record(offset_delta=8)])
    assert struct.unpack_from(">i", data, 23) == (8,)
    assert struct.unpack_from(">i", data, 57) == (2,)


def test_records_can_lie() -> None:
    honest = record(b"v", b"k").encode(0, TIMESTAMP)
    assert record(b"v", b"k", length=1).encode(0, TIMESTAMP) == varint(1) + honest[1:]
    longer = record(b"v", b"k", tail=b"xx").encode(0, TIMESTAMP)
    assert longer == varint(len(honest) + 1) + honest[1:] + b"xx"
    assert record(None, key_length=-5, header_count=-1).encode(0, TIMESTAMP)[4:] == (
        varint(-5) + varint(-1) + varint(-1)
    )
    assert batch(0, [b"raw"])[61:] == b"raw"


def test_control_batches() -> None:
    data = control_batch(3, SNAPSHOT_FOOTER, b"\0\0\0")
    assert struct.unpack_from(">h", data, 21) == (0x20,)
    assert struct.pack(">hh", 0, SNAPSHOT_FOOTER) in data
    assert struct.pack(">hh", 0, ABORT) in marker(0, 1, commit=False)


def test_flip() -> None:
    assert flip(b"\0\0\0", 1, 0x80) == b"\0\x80\0"
    assert flip(b"\0\0\0", -1) == b"\0\0\1"


def test_index_entries_follow_the_rule_of_recovery() -> None:
    stamps = [50, 40, 60, 60, 70]
    batches = [
        batch(10 * place, [record(bytes(1000))], base_timestamp=stamp)
        for place, stamp in enumerate(stamps)
    ]
    size = len(batches[0])
    offsets, times = index_entries(batches, 0, interval=size)
    # Batch 2 is the first that starts more than one batch's size behind the last indexed place.
    assert offsets == [(20, 2 * size), (40, 4 * size)]
    assert times == [(60, 20), (70, 40)]
    assert index_entries(batches, 0, interval=10 * size) == ([], [(70, 40)])
    assert index_entries([], 5) == ([], [])


def test_index_entries_of_old_formats() -> None:
    inner = [message(offset) for offset in (0, 1)]
    log = [
        message(3, magic=0),
        message(4, timestamp=70),
        wrapper(6, inner, codec="gzip", timestamp=90),
        wrapper(7, [message(7, magic=0)], codec="gzip", magic=0),
    ]
    sizes = [len(data) for data in log]
    offsets, times = index_entries(log, 0, interval=0)
    assert offsets == [(4, sizes[0]), (6, sum(sizes[:2])), (7, sum(sizes[:3]))]
    assert times == [(70, 4), (90, 6)]
    assert epoch_rows(log) == []


def test_write_partition(tmp_path: Path) -> None:
    segments = {
        0: [batch(place, [record(bytes(3000))]) for place in range(4)],
        4: [batch(4, [record()], leader_epoch=2)],
    }
    files = {"00000000000000000004.snapshot": b"new", "partition.metadata": None}
    directory = write_partition(tmp_path, "orders", 3, segments, files=files)
    assert directory == tmp_path / "orders-3"
    assert sorted(path.name for path in directory.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000004.index",
        "00000000000000000004.log",
        "00000000000000000004.snapshot",
        "00000000000000000004.timeindex",
        "leader-epoch-checkpoint",
    ]
    size = len(segments[0][0])
    first = directory / "00000000000000000000.log"
    assert first.read_bytes() == b"".join(segments[0])
    assert first.with_suffix(".index").read_bytes() == offset_index([(2, 2 * size)])
    assert first.with_suffix(".timeindex").read_bytes() == time_index([(TIMESTAMP, 0)])
    last = directory / "00000000000000000004.log"
    assert last.with_suffix(".timeindex").read_bytes() == time_index([(TIMESTAMP, 4)], 4)
    epochs = directory / "leader-epoch-checkpoint"
    assert epochs.read_bytes() == checkpoint([(0, 0), (2, 4)])


def test_partition_metadata_is_kafkas() -> None:
    assert partition_metadata("x") == b"version: 0\ntopic_id: x"
