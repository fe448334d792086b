"""What may reach a terminal or a log as it is: everything else leaves escaped.

Keys, values, names and paths come from anybody. Control, format, line- and paragraph-separator
and surrogate code points (categories Cc, Cf, Zl, Zp, Cs) could move a cursor, reorder a line, or
break a reader, so none of them leaves raw, in text or in JSON.

Spec: ``java.lang.String(byte[], Charset)`` for what bytes say that are no UTF-8.
It must never lose information in JSON, and never fail on any string.
"""

from __future__ import annotations

import codecs
import json
from typing import Final
from unicodedata import category

_UNSAFE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def printable(text: str) -> str:
    r"""``text`` with unsafe code points as ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``."""
    if text.isprintable():
        return text
    return "".join(_escaped(char) if category(char) in _UNSAFE else char for char in text)


def json_text(value: object) -> str:
    r"""``value`` as JSON on one line, with unsafe code points as ``\uNNNN``."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if text.isprintable():
        return text
    return "".join(_json_escaped(char) if category(char) in _UNSAFE else char for char in text)


def java_text(raw: bytes) -> str:
    """``raw`` as Java's ``new String(raw, UTF_8)`` has it: U+FFFD for what is no UTF-8."""
    return raw.decode(errors=_JAVA)


_JAVA: Final = "kdump-java"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD where Python's own handler has one, but also one for a whole surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    raw, start, end = error.object, error.start, error.end
    if raw[start] == 0xED and 0xA0 <= int.from_bytes(raw[start + 1 : start + 2]) <= 0xBF:
        third = raw[start + 2 : start + 3]
        end = start + (3 if third and third[0] & 0xC0 == 0x80 else 2)
    return "\ufffd", end


codecs.register_error(_JAVA, _replace_as_java)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escaped(char: str) -> str:
    return json.dumps(char)[1:-1]
