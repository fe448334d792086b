"""The files of an export: how many, of which size, which names, and what each holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from kdump.audit.targets.target import assign, open_roots
from kdump.commands.export import files as export_files
from kdump.commands.export.export import Order, _entries, export
from kdump.commands.export.files import Ledger, TaskFile, file_name
from kdump.commands.export.manifest import FileEntry
from kdump.commands.export.output import FileFormat, WrittenFile
from kdump.commands.export.parts import ExportPart
from kdump.commands.export.task import ExportResult, ExportTask, Share
from kdump.output.destination import create_destination
from kdump.storage.selection import Selection
from kdump.tables.logs import Log
from support.exports import by_place, here, lines_of, rows_of
from support.forge import TIMESTAMP, batch, message, record, write_partition

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("unsearched")]

HOUR = 3_600_000


def at(offset: int, *times: int, **more: Any) -> bytes:
    """A batch with a record for each time, in ms from ``TIMESTAMP`` on."""
    records = [record(b"v", timestamp=TIMESTAMP + each) for each in times]
    return batch(offset, records, max_timestamp=TIMESTAMP + max(times), **more)


def small_topics(top: Path, topics: int, partitions: int, brokers: int) -> list[Path]:
    paths = [top / f"broker{number}" for number in range(brokers)]
    for path in paths:
        path.mkdir(parents=True)
        (path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
        for topic in range(topics):
            for partition in range(partitions):
                write_partition(path, f"topic{topic:02d}", partition, {0: [at(0, 0)]})
    return paths


def sized(paths: Sequence[Path], to: Path, **options: Any) -> Any:
    """An export that knows the sizes of the logs."""
    targets = [one.with_listing() for root in open_roots(paths) for one in assign(root)]
    order = Order(**{"form": FileFormat.JSONL, "selection": Selection(), **options})
    logs = [segment.log for target in targets for segment in target.segments]
    sizes = {log: log.stat().st_size for log in logs}
    with create_destination(to) as destination:
        return export(targets, order, destination, here, sizes)


def test_small_logs_of_a_topic_share_a_file_across_brokers(tmp_path: Path) -> None:
    paths = small_topics(tmp_path / "in", 20, 3, 3)
    manifest = sized(paths, tmp_path / "out")
    assert [file.path for file in manifest.files] == [
        f"topic=topic{number:02d}/part-{number:05d}.jsonl.zst" for number in range(20)
    ]
    assert [file.records for file in manifest.files] == [9] * 20
    # The copies of a partition are neighbours.
    partitions = [log.partition for log in manifest.files[0].logs]
    assert partitions == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("form", FileFormat)
def test_a_large_log_is_divided_between_batches(form: FileFormat, tmp_path: Path) -> None:
    batches = [
        at(3 * number, 0, 1, 2, codec="lz4" if number % 3 else "none") for number in range(40)
    ]
    (tmp_path / "in").mkdir()
    path = write_partition(tmp_path / "in", "orders", 0, {0: batches, 120: [at(120, 0)]})
    size = sum(map(len, batches))
    one = sized([path], tmp_path / "one", form=form)
    assert [file.records for file in one.files] == [121]
    limit = size // 4 + 1
    manifest = sized([path], tmp_path / "out", form=form, file_bytes=limit)
    assert [file.path.rpartition("/")[2] for file in manifest.files] == [
        f"part-{number:05d}.{form.value}" for number in range(5)
    ]
    logs = [file.logs[0] for file in manifest.files if len(file.logs) == 1]
    assert len(logs) == 5
    assert [log.first_offset for log in logs] == sorted(log.first_offset for log in logs)
    for before, after in pairwise(logs):
        assert after.first_offset == before.last_offset + 1
        assert after.first_offset % 3 == 0, "a batch is in one file"
    assert all(log.records == log.last_offset - log.first_offset + 1 for log in logs)
    sizes = [
        sum(map(len, batches[log.first_offset // 3 : log.last_offset // 3 + 1])) for log in logs[:4]
    ]
    assert max(sizes) <= limit + max(map(len, batches))
    (entry,) = manifest.partitions
    assert (entry.records, entry.first_offset, entry.last_offset) == (121, 0, 120)
    if form is FileFormat.PARQUET:
        assert rows_of(tmp_path / "out") == rows_of(tmp_path / "one")
    else:
        assert by_place(lines_of(tmp_path / "out", manifest)) == by_place(
            lines_of(tmp_path / "one", one)
        )


def test_a_batch_of_many_runs_is_not_divided(tmp_path: Path) -> None:
    """Its records are read in several runs, each with the position of the batch."""
    (tmp_path / "in").mkdir()
    large = batch(0, [record(b"v")] * 70_000)
    path = write_partition(tmp_path / "in", "orders", 0, {0: [large, batch(70_000, [record()])]})
    manifest = sized([path], tmp_path / "out", file_bytes=len(large) // 3)
    assert [
        (log.first_offset, log.last_offset) for file in manifest.files for log in file.logs
    ] == [
        (0, 69_999),
        (70_000, 70_000),
    ]


@pytest.mark.parametrize("form", FileFormat)
def test_each_hour_has_files_of_its_own(form: FileFormat, tmp_path: Path) -> None:
    first = TIMESTAMP // HOUR
    batches = [
        at(0, 0, HOUR, 2 * HOUR, 1),
        at(4, 2 * HOUR, 2 * HOUR + 1),
        batch(6, [record(timestamp=-5), record(timestamp=2**62)], base_timestamp=0),
        batch(8, [record()], timestamp_type="LogAppendTime", max_timestamp=TIMESTAMP + HOUR),
    ]
    (tmp_path / "in").mkdir()
    paths = [
        write_partition(tmp_path / "in", "orders", 0, {0: batches}),
        write_partition(tmp_path / "in", "orders", 1, {0: [message(0, b"v", magic=0)]}),
    ]
    manifest = sized(paths, tmp_path / "out", form=form, hourly=True)
    names = {file.path: [log.records for log in file.logs] for file in manifest.files}
    null = "__HIVE_DEFAULT_PARTITION__"
    place = "topic=orders/date=2023-11-14"
    assert names == {
        f"{place}/hour=22/part-00000.{form.value}": [2],
        f"{place}/hour=23/part-00001.{form.value}": [2],
        f"topic=orders/date=2023-11-15/hour=00/part-00002.{form.value}": [3],
        f"topic=orders/date={null}/hour={null}/part-00003.{form.value}": [2, 1],
    }
    assert first % 24 == 22
    if form is FileFormat.PARQUET:
        table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
        hours = {row["offset"]: row["hour"] for row in table.to_pylist() if row["partition"] == 0}
        assert hours == {0: 22, 1: 23, 2: 0, 3: 22, 4: 0, 5: 0, 6: None, 7: None, 8: 23}
    else:
        assert len(lines_of(tmp_path / "out", manifest)) == 10


@pytest.mark.slow
def test_few_files_are_open_and_little_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is the same, but for the number of files."""
    # Of compressed batches each is read by itself.
    batches = [
        at(2 * number, number % 5 * HOUR, number % 7 * HOUR, codec="lz4") for number in range(60)
    ]
    (tmp_path / "in").mkdir()
    path = write_partition(tmp_path / "in", "orders", 0, {0: batches})
    plain = sized([path], tmp_path / "plain", form=FileFormat.PARQUET, hourly=True)
    assert len(plain.files) == 7
    monkeypatch.setattr(export_files, "_MOST_HELD", 200)
    flushed = sized([path], tmp_path / "flushed", form=FileFormat.PARQUET, hourly=True)
    assert [file.path for file in flushed.files] == [file.path for file in plain.files]
    monkeypatch.setattr(export_files, "_MOST_OPEN", 2)
    closed = sized([path], tmp_path / "closed", form=FileFormat.PARQUET, hourly=True)
    assert len(closed.files) > 7
    found = [
        sorted(
            (row["hour"], row["offset"])
            for row in ds.dataset(tmp_path / name, partitioning="hive").to_table().to_pylist()
        )
        for name in ("plain", "flushed", "closed")
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 120


def test_names_sort_as_their_numbers(tmp_path: Path) -> None:
    assert file_name("a/b", None, "00007", "parquet") == "topic=a%2Fb/part-00007.parquet"
    assert file_name(None, 24 * 365, "1", "x") == (
        "topic=__HIVE_DEFAULT_PARTITION__/date=1971-01-01/hour=00/part-1.x"
    )


def test_the_sums_of_partitions_take_linear_time() -> None:
    """Of four times as many partitions four times as long, not sixteen."""
    took = {}
    for count in (1000, 4000):
        logs = [Log(Path(f"/data/t-{number}/0.log"), 0, False, 1) for number in range(count)]
        parts = [
            ExportPart("t", number, [[Share(log)]], set(), [None], [None])
            for number, log in enumerate(logs)
        ]
        files, results = [], []
        for log in logs:
            ledger = Ledger(log.origin.source_file, "h", "t", log.origin.partition, 1, 1, 0, 0)
            files.append(FileEntry(f"{ledger.path}.x", 1, "0", (ledger,)))
            made = TaskFile(WrittenFile(log.path, 1, "0"), None, (ledger,))
            task = ExportTask(
                (Share(log),),
                Path("/"),
                None,
                FileFormat.JSONL,
                Selection(),
                export_files.FileLayout(),
            )
            results.append((task, ExportResult((made,), (), (0,), ((),), (False,))))
        took[count] = inf
        for _ in range(3):
            start = time.process_time()
            entries = list(_entries(parts, files, results, {}))
            took[count] = min(took[count], time.process_time() - start)
        assert [entry.records for entry in entries] == [1] * count
    assert took[4000] < 8 * took[1000]


def test_workers_and_attempts_do_not_change_a_file(tmp_path: Path) -> None:
    """`here` runs each task twice: of files that readers ignore nothing stays."""
    batches = [at(3 * number, 0, HOUR, 2 * HOUR) for number in range(40)]
    (tmp_path / "in").mkdir()
    path = write_partition(tmp_path / "in", "orders", 0, {0: batches})
    options = {"form": FileFormat.PARQUET, "hourly": True, "file_bytes": 2000}
    first, second = (sized([path], tmp_path / name, **options) for name in ("a", "b"))
    assert first == second
    assert len(first.files) > 3
    found = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*.*")}
    assert found - {"_manifest.json"} == {file.path for file in first.files}
