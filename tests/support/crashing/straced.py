"""Runs kdump under strace: which calls change files, and what a real kill or fault there leaves."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_DRIVER = Path(__file__).with_name("driver.py")
#: Every call by which a process changes files, or makes that last; ``?`` where a machine may have
#: no such call.
CHANGING = (
    "?creat,?open,openat,?openat2,write,pwrite64,writev,?pwritev,?pwritev2,?rename,?renameat,"
    "?renameat2,?unlink,unlinkat,ftruncate,truncate,?mkdir,mkdirat,?mknod,mknodat,?rmdir,?link,"
    "linkat,?symlink,symlinkat,?chmod,fchmod,fchmodat,?chown,fchown,?lchown,fchownat,setxattr,"
    "lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,?utime,?utimes,?futimesat,utimensat,"
    "fsync,fdatasync,sync_file_range,syncfs,fallocate,ioctl,copy_file_range,sendfile,splice"
)
_HEAD = re.compile(r"^(\d+) +(\w+)\((.*)$")
_AT = re.compile(r'<([^>]*)>, "([^"/]*)"')
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Traced:
    """A call that was about something below the root: its name, and how many of that name the same
    process had made before, whatever they were about. ``paths`` are from the root on."""

    name: str
    before: int
    paths: tuple[str, ...]


@dataclass(frozen=True)
class TracedRun:
    """``code`` is negative for a signal; ``calls`` are those that are about the root."""

    code: int
    err: str
    calls: Sequence[Traced]
    record: str


@functools.cache
def missing() -> str | None:
    """Why nothing can be traced here; None if it can."""
    if shutil.which("strace") is None:
        return "no strace command"
    tried = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True)
    return None if tried.returncode == 0 else f"strace may not trace: {tried.stderr.decode()}"


def trace(argv: Sequence[str], root: Path, beside: Path, *, inject: str | None = None) -> TracedRun:
    """Run ``kdump ARGV`` in an interpreter of its own, traced; ``beside`` takes what is written.

    ``inject`` is what strace does to calls, such as ``fsync:error=EIO:when=3``.
    """
    log, record = beside / "strace", beside / "record"
    record.write_bytes(b"")
    command = ["strace", "-f", "-qq", "-y", "-s", "1024", "-o", str(log), "-e", f"trace={CHANGING}"]
    if inject is not None:
        command += ["-e", f"inject={inject}"]
    command += [sys.executable, str(_DRIVER), str(record), *argv]
    search = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    calls = _calls(log.read_text(errors="replace"), str(root))
    # strace ends by the signal that its process ended by.
    return TracedRun(ran.returncode, ran.stderr, calls, record.read_text())


def _calls(text: str, root: str) -> list[Traced]:
    inside = re.compile(rf'["<]{re.escape(root)}((?:/[^">]*)?)[">]')
    made: dict[tuple[str, str], int] = {}
    found = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is None:  # the rest of a call that was begun above, or an end
            continue
        process, name, rest = head.groups()
        number = made.get((process, name), 0)
        made[process, name] = number + 1
        # What a call returns is no argument of it, and what is written is no path.
        arguments = rest.partition(",")[0] if "write" in name else rest.rpartition(" = ")[0] or rest
        if "xattr" not in name:  # names that are looked up from an open directory
            arguments = _AT.sub(r"<\1/\2>", arguments)
        paths = tuple(path.lstrip("/") or "." for path in inside.findall(arguments))
        if paths and _changes(name, arguments):
            found.append(Traced(name, number, paths))
    return found


def _changes(name: str, arguments: str) -> bool:
    if name.startswith("open"):
        return "O_CREAT" in arguments or "O_TRUNC" in arguments
    return name != "ioctl" or "FICLONE" in arguments
