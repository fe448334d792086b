"""The manifest of an export: its files and their content."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeVar

from kdump.commands.export.files import Ledger
from kdump.commands.export.task import Trouble
from kdump.errors import DecodeError
from kdump.format.lines.text import json_text
from kdump.tables.committed.replicas import Conflict, StaleOffsets
from kdump.values import frozen

#: 2: a log may be in several files, and a file lists the logs that have records in it. In 1, a file
#: listed all logs of its task.
_SCHEMA: Final = 2
_SCHEMAS: Final = (1, _SCHEMA)

_T = TypeVar("_T")


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
    is the log start offset, None if nothing lies below it, and ``below_log_start`` the number of
    records below it that are left out. ``remote`` are offsets that are left out because they are in
    remote storage only, ``deleted`` those whose logs a running broker deleted during the export.
    ``compacted`` says whether the cleaner may have compacted the logs. Missing offsets are looked
    for only where it is False; None stands for unknown, or for batches that hide missing offsets.
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
    below_log_start: int = 0
    remote: tuple[tuple[int, int], ...] = ()
    deleted: tuple[tuple[int, int], ...] = ()
    compacted: bool | None = None


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
    """Sum up ``logs``, what the ``files`` hold of a partition."""
    digests = hashlib.sha256("".join(file.sha256 for file in files).encode())
    return PartitionEntry(
        topic,
        partition,
        sum(log.records for log in logs),
        min((log.first_offset for log in logs), default=None),
        max((log.last_offset for log in logs), default=None),
        digests.hexdigest(),
    )


@frozen
class Lack:
    """What an export lacks, by its manifest. ``damaged`` is as for ``Trouble``."""

    path: str
    reason: str
    damaged: bool


def decode_manifest(data: bytes) -> tuple[tuple[FileEntry, ...], tuple[Lack, ...]]:
    """Return the files of a manifest, and what it says that they lack.

    Raise DecodeError, also if its sums are not those of its files.
    """
    try:
        fields = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"expected the manifest of an export, found no JSON: {error}") from error
    schema = _field(fields, "schema", int)
    if schema not in _SCHEMAS:
        known = " or ".join(map(str, _SCHEMAS))
        raise DecodeError(f"expected a manifest of schema {known}, found {schema}")
    files = tuple(map(_file, _field(fields, "files", list)))
    _compare_sums(fields, files)
    return files, tuple(map(_lack, _optional(fields, "troubles", list) or []))


def _lack(fields: object) -> Lack:
    damaged = fields.get("damaged") if isinstance(fields, Mapping) else None
    return Lack(_field(fields, "path", str), _field(fields, "reason", str), damaged is True)


def _file(fields: object) -> FileEntry:
    logs = (_ledger(log) for log in _field(fields, "logs", list))
    path = _field(fields, "path", str)
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise DecodeError(f"expected the path of a file below the export, found {path!r}")
    file = FileEntry(
        path,
        _field(fields, "bytes", int),
        _field(fields, "sha256", str),
        tuple(log for log in logs if log is not None),
    )
    _compare_sum(file.path, _field(fields, "records", int), file.records)
    return file


def _ledger(fields: object) -> Ledger | None:
    """Return what a file holds of a log, None if that is nothing."""
    if not _field(fields, "records", int):
        return None
    return Ledger(
        _field(fields, "path", str),
        _field(fields, "host", str),
        _optional(fields, "topic", str),
        _optional(fields, "partition", int),
        _field(fields, "bytes", int),
        _field(fields, "records", int),
        _field(fields, "first_offset", int),
        _field(fields, "last_offset", int),
    )


def _compare_sums(fields: object, files: Sequence[FileEntry]) -> None:
    _compare_sum("the export", _field(fields, "records", int), sum(file.records for file in files))
    by_files: dict[tuple[str | None, int | None], int] = defaultdict(int)
    by_partitions: dict[tuple[str | None, int | None], int] = defaultdict(int)
    for file in files:
        for log in file.logs:
            by_files[log.topic, log.partition] += log.records
    for entry in _field(fields, "partitions", list):
        key = _optional(entry, "topic", str), _optional(entry, "partition", int)
        by_partitions[key] += _field(entry, "records", int)
    for key in sorted(by_files.keys() | by_partitions.keys(), key=str):
        name = "logs of no topic" if key[0] is None else f"{key[0]}-{key[1]}"
        _compare_sum(name, by_partitions[key], by_files[key])


def _compare_sum(name: str, total: int, found: int) -> None:
    if total != found:
        raise DecodeError(
            f"expected {total} records in {name}, as the manifest says, found {found} in its list "
            "of files"
        )


def _field(fields: object, name: str, kind: type[_T]) -> _T:
    value = fields.get(name) if isinstance(fields, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        words = {int: "a number", str: "a string", list: "a list"}
        raise DecodeError(f"expected the manifest of an export with {words[kind]} as {name!r}")
    return value


def _optional(fields: object, name: str, kind: type[_T]) -> _T | None:
    if isinstance(fields, Mapping) and fields.get(name) is None:
        return None
    return _field(fields, name, kind)
