"""What real consumers read of the fixtures, in the form of ``dump --records``."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from support.fixtures_loader import FIXTURES, ROOT, consumed, long_marks

JsonObject = dict[str, Any]
_READ = [
    (name, topic_partition, path)
    for name in FIXTURES
    for (topic_partition, isolation), path in sorted(consumed(name).items())
    if isolation == "read_uncommitted"
]
EXAMPLES = [pytest.param(*read, id=f"{read[0]}-{read[1]}") for read in _READ]
#: The same for tests that take long: those of a few fixtures run always.
FEW_EXAMPLES = [
    pytest.param(*read, id=f"{read[0]}-{read[1]}", marks=long_marks(read[0])) for read in _READ
]


def log_start(name: str, topic_partition: str) -> int:
    """The log start offset that the broker of the fixture had checkpointed."""
    topic, _, partition = topic_partition.rpartition("-")
    path = ROOT / "brokers" / name / "log-start-offset-checkpoint"
    if not path.exists():  # brokers before 0.11 know no log start but the first segment's
        return 0
    starts = {
        tuple(row.split()[:2]): int(row.split()[2]) for row in path.read_text().splitlines()[2:]
    }
    return starts.get((topic, partition), 0)


def as_consumer(line: JsonObject) -> tuple[object, ...]:
    """What a consumer sees of a record, bytes as bytes."""
    return (
        line["offset"],
        # Consumers say -1, or nothing, where magic 0 has no timestamp; kdump says null.
        None if line["timestamp_type"] == "NoTimestampType" else line["timestamp"],
        line["timestamp_type"],
        as_bytes(line, "key"),
        as_bytes(line, "value"),
        [(as_bytes(header, "key"), as_bytes(header, "value")) for header in line["headers"]],
    )


def as_bytes(fields: JsonObject, name: str) -> bytes | None:
    """The bytes of a field, in whichever form they came."""
    if f"{name}_base64" in fields:
        return base64.b64decode(fields[f"{name}_base64"])
    text = fields[name]
    return None if text is None else text.encode()
