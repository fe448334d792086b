"""Exports against dumps and real consumers; tasks run in this process, as Spark would run them."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kdump.audit.targets.target import TopicSelection, assign, open_roots
from kdump.cli.main import main
from kdump.commands.export import output as export_output
from kdump.commands.export.command import _report
from kdump.commands.export.export import Order, export
from kdump.commands.export.output import FileFormat
from kdump.errors import SourceError, UsageError
from kdump.output.destination import check_outside, create_destination
from kdump.storage.paths import as_local
from kdump.storage.selection import Selection
from kdump.tables import api
from support.consumer_records import as_consumer
from support.dumps import served
from support.exports import (
    Capture,
    JsonObject,
    as_row,
    by_place,
    copies,
    dumped,
    exported,
    lines_of,
    one_batch,
    rows_of,
)
from support.fixtures_loader import consumed, few_first
from support.forge import flip, segment

pytestmark = pytest.mark.once

every_fixture = pytest.mark.parametrize("name", few_first())


def in_order(lines: Sequence[JsonObject]) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


@every_fixture
def test_lines_are_those_of_the_dump(
    name: str, grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    path, to = grown(name), tmp_path / "out"
    manifest = exported([path], to)
    expected = served(path, dumped(capfdbinary, path)[1])
    assert expected
    assert in_order(lines_of(to, manifest)) == in_order(expected)
    assert manifest.records == len(expected)
    capfdbinary.readouterr()
    assert bool(manifest.troubles) == bool(main(["verify", "--fail-on", "error", str(path)]))
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
    exported([path], to, form=FileFormat.PARQUET)
    expected = served(path, dumped(capfdbinary, path)[1])
    assert rows_of(to) == by_place(map(as_row, expected))
    assert pq.read_table(to).num_rows == len(expected)


@every_fixture
def test_records_are_those_of_consumers_from_the_start_on(
    name: str, grown: Callable[[str], Path], tmp_path: Path
) -> None:
    """Deletions, transactions and compaction included: none is missing, and none is too many."""
    for isolation in ("read_uncommitted", "read_committed"):
        to = tmp_path / isolation
        manifest = exported([grown(name)], to, read_committed=isolation == "read_committed")
        records: dict[str, list[Any]] = {}
        for line in lines_of(to, manifest):
            if not line["control"]:
                partition = f"{line['topic']}-{line['partition']}"
                records.setdefault(partition, []).append(as_consumer(line))
        for (partition, level), path in consumed(name).items():
            if level == isolation:
                theirs = [as_consumer(json.loads(line)) for line in path.read_text().splitlines()]
                assert sorted(records.get(partition, []), key=itemgetter(0)) == theirs


@pytest.mark.parametrize(
    "options", [["--offsets", "3..40"], ["--key", "key-16"], ["--producer-id", "0"]]
)
def test_filters_are_those_of_the_dump(
    options: list[str], grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    from kdump.ui.options.selection import select

    path = grown("4.3.1/clean")
    asked: dict[str, Any] = {options[0][2:].replace("-", "_"): options[1]}
    if "producer_id" in asked:
        asked["producer_id"] = int(asked["producer_id"])
    manifest = exported([path], tmp_path / "out", selection=select(**asked))
    expected = served(path, dumped(capfdbinary, path, *options)[1])
    assert in_order(lines_of(tmp_path / "out", manifest)) == in_order(expected)


def test_deleted_records_are_left_out_where_no_segment_is_named(
    grown: Callable[[str], Path], tmp_path: Path
) -> None:
    path = grown("4.3.1/clean") / "deleted-records-0"
    for number, committed in enumerate((False, True)):
        to = tmp_path / str(number)
        manifest = exported([path], to, read_committed=committed)
        assert min(line["offset"] for line in lines_of(to, manifest)) == 62
        (entry,) = manifest.partitions
        assert (entry.log_start, entry.first_offset) == (62, 62)
    log = min(path.glob("*.log"))
    manifest = exported([log], tmp_path / "log")
    assert min(line["offset"] for line in lines_of(tmp_path / "log", manifest)) == int(log.stem)
    assert int(log.stem) < 62
    assert manifest.partitions[0].log_start is None


def test_copies_begin_at_the_latest_log_start(tmp_path: Path) -> None:
    paths = copies(tmp_path, one_batch(0) + one_batch(3), one_batch(0) + one_batch(3))
    for path, start in zip(paths, (4, 2), strict=True):
        text = f"0\n1\norders 0 {start}\n"
        path.with_name("log-start-offset-checkpoint").write_text(text)
    manifest = exported(paths, tmp_path / "out", dedupe_replicas=True)
    assert [line["offset"] for line in lines_of(tmp_path / "out", manifest)] == [4, 5]


@pytest.mark.parametrize("committed", [False, True])
def test_room_for_batches_to_come_is_no_damage(committed: bool, tmp_path: Path) -> None:
    begun = one_batch(0, producer_id=1, producer_epoch=0, transactional=True, base_sequence=0)
    paths = copies(tmp_path, begun + bytes(4096))
    manifest = exported(paths, tmp_path / "out", read_committed=committed)
    assert not manifest.troubles
    assert not manifest.partitions[0].undecided
    assert manifest.records == (0 if committed else 3)


def test_limit_counts_in_the_whole_run(grown: Callable[[str], Path], tmp_path: Path) -> None:
    manifest = exported([grown("4.3.1/clean")], tmp_path / "out", selection=Selection(limit=77))
    assert manifest.records == len(lines_of(tmp_path / "out", manifest)) == 77


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


def test_the_highest_leader_epoch_wins_and_is_reported(tmp_path: Path) -> None:
    old = segment([one_batch(0, epoch=1), one_batch(3, epoch=1), one_batch(6, epoch=1)])
    new = segment([one_batch(0, epoch=1), one_batch(3, epoch=4)])
    manifest = exported(copies(tmp_path, old, new), tmp_path / "out", dedupe_replicas=True)
    lines = lines_of(tmp_path / "out", manifest)
    found = {line["offset"]: line["value"].partition("@")[2] for line in lines}
    assert len(lines) == 9
    assert found == {**dict.fromkeys((0, 1, 2, 6, 7, 8), "1"), **dict.fromkeys((3, 4, 5), "4")}
    (conflict,) = manifest.partitions[0].conflicts
    assert (conflict.first, conflict.last, conflict.epochs) == (3, 5, (1, 4))
    (overtaken,) = manifest.partitions[0].overtaken
    assert (overtaken.first, overtaken.last, overtaken.epoch) == (6, 8, 1)


def test_what_several_paths_lead_to_is_taken_once(tmp_path: Path) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))
    (path.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (log,) = path.iterdir()
    for number, paths in enumerate(([path, log], [log, path], [path.parent, path], [log, log])):
        manifest = exported(paths, tmp_path / f"out{number}", dedupe_replicas=number % 2 == 0)
        (entry,) = manifest.partitions
        assert entry.records == manifest.records == 3


def test_what_no_broker_serves_is_taken_where_it_is_named_alone(tmp_path: Path) -> None:
    top = tmp_path / "data"
    for number, suffix in enumerate(("", "-future", "-delete", "-stray")):
        path = top / (f"orders-0.{number:032x}{suffix}" if suffix else "orders-0")
        path.mkdir(parents=True)
        (path / f"{0:020d}.log").write_bytes(segment([one_batch(0)]))
    roots = list(open_roots([top]))
    targets = [one.with_listing() for one in assign(roots[0], TopicSelection(served=True))]
    assert [target.path.name for target in targets] == ["orders-0"]
    assert api.records(top).read_all().num_rows == 3
    assert api.records(*top.iterdir()).read_all().num_rows == 12


@pytest.mark.parametrize("form", FileFormat)
def test_a_full_disk_is_reported_and_leaves_nothing(
    form: FileFormat,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))

    class Full(io.FileIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            if not self.closed:
                super().close()
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(export_output, "open_sink", lambda file, _: Full(file, "x"))
    with pytest.raises(SourceError, match="cannot be written: No space left"):
        exported([path], tmp_path / "out", form=form)
    assert not (tmp_path / "out").exists()
    gc.collect()
    assert capfd.readouterr().err == ""


def test_quiet_says_nothing_of_decisions_where_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = segment([one_batch(0, epoch=1)]), segment([one_batch(0, epoch=4)])
    manifest = exported(copies(tmp_path, old, new), tmp_path / "out", dedupe_replicas=True)
    assert (_report(manifest, quiet=True), capsys.readouterr().out) == (0, "")
    assert _report(manifest, quiet=False) == 0
    assert "orders-0: replicas differ at offsets 0 to 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("parquet", ["export", "--to", "out"]),
        ("parquet", ["export", "--format", "jsonl", "--to", "s3://bucket/out"]),
        ("parquet", ["verify", "--to", "out"]),
        ("spark", ["export", "--format", "jsonl", "--to", "out", "--master", "local"]),
        ("spark", ["verify", "--master", "local"]),
    ],
)
@pytest.mark.slow
def test_without_the_extra_it_is_named(extra: str, arguments: list[str], tmp_path: Path) -> None:
    program = """
import sys
for name in ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "grpc", "google"):
    sys.modules[name] = None
from kdump.cli.main import main
from kdump.storage.paths import as_local
raise SystemExit(main(sys.argv[1:]))
"""
    (path := tmp_path / "orders-0").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'kafka-kdump[{extra}]'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_log_directory_is_no_place_for_an_export(tmp_path: Path) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))
    (path.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for to in (path.parent / "out", path / "out"):
        with pytest.raises(UsageError, match="outside of log directories"):
            exported([path], to)
        assert not to.exists()


def test_what_is_read_is_no_place_for_an_export(tmp_path: Path) -> None:
    (path,) = copies(tmp_path, segment([one_batch(0)]))
    link = tmp_path / "link"
    link.symlink_to(path)
    check_outside(tmp_path / "out", [path, path / "gone"])
    for to in (path / "out", link / "deep" / "out"):
        with pytest.raises(
            UsageError, match=("outside of the directories that are read, found a place inside")
        ):
            check_outside(to, [path])


def test_what_fails_to_begin_leaves_its_name_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def full(path: Path, *more: Any, **options: Any) -> None:
        if path.name == "_temporary":
            raise OSError(errno.ENOSPC, "No space left on device")
        mkdir(path, *more, **options)

    monkeypatch.setattr(Path, "mkdir", full)
    with (
        pytest.raises(SourceError, match="cannot be written"),
        create_destination(tmp_path / "out"),
    ):
        pass
    assert not (tmp_path / "out").exists()


def test_a_taken_name_is_refused_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    paths = copies(tmp_path, segment([one_batch(0)]))
    with pytest.raises(UsageError, match="free"):
        exported(paths, paths[0])
    assert paths[0].is_dir()

    def failing(*_: object, **__: object) -> Iterator[tuple[int, Any]]:
        raise KeyboardInterrupt

    to, order = tmp_path / "out", Order(FileFormat.PARQUET, Selection())
    targets = [one.with_listing() for root in open_roots(paths) for one in assign(root)]
    with pytest.raises(KeyboardInterrupt), create_destination(to) as destination:
        export(targets, order, destination, failing, {})
    assert not to.exists()


def test_an_attempt_that_still_writes_when_all_is_done_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two attempts at a task Spark ends one when the other is done, but not at once."""
    late: list[Path] = []
    rmdir = os.rmdir

    def beside(path: Any, *, dir_fd: int | None = None) -> None:
        if not late:
            late.append(as_local(directory.folder) / "late")
            late[0].touch()
        rmdir(path, dir_fd=dir_fd)

    with create_destination(tmp_path / "out") as directory:
        monkeypatch.setattr(os, "rmdir", beside)
        directory.finish(b"{}")
    assert late
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_manifest.json"]
