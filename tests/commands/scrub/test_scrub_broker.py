"""``kdump scrub`` beside a running broker: it raises no false alarm, over restarts too."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.churn import SETTINGS, churning
from support.scrubs import World, status

_NOT_NOTES = ("error", "incomplete", "warning")


@pytest.mark.broker
@pytest.mark.parametrize(
    ("runs", "restarts"),
    [
        pytest.param(5, 1, marks=pytest.mark.slow),
        pytest.param(100, 6, marks=pytest.mark.nightly),
    ],
    ids=["5-runs", "100-runs"],
)
def test_no_false_alarm_beside_a_busy_broker(runs: int, restarts: int, tmp_path: Path) -> None:
    """It produces, rolls, compacts, deletes, and is stopped and killed amid that."""
    world, chance = World(tmp_path), random.Random(runs)
    codes, read, ends = Counter[str](), 0, Counter[str]()
    at = set(chance.sample(range(1, runs), restarts))
    with Broker("4.3.1", world.data, {**SETTINGS, **QUICK_RESTART}) as broker, ExitStack() as load:
        load.enter_context(churning(broker, seed=runs))
        for number in range(runs):
            if number in at:
                load.close()
                if chance.random() < 0.5:
                    broker.kill()
                else:
                    broker.stop()
                broker.start()
                load.enter_context(churning(broker, seed=runs + number))
            time.sleep(chance.uniform(0, 3))
            # Every other run reads all of what was read before, and compares it.
            ran = world.scrub("--max-duration", "5s", *(("--max-age", "0s") if number % 2 else ()))
            worse = [line for line in ran.of("finding") if line["severity"] in _NOT_NOTES]
            assert (ran.code, worse) == (0, []), f"run {number}"
            found = status(ran)
            codes.update(line["code"] for line in ran.of("finding"))
            ends[found["reason"]] += 1
            read += found["bytes"]
    print(f"{runs} runs, {read:,} bytes, {dict(ends)}: {dict(codes)}")
    assert read > runs * 20_000
