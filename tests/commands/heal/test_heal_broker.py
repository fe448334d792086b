"""Healed directories under real brokers: they start, cut nothing, and serve what was there.

Copies of a directory that a broker left are damaged, each in another way, and one of them is healed
from the others.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump
from support.fixtures_loader import consumed, copy_fixture
from support.resealing import places
from support.served import COMMITTED, READ, complaints, logs, read_all, records

pytestmark = pytest.mark.broker

SEED = 9
SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}


def damage(log: Path, rng: random.Random) -> None:
    """A flipped bit, a zeroed stretch, or a torn end."""
    data = bytearray(log.read_bytes())
    spans = places(bytes(data))
    if not spans:
        return
    start, end = rng.choice(spans)
    kind = rng.randrange(3)
    if kind == 0:
        data[rng.randrange(start + 21, end)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        at = rng.randrange(start, end)
        stop = min(at + rng.randrange(1, 400), spans[-1][1])
        data[at:stop] = bytes(stop - at)
    else:
        del data[rng.randrange(spans[-1][0] + 1, spans[-1][1]) :]
    log.write_bytes(data)


@pytest.mark.parametrize(
    ("version", "state"),
    [
        pytest.param("4.3.1", "clean"),
        pytest.param("4.3.1", "killed", marks=pytest.mark.nightly),
        pytest.param("3.9.1", "clean", marks=pytest.mark.nightly),
        pytest.param("3.9.1", "killed", marks=pytest.mark.nightly),
    ],
)
def test_a_broker_serves_what_was_healed(version: str, state: str, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    fixture = f"{version}/{state}"
    data, copy = (copy_fixture(fixture, tmp_path / each) for each in ("data", "copy"))
    intact = consumed(fixture)
    # Of a compacted log only what lies between two batches is taken.
    names = sorted({name for name, _ in intact if not name.startswith(("__", "compacted"))})
    for name in names:
        for log in sorted((data / name).glob("*.log")):
            damage(log, rng)
    whole = logs(copy, names)
    for name in names:
        ran = kdump("heal", data / name, "--from", copy, "--apply")
        assert ran.code == 0, (name, ran)
    assert logs(data, names) == whole
    with Broker(version, data, SETTINGS) as broker:
        found_wrong = complaints(broker.log_lines(), clean=state == "clean")
        # After a kill a broker cuts the zeros of a preallocated log.
        zeros = "preallocated-0" if state == "killed" else None
        assert [line for line in found_wrong if zeros is None or zeros not in line] == []
        for isolation in (READ, COMMITTED):
            served = [name for name in names if (name, isolation) in intact]
            found = read_all(broker, served, tmp_path / isolation, isolation)
            assert found == {name: records(intact[name, isolation]) for name in served}
