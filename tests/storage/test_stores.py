"""What a child process answers for a store: here without the process."""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.exceptions as failures
import pytest
from pyarrow.fs import LocalFileSystem

from kdump.errors import SourceError, VanishedError
from kdump.storage import object_source
from kdump.storage.object_source import ObjectSource
from kdump.storage.objects import arrow, client, listings, ranges
from kdump.storage.objects.ranges import Range
from kdump.storage.objects.remote_path import RemotePath, as_path
from kdump.storage.objects.s3 import S3Bucket, _explained
from kdump.storage.objects.server import Stores
from kdump.storage.objects.status import ATTEMPTS, ListedName, ObjectStatus
from kdump.storage.throttle import Pace
from support.object_stores import Bucket, served


def remote(text: str) -> RemotePath:
    path = as_path(text)
    assert isinstance(path, RemotePath)
    return path


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("direct")


@pytest.fixture
def gs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    """An address whose store is a directory."""
    local = LocalFileSystem(), str(tmp_path)
    monkeypatch.setattr(arrow, "_connect", lambda _: local)
    return remote("gs://copies")


def name_of(stores: Stores, path: RemotePath) -> str:
    """Return the name of an object in pyarrow's store of it. It runs in a child."""
    return stores.system(path)[1]


def kill(_: Stores, __: RemotePath, number: int) -> None:
    """End the child that it runs in by a signal."""
    faulthandler.disable()  # that of pytest would print a traceback
    os.kill(os.getpid(), number)
    time.sleep(60)  # another thread may get the signal


def number_of(error: pytest.ExceptionInfo[OSError]) -> int | None:
    return error.value.errno


def test_a_bucket(bucket: Bucket) -> None:
    stores, top = Stores(), remote(bucket.address(""))
    bucket.put("t-0/a.log", b"0123456789")
    bucket.put("t-0/b.log", b"")
    listed = {entry.name: entry.status for entry in stores.entries(top / "t-0")}
    assert sorted(listed) == ["a.log", "b.log"]
    path, status = top / "t-0" / "a.log", listed["a.log"]
    assert stores.status(path) == status
    assert (status.size, status.directory) == (10, False)
    assert bytes(stores.read(path, 2, 5, status)) == b"23456"
    # The client of S3 that writes survives no fork, and other tests fork this process.
    assert client.ask(path, name_of) == "direct/t-0/a.log"
    bucket.put("t-0/a.log", b"9876543210")
    with pytest.raises(OSError) as error:
        stores.read(path, 2, 5, status)
    assert number_of(error) == errno.ESTALE
    for absent in (top / "none", top / "t-0" / "none"):
        with pytest.raises(FileNotFoundError):
            stores.status(absent)
        with pytest.raises(FileNotFoundError):
            stores.entries(absent)


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    address = bucket.address("t-0/a.log").replace("direct", "elsewhere")
    with pytest.raises(OSError, match="expected the bucket elsewhere") as error:
        Stores().entries(remote(address))
    assert number_of(error) == errno.ENXIO


@pytest.mark.parametrize(
    ("status", "code", "number"),
    [
        (404, "NoSuchBucket", errno.ENXIO),
        (404, "NoSuchKey", errno.ENOENT),
        (412, "PreconditionFailed", errno.ESTALE),
        (416, "InvalidRange", errno.ESTALE),
        (403, "InvalidObjectState", errno.EIO),
        (403, "AccessDenied", errno.EACCES),
        (401, "", errno.EACCES),
        (400, "ExpiredToken", errno.EACCES),
        (503, "SlowDown", errno.EIO),
        (429, "", errno.EIO),
    ],
)
def test_refusals(status: int, code: str, number: int) -> None:
    response: Any = {
        "Error": {"Code": code, "Message": "two\nlines"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    with pytest.raises(OSError) as error, _explained("copies", "a store"):
        raise failures.ClientError(response, "GetObject")
    assert number_of(error) == number
    assert "\n" not in str(error.value)
    assert ("attempts" in str(error.value)) == (status in (503, 429))


@pytest.mark.parametrize(
    ("failure", "number"),
    [
        (failures.NoCredentialsError(), errno.EACCES),
        (failures.EndpointConnectionError(endpoint_url="x"), errno.EHOSTUNREACH),
        (failures.ReadTimeoutError(endpoint_url="x"), errno.ETIMEDOUT),
        (failures.IncompleteReadError(actual_bytes=1, expected_bytes=2), errno.EHOSTUNREACH),
        (failures.DataNotFoundError(data_path="x"), errno.EIO),
    ],
)
def test_failures_of_the_library(failure: failures.BotoCoreError, number: int) -> None:
    with pytest.raises(OSError) as error, _explained("copies", "a store"):
        raise failure
    assert number_of(error) == number


class Answers:
    """A client of S3 that gives the same answer, whose body breaks off ``breaks`` times."""

    def __init__(self, answer: dict[str, Any], breaks: int) -> None:
        self.answer = answer | {"Body": self}
        self.breaks = breaks
        self.closed = 0

    def get_object(self, **_: object) -> dict[str, Any]:
        return self.answer

    def read(self) -> bytes:
        self.breaks -= 1
        if self.breaks >= 0:
            raise failures.IncompleteReadError(actual_bytes=1, expected_bytes=2)
        return b"01"

    def close(self) -> None:
        self.closed += 1


def test_answers_that_break_off_are_asked_for_again(bucket: Bucket) -> None:
    bucket.put("x", b"01")
    path = remote(bucket.address("x"))
    store = S3Bucket(path.store)
    status = store.status("x")
    answer = store._client.get_object(Bucket="direct", Key="x", Range="bytes=0-1")
    answer["Body"].close()
    store._client = Answers(answer, ATTEMPTS - 1)
    assert store.read("x", 0, 2, status) == b"01"
    store._client = Answers(answer, ATTEMPTS)
    with pytest.raises(OSError, match="found none in"):
        store.read("x", 0, 2, status)
    other = Answers(answer | {"ETag": "other"}, 0)  # a store that knows no conditions
    store._client = other
    with pytest.raises(OSError, match="replaced"):
        store.read("x", 0, 2, status)
    assert other.closed == 1


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_child_that_is_killed(bucket: Bucket, number: signal.Signals) -> None:
    path = remote(bucket.address("x"))
    with pytest.raises(OSError, match=f"writes to the store died of {number.name}") as error:
        client.ask(path, kill, number)
    assert number_of(error) == errno.EIO
    assert client.ask(path, name_of) == "direct/x"  # by the next child


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGTERM])
def test_a_child_that_is_killed_before_a_request(bucket: Bucket, number: signal.Signals) -> None:
    def kill_child(duty: str) -> None:
        child = client._children[duty]
        os.kill(child.pid, number)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    path = remote(bucket.address("none"))
    assert client.ask(path, name_of) == "direct/none"
    kill_child(client.WRITES)
    with pytest.raises(OSError, match=f"writes to the store died of {number.name}"):
        client.ask(path, name_of)
    with pytest.raises(FileNotFoundError):
        client.ask(path, "status")
    kill_child(client.READS)
    ticket = client.send(path, "status")
    with pytest.raises(FileNotFoundError):  # by the next child
        client.collect(ticket)


def test_other_stores(gs: RemotePath, tmp_path: Path) -> None:
    stores = Stores()
    (tmp_path / "t-0").mkdir()
    for number in range(6):
        (tmp_path / "t-0" / f"{number}.log").write_bytes(b"0123456789")
    assert stores.status(gs) == ObjectStatus(directory=True)
    assert stores.entries(gs) == [ListedName("t-0", ObjectStatus(directory=True))]
    assert sorted(entry.name for entry in stores.entries(gs / "t-0")) == [
        f"{number}.log" for number in range(6)
    ]
    for number in range(6):
        path = gs / "t-0" / f"{number}.log"
        status = stores.status(path)
        assert (status.size, status.directory) == (10, False)
        assert bytes(stores.read(path, 7, 3, status)) == b"789"
    with pytest.raises(FileNotFoundError):
        stores.status(gs / "none")


def test_an_object_of_another_store_that_is_replaced(gs: RemotePath, tmp_path: Path) -> None:
    stores, path = Stores(), gs / "a.log"
    (tmp_path / "a.log").write_bytes(b"0123456789")
    status = stores.status(path)
    assert bytes(stores.read(path, 0, 4, status)) == b"0123"
    (tmp_path / "a.log").write_bytes(b"01234")
    with pytest.raises(OSError, match="replaced"):
        stores.read(path, 0, 4, status)
    with pytest.raises(OSError, match="replaced"):
        Stores().read(path, 0, 4, status)
    (tmp_path / "a.log").unlink()
    with pytest.raises(OSError):
        stores.read(path, 0, 4, status)


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.ENOSPC, "full"), errno.ENOSPC),
        (FileNotFoundError("gone"), errno.ENOENT),
        (ImportError("x", name="pyarrow"), errno.EIO),
        (OSError("AWS Error NETWORK_CONNECTION"), errno.EHOSTUNREACH),
        (OSError("AWS Error ACCESS_DENIED"), errno.EACCES),
        (ValueError(), errno.EIO),
    ],
)
def test_errors_that_travel(error: Exception, number: int) -> None:
    assert client._os_error(error).errno == number


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, gs: RemotePath) -> list[tuple[object, str]]:
    """The requests that are sent: they are answered in this process, when they are collected."""
    stores, sent = Stores(), list[tuple[object, str]]()

    def post(ticket: client.Ticket) -> None:
        sent.append((ticket.operation, ticket.path.name))

    def answer(ticket: client.Ticket, into: memoryview | None) -> object:
        if (ticket.operation, ticket.path.name) not in sent:
            post(ticket)
        try:
            found = getattr(stores, str(ticket.operation))(ticket.path, *ticket.arguments)
        except OSError as error:
            return client._os_error(error)
        if into is None:
            return found
        into[: len(found)] = found
        return len(found)

    monkeypatch.setattr(client, "_post", post)
    monkeypatch.setattr(client, "_answer", answer)
    monkeypatch.setattr(ranges, "_ranges", type(ranges._ranges)())
    monkeypatch.setattr(ranges, "_by_version", {})
    monkeypatch.setattr(ranges, "_total", 0)
    monkeypatch.setattr(listings, "_listings", type(listings._listings)())
    client._outages.clear()
    return sent


def test_a_source(gs: RemotePath, tmp_path: Path, asked: list[tuple[object, str]]) -> None:
    data = os.urandom(300_000)
    (tmp_path / "a.log").write_bytes(data)
    with ObjectSource(gs / "a.log", window_bytes=4096) as source:
        assert source.size == len(data)
        assert bytes(source.window(0, 10)[:10]) == data[:10]
        before = len(asked)
        assert bytes(source.window(100_000, 10)[:10]) == data[100_000:100_010]
        assert len(asked) == before  # the smallest request has it
        assert bytes(source.window(290_000, 9_000)[:9_000]) == data[290_000:299_000]
        assert bytes(source.window(10, 299_000)[:299_000]) == data[10:299_010]
        assert bytes(source.window(len(data))) == b""
    with pytest.raises(SourceError, match="found a prefix"):
        ObjectSource(gs)
    with pytest.raises(VanishedError):
        ObjectSource(gs / "none")


def test_windows_that_follow_each_other_are_asked_for_ahead(
    gs: RemotePath, tmp_path: Path, asked: list[tuple[object, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = ranges.LEAST_BYTES
    monkeypatch.setattr(object_source, "READ_BYTES", size)
    data = os.urandom(5 * size)
    (tmp_path / "a.log").write_bytes(data)
    spent: list[int] = []
    pace = Pace(10**12)
    monkeypatch.setattr(pace, "spend", spent.append)
    with ObjectSource(gs / "a.log", window_bytes=size, pace=pace) as source:
        position = 0
        while position < len(data):
            view = source.window(position, min(1000, len(data) - position))
            step = max(len(view) - 7, 1000)
            assert bytes(view[:step]) == data[position : position + step]
            position += step
        assert len(data) <= sum(spent) <= len(data) + size
        assert bytes(source.window(0, 10)[:10]) == data[:10]  # what was asked ahead is given up
        (tmp_path / "a.log").write_bytes(data[:-1])
        with pytest.raises(VanishedError):
            source.window(2 * size)


def test_a_source_whose_object_changes(
    gs: RemotePath, tmp_path: Path, asked: list[tuple[object, str]]
) -> None:
    path = gs / "a.log"
    (tmp_path / "a.log").write_bytes(bytes(300_000))
    with ObjectSource(path, window_bytes=4096) as source:
        (tmp_path / "a.log").write_bytes(b"0123456789")
        with pytest.raises(VanishedError, match="replaced"):
            source.window(0)
        source.begin()  # of the present object
        assert (source.size, bytes(source.window(0))) == (10, b"0123456789")
        (tmp_path / "a.log").unlink()
        source.close()
        with pytest.raises(VanishedError):
            source.begin()


def test_what_is_asked_ahead_is_sent_once(
    gs: RemotePath, tmp_path: Path, asked: list[tuple[object, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_BYTES", 100)
    wanted = []
    for number in range(4):
        (tmp_path / f"{number}.log").write_bytes(bytes([number]) * 40)
        path = gs / f"{number}.log"
        status = Stores().status(path)
        assert not status.version  # these are not remembered
        wanted.append(Range(path, ObjectStatus(False, 40, status.mtime_ns, f"v{number}"), 0, 40))
    ranges.read_ahead(wanted)
    ranges.read_ahead(wanted[2:])
    assert [name for _, name in asked] == ["0.log", "1.log", "2.log", "3.log"]
    assert (len(ranges._ranges), ranges._total) == (2, 80)
    assert [known.path.name for known in ranges._ranges] == ["2.log", "3.log"]


def test_a_store_without_answers_is_left_alone(
    gs: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(ticket: client.Ticket, _: object) -> OSError:
        asked.append(ticket)
        return OSError(errno.ETIMEDOUT, "no answer within 1 second")

    monkeypatch.setattr(client, "_answer", answer)
    client._outages.clear()
    for _ in range(10):
        with pytest.raises(OSError, match="no answer"):
            client.ask(gs, "status")
    assert len(asked) == client._FAILURES_BEFORE_PAUSE
    sent = len(asked)
    client.send(gs, "status")
    assert len(asked) == sent
    client._outages.clear()
