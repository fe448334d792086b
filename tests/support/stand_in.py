"""Processes that hold files as a broker does: its lock, logs open for writing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BROKER = """
import fcntl, sys
files = [open(path, "r+b") for path in sys.argv[1:]]
fcntl.lockf(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@contextmanager
def child(code: str, *arguments: object) -> Iterator[int]:
    """Another process that runs ``code`` and then waits for a line of input; its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nprint(flush=True)\ninput()", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


@contextmanager
def stand_in(directory: Path, *logs: Path) -> Iterator[int]:
    """A process in the place of the broker of a log directory: it has its lock, and ``logs``."""
    (directory / ".lock").touch()
    with child(_BROKER, directory / ".lock", *logs) as pid:
        yield pid
