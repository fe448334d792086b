"""What members of a classic group that consumes say of themselves, and what they are given.

Spec: ``ConsumerProtocol`` (KIP-429, KIP-792). A version above the newest known one is read as that.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kdump.format.messages.reader import Message, MessageCursor, Value, decode, parse_tables

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members have these bytes."""

_TABLES: Final = """
@ ConsumerProtocolSubscription | - | 0-3 | -
  topics []string 0+
  userData bytes 0+ null=0+ def=null
  ownedPartitions []struct 1+
    topic string 1+
    partitions []int32 1+
  generationId int32 2+ def=-1
  rackId string 3+ null=3+ def=null

@ ConsumerProtocolAssignment | - | 0-3 | -
  assignedPartitions []struct 0+
    topic string 0+
    partitions []int32 0+
  userData bytes 0+ null=0+ def=null
"""


@cache
def messages() -> dict[str, Message]:
    """Return the messages by name; the tables are read when they are first asked for."""
    return parse_tables(_TABLES)


def decode_protocol(message: Message, data: bytes) -> tuple[int, dict[str, Value]]:
    """Return the version and the fields of a subscription or an assignment. Raises DecodeError."""
    cursor = MessageCursor(message.name, memoryview(data), 0, len(data))
    version = min(cursor.number("int16"), message.versions[-1])
    return version, decode(message, version, cursor.take(cursor.left))
