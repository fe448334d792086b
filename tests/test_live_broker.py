"""``kdump verify`` beside a running broker: recognised as live, and no false alarm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from brokers.broker import Broker
from fixtures_loader import copy_fixture

from kdump.cli.main import main


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_verify_beside_a_running_broker(
    version: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory = copy_fixture(f"{version}/clean", tmp_path / "data")
    with Broker(version, directory, {"log.cleaner.enable": "false"}):
        for _ in range(3):
            code = main(["verify", "--deep", "--format", "json", str(directory)])
            lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
            (state,) = lines[0]["liveness"]
            assert (state["state"], code) == ("live", 0)
            assert state["pid"] != os.getpid()
            assert {line["severity"] for line in lines if line["type"] == "finding"} <= {"info"}
            assert lines[-1]["partitions"] == len([p for p in directory.iterdir() if p.is_dir()])
        main(["verify", str(directory / "codec-zstd-0")])
        assert b"broker live" in capfdbinary.readouterr().out
    main(["verify", str(directory)])
    assert b"broker stopped" in capfdbinary.readouterr().out
