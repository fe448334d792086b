"""The records of ``__share_group_state``: how far share groups have acknowledged.

Spec: ``CoordinatorRecordType`` of the share coordinator in Kafka 4.0 to 4.4 (KIP-932).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kdump.format.messages.reader import Message, parse_tables

_TABLES: Final = """
= StateBatch
  firstOffset int64 0+
  lastOffset int64 0+
  deliveryState int8 0+
  deliveryCount int16 0+

@ ShareSnapshotKey | 0 | 0 | -
  groupId string 0
  topicId uuid 0
  partition int32 0

@ ShareSnapshotValue | 0 | 0 | 0+
  snapshotEpoch int32 0+
  stateEpoch int32 0+
  leaderEpoch int32 0+
  startOffset int64 0+
  deliveryCompleteCount int32 0+ tag=0/0+ def=-1
  createTimestamp int64 0+
  writeTimestamp int64 0+
  stateBatches []StateBatch 0+

~ ShareSnapshotValue | 4.0 | 0 | 0+
  snapshotEpoch uint16 0+
  stateEpoch int32 0+
  leaderEpoch int32 0+
  startOffset int64 0+
  stateBatches []StateBatch 0+

@ ShareUpdateKey | 1 | 0 | -
  groupId string 0
  topicId uuid 0
  partition int32 0

@ ShareUpdateValue | 1 | 0 | 0+
  snapshotEpoch int32 0+
  leaderEpoch int32 0+
  startOffset int64 0+
  deliveryCompleteCount int32 0+ tag=0/0+ def=-1
  stateBatches []StateBatch 0+

~ ShareUpdateValue | 4.0 | 0 | 0+
  snapshotEpoch uint16 0+
  leaderEpoch int32 0+
  startOffset int64 0+
  stateBatches []StateBatch 0+
"""


@cache
def messages() -> dict[str, Message]:
    """Return the messages by name; the tables are read when they are first asked for."""
    return parse_tables(_TABLES)
