"""Stands between kdump and the calls that change files: counts, kills, fails and records them."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdump.repair.transaction.disk import System
from support.crashing.trees import Node, node_of

#: What each method is to ``strace``: the kinds of calls that it may come out as.
SYSCALLS = {
    "open": ("open", "openat"),
    "write": ("write",),
    "pwrite": ("pwrite64",),
    "truncate": ("ftruncate",),
    "clone": ("ioctl",),
    "copy": ("copy_file_range",),
    "chown": ("fchown",),
    "chmod": ("fchmod",),
    "set_attribute": ("fsetxattr",),
    "set_times": ("utimensat",),
    "sync": ("fsync",),
    "rename": ("rename", "renameat", "renameat2"),
    "link": ("link", "linkat"),
    "unlink": ("unlink", "unlinkat"),
    "make_directory": ("mkdir", "mkdirat"),
    "remove_directory": ("rmdir", "unlinkat"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A call before it is made: ``method`` of System, and the paths that it is about."""

    number: int
    method: str
    paths: tuple[str, ...]
    arguments: tuple[Any, ...]

    @property
    def creates(self) -> bool:
        """Whether it may make a file that was not there."""
        return self.method == "open" and bool(self.arguments[1] & os.O_CREAT)

    @property
    def changes(self) -> bool:
        """Whether it changes anything, or makes that last."""
        return self.method != "open" or bool(self.arguments[1] & (os.O_CREAT | os.O_TRUNC))


#: Called with a call, and with what makes it; returns what the call returns.
Around = Callable[[Call, Callable[..., Any]], Any]


class Watched(System):
    """Numbers the calls from 0 on, and has ``around`` make them."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._made = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name not in SYSCALLS:
            return found

        def called(*arguments: Any) -> Any:
            call = Call(self._made, name, _paths(name, arguments), arguments)
            self._made += 1
            return self._around(call, found)

        return called


def killed_before(number: int) -> Around:
    """The process is killed before that call."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.number == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return make(*call.arguments)

    return around


def failing(numbers: Callable[[int], bool], error: int) -> Around:
    """The calls with these numbers fail; closing, removing and making are all alike."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if numbers(call.number):
            raise OSError(error, os.strerror(error), *call.paths[:1])
        return make(*call.arguments)

    return around


def full_until_removal() -> Around:
    """No room for a new file, until one was removed."""
    removed: list[str] = []

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "unlink":
            removed.append(call.paths[0])
        if call.creates and not removed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*call.arguments)

    return around


def short(most: int) -> Around:
    """No write or copy takes more than ``most`` bytes."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        match call.method, call.arguments:
            case "write", (descriptor, data):
                return make(descriptor, data[:most])
            case "pwrite", (descriptor, data, position):
                return make(descriptor, data[:most], position)
            case "copy", (source, target, count, position):
                return make(source, target, min(count, most), position)
        return make(*call.arguments)

    return around


@dataclass(frozen=True, slots=True)
class Operation:
    """A call that was made. ``left`` is the file that it changed or made, as it is now."""

    method: str
    paths: tuple[str, ...]
    left: Node | None = None


def recording(kept: list[Operation], root: Path, before: Callable[[Call], None]) -> Around:
    """Adds to ``kept`` what succeeded below ``root``; paths are from there on."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        before(call)
        present = call.method == "open" and os.path.lexists(call.paths[0])
        result = make(*call.arguments)
        if call.method == "open" and (present or not call.creates):
            return result
        left = node_of(call.paths[0]) if call.method in _LEAVING else None
        paths = tuple(os.path.relpath(path, root) for path in call.paths)
        kept.append(Operation(call.method, paths, left))
        return result

    return around


#: Which argument is the open file that is changed.
_OF_DESCRIPTORS = {
    "write": 0,
    "pwrite": 0,
    "truncate": 0,
    "clone": 0,
    "copy": 1,
    "chown": 0,
    "chmod": 0,
    "set_attribute": 0,
    "set_times": 0,
    "sync": 0,
}
#: Those behind which a file is another than before.
_LEAVING = {"open", "make_directory", *_OF_DESCRIPTORS} - {"sync"}


def _paths(method: str, arguments: Sequence[Any]) -> tuple[str, ...]:
    if method in _OF_DESCRIPTORS:
        return (os.readlink(f"/proc/self/fd/{arguments[_OF_DESCRIPTORS[method]]}"),)
    return tuple(os.fspath(value) for value in arguments if isinstance(value, Path))
