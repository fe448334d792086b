"""Kafka's generated messages, read by tables of their fields.

Spec: ``MessageDataGenerator`` (KIP-482 for flexible versions).

A table is text: a line for the message, then one for each field in wire order::

    @ Name | type | versions | flexible versions
      field type versions [null=versions] [tag=number/versions] [def=default]

``versions`` are ``0``, ``0-2``, ``1+`` or ``-`` (none). ``type`` in the line of the message is its
number in a frame or a key, or ``-`` for a message without a number. ``[]x`` is an array of x. The
fields of ``struct`` and ``[]struct`` are indented below them. Names are those of Kafka's JSON.

Structs that occur several times stand before the messages, as ``= Name`` with their fields below.
Their names are types of fields.

Some releases wrote other fields under a version number. Such a layout follows its message, newest
first, as ``~ Name | releases | versions | flexible versions``. Where it only lacks some of the
message's fields, ``without`` names them; without any line it has the same ones.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from kdump.errors import DecodeError
from kdump.values import frozen

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"

UNKNOWN_TAGS = "_unknownTaggedFields"
"""The key of tags that are not in the table: a list of ``{"tag": int, "data": bytes}``."""

_FOREVER = 2**15
_NUMBERS = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "float64": struct.Struct(">d"),
}
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)


# --- tables


@frozen
class Field:
    """One field of a message; ranges are ranges of message versions."""

    name: str
    type: str
    versions: range
    nullable: range
    tag: int
    tagged: range
    default: Value
    fields: tuple[Field, ...]


@frozen
class Message:
    """One message of a table; ``type_id`` is its number in a frame or a key, None without one.

    ``older`` are the layouts that certain ``releases`` wrote under the same version numbers.
    """

    name: str
    type_id: int | None
    versions: range
    flexible: range
    fields: tuple[Field, ...]
    older: tuple[Message, ...] = ()
    releases: str = ""


def parse_tables(text: str) -> dict[str, Message]:
    """Return the messages of a table text by name."""
    structs: dict[str, tuple[Field, ...]] = {}
    messages: dict[str, Message] = {}
    shared, *sections = text.split("@ ")
    for struct_text in shared.split("= ")[1:]:
        name, *lines = _lines(struct_text)
        structs[name] = _parse_fields(lines, structs)
    for section in sections:
        first, *further = section.split("~ ")
        number, newest = _parse_layout(first, (), structs)
        newest = replace(newest, type_id=None if number == "-" else int(number))
        older = (_parse_layout(each, newest.fields, structs) for each in further)
        messages[newest.name] = replace(
            newest,
            older=tuple(
                replace(layout, type_id=newest.type_id, releases=releases)
                for releases, layout in older
            ),
        )
    return messages


def _lines(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.strip()]


def _parse_layout(
    section: str, newest: tuple[Field, ...], structs: Mapping[str, tuple[Field, ...]]
) -> tuple[str, Message]:
    """Return the second column of the first line, and the layout."""
    head, *lines = _lines(section)
    name, second, versions, flexible = (part.strip() for part in head.split("|"))
    word, *left_out = lines[0].split() if lines else ["without"]
    if word == "without":
        fields = tuple(field for field in newest if field.name not in left_out)
    else:
        fields = _parse_fields(lines, structs)
    return second, Message(name, None, _versions(versions), _versions(flexible), fields)


def _versions(text: str) -> range:
    if text == "-":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _FOREVER)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _parse_fields(lines: list[str], structs: Mapping[str, tuple[Field, ...]]) -> tuple[Field, ...]:
    fields: list[Field] = []
    depths = [len(line) - len(line.lstrip()) for line in lines]
    for number, line in enumerate(lines):
        if depths[number] > depths[0]:
            continue  # belongs to a struct above
        end = number + 1
        while end < len(lines) and depths[end] > depths[0]:
            end += 1
        name, kind, versions, *options = line.split()
        option = dict(part.split("=", 1) for part in options)
        tag, _, tagged = option.get("tag", "-1/-").partition("/")
        inner = _parse_fields(lines[number + 1 : end], structs)
        shared = kind.removeprefix("[]")
        if shared in structs:
            kind, inner = kind.replace(shared, "struct"), structs[shared]
        fields.append(
            Field(
                name,
                kind,
                _versions(versions),
                _versions(option.get("null", "-")),
                int(tag),
                _versions(tagged),
                _default(kind, option.get("def")),
                inner,
            )
        )
    return tuple(fields)


def _default(kind: str, text: str | None) -> Value:
    if text == "null":
        return None
    if kind == "bool":
        return text == "true"
    if kind in _NUMBERS:
        return int(text or 0)
    if kind == "uuid":
        return uuid_text(bytes(16))
    return text or "" if kind == "string" else b"" if kind == "bytes" else []


# --- reading


class TrailingBytesError(DecodeError):
    """Bytes are left behind the fields of a message, where brokers read on."""


def decode(message: Message, version: int, data: bytes | memoryview) -> dict[str, Value]:
    """Return the fields of ``data`` by name, in the order of the table.

    Absent tagged fields have their default; a tagged struct is left out, since releases differ in
    its default. Fields of other versions are left out. Unknown tags are under ``UNKNOWN_TAGS`` of
    their struct. Bytes that are not UTF-8 are replaced, as by brokers. Raises DecodeError.
    """
    if version not in message.versions:
        raise DecodeError(
            f"{message.name} has version {version},"
            f" expected {message.versions[0]} to {message.versions[-1]}"
        )
    cursor = MessageCursor(message.name, memoryview(data), 0, len(data))
    values = _read_fields(cursor, message.fields, version, version in message.flexible)
    if cursor.left:
        more = cursor.error(f"expected the end, found {cursor.left} bytes more")
        raise TrailingBytesError(str(more))
    return values


def decode_layout(
    message: Message, version: int, data: bytes | memoryview
) -> tuple[Message, dict[str, Value]]:
    """Return the layout that ``data`` has, and its fields, as ``decode`` does.

    The newest layout is tried first, then older ones of the same version. A layout fits if it ends
    where the data ends. Raises DecodeError, that of the newest, if none fits.
    """
    try:
        return message, decode(message, version, data)
    except DecodeError:
        for layout in message.older:
            if version in layout.versions:
                with suppress(DecodeError):
                    return layout, decode(layout, version, data)
        raise


def uuid_text(data: bytes | memoryview) -> str:
    """Return Kafka's text of a uuid of 16 bytes: 22 characters of url-safe base64, unpadded."""
    return base64.urlsafe_b64encode(data)[:22].decode("ascii")


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a uuid text, which may be padded, as in Kafka. Raises DecodeError."""
    if not _UUID_TEXT.fullmatch(text):
        raise DecodeError(f"expected a uuid of 22 base64 characters, found {text[:40]!r}")
    return base64.urlsafe_b64decode(text[:22] + "==")


class MessageCursor:
    """A position in the bytes of a message or a tagged field."""

    __slots__ = ("data", "end", "label", "position")

    def __init__(self, label: str, data: memoryview, position: int, end: int) -> None:
        self.label = label
        self.data = data
        self.position = position
        self.end = end

    @property
    def left(self) -> int:
        """The bytes that are left."""
        return self.end - self.position

    def error(self, what: str) -> DecodeError:
        """Return an error at this position."""
        return DecodeError(f"{self.label} at byte {self.position}: {what}")

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises DecodeError if fewer are left."""
        if size > self.left:
            raise self.error(f"expected {size} bytes, found {self.left}")
        start = self.position
        self.position += size
        return bytes(self.data[start : self.position])

    def number(self, kind: str) -> int:
        """Return the next number, of a type such as ``int16``. Raises DecodeError."""
        layout = _NUMBERS[kind]
        number: int = layout.unpack(self.take(layout.size))[0]
        return number

    def uvarint(self) -> int:
        """Return the next unsigned varint. Raises DecodeError."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise self.error("expected an unsigned varint of up to 5 bytes, found a longer varint")

    def length(self, kind: str, flexible: bool) -> int:
        """Return a length or count, -1 for null. Raises DecodeError if the bytes left are fewer."""
        length = self.uvarint() - 1 if flexible else self.number(kind)
        if not -1 <= length <= self.left:
            raise self.error(f"expected a length up to {self.left}, found {length}")
        return length


def _read_fields(
    cursor: MessageCursor, fields: tuple[Field, ...], version: int, flexible: bool
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if version in field.tagged:
            tagged[field.tag] = field
            if field.type != "struct":
                values[field.name] = [] if isinstance(field.default, list) else field.default
        elif version in field.versions:
            values[field.name] = _read_value(cursor, field, version, flexible)
    if flexible:
        _read_tags(cursor, tagged, version, values)
    return values


def _read_tags(
    cursor: MessageCursor, tagged: dict[int, Field], version: int, values: dict[str, Value]
) -> None:
    unknown: list[Value] = []
    previous = -1
    for _ in range(cursor.uvarint()):
        tag = cursor.uvarint()
        if tag <= previous:
            raise cursor.error(f"expected a tag above {previous}, found {tag}")
        previous = tag
        size = cursor.uvarint()
        start = cursor.position
        content = cursor.take(size)
        if tag not in tagged:
            unknown.append({"tag": tag, "data": content})
            continue
        inner = MessageCursor(cursor.label, cursor.data, start, cursor.position)
        values[tagged[tag].name] = _read_value(inner, tagged[tag], version, flexible=True)
        if inner.left:
            raise inner.error(f"expected the end of tag {tag}, found {inner.left} bytes more")
    if unknown:
        values[UNKNOWN_TAGS] = unknown


def _read_value(cursor: MessageCursor, field: Field, version: int, flexible: bool) -> Value:
    value: Value
    if field.type.startswith("[]"):
        count = cursor.length("int32", flexible)
        kind = field.type[2:]
        value = None
        if count >= 0:
            value = [_read_item(cursor, kind, field, version, flexible) for _ in range(count)]
    elif field.type == "struct" and version in field.nullable and _is_null(cursor, field, version):
        return None
    else:
        value = _read_item(cursor, field.type, field, version, flexible)
    if value is None and version not in field.nullable:
        raise cursor.error(f"expected {field.name}, found null")
    return value


def _is_null(cursor: MessageCursor, field: Field, version: int) -> bool:
    """Read whether a struct is null: a tagged one has an unsigned varint for it, others a byte."""
    return cursor.uvarint() == 0 if version in field.tagged else cursor.number("int8") < 0


def _read_item(
    cursor: MessageCursor, kind: str, field: Field, version: int, flexible: bool
) -> Value:
    """Read one value of type ``kind``: that of ``field``, or an item of its array."""
    if kind in _NUMBERS:
        return cursor.number(kind)
    if kind == "bool":
        return cursor.take(1) != b"\0"
    if kind == "uuid":
        return uuid_text(cursor.take(16))
    if kind == "struct":
        return _read_fields(cursor, field.fields, version, flexible)
    length = cursor.length("int16" if kind == "string" else "int32", flexible)
    if length < 0:
        return None
    content = cursor.take(length)
    return content if kind == "bytes" else content.decode("utf-8", "replace")
