"""The tables in Arrow hold what ``kdump dump`` prints, whatever magic, codec and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commands import kdump
from support.dumps import dumped
from support.fixtures_loader import FIXTURES, REPLICAS, copy_fixture, few_first
from support.forge import (
    CODECS,
    batch,
    flip,
    marker,
    message,
    record,
    segment,
    wrapper,
    write_partition,
)
from support.long_samples import first_of

pa = pytest.importorskip("pyarrow")

from kdump.cli.main import main  # noqa: E402
from kdump.errors import (  # noqa: E402
    DecodeError,
    LimitError,
    SourceError,
    UsageError,
    VanishedError,
)
from kdump.format.batch import BatchTable, RecordRun, read_header  # noqa: E402
from kdump.format.records import RecordReader  # noqa: E402
from kdump.storage.record_runs import Unread, record_runs  # noqa: E402
from kdump.tables import api, records  # noqa: E402
from kdump.tables.corruption import CorruptRange  # noqa: E402
from kdump.tables.logs import Origin  # noqa: E402
from kdump.tables.records import RecordColumns  # noqa: E402
from kdump.tables.schema import BATCHES, COPIES, FINDINGS, RECORDS  # noqa: E402

pytestmark = pytest.mark.once

ORIGIN = Origin("t", 0, "log")


class Bytes:
    """A source that is all in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def window(self, position: int, at_least: int = 1) -> memoryview:
        return memoryview(self.data)[position:]


def rows(*batches: bytes, encoded: bool = False) -> list[dict[str, Any]]:
    """The records of ``batches``, by way of one Arrow table."""
    whole = b"".join(batches)
    headers, position = [], 0
    for data in batches:
        header = read_header(memoryview(whole)[position:], position)
        assert header is not None
        headers.append(memoryview(BatchTable.of(header).rows).tolist())
        position += len(data)
    table = BatchTable(memoryview(b"".join(map(packed, headers))).cast("q"))
    columns = RecordColumns(encoded=encoded)
    columns.start(ORIGIN)
    found = []
    for run in record_runs(table, Bytes(whole), RecordReader()):  # type: ignore[arg-type]
        assert isinstance(run, RecordRun)
        found.append(columns.add(run))
    found.append(columns.finish())
    batches_of = [one for one in found if one is not None]
    for one in batches_of:
        one.validate(full=True)
        assert one.schema == columns.schema
    return list(pa.Table.from_batches(batches_of, columns.schema).to_pylist())


def packed(row: Sequence[int]) -> bytes:
    return b"".join(number.to_bytes(8, "little", signed=True) for number in row)


def same(line: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: line.get(name) for name in names}


@pytest.mark.parametrize("name", few_first())
def test_records_are_those_of_dump(name: str, grown: Callable[[str], Path]) -> None:
    directory = grown(name)
    table = api.records(directory).read_all()
    table.validate(full=True)
    assert table.schema == RECORDS
    expected = [same(line, RECORDS.names) for line in dumped("--records", directory)]
    assert table.to_pylist() == expected
    assert expected


@pytest.mark.parametrize("name", few_first())
def test_batches_are_those_of_dump(name: str, grown: Callable[[str], Path]) -> None:
    directory = grown(name)
    table = api.batches(directory).read_all()
    assert table.schema == BATCHES
    expected = [
        same({**line, "damage": line.get("reason")}, BATCHES.names) for line in dumped(directory)
    ]
    assert table.to_pylist() == expected


def test_every_field_of_a_record() -> None:
    headers = [(b"name", b"x"), (b"\xff", None), (b"", b"")]
    data = batch(
        7,
        [record(None, b"\x00\xff", headers, timestamp=-5), record(b"", None)],
        base_timestamp=2**63 - 6,
        max_timestamp=2**63 - 6,
        producer_id=2**62,
        producer_epoch=2**15 - 1,
        base_sequence=2**31 - 1,
        leader_epoch=-1,
        transactional=True,
        codec="zstd",
    )
    first, second = rows(data)
    assert first == {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp": -5,
        "timestamp_type": "CreateTime",
        "key": b"\x00\xff",
        "value": None,
        "headers": [
            {"key": b"name", "value": b"x"},
            {"key": b"\xff", "value": None},
            {"key": b"", "value": b""},
        ],
        "producer_id": 2**62,
        "producer_epoch": 2**15 - 1,
        "sequence": 2**31 - 1,
        "codec": "zstd",
        "magic": 2,
        "leader_epoch": -1,
        "transactional": True,
        "control": False,
        "source_file": "log",
        "position": 0,
    }
    assert second == first | {
        "offset": 8,
        "timestamp": 2**63 - 6,
        "key": None,
        "value": b"",
        "headers": [],
        "sequence": 0,
    }


def test_magic_changes_between_records_and_within_a_wrapper() -> None:
    old = [message(at, b"v", magic=at % 2, timestamp=at) for at in range(4)]
    found = rows(
        message(0, b"0", magic=0),
        message(1, b"1", b"k", magic=1, attributes=8, timestamp=9),
        batch(2, [record(b"2")], timestamp_type="LogAppendTime", max_timestamp=8),
        wrapper(3, old, codec="gzip", magic=0),
        marker(9, 5, commit=True),
    )
    names = ("offset", "magic", "timestamp", "timestamp_type", "codec", "control")
    assert [tuple(row[name] for name in names) for row in found] == [
        (0, 0, None, "NoTimestampType", "none", False),
        (1, 1, 9, "LogAppendTime", "none", False),
        (2, 2, 8, "LogAppendTime", "none", False),
        (0, 0, None, "NoTimestampType", "gzip", False),
        (1, 1, 1, "NoTimestampType", "gzip", False),
        (2, 0, None, "NoTimestampType", "gzip", False),
        (3, 1, 3, "NoTimestampType", "gzip", False),
        (9, 2, 1_700_000_000_000, "CreateTime", "none", True),
    ]


FIELD = st.none() | st.binary(max_size=12)
DRAWN = st.lists(
    st.tuples(FIELD, FIELD, st.lists(st.tuples(st.binary(max_size=5), FIELD), max_size=4)),
    min_size=1,
    max_size=8,
)


@given(st.lists(st.tuples(DRAWN, st.sampled_from(CODECS)), min_size=1, max_size=5), st.booleans())
@pytest.mark.slow
def test_no_byte_is_lost(drawn: list[tuple[Any, str]], encoded: bool) -> None:
    batches: list[bytes] = []
    expected: list[Any] = []
    for content, codec in drawn:
        batches.append(batch(len(expected), [record(v, k, h) for k, v, h in content], codec=codec))
        expected += content
    found = [
        (row["key"], row["value"], [(header["key"], header["value"]) for header in row["headers"]])
        for row in rows(*batches, encoded=encoded)
    ]
    assert found == expected


@pytest.mark.parametrize("limits", [(8, 64, 16), (8, 1, 1), (300, 1 << 20, 1)])
def test_bounds_cost_no_record(
    limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [
        batch(8 * at, [record(b"v" * (at % 50), b"k" * at, [(b"h", b"x")] * (at % 3))] * 8)
        for at in range(40)
    ]
    expected = rows(*batches)
    monkeypatch.setattr(records, "_BYTES", limits[1])
    monkeypatch.setattr(records, "_HEADERS", limits[2])
    assert rows(*batches) == expected


def test_more_headers_than_are_read_at_once() -> None:
    headers = [(b"%d" % number, b"x" * (number % 5)) for number in range(10_000)]
    first, second, third = rows(
        batch(0, [record(b"a", None, headers), record(), record(b"b", None, headers)])
    )
    assert [(one["key"], one["value"]) for one in first["headers"]] == headers
    assert second["headers"] == []
    assert third["headers"] == first["headers"]


def test_one_arrow_batch_may_hold_many_files(tmp_path: Path) -> None:
    for number in range(30):
        write_partition(tmp_path, "t", number, {0: [batch(0, [record(b"%d" % number)])]})
    (tmp_path / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=c\n")
    found = list(api.records(tmp_path, columns=["partition", "value", "source_file"]))
    assert len(found) == 1
    assert [(row["partition"], row["value"]) for row in found[0].to_pylist()] == [
        (number, b"%d" % number) for number in range(30)
    ]


def test_damage_costs_only_what_it_hit(tmp_path: Path) -> None:
    good = [batch(at, [record(b"%d" % at)]) for at in range(4)]
    cut = batch(4, [record(b"4"), record(b"cut", length=99)])
    (path,) = write_partition(
        tmp_path, "t", 0, {0: [good[0], flip(good[1], -1), good[2], cut]}
    ).glob("*.log")
    reported: list[CorruptRange] = []
    found = api.records(path, strict=False, corrupt=reported.append).read_all().to_pylist()
    assert [row["offset"] for row in found] == [0, 2, 4]
    assert [(one.first_offset, one.last_offset, one.reason) for one in reported] == [
        (1, 1, "bad-checksum"),
        (4, 5, "records-unreadable"),
    ]
    with pytest.raises(DecodeError, match=r"t-0: offsets 1 to 1 cannot be .*; strict=False leaves"):
        api.records(path).read_all()
    reasons = [row["damage"] for row in api.batches(path).read_all().to_pylist()]
    assert reasons == [None, "bad-checksum", None, None]
    with pytest.raises(DecodeError, match="bad-checksum at position"):
        api.batches(path, strict=True).read_all()
    with pytest.raises(UsageError, match="expected strict=False"):
        api.records(path, corrupt=reported.append)


def test_unread_records_are_reported(tmp_path: Path) -> None:
    large = batch(0, [record(b"\0" * (65 << 20))], codec="zstd")
    cut = batch(1, [record(b"1"), record(b"cut", length=99)])
    for data, kind in ((large, LimitError), (cut, DecodeError)):
        path = tmp_path / kind.__name__ / "t-0" / f"{0:020d}.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(segment([data]))
        with pytest.raises(kind):
            api.records(path).read_all()
        assert api.records(path, strict=False).read_all().num_rows == (kind is DecodeError)
    header = read_header(memoryview(cut), 0)
    assert header is not None
    run, unread = record_runs(BatchTable.of(header), Bytes(cut), RecordReader())  # type: ignore[arg-type]
    assert isinstance(run, RecordRun)
    assert isinstance(unread, Unread)
    assert unread.batch == header


def test_a_path_that_is_not_there_is_no_empty_table(tmp_path: Path) -> None:
    for read in (api.records, api.batches):
        with pytest.raises(SourceError, match="gone"):
            read(tmp_path / "gone")
    codes = [row["code"] for row in api.findings(tmp_path / "gone").read_all().to_pylist()]
    assert codes == ["unreadable"] or codes == ["vanished"]


@pytest.mark.parametrize(("there", "error"), [(False, VanishedError), (True, SourceError)])
def test_a_log_that_cannot_be_opened_is_an_error(
    tmp_path: Path, there: bool, error: type[SourceError]
) -> None:
    partition = write_partition(tmp_path, "t", 0, {0: [batch(0, [record()])]})
    (log,) = partition.glob("*.log")
    readers = api.records(partition, strict=False), api.batches(partition)
    log.unlink()
    if there:
        log.mkdir()
    for reader in readers:
        with pytest.raises(error, match=log.name):
            reader.read_all()


def test_findings_and_judgements_are_those_of_verify(grown: Callable[[str], Path]) -> None:
    directory = grown(FIXTURES[-1])
    table = api.findings(directory, deep=True, jobs=2).read_all()
    assert table.schema == FINDINGS
    verdict = list(api.verify(directory, deep=True, jobs=2))
    told = [finding.code.name for one in verdict for finding in one.findings]
    assert sorted(told) == sorted(row["code"] for row in table.to_pylist() if row["topic"])
    assert all(one.forecast is not None for one in verdict)


def test_names_that_are_not_utf_8_have_escapes(tmp_path: Path) -> None:
    path = tmp_path / "\udcff-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(batch(0, [record()]))
    (row,) = api.records(path).read_all().to_pylist()
    assert (row["topic"], row["partition"]) == ("\\xff", 0)
    assert row["source_file"] == str(tmp_path / "\\xff-0" / f"{0:020d}.log")


@pytest.mark.parametrize("form", first_of(["manifests", "directories"]))
@pytest.mark.slow
def test_copies_are_those_of_compare(form: str, tmp_path: Path) -> None:
    top = copy_fixture(REPLICAS[0], tmp_path / "top")
    log = top / "1" / "same-0" / f"{0:020d}.log"
    log.write_bytes(flip(log.read_bytes(), 600))
    paths = [top / node for node in ("1", "2", "3")]
    if form == "manifests":
        for path in paths:
            assert main(["manifest", str(path), "--to", f"{path}.kdm"]) == 0
        paths = [Path(f"{path}.kdm") for path in paths]
    table = api.copies(*paths, jobs=1).read_all()
    table.validate(full=True)
    assert table.schema == COPIES
    said = kdump("compare", *paths)

    def named(line: dict[str, Any], *more: int) -> tuple[Any, ...]:
        return line["topic"], line["partition"], *more

    partitions = {named(line): line for line in said.of("partition")}
    leaders = {named(line, line["copy"]): line["truncations"] for line in said.of("leader")}
    differences: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in said.of("difference"):
        for copy, other in (line["copies"], line["copies"][::-1]):
            kept = same(line, ["kind", "offset", "detail"])
            differences.setdefault(named(line, copy), []).append({"copy": other, **kept})
    expected = []
    for line in said.of("copy"):
        whole, key = partitions[named(line)], named(line, line["copy"])
        alone = [
            same(each, ["first_offset", "last_offset"])
            for each in whole["alone"]
            if each["copy"] == line["copy"]
        ]
        more = {"alone": alone, "differences": differences.get(key, [])}
        row = {**whole, **line, **more, "truncations": leaders.get(key)}
        expected.append(same(row, COPIES.names))
    assert table.to_pylist() == expected
    assert sum(bool(row["damages"]) for row in expected) == 2
    assert sum(bool(row["differences"]) for row in expected) > 2


def test_copies_whose_offsets_end_where_numbers_do(tmp_path: Path) -> None:
    paths = []
    for node, base in enumerate((2**63 - 1, 2**63 - 3)):
        data = [batch(0, [record(b"v")]), batch(base, [record(b"v")])]
        paths.append(write_partition(tmp_path / f"{node}\udcff", "t", 0, {0: data}))
    rows = api.copies(*paths, jobs=1).read_all().to_pylist()
    assert [row["end_offset"] for row in rows] == [2**63 - 1, 2**63 - 2]
    assert [row["path"] for row in rows] == [str(path).replace("\udcff", "\\xff") for path in paths]
    assert {row["state"] for row in rows} == {"different"}
