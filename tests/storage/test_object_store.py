"""Log directories in object stores: the same findings as of files, and a store that misbehaves."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.errors import SourceError, UsageError, VanishedError
from kdump.storage.access import open_source, read_end
from kdump.storage.objects import client
from kdump.storage.objects.remote_path import RemotePath, as_path
from kdump.storage.paths import typed_text
from storage import s3_objects
from support import damaged
from support.fixtures_loader import FIXTURES
from support.object_stores import Bucket, free_port, served
from support.store_reports import comparable_lines

pytestmark = pytest.mark.forks

_MIB = 1 << 20
#: The address in tests that send no request.
_OPTIONS = "endpoint_override=localhost%3A9000&scheme=http"

Ran = tuple[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("copies")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a server that misbehaves."""
    with s3_objects.running() as number:
        yield number


@pytest.fixture
def ran(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """``ran(*args)``: the exit code of a command and the lines that it printed as JSON."""

    def of(*args: str | Path) -> Ran:
        code = main([args[0], "--format", "json", *map(str, args[1:])])  # type: ignore[list-item]
        return code, [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]

    return of


@pytest.fixture(autouse=True)
def _rested() -> Iterator[None]:
    """Each test has a child of its own, which ends when its channel closes."""
    client._outages.clear()
    yield
    child = client._children.pop(client.READS, None)
    if child is not None:
        child.channel.close()
        assert os.waitpid(child.pid, 0)[1] == 0


def remote(bucket: Bucket, key: str) -> RemotePath:
    path = as_path(bucket.address(key))
    assert isinstance(path, RemotePath)
    return path


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(FIXTURES[0], marks=pytest.mark.slow),
        pytest.param(FIXTURES[-1], marks=pytest.mark.nightly),
    ],
)
def test_fixtures_are_reported_like_their_files(
    name: str, grown: Callable[[str], Path], bucket: Bucket, ran: Callable[..., Ran]
) -> None:
    directory = grown(name)
    there = bucket.upload(directory, f"fixtures/{name}")
    for command in (["verify", "--deep", "--info"], ["next-start", "--scan"], ["dump"]):
        here_code, here = ran(*command, directory)
        code, lines = ran(*command, there)
        assert code == here_code
        assert comparable_lines(lines, there) == comparable_lines(here, str(directory))


@pytest.mark.parametrize(
    "depth",
    [
        pytest.param("--quick", marks=pytest.mark.slow),
        pytest.param("--deep", marks=pytest.mark.nightly),
    ],
)
def test_damage_is_reported_like_that_of_files(
    depth: str, tmp_path: Path, bucket: Bucket, ran: Callable[..., Ran]
) -> None:
    """All recipes are in one log directory."""
    for recipe in damaged.RECIPES:
        recipe.write(tmp_path)
    there = bucket.upload(tmp_path, f"recipes{depth}")
    here_code, here = ran("verify", depth, "--info", tmp_path)
    code, lines = ran("verify", depth, "--info", there)
    assert code == here_code == (4 if depth == "--quick" else 5)
    # The plan of a store says to copy it first: no command changes a store.
    found, expected = (
        [line for line in each if line["type"] != "step"]
        for each in (comparable_lines(lines, there), comparable_lines(here, str(tmp_path)))
    )
    assert found == expected
    assert "no command changes" in next(line["text"] for line in lines if line["type"] == "step")
    seen = {line["code"] for line in lines if line["type"] == "finding"}
    assert len(seen) > (10 if depth == "--quick" else 20)


def test_records_of_a_partition_and_of_a_file(
    grown: Callable[[str], Path], bucket: Bucket, ran: Callable[..., Ran]
) -> None:
    log = next(grown(FIXTURES[-1]).glob("codec-zstd-0/*.log"))
    bucket.upload(log.parent, "one/codec-zstd-0")
    for below in ("codec-zstd-0", f"codec-zstd-0/{log.name}"):
        address = bucket.address(f"one/{below}")
        here = ran("dump", "--records", log.parent.parent / below)
        there = ran("dump", "--records", address)
        assert there[0] == here[0] == 0
        records = [line for line in here[1] if line["type"] == "record"]
        assert len(records) > 10
        assert [line for line in there[1] if line["type"] == "record"] == records


def test_a_printed_address_is_the_one_that_was_typed() -> None:
    typed = as_path("s3a://bucket/a/b?region=eu-west-1&endpoint_override=localhost:9000")
    assert as_path(typed_text(typed)) == typed


def test_a_prefix_that_is_not_there_is_incomplete(bucket: Bucket, ran: Callable[..., Ran]) -> None:
    code, lines = ran("verify", bucket.address("nothing/here"))
    assert code == 5
    assert [line["code"] for line in lines if line["type"] == "finding"] == ["vanished"]


def test_a_prefix_above_a_log_directory_names_it(
    tmp_path: Path, bucket: Bucket, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where the prefix has the name of a partition, as a mount of Strimzi has."""
    log_directory = tmp_path / "data-0" / "kafka-log0"
    damaged.RECIPES[0].write(log_directory)
    (log_directory / "meta.properties").write_text("version=0\nbroker.id=1\n")
    address = bucket.upload(tmp_path / "data-0", "mounts/data-0")
    for above in (address, bucket.address("mounts")):
        for command in ("verify", "next-start", "dump", "compare"):
            assert main([command, above]) == 5
            printed = capfd.readouterr()
            (line,) = printed.err.splitlines()
            assert "holds a log directory (s3://" in line
            assert "/mounts/data-0/kafka-log0" in line
            assert printed.out == ""


def test_a_dead_endpoint_is_incomplete(bucket: Bucket, ran: Callable[..., Ran]) -> None:
    code, lines = ran("verify", bucket.address("logs/t-0", free_port()))
    assert code == 5
    (finding,) = [line for line in lines if line["type"] == "finding"]
    assert (finding["code"], finding["severity"]) == ("unreadable", "incomplete")
    assert "Could not connect" in finding["detail"]["found"]


@pytest.mark.slow
def test_many_files_do_not_each_wait_for_a_dead_endpoint(bucket: Bucket) -> None:
    path = as_path(bucket.address("logs/t-0", free_port()))
    with pytest.raises(OSError):
        path.stat()
    with pytest.raises(OSError):
        path.stat()
    started = time.monotonic()
    for number in range(100):
        with pytest.raises(OSError, match="not asked again"):
            (path / str(number)).stat()
    assert time.monotonic() - started < 5


def test_an_object_that_vanishes_behind_the_listing(bucket: Bucket) -> None:
    path = remote(bucket, "gone/00000000000000000000.log")
    with pytest.raises(VanishedError):
        open_source(path, mapped=False)
    bucket.put("gone/00000000000000000000.log", bytes(10))
    with open_source(path, mapped=False, window_bytes=_MIB) as source:
        bucket.server.client.delete_object(Bucket=bucket.name, Key=path.key)
        with pytest.raises(VanishedError):
            source.window(0)
    bucket.put(path.key, bytes(10))
    assert path.status().size == 10
    bucket.put(path.key, bytes(20))
    with open_source(path, mapped=False) as source:  # the present one, whatever was known of it
        assert source.size == source.identity.size == len(source.window(0)) == 20


@pytest.mark.parametrize("size", [3 << 19, 3 << 20, 100], ids=["cut", "as long", "to little"])
def test_an_object_that_is_replaced_while_it_is_read(bucket: Bucket, size: int) -> None:
    path = remote(bucket, "changing.log")
    bucket.put(path.key, os.urandom(3 * _MIB))
    with open_source(path, mapped=False, window_bytes=_MIB) as source:
        assert source.size == 3 * _MIB
        assert len(source.window(0)) == _MIB
        bucket.put(path.key, os.urandom(size))
        with pytest.raises(VanishedError, match="replaced while it was read"):
            source.window(_MIB)


def test_windows_are_what_the_object_holds(bucket: Bucket) -> None:
    path, data = remote(bucket, "data.log"), os.urandom(10 * _MIB + 7)
    bucket.put(path.key, data)
    with open_source(path, mapped=True) as source:
        for position, at_least in ((0, 1), (8 * _MIB - 3, 10), (9 * _MIB, 1), (5, 9 * _MIB)):
            view = source.window(position, at_least)
            assert len(view) >= at_least
            assert view == data[position : position + len(view)]
        assert source.window(len(data) - 7, 100) == data[-7:]
        assert not source.window(len(data))
    assert read_end(path, 10) == (len(data), data[-10:])
    assert read_end(path, 1 << 30) == (len(data), data)


def test_identity_is_that_of_the_content(bucket: Bucket) -> None:
    path = remote(bucket, "same.log")
    bucket.put(path.key, b"one")
    with open_source(path, mapped=False) as source:
        assert (source.identity.inode, source.identity.size) == (path.stat().st_ino, 3)
        bucket.put(path.key, b"two")
        assert source.identity.inode != path.stat().st_ino


@pytest.mark.parametrize("name", ["short.log", "refused.log"])
def test_a_store_that_misbehaves_is_an_error(name: str, port: int, bucket: Bucket) -> None:
    path = as_path(bucket.address(f"t-0/{name}", port))
    with pytest.raises(SourceError, match=name), open_source(path, mapped=False) as source:
        source.window(0)


def test_a_store_that_is_silent_is_given_up(
    port: int, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr(client, "_ANSWER_SECONDS", 2.0)
        with pytest.raises(OSError) as caught:
            as_path(bucket.address("t-0/silent.log", port)).stat()
    assert caught.value.errno == errno.ETIMEDOUT
    # It goes on with another child.
    assert as_path(bucket.address("t-0/made-100000.log", port)).stat().st_size > 0


def test_a_child_that_dies_is_replaced(bucket: Bucket) -> None:
    path = remote(bucket, "still-there.log")
    bucket.put(path.key, b"one")
    assert path.is_file()
    os.kill(client._children[client.READS].pid, 9)
    with pytest.raises(OSError, match="died"):
        path.stat()
    assert path.is_file()


_MEASURE = """
import sys
from pathlib import Path
from kdump.audit.survey.survey import survey
from kdump.storage.objects import client
from kdump.storage.logdir import Segment
from kdump.storage.objects.remote_path import as_path

def peak(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])

segment = Segment(0, as_path(sys.argv[1]), None, None, None, None, "")
found = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
assert not found.faults and not found.gaps, found
print(found.read_bytes, peak("self"), peak(client._children[client.READS].pid))
"""


def _measured(address: str) -> tuple[int, int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, address], stdout=subprocess.PIPE, check=True, text=True
    )
    read_bytes, own, child = map(int, done.stdout.split())
    return read_bytes, own, child


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_is_flat_over_a_gibibyte(port: int, bucket: Bucket) -> None:
    small, large = 64 * _MIB, 1024 * _MIB
    read_small, own_small, child_small = _measured(bucket.address(f"t-0/made-{small}.log", port))
    read_large, own_large, child_large = _measured(bucket.address(f"t-0/made-{large}.log", port))
    assert (read_small, read_large) == (s3_objects.whole(small), s3_objects.whole(large))
    assert own_large < own_small + (24 << 10)  # KiB
    assert child_large < child_small + (48 << 10)


def test_repairs_refuse_addresses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    address = "s3://bucket/logs/t-0"
    for args in (
        ["truncate-to-valid"],
        ["reindex"],
        ["convert", "--codec", "zstd"],
        ["convert", "--codec", "zstd", "--output", str(tmp_path)],
        ["salvage", "--output", str(tmp_path)],
        ["undo"],
    ):
        assert main([*args, address]) == 2, args
        assert "copy the directory here first" in capfd.readouterr().err


def test_paths_stay_addresses() -> None:
    path = as_path(f"s3://bucket/logs?{_OPTIONS}")
    inner = path / "t-0" / "x.log"
    assert isinstance(inner, RemotePath)
    assert str(inner) == f"s3://bucket/logs/t-0/x.log?{_OPTIONS}"
    with pytest.raises(TypeError, match="found the address s3://bucket/logs"):
        os.fspath(inner)
    assert (inner.key, str(inner.store)) == ("logs/t-0/x.log", f"s3://bucket?{_OPTIONS}")
    assert inner.options == {"endpoint_override": "localhost:9000", "scheme": "http"}
    for other in (inner.parent / "x.log", inner.with_name("x.log"), as_path(str(inner))):
        assert (type(other), other, hash(other)) == (RemotePath, inner, hash(inner))
    copied = pickle.loads(pickle.dumps(inner))
    assert (type(copied), copied, str(copied)) == (RemotePath, inner, str(inner))
    assert (inner.parent.name, inner.name, inner.parent.parent) == ("t-0", "x.log", path)
    assert inner.absolute() is inner
    assert str(as_path("s3://bucket")) == "s3://bucket"
    assert as_path(f"s3a://bucket/logs?{_OPTIONS}") == path  # as Hadoop calls it
    assert str(as_path("s3://bucket/a/")) == "s3://bucket/a"
    assert type(as_path("t-0")) is type(Path("t-0"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://", "s3://BUCKET/PREFIX"),
        ("s3:///a", "s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/a", "without a password"),
        ("s3://bucket/a?secret_key=x", "found secret_key"),
    ],
)
def test_what_is_no_address(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as caught:
        as_path(text)
    assert "x" not in str(caught.value).split() and "secret@" not in str(caught.value)


@pytest.mark.parametrize("text", ["s3n://bucket/logs", "file:///logs", "S3://bucket"])
def test_an_address_of_another_kind_is_no_path(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", text]) == 2
    assert (
        f"{text}: expected a path, or an address that begins with s3://" in capfd.readouterr().err
    )


def test_without_the_extra_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert main(["verify", "s3://bucket/logs"]) == 2
    assert "pip install 'kafka-kdump[parquet]'" in capfd.readouterr().err


def test_the_process_that_asks_does_not_import_pyarrow(bucket: Bucket) -> None:
    bucket.put("light/x", b"1")
    code = (
        "import sys; from kdump.storage.objects.remote_path import as_path; "
        f"assert as_path({bucket.address('light/x')!r}).stat().st_size == 1; "
        "assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_process_is_left_behind(bucket: Bucket) -> None:
    bucket.put("left/x", b"1")
    code = (
        "from kdump.storage.objects import client\n"
        "from kdump.storage.objects.remote_path import as_path\n"
        f"as_path({bucket.address('left/x')!r}).stat(); "
        "print(client._children[client.READS].pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    pid, until = int(done.stdout), time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{pid}").exists()
