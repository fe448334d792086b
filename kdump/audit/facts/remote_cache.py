"""``remote-log-index-cache``, the indexes of remote segments that a broker has fetched.

A start with remote storage reads all of it, and a fault in it ends the start.

Spec: ``RemoteIndexCache.init`` (KIP-405): files ``<base offset>_<segment id>.<extension>``.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.logdir import holds_entries
from kdump.storage.paths import AnyPath, scan
from kdump.values import frozen

#: The extensions of a segment's three files, with the size of an entry in bytes.
_ENTRY_BYTES: Final = {".index": 8, ".timeindex": 12, ".txnindex": 34}
_REMOVED: Final = (".deleted", ".tmp")
#: A segment's id is 16 bytes in base64.
_NAME: Final = re.compile(r"(?:[^_.]*_)?[A-Za-z0-9_-]{22}\..*", re.ASCII)
_BASE: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
#: A timestamp, which begins an entry of a time index, or an offset.
_LONG: Final = struct.Struct(">q")
#: The position of the last offset in an entry of a transaction index.
_LAST_OFFSET: Final = 18
_LARGEST: Final = 64 << 20


@frozen
class CacheFault:
    """What ends a start: the entry at ``path``, what a broker expects there, what is there."""

    path: AnyPath
    expected: str
    found: str


def cache_fault(cache: AnyPath) -> CacheFault | None:
    """Return the first fault of the index cache in the directory ``cache``, None without one."""
    try:
        with scan(cache) as entries:
            names = sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError:
        return None
    segments: dict[str, set[str]] = {}
    for name, is_directory in names:
        path = cache / name
        if name.endswith(_REMOVED):
            if is_directory and holds_entries(path):
                return CacheFault(path, "a file, which is deleted", "a directory with entries")
        elif not _NAME.fullmatch(name):
            return CacheFault(path, "a name of offset, '_', segment id and extension", name)
        else:
            stem, dot, extension = name.partition(".")
            segments.setdefault(stem, set()).add(dot + extension)
    for stem, extensions in segments.items():
        if extensions.issuperset(_ENTRY_BYTES):  # otherwise a broker deletes what is there
            fault = _index_fault(cache, stem)
            if fault is not None:
                return fault
    return None


def _index_fault(cache: AnyPath, stem: str) -> CacheFault | None:
    base = stem.partition("_")[0]
    if not _BASE.fullmatch(base):
        return CacheFault(cache / f"{stem}.index", "a name that begins with an offset", stem)
    for extension, width in _ENTRY_BYTES.items():
        path = cache / f"{stem}{extension}"
        try:
            size, data = read_end(path, _LARGEST)
        except SourceError:
            continue
        if extension != ".txnindex" and size % width:
            return CacheFault(path, f"entries of {width} bytes", f"{size} bytes")
        if size != len(data):
            continue
        if extension == ".timeindex" and size:
            (first,), (last,) = (_LONG.unpack_from(data, at) for at in (0, size - width))
            if last < first:
                return CacheFault(path, f"a last timestamp of {first} or more", str(last))
        for at in range(0, size - width + 1, width) if extension == ".txnindex" else ():
            (last,) = _LONG.unpack_from(data, at + _LAST_OFFSET)
            if last < int(base):
                return CacheFault(path, f"last offsets of {base} or more", str(last))
    return None
