"""Entries of a file without batches, and their lines.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.3.1 for the text of the files that it reads; the
lines of the others are made like them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from kdump.format.lines.text import json_bytes, json_text, printable

Cell = int | str | tuple[int, ...] | None

#: How many entries become lines at once.
_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class Entries:
    """Neighbouring entries of one type.

    ``columns`` has the fields by name, each as long as there are entries; ``type`` is that of the
    JSON lines. ``lines`` is the text where that is more than the names and values.
    """

    type: str
    columns: Mapping[str, Sequence[Cell]]
    lines: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True, slots=True)
class ZeroSlots:
    """The slots at the end of a preallocated index that hold nothing yet; ``size`` in bytes."""

    position: int
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class FileDamage:
    """Bytes that are not what the file should hold there, and why not.

    ``content`` is the bytes themselves, where they are shown nowhere else. The checksums are for
    bytes that do not match theirs.
    """

    reason: str
    position: int
    size: int
    detail: str | None = None
    content: bytes | None = None
    stored_crc: int | None = None
    computed_crc: int | None = None


Piece = Entries | ZeroSlots | FileDamage
"""What a file is made of, in its order."""


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
        yield from _filled(template, list(piece.columns.values()), _text_cell)


def json_lines(piece: Piece, where: Mapping[str, object], *, force_base64: bool) -> Iterator[bytes]:
    """Yield ``piece`` as JSON, many lines at a time; ``where`` is what all lines of a file have."""
    if isinstance(piece, ZeroSlots):
        place = {"position": piece.position, "size": piece.size}
        yield _line(json_text({"type": "zero-slots", **where, **place, "count": piece.count}))
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
        yield from _filled(f"{{{template}}}", columns, json_text)


def _filled(
    template: str, columns: Sequence[Sequence[Cell]], spelled: Callable[[Cell], str]
) -> Iterator[bytes]:
    """Yield ``template``, a line, filled with each row of ``columns``."""
    line = f"{template}\n"
    for start in range(0, len(columns[0]), _ROWS):
        spelled_columns = [
            [cell if isinstance(cell, int) else spelled(cell) for cell in column]
            for column in (column[start : start + _ROWS] for column in columns)
        ]
        cells = tuple(chain.from_iterable(zip(*spelled_columns, strict=True)))
        yield (line * len(spelled_columns[0]) % cells).encode()


def _text_cell(cell: Cell) -> str:
    return printable(cell) if isinstance(cell, str) else json_text(cell)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _line(text: str) -> bytes:
    return f"{text}\n".encode()
