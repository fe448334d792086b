"""Small batches read and printed many at a time: the same lines as one by one, and as few calls."""

from __future__ import annotations

from array import array
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.commands.dump.lines import DumpFile, JsonDump, TextDump
from kdump.commands.dump.records import Printer
from kdump.format.batch import BatchTable
from kdump.format.kernel import headers as _headers
from kdump.format.lines import lines
from kdump.format.lines.lines import JsonLines, TextLines
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.names import parse_file_name
from kdump.storage.selection import Selection
from support.fixtures_loader import ROOT, few_first
from support.forge import (
    TIMESTAMP,
    Record,
    batch,
    compressed,
    flip,
    marker,
    message,
    record,
    wrapper,
)

pytestmark = pytest.mark.loops

#: Prints the same, batch by batch.
ONE_BY_ONE = Selection(limit=10**9)


def dumped(path: Path, selection: Selection, how: str) -> tuple[bytes, object]:
    """What is printed of a segment, and what is counted."""
    renderer = (
        JsonDump([path], force_base64=how == "base64", decode=False)
        if how in ("json", "base64")
        else TextDump(data=how == "data", decode=False)
    )
    out = BytesIO()
    printer = Printer(renderer, selection, out, records=how != "shallow")
    with open_source(path, mapped=False) as source:
        printer.file(DumpFile(path, parse_file_name(path.name), None), source)
    return out.getvalue(), printer.covered


def assert_same_lines(path: Path) -> None:
    for how in ("data", "records", "json", "base64"):
        assert dumped(path, Selection(), how) == dumped(path, ONE_BY_ONE, how)


@pytest.mark.parametrize("name", few_first())
def test_what_brokers_wrote_is_printed_as_one_by_one(name: str) -> None:
    logs = sorted((ROOT / "brokers" / name).rglob("*.log"))
    assert logs
    for log in logs:
        assert_same_lines(log)


fields = st.sampled_from([None, b"", b"plain", b'"', b"\\", b"\n", b"\xff", b"long" * 30])
records = st.lists(
    st.builds(
        record,
        fields,
        fields,
        st.sampled_from([(), (), [(b"h", b"x")], [(b"h", None)]]),
        timestamp_delta=st.sampled_from([0, 5, -1, 2**63 - 1]),
        offset_delta=st.none() | st.integers(-1, 9),
    ),
    max_size=4,
)


@st.composite
def batches(draw: st.DrawFn, offset: int) -> bytes:
    """One batch of any kind, perhaps with other bytes in its records than there should be."""
    drawn = draw(records)
    kind = draw(st.sampled_from(["usual"] * 6 + ["odd", "marker", "message", "wrapper"]))
    if kind == "marker":
        return marker(offset, 5, commit=True, coordinator_epoch=3)
    if kind == "message":
        return message(offset, draw(fields), draw(fields), magic=draw(st.sampled_from([0, 1])))
    if kind == "wrapper":
        return wrapper(offset, [message(offset, b"inside", magic=0)], codec="gzip", magic=0)
    if kind == "odd":
        attributes = draw(st.sampled_from([0x08, 0x10, 0x48, 0x07, 0x4F, 0x100]))
        magic = draw(st.sampled_from([2, 3, 77]))
        return batch(offset, drawn, attributes=attributes, magic=magic)
    block = b"".join(one.encode(place, TIMESTAMP) for place, one in enumerate(drawn))
    if block and draw(st.integers(0, 5)) == 0:
        block = flip(block, draw(st.integers(0, len(block) - 1)), draw(st.integers(1, 255)))
    codec = draw(st.sampled_from(["none"] * 5 + ["gzip", "zstd"]))
    return batch(
        offset,
        drawn,
        producer_id=draw(st.sampled_from([-1, 0, 2**63 - 1])),
        base_sequence=draw(st.sampled_from([-2, -1, 0, 2**31 - 1])),
        transactional=draw(st.booleans()),
        codec=codec,
        block=compressed(codec, block),
        count=draw(st.sampled_from([None, None, None, None, -1, 0, 3])),
    )


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Sound batches."""
    return b"".join(draw(batches(10 * place)) for place in range(draw(st.integers(1, 12))))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(segments())
@pytest.mark.slow
def test_what_was_forged_is_printed_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("forged") / f"{0:020d}.log"
    path.write_bytes(data)
    assert_same_lines(path)


def table_of(data: bytes) -> BatchTable:
    """The batches of ``data``, 5,000 at most, all of which must be sound."""
    rows = memoryview(array("q", bytes(8 * 5_000 * BatchTable.WIDTH)))
    pending = memoryview(array("q", bytes(8 * 5_000)))
    usual = memoryview(array("q", bytes(8 * _headers.USUAL_FIELDS)))
    n, _, why = _headers.scan_headers(data, 0, len(data), rows, pending, usual)
    assert why == _headers.END
    return BatchTable(rows).first(n)


@settings(max_examples=100, deadline=None)
@given(segments(), st.sampled_from([1, 700, 1 << 20]))
def test_lines_of_batches_are_those_of_each(data: bytes, room: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BUFFER_BYTES", room)
        table = table_of(data)
        for form in (TextLines(data=False), JsonLines('"<size>"\n', 3, force_base64=False)):
            assert b"".join(map(bytes, form.batches(table))) == b"".join(map(form.batch, table))


@pytest.mark.parametrize("room", [1500, 3000])
def test_small_buffers_lose_nothing_of_a_run(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one: list[Record] = [record(b"v" * 400), record(b"\n"), record(b'"' * 300)]
    data = b"".join(batch(10 * place, one[: place % 4]) for place in range(40))

    def printed() -> list[bytes]:
        run = RecordReader().run(table_of(data), 0, memoryview(data))
        assert len(run) == 40
        forms = TextLines(data=True), JsonLines(None, None, force_base64=False)
        return [b"".join(map(bytes, form.run(run))) for form in forms]

    expected = printed()
    assert [text.count(b"\n") for text in expected] == [40 + 60, 60]
    monkeypatch.setattr(lines, "_BUFFER_BYTES", room)
    assert printed() == expected


small = batch(0, [record(b"a"), record(b"b")])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(batch(2, [record()], codec="gzip"), id="compressed"),
        pytest.param(marker(2, 5, commit=True, coordinator_epoch=3), id="control"),
        pytest.param(wrapper(2, [message(2, magic=1)], codec="gzip"), id="wrapper"),
        pytest.param(batch(2, [record(b"v" * 65_536)]), id="large"),
        pytest.param(batch(2, [record()], count=-1), id="negative count"),
        pytest.param(batch(2, [record()], count=2), id="fewer records than counted"),
        pytest.param(batch(2, [record(), record()], count=1), id="more records than counted"),
        pytest.param(batch(2, [record(tail=b"x")]), id="unreadable"),
    ],
)
def test_a_run_ends_before_what_is_read_alone(other: bytes) -> None:
    old = message(9, b"old", magic=1)
    data = small + other + small + old + small
    table, reader = table_of(data), RecordReader()
    run = reader.run(table, 0, memoryview(data))
    assert [len(run), len(reader.run(table, 1, memoryview(data)))] == [1, 0]
    run = reader.run(table, 2, memoryview(data))
    assert [[one.value for one in run.table(place)] for place in range(len(run))] == [
        [b"a", b"b"],
        [b"old"],
        [b"a", b"b"],
    ]
    assert len(reader.run(table, 2, memoryview(data)[:-1])) == 2


def test_a_run_ends_where_there_is_no_more_room() -> None:
    data = batch(0, [record(None) for _ in range(100)]) * 700
    table, reader = table_of(data), RecordReader()
    run = reader.run(table, 0, memoryview(data))
    assert (len(run), len(run.rows) // 8) == (655, 65_500)
    assert run.table(654)[99].timestamp == TIMESTAMP
    assert len(reader.run(table, 655, memoryview(data))) == 45
