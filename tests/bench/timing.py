"""Times two things against each other on a machine that may be busy with others."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence


def best(
    repeat: int, *sides: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The least time that each of ``sides`` took, in seconds, run in turns ``repeat`` times."""
    return list(map(min, _in_turns(repeat, sides, clock)))


def median(repeat: int, *sides: Callable[[], object]) -> list[float]:
    """The median of the times that each of ``sides`` took, otherwise as ``best``."""
    return list(map(statistics.median, _in_turns(repeat, sides, time.perf_counter)))


def process(command: Sequence[str], code: int = 0) -> Callable[[], object]:
    """What runs ``command`` to its end with exit ``code``, with nobody to read its output."""

    def run() -> None:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if ended.returncode != code:
            raise RuntimeError(f"expected {command} to end with {code}, found {ended.returncode}")

    return run


def _in_turns(
    repeat: int, sides: Sequence[Callable[[], object]], clock: Callable[[], float]
) -> list[list[float]]:
    """All times of each side."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeat):
        for place, side in enumerate(sides):
            started = clock()
            side()
            times[place].append(clock() - started)
    return times
