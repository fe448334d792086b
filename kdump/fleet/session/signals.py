"""Signals that wait while an exception could be lost.

A handler that raises may run inside a finalizer, for example of an object of py4j. Python drops
exceptions of finalizers: it would print the KeyboardInterrupt, and the job would continue.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: The signals whose handlers raise.
_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def hold_signals() -> Iterator[Callable[[], None]]:
    """Hold signals back inside the block, and yield a function that delivers those that arrived.

    The end of the block delivers the others. Outside the main thread, which alone gets signals,
    this does nothing.
    """
    pending: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        pending.append((number, frame))

    def deliver() -> None:
        while pending:
            number, frame = pending.pop(0)
            handlers[number](number, frame)

    handlers = _handlers()
    for number in handlers:
        signal.signal(number, hold)
    try:
        yield deliver
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        deliver()


def _handlers() -> dict[int, Callable[[int, FrameType | None], object]]:
    """Return the handlers that are Python functions: these can raise."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = ((number, signal.getsignal(number)) for number in _NUMBERS)
    return {number: handler for number, handler in found if callable(handler)}
