"""The commands that replace the old partition by the new one.

Spec: ``LogManager.loadLogs``, which fails on a second directory of a partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

Command = tuple[str, ...]


def way_back(partition: Path, destination: Path, log_directory: Path) -> tuple[Command, ...]:
    """Return the commands in order; ``partition`` is in ``log_directory``.

    The old partition moves beside ``destination``, outside of the log directory. The new one gets
    its owner. Paths are absolute, so that the commands work in any working directory.
    """
    origin, new, directory = (path.absolute() for path in (partition, destination, log_directory))
    final = directory / new.name
    free = _free(new)
    old = next(free)
    commands: list[Command] = [("mv", str(origin), str(old))]
    if origin != final and os.path.lexists(final):
        commands.append(("mv", str(final), str(next(free))))
    commands += [
        ("mv", str(new), str(final)),
        ("chown", "-R", f"--reference={old}", str(final)),
        ("kdump", "verify", str(directory)),
    ]
    return tuple(commands)


def _free(new: Path) -> Iterator[Path]:
    """Yield unused paths beside ``new``."""
    for number in count(1):
        path = new.with_name(f"{new.name}.old" + (f".{number}" if number > 1 else ""))
        if not os.path.lexists(path):
            yield path
