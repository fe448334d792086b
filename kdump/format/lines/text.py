"""Escaping of text for terminals and logs, and the text form of offsets and times.

Keys, values, names and paths are untrusted. Control, format, line- and paragraph-separator and
surrogate code points (categories Cc, Cf, Zl, Zp, Cs) could move a cursor, reorder a line, or break
a reader. They are escaped, in text and in JSON.

Spec: ``java.lang.String(byte[], Charset)`` for bytes that are not UTF-8.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from unicodedata import category

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNSAFE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
#: The code points that the tables of escapes hold at most, 100 bytes each.
_HELD: Final = 8192


def printable(text: str) -> str:
    r"""Return ``text`` with unsafe code points as ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def time_text(timestamp_ms: int) -> str:
    """Return a time in ISO 8601, UTC: "2026-11-21T10:00:00.000Z"; beyond year 9999, in ms."""
    try:
        time = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{time.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def json_text(value: object) -> str:
    r"""Return ``value`` as JSON on a single line, with unsafe code points as ``\uNNNN``."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else text.translate(_JSON_ESCAPES)


def json_bytes(
    name: str, raw: bytes | None, *, force_base64: bool = False
) -> dict[str, str | None]:
    """Return ``raw`` as a JSON field: a string under ``name``, or base64 under ``<name>_base64``.

    Base64 is for bytes that are not UTF-8, and for all bytes with ``force_base64``. None is null
    under ``name``.
    """
    if raw is None:
        return {name: None}
    if not force_base64:
        try:
            return {name: raw.decode()}
        except UnicodeDecodeError:
            pass
    return {f"{name}_base64": b64encode(raw).decode()}


def java_text(raw: bytes) -> str:
    """Return ``raw`` as Java's ``new String(raw, UTF_8)``: U+FFFD for bytes that are not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        # Python and Java differ for an encoded surrogate, which is a single U+FFFD in Java. The
        # replacement works on characters, as joining many pieces of bytes takes more memory.
        bytewise = _SURROGATE.sub("\xff", raw.decode("latin-1"))
        return bytewise.encode("latin-1").decode(errors="replace")


_SURROGATE: Final = re.compile("\xed[\xa0-\xbf][\x80-\xbf]?")


class _Escapes(dict[int, str]):
    """The table for ``str.translate``: the replacement of each code point, filled on first use.

    It holds ``_HELD`` code points at most: values may hold every one there is.
    """

    def __init__(self, escape: Callable[[str], str]) -> None:
        super().__init__()
        self._escape = escape

    def __missing__(self, code: int) -> str:
        char = chr(code)
        text = self._escape(char) if category(char) in _UNSAFE else char
        if len(self) < _HELD:
            self[code] = text
        return text


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


_ESCAPES: Final = _Escapes(_escape)
_JSON_ESCAPES: Final = _Escapes(_json_escape)
