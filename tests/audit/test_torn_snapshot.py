"""A metadata snapshot that ends early: a node takes what is there for the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA

VERSION = "4.3.1"


def torn(data: Path) -> Path:
    """Cut the newest snapshot in the middle."""
    newest = max((data / METADATA).glob("*.checkpoint"))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    return newest


def set_aside(data: Path) -> set[str]:
    """The partitions of which ``next-start`` says that they become strays."""
    started = kdump("next-start", data)
    assert started.code == 4
    return {
        f"{line['topic']}-{line['partition']}"
        for line in started.of("forecast")
        if line["set_aside"] == "partition-stray-cut"
    }


def test_partitions_whose_records_are_gone_become_strays(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/killed", tmp_path / "data")
    newest = torn(data)
    names = {path.name for path in data.iterdir() if path.is_dir()} - {METADATA}
    assert set_aside(data) == names
    found = {line["code"]: line for line in kdump("verify", "--quick", data).of("finding")}
    assert found["metadata-snapshot-torn"]["path"] == str(newest)
    # The advice: the older snapshot is whole, and the log begins before its end.
    newest.unlink()
    assert kdump("next-start", data).code == 0


def test_a_snapshot_without_its_footer_may_have_all_records(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/killed", tmp_path / "data")
    newest = max((data / METADATA).glob("*.checkpoint"))
    content = newest.read_bytes()
    position = last = 0
    while position < len(content):
        last = position
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    newest.write_bytes(content[:last])
    assert set_aside(data) == set()


@pytest.mark.broker
@pytest.mark.slow
def test_a_broker_renames_what_is_forecast(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/killed", tmp_path / "data")
    torn(data)
    forecast = set_aside(data)
    with Broker(VERSION, data, QUICK_RESTART):
        pass
    strays = {path.name.rpartition(".")[0] for path in data.glob("*-stray")}
    assert strays == forecast
