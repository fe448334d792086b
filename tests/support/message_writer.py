"""Writes Kafka's generated messages by the tables that kdump reads them with; random values."""

from __future__ import annotations

import struct
from random import Random

from kdump.format.messages.reader import Field, Value, parse_uuid, uuid_text
from support.forge import uvarint

INTS = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
}


def write(field: Field, kind: str, value: object, version: int, flexible: bool) -> bytes:
    """The bytes of a value of ``kind``, which is the type of ``field`` or of its items."""
    if kind in INTS:
        return struct.pack(INTS[kind], value)
    if kind == "bool":
        return b"\x01" if value else b"\0"
    if kind == "uuid":
        return parse_uuid(str(value))
    if kind == "struct":
        tagged = version in field.tagged
        if value is None:
            return b"\0" if tagged else b"\xff"
        marker = b"\x01" if version in field.nullable and kind == field.type else b""
        assert isinstance(value, dict)
        return marker + write_fields(field.fields, value, version, flexible)
    content = b""
    if isinstance(value, list):
        content = b"".join(write(field, kind[2:], item, version, flexible) for item in value)
    elif isinstance(value, str):
        value = content = value.encode()
    elif isinstance(value, bytes):
        content = value
    length = -1 if value is None else len(value) if isinstance(value, (list, bytes)) else 0
    if flexible:
        return uvarint(length + 1) + content
    return struct.pack(">h" if kind == "string" else ">i", length) + content


def write_fields(
    fields: tuple[Field, ...], values: dict[str, Value], version: int, flexible: bool
) -> bytes:
    """The bytes of a message or a struct; a tagged field that has its default is left out."""
    here = [field for field in fields if version in field.versions]
    data = b"".join(
        write(field, field.type, values[field.name], version, flexible)
        for field in here
        if version not in field.tagged
    )
    if not flexible:
        return data
    tagged = [
        field
        for field in sorted(here, key=lambda field: field.tag)
        if version in field.tagged
        and (field.type == "struct" or values[field.name] != field.default)
    ]
    data += uvarint(len(tagged))
    for field in tagged:
        content = write(field, field.type, values[field.name], version, flexible)
        data += uvarint(field.tag) + uvarint(len(content)) + content
    return data


def random_values(rng: Random, fields: tuple[Field, ...], version: int) -> dict[str, Value]:
    """Values for all fields of a version: extremes, nulls, empty and odd texts among them."""
    return {
        field.name: _random_value(rng, field, version, field.type)
        for field in fields
        if version in field.versions
    }


def _random_value(rng: Random, field: Field, version: int, kind: str) -> Value:
    if version in field.nullable and kind == field.type and rng.random() < 0.2:
        return None
    own = kind == field.type and version in field.tagged and kind != "struct"
    if own and rng.random() < 0.3:
        return field.default
    if kind.startswith("[]"):
        return [_random_value(rng, field, version, kind[2:]) for _ in range(rng.randrange(3))]
    if kind == "struct":
        return dict(random_values(rng, field.fields, version))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice((-1, 1)) * rng.randrange(10**6) / 4 * 10.0 ** rng.randrange(-9, 30)
    if kind == "uuid":
        return uuid_text(rng.choice([bytes(16), rng.randbytes(16)]))
    if kind == "string":
        return "".join(rng.choices("aZ09._-/:\\\"'<&é€\U0001f600", k=rng.choice([0, 1, 9])))
    if kind == "bytes":
        return rng.randbytes(rng.choice([0, 1, 40]))
    bits = 8 * struct.calcsize(INTS[kind])
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    number: int = rng.choice([low, high, 0, 1, rng.randint(low, high)])
    return number
