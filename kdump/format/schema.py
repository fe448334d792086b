"""Kafka's generated messages, read by tables of their fields; the tables of metadata records.

Spec: ``MessageDataGenerator`` (KIP-482 for flexible versions); ``MetadataRecordSerde`` for the
frame, ``TransactionLog``.

A table is text: a line for the message, then one for each field in wire order::

    @ Name | type | versions | flexible versions
      field type versions [null=versions] [tag=number/versions] [def=default]

``versions`` are ``0``, ``0-2``, ``1+`` or ``-`` (none). ``type`` in the line of the message is its
number in a frame, or ``-`` for a message without a frame. ``[]x`` is an array of x. The fields of
``struct`` and ``[]struct`` are indented below them. Names are those of Kafka's JSON.
"""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass
from typing import TypeAlias

from kdump.errors import DecodeError

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a table; ``type_id`` is its number in a frame, None without a frame."""

    name: str
    type_id: int | None
    versions: range
    flexible: range
    fields: tuple[Field, ...]


def parse_tables(text: str) -> dict[str, Message]:
    """Return the messages of a table text by name."""
    messages: dict[str, Message] = {}
    for section in text.split("@ ")[1:]:
        head, *lines = [line for line in section.splitlines() if line.strip()]
        name, type_id, versions, flexible = (part.strip() for part in head.split("|"))
        messages[name] = Message(
            name,
            None if type_id == "-" else int(type_id),
            _versions(versions),
            _versions(flexible),
            _parse_fields(lines),
        )
    return messages


def _versions(text: str) -> range:
    if text == "-":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _FOREVER)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _parse_fields(lines: list[str]) -> tuple[Field, ...]:
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
        fields.append(
            Field(
                name,
                kind,
                _versions(versions),
                _versions(option.get("null", "-")),
                int(tag),
                _versions(tagged),
                _default(kind, option.get("def")),
                _parse_fields(lines[number + 1 : end]),
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


def decode(message: Message, version: int, data: bytes | memoryview) -> dict[str, Value]:
    """Return the fields of ``data`` by name, in the order of the table.

    Absent tagged fields have their default. Fields of other versions are left out. Unknown tags are
    under ``UNKNOWN_TAGS`` of their struct. Raises DecodeError.
    """
    if version not in message.versions:
        raise DecodeError(
            f"{message.name} has version {version},"
            f" expected {message.versions[0]} to {message.versions[-1]}"
        )
    cursor = _Cursor(message.name, memoryview(data), 0, len(data))
    values = _read_fields(cursor, message.fields, version, version in message.flexible)
    if cursor.left:
        raise cursor.error(f"expected the end, found {cursor.left} bytes more")
    return values


def uuid_text(data: bytes | memoryview) -> str:
    """Return Kafka's text of a uuid of 16 bytes: 22 characters of url-safe base64, unpadded."""
    return base64.urlsafe_b64encode(data)[:22].decode("ascii")


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a uuid text, which may be padded, as in Kafka. Raises DecodeError."""
    if not _UUID_TEXT.fullmatch(text):
        raise DecodeError(f"expected a uuid of 22 base64 characters, found {text[:40]!r}")
    return base64.urlsafe_b64decode(text[:22] + "==")


class _Cursor:
    """A position in the bytes of a message or a tagged field."""

    __slots__ = ("data", "end", "label", "position")

    def __init__(self, label: str, data: memoryview, position: int, end: int) -> None:
        self.label = label
        self.data = data
        self.position = position
        self.end = end

    @property
    def left(self) -> int:
        return self.end - self.position

    def error(self, what: str) -> DecodeError:
        return DecodeError(f"{self.label} at byte {self.position}: {what}")

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise self.error(f"expected {size} bytes, found {self.left}")
        start = self.position
        self.position += size
        return bytes(self.data[start : self.position])

    def number(self, kind: str) -> int:
        layout = _NUMBERS[kind]
        number: int = layout.unpack(self.take(layout.size))[0]
        return number

    def uvarint(self) -> int:
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
    cursor: _Cursor, fields: tuple[Field, ...], version: int, flexible: bool
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if version in field.tagged:
            tagged[field.tag] = field
            values[field.name] = [] if isinstance(field.default, list) else field.default
        elif version in field.versions:
            values[field.name] = _read_value(cursor, field, version, flexible)
    if flexible:
        _read_tags(cursor, tagged, version, values)
    return values


def _read_tags(
    cursor: _Cursor, tagged: dict[int, Field], version: int, values: dict[str, Value]
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
        inner = _Cursor(cursor.label, cursor.data, start, cursor.position)
        values[tagged[tag].name] = _read_value(inner, tagged[tag], version, flexible=True)
        if inner.left:
            raise inner.error(f"expected the end of tag {tag}, found {inner.left} bytes more")
    if unknown:
        values[UNKNOWN_TAGS] = unknown


def _read_value(cursor: _Cursor, field: Field, version: int, flexible: bool) -> Value:
    value: Value
    if field.type.startswith("[]"):
        count = cursor.length("int32", flexible)
        kind = field.type[2:]
        value = None
        if count >= 0:
            value = [_read_item(cursor, kind, field, version, flexible) for _ in range(count)]
    elif field.type == "struct" and version in field.nullable and cursor.number("int8") < 0:
        return None
    else:
        value = _read_item(cursor, field.type, field, version, flexible)
    if value is None and version not in field.nullable:
        raise cursor.error(f"expected {field.name}, found null")
    return value


def _read_item(cursor: _Cursor, kind: str, field: Field, version: int, flexible: bool) -> Value:
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
    if kind == "bytes":
        return content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise cursor.error(f"expected UTF-8 in {field.name}: {error.reason}") from error


# --- __cluster_metadata

_METADATA = parse_tables(
    """
@ TopicRecord | 2 | 0 | 0+
  name string 0+
  topicId uuid 0+

@ PartitionRecord | 3 | 0-2 | 0+
  partitionId int32 0+ def=-1
  topicId uuid 0+
  replicas []int32 0+
  isr []int32 0+
  removingReplicas []int32 0+
  addingReplicas []int32 0+
  leader int32 0+ def=-1
  leaderRecoveryState int8 0+ tag=0/0+ def=0
  leaderEpoch int32 0+ def=-1
  partitionEpoch int32 0+ def=-1
  directories []uuid 1+
  eligibleLeaderReplicas []int32 2+ null=2+ tag=1/2+ def=null
  lastKnownElr []int32 2+ null=2+ tag=2/2+ def=null

@ ConfigRecord | 4 | 0 | 0+
  resourceType int8 0+
  resourceName string 0+
  name string 0+
  value string 0+ null=0+

@ PartitionChangeRecord | 5 | 0-2 | 0+
  partitionId int32 0+ def=-1
  topicId uuid 0+
  isr []int32 0+ null=0+ tag=0/0+ def=null
  leader int32 0+ tag=1/0+ def=-2
  replicas []int32 0+ null=0+ tag=2/0+ def=null
  removingReplicas []int32 0+ null=0+ tag=3/0+ def=null
  addingReplicas []int32 0+ null=0+ tag=4/0+ def=null
  leaderRecoveryState int8 0+ tag=5/0+ def=-1
  directories []uuid 1+ null=1+ tag=8/1+ def=null
  eligibleLeaderReplicas []int32 2+ null=2+ tag=6/2+ def=null
  lastKnownElr []int32 2+ null=2+ tag=7/2+ def=null

@ RemoveTopicRecord | 9 | 0 | 0+
  topicId uuid 0+

@ FeatureLevelRecord | 12 | 0 | 0+
  name string 0+
  featureLevel int16 0+

@ BeginTransactionRecord | 23 | 0 | 0+
  name string 0+ null=0+ tag=0/0+ def=null

@ EndTransactionRecord | 24 | 0 | 0+

@ AbortTransactionRecord | 25 | 0 | 0+
  reason string 0+ null=0+ tag=0/0+ def=null
"""
)
_METADATA_TYPES = {message.type_id: message for message in _METADATA.values()}
_FRAME_VERSION = 1


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """The value of a data record in ``__cluster_metadata-0`` and its snapshots.

    ``name`` is None for a type without a table here, ``fields`` is None for a type or version
    without one. ``body`` is the bytes of the message.
    """

    type_id: int
    version: int
    name: str | None
    fields: dict[str, Value] | None
    body: bytes


def decode_metadata(value: bytes | memoryview) -> MetadataRecord:
    """Read the frame of a metadata record and the message in it. Raises DecodeError."""
    cursor = _Cursor("metadata record", memoryview(value), 0, len(value))
    frame_version = cursor.uvarint()
    if frame_version != _FRAME_VERSION:
        raise cursor.error(f"expected frame version {_FRAME_VERSION}, found {frame_version}")
    type_id = cursor.uvarint()
    version = cursor.uvarint()
    body = cursor.take(cursor.left)
    message = _METADATA_TYPES.get(type_id)
    if message is None:
        return MetadataRecord(type_id, version, None, None, body)
    if version not in message.versions:
        return MetadataRecord(type_id, version, message.name, None, body)
    return MetadataRecord(type_id, version, message.name, decode(message, version, body), body)


# --- __transaction_state

_TRANSACTION = parse_tables(
    """
@ TransactionLogValue | - | 0-1 | 1+
  producerId int64 0+
  previousProducerId int64 1+ tag=0/1+ def=-1
  nextProducerId int64 1+ tag=1/1+ def=-1
  producerEpoch int16 0+
  nextProducerEpoch int16 1+ tag=3/1+ def=-1
  transactionTimeoutMs int32 0+
  transactionStatus int8 0+
  transactionPartitions []struct 0+ null=0+
    topic string 0+
    partitionIds []int32 0+
  transactionLastUpdateTimestampMs int64 0+
  transactionStartTimestampMs int64 0+
  clientTransactionVersion int16 1+ tag=2/1+ def=0
"""
)["TransactionLogValue"]


def decode_transaction(value: bytes | memoryview) -> dict[str, Value]:
    """Return the fields of a record's value in ``__transaction_state``. Raises DecodeError."""
    cursor = _Cursor("transaction", memoryview(value), 0, len(value))
    version = cursor.number("int16")
    return decode(_TRANSACTION, version, cursor.take(cursor.left))
