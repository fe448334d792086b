"""Records of compressed batches read at once: the same as table by table, or nothing at all."""

from __future__ import annotations

from array import array

import pytest

from kdump.format.batch import BatchTable, RecordTable
from kdump.format.kernel import headers as _headers
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.walk import Damage, batch_bytes, walk
from support.fixtures_loader import ROOT, few_first
from support.forge import CODECS, TIMESTAMP, batch, compressed, flip, message, record, wrapper

pytestmark = pytest.mark.loops

RUN = [message(offset, b"%d" % offset, timestamp=TIMESTAMP + offset) for offset in range(3)]
LOG_APPEND = 8


def table_of(*batches: bytes) -> tuple[BatchTable, memoryview]:
    data, rows, position = b"".join(batches), array("q"), 0
    for content in batches:
        row = array("q", bytes(8 * BatchTable.WIDTH))
        assert _headers.read_header(memoryview(content), position, row)
        rows += row
        position += len(content)
    return BatchTable(memoryview(rows)), memoryview(data)


def at_once(*batches: bytes, row: int = 0, limit: int = 1 << 20) -> list[list[int]] | None:
    """The rows of one of ``batches``, which are compared with what its tables say."""
    table, view = table_of(*batches)
    found = RecordReader(limit).block(table, row, view)
    if found is None:
        return None
    batch, in_turns = table[row], []
    data = view[batch.position : batch.position + batch.size]
    for table_in_turn in RecordReader(limit).tables(batch, data):
        assert bytes(table_in_turn.block) == bytes(found[0])
        assert table_in_turn.magic == batch.magic
        in_turns += table_in_turn.rows.tolist()
    assert found[1].tolist() == in_turns
    width = RecordTable.WIDTH
    return [in_turns[at : at + width] for at in range(0, len(in_turns), width)]


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_of_magic_2(codec: str, kind: str) -> None:
    records = [record(b"v" * size, b"k", [(b"h", None)], timestamp=TIMESTAMP) for size in (0, 9)]
    data = batch(7, records, codec=codec, timestamp_type=kind, max_timestamp=TIMESTAMP + 1)
    rows = at_once(batch(1), data, row=1)
    assert rows is not None
    stamp = TIMESTAMP + 1 if kind == "LogAppendTime" else TIMESTAMP
    assert [row[:2] for row in rows] == [[7, stamp], [8, stamp]]


@pytest.mark.parametrize("codec", CODECS[1:4])
@pytest.mark.parametrize("offset", [2, 9, 0])
@pytest.mark.parametrize("attributes", [0, LOG_APPEND])
def test_of_magic_1(codec: str, offset: int, attributes: int) -> None:
    data = wrapper(offset, RUN, codec=codec, timestamp=TIMESTAMP + 5, attributes=attributes)
    rows = at_once(data)
    assert rows is not None
    first = max(offset - 2, 0)
    stamps = [TIMESTAMP + (5 if attributes else index) for index in range(3)]
    assert [row[:2] for row in rows] == [[first + index, stamps[index]] for index in range(3)]


@pytest.mark.parametrize("codec", CODECS[1:4])
def test_of_magic_0(codec: str) -> None:
    run = [message(offset, None, b"k", magic=0) for offset in (4, 9)]
    rows = at_once(wrapper(9, run, codec=codec, magic=0))
    assert rows is not None
    assert [row[:2] for row in rows] == [[4, -1], [9, -1]]


ODD = {
    "not compressed": batch(0, [record()]),
    "a message": message(0),
    "no records": batch(0, [], codec="gzip"),
    "more records than counted": batch(0, [record(), record()], codec="gzip", count=1),
    "fewer records than counted": batch(0, [record()], codec="gzip", count=2),
    "a count below zero": batch(0, [record()], codec="gzip", count=-1),
    "no codec": batch(0, [record()], attributes=5),
    "no block of the codec": batch(0, [record()], attributes=1),
    "zstd in a wrapper": wrapper(2, RUN, codec="zstd"),
    "an unknown codec in a wrapper": message(2, b"", attributes=6),
    "a negative magic": wrapper(2, RUN, codec="gzip", magic=-1),
    "an empty wrapper": wrapper(2, [], codec="gzip"),
    "a null wrapper": message(2, None, attributes=1),
    "a wrapper with a key": message(2, compressed("gzip", b"".join(RUN)), b"k", attributes=1),
    "a wrong checksum inside": wrapper(2, [RUN[0], flip(RUN[1], -1), RUN[2]], codec="gzip"),
    "a cut message inside": wrapper(2, [*RUN, RUN[2][:-1]], codec="gzip"),
    "a wrapper inside": wrapper(2, [wrapper(2, RUN, codec="gzip")], codec="gzip"),
    "another magic inside": wrapper(2, [*RUN, message(3, magic=0)], codec="gzip"),
    "a wrapper below its last message": wrapper(1, RUN, codec="gzip"),
    "offsets below zero inside": wrapper(5, [message(-7)], codec="gzip"),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
def test_what_is_odd_is_left_to_tables(data: bytes) -> None:
    assert at_once(data) is None


def test_what_is_not_whole_or_beyond_the_limit_is_left_to_tables() -> None:
    data = batch(0, [record(b"v" * 1000)], codec="gzip")
    table, view = table_of(data)
    assert RecordReader().block(table, 0, view) is not None
    assert RecordReader().block(table, 0, view[:-1]) is None
    assert RecordReader(900).block(table, 0, view) is None


def test_more_records_than_a_table_holds_are_left_to_tables() -> None:
    run = [record(b"", offset_delta=index) for index in range(65_537)]
    assert at_once(batch(0, run, codec="lz4"), limit=1 << 21) is None
    inside = [message(index, b"") for index in range(65_537)]
    assert at_once(wrapper(65_536, inside, codec="lz4"), limit=1 << 22) is None
    assert at_once(wrapper(65_536, inside[1:], codec="lz4"), limit=1 << 22) is not None


@pytest.mark.parametrize("name", few_first())
def test_of_what_brokers_wrote(name: str) -> None:
    for log in sorted((ROOT / "brokers" / name).rglob("*.log")):
        with open_source(log, mapped=False) as source:
            for table in walk(source, 0):
                if isinstance(table, Damage):
                    continue
                for row, batch in enumerate(table):
                    view = source.window(table.position)
                    found = RecordReader().block(table, row, view)
                    rows = None if found is None else found[1].tolist()
                    in_turns: list[int] = []
                    for records in RecordReader().tables(batch, batch_bytes(source, batch)):
                        in_turns += records.rows.tolist()
                    assert (rows is None) == (batch.codec_id == 0)
                    assert rows is None or rows == in_turns
