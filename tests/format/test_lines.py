"""Lines of records: the compiled plain ones and the others say the same, in text and JSON."""

from __future__ import annotations

import json
import time
import tracemalloc
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import LimitError
from kdump.format.batch import MAX_HEADERS, BatchTable, read_header
from kdump.format.kernel import lines as _lines
from kdump.format.lines import lines
from kdump.format.lines.lines import JsonLines, TextLines
from kdump.format.lines.text import java_text, json_text, printable
from kdump.format.records import RecordReader
from support.forge import batch, marker, record


def written(data: bytes, form: JsonLines | TextLines) -> list[str]:
    header = read_header(memoryview(data), 0)
    assert header is not None
    pieces = [
        bytes(piece)
        for table in RecordReader().tables(header, memoryview(data))
        for piece in form.records(table)
    ]
    return b"".join(pieces).decode().splitlines()


def json_records(data: bytes, *, force_base64: bool = False) -> list[dict[str, object]]:
    form = JsonLines("topic", 3, force_base64=force_base64)
    return [json.loads(line) for line in written(data, form)]


def test_json_record_has_every_field() -> None:
    data = batch(
        7,
        [record(b"v", b"k", [(b"h", b"x")], timestamp=5)],
        base_timestamp=5,
        producer_id=9,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        leader_epoch=4,
        transactional=True,
        codec="zstd",
    )
    assert json_records(data) == [
        {
            "type": "record",
            "topic": "topic",
            "partition": 3,
            "offset": 7,
            "timestamp": 5,
            "timestamp_type": "CreateTime",
            "key": "k",
            "value": "v",
            "headers": [{"key": "h", "value": "x"}],
            "position": 0,
            "magic": 2,
            "codec": "zstd",
            "leader_epoch": 4,
            "producer_id": 9,
            "producer_epoch": 1,
            "sequence": 2**31 - 1,
            "transactional": True,
            "control": False,
        }
    ]


@pytest.mark.parametrize("value", [b"plain", b'quo"te', b"back\\slash", b"\x1f", b"\x7f", b"\xff"])
def test_plain_and_special_records_have_the_same_shape(value: bytes) -> None:
    data = batch(0, [record(b"plain"), record(value), record(None, b""), record(b"plain")])
    found = json_records(data)
    assert [line["offset"] for line in found] == [0, 1, 2, 3]
    shapes = {tuple(sorted(line)) for line in found if "value_base64" not in line}
    assert len(shapes) == 1
    assert found[1].get("value_base64") == ("/w==" if value == b"\xff" else None)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12).map(str.encode) | st.binary(max_size=6)
FIELD = st.none() | TEXT | st.sampled_from([b"", b"plain", b'"', b"\\", b"\n"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(FIELD, FIELD, st.booleans()), min_size=1, max_size=12))
def test_lines_hold_the_records_exactly(
    drawn: list[tuple[bytes | None, bytes | None, bool]],
) -> None:
    headers = [(b"name", b"x")]
    data = batch(0, [record(value, key, headers if has else ()) for key, value, has in drawn])
    found = json_records(data)
    forced = json_records(data, force_base64=True)
    text = written(data, TextLines(data=True))
    assert len(found) == len(forced) == len(text) == len(drawn)
    for index, (key, value, has) in enumerate(drawn):
        for name, content in (("key", key), ("value", value)):
            if content is None:
                assert found[index][name] is forced[index][name] is None
            elif name in found[index]:
                assert str(found[index][name]).encode() == content
            else:
                assert found[index][f"{name}_base64"] == forced[index][f"{name}_base64"]
        expected = (
            f"| offset: {index} CreateTime: 1700000000000 keySize: {size(key)} "
            f"valueSize: {size(value)} sequence: -1 headerKeys: [{'name' if has else ''}]"
        )
        if key is not None:
            expected += f" key: {printable(java_text(key))}"
        if value is not None:
            expected += f" payload: {printable(java_text(value))}"
        assert text[index] == expected


def size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


@pytest.mark.parametrize("room", [1, 300, 1000, 5000])
def test_small_buffers_lose_nothing(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch(0, [record(b'"v' * (index * 7), b"\\") for index in range(60)])
    expected = written(data, TextLines(data=True)), json_records(data)
    monkeypatch.setattr(lines, "_BUFFER_BYTES", room)
    assert (written(data, TextLines(data=True)), json_records(data)) == expected


@pytest.mark.parametrize("key_size", [-1, -(2**31)])
def test_no_size_of_a_null_key_makes_room_for_a_value(key_size: int) -> None:
    rows = array("q", [0, 0, 0, key_size, 0, 400, 0, 0])
    head, starts = array("q", bytes(8 * BatchTable.WIDTH)), array("q", [0, 1])
    asked = head, starts, rows, b"v" * 400, 0, 0, True, [b""] * 8, b"", array("q")
    out = bytearray(500)
    assert _lines.text_lines(*asked, out) == (0, 0, 0)
    assert _lines.json_lines(*asked, out) == (0, 0, 0)
    assert not any(out)


@pytest.mark.parametrize("number", [0, 9, 10, 99, 100, 2**31, 2**63 - 1, -1, -10, -(2**63)])
def test_numbers_of_every_width(number: int) -> None:
    data = batch(0, [record(timestamp_delta=number)], base_timestamp=0)
    assert json_records(data)[0]["timestamp"] == number
    assert f"CreateTime: {number} " in written(data, TextLines(data=False))[0]


def test_markers_and_what_cannot_be_told() -> None:
    text = TextLines(data=True)
    assert written(marker(0, 5, commit=True, coordinator_epoch=3), text)[0].endswith(
        "headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 3"
    )
    broken = batch(0, [record(b"", b"\x00")], control=True)
    assert "unreadable: control record key" in written(broken, text)[0]
    newer = batch(0, [record(b"\x00\x00", b"\x00\x00\x00\x63")], control=True)
    assert written(newer, text)[0].endswith("controlType: UNKNOWN(99)")


def test_batch_lines_of_odd_headers() -> None:
    data = batch(0, [], attributes=0x4F, magic=77)
    header = read_header(memoryview(data), 0)
    assert header is not None
    text = TextLines(data=False).batch(header, valid=False).decode()
    assert "deleteHorizonMs: OptionalLong[1700000000000]" in text
    assert text.endswith(f"magic: 77 compresscodec: unknown(7) crc: {header.crc} isvalid: false\n")
    line = json.loads(JsonLines(None, None, force_base64=False).batch(header))
    assert (line["codec"], line["topic"], line["magic"]) == ("unknown(7)", None, 77)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30))
def test_nothing_unsafe_is_printable_and_json_loses_nothing(text: str) -> None:
    assert not any(char in printable(text) for char in "\x00\x1b\n\x7f\x9b\u200b\u2028\ud800\ufeff")
    assert json.loads(json_text(text)) == text
    assert json_text(text).replace(" ", "").isascii() or "\u202e" not in json_text(text)


def test_each_unsafe_category_is_escaped() -> None:
    assert printable("a\x1b\u202e\U000e0001\ud800 é") == "a\\x1b\\u202e\\U000e0001\\ud800 é"
    assert json_text("a\x9b\u202e\U000e0001\ud800 é") == (
        '"a\\u009b\\u202e\\udb40\\udc01\\ud800 é"'
    )


@pytest.mark.slow
def test_text_that_is_all_unsafe_or_invalid_takes_little_time_and_memory() -> None:
    """A few KiB may decompress to a value of many MiB; each code point must not be an object."""
    n = 1 << 21
    started = time.process_time()
    tracemalloc.start()
    try:
        for value, text in ((b"\x7f", "\\x7f"), (b"\xff", "\ufffd"), (b"\xed\xa0\x80", "\ufffd")):
            assert printable(java_text(value * n)) == text * n
        assert len(json_text("\x7f" * n)) == 6 * n + 2
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * n
    assert time.process_time() - started < 20


def test_sequences_below_none_are_none_in_every_line() -> None:
    both = [record(b"plain"), record(b"special", headers=[(b"h", b"v")])]
    data = batch(0, both, base_sequence=-2)
    assert [line["sequence"] for line in json_records(data)] == [-1, -1]
    assert all(" sequence: -1 " in line for line in written(data, TextLines(data=False)))


def test_more_headers_than_are_read_are_refused() -> None:
    many = [(b"", None)] * (MAX_HEADERS + 1)
    data = batch(5, [record(b"before"), record(b"v", headers=many)])
    for form in (TextLines(data=False), JsonLines(None, None, force_base64=False)):
        with pytest.raises(LimitError, match=f"offset 6, found {MAX_HEADERS + 1}"):
            written(data, form)
    assert len(written(batch(5, [record(b"v", headers=many[1:])]), TextLines(data=False))) == 1
