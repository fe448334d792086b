"""Waits for what a real node does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(true: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so. Raises AssertionError if that takes longer than ``seconds``."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)
