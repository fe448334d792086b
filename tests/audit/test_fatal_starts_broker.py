"""What stops the start of a node, or takes topics from it, held against real starts of 4.3.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.server import ServerError
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.resealing import places

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
VERSION = "4.3.1"


def refused(data: Path, settings: dict[str, str]) -> str:
    """What a broker says that does not start."""
    broker = Broker(VERSION, data, SETTINGS | settings)
    with pytest.raises(ServerError) as failed, broker:
        pass
    return str(failed.value)


def reasons(data: Path, *options: str | Path) -> list[str]:
    """The codes for which ``verify`` and ``next-start`` both say that no broker starts."""
    started = kdump("next-start", data, *options)
    (start,) = next(started.of("summary"))["next_starts"]
    verified = kdump("verify", data, *options)
    found = [line["code"] for line in verified.of("finding") if line["severity"] == "error"]
    assert (started.code, verified.code) == (4, 4)
    assert start["outcome"] == "refuses"
    return found


def test_a_node_refuses_what_is_forecast(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=7\nlog.dirs={data}\n")
    assert reasons(data, "--config", config) == ["node-id-mismatch"]
    said = refused(data, {"node.id": "7", "controller.quorum.voters": "7@127.0.0.1:1"})
    assert "Stored node id 1 doesn't match previous node id 7" in said

    bootstrap = data / "bootstrap.checkpoint"
    whole = bootstrap.read_bytes()
    for content in (b"garbage" * 60, b"", whole[:83]):
        bootstrap.write_bytes(content)
        assert reasons(data) == ["bootstrap-malformed"]
        refused(data, {})
    # The advice: with a metadata log that holds records the file can go.
    bootstrap.unlink()
    assert kdump("next-start", data).code == 0
    with Broker(VERSION, data, SETTINGS) as broker:
        assert any("Skipping recovery of" in line for line in broker.log_lines())


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_an_empty_directory_counts_as_the_clean_marker(version: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    (data / ".kafka_cleanshutdown").unlink()
    (data / ".kafka_cleanshutdown").mkdir()
    (data / METADATA / "quorum-state.tmp").mkdir()
    assert kdump("next-start", data).code == 0
    with Broker(version, data, SETTINGS) as broker:
        assert any("Skipping recovery of" in line for line in broker.log_lines())


def test_a_metadata_log_that_is_cut_makes_the_forecast_strays(tmp_path: Path) -> None:
    data = copy_fixture(f"{VERSION}/clean", tmp_path / "data")
    for path in (data / METADATA).glob("*.checkpoint"):
        path.unlink()
    (log,) = (data / METADATA).glob("*.log")
    content = bytearray(log.read_bytes())
    content[places(bytes(content))[20][1] - 1] ^= 1
    log.write_bytes(content)

    started = kdump("next-start", "--scan", data)
    aside = {
        f"{line['topic']}-{line['partition']}": line["set_aside"]
        for line in started.of("forecast")
        if line["set_aside"] is not None
    }
    assert started.code == 4
    assert set(aside.values()) == {"partition-stray-cut"}
    assert 0 < len(aside) < len(list(started.of("forecast"))) - 1
    with Broker(VERSION, data, SETTINGS):
        pass
    strays = {path.name.rpartition(".")[0] for path in data.glob("*-stray")}
    assert strays == set(aside)
