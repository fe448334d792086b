"""A group and its committed offsets, from the last records of ``__consumer_offsets``.

Spec: ``GroupMetadataManager.replay``, ``OffsetMetadataManager.replay``, and the states of
``ClassicGroup``, ``ConsumerGroup``, ``ShareGroup`` and ``StreamsGroup`` as they are loaded
(KIP-848, KIP-932, KIP-1071).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kdump.coordinators.latest import LastRecord
from kdump.coordinators.log import CoordinatorLog, Undecodable
from kdump.errors import DecodeError
from kdump.format.messages import consumer_protocol
from kdump.format.messages.consumer_protocol import PROTOCOL_TYPE, decode_protocol
from kdump.format.messages.payloads import Payload, UnknownTypeError, decoder_of
from kdump.storage.names import OFFSETS_TOPIC
from kdump.values import frozen

_COMMIT_KEYS: Final = ("OffsetCommitKey", "LegacyOffsetCommitKey")
_NO_ID: Final = 22 * "A"
_STABLE: Final = {"consumer": 0, "share": 0, "streams": 1}


class GroupKind(StrEnum):
    """The kinds of groups (``GroupType``)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupState(StrEnum):
    """The states that a group may have when it is loaded (``GroupState``)."""

    EMPTY = "Empty"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


@frozen
class CommittedOffset:
    """A committed offset of a group.

    ``leader_epoch`` is -1 and ``expire_ms`` None where the record has none; ``topic_id`` is None
    before 4.1. ``record_offset`` is where it stands in ``__consumer_offsets``.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None
    topic_id: str | None
    record_offset: int


@frozen
class Assignment:
    """Partitions of a topic that a member has; the topic is a name, or in newer groups an id."""

    partitions: tuple[int, ...]
    topic: str | None = None
    topic_id: str | None = None


@frozen
class Member:
    """A member of a group. ``assignments`` are None if they are not known to the coordinator."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignments: tuple[Assignment, ...] | None
    topics: frozenset[str] = frozenset()


@frozen
class Group:
    """A group as its coordinator loads it from partition ``partition`` of the topic.

    ``epoch`` is the generation of a classic group. ``since_ms`` is the time since which a classic
    group has its state, None if unknown. ``uncommitted`` are partitions with offsets of an open
    transaction, which are not counted. ``initialized`` are the partitions of a share group whose
    state the share coordinator has.
    """

    group_id: str
    kind: GroupKind
    state: GroupState
    protocol_type: str | None
    protocol: str | None
    epoch: int | None
    since_ms: int | None
    members: tuple[Member, ...]
    offsets: tuple[CommittedOffset, ...]
    uncommitted: frozenset[tuple[str, int]]
    partition: int
    initialized: tuple[Assignment, ...] = ()

    def subscribes(self, topic: str) -> bool:
        """Return whether a member consumes ``topic``, as far as the group's records say."""
        return any(topic in member.topics for member in self.members)


@dataclass
class _Draft:
    """What the records say of one group, by the name of their key."""

    metadata: dict[GroupKind, tuple[int, Payload]] = field(default_factory=dict)
    target_epoch: int = -1
    topology_epoch: int | None = None
    members: dict[str, Payload] = field(default_factory=dict)
    current: dict[str, Payload] = field(default_factory=dict)
    offsets: list[CommittedOffset] = field(default_factory=list)
    uncommitted: set[tuple[str, int]] = field(default_factory=set)
    initialized: tuple[Assignment, ...] = ()


def read_groups(log: CoordinatorLog, partition: int) -> tuple[list[Group], list[Undecodable]]:
    """Return the groups of a partition of the topic by id, and what cannot be decoded.

    Records of types that are not known are passed over, as by coordinators.
    """
    drafts: dict[str, _Draft] = defaultdict(_Draft)
    undecodable: list[Undecodable] = []
    for record in log.records:
        if record.value is not None:
            _add(drafts, record, undecodable)
    for _, records in log.pending:
        for record in records:
            key = _decode_key(record)
            if key is not None and key.layout.name in _COMMIT_KEYS:
                place = _text(key, "topic"), _number(key, "partition")
                drafts[_text(key, "group")].uncommitted.add(place)
    groups = [_finish(group_id, draft, partition) for group_id, draft in sorted(drafts.items())]
    return groups, undecodable


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that a group belongs to.

    Spec: ``GroupCoordinatorService.partitionFor``, by ``String.hashCode``.
    """
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    value = value - 2**32 if value >= 2**31 else value
    return (0 if value == -(2**31) else abs(value)) % partitions


def _decode_key(record: LastRecord) -> Payload | None:
    decoder = decoder_of(OFFSETS_TOPIC)
    assert decoder is not None
    try:
        return decoder.decode(record.key, None)[0]
    except DecodeError:
        return None


def _add(drafts: dict[str, _Draft], record: LastRecord, undecodable: list[Undecodable]) -> None:
    decoder = decoder_of(OFFSETS_TOPIC)
    assert decoder is not None
    try:
        key, value = decoder.decode(record.key, record.value)
    except UnknownTypeError:
        return
    except DecodeError as error:
        undecodable.append(Undecodable(record.offset, str(error)))
        return
    assert key is not None and value is not None
    name = key.layout.name
    if name in _COMMIT_KEYS:
        drafts[_text(key, "group")].offsets.append(_committed(key, value, record.offset))
        return
    if name == "GroupMetadataKey":
        drafts[_text(key, "group")].metadata[GroupKind.CLASSIC] = record.offset, value
        return
    kind, _, rest = name.removesuffix("Key").partition("Group")
    draft = drafts[_text(key, "groupId")]
    if rest == "Metadata":
        draft.metadata[GroupKind(kind.lower())] = record.offset, value
    elif rest == "TargetAssignmentMetadata":
        draft.target_epoch = _number(value, "assignmentEpoch")
    elif rest == "MemberMetadata":
        draft.members[_text(key, "memberId")] = value
    elif rest == "CurrentMemberAssignment":
        draft.current[_text(key, "memberId")] = value
    elif rest == "StatePartitionMetadata":
        draft.initialized = tuple(_initialized(value))
    elif rest == "Topology":
        draft.topology_epoch = _number(value, "epoch")


def _initialized(value: Payload) -> Iterator[Assignment]:
    fields: Mapping[str, Any] = value.fields
    for topic in fields["initializedTopics"]:
        yield Assignment(tuple(topic["partitions"]), topic["topicName"], topic["topicId"])


def _committed(key: Payload, value: Payload, record_offset: int) -> CommittedOffset:
    fields: Mapping[str, Any] = value.fields
    expire = fields.get("expireTimestamp", -1)
    topic_id = fields.get("topicId", _NO_ID)
    return CommittedOffset(
        _text(key, "topic"),
        _number(key, "partition"),
        fields["offset"],
        fields.get("leaderEpoch", -1),
        fields["metadata"],
        fields["commitTimestamp"],
        None if expire == -1 else expire,
        None if topic_id == _NO_ID else topic_id,
        record_offset,
    )


def _finish(group_id: str, draft: _Draft, partition: int) -> Group:
    offsets = tuple(sorted(draft.offsets, key=lambda each: (each.topic, each.partition)))
    uncommitted = frozenset(draft.uncommitted)
    # A group that was converted has a tombstone for its former kind, so that this is one.
    newest = max(
        draft.metadata, key=lambda kind: draft.metadata[kind][0], default=GroupKind.CLASSIC
    )
    if newest is not GroupKind.CLASSIC:
        value: Mapping[str, Any] = draft.metadata[newest][1].fields
        members = tuple(_modern_members(draft))
        return Group(
            group_id,
            newest,
            _modern_state(newest, draft, value),
            "share" if newest is GroupKind.SHARE else newest.value,
            None,
            value["epoch"],
            None,
            members,
            offsets,
            uncommitted,
            partition,
            draft.initialized,
        )
    found = draft.metadata.get(GroupKind.CLASSIC)
    fields: Mapping[str, Any] = {} if found is None else found[1].fields
    classic = tuple(_classic_members(fields))
    since = fields.get("currentStateTimestamp", -1)
    return Group(
        group_id,
        GroupKind.CLASSIC,
        GroupState.STABLE if classic else GroupState.EMPTY,
        fields.get("protocolType") or None,
        fields.get("protocol"),
        fields.get("generation"),
        None if since == -1 else since,
        classic,
        offsets,
        uncommitted,
        partition,
    )


def _modern_state(kind: GroupKind, draft: _Draft, fields: Mapping[str, Any]) -> GroupState:
    if not draft.members:
        return GroupState.EMPTY
    if kind is GroupKind.SHARE:
        return GroupState.STABLE
    if kind is GroupKind.STREAMS and draft.topology_epoch != fields.get(
        "validatedTopologyEpoch", -1
    ):
        return GroupState.NOT_READY
    if fields["epoch"] > draft.target_epoch:
        return GroupState.ASSIGNING
    for member in draft.members:
        current: Mapping[str, Any] = draft.current[member].fields if member in draft.current else {}
        if (current.get("state"), current.get("memberEpoch")) != (
            _STABLE[kind],
            draft.target_epoch,
        ):
            return GroupState.RECONCILING
    return GroupState.STABLE


def _modern_members(draft: _Draft) -> Iterator[Member]:
    for member_id, payload in sorted(draft.members.items()):
        fields: Mapping[str, Any] = payload.fields
        current = draft.current.get(member_id)
        assigned: Mapping[str, Any] = {} if current is None else current.fields
        assignments: tuple[Assignment, ...] | None = tuple(
            Assignment(tuple(topic["partitions"]), topic_id=topic["topicId"])
            for topic in assigned.get("assignedPartitions", ())
        )
        if "activeTasks" in assigned:
            assignments = None  # tasks, whose topics are those of the topology
        yield Member(
            member_id,
            fields.get("instanceId"),
            fields["clientId"],
            fields["clientHost"],
            assignments,
            frozenset(fields.get("subscribedTopicNames", ())),
        )


def _classic_members(fields: Mapping[str, Any]) -> Iterator[Member]:
    consumes = fields.get("protocolType") == PROTOCOL_TYPE
    for member in fields.get("members", ()):
        yield Member(
            member["memberId"],
            member.get("groupInstanceId"),
            member["clientId"],
            member["clientHost"],
            _assignments(member["assignment"]) if consumes else None,
            frozenset(_subscribed(member["subscription"])) if consumes else frozenset(),
        )


def _assignments(data: bytes) -> tuple[Assignment, ...] | None:
    message = consumer_protocol.messages()["ConsumerProtocolAssignment"]
    if not data:
        return ()
    try:
        fields: Mapping[str, Any] = decode_protocol(message, data)[1]
    except DecodeError:
        return None
    return tuple(
        Assignment(tuple(topic["partitions"]), topic["topic"])
        for topic in fields["assignedPartitions"]
    )


def _subscribed(data: bytes) -> Iterable[str]:
    message = consumer_protocol.messages()["ConsumerProtocolSubscription"]
    try:
        fields: Mapping[str, Any] = decode_protocol(message, data)[1]
    except DecodeError:
        return ()
    topics: Iterable[str] = fields["topics"]
    return topics


def _text(payload: Payload, name: str) -> str:
    value = payload.fields[name]
    assert isinstance(value, str)
    return value


def _number(payload: Payload, name: str) -> int:
    value = payload.fields[name]
    assert isinstance(value, int)
    return value
