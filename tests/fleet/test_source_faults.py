"""What the system does not read is an error, in queries, streams and tables: never fewer rows.

Without a session: what Spark asks of the readers, in its order.
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet.faulty_reads import ERRORS, fail_opens, fail_reads
from support.forge import batch, record, write_partition
from support.long_samples import first_of

pytest.importorskip("pyspark.sql.streaming.datasource")

from fleet.source_queries import planned, query, rows
from fleet.stream_batches import Stream
from kdump.errors import SourceError, VanishedError
from kdump.fleet.source import ranges
from kdump.storage.source import open_regular, source_error
from kdump.tables import api

pytestmark = pytest.mark.once

BASES = (0, 10, 20, 30)
BROKEN = f"{10:020d}.log"
Read = Callable[[Path], object]


def broker(parent: Path, topic: str = "t") -> Path:
    content = {base: [batch(at, [record()] * 5) for at in (base, base + 5)] for base in BASES}
    write_partition(parent, topic, 0, content)
    (parent / "meta.properties").write_text("version=1\n")
    return parent


def offsets(path: Path, **options: str) -> list[int]:
    return sorted(row["offset"] for row in query(path, **options))


def committed(path: Path) -> object:
    return offsets(path, **{"schema": "kafka", "kafka.isolation.level": "read_committed"})


READS: dict[str, Read] = {
    "records": lambda path: api.records(path).read_all(),
    "records, not strict": lambda path: api.records(path, strict=False).read_all(),
    "batches": lambda path: api.batches(path).read_all(),
    "query": offsets,
    "query of batches": lambda path: query(path, table="batches"),
    "query as of Kafka": lambda path: offsets(path, schema="kafka"),
    "query of committed records": committed,
    "permissive query": lambda path: offsets(path, mode="PERMISSIVE"),
    "query that allows loss": lambda path: offsets(path, failOnDataLoss="false"),
    "query by time": lambda path: offsets(path, startingTimestamp="5"),
    "stream": lambda path: Stream(path).batch(),
    "permissive stream": lambda path: Stream(path, mode="DROPMALFORMED").batch(),
    "stream that allows loss": lambda path: Stream(path, failOnDataLoss="false").batch(),
}


@pytest.fixture(params=first_of(READS, 6))
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.setattr(ranges, "_WAIT_S", 0)
    return READS[request.param]


@pytest.mark.parametrize("error", first_of(ERRORS))
def test_a_log_that_cannot_be_opened(
    read: Read, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(broker(tmp_path))
    fail_opens(monkeypatch, BROKEN, ERRORS[error])
    with pytest.raises(SourceError, match=f"{BROKEN}.*{os.strerror(ERRORS[error])}"):
        read(tmp_path)


@pytest.mark.parametrize("error", first_of(["EIO", "short", "ESTALE", "ETIMEDOUT"], 2))
def test_a_log_that_cannot_be_read(
    read: Read, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_reads(monkeypatch, BROKEN, ERRORS.get(error))
    with pytest.raises(SourceError, match=BROKEN):
        read(broker(tmp_path))


@pytest.mark.parametrize("what", ["partition", "log directory below"])
@pytest.mark.parametrize("error", first_of(["ESTALE", "EACCES", "EIO"]))
def test_a_directory_that_cannot_be_listed(
    read: Read, error: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "partition":
        broken = broker(tmp_path) / "t-0"
    else:
        broker(tmp_path / "a")
        broken = broker(tmp_path / "b", "u")
    code, listing, status = ERRORS[error], os.scandir, Path.stat

    def fail(path: object) -> None:
        if str(path) == str(broken) or str(path).startswith(f"{broken}/"):
            raise OSError(code, os.strerror(code))

    def scandir(path: Any = ".") -> Any:
        fail(path)
        return listing(path)

    def stat(self: Path, **named: Any) -> os.stat_result:
        if self != broken:
            fail(self)
        return status(self, **named)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(SourceError):
        read(tmp_path)


def open_to_all(path: Path) -> None:
    """Let every user reach ``path``, however deep below the directory for temporary files."""
    top = Path(tempfile.gettempdir()).resolve()
    for each in (path, *path.parents):
        if each.is_relative_to(top) and each != top:
            each.chmod(0o755)


@pytest.mark.root
@pytest.mark.parametrize("what", first_of(["log", "partition", "log directory"]))
@pytest.mark.slow
def test_rights_of_an_ordinary_user(what: str, read: Read, tmp_path: Path) -> None:
    """And once the rights are back, all offsets come: the checkpoint of a stream has not moved."""
    open_to_all(tmp_path)
    broker(tmp_path / "a")
    broker(tmp_path / "b", "u")
    stream = Stream(tmp_path)
    broken = {
        "log": tmp_path / "a/t-0" / BROKEN,
        "partition": tmp_path / "a/t-0",
        "log directory": tmp_path / "a",
    }[what]
    mode = broken.stat().st_mode
    broken.chmod(0)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        with pytest.raises(SourceError, match="Permission denied"):
            read(tmp_path / "a")
        with pytest.raises(SourceError, match="Permission denied"):
            stream.batch()
        assert stream.got == {}
    finally:
        os.seteuid(0)
        broken.chmod(mode)
    stream.checkpoint = ""
    assert stream.batch() == {f"{topic}-0": list(range(30)) for topic in "tu"}


@pytest.mark.root
def test_findings_have_a_row_for_it(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    (broker(tmp_path) / "t-0" / BROKEN).chmod(0)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        found = {row["path"]: row["code"] for row in query(tmp_path, table="findings")}
        assert found[str(tmp_path / "t-0" / BROKEN)] == "denied"
    finally:
        os.seteuid(0)


def test_a_store_that_does_not_answer(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with pytest.raises(SourceError):
        read("s3://bucket/data")  # type: ignore[arg-type]


def test_small_files_that_decide_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the topic id a stream would begin anew, without a checkpoint read too much."""
    broker(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    assert offsets(tmp_path, schema="kafka") == list(range(7, 40))
    stream, kafka = READS["stream"], READS["query as of Kafka"]
    small = {"partition.metadata": [stream], "log-start-offset-checkpoint": [stream, kafka]}
    for name, reads in small.items():
        with monkeypatch.context() as patch:
            patch.setattr("kdump.storage.access.open_regular", _failing(name))
            for each in reads:
                with pytest.raises(SourceError, match=name):
                    each(tmp_path)


def _failing(name: str) -> Callable[[Path], Any]:
    def failing(path: Path) -> Any:
        if path.name == name:
            raise source_error(path, OSError(errno.EIO, os.strerror(errno.EIO)))
        return open_regular(path)

    return failing


# --- what may be gone


def test_a_log_that_is_gone_when_its_task_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def run(**options: str) -> list[int]:
        shutil.rmtree(tmp_path / "t-0", ignore_errors=True)
        broker(tmp_path)
        reader, tasks = planned(tmp_path, **options)
        (tmp_path / "t-0" / BROKEN).unlink()
        return [row["offset"] for row in rows(reader, tasks)]

    with pytest.raises(VanishedError, match="run the query again; with failOnDataLoss=false"):
        run()
    assert run(failOnDataLoss="false") == [*range(10), *range(20, 40)]
    assert BROKEN in caplog.text


def test_a_partition_that_is_deleted_while_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker(tmp_path)
    broker(tmp_path, "u")
    listing = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == str(tmp_path / "u-0"):
            shutil.rmtree(path, ignore_errors=True)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert offsets(tmp_path) == list(range(40))


# --- what is no log directory


def test_a_directory_of_something_else_is_no_empty_table(tmp_path: Path) -> None:
    """Some names in ``/etc`` are like those of partitions."""
    for name in ("dbus-1/session.d", "polkit-1", "ssl"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "some.conf").touch()
    (tmp_path / "empty").mkdir()
    others: list[Read] = [partial(query, table=name) for name in ("batches", "copies")]
    for read in (*READS.values(), *others):
        for path in (tmp_path, tmp_path / "ssl", tmp_path / "empty"):
            with pytest.raises(SourceError, match="expected a segment, a partition directory or a"):
                read(path)
    assert query(tmp_path, table="findings")
    (tmp_path / "meta.properties").write_text("version=1\n")
    shutil.rmtree(tmp_path / "dbus-1")
    shutil.rmtree(tmp_path / "polkit-1")
    assert query(tmp_path) == []
