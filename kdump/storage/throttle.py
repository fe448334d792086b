"""The read rate, and the priorities at disks and CPUs, beside a running broker.

Spec: ioprio_set(2) and sched(7) of Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: The default rate beside a running broker, in bytes a second.
LIVE_RATE: Final = 50_000_000

#: A reader that fell behind the rate may catch up by as much as this time allows.
_CREDIT_NS: Final = 250_000_000
_NS: Final = 1_000_000_000

# The C library has no function for it.
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30, "riscv64": 30}
_WHO_PROCESS: Final = 1
_CLASS_IDLE: Final = 3 << 13


class Pace:
    """A rate in bytes a second (above 0) that several processes share.

    Create it before they are forked: its state is in memory that they share.
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
        # The time at which all bytes read so far are within the rate. There is no lock, as a worker
        # may be killed while it holds one. Two workers that write at the same moment lose one
        # count, which is rare: their sleeps are a thousand times longer.
        self._within_rate_ns = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def spend(self, count_bytes: int) -> None:
        """Sleep until ``count_bytes`` that were just read are within the rate."""
        now = self._clock_ns()
        begin = max(self._within_rate_ns[0], now - _CREDIT_NS)
        until = begin + count_bytes * _NS // self._bytes_per_second
        self._within_rate_ns[0] = until
        if until > now:
            self._sleep((until - now) / _NS)


def use_idle_io() -> None:
    """Put this process into the idle class of I/O priority, on Linux; elsewhere do nothing.

    The disk then serves it only while no other process needs the disk.
    """
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        arguments = (number, _WHO_PROCESS, 0, _CLASS_IDLE)
        # The result is ignored: a container may forbid the call, and reading works without it.
        ctypes.CDLL(None).syscall(*map(ctypes.c_long, arguments))


def use_idle_cpu() -> None:
    """Put this process into the idle class of the CPU scheduler, on Linux; elsewhere do nothing.

    Any other process then runs at once when it can. There is no way back for an ordinary user.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a container may forbid the call
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
