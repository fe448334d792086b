"""Logs in stores that misbehave, on Spark: findings about them, and the rest is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fleet import fleet_work
from fleet.spark_sessions import through
from kdump.cli.main import main
from kdump.commands.export import export
from kdump.fleet.session.session import Cluster, Session, open_session
from kdump.fleet.verify import listing, verify
from kdump.ui import exits
from support.object_stores import Bucket, free_port, served
from support.store_proxy import Proxy, before

pytestmark = pytest.mark.spark

PARTITIONS = ("codec-lz4-0", "codec-zstd-0")
LOG = f"codec-zstd-0/{0:020d}.log"
TargetResult = tuple[int, list[dict[str, Any]]]
#: ``verified(address)``: the exit code, and the findings that are errors or about what is missing.
Verified = Callable[[str], TargetResult]
#: ``exported(address)``: the exit code, the manifest's troubles, and the logs that have records.
Exported = Callable[[str], tuple[int, list[dict[str, Any]], set[str]]]
Changed = Callable[[Callable[[str, bytes], None]], None]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("copies")


@pytest.fixture(scope="module")
def proxy(bucket: Bucket) -> Iterator[Proxy]:
    with before(bucket.server.port) as running:
        yield running


@pytest.fixture(scope="module")
def session(bucket: Bucket) -> Iterator[Session]:
    """Its executors have the keys of the store in their environment."""
    with fleet_work.by_value(), open_session(Cluster(master="local[2]")) as started:
        yield started


@pytest.fixture(autouse=True)
def shared(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    through(session, monkeypatch)


@pytest.fixture(scope="module")
def logs(grown: Callable[[str], Path], bucket: Bucket) -> Path:
    """Partitions of which there are copies below ``logs``."""
    path = grown("4.3.1/clean")
    for partition in PARTITIONS:
        bucket.upload(path / partition, f"logs/{partition}")
    bucket.put("logs/meta.properties", (path / "meta.properties").read_bytes())
    return path


@pytest.fixture
def verified(capfdbinary: pytest.CaptureFixture[bytes]) -> Verified:
    def of(address: str) -> TargetResult:
        capfdbinary.readouterr()
        code = main(["verify", "--format", "json", "--master", "local[2]", address])
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        lines = map(json.loads, out.splitlines())
        return code, [
            line
            for line in lines
            if line["type"] == "finding" and line["severity"] in ("error", "incomplete")
        ]

    return of


@pytest.fixture
def exported(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Exported:
    def of(address: str) -> tuple[int, list[dict[str, Any]], set[str]]:
        to = tmp_path / "out"
        code = main(["export", "--master", "local[2]", "--to", str(to), address])
        assert b"Traceback" not in capfdbinary.readouterr().err
        manifest = json.loads((to / "_manifest.json").read_text())
        paths = [to / file["path"] for file in manifest["files"]]
        assert sorted(paths) == sorted(to.rglob("part-*"))
        sources = [
            source
            for path in paths
            for source in pq.read_table(path).column("source_file").to_pylist()
        ]
        assert len(sources) == manifest["records"]
        return code, manifest["troubles"], set(sources)

    return of


def others(logs: Path, bucket: Bucket, port: int | None = None) -> set[str]:
    """The addresses of all logs but ``LOG``."""
    names = {str(log.relative_to(logs)) for one in PARTITIONS for log in logs.glob(f"{one}/*.log")}
    return {bucket.address(f"logs/{name}", port) for name in names - {LOG}}


@pytest.mark.nightly
def test_a_dead_endpoint(bucket: Bucket, verified: Verified, exported: Exported) -> None:
    address = bucket.address("logs", free_port())
    code, findings = verified(address)
    assert code == exits.INCOMPLETE
    assert [(one["code"], one["path"]) for one in findings] == [("unreadable", address)]
    assert "Could not connect" in findings[0]["detail"]["found"]
    code, troubles, read = exported(address)
    assert (code, read) == (exits.INCOMPLETE, set())
    assert [(one["path"], one["damaged"]) for one in troubles] == [(address, False)]
    assert "Could not connect" in troubles[0]["reason"]


@pytest.mark.parametrize(
    "how",
    ["gone", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("short", "silent"))],
)
def test_an_object_whose_bytes_do_not_come(
    how: str,
    logs: Path,
    bucket: Bucket,
    proxy: Proxy,
    verified: Verified,
    exported: Exported,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy, how, (LOG,))
    for module, name in ((verify, "run_task"), (export, "export_logs")) if how == "silent" else ():
        # More than a busy machine takes for an answer, and less than the client waits.
        work = partial(fleet_work.impatient, work=getattr(module, name), seconds=25.0)
        monkeypatch.setattr(module, name, work)
    address = bucket.address("logs", proxy.port)
    about = bucket.address(f"logs/{LOG}", proxy.port)
    code, findings = verified(address)
    assert code == exits.INCOMPLETE
    found = [(one["code"], one["severity"], one["path"]) for one in findings]
    name = "vanished" if how == "gone" else "unreadable"
    assert found == [(name, "incomplete", about)]
    code, troubles, read = exported(address)
    assert code == exits.INCOMPLETE
    assert [(one["path"], one["damaged"]) for one in troubles] == [(about, False)]
    assert read == others(logs, bucket, proxy.port)


def test_a_state_in_a_bucket(
    logs: Path,
    bucket: Bucket,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """A second run reads no log that is sealed; an object that says nothing is read past."""
    client, place = bucket.server.client, bucket.address("state")
    # Executors remember versions of what they have read: other tests delete and cut their logs.
    for name in PARTITIONS:
        bucket.upload(logs / name, f"remembered/{name}")

    def run() -> tuple[dict[str, Any], list[str]]:
        capfdbinary.readouterr()
        command = ["verify", "--format", "json", "--master", "local[2]", "--state", place]
        assert main([*command, bucket.address("remembered")]) == exits.OK
        *lines, summary = map(json.loads, capfdbinary.readouterr().out.splitlines())
        return summary, [line for line in lines if line["type"] == "forecast"]

    def evidence() -> list[str]:
        found = client.list_objects_v2(Bucket=bucket.name, Prefix="state/")["Contents"]
        return sorted(each["Key"] for each in found if each["Key"].endswith(".parquet"))

    sealed = [sorted((logs / name).glob("*.log"))[:-1] for name in PARTITIONS]
    count = sum(map(len, sealed))
    first, forecasts = run()
    keys = evidence()
    assert len(keys) == len(PARTITIONS)
    second, again = run()
    assert again == forecasts
    assert second["remembered"]["segments"] == count
    size = sum(log.stat().st_size for of in sealed for log in of)
    assert (second["remembered"]["log_bytes"], first["bytes"]) == (size, second["bytes"] + size)
    assert evidence() == keys
    bucket.put(keys[0], b"PAR1")
    third, again = run()
    assert again == forecasts
    assert third["remembered"]["unusable"] == 1
    assert run()[0]["remembered"]["segments"] == count
    assert len(evidence()) == len(keys)


@pytest.fixture
def changed(bucket: Bucket, logs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Changed]:
    """``changed(change)``: once the objects are listed, ``change`` is done to ``LOG``."""
    key, data, find = f"logs/{LOG}", (logs / LOG).read_bytes(), listing.list_paths

    def of(change: Callable[[str, bytes], None]) -> None:
        def finding(*arguments: Any) -> listing.FleetListing:
            bucket.put(key, data)
            found = find(*arguments)
            change(key, data)
            return found

        monkeypatch.setattr(listing, "list_paths", finding)

    yield of
    bucket.put(key, data)


def test_an_object_that_is_deleted_behind_the_listing(
    logs: Path, bucket: Bucket, verified: Verified, exported: Exported, changed: Changed
) -> None:
    client, about = bucket.server.client, bucket.address(f"logs/{LOG}")
    changed(lambda key, _: client.delete_object(Bucket=bucket.name, Key=key))
    code, findings = verified(bucket.address("logs"))
    assert code == exits.INCOMPLETE
    # It was the first segment, which no retention can have deleted here.
    epochs = about.replace("00000000000000000000.log", "leader-epoch-checkpoint")
    expected = [("first-segment-missing", epochs), ("vanished", about)]
    assert [(one["code"], one["path"]) for one in findings] == expected
    code, troubles, read = exported(bucket.address("logs"))
    assert code == exits.INCOMPLETE
    assert [(one["path"], one["damaged"]) for one in troubles] == [(about, False)]
    assert read == others(logs, bucket)


def test_an_object_that_is_cut_behind_the_listing(
    logs: Path, bucket: Bucket, verified: Verified, exported: Exported, changed: Changed
) -> None:
    """What is there when it is read counts, as of files."""
    cut_bytes, about = 700, bucket.address(f"logs/{LOG}")
    changed(lambda key, data: bucket.put(key, data[:cut_bytes]))
    code, findings = verified(bucket.address("logs"))
    assert code == exits.PROBLEMS
    (torn,) = [one for one in findings if one["path"] == about]
    assert torn["code"] == "torn-tail-sealed"
    assert torn["position"] + torn["size"] == cut_bytes
    code, troubles, read = exported(bucket.address("logs"))
    assert code == exits.PROBLEMS
    assert [(one["path"], one["position"], one["reason"]) for one in troubles] == [
        (about, torn["position"], "torn-tail")
    ]
    assert read == {about} | others(logs, bucket)
