"""read_key(): the secret that the names in an anonymous manifest are derived from."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from kdump.errors import SourceError, UsageError
from kdump.storage.access import read_end

_LEAST_BYTES: Final = 16
_MOST_BYTES: Final = 64 << 10


def read_key(path: Path | None, *, anonymous: bool) -> bytes | None:
    """Return the key in the file ``path``, a new one without a file; None if names stay.

    Raises UsageError for a key without ``anonymous``, and for one that can be guessed, SourceError
    if the file cannot be read.
    """
    if not anonymous:
        if path is not None:
            raise UsageError("--key: expected --anonymous with it, found none")
        return None
    if path is None:
        return secrets.token_bytes(32)
    size, key = read_end(path, _MOST_BYTES)
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        raise SourceError(
            path,
            f"{path}: expected a secret of {_LEAST_BYTES} to {_MOST_BYTES} bytes, found {size} "
            "bytes: make one with head -c 32 /dev/urandom > FILE",
        )
    return key
