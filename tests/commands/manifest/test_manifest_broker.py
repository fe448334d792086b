"""``kdump manifest`` beside a running broker that writes, rolls, compacts and deletes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from brokers.broker import Broker
from brokers.churn import SETTINGS, churning
from kdump.cli.main import main

_SECONDS = 5


@pytest.mark.broker
def test_a_manifest_beside_a_running_broker(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory, file = tmp_path / "data", tmp_path / "host.kdm"
    made = batches = 0
    with Broker("4.3.1", directory, SETTINGS) as broker, churning(broker, seed=7):
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            assert main(["manifest", "--progress", "none", str(directory), "--to", str(file)]) == 0
            assert capfdbinary.readouterr().err == b""
            code = main(["verify", "--format", "json", str(file)])
            lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
            findings = [line for line in lines if line["type"] == "finding"]
            assert [line for line in findings if line["severity"] != "info"] == []
            assert code == 0
            assert [state["state"] for state in lines[0]["liveness"]] == ["live"]
            made += 1
            batches = max(batches, lines[-1]["batches"])
    print(f"{made} manifests in {_SECONDS} s, of {batches} batches")
    assert made > 1
    assert batches > 0
