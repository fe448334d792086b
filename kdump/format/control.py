"""Control records: transaction markers, leader changes, snapshot headers and footers.

Spec: ``ControlRecordType``, ``EndTransactionMarker`` (KIP-98), ``ControlRecordUtils`` (KIP-595,
KIP-630, KIP-853).
"""

from __future__ import annotations

import struct
from enum import IntEnum

from kdump.errors import DecodeError
from kdump.format.messages.reader import UNKNOWN_TAGS, Value, decode, parse_tables
from kdump.values import frozen


class ControlType(IntEnum):
    """The type of a control record, the second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_MESSAGES = parse_tables(
    """
@ LeaderChangeMessage | 2 | 0-1 | 0+
  version int16 0+
  leaderId int32 0+
  voters []struct 0+
    voterId int32 0+
    voterDirectoryId uuid 1+
  grantingVoters []struct 0+
    voterId int32 0+
    voterDirectoryId uuid 1+

@ SnapshotHeaderRecord | 3 | 0 | 0+
  version int16 0+
  lastContainedLogTimestamp int64 0+

@ SnapshotFooterRecord | 4 | 0 | 0+
  version int16 0+

@ KRaftVersionRecord | 5 | 0 | 0+
  version int16 0+
  kRaftVersion int16 0+

@ VotersRecord | 6 | 0 | 0+
  version int16 0+
  voters []struct 0+
    voterId int32 0+
    voterDirectoryId uuid 0+
    endpoints []struct 0+
      name string 0+
      host string 0+
      port uint16 0+
    kRaftVersionFeature struct 0+
      minSupportedVersion int16 0+
      maxSupportedVersion int16 0+
"""
)
_BY_TYPE = {message.type_id: message for message in _MESSAGES.values()}
_TYPE_IDS = frozenset(ControlType)
_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_MARKER = struct.Struct(">hi")


@frozen
class ControlRecord:
    """A control record. ``fields`` is None for a type or version without a table here.

    ``coordinator_epoch`` is the epoch of the transaction coordinator in a transaction marker, -1 in
    other records.
    """

    type_id: int
    version: int
    fields: dict[str, Value] | None
    coordinator_epoch: int = -1

    @property
    def type(self) -> ControlType | None:
        """The type, None for an unknown number, which consumers ignore."""
        return ControlType(self.type_id) if self.type_id in _TYPE_IDS else None


def control_type_id(key: bytes | memoryview | None) -> int:
    """Return the type number in the key of a control record. Raises DecodeError."""
    if key is None or len(key) < _KEY.size:
        found = "null" if key is None else f"{len(key)} bytes"
        raise DecodeError(f"control record key: expected {_KEY.size} bytes, found {found}")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"control record key: expected version 0 or above, found {version}")
    return int(type_id)


def decode_control(
    key: bytes | memoryview | None, value: bytes | memoryview | None
) -> ControlRecord:
    """Read one record of a control batch. Raises DecodeError.

    Of a marker of a newer version only the fields of version 0 are read, as brokers do.
    """
    type_id = control_type_id(key)
    if value is None or len(value) < _VERSION.size:
        found = "null" if value is None else f"{len(value)} bytes"
        raise DecodeError(f"control record of type {type_id}: expected a version, found {found}")
    version = int(_VERSION.unpack_from(value)[0])
    if version < 0:
        raise DecodeError(
            f"control record of type {type_id}: expected version 0 or above, found {version}"
        )
    if type_id in (ControlType.ABORT, ControlType.COMMIT):
        if len(value) < _MARKER.size or (version == 0 and len(value) > _MARKER.size):
            raise DecodeError(
                f"transaction marker: expected {_MARKER.size} bytes, found {len(value)}"
            )
        epoch = int(_MARKER.unpack_from(value)[1])
        return ControlRecord(type_id, version, {"coordinatorEpoch": epoch}, epoch)
    message = _BY_TYPE.get(type_id)
    if message is None or version not in message.versions:
        return ControlRecord(type_id, version, None)
    return ControlRecord(type_id, version, decode(message, version, value))


def control_json(record: ControlRecord) -> Value:
    """Return the fields as Kafka's dump tool prints them in JSON, with its names and order.

    Like that tool, leave out unknown tags. Return None if ``fields`` is None.
    """
    return None if record.fields is None else _without_tags(record.fields)


def _without_tags(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _without_tags(item) for name, item in value.items() if name != UNKNOWN_TAGS}
    if isinstance(value, list):
        return [_without_tags(item) for item in value]
    return value


def encode_end_txn_marker(*, commit: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Return the key and the value of the marker that commits or aborts a transaction."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return _KEY.pack(0, kind), _MARKER.pack(0, coordinator_epoch)
