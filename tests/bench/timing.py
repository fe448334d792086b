"""Times two things against each other on a machine that may be busy with others.

Spec: none.
Must never time one side to its end before the other: what slows the machine meanwhile would count
against one of them alone.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence


def best(
    repeat: int, *sides: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The least time that each of ``sides`` took, in seconds, run in turns ``repeat`` times."""
    times = [float("inf")] * len(sides)
    for _ in range(repeat):
        for place, side in enumerate(sides):
            started = clock()
            side()
            times[place] = min(times[place], clock() - started)
    return times


def process(command: Sequence[str]) -> Callable[[], object]:
    """What runs ``command`` to its end, with nobody to read its output."""
    return lambda: subprocess.run(
        command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
