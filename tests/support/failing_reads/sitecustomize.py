"""Faults in the Python workers of Spark, which import this at their start.

The file that KDUMP_FAULT names has one fault as JSON: ``log`` is the path whose open or read it
hits, ``kind`` an errno by name, ``vanish``, which removes the file ``victim``, or ``kill``. The
last two happen once: the fault is taken away first.
"""

import errno
import json
import os
import signal
from typing import Any

_opening, _reading = os.open, os.preadv


def _fault(path: str) -> dict[str, Any] | None:
    try:
        with open(os.environ["KDUMP_FAULT"], encoding="utf-8") as file:
            fault: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return fault if fault["log"] == path else None


def _happens(path: str, moment: str) -> None:
    fault = _fault(path)
    if fault is None or fault["moment"] != moment:
        return
    if fault["kind"] not in ("vanish", "kill"):
        code = getattr(errno, fault["kind"])
        raise OSError(code, os.strerror(code))
    try:
        os.unlink(os.environ["KDUMP_FAULT"])
    except FileNotFoundError:
        return
    if fault["kind"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os.unlink(fault["victim"])


def _open(path: Any, *given: Any, **named: Any) -> int:
    if str(path).endswith(".log"):
        _happens(str(path), "open")
    return _opening(path, *given, **named)


def _preadv(descriptor: int, *given: Any) -> int:
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    if path.endswith(".log"):
        _happens(path, "read")
    return _reading(descriptor, *given)


if "KDUMP_FAULT" in os.environ:
    os.open, os.preadv = _open, _preadv
