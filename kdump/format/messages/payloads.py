"""Keys and values of records in internal topics.

Spec: ``CoordinatorRecordSerde`` for the topics of coordinators: a key begins with its type, a value
with its version. ``MetadataRecordSerde`` for ``__cluster_metadata``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Final, Protocol

from kdump.errors import DecodeError
from kdump.format.messages import groups, shares, transactions
from kdump.format.messages.metadata import MetadataRecord, decode_metadata
from kdump.format.messages.reader import Message, MessageCursor, Value, decode, decode_layout
from kdump.format.messages.remote_logs import decode_remote_log
from kdump.values import frozen

REMOTE_LOG_TOPIC: Final = "__remote_log_metadata"

_LEGACY_COMMIT: Final = 0


class UnknownTypeError(DecodeError):
    """A key or a metadata record has a type without a table; ``type_id`` is its number."""

    def __init__(self, message: str, type_id: int) -> None:
        super().__init__(message)
        self.type_id = type_id


@frozen
class Payload:
    """A key or a value as a message. ``layout`` is the table that its bytes fit."""

    layout: Message
    version: int
    fields: Mapping[str, Value]


class PayloadDecoder(Protocol):
    """Decodes the records of an internal topic."""

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> tuple[Payload | None, Payload | None]:
        """Return the key and the value; None for a key that the topic has none of, or a tombstone.

        Raises DecodeError, UnknownTypeError.
        """


@frozen
class CoordinatorTopic:
    """A topic of a coordinator; ``keys`` and ``values`` are the messages of each type."""

    keys: Mapping[int, Message]
    values: Mapping[int, tuple[Message, ...]]

    @classmethod
    def of(cls, messages: Iterable[Message]) -> CoordinatorTopic:
        """Return the topic whose records have these messages."""
        keys: dict[int, Message] = {}
        values: dict[int, tuple[Message, ...]] = {}
        for message in messages:
            if message.type_id is None:
                continue
            if message.name.endswith("Key"):
                keys[message.type_id] = message
            else:
                values[message.type_id] = (message,)
        return cls(keys, values)

    def decode(self, key: bytes | None, value: bytes | None) -> tuple[Payload, Payload | None]:
        """Return the key and the value, None for a tombstone."""
        if key is None:
            raise DecodeError("expected a key, found null")
        cursor = MessageCursor("key", memoryview(key), 0, len(key))
        type_id = cursor.number("int16")
        message = self.keys.get(type_id)
        if message is None:
            raise UnknownTypeError(f"key: expected a known type, found {type_id}", type_id)
        version = message.versions[0]
        found = Payload(message, version, decode(message, version, cursor.take(cursor.left)))
        return found, None if value is None else self._value(type_id, value)

    def _value(self, type_id: int, value: bytes) -> Payload:
        cursor = MessageCursor("value", memoryview(value), 0, len(value))
        version = cursor.number("int16")
        candidates = self.values[type_id]
        message = next((each for each in candidates if version in each.versions), candidates[-1])
        layout, fields = decode_layout(message, version, cursor.take(cursor.left))
        return Payload(layout, version, fields)


@frozen
class FramedTopic:
    """A topic whose records have no keys, and values in the frame of ``__cluster_metadata``.

    ``read`` reads a value; ``label`` is what errors call a record.
    """

    label: str
    read: Callable[[bytes], MetadataRecord]

    def decode(self, key: bytes | None, value: bytes | None) -> tuple[None, Payload | None]:
        """Return None for the key, and the value."""
        if value is None:
            raise DecodeError(f"{self.label}: expected a value, found null")
        record = self.read(value)
        if record.message is None:
            raise UnknownTypeError(
                f"{self.label}: expected a known type, found {record.type_id}", record.type_id
            )
        if record.fields is None:
            raise DecodeError(
                f"{record.message.name}: expected a known version, found {record.version}"
            )
        return None, Payload(record.message, record.version, record.fields)


def _groups() -> CoordinatorTopic:
    messages = groups.messages()
    topic = CoordinatorTopic.of(messages.values())
    # Up to 4.0 keys of types 0 and 1 had the same values.
    commits = (messages["LegacyOffsetCommitValue"], messages["OffsetCommitValue"])
    return CoordinatorTopic(topic.keys, {**topic.values, _LEGACY_COMMIT: commits})


_TOPICS: Final[Mapping[str, Callable[[], PayloadDecoder]]] = {
    "__consumer_offsets": _groups,
    "__transaction_state": lambda: CoordinatorTopic.of(transactions.messages().values()),
    "__share_group_state": lambda: CoordinatorTopic.of(shares.messages().values()),
    "__cluster_metadata": lambda: FramedTopic(
        "metadata record", partial(decode_metadata, older=True)
    ),
    REMOTE_LOG_TOPIC: lambda: FramedTopic("remote log metadata", decode_remote_log),
}


#: The internal topics, whose records ``decoder_of`` decodes.
INTERNAL_TOPICS: Final = tuple(_TOPICS)


def decoder_of(topic: str | None) -> PayloadDecoder | None:
    """Return what decodes the records of ``topic``, None for a topic that is not internal."""
    return _decoder(topic) if topic in _TOPICS else None


@cache
def _decoder(topic: str) -> PayloadDecoder:
    return _TOPICS[topic]()
