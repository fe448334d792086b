"""Logs put together of pieces of other logs, and of bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from kdump.errors import Refused, SourceError
from kdump.repair.transaction.directories import read_as_owner
from kdump.repair.transaction.plan import Assembly, Piece, Put
from kdump.storage.access import open_source
from kdump.storage.objects.remote_path import as_path
from kdump.storage.paths import AnyPath
from kdump.storage.rights import ROOT, acting

_PIECE_BYTES: Final = 1 << 20


def assemble(put: Put, recipe: Assembly, partition: Path) -> Iterator[bytes]:
    """Yield the bytes of a log that a step puts into ``partition``.

    Raises Refused after the last byte of a piece that is not the one of the plan, and at the end
    unless the whole log is; SourceError.
    """
    whole, size = hashlib.sha256(), 0
    for piece in recipe.pieces:
        digest = hashlib.sha256()
        for data in _read(piece, partition / put.name):
            digest.update(data)
            whole.update(data)
            size += len(data)
            yield data
        if piece.path and digest.hexdigest() != piece.sha256:
            raise _changed(piece.path, "other bytes")
    if (size, whole.hexdigest()) != (put.size, put.sha256):
        raise Refused(
            f"{partition / put.name}: expected the {put.size} planned bytes, found other bytes: "
            "nothing was changed; plan again"
        )


def _read(piece: Piece, replaced: Path) -> Iterator[bytes]:
    if piece.content:
        yield bytes.fromhex(piece.content)
        return
    path: AnyPath = as_path(piece.path) if piece.path else replaced
    position, stop = piece.position, piece.position + piece.size
    try:
        with _reading(path) if piece.path else nullcontext():
            source = open_source(path, mapped=False)
        with source:
            while position < stop:
                data = bytes(source.window(position)[: min(stop - position, _PIECE_BYTES)])
                if not data:
                    raise _changed(path, f"the end of the file at {position}")
                yield data
                position += len(data)
    except SourceError as error:
        if piece.path:
            raise _changed(path, str(error)) from error
        raise


@contextmanager
def _reading(path: AnyPath) -> Iterator[None]:
    """Act with the rights of the owner of a copy, which the owner of the partition may lack."""
    if not isinstance(path, Path):
        yield
        return
    with acting(ROOT), read_as_owner(path.parent):
        yield


def _changed(path: str | AnyPath, found: str) -> Refused:
    return Refused(
        f"{path}: expected the bytes that the plan takes, found {found}: nothing was changed; plan "
        "again"
    )
