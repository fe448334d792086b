"""JSON Lines: header, typed lines, summary.

The shapes are a promise to scripts: ``man/schemas`` describes each line and field.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import fsencode
from typing import TYPE_CHECKING, Final

from kdump.format.lines.text import json_bytes, json_text
from kdump.ui.version import version

if TYPE_CHECKING:
    from kdump.storage.paths import AnyPath

#: The version of the lines: it increases when a line changes its meaning.
SCHEMA: Final = 1


def line(kind: str, fields: dict[str, object]) -> str:
    """Return a line without its newline: the type, then ``fields``."""
    return json_text({"type": kind, **fields})


def header(command: str, paths: Iterable[AnyPath]) -> dict[str, object]:
    """Return the fields of the header line."""
    return {
        "schema": SCHEMA,
        "command": command,
        "version": version(),
        "paths": [path_value(path) for path in paths],
    }


def path_field(path: AnyPath | str) -> dict[str, str | None]:
    """Return ``path`` under its name, or base64 under ``path_base64`` where it is not UTF-8."""
    return json_bytes("path", fsencode(str(path)))


def path_value(path: AnyPath | str) -> str | dict[str, str | None]:
    """Return ``path`` as a string, or as ``{"path_base64": …}`` where it is not UTF-8."""
    field = path_field(path)
    return field.get("path") or field
