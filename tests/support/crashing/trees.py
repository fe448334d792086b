"""Directory trees as values: taken from disk, put back in place, compared.

Directories stay the same ones when a tree is put, since plans know them by device and inode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

#: Paths below the root, ``.`` for the root itself, each before what it holds.
Tree = Mapping[str, "Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """A file, a directory (``content`` is None) or a symbolic link (``target``).

    ``twin`` is the first path of a file that has several; the times of directories are not kept.
    """

    content: bytes | None
    mode: int
    uid: int
    gid: int
    mtime_ns: int = 0
    extended: tuple[tuple[str, bytes], ...] = ()
    target: str | None = None
    twin: str | None = None

    @property
    def is_directory(self) -> bool:
        return self.content is None and self.target is None

    @property
    def lasting(self) -> Node:
        """All but when it was written."""
        return replace(self, mtime_ns=0)


def take(root: Path) -> dict[str, Node]:
    """All that stands at ``root``, which is not followed anywhere else."""
    found: dict[str, Node] = {}
    twins: dict[int, str] = {}
    for path in _paths(root):
        name = os.path.relpath(path, root)
        status = os.lstat(path)
        node = node_of(path, status)
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            node = replace(node, twin=twins.setdefault(status.st_ino, name))
        found[name] = node
    return found


def node_of(path: str | int, status: os.stat_result | None = None) -> Node:
    """What stands at ``path``, which may be an open file."""
    if status is None:
        status = os.stat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Node(None, mode, status.st_uid, status.st_gid, target=os.readlink(str(path)))
    extended = tuple((name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)))
    if stat.S_ISDIR(status.st_mode):
        return Node(None, mode, status.st_uid, status.st_gid, extended=extended)
    content = _read(path)
    return Node(content, mode, status.st_uid, status.st_gid, status.st_mtime_ns, extended)


def put(root: Path, tree: Tree) -> None:
    """Make what stands at ``root`` equal to ``tree``; what is equal already is left alone."""
    present = take(root)
    for name in sorted(present, reverse=True):
        wanted = tree.get(name)
        if wanted is not None and (wanted.is_directory and present[name].is_directory):
            continue
        if wanted is not None and wanted == present[name] and wanted.twin is None:
            continue
        path = root / name
        if present[name].is_directory:
            path.rmdir()
        else:
            path.unlink()
    for name, node in tree.items():
        if present.get(name) != node or node.twin is not None:
            _make(root, name, node)


def differences(
    found: Tree,
    expected: Tree,
    *,
    ignored: Callable[[str], bool],
    timed: Callable[[str], bool],
) -> list[str]:
    """What differs, a line each; ``timed`` are the files that must be as old, too."""
    lines = []
    for name in sorted({*found, *expected}):
        if ignored(name):
            continue
        one, other = found.get(name), expected.get(name)
        if one is None or other is None:
            lines.append(f"{name} is {'missing' if one is None else 'there'}")
            continue
        lines += [
            f"{name}: {what} is {_shown(here)}, expected {_shown(there)}"
            for what, here, there in (
                ("content", one.content, other.content),
                ("target", one.target, other.target),
                ("mode", one.mode, other.mode),
                ("owner", (one.uid, one.gid), (other.uid, other.gid)),
                ("attributes", one.extended, other.extended),
                ("links", one.twin is None, other.twin is None),
            )
            if here != there
        ]
        if timed(name) and one.mtime_ns != other.mtime_ns:
            lines.append(f"{name}: mtime is {one.mtime_ns}, expected {other.mtime_ns}")
    return lines


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:150]}... ({len(value)} bytes)"  # type: ignore[arg-type]


def _paths(root: Path) -> Iterator[str]:
    yield str(root)
    for directory, names, files in os.walk(root):
        names.sort()
        yield from (os.path.join(directory, name) for name in sorted([*names, *files]))


def _read(path: str | int) -> bytes:
    if isinstance(path, int):
        size = os.fstat(path).st_size
        return os.pread(path, size, 0)
    with open(path, "rb") as file:
        return file.read()


def _make(root: Path, name: str, node: Node) -> None:
    path = root / name
    if node.target is not None:
        path.symlink_to(node.target)
        return
    if node.twin is not None and node.twin != name:
        os.link(root / node.twin, path)
        return
    if node.is_directory:
        path.mkdir(exist_ok=True)
    else:
        assert node.content is not None
        path.write_bytes(node.content)
    status = path.stat()
    if (status.st_uid, status.st_gid) != (node.uid, node.gid):
        os.chown(path, node.uid, node.gid)
    path.chmod(node.mode)
    for key, value in node.extended:
        os.setxattr(path, key, value)
    if not node.is_directory:
        os.utime(path, ns=(node.mtime_ns, node.mtime_ns))
