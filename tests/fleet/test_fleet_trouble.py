"""Exports on Spark whose tasks die, and logs that are in a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet import fleet_work
from fleet.fleet_exports import FIXTURE, exported, records
from fleet.spark_sessions import through
from kdump.cli.main import main
from kdump.fleet.session.session import Cluster, Session, open_session
from kdump.ui import exits
from support.object_stores import Bucket, served
from support.store_reports import comparable_lines

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("copies")


@pytest.fixture(scope="module")
def session(bucket: Bucket) -> Iterator[Session]:
    """Its executors have the keys of the store in their environment."""
    with fleet_work.by_value(), open_session(Cluster(master="local[2]")) as started:
        yield started


def test_a_worker_that_is_killed_once_changes_nothing(
    session: Session,
    grown: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    through(session, monkeypatch)
    path, flag = grown(FIXTURE), tmp_path / "flag"
    code = exported(path, tmp_path / "sound")
    killed = partial(fleet_work.export_killed_once, flag=flag)
    monkeypatch.setattr("kdump.commands.export.export.export_logs", killed)
    assert exported(path, tmp_path / "killed") == code == exits.OK
    assert flag.exists()
    assert records(tmp_path / "killed") == records(tmp_path / "sound")


def test_what_kills_every_worker_is_told_and_the_rest_exported(
    session: Session,
    grown: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    through(session, monkeypatch)
    path, topic = grown(FIXTURE), "codec-zstd"
    assert exported(path, tmp_path / "sound") == exits.OK
    expected = [one for one in records(tmp_path / "sound") if one[0] != topic]
    assert len(expected) < len(records(tmp_path / "sound"))
    capfdbinary.readouterr()
    deadly = partial(fleet_work.deadly_export, topic=topic)
    monkeypatch.setattr("kdump.commands.export.export.export_logs", deadly)
    assert exported(path, tmp_path / "out") == exits.INCOMPLETE
    assert records(tmp_path / "out") == expected
    lines = capfdbinary.readouterr().out.decode().splitlines()
    missing = [line for line in lines if line.startswith("incomplete: ")]
    assert missing
    assert all(topic in line and "SIGKILL" in line for line in missing)


@pytest.mark.nightly
def test_logs_in_a_store_are_verified_and_exported_as_files_are(
    session: Session,
    grown: Callable[[str], Path],
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    path = grown("4.3.1/killed")
    address = bucket.upload(path, "logs")

    def verified(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
        capfdbinary.readouterr()
        code = main(["verify", "--format", "json", "--deep", *arguments])
        lines = capfdbinary.readouterr().out.splitlines()
        return code, [json.loads(line) for line in lines]

    code, here = verified(str(path))
    through(session, monkeypatch)
    there_code, there = verified("--master", "local[2]", address)
    assert there_code == code
    order = partial(json.dumps, sort_keys=True)
    assert sorted(comparable_lines(there, address), key=order) == sorted(
        comparable_lines(here, str(path)), key=order
    )
    assert exported(path, tmp_path / "here") == exported(address, tmp_path / "there")
    assert records(tmp_path / "there") == records(tmp_path / "here")
    to = bucket.address("exported")
    assert main(["export", "--master", "local[2]", "--to", to, address]) in (
        exits.OK,
        exits.PROBLEMS,
    )
    store = bucket.server.client
    body = store.get_object(Bucket=bucket.name, Key="exported/_manifest.json")["Body"].read()
    assert json.loads(body)["records"] == len(records(tmp_path / "here"))
    code, lines = verified("--master", "local[2]", bucket.address("nothing"))
    assert code == exits.INCOMPLETE
    assert [line["code"] for line in lines if line["type"] == "finding"] == ["vanished"]
