"""Deadline: the end of the time that a run may take, also amid the read of a segment."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from types import FrameType
from typing import NoReturn, TypeVar

T = TypeVar("T")


class _Reached(Exception):
    """The time is over."""


class Deadline:
    """A point in time, ``seconds`` from now; None for no end.

    It uses SIGALRM, and so works in the main thread alone.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self.reached = False

    @property
    def left(self) -> float:
        """The seconds left, at least 0; infinite without an end."""
        return float("inf") if self._end is None else max(0.0, self._end - time.monotonic())

    def until(self, results: Generator[T, None, None]) -> Iterator[T]:
        """Yield ``results`` until the time is over; then close them, and set ``reached``.

        The wait for a result is interrupted, wherever it is. Leaving early closes them too.
        """
        with closing(results):
            if self._end is None:
                yield from results
                return
            while not self.reached:
                try:
                    result = self._next(results)
                except StopIteration:
                    return
                except _Reached:
                    self.reached = True
                    return
                yield result

    def _next(self, results: Generator[T, None, None]) -> T:
        """Return the next result. Raises StopIteration, and _Reached when the time is over."""
        if not self.left:
            raise _Reached
        before = signal.signal(signal.SIGALRM, _raise)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.left or 1e-6)
            try:
                return next(results)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)


def _raise(_: int, __: FrameType | None) -> NoReturn:
    raise _Reached
