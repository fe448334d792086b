"""Requests to object stores: how many there are, that fail, and whose answers do not fit."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.storage.access import open_source
from kdump.storage.object_source import READ_BYTES
from kdump.storage.objects import client, listings, ranges
from kdump.storage.objects.remote_path import as_path
from kdump.ui import exits
from storage import s3_objects
from support.fixtures_loader import FIXTURES
from support.object_stores import Bucket, free_port, served
from support.store_proxy import Proxy, before
from support.store_reports import comparable_lines

pytestmark = pytest.mark.forks

#: Partitions of several kinds; without the metadata log, which has more of them.
_SOME = ("codec-zstd-0", "transactions-0", "__transaction_state-0")

Ran = tuple[int, list[dict[str, Any]]]
Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("copies")


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[Proxy]:
    with before(bucket.server.port) as running:
        yield running


@pytest.fixture(scope="module")
def some(grown: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with some of the partitions of a real one, as they are copied.

    It has no bootstrap.checkpoint: with it, a node has lost its metadata log.
    """
    directory, path = grown("4.3.1/clean"), tmp_path_factory.mktemp("some")
    for entry in directory.iterdir():
        if entry.is_file() and entry.name != "bootstrap.checkpoint":
            shutil.copy(entry, path)
        elif entry.name in _SOME:
            shutil.copytree(entry, path / entry.name)
    return path


@pytest.fixture(scope="module")
def key(some: Path, bucket: Bucket) -> str:
    """The prefix of its copy."""
    bucket.upload(some, "some")
    return "some"


def forget() -> None:
    """Forget all that is known of the stores, as a new process does not know it yet."""
    client._outages.clear()
    listings._listings.clear()
    ranges._ranges.clear()
    ranges._by_version.clear()
    ranges._total = 0


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Each test knows nothing of the stores yet."""
    forget()
    yield
    client._end_child(client.READS)


@pytest.fixture
def ran(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """``ran(*args)``: the exit code of a command and the lines that it printed as JSON."""

    def of(*args: str | Path) -> Ran:
        capfdbinary.readouterr()
        code = main([args[0], "--format", "json", *map(str, args[1:])])  # type: ignore[list-item]
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        return code, [json.loads(line) for line in out.splitlines()]

    return of


def found_at(lines: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (line["code"], line["severity"], line["detail"]["found"])
        for line in lines
        if line["type"] == "finding" and line["severity"] in ("error", "incomplete")
    ]


def within_budget(asked: list[tuple[str, str]], directory: Path, prefix: str) -> None:
    """No object is asked for more than twice, and each directory is listed about once."""
    counts = Counter(asked)
    kinds = Counter(kind for kind, _ in asked)
    objects = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert kinds["HEAD"] == counts["HEAD", prefix] == 1  # it may be an object
    read = {key.removeprefix(f"{prefix}/"): n for (kind, key), n in counts.items() if kind == "GET"}
    assert read.keys() <= objects
    assert len(read) > len(objects) / 2
    assert max(read.values()) <= 2
    partitions = sum(path.is_dir() for path in directory.iterdir())
    assert partitions < kinds["LIST"] <= partitions + 3


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["next-start"], id="next-start", marks=pytest.mark.slow),
        pytest.param(["verify", "--quick"], id="quick"),
        pytest.param(["verify"], id="verify", marks=pytest.mark.slow),
    ],
)
def test_an_object_is_asked_for_twice_at_most(
    command: list[str], some: Path, key: str, bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    code, lines = ran(*command, bucket.address(key, proxy.port))
    within_budget(proxy.asked, some, key)
    here_code, here = ran(*command, some)
    assert code == here_code
    address = bucket.address(key, proxy.port)
    assert comparable_lines(lines, address) == comparable_lines(here, str(some))


@pytest.mark.nightly
@pytest.mark.parametrize("name", FIXTURES)
def test_the_objects_of_fixtures_are_asked_for_twice_at_most(
    name: str, grown: Callable[[str], Path], bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    if name.endswith("/replicas"):
        pytest.skip("log directories of several brokers")
    directory, prefix = grown(name), f"all/{name}"
    bucket.upload(directory, prefix)
    for command in (["next-start"], ["verify", "--quick"]):
        proxy.asked.clear()
        forget()
        ran(*command, bucket.address(prefix, proxy.port))
        within_budget(proxy.asked, directory, prefix)


def test_requests_are_sent_at_the_same_time(
    key: str, bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    proxy.slow_seconds = 0.05
    code, _ = ran(
        "verify", "--quick", "--jobs", "1", bucket.address(f"{key}/codec-zstd-0", proxy.port)
    )
    assert code == 0
    assert proxy.most_at_once > 4


def test_a_store_that_is_busy_for_a_moment_is_asked_again(
    key: str, bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    proxy.busy = 1
    code, lines = ran("verify", "--quick", bucket.address(f"{key}/codec-zstd-0", proxy.port))
    assert proxy.busy == 0
    assert (code, found_at(lines)) == (0, [])


@pytest.mark.slow
def test_a_store_that_stays_busy_is_an_error(
    key: str, bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    proxy.busy = 1_000
    code, lines = ran("verify", "--quick", bucket.address(f"{key}/codec-zstd-0", proxy.port))
    assert code == 5
    ((name, _, found),) = found_at(lines)
    assert name == "unreadable"
    assert "in 3 attempts" in found
    assert "run the command again later" in found


@pytest.mark.slow
def test_each_way_of_not_being_there_has_its_message(
    key: str, bucket: Bucket, proxy: Proxy, ran: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(address: str) -> str:
        client._end_child(client.READS)
        code, lines = ran("verify", address)
        ((_, severity, found),) = found_at(lines)
        assert (code, severity) == (5, "incomplete")
        return found

    other = Bucket(bucket.server, "no-such-bucket")
    messages = {
        "bucket": of(other.address("t-0")),
        "key": of(bucket.address("nothing/here")),
        "network": of(bucket.address(key, free_port())),
    }
    proxy.denied = ("some", ".log")
    messages["right"] = of(bucket.address(key, proxy.port))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    messages["credentials"] = of(bucket.address(f"{key}/t-0", proxy.port))
    assert "expected the bucket no-such-bucket" in messages["bucket"]
    assert "check the name of the bucket" in messages["bucket"]
    assert "found none in the bucket copies: check the name" in messages["key"]
    assert "check the network and the endpoint" in messages["network"]
    assert "the right to read the bucket copies, found a refusal (403" in messages["right"]
    assert "the credentials need s3:ListBucket" in messages["right"]
    assert "expected credentials" in messages["credentials"]
    assert "set AWS_ACCESS_KEY_ID" in messages["credentials"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "exit_code", "code"),
    [
        ("cut", exits.PROBLEMS, "torn-tail-sealed"),
        ("replaced", exits.PROBLEMS, "batch-crc-mismatch"),
        ("removed", exits.INCOMPLETE, "vanished"),
    ],
)
def test_an_object_that_changes_behind_the_listing(
    how: str, exit_code: int, code: str, some: Path, bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    """Its bytes are those of one version, the later one."""
    prefix = f"changing-{how}"
    bucket.upload(some / "codec-zstd-0", f"{prefix}/codec-zstd-0")
    log = f"codec-zstd-0/{0:020d}.log"
    key, data = f"{prefix}/{log}", (some / log).read_bytes()
    if how == "removed":
        client = bucket.server.client
        proxy.changes[key] = lambda: client.delete_object(Bucket=bucket.name, Key=key)
    else:
        new = data[:700] if how == "cut" else data[:600] + bytes(20) + data[620:]
        proxy.changes[key] = lambda: bucket.put(key, new)
    found_code, lines = ran("verify", bucket.address(f"{prefix}/codec-zstd-0", proxy.port))
    assert not proxy.changes
    about = [line["code"] for line in lines if line["type"] == "finding" and key in line["path"]]
    assert (found_code, code in about) == (exit_code, True), about


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition whose log is larger than a few requests, with padded indexes."""
    path = tmp_path_factory.mktemp("large") / "orders-0"
    path.mkdir()
    log = path / f"{0:020d}.log"
    log.write_bytes(s3_objects.made(0, s3_objects.whole(3 << 20)))
    assert main(["reindex", str(path), "--apply"]) == exits.OK
    shutil.rmtree(path / ".kdump", ignore_errors=True)
    for suffix in (".index", ".timeindex"):
        index = log.with_suffix(suffix)
        index.write_bytes(index.read_bytes() + bytes(1200 * 1024))  # as a running broker has it
    return path


def test_the_ends_of_large_objects_are_asked_for(
    large: Path, bucket: Bucket, proxy: Proxy, ran: Run
) -> None:
    bucket.upload(large, "large/orders-0")
    address = bucket.address("large/orders-0", proxy.port)
    code, lines = ran("verify", "--quick", address)
    here_code, here = ran("verify", "--quick", large)
    assert code == here_code
    assert comparable_lines(lines, address) == comparable_lines(here, str(large))
    names = [key.rpartition(".")[2] for kind, key in proxy.asked if kind == "GET"]
    assert Counter(names) == {"log": 2, "index": 2, "timeindex": 2}


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(40 << 20, marks=pytest.mark.slow),
        pytest.param(5 << 30, marks=pytest.mark.nightly),
    ],
)
def test_each_part_of_a_large_object_is_asked_for_once(size: int, bucket: Bucket) -> None:
    """The next range is under way while one is looked at."""
    with s3_objects.running() as port, before(port) as proxy:  # with its keys
        address = bucket.address(f"t-0/made-{size}.log", proxy.port)
        whole, position, windows = s3_objects.whole(size), 0, 0
        with open_source(as_path(address), mapped=False) as source:
            while position < whole:
                view = source.window(position)
                assert view[:64] == s3_objects.made(position, 64)
                position, windows = position + len(view), windows + 1
                assert view[-64:] == s3_objects.made(position - 64, 64)
                until = time.monotonic() + 60
                while windows > 1 and position < whole and len(proxy.asked) < windows + 2:
                    assert time.monotonic() < until
                    time.sleep(0.001)
        kinds = Counter(kind for kind, _ in proxy.asked)
        assert kinds == {"HEAD": 1, "GET": -(-whole // READ_BYTES)}
