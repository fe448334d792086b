"""The read rate and I/O priority beside a running broker.

Spec: ioprio_set(2) of Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
import time
from collections.abc import Callable
from typing import Final

#: Bytes a second, beside a broker, unless something else is asked for.
LIVE_RATE: Final = 50_000_000

#: How long a reader that was held up may go faster, to make up for it.
_CREDIT_NS: Final = 250_000_000
_NS: Final = 1_000_000_000

# The C library has no function for it.
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30, "riscv64": 30}
_WHO_PROCESS: Final = 1
_CLASS_IDLE: Final = 3 << 13


class Pace:
    """A rate in bytes a second (above 0) that all processes keep to together.

    Make it before they are forked: what is left of it lies in memory that they share.
    """

    def __init__(
        self,
        bytes_per_second: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock_ns = clock_ns
        self._sleep = sleep
        # The moment at which everything read so far is paid for. No lock: a worker may be killed
        # while it holds one, and two that meet here, between sleeps that are a thousand times
        # longer, lose the count of one piece.
        self._paid_until_ns = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def spend(self, count_bytes: int) -> None:
        """Wait until ``count_bytes`` that were just read keep to the rate."""
        now = self._clock_ns()
        begin = max(self._paid_until_ns[0], now - _CREDIT_NS)
        until = begin + count_bytes * _NS // self._bytes_per_second
        self._paid_until_ns[0] = until
        if until > now:
            self._sleep((until - now) / _NS)


def use_idle_io() -> None:
    """Let the disks serve this process when nobody else wants them; without effect elsewhere."""
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        arguments = (number, _WHO_PROCESS, 0, _CLASS_IDLE)
        # A container may forbid it. Then nothing is lost but courtesy.
        ctypes.CDLL(None).syscall(*map(ctypes.c_long, arguments))
