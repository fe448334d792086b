"""What a scrub says of the next startup: as ``verify`` does, or that not all was read for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.commands.scrub import scrub
from kdump.ui import exits
from support.commands import Ran
from support.commands import kdump as command
from support.crashing.running import run
from support.scrubs import World

PLAIN = "codec-none-0"
METADATA = "__cluster_metadata-0"


def corrupt(world: World, partition: str, number: int, position: int) -> None:
    """Change a byte amid a log: valid batches follow."""
    log = world.log(partition, number)
    data = bytearray(log.read_bytes())
    data[position] ^= 0xFF
    log.write_bytes(data)


def forecast(ran: Ran, partition: str) -> dict[str, Any]:
    (line,) = (each for each in ran.of("forecast") if each["path"].endswith(f"/{partition}"))
    return {
        key: value
        for key, value in line.items()
        if key not in ("last_stable_offset", "open_transaction")
    }


def by_verify(world: World, partition: str) -> dict[str, Any]:
    return forecast(command("verify", world.data, searching=False), partition)


CASES = [
    ("4.3.1/killed", PLAIN, 1, 300),
    ("4.3.1/clean", PLAIN, 1, 300),  # which a startup does not recover
    ("4.3.1/clean", METADATA, 0, 4000),
    ("3.9.1/killed", PLAIN, 1, 300),
]


@pytest.mark.parametrize(("fixture", "partition", "number", "position"), CASES)
def test_the_forecast_of_a_corrupt_log_is_that_of_verify(
    fixture: str, partition: str, number: int, position: int, tmp_path: Path
) -> None:
    world = World.make(tmp_path, fixture)
    corrupt(world, partition, number, position)
    for _ in range(2):  # the second one knows the finding
        ran = world.scrub()
        assert ran.code == exits.PROBLEMS
        assert forecast(ran, partition) == by_verify(world, partition)
        assert forecast(ran, partition)["exact"]


@pytest.mark.parametrize("damage_first", [True, False])
def test_the_rest_of_the_log_may_not_be_due(damage_first: bool, tmp_path: Path) -> None:
    """Segments that an earlier scrub read decide too how many records a startup removes."""
    world = World.make(tmp_path)
    (world.data / "recovery-point-offset-checkpoint").unlink()  # all of the log is recovered
    if not damage_first:
        world.scrub()
    corrupt(world, PLAIN, 0, 300)
    assert forecast(world.scrub(), PLAIN) == by_verify(world, PLAIN)


def text(world: World) -> str:
    argv = ["scrub", str(world.data), "--state", str(world.state)]
    return " ".join(run(argv, searching=False).out.split())


def test_what_was_not_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time may end before that is read on which the forecast depends."""
    world = World.make(tmp_path)
    corrupt(world, PLAIN, 1, 300)
    assert "removes 51 VALID records" in text(world)
    nothing: Callable[..., list[object]] = lambda verdicts, **_: []  # noqa: E731
    monkeypatch.setattr(scrub, "read_recovered", nothing)
    shown = text(world)
    assert shown.startswith("DO NOT START")
    assert "may remove valid records of a corrupt log: not all that it recovers was read" in shown
    assert "leaves the log as it is" not in shown
