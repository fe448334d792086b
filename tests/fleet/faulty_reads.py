"""Reads that fail: what the system answers when files with certain names are opened or read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.storage import source
from kdump.storage.source import WindowedFile, source_error

#: By name: the errors that a disk, a mount and a file server give.
ERRORS = {name: getattr(errno, name) for name in ("EACCES", "EIO", "ESTALE", "ETIMEDOUT")}


def fail_opens(patch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Opening a file called ``name`` fails."""
    opening = source.open_regular

    def failing(path: Path) -> tuple[int, os.stat_result]:
        if path.name == name:
            raise source_error(path, OSError(code, os.strerror(code)))
        return opening(path)

    patch.setattr(source, "open_regular", failing)


def fail_reads(patch: pytest.MonkeyPatch, name: str, code: int | None) -> None:
    """Reading a file called ``name`` fails; with None it ends early."""
    reading: Callable[[WindowedFile, int], int] = WindowedFile._read

    def failing(self: WindowedFile, filled: int) -> int:
        if self.path.name != name:
            return reading(self, filled)
        if code is None:
            return 0
        raise source_error(self.path, OSError(code, os.strerror(code)))

    patch.setattr(WindowedFile, "_read", failing)
