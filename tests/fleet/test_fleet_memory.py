"""The memory of the driver and of its JVM hardly grows with the number of partitions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet import fleet_memory

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PROGRAM = Path(fleet_memory.__file__)
#: What a further partition may take, in bytes: a million of them then fit into 600 MB, and into the
#: heap of 1 GiB that Spark gives a driver.
MOST = {"driver": 400, "heap": 200}


def measured(brokers: int, top: Path) -> dict[str, int]:
    top.mkdir()
    program = [sys.executable, str(PROGRAM), f"{brokers}", str(top)]
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parents[1])}
    done = subprocess.run(program, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    assert found.pop("code") == 0
    return found


def test_a_further_partition_takes_some_hundred_bytes(tmp_path: Path) -> None:
    few, many = (measured(brokers, tmp_path / f"{brokers}") for brokers in (5, 25))
    further = 20 * fleet_memory.EACH
    assert {name: (many[name] - few[name]) / further < MOST[name] for name in few} == {
        "driver": True,
        "heap": True,
    }, (few, many)
