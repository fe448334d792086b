"""Entries of a file without batches, and their lines.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.4.0 for the text of the files that it reads; the
lines of the other files have the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from kdump.format.lines.text import json_bytes, json_text, printable
from kdump.values import frozen

Cell = int | str | tuple[int, ...] | None

#: The number of entries that are formatted at a time.
_ROWS: Final = 8192


@frozen
class Entries:
    """Neighbouring entries of one type.

    ``columns`` maps the name of a field to its values, one for each entry. ``type`` is the type of
    the JSON lines. ``lines`` is the text, if it is more than names and values.
    """

    type: str
    columns: Mapping[str, Sequence[Cell]]
    lines: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@frozen
class ZeroSlots:
    """The unused slots at the end of a preallocated index; ``size`` in bytes."""

    position: int
    size: int
    count: int


@frozen
class FileDamage:
    """Bytes that do not follow the format of the file, and the reason.

    ``content`` is the bytes, if they are not printed otherwise. The checksums are None unless they
    are the reason.
    """

    reason: str
    position: int
    size: int
    detail: str | None = None
    content: bytes | None = None
    stored_crc: int | None = None
    computed_crc: int | None = None


Piece = Entries | ZeroSlots | FileDamage
"""A part of a file without batches; the pieces of a file are in file order."""


def text_lines(piece: Piece) -> Iterator[bytes]:
    """Yield ``piece`` as text, many lines at a time."""
    if isinstance(piece, ZeroSlots):
        yield _line(f"zeroSlots: {piece.count} position: {piece.position} size: {piece.size}")
    elif isinstance(piece, FileDamage):
        line = f"damage: {piece.reason} position: {piece.position} size: {piece.size}"
        if piece.stored_crc is not None:
            line += f" storedCrc: {piece.stored_crc} computedCrc: {piece.computed_crc}"
        if piece.detail is not None:
            line += f" detail: {printable(piece.detail)}"
        yield _line(line)
        if piece.content is not None:
            yield _line(f"content: {printable(piece.content.decode(errors='backslashreplace'))}")
    elif piece.lines is not None:
        yield from map(_line, piece.lines)
    else:
        template = " ".join(f"{_camel_case(name)}: %s" for name in piece.columns)
        yield from _fill(template, list(piece.columns.values()), _text_cell)


def json_lines(piece: Piece, where: Mapping[str, object], *, force_base64: bool) -> Iterator[bytes]:
    """Yield ``piece`` as JSON, many lines at a time.

    ``where`` holds the fields that all lines of a file have.
    """
    if isinstance(piece, ZeroSlots):
        extent = {"position": piece.position, "size": piece.size}
        yield _line(json_text({"type": "zero-slots", **where, **extent, "count": piece.count}))
    elif isinstance(piece, FileDamage):
        line = {
            "type": "damage",
            **where,
            "position": piece.position,
            "size": piece.size,
            "reason": piece.reason,
            "stored_crc": piece.stored_crc,
            "computed_crc": piece.computed_crc,
            "detail": piece.detail,
            **json_bytes("content", piece.content, force_base64=force_base64),
        }
        yield _line(json_text(line))
    else:
        fields = {"type": piece.type, **where, **piece.columns}
        template = ",".join(
            f'"{name}":' + ("%s" if name in piece.columns else json_text(value).replace("%", "%%"))
            for name, value in fields.items()
        )
        columns = [piece.columns[name] for name in fields if name in piece.columns]
        yield from _fill(f"{{{template}}}", columns, json_text)


def _fill(
    template: str, columns: Sequence[Sequence[Cell]], to_text: Callable[[Cell], str]
) -> Iterator[bytes]:
    """Yield lines: ``template`` filled with each row of ``columns``."""
    line = f"{template}\n"
    for start in range(0, len(columns[0]), _ROWS):
        text_columns = [
            [cell if isinstance(cell, int) else to_text(cell) for cell in column]
            for column in (column[start : start + _ROWS] for column in columns)
        ]
        cells = tuple(chain.from_iterable(zip(*text_columns, strict=True)))
        yield (line * len(text_columns[0]) % cells).encode()


def _text_cell(cell: Cell) -> str:
    return printable(cell) if isinstance(cell, str) else json_text(cell)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _line(text: str) -> bytes:
    return f"{text}\n".encode()
