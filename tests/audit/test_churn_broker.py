"""``kdump verify`` after seeded workloads on real brokers finds no more than what a kill leaves."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.churn import SETTINGS, churn, churning
from kdump.cli.main import main

_ROUNDS = 3
_STEPS = 120
#: What the death of a process in the middle of its work leaves: the end of a log that was being
#: written; an aborted transaction that its index was about to name; and partitions of a topic that
#: is deleted already.
_LEFT_BY_A_KILL = {"torn-tail", "txnindex-stale", "partition-stray"}


def was_just_deleted(finding: dict[str, Any]) -> bool:
    """Whether it is of records that the leader epochs tell to be deleted, and the log start does
    not yet: a broker writes that checkpoint within a minute, and a kill may come before."""
    if finding["code"] != "epochs-missing":
        return False
    _, _, first, *_ = Path(finding["path"]).read_text().splitlines()
    last: int = finding["offsets"]["last"]
    return last < int(first.split()[1])


def was_just_rolled(finding: dict[str, Any]) -> bool:
    """Whether it is of the last segment, in which nothing is yet: a broker creates the .log of a
    new segment before its .index, and a kill may come in between."""
    log = Path(finding["path"])
    is_last = log == max(log.parent.glob("*.log"))
    return finding["code"] == "index-missing" and is_last and not any(log.read_bytes())


def was_just_opened(finding: dict[str, Any]) -> bool:
    """Whether it is of an empty snapshot: a broker creates the file before it writes it at once."""
    return finding["code"] == "snapshot-unreadable" and not Path(finding["path"]).stat().st_size


_JUST: Final = (was_just_deleted, was_just_rolled, was_just_opened)


@pytest.mark.nightly
@pytest.mark.broker
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize("seed", range(6))
def test_what_brokers_write_has_nothing_wrong(
    version: str, seed: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory = tmp_path / "data"
    chance, codes = random.Random(seed), Counter[str]()
    with Broker(version, directory, {**SETTINGS, **QUICK_RESTART}) as broker:
        for number in range(1, _ROUNDS + 1):
            churn(broker, 100 * seed + number, _STEPS)
            killed = number == chance.randint(1, _ROUNDS)
            if killed:
                with churning(broker, 100 * seed + 50 + number):
                    time.sleep(chance.uniform(4, 8))
                    broker.kill()
            else:
                broker.stop()
            for depth in ([], ["--deep"]):
                code = main(["verify", *depth, "--format", "json", str(directory)])
                lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
                findings = [line for line in lines if line["type"] == "finding"]
                allowed = _LEFT_BY_A_KILL if killed else set()
                worse = [
                    line
                    for line in findings
                    if line["severity"] != "info"
                    and line["code"] not in allowed
                    and not (killed and any(just(line) for just in _JUST))
                ]
                assert worse == [], worse
                assert code == 0
                assert [state["state"] for state in lines[0]["liveness"]] == ["stopped"]
                assert lines[-1]["records"] > 100
                codes.update(line["code"] for line in findings)
            if number < _ROUNDS:
                broker.start()
                for line in findings:
                    if line["code"] == "partition-stray":
                        name = Path(line["path"]).parent.name
                        assert list(directory.glob(f"{name}.*-stray"))
    print(f"{version}, seed {seed}: {dict(codes)}")
