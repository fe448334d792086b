"""The manifest of an export: its files and their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from kdump.export.replicas import Conflict, StaleOffsets
from kdump.export.task import Ledger, Trouble
from kdump.format.lines.text import json_text
from kdump.values import frozen

_SCHEMA: Final = 1


@frozen
class FileEntry:
    """A file: its path below the export, the digest of its bytes, and the logs in it."""

    path: str
    bytes: int
    sha256: str
    logs: tuple[Ledger, ...]

    @property
    def records(self) -> int:
        """The number of records in the file."""
        return sum(log.records for log in self.logs)


@frozen
class PartitionEntry:
    """The export of a partition; ``sha256`` is over the digests of its files, in order.

    ``end`` is the last stable offset, None if it does not bound the export. ``undecided`` are
    producers and first offsets of transactions whose markers may be lost in damage. ``log_start``
    is the log start offset below which records are left out, None if none are left out.
    """

    topic: str | None
    partition: int | None
    records: int
    first_offset: int | None
    last_offset: int | None
    sha256: str
    end: int | None = None
    undecided: tuple[tuple[int, int], ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    overtaken: tuple[StaleOffsets, ...] = ()
    log_start: int | None = None


@frozen
class Manifest:
    """The files, partitions and errors of an export."""

    files: tuple[FileEntry, ...]
    partitions: tuple[PartitionEntry, ...]
    troubles: tuple[Trouble, ...]

    @property
    def records(self) -> int:
        """The number of exported records."""
        return sum(file.records for file in self.files)

    def encode(self) -> bytes:
        """Return the manifest as JSON."""
        files = [{**asdict(file), "records": file.records} for file in self.files]
        fields = {"schema": _SCHEMA, "records": self.records, **asdict(self), "files": files}
        return json_text(fields).encode() + b"\n"


def partition_entry(
    topic: str | None, partition: int | None, files: Iterable[FileEntry], logs: Sequence[Ledger]
) -> PartitionEntry:
    """Sum up ``logs``, those of a partition, and the ``files`` that hold their records."""
    digests = hashlib.sha256("".join(file.sha256 for file in files).encode())
    firsts = [log.first_offset for log in logs if log.first_offset is not None]
    lasts = [log.last_offset for log in logs if log.last_offset is not None]
    return PartitionEntry(
        topic,
        partition,
        sum(log.records for log in logs),
        min(firsts, default=None),
        max(lasts, default=None),
        digests.hexdigest(),
    )
