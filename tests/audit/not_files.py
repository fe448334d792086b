"""What may stand in the place of a partition's file, and which starts fail by it.

Imports nothing of kdump.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path

SOURCE = "codec-none-0"
STATES = ("clean", "killed")

_FIRST, _LAST = "00000000000000000000", "00000000000000000060"

#: The files of the fixture's partition, and others that a start looks for; of the first segment,
#: and of the last one.
NAMES = {
    "first-index": f"{_FIRST}.index",
    "index": f"{_LAST}.index",
    "first-timeindex": f"{_FIRST}.timeindex",
    "timeindex": f"{_LAST}.timeindex",
    "first-txnindex": f"{_FIRST}.txnindex",
    "txnindex": f"{_LAST}.txnindex",
    "stray-snapshot": "00000000000000000078.snapshot",
    "base-snapshot": f"{_LAST}.snapshot",
    "snapshot": "00000000000000000122.snapshot",
    "epochs": "leader-epoch-checkpoint",
    "id": "partition.metadata",
    "first-log": f"{_FIRST}.log",
    "log": f"{_LAST}.log",
    "swap": f"{_FIRST}.log.swap",
    "cleaned": f"{_FIRST}.log.cleaned",
    "deleted": f"{_FIRST}.log.deleted",
    "no-number": "abc.log",
}


def _nothing(path: Path) -> None:
    path.symlink_to("/not mounted/file")


def _new(path: Path) -> None:
    """A link to no file, in a directory that exists: opening it can create the file."""
    path.symlink_to(path.parent.parent.parent / f"target of {path.parent.name}")


def _circle(path: Path) -> None:
    path.symlink_to(path.name)


def _directory(path: Path) -> None:
    target = path.parent.parent.parent / "a directory"
    target.mkdir(exist_ok=True)
    path.symlink_to(target)


def _socket(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as bound:  # names of sockets are short
        bound.bind(path.name)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


SHAPES: Mapping[str, Callable[[Path], None]] = {
    "nothing": _nothing,
    "circle": _circle,
    "new": _new,
    "directory": _directory,
    "socket": _socket,
    "fifo": _fifo,
}

_LINKS = ("nothing", "circle")
_EXISTING = ("directory", "socket", "fifo")
_BOTH = frozenset(STATES)
_KILLED = frozenset({"killed"})

#: In which states of the log directory a start fails, by name and shape; in others it does not.
#: In the killed state all segments are recovered.
FAILS: Mapping[tuple[str, str], frozenset[str]] = {
    **{
        (name, shape): _BOTH
        for name in ("first-index", "index", "first-timeindex", "timeindex")
        for shape in _LINKS
    },
    **{(name, shape): _BOTH for name in ("index", "timeindex") for shape in _EXISTING},
    **{
        (name, shape): _KILLED for name in ("first-index", "first-timeindex") for shape in _EXISTING
    },
    **{
        (name, shape): _BOTH for name in ("first-txnindex", "txnindex", "id") for shape in _EXISTING
    },
    **{("epochs", shape): _BOTH for shape in SHAPES},
    **{("base-snapshot", shape): _KILLED for shape in (*_LINKS, *_EXISTING)},
    **{("snapshot", shape): _BOTH for shape in (*_LINKS, *_EXISTING)},
}


def truncates(name: str, state: str) -> bool:
    """Whether brokers from 4.0 on do not fail, but truncate the segment: a snapshot of its recovery
    cannot be written.
    """
    return name in ("base-snapshot", "snapshot") and state == "killed"


def plant(data: Path, target: Path, name: str, shape: str) -> None:
    """Copy the partition of the fixture ``data`` to ``target``, with a name taken by a shape."""
    shutil.copytree(data / SOURCE, target)
    (target / NAMES[name]).unlink(missing_ok=True)
    SHAPES[shape](target / NAMES[name])
