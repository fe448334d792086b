"""Parses ``.log`` files with kafka-python, and prints a JSON object a record.

Spec: ``kafka.record.MemoryRecords``. Standard input holds ``{"paths": [...]}``.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

#: What the parser calls them: ``LegacyRecordBatch.timestamp_type``.
TIMESTAMP_TYPES = {None: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def read(path: str) -> Iterator[dict[str, object]]:
    """The records of a file, and the error that ends them if one does."""
    try:
        for batch in MemoryRecords(Path(path).read_bytes()):
            if not batch.validate_crc():
                raise CorruptRecordError(f"bad checksum in the batch from {batch.base_offset}")
            control = batch.magic >= 2 and batch.is_control_batch
            for record in batch:
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "timestamp_type": TIMESTAMP_TYPES[record.timestamp_type],
                    **field("key", record.key),
                    **field("value", record.value),
                    "headers": [
                        field("key", key.encode()) | field("value", value)
                        for key, value in record.headers
                    ],
                    "control": control,
                }
    except CorruptRecordError as error:
        yield {"error": str(error)}


def field(name: str, raw: bytes | None) -> dict[str, str | None]:
    """A field of bytes under its name: base64, or null."""
    return {name: None} if raw is None else {f"{name}_base64": b64encode(raw).decode()}


def main() -> None:
    """Print what each file holds."""
    for path in json.load(sys.stdin)["paths"]:
        for line in read(path):
            print(json.dumps({"file": path, **line}))


if __name__ == "__main__":
    main()
