"""Decoded keys and values, as Kafka's tools print them and as JSON.

Spec: ``DumpLogSegments`` 4.4.0 with its decoders, ``JsonConverterGenerator``, and
``MetadataJsonConverters``. Secrets are left out, which Kafka's tool prints.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kdump.errors import DecodeError
from kdump.format.messages import consumer_protocol
from kdump.format.messages.consumer_protocol import PROTOCOL_TYPE, decode_protocol
from kdump.format.messages.payloads import Payload
from kdump.format.messages.reader import UNKNOWN_TAGS, Field, Value
from kdump.format.messages.remote_logs import DELETE_STATES, SEGMENT_STATES, remote_log_text

REDACTED: Final = "redacted"
_SECRETS: Final[Mapping[str, frozenset[str]]] = {
    "UserScramCredentialRecord": frozenset(
        {"salt", "storedKey", "serverKey", "saltedPassword", "credentialInfos"}
    ),
}
#: The ends of the names of settings whose type in Kafka is PASSWORD.
_SECRET_SETTING: Final = re.compile(
    r"(?:password|secret|passphrase|jaas\.config|secret\.key|keystore\.key"
    r"|certificate\.chain|truststore\.certificates)$"
)
_OF_MEMBERS: Final = {
    "subscription": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
}
_MEMBER_STATES: Final = {
    0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS", 127: "UNKNOWN",
}  # fmt: skip
_STREAMS_STATES: Final = {
    1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS", 127: "UNKNOWN",
}  # fmt: skip
_DELIVERY_STATES: Final = {
    0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 3: "ARCHIVING", 4: "ARCHIVED",
}  # fmt: skip
_TRANSACTION: Final = "TransactionLogValue"
_STATUS: Final = "transactionStatus"
_ENUMS: Final[Mapping[tuple[str, str], Mapping[int, str]]] = {
    (_TRANSACTION, _STATUS): {
        0: "Empty", 1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort", 4: "CompleteCommit",
        5: "CompleteAbort", 6: "Dead", 7: "PrepareEpochFence",
    },
    ("ConsumerGroupCurrentMemberAssignmentValue", "state"): _MEMBER_STATES,
    ("ShareGroupCurrentMemberAssignmentValue", "state"): _MEMBER_STATES,
    ("StreamsGroupCurrentMemberAssignmentValue", "state"): _STREAMS_STATES,
    ("ShareSnapshotValue", "deliveryState"): _DELIVERY_STATES,
    ("ShareUpdateValue", "deliveryState"): _DELIVERY_STATES,
    ("PartitionRecord", "leaderRecoveryState"): {0: "RECOVERED", 1: "RECOVERING"},
    ("PartitionChangeRecord", "leaderRecoveryState"): {0: "RECOVERED", 1: "RECOVERING"},
    ("BrokerRegistrationChangeRecord", "fenced"): {1: "FENCE", 0: "NO_CHANGE", -1: "UNFENCE"},
    ("ConfigRecord", "resourceType"): {
        2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP",
    },
    ("AccessControlEntryRecord", "resourceType"): {
        1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID",
        6: "DELEGATION_TOKEN", 7: "USER",
    },
    ("AccessControlEntryRecord", "patternType"): {
        1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED",
    },
    ("AccessControlEntryRecord", "operation"): {
        1: "ANY", 2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER",
        8: "DESCRIBE", 9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS",
        12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS", 14: "DESCRIBE_TOKENS", 15: "TWO_PHASE_COMMIT",
    },
    ("AccessControlEntryRecord", "permissionType"): {1: "ANY", 2: "DENY", 3: "ALLOW"},
    ("UserScramCredentialRecord", "mechanism"): {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
    ("RemoveUserScramCredentialRecord", "mechanism"): {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
    ("RemoteLogSegmentMetadataRecord", "remoteLogSegmentState"): SEGMENT_STATES,
    ("RemoteLogSegmentMetadataUpdateRecord", "remoteLogSegmentState"): SEGMENT_STATES,
    ("RemoteLogSegmentMetadataSnapshotRecord", "remoteLogSegmentState"): SEGMENT_STATES,
    ("RemotePartitionDeleteMetadataRecord", "remotePartitionDeleteState"): DELETE_STATES,
    ("ZkMigrationStateRecord", "zkMigrationState"): {
        0: "NONE", 1: "MIGRATION", 2: "PRE_MIGRATION", 3: "POST_MIGRATION", 4: "ZK",
    },
}  # fmt: skip


def key_form(payload: Payload) -> dict[str, Any]:
    """Return a key as the decoders of Kafka's dump tool print it, as an object for JSON."""
    return {"type": str(payload.layout.type_id), "data": _fields(payload)}


def value_form(payload: Payload) -> dict[str, Any]:
    """Return a value of a coordinator's topic as the decoders of Kafka's dump tool print it.

    Those of 4.4 name the state of a transaction; before, its number was printed.
    """
    fields, layout = _fields(payload), payload.layout.name
    if layout == _TRANSACTION:
        fields[_STATUS] = enum_name(layout, _STATUS, fields[_STATUS])
    return {"version": str(payload.version), "data": fields}


def metadata_form(payload: Payload) -> dict[str, Any]:
    """Return a value of ``__cluster_metadata`` as the decoder of Kafka's dump tool prints it."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", payload.layout.name).upper()
    return {"type": kind, "version": payload.version, "data": _fields(payload)}


def remote_form(payload: Payload) -> str:
    """Return a value of ``__remote_log_metadata`` as Kafka's dump tool prints it.

    Raises DecodeError for values that Kafka refuses.
    """
    return remote_log_text(payload.layout.name, payload.fields)


def payload_form(payload: Payload) -> dict[str, Any]:
    """Return a key or a value for JSON: its message, type, version and fields.

    Beside the number of an enumeration is its name, in a field of the suffix ``_name``. The
    releases are given whose layout it is, if that is not the newest.
    """
    layout = payload.layout
    form: dict[str, Any] = {"message": layout.name}
    if layout.type_id is not None:
        form["type"] = layout.type_id
    form["version"] = payload.version
    if layout.releases:
        form["layout_of"] = layout.releases
    return form | {"fields": _fields(payload, named=True)}


def is_secret_setting(name: str) -> bool:
    """Return whether the value of the setting ``name`` is a secret, as far as its name says."""
    return _SECRET_SETTING.search(name) is not None


def enum_name(message: str, field: str, number: int) -> str:
    """Return the name of a number in a field of a message, or the number for an unknown one."""
    return _ENUMS[message, field].get(number, str(number))


def _fields(payload: Payload, *, named: bool = False) -> dict[str, Any]:
    layout = payload.layout
    found = _struct(layout.name, layout.fields, payload.version, payload.fields, named)
    if layout.name == "GroupMetadataValue" and payload.fields["protocolType"] == PROTOCOL_TYPE:
        for form, member in zip(found["members"], _members(payload), strict=True):
            for name in _OF_MEMBERS:
                with suppress(DecodeError):
                    form[name] = _of_member(name, member[name], named)
    if layout.name == "ConfigRecord" and is_secret_setting(str(payload.fields["name"])):
        found["value"] = REDACTED
    return found


def _members(payload: Payload) -> list[Any]:
    members = payload.fields["members"]
    assert isinstance(members, list)
    return members


def _of_member(name: str, data: bytes, named: bool) -> dict[str, Any]:
    """Return the form of the subscription or assignment of a consumer. Raises DecodeError."""
    message = consumer_protocol.messages()[_OF_MEMBERS[name]]
    version, fields = decode_protocol(message, data)
    return _struct(message.name, message.fields, version, fields, named)


def _struct(
    message: str, fields: tuple[Field, ...], version: int, values: Mapping[str, Value], named: bool
) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for field in fields:
        if field.name not in values:
            continue
        value = values[field.name]
        if version in field.tagged and _is_default(field, value):
            continue  # as Kafka's converters do
        if field.name in _SECRETS.get(message, ()):
            form[field.name] = REDACTED
            continue
        form[field.name] = _value(message, field, version, value, named)
        names = _ENUMS.get((message, field.name)) if named else None
        if names is not None and isinstance(value, int) and value in names:
            form[f"{field.name}_name"] = names[value]
    unknown = values.get(UNKNOWN_TAGS)
    if named and isinstance(unknown, list):
        form["unknown_tags"] = [
            {"tag": tag["tag"], "data_base64": _base64(tag["data"])}
            for tag in unknown
            if isinstance(tag, dict)
        ]
    return form


def _is_default(field: Field, value: Value) -> bool:
    """Return whether a tagged field has its default: a struct, if all of its fields have theirs."""
    if field.type != "struct":
        return value == field.default
    if not isinstance(value, dict):
        return False
    return all(value.get(inner.name) == inner.default for inner in field.fields)


def _value(message: str, field: Field, version: int, value: Value, named: bool) -> Any:
    if isinstance(value, dict):
        return _struct(message, field.fields, version, value, named)
    if isinstance(value, list):
        return [_value(message, field, version, item, named) for item in value]
    return _base64(value) if isinstance(value, bytes) else value


def _base64(data: Value) -> str:
    assert isinstance(data, bytes)
    return b64encode(data).decode("ascii")
