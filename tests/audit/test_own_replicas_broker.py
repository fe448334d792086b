"""Replicas that are here only as ``-stray`` or ``-delete``, or not at all, at starts of brokers."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "false", "log.segment.delete.delay.ms": "1000", **QUICK_RESTART}
STRAY, DELETED, GONE = "codec-lz4-0", "codec-none-0", "codec-gzip-0"


def sizes(data: Path) -> dict[str, int]:
    """The bytes of the logs of topics that no start writes to, by partition."""
    return {
        path.name: sum(log.stat().st_size for log in path.glob("*.log"))
        for path in data.glob("codec-*-0")
    }


def aside(data: Path, name: str) -> Path:
    (path,) = data.glob(f"{name}.*-stray")
    return path


def codes(data: Path) -> set[str]:
    started, verified = kdump("next-start", data), kdump("verify", data)
    assert started.code == verified.code
    first, second = (
        {one["code"] for one in ran.of("finding") if one["code"].startswith("replica-")}
        for ran in (started, verified)
    )
    assert first == second
    assert verified.code == (4 if first else 0)
    return first


@pytest.mark.parametrize(
    "version",
    [
        "4.3.1",
        pytest.param("3.9.1", marks=pytest.mark.nightly),
        pytest.param("4.4.0", marks=pytest.mark.nightly),
    ],
)
def test_a_start_without_the_metadata_log_and_one_with_it(version: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    before = sizes(data)
    shutil.move(data / METADATA, tmp_path / "metadata")
    with Broker(version, data, SETTINGS):
        pass
    assert sizes(data) == {}
    shutil.rmtree(data / METADATA)
    shutil.move(tmp_path / "metadata", data / METADATA)
    assert codes(data) == {"replica-set-aside-only"}

    # What a start does now: the replicas are created, empty, beside what was set aside.
    other = tmp_path / "other"
    shutil.copytree(data, other)
    (other / ".kafka_cleanshutdown").unlink()  # the indexes of a renamed log were not closed
    shutil.rmtree(aside(other, GONE))
    deleted = aside(other, DELETED)
    deleted = deleted.rename(deleted.with_name(deleted.name.replace("-stray", "-delete")))
    assert codes(other) == {"replica-set-aside-only", "replica-missing-only"}
    with Broker(version, other, SETTINGS) as broker:
        lines = broker.log_lines()
        deadline = time.monotonic() + 60
        while deleted.exists() and time.monotonic() < deadline:
            time.sleep(0.2)
    for name in (STRAY, DELETED, GONE):
        assert any(f"Created log for partition {name} in" in line for line in lines)
    assert any(f"Loaded stray log: {aside(other, STRAY)}" in line for line in lines)
    assert set(sizes(other).values()) == {0}
    assert not deleted.exists()

    # The advice.
    for path in data.glob("*-stray"):
        path.rename(data / path.name.rpartition(".")[0])
    assert kdump("verify", data).code == 4
    assert kdump("reindex", "--apply", data).code == 0
    assert codes(data) == set()
    with Broker(version, data, SETTINGS) as broker:
        lines = broker.log_lines()
    assert not any("Created log for partition codec" in line for line in lines)
    assert sizes(data) == before
