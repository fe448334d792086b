"""A disk that is full after so many calls."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from kdump.repair.transaction import disk

NO_ROOM = os.strerror(errno.ENOSPC)


class Failing(disk.System):
    """Fails from call number ``count`` on, but for taking away what was made.

    Each call writes half of what it is given.
    """

    def __init__(self, count: int) -> None:
        self.left = count

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, NO_ROOM)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._step()
        return super().open(path, flags, mode)

    def write(self, descriptor: int, data: memoryview) -> int:
        self._step()
        return super().write(descriptor, data[: max(1, len(data) // 2)])

    def make_directory(self, path: Path, mode: int) -> None:
        self._step()
        super().make_directory(path, mode)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
