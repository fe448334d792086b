"""The records of ``__transaction_state``.

Spec: the tables of the transaction coordinator in Kafka 2.8 to 4.4; before, ``TransactionLog`` had
the same bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kdump.format.messages.reader import Message, MessageCursor, Value, decode, parse_tables

_TABLES: Final = """
@ TransactionLogKey | 0 | 0 | -
  transactionalId string 0

@ TransactionLogValue | 0 | 0-1 | 1+
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


@cache
def messages() -> dict[str, Message]:
    """Return the messages by name; the tables are read when they are first asked for."""
    return parse_tables(_TABLES)


def decode_transaction(value: bytes | memoryview) -> dict[str, Value]:
    """Return the fields of a record's value in ``__transaction_state``. Raises DecodeError."""
    cursor = MessageCursor("transaction", memoryview(value), 0, len(value))
    version = cursor.number("int16")
    return decode(messages()["TransactionLogValue"], version, cursor.take(cursor.left))
