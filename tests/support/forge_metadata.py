"""Builds ``__cluster_metadata-0``: records as a controller writes them, logs and snapshots.

Spec: TopicRecord, PartitionRecord, PartitionChangeRecord, ConfigRecord, RemoveTopicRecord and the
metadata transactions' records, in the frame of MetadataRecordSerde; SnapshotHeaderRecord,
SnapshotFooterRecord. Imports nothing of kdump.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from support.forge import batch, control_batch, record, uvarint

METADATA = "__cluster_metadata-0"
NODE = 1
NO_OP = b"\1\x14\0\0"
BEGIN, END, ABORT = b"\1\x17\0\0", b"\1\x18\0\0", b"\1\x19\0\0"
_SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = 3, 4


def text(value: str) -> bytes:
    encoded = value.encode()
    return uvarint(len(encoded) + 1) + encoded


def uuid(value: str) -> bytes:
    return base64.urlsafe_b64decode(value + "==")


def numbers(values: Sequence[int]) -> bytes:
    return uvarint(len(values) + 1) + b"".join(struct.pack(">i", value) for value in values)


def framed(kind: int, version: int, body: bytes) -> bytes:
    return b"\1" + uvarint(kind) + uvarint(version) + body


def topic(name: str, topic_id: str) -> bytes:
    return framed(2, 0, text(name) + uuid(topic_id) + b"\0")


def partition(
    topic_id: str,
    number: int = 0,
    nodes: Sequence[int] = (NODE,),
    directories: Sequence[str] = (),
    *,
    in_sync: Sequence[int] | None = None,
    adding: Sequence[int] = (),
) -> bytes:
    """``directories`` are the ids of the replicas' ones; of a single replica it is lost.

    Without ``in_sync`` all ``nodes`` are. ``adding`` are those that a reassignment adds.
    """
    body = struct.pack(">i", number) + uuid(topic_id) + numbers(nodes)
    body += numbers(nodes if in_sync is None else in_sync) + numbers([])
    body += numbers(adding) + struct.pack(">iii", nodes[0], 0, 0)
    if not directories and len(nodes) == 1:
        directories = ["A" * 21 + "E"]
    ids = uvarint(len(directories) + 1) + b"".join(map(uuid, directories))
    return framed(3, 1, body + ids + b"\0")


def change(
    topic_id: str,
    number: int,
    nodes: Sequence[int] | None = None,
    *,
    in_sync: Sequence[int] | None = None,
    eligible: Sequence[int] | None = None,
    leader: int | None = None,
) -> bytes:
    """A change of the replicas in sync, tag 0, the leader, 1, the replicas, 2, and the ELR, 6."""
    lists = ((0, in_sync), (2, nodes), (6, eligible))
    fields = [(tag, numbers(ids)) for tag, ids in lists if ids is not None]
    fields += [] if leader is None else [(1, struct.pack(">i", leader))]
    fields.sort()
    tagged = b"".join(uvarint(tag) + uvarint(len(ids)) + ids for tag, ids in fields)
    body = struct.pack(">i", number) + uuid(topic_id)
    version = 0 if eligible is None else 2
    return framed(5, version, body + uvarint(len(fields)) + tagged)


def register(node: int, directories: Sequence[str]) -> bytes:
    """The registration of a broker with these log directories, which are tag 0."""
    ids = uvarint(len(directories) + 1) + b"".join(map(uuid, directories))
    body = struct.pack(">i", node) + b"\0" + bytes(16) + struct.pack(">q", 0)
    body += uvarint(1) + uvarint(1) + b"\0" + b"\0\0"  # no endpoints, features or rack
    return framed(0, 3, body + uvarint(1) + uvarint(0) + uvarint(len(ids)) + ids)


def feature(name: str, level: int) -> bytes:
    return framed(12, 0, text(name) + struct.pack(">h", level) + b"\0")


def remove(topic_id: str) -> bytes:
    return framed(9, 0, uuid(topic_id) + b"\0")


def config(resource: str, name: str, value: str | None, *, kind: int = 2) -> bytes:
    """``kind`` is 2 for a topic and 4 for a broker."""
    body = struct.pack(">b", kind) + text(resource) + text(name)
    return framed(4, 0, body + (b"\0" if value is None else text(value)) + b"\0")


def log(values: Sequence[bytes], base: int = 0) -> bytes:
    """A segment with a batch for each of ``values``."""
    return b"".join(batch(base + place, [record(value)]) for place, value in enumerate(values))


def snapshot(
    values: Sequence[bytes], *, header: bool = True, footer: bool = True, epoch: int = 1
) -> bytes:
    pieces = [control_batch(0, _SNAPSHOT_HEADER, struct.pack(">hqb", 0, 1, 0))] if header else []
    if values:
        pieces.append(batch(1, [record(value) for value in values], leader_epoch=epoch))
    if footer:
        last = len(values) + 1
        pieces.append(control_batch(last, _SNAPSHOT_FOOTER, struct.pack(">hb", 0, 0)))
    return b"".join(pieces)


def segment_name(base: int = 0) -> str:
    return f"{METADATA}/{base:020d}.log"


def snapshot_name(end_offset: int, epoch: int = 1) -> str:
    return f"{METADATA}/{end_offset:020d}-{epoch:010d}.checkpoint"
