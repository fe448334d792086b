"""The records of ``__remote_log_metadata``: tiered segments, and partitions deleted there.

Spec: ``RemoteLogMetadataSerde`` (KIP-405), whose frame is that of ``__cluster_metadata``; the
tables of ``MetadataRecordType`` of the storage module in Kafka 3.0 to 4.4. Texts are those of
``toString`` of ``RemoteLogMetadata`` and its kinds, which Kafka's dump tool prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kdump.errors import DecodeError
from kdump.format.messages.metadata import MetadataRecord, decode_framed
from kdump.format.messages.reader import Message, parse_tables

_TABLES: Final = """
= TopicIdPartitionEntry
  name string 0+
  id uuid 0+
  partition int32 0+

= RemoteLogSegmentIdEntry
  topicIdPartition TopicIdPartitionEntry 0+
  id uuid 0+

= SegmentLeaderEpochEntry
  leaderEpoch int32 0+
  offset int64 0+

@ RemoteLogSegmentMetadataRecord | 0 | 0 | 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry 0+
  startOffset int64 0+
  endOffset int64 0+
  brokerId int32 0+
  maxTimestampMs int64 0+
  eventTimestampMs int64 0+
  segmentLeaderEpochs []SegmentLeaderEpochEntry 0+
  segmentSizeInBytes int32 0+
  customMetadata bytes 0+ null=0+ def=null
  remoteLogSegmentState int8 0+
  txnIndexEmpty bool 0+ tag=0/0+

~ RemoteLogSegmentMetadataRecord | 3.0-3.5 | 0 | 0+
  without customMetadata txnIndexEmpty

@ RemoteLogSegmentMetadataUpdateRecord | 1 | 0 | 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry 0+
  brokerId int32 0+
  eventTimestampMs int64 0+
  customMetadata bytes 0+ null=0+ def=null
  remoteLogSegmentState int8 0+

~ RemoteLogSegmentMetadataUpdateRecord | 3.0-3.5 | 0 | 0+
  without customMetadata

@ RemotePartitionDeleteMetadataRecord | 2 | 0 | 0+
  topicIdPartition TopicIdPartitionEntry 0+
  brokerId int32 0+
  eventTimestampMs int64 0+
  remotePartitionDeleteState int8 0+

@ RemoteLogSegmentMetadataSnapshotRecord | 3 | 0 | 0+
  segmentId uuid 0+
  startOffset int64 0+
  endOffset int64 0+
  brokerId int32 0+
  maxTimestampMs int64 0+
  eventTimestampMs int64 0+
  segmentLeaderEpochs []SegmentLeaderEpochEntry 0+
  segmentSizeInBytes int32 0+
  customMetadata bytes 0+ null=0+ def=null
  remoteLogSegmentState int8 0+
  txnIndexEmpty bool 0+ tag=0/0+

~ RemoteLogSegmentMetadataSnapshotRecord | 3.1-3.5 | 0 | 0+
  without customMetadata txnIndexEmpty
"""
SEGMENT_STATES: Final = {
    0: "COPY_SEGMENT_STARTED", 1: "COPY_SEGMENT_FINISHED", 2: "DELETE_SEGMENT_STARTED",
    3: "DELETE_SEGMENT_FINISHED",
}  # fmt: skip
DELETE_STATES: Final = {
    0: "DELETE_PARTITION_MARKED", 1: "DELETE_PARTITION_STARTED", 2: "DELETE_PARTITION_FINISHED",
}  # fmt: skip


#: The parts of each text, in order.
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "RemoteLogSegmentMetadata": (
        "remoteLogSegmentId", "startOffset", "endOffset", "brokerId", "maxTimestampMs",
        "eventTimestampMs", "segmentLeaderEpochs", "segmentSizeInBytes", "customMetadata", "state",
        "txnIdxEmpty",
    ),
    "RemoteLogSegmentMetadataUpdate": (
        "remoteLogSegmentId", "customMetadata", "state", "eventTimestampMs", "brokerId",
    ),
    "RemotePartitionDeleteMetadata": ("topicPartition", "state", "eventTimestampMs", "brokerId"),
    "RemoteLogSegmentMetadataSnapshot": (
        "segmentId", "startOffset", "endOffset", "maxTimestampMs", "segmentLeaderEpochs",
        "segmentSizeInBytes", "customMetadata", "state", "txnIdxEmpty",
    ),
}  # fmt: skip


@cache
def messages() -> dict[str, Message]:
    """Return the messages by name; the tables are read when they are first asked for."""
    return parse_tables(_TABLES)


def decode_remote_log(value: bytes) -> MetadataRecord:
    """Read the frame of a record and the message in it. Raises DecodeError."""
    by_type = {message.type_id: message for message in messages().values()}
    return decode_framed("remote log metadata", by_type, value, older=True)


def remote_log_text(name: str, fields: Mapping[str, Any]) -> str:
    """Return the text of a message called ``name``. Raises DecodeError where Kafka refuses it."""
    custom = fields.get("customMetadata")
    parts = {
        "remoteLogSegmentId": _segment_id(fields),
        "segmentId": fields.get("segmentId"),
        "topicPartition": _partition(fields.get("topicIdPartition")),
        "startOffset": fields.get("startOffset"),
        "endOffset": fields.get("endOffset"),
        "brokerId": fields["brokerId"],
        "maxTimestampMs": fields.get("maxTimestampMs"),
        "eventTimestampMs": fields["eventTimestampMs"],
        "segmentLeaderEpochs": _epochs(fields.get("segmentLeaderEpochs")),
        "segmentSizeInBytes": fields.get("segmentSizeInBytes"),
        "customMetadata": "Optional.empty"
        if custom is None
        else f"Optional[CustomMetadata{{{len(custom)} bytes}}]",
        "state": _state(fields),
        "txnIdxEmpty": str(fields.get("txnIndexEmpty", False)).lower(),
    }
    kind = name.removesuffix("Record")
    shown = ", ".join(f"{part}={parts[part]}" for part in _PARTS[kind])
    return f"{kind}{{{shown}}}"


def _segment_id(fields: Mapping[str, Any]) -> str | None:
    entry = fields.get("remoteLogSegmentId")
    if entry is None:
        return None
    place = _partition(entry["topicIdPartition"])
    return f"RemoteLogSegmentId{{topicIdPartition={place}, id={entry['id']}}}"


def _partition(entry: Mapping[str, Any] | None) -> str | None:
    return None if entry is None else f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _epochs(entries: list[dict[str, Any]] | None) -> str | None:
    if entries is None:
        return None
    if not entries:
        raise DecodeError("expected segmentLeaderEpochs, found none")
    offsets = {entry["leaderEpoch"]: entry["offset"] for entry in entries}
    shown = ", ".join(f"{epoch}={offset}" for epoch, offset in sorted(offsets.items()))
    return f"{{{shown}}}"


def _state(fields: Mapping[str, Any]) -> str:
    names = SEGMENT_STATES
    number = fields.get("remoteLogSegmentState")
    if number is None:
        names, number = DELETE_STATES, fields["remotePartitionDeleteState"]
    if number not in names:
        raise DecodeError(f"expected a known state, found {number}")
    return names[number]
