"""The sections of a manifest: what is encoded is decoded, and nothing else is accepted."""

from __future__ import annotations

import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import DecodeError
from kdump.format.batch import BatchTable
from kdump.format.kernel.headers import BATCH_FIELDS
from kdump.format.manifest.blocks import REASONS, StoredDamage, decode_block, encode_block
from kdump.format.manifest.contents import (
    STATES,
    Contents,
    StoredDirectory,
    StoredRoot,
    decode_contents,
    encode_contents,
)
from kdump.format.manifest.directories import (
    FileContent,
    StoredEntry,
    StoredStatus,
    decode_directory,
    encode_directory,
)
from kdump.format.manifest.indexes import IndexFold, decode_index, encode_index, unfold
from kdump.format.manifest.logs import BlockEntry, StoredLog, decode_log, encode_log
from kdump.format.manifest.sections import SectionKind, pack_section, unpack_section

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SHORT = st.integers(-(2**15), 2**15 - 1)


@st.composite
def batches(draw: st.DrawFn) -> list[int]:
    """A row without its position: any that a header of magic 2, 1 or 0 can hold."""
    base = draw(st.one_of(st.integers(0, 10**6), LONG))
    crc = draw(st.integers(0, 2**32 - 1))
    magic = draw(st.sampled_from((2, 2, 2, 1, 0, 3, -1)))
    if magic > 1:
        last = (base + draw(INT) + 2**63) % 2**64 - 2**63
        timestamps = [draw(LONG), draw(LONG)]
        producer = [draw(LONG), draw(SHORT), draw(INT), draw(INT)]
        size = draw(st.integers(61, 2**31 + 11))
        return [size, base, last, draw(INT), magic, crc, draw(SHORT), *timestamps, *producer]
    time = draw(LONG) if magic else -1
    size = draw(st.integers(26, 2**31 + 11))
    attributes = draw(st.integers(0, 255))
    return [size, base, base, -1, magic, crc, attributes, time, time, -1, -1, -1, 1]


def damages(row: int) -> st.SearchStrategy[StoredDamage]:
    return st.builds(
        StoredDamage,
        row=st.just(row),
        size=st.integers(61, 2**40),
        reason=st.sampled_from(REASONS),
        claimed_bytes=st.one_of(st.none(), INT),
        stored_crc=st.just(7),
        computed_crc=st.integers(0, 2**32 - 1),
        head=st.binary(max_size=61),
        zeros=st.booleans(),
    )


@given(st.data(), st.lists(batches(), max_size=20), st.integers(0, 2**40), st.binary(max_size=99))
def test_a_block_is_decoded_to_its_batches_and_damage(
    data: st.DataObject, drawn: list[list[int]], position: int, control: bytes
) -> None:
    rows = array("q")
    found: list[StoredDamage] = []
    end = position
    for number in range(len(drawn) + 1):
        if data.draw(st.booleans()):
            found.append(data.draw(damages(number)))
            end += found[-1].size
        if number < len(drawn):
            rows.extend([end, *drawn[number]])
            end += drawn[number][0]
    attributes = BATCH_FIELDS.index("attributes")
    wrapped = sum(row[4] < 2 and bool(row[attributes - 1] & 7) for row in drawn)
    wrappers = array("q", [data.draw(LONG) for _ in range(wrapped)])
    payload = encode_block(memoryview(rows), found, wrappers, control)
    block = decode_block(payload, position, end)
    assert block.rows.tolist() == rows.tolist()
    assert block.damages == tuple(found)
    assert block.wrappers == wrappers
    assert block.control == control
    with pytest.raises(DecodeError):
        decode_block(payload, position, end + 1)


@given(st.binary(max_size=200))
def test_any_bytes_as_a_block_are_refused_or_decoded(payload: bytes) -> None:
    try:
        decode_block(payload, 0, 100)
    except DecodeError:
        return


def test_a_plane_of_more_bytes_than_batches_is_refused() -> None:
    rows = array("q", [0, 61, 0, 0, 0, 2, 1, 0, 0, 0, -1, -1, -1, 1])
    payload = encode_block(memoryview(rows), [], array("q"), b"")
    (count, _) = struct.unpack_from(">IH", payload)
    assert count == 1
    more = struct.pack(">I", 3) + payload[4:]
    with pytest.raises(DecodeError):
        decode_block(more, 0, 61)


def _log(count: int, step: int) -> array[int]:
    """Rows of ``count`` batches; timestamps go back and forth."""
    rows = array("q")
    for number in range(count):
        time = 1_000 + 10 * number - 25 * (number % 3)
        rows.extend([
            number * step, step, 5 * number, 5 * number + 4, 3, 2, number, 0, time, time, -1, -1,
            -1, 5,
        ])  # fmt: skip
    return rows


@given(st.integers(1, 40), st.integers(61, 10_000), st.integers(1, 4), st.integers(0, 3))
def test_indexes_are_decoded_by_their_batches(
    count: int, step: int, stride: int, zeros: int
) -> None:
    rows = _log(count, step)
    table = BatchTable(memoryview(rows))
    offsets = times = b""
    newest = -1
    for number in range(1, count, stride):
        batch = table[number]
        offsets += struct.pack(">ii", batch.last_offset, batch.position)
        if batch.max_timestamp > newest:
            newest = batch.max_timestamp
            times += struct.pack(">qi", newest, batch.last_offset)
    for is_times, data, slot in ((False, offsets, 8), (True, times, 12)):
        whole = data + bytes(zeros * slot)
        fold = IndexFold(whole, 0, times=is_times)
        half = len(table) // 2
        parts = [table.part(0, half).rows, table.part(half, len(table)).rows]
        for part in parts:
            fold.add(part)
        stored = fold.finish(99)
        assert stored is not None
        again = decode_index(encode_index(stored))
        assert (again.size, again.log) == (len(whole), 99)
        assert unfold(again, parts) == whole


def test_an_index_about_no_batch_is_not_folded() -> None:
    rows = _log(5, 100)
    fold = IndexFold(struct.pack(">ii", 9, 101), 0, times=False)
    fold.add(memoryview(rows))
    assert fold.finish(0) is None
    fold = IndexFold(struct.pack(">qi", 5, 9), 0, times=True)
    fold.add(memoryview(rows))
    assert fold.finish(0) is None


STATUS = st.builds(
    StoredStatus,
    mode=st.integers(0, 2**32 - 1),
    uid=st.integers(0, 2**32 - 1),
    gid=st.integers(0, 2**32 - 1),
    inode=st.integers(0, 2**64 - 1),
    size=st.integers(0, 2**63 - 1),
    mtime_ns=LONG,
)
NAME = st.binary(min_size=1, max_size=255).filter(
    lambda name: not {b"/"[0], 0} & set(name) and name not in (b".", b"..")
)


@given(
    st.dictionaries(
        NAME,
        st.tuples(
            STATUS, st.sampled_from(FileContent), st.integers(0, 2**64 - 1), st.text(max_size=9)
        ),
        max_size=9,
    )
)
def test_a_directory_is_decoded_to_its_entries(
    drawn: dict[bytes, tuple[StoredStatus, FileContent, int, str]],
) -> None:
    entries = [StoredEntry(name, *fields) for name, fields in sorted(drawn.items())]
    assert list(decode_directory(encode_directory(entries[::-1]))) == entries


PATH = st.lists(NAME, max_size=3).map(b"/".join)


@given(
    st.dictionaries(PATH, st.tuples(STATUS, st.integers(0, 2**64 - 1)), max_size=5),
    st.lists(
        st.builds(StoredRoot, PATH, st.sampled_from(STATES), st.text(max_size=20)),
        min_size=1,
        max_size=3,
    ),
    LONG,
    st.booleans(),
)
def test_contents_are_decoded(
    drawn: dict[bytes, tuple[StoredStatus, int]],
    roots: list[StoredRoot],
    begun: int,
    anonymous: bool,
) -> None:
    directories = tuple(StoredDirectory(path, *fields) for path, fields in sorted(drawn.items()))
    contents = Contents(begun, 1, anonymous, "kdump", b"/origin", tuple(roots), directories)
    assert decode_contents(encode_contents(contents)) == contents


def test_a_log_is_decoded_to_its_blocks() -> None:
    blocks = (BlockEntry(0, 50, 3, 99, bytes(16)), BlockEntry(50, 80, 1, 7, b"x" * 16))
    log = StoredLog(80, True, b"d" * 16, blocks, ((3, b"abc"), (9, b"")))
    assert decode_log(encode_log(log)) == log
    for size in (79, 81):
        with pytest.raises(DecodeError):
            decode_log(encode_log(StoredLog(size, True, b"d" * 16, blocks, ())))


@pytest.mark.parametrize("payload", [b"", b"a" * 10_000, bytes(range(256))])
def test_a_section_is_unpacked_and_no_changed_one(payload: bytes) -> None:
    section = pack_section(SectionKind.DATA, payload)
    assert unpack_section(SectionKind.DATA, section) == payload
    for place in range(0, len(section), max(len(section) // 50, 1)):
        changed = bytearray(section)
        changed[place] ^= 4
        with pytest.raises(DecodeError):
            unpack_section(SectionKind.DATA, bytes(changed))
    with pytest.raises(DecodeError):
        unpack_section(SectionKind.LOG, section)
