"""Forges logs of ``__transaction_state``: what coordinators write of producers' transactions.

Like ``forge``, it shares no code with ``kdump.format``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from support import forge

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


def state(
    producer: int,
    epoch: int,
    status: int,
    places: Sequence[tuple[str, int]] = (),
    *,
    version: int = 1,
) -> bytes:
    """A value of the transaction log: the state of a producer, and the partitions in it."""
    flexible = version > 0

    def array(items: Sequence[bytes]) -> bytes:
        count = forge.uvarint(len(items) + 1) if flexible else struct.pack(">i", len(items))
        return count + b"".join(items)

    def topic(name: str, number: int) -> bytes:
        text = name.encode()
        length = forge.uvarint(len(text) + 1) if flexible else struct.pack(">h", len(text))
        return length + text + array([struct.pack(">i", number)]) + (b"\0" if flexible else b"")

    fixed = struct.pack(">hqhib", version, producer, epoch, 60_000, status)
    times = struct.pack(">qq", forge.TIMESTAMP, forge.TIMESTAMP)
    return fixed + array([topic(*place) for place in places]) + times + (b"\0" if flexible else b"")


def entry(offset: int, name: str, value: bytes | None) -> bytes:
    """A batch of the transaction log; ``name`` is the transactional id."""
    text = name.encode()
    return forge.batch(
        offset, [forge.record(value, struct.pack(">hh", 0, len(text)) + text)], leader_epoch=0
    )


def transaction_log(
    log_directory: Path, values: Iterable[bytes | None], *, name: str = "app", partition: int = 0
) -> Path:
    """Write a partition of the transaction log with an entry for each value."""
    batches = [entry(offset, name, value) for offset, value in enumerate(values)]
    return forge.write_partition(log_directory, "__transaction_state", partition, {0: batches})
