"""``kdump verify`` beside a running broker: recognised as live, and no false alarm."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from brokers.broker import Broker
from brokers.churn import SETTINGS, churning
from kdump.cli.main import main
from kdump.commands.export.manifest import decode_manifest
from kdump.ui import exits
from support.fixtures_loader import copy_fixture


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param("3.9.1", marks=pytest.mark.nightly), "4.3.1"])
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
            above = [
                line for line in lines if line["type"] == "finding" if line["severity"] != "info"
            ]
            # The fixtures hold transactions that hang, and here is a broker that could end them.
            assert {line["code"] for line in above} <= {"transaction-late"}
            assert lines[-1]["partitions"] == len([p for p in directory.iterdir() if p.is_dir()])
        main(["verify", str(directory / "codec-zstd-0")])
        assert b"broker live" in capfdbinary.readouterr().out
    main(["verify", str(directory)])
    assert b"broker stopped" in capfdbinary.readouterr().out


@pytest.mark.broker
@pytest.mark.parametrize(
    "seconds",
    [pytest.param(15, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.nightly)],
    ids=lambda seconds: f"{seconds}-s",
)
def test_no_false_alarm_beside_a_busy_broker(
    seconds: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """It produces, rolls, compacts, moves replicas, deletes records, segments and topics."""
    directories = [tmp_path / "a", tmp_path / "b"]
    both = {"log.dirs": ",".join(map(str, directories))}
    runs, codes, chance = 0, Counter[str](), random.Random(seconds)
    with Broker("4.3.1", directories[0], SETTINGS | both) as broker, churning(broker, seed=seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            targets = directories
            if runs % 2 == 0:
                names = [path for each in directories for path in each.iterdir()]
                targets = [
                    chance.choice([path for path in names if path.name[-2:] in ("-0", "-1")])
                ]
            depth = ["--deep"] * chance.randint(0, 1)
            code = main(["verify", *depth, "--format", "json", *map(str, targets)])
            printed = capfdbinary.readouterr()
            lines = [json.loads(line) for line in printed.out.splitlines()]
            findings = [line for line in lines if line["type"] == "finding"]
            if targets != directories and lines[0]["liveness"] == [None]:
                continue  # deleted before it was opened: a path that was asked for must be there
            assert [line for line in findings if line["severity"] != "info"] == []
            assert (code, printed.err) == (0, b"")
            assert {state["state"] for state in lines[0]["liveness"]} == {"live"}
            codes.update(line["code"] for line in findings)
            runs += 1
    print(f"{runs} runs in {seconds} s: {dict(codes)}")
    assert runs > seconds // 5


@pytest.mark.broker
@pytest.mark.nightly
def test_exports_beside_a_busy_broker_miss_partitions_alone_that_are_gone(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Logs that the cleaner or retention takes meanwhile are no error; a deleted topic is one."""
    directories, to = [tmp_path / "a", tmp_path / "b"], tmp_path / "out"
    both = {"log.dirs": ",".join(map(str, directories))}
    whole = 0
    with Broker("4.3.1", directories[0], SETTINGS | both) as broker, churning(broker, seed=5):
        for _ in range(30):
            before = {path for directory in directories for path in directory.iterdir()}
            code = main(["export", "--format", "jsonl", "--to", str(to), *map(str, directories)])
            gone = before - {path for directory in directories for path in directory.iterdir()}
            printed = capfdbinary.readouterr()
            _, lacks = decode_manifest((to / "_manifest.json").read_bytes())
            missed = {Path(lack.path) for lack in lacks}
            assert missed <= gone, printed.out
            assert (code, printed.err) == (exits.INCOMPLETE if missed else exits.OK, b"")
            assert main(["check", str(to)]) == code
            capfdbinary.readouterr()
            shutil.rmtree(to)
            whole += not missed
    print(f"{whole} of 30 exports have every partition")
    assert whole
