"""The files that real brokers left in the fixtures, decoded."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokers.topics import at_least
from support.fixtures_loader import (
    FIXTURES,
    ROOT,
    consumed,
)

NEWEST = "999"
CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
# Offset, length, and the magic four bytes behind it, in all formats.
PREFIX = struct.Struct(">qiiB")
HEADER = struct.Struct(">qiibIhiqqqhii")
# In the only record of a control batch without a horizon: length, attributes, two deltas and the
# key's length, of one byte each; then the key's version and type of two.
MARKER_TYPE_AT = HEADER.size + 8


class Batch(NamedTuple):
    """The header of a batch of magic 2, field by field; and of a marker its type."""

    base_offset: int
    length: int
    epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    marker: int | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


def release(name: str) -> str:
    return name.split("/")[0]


def fixtures(since: str, before: str = NEWEST) -> list[str]:
    """The fixtures of releases from ``since`` on and below ``before``."""
    return [
        name
        for name in FIXTURES
        if at_least(release(name), since) and not at_least(release(name), before)
    ]


def since(first: str) -> pytest.MarkDecorator:
    """For a test of what releases have from ``first`` on."""
    return pytest.mark.parametrize("name", fixtures(first))


def logs(name: str, partition: str) -> list[Path]:
    return sorted((ROOT / "brokers" / name / partition).glob("*.log"))


def batches(name: str, partition: str) -> list[Batch]:
    return [batch for path in logs(name, partition) for batch in in_segment(path)]


def in_segment(path: Path) -> Iterator[Batch]:
    """The batches of magic 2 in a file; what is of older magic is passed over."""
    content = path.read_bytes()
    position = 0
    while position + PREFIX.size <= len(content):
        _, length, _, magic = PREFIX.unpack_from(content, position)
        if length == 0:
            return
        if magic == 2:
            batch = Batch(*HEADER.unpack_from(content, position))
            if batch.attributes & CONTROL:
                batch = batch._replace(marker=content[position + MARKER_TYPE_AT])
            yield batch
        position += length + 12


def records(name: str, partition: str, isolation: str = "read_uncommitted") -> list[dict[str, Any]]:
    path = consumed(name)[partition, isolation]
    return [json.loads(line) for line in path.read_text().splitlines()]


def checkpoint(name: str, file: str) -> dict[tuple[str, int], int]:
    version, count, *lines = (ROOT / "brokers" / name / file).read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    entries = (line.split(" ") for line in lines)
    return {(topic, int(partition)): int(offset) for topic, partition, offset in entries}


def decoded(holder: dict[str, Any], name: str) -> bytes | None:
    if name in holder:
        assert holder[name] is None
        return None
    return base64.b64decode(holder[f"{name}_base64"], validate=True)
