"""Exports against dumps and real consumers; tasks run in this process, as Spark would run them."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures_loader import FIXTURES, consumed
from forge import batch, flip, marker, record, segment

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from zstandard import ZstdDecompressor

from kdump.audit.groups import assign, open_roots
from kdump.cli.main import main
from kdump.errors import UsageError
from kdump.fleet.destination import made
from kdump.fleet.export import Order, export
from kdump.fleet.export_task import Form
from kdump.fleet.manifest import Manifest
from kdump.storage.selection import Selection

JsonObject = dict[str, Any]
Capture = pytest.CaptureFixture[bytes]
every_fixture = pytest.mark.parametrize("name", FIXTURES)


def here(
    work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int], **_: object
) -> Iterator[tuple[int, Any]]:
    """Each task twice, the attempts in turn: of two results the last one counts."""
    assert len(tasks) == len(sizes)
    for number, task in reversed(list(enumerate(tasks))):
        work(task)
        yield number, work(task)


def exported(paths: Sequence[Path], to: Path, **options: Any) -> Manifest:
    groups = [one.listed() for root in open_roots(paths) for one in assign(root)]
    order = Order(**{"form": Form.JSONL, "selection": Selection(), **options})
    with made(to) as destination:
        return export(groups, order, destination, here, {})


def lines_of(to: Path, manifest: Manifest) -> list[JsonObject]:
    files = [to / file.path for file in manifest.files]
    assert sorted(files) == sorted(to.rglob("part-*")), "just the files of the manifest"
    texts = [ZstdDecompressor().stream_reader(path.read_bytes()).read() for path in files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def dumped(capture: Capture, path: Path, *options: str) -> tuple[int, list[JsonObject]]:
    """The records that a dump prints of logs, with the names of their files."""
    code = main(["dump", "--format", "json", "--records", *options, str(path)])
    found, file, kind = [], "", ""
    for line in map(json.loads, capture.readouterr().out.splitlines()):
        if line["type"] == "file":
            file, kind = line["path"], line["kind"]
        elif line["type"] == "record" and kind == "log":
            found.append({**line, "source_file": file})
    return code, found


def in_order(lines: Sequence[JsonObject]) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


def as_bytes(line: JsonObject, name: str) -> bytes | None:
    if f"{name}_base64" in line:
        return base64.b64decode(line[f"{name}_base64"])
    value = line[name]
    return None if value is None else value.encode()


def as_row(line: JsonObject) -> JsonObject:
    """A line of a dump as a row of the table of records."""
    plain = {name: value for name, value in line.items() if not name.endswith("_base64")}
    headers = [
        {name: as_bytes(pair, name) for name in ("key", "value")} for pair in line["headers"]
    ]
    row = {**plain, **{name: as_bytes(line, name) for name in ("key", "value")}}
    del row["type"]
    return {**row, "headers": headers}


def rows_of(to: Path) -> list[JsonObject]:
    """The records of an export as Parquet, in order."""
    hive = ds.partitioning(pa.schema([("topic", pa.string())]), flavor="hive")
    return by_place(ds.dataset(to, partitioning=hive).to_table().to_pylist())


def by_place(rows: Iterable[JsonObject]) -> list[JsonObject]:
    names = ("topic", "source_file", "position", "offset")
    return sorted(rows, key=lambda row: [row[name] for name in names])


@every_fixture
def test_lines_are_those_of_the_dump(
    name: str, grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    path, to = grown(name), tmp_path / "out"
    manifest = exported([path], to)
    code, expected = dumped(capfdbinary, path)
    assert expected
    assert in_order(lines_of(to, manifest)) == in_order(expected)
    assert manifest.records == len(expected)
    assert bool(manifest.troubles) == bool(code)
    written = json.loads((to / "_manifest.json").read_text())
    assert written["records"] == sum(part["records"] for part in written["partitions"])
    assert sorted(one.name for one in to.iterdir() if not one.name.startswith("topic=")) == [
        "_manifest.json"
    ]


@every_fixture
def test_parquet_reads_back_as_the_dump(
    name: str, grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    path, to = grown(name), tmp_path / "out"
    exported([path], to, form=Form.PARQUET)
    _, expected = dumped(capfdbinary, path)
    assert rows_of(to) == by_place(map(as_row, expected))
    assert pq.read_table(to).num_rows == len(expected)


@every_fixture
def test_read_committed_equals_a_consumer(
    name: str, grown: Callable[[str], Path], tmp_path: Path
) -> None:
    manifest = exported([grown(name)], tmp_path / "out", read_committed=True)
    offsets: dict[str, list[int]] = {}
    for line in lines_of(tmp_path / "out", manifest):
        offsets.setdefault(f"{line['topic']}-{line['partition']}", []).append(line["offset"])
    for (partition, isolation), path in consumed(name).items():
        if isolation == "read_committed":
            theirs = [json.loads(line)["offset"] for line in path.read_text().splitlines()]
            start = theirs[0] if theirs else 0  # a consumer begins at the log start offset
            ours = sorted(one for one in offsets.get(partition, []) if one >= start)
            assert ours == theirs


@pytest.mark.parametrize(
    "options", [["--offsets", "3..40"], ["--key", "key-16"], ["--producer-id", "0"]]
)
def test_filters_are_those_of_the_dump(
    options: list[str], grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    from kdump.cli.dump_select import select

    path = grown("4.3.1/clean")
    asked: dict[str, Any] = {options[0][2:].replace("-", "_"): options[1]}
    if "producer_id" in asked:
        asked["producer_id"] = int(asked["producer_id"])
    manifest = exported([path], tmp_path / "out", selection=select(**asked))
    _, expected = dumped(capfdbinary, path, *options)
    assert in_order(lines_of(tmp_path / "out", manifest)) == in_order(expected)


def test_limit_counts_in_the_whole_run(grown: Callable[[str], Path], tmp_path: Path) -> None:
    manifest = exported([grown("4.3.1/clean")], tmp_path / "out", selection=Selection(limit=77))
    assert manifest.records == len(lines_of(tmp_path / "out", manifest)) == 77


def one_batch(offset: int, *, epoch: int = 0, **more: Any) -> bytes:
    """Three records, each with its offset as value."""
    values = [record(value=f"{offset + place}@{epoch}".encode()) for place in range(3)]
    return batch(offset, values, leader_epoch=epoch, **more)


def copies(top: Path, *logs: bytes) -> list[Path]:
    paths = [top / f"broker{number}" / "orders-0" for number in range(len(logs))]
    for path, log in zip(paths, logs, strict=True):
        path.mkdir(parents=True)
        (path / f"{0:020d}.log").write_bytes(log)
    return paths


def test_damaged_copies_make_up_for_each_other(tmp_path: Path) -> None:
    whole = [one_batch(3 * number) for number in range(20)]
    logs = [
        segment(flip(one, 70) if number % 3 == bad else one for number, one in enumerate(whole))
        for bad in range(3)
    ]
    paths = copies(tmp_path, *logs)
    manifest = exported(paths, tmp_path / "out", dedupe_replicas=True)
    found = [line["offset"] for line in lines_of(tmp_path / "out", manifest)]
    assert sorted(found) == list(range(60))
    assert sum(trouble.damaged for trouble in manifest.troubles) == 20


def test_the_highest_leader_epoch_wins_and_is_told(tmp_path: Path) -> None:
    old = segment([one_batch(0, epoch=1), one_batch(3, epoch=1), one_batch(6, epoch=1)])
    new = segment([one_batch(0, epoch=1), one_batch(3, epoch=4)])
    manifest = exported(copies(tmp_path, old, new), tmp_path / "out", dedupe_replicas=True)
    lines = lines_of(tmp_path / "out", manifest)
    found = {line["offset"]: line["value"].partition("@")[2] for line in lines}
    assert len(lines) == 9
    assert found == {**dict.fromkeys((0, 1, 2, 6, 7, 8), "1"), **dict.fromkeys((3, 4, 5), "4")}
    (conflict,) = manifest.partitions[0].conflicts
    assert (conflict.first, conflict.last, conflict.epochs) == (3, 5, (1, 4))


def in_transaction(offset: int, producer: int) -> bytes:
    return one_batch(
        offset, producer_id=producer, producer_epoch=0, base_sequence=offset, transactional=True
    )


def test_what_is_behind_an_open_transaction_is_not_stable(tmp_path: Path) -> None:
    log = segment([one_batch(0), in_transaction(3, 7), one_batch(6)])
    manifest = exported(copies(tmp_path, log), tmp_path / "out", read_committed=True)
    assert sorted(line["offset"] for line in lines_of(tmp_path / "out", manifest)) == [0, 1, 2]
    assert manifest.partitions[0].end == 3


def test_a_marker_that_damage_took_is_told_and_found_in_another_copy(tmp_path: Path) -> None:
    end = marker(6, commit=True, producer_id=7)
    parts = [one_batch(0), in_transaction(3, 7), end, one_batch(7)]
    bad = segment([*parts[:2], flip(end, 65), parts[3]])
    alone = exported(copies(tmp_path / "a", bad), tmp_path / "one", read_committed=True)
    offsets = sorted(line["offset"] for line in lines_of(tmp_path / "one", alone))
    assert offsets == [0, 1, 2, 7, 8, 9]
    assert alone.partitions[0].undecided == ((7, 3),)
    both = exported(
        copies(tmp_path / "b", bad, segment(parts)),
        tmp_path / "two",
        read_committed=True,
        dedupe_replicas=True,
    )
    offsets = sorted(line["offset"] for line in lines_of(tmp_path / "two", both))
    assert offsets == [*range(6), 7, 8, 9]


def test_a_lost_marker_does_not_lend_its_transaction_the_end_of_the_next(tmp_path: Path) -> None:
    aborted, committed = (
        marker(6, commit=False, producer_id=7),
        marker(10, producer_id=7, commit=True),
    )
    parts = [in_transaction(3, 7), flip(aborted, 65), in_transaction(7, 7), committed]
    found = exported(copies(tmp_path / "a", segment(parts)), tmp_path / "one", read_committed=True)
    assert sorted(line["offset"] for line in lines_of(tmp_path / "one", found)) == [7, 8, 9]
    assert found.partitions[0].undecided == ((7, 3),)


def test_a_taken_name_is_refused_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    paths = copies(tmp_path, segment([one_batch(0)]))
    with pytest.raises(UsageError, match="free"):
        exported(paths, paths[0])
    assert paths[0].is_dir()

    def failing(*_: object, **__: object) -> Iterator[tuple[int, Any]]:
        raise KeyboardInterrupt

    to, order = tmp_path / "out", Order(Form.PARQUET, Selection())
    groups = [one.listed() for root in open_roots(paths) for one in assign(root)]
    with pytest.raises(KeyboardInterrupt), made(to) as destination:
        export(groups, order, destination, failing, {})
    assert not to.exists()


def test_an_attempt_that_still_writes_when_all_is_done_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two attempts at a task Spark ends one when the other is done, but not at once."""
    late: list[Path] = []
    rmdir = os.rmdir

    def beside(path: Any, *, dir_fd: int | None = None) -> None:
        if not late:
            late.append(directory.folder / "late")
            late[0].touch()
        rmdir(path, dir_fd=dir_fd)

    with made(tmp_path / "out") as directory:
        monkeypatch.setattr(os, "rmdir", beside)
        directory.finish(b"{}")
    assert late
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_manifest.json"]
