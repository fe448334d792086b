"""Exports from and into object stores: as those of files, and what they leave of others."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kdump.cli.main import main
from kdump.commands.export.manifest import Manifest
from kdump.commands.export.output import FileFormat
from kdump.errors import SourceError, UsageError
from kdump.output import destination, upload
from kdump.output.destination import create_destination, extend_destination
from kdump.storage.objects import client as store_process
from kdump.storage.objects.remote_path import as_path
from kdump.ui import exits
from support.exports import exported
from support.forge import batch, record, write_partition
from support.long_samples import first_of
from support.object_stores import Bucket, free_port, served
from support.run_rows import TABLES, without
from support.store_objects import objects
from support.store_proxy import before

pytestmark = pytest.mark.once

#: Of the row of a run, what differs from run to run.
TIMES = ("begin", "end")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("exports")


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A log directory of three partitions."""
    for partition in range(3):
        write_partition(tmp_path / "logs", "orders", partition, {0: [batch(0, [record()])]})
    return tmp_path / "logs"


@pytest.fixture(autouse=True)
def _rested() -> None:
    store_process._outages.clear()


def counted(manifest: Manifest) -> list[tuple[Any, ...]]:
    """What of a manifest does not depend on where files are."""
    return [
        (one.topic, one.partition, one.records, one.first_offset, one.last_offset)
        for one in manifest.partitions
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", first_of(FileFormat))
def test_objects_are_the_files_of_a_local_export(
    form: FileFormat,
    grown: Callable[[str], Path],
    bucket: Bucket,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each task runs twice, and the file of one attempt counts."""
    path, to = grown("4.3.1/clean"), tmp_path / "out"
    here = exported([path], to, form=form)
    prefix = f"to/{form.name}"
    there = exported([path], as_path(bucket.address(prefix)), form=form)
    found = objects(bucket, prefix)
    manifest = json.loads(found.pop("_manifest.json"))
    assert found == {file.path: (to / file.path).read_bytes() for file in here.files}
    assert there == here
    assert manifest == json.loads((to / "_manifest.json").read_text())
    assert main(["check", bucket.address(prefix)]) == exits.OK
    gone, *_ = (file.path for file in here.files)
    bucket.server.client.delete_object(Bucket=bucket.name, Key=f"{prefix}/{gone}")
    bucket.put(f"{prefix}/topic=x/part-9", b"x")
    capsys.readouterr()
    assert main(["check", bucket.address(prefix)]) == exits.PROBLEMS
    said = capsys.readouterr().out
    assert [line.split(": ")[1] for line in said.splitlines()[:2]] == ["missing", "not-in-manifest"]
    assert gone in said


def test_tables_of_runs_grow_in_a_store(
    orders: Path, bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An object is put once; of a run that fails, none is left in a table."""
    for to in (str(tmp_path / "tables"), bucket.address("tables"), bucket.address("tables")):
        assert main(["verify", "--to", to, str(orders)]) == exits.OK
    found = objects(bucket, "tables")
    assert not [name for name in found if name.startswith("_temporary")]
    for table in ("runs", *TABLES):
        (local,) = (tmp_path / "tables" / table).rglob("*.parquet")
        expected = [
            without(row, "host", "seconds", *TIMES) for row in pq.read_table(local).to_pylist()
        ]
        names = [name for name in found if name.startswith(f"{table}/run_date=")]
        assert len(names) == 2
        for name in names:
            read = pq.read_table(io.BytesIO(found[name])).to_pylist()
            assert [without(row, "host", "seconds", *TIMES) for row in read] == expected
    before = set(found)
    with (
        pytest.raises(ZeroDivisionError),
        extend_destination(as_path(bucket.address("tables")), "x"),
    ):
        raise ZeroDivisionError
    assert set(objects(bucket, "tables")) == before
    capsys.readouterr()
    gone = bucket.address("tables").replace(bucket.name, "no-such-bucket")
    assert main(["verify", "--to", gone, str(orders)]) == exits.INCOMPLETE
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.slow
def test_what_was_copied_to_a_store_is_exported_as_its_files_are(
    grown: Callable[[str], Path], bucket: Bucket, tmp_path: Path
) -> None:
    path = grown("4.3.1/killed")
    address = as_path(bucket.upload(path, "from"))
    here = exported([path], tmp_path / "here", form=FileFormat.PARQUET)
    there = exported([address], tmp_path / "there", form=FileFormat.PARQUET)
    assert counted(there) == counted(here)
    for one, other in zip(here.files, there.files, strict=True):
        tables = [
            pq.read_table(io.BytesIO((tmp_path / at).read_bytes()))
            for at in (f"here/{one.path}", f"there/{other.path}")
        ]
        ours, theirs = (table.drop_columns(["source_file"]) for table in tables)
        assert ours.equals(theirs)


def test_what_is_there_already_is_refused_and_kept(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("taken/x", b"theirs")
    with pytest.raises(UsageError, match="free"):
        exported([tmp_path], as_path(bucket.address("taken")))
    assert objects(bucket, "taken") == {"x": b"theirs"}


def test_the_rest_of_a_killed_run_is_named_and_kept(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("killed/_temporary/1/begun", b"")
    with pytest.raises(UsageError, match="if none runs, remove all objects below s3://"):
        exported([tmp_path], as_path(bucket.address("killed")))
    assert objects(bucket, "killed") == {"_temporary/1/begun": b""}


def test_of_two_runs_at_a_time_not_both_go_on(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_path(bucket.address("race"))
    put = upload.put

    def late(at: Any, data: bytes) -> None:
        put(at.parent.parent / "another" / at.name, data)
        put(at, data)

    monkeypatch.setattr(upload, "put", late)
    with pytest.raises(UsageError, match="free"), create_destination(path):
        pass
    assert objects(bucket, "race") == {"_temporary/another/begun": b""}


@pytest.mark.slow
def test_a_run_that_fails_leaves_no_object(
    grown: Callable[[str], Path], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kdump.output.upload.copy", failing)
    with pytest.raises(KeyboardInterrupt):
        exported([grown("4.3.1/clean")], as_path(bucket.address("failed")))
    assert objects(bucket, "failed") == {}


def test_a_dead_endpoint_is_told(tmp_path: Path, bucket: Bucket) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        exported([tmp_path], as_path(bucket.address("dead", free_port())))


def test_an_attempt_whose_child_died_is_told(bucket: Bucket) -> None:
    with create_destination(as_path(bucket.address("died"))) as directory:
        sink = destination.open_sink(directory.folder / "x", None)
        store_process._end_child(store_process.WRITES)
        sink.write(b"1")
        with pytest.raises(OSError, match="died"):
            sink.close()
        destination.discard(directory.folder / "x", None)
        directory.finish(b"{}")
    assert objects(bucket, "died") == {"_manifest.json": b"{}"}


@pytest.mark.nightly
def test_a_log_that_a_store_keeps_back_ends_no_upload(
    grown: Callable[[str], Path], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the logs before it are on their way into the same file."""
    path = grown("4.3.1/clean") / "codec-zstd-0"
    *others, last = sorted(path.glob("*.log"))
    bucket.upload(path, f"kept/{path.name}")
    with before(bucket.server.port) as proxy:
        address = bucket.address(f"kept/{path.name}", proxy.port)
        proxy.silent = (last.name,)
        # Else the client gives up first.
        monkeypatch.setattr(store_process, "_ANSWER_SECONDS", 8.0)
        manifest = exported(
            [as_path(address)], as_path(bucket.address("beside")), form=FileFormat.JSONL
        )
    (trouble,) = manifest.troubles
    assert last.name in trouble.path
    assert "no answer within 8 seconds" in trouble.reason
    (file,) = manifest.files
    assert [log.path.partition("?")[0].rpartition("/")[2] for log in file.logs if log.records] == [
        log.name for log in others
    ]
    assert set(objects(bucket, "beside")) == {file.path, "_manifest.json"}
