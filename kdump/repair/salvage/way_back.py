"""The commands that put the new partition in the place of the old one.

Spec: ``LogManager.loadLogs``, which stops at a second directory of a partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

Command = tuple[str, ...]


def way_back(partition: Path, destination: Path, log_directory: Path) -> tuple[Command, ...]:
    """The commands, in order; ``partition`` stands in ``log_directory``.

    What stood there goes beside ``destination``, outside of the log directory. Ownership is that
    of the directory that was read. Paths are absolute, so that they hold in any working directory.
    """
    origin, new, top = (path.absolute() for path in (partition, destination, log_directory))
    place = top / new.name
    free = _free(new)
    old = next(free)
    commands: list[Command] = [("mv", str(origin), str(old))]
    if origin != place and os.path.lexists(place):
        commands.append(("mv", str(place), str(next(free))))
    commands += [
        ("mv", str(new), str(place)),
        ("chown", "-R", f"--reference={old}", str(place)),
        ("kdump", "verify", str(top)),
    ]
    return tuple(commands)


def _free(new: Path) -> Iterator[Path]:
    """Names beside ``new`` that nothing has."""
    for number in count(1):
        path = new.with_name(f"{new.name}.old" + (f".{number}" if number > 1 else ""))
        if not os.path.lexists(path):
            yield path
