"""Forges records of ``__consumer_offsets``: what coordinators write of groups and their offsets.

Like ``forge``, it shares no code with ``kdump.format``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from support import forge
from support.forge import Record, record


def text(value: str | None) -> bytes:
    """A string of a message that is not flexible."""
    return b"\xff\xff" if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str | None) -> bytes:
    """A string of a flexible message."""
    return b"\0" if value is None else forge.uvarint(len(value.encode()) + 1) + value.encode()


def commit_key(group: str, topic: str, partition: int) -> bytes:
    return struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)


def commit(
    group: str,
    topic: str,
    partition: int,
    offset: int | None,
    *,
    metadata: str = "",
    at_ms: int = forge.TIMESTAMP,
    expire_ms: int | None = None,
) -> Record:
    """A committed offset; None for its tombstone. With ``expire_ms`` as up to Kafka 2.0."""
    value = None
    if offset is not None and expire_ms is None:
        value = struct.pack(">hqi", 3, offset, 4) + text(metadata) + struct.pack(">q", at_ms)
    elif offset is not None:
        value = struct.pack(">hq", 1, offset) + text(metadata)
        value += struct.pack(">qq", at_ms, expire_ms)
    return record(value, commit_key(group, topic, partition))


def assignment(partitions: Sequence[tuple[str, Sequence[int]]]) -> bytes:
    """What the leader of a classic group of consumers gives to a member."""
    given = struct.pack(">hi", 1, len(partitions))
    for topic, numbers in partitions:
        given += text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return given + struct.pack(">i", -1)


def subscription(topics: Sequence[str]) -> bytes:
    """What a consumer subscribes to, of version 0."""
    names = b"".join(map(text, topics))
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def member(name: str, given: bytes, topics: Sequence[str] = ()) -> bytes:
    """A member of a classic group, of version 3."""
    content = text(name) + text(None) + text(f"client-{name}") + text(f"/host-{name}")
    content += struct.pack(">ii", 60_000, 45_000)
    for part in (subscription(topics), given):
        content += struct.pack(">i", len(part)) + part
    return content


def classic(
    group: str,
    members: Iterable[bytes] | None = (),
    *,
    protocol_type: str = "consumer",
    since_ms: int = forge.TIMESTAMP,
) -> Record:
    """The metadata of a classic group; None for its tombstone."""
    value = None
    if members is not None:
        members = list(members)
        value = struct.pack(">h", 3) + text(protocol_type) + struct.pack(">i", 7)
        value += text("range" if members else None) + text(None)
        value += struct.pack(">qi", since_ms, len(members)) + b"".join(members)
    return record(value, struct.pack(">h", 2) + text(group))


def modern(kind: int, group: str, value: bytes | None, member_id: str | None = None) -> Record:
    """A record of a newer group; ``kind`` is the number of its key, ``value`` without version."""
    key = struct.pack(">h", kind) + text(group) + (b"" if member_id is None else text(member_id))
    return record(None if value is None else struct.pack(">h", 0) + value, key)


def epoch(number: int, end: bytes = b"\0") -> bytes:
    """A value that is an epoch alone, and what follows it."""
    return struct.pack(">i", number) + end


def consumer(name: str, topics: Sequence[str] = ()) -> bytes:
    """The metadata of a member of a consumer group."""
    return (
        compact(None) + compact(None) + compact(f"client-{name}") + compact(f"/host-{name}")
        + forge.uvarint(len(topics) + 1) + b"".join(map(compact, topics))
        + compact(None) + struct.pack(">i", 45_000) + compact(None) + b"\0"
    )  # fmt: skip


def current(member_epoch: int, state: int, topic_id: bytes, partitions: Sequence[int]) -> bytes:
    """The present assignment of a member of a consumer group: one topic."""
    numbers = struct.pack(f">{len(partitions)}i", *partitions)
    return (
        struct.pack(">iib", member_epoch, member_epoch - 1, state)
        + b"\2" + topic_id + forge.uvarint(len(partitions) + 1) + numbers + b"\0"
        + b"\1" + b"\0"
    )  # fmt: skip
