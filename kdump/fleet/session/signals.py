"""Signals held back while an exception could be lost.

A handler that raises may run within the finalizer of one of py4j's objects, or of any other, and
Python drops what is raised there: whoever pressed Ctrl-C would be told of that, and the job go on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: Those whose handlers raise.
_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Keep signals back in the block; calling what it gives runs the handler of the first one.

    What came and was not let through is so at the end. Elsewhere than in the main thread, which
    gets no signals, nothing is changed.
    """
    came: list[tuple[int, FrameType | None]] = []

    def keep(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    def let_through() -> None:
        while came:
            number, frame = came.pop(0)
            handlers[number](number, frame)

    handlers = _handlers()
    for number in handlers:
        signal.signal(number, keep)
    try:
        yield let_through
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        let_through()


def _handlers() -> dict[int, Callable[[int, FrameType | None], object]]:
    """The handlers that Python runs, and so may raise."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = ((number, signal.getsignal(number)) for number in _NUMBERS)
    return {number: handler for number, handler in found if callable(handler)}
