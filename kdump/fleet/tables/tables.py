"""The three tables of log directories as Arrow batches.

Damage, and what cannot be read, is left out of the records, and stands in the other two; whoever is
``strict`` gets an error instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kdump.audit.run.verify import verify
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, log_bytes, without_nested
from kdump.errors import DecodeError, SourceError
from kdump.fleet.tables.batches import batch_rows, damage_row, unreadable_row
from kdump.fleet.tables.findings import finding_rows
from kdump.fleet.tables.record_runs import Unread, record_runs
from kdump.fleet.tables.records import Origin, RecordColumns
from kdump.fleet.tables.schema import utf8
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import directory_name
from kdump.storage.names import DirectoryName
from kdump.storage.walk import Damage, walk


@dataclass(frozen=True, slots=True)
class Log:
    """A segment's log; ``size`` is its bytes when it was listed."""

    path: Path
    base_offset: int
    sealed: bool
    size: int

    @property
    def origin(self) -> Origin:
        """Where its records are from."""
        name = directory_name(self.path.parent)
        topic = None if name is None else utf8(name.topic)
        partition = None if name is None else name.partition
        return Origin(topic, partition, utf8(str(self.path)))


def logs_of(targets: Iterable[Target], *, strict: bool = False) -> Iterator[Log]:
    """List the logs of partitions, those that a broker would load, in order, each just once.

    A partition that cannot be listed has none. Raises SourceError instead if ``strict``.
    """
    for target in without_nested(targets):
        listed = target.with_listing()
        if listed.error is not None and strict:
            raise listed.error
        for segment in listed.segments:
            sealed = listed.is_sealed(segment)
            yield Log(segment.log, segment.base_offset, sealed, log_bytes(segment))


def record_batches(
    logs: Iterable[Log], names: Sequence[str], *, strict: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read the columns ``names`` of ``RECORDS``.

    Raises DecodeError, LimitError and SourceError if ``strict``.
    """
    columns, reader = RecordColumns(names), RecordReader()
    for log in logs:
        columns.start(log.origin)
        try:
            yield from _of_log(log, columns, reader, strict=strict)
        except SourceError:
            if strict:
                raise
    if (last := columns.finish()) is not None:
        yield last


def _of_log(
    log: Log, columns: RecordColumns, reader: RecordReader, *, strict: bool
) -> Iterator[pa.RecordBatch]:
    with open_source(log.path, mapped=False, sealed=log.sealed) as source:
        for piece in walk(source, log.base_offset):
            if isinstance(piece, Damage):
                _refuse(log, piece, strict=strict)
                continue
            for run in record_runs(piece, source, reader):
                if isinstance(run, Unread):
                    if strict:
                        raise run.error
                elif (full := columns.add(run)) is not None:
                    yield full


def batch_tables(logs: Iterable[Log], *, strict: bool = False) -> Iterator[pa.RecordBatch]:
    """Read the table ``BATCHES``. Raises DecodeError and SourceError if ``strict``."""
    for log in logs:
        origin = log.origin
        try:
            with open_source(log.path, mapped=False, sealed=log.sealed) as source:
                for piece in walk(source, log.base_offset):
                    if isinstance(piece, Damage):
                        _refuse(log, piece, strict=strict)
                        yield damage_row(piece, origin)
                    else:
                        yield batch_rows(piece, origin)
        except SourceError:
            if strict:
                raise
            yield unreadable_row(origin)


def finding_batches(
    targets: Sequence[Target], context: Context, *, deep: bool, jobs: int
) -> Iterator[pa.RecordBatch]:
    """Judge ``targets`` in so many workers, and give the table ``FINDINGS`` of them."""
    judging = verify(
        targets,
        deep=deep,
        jobs=jobs,
        context=context,
        conclude=lambda one: one.without_evidence(segments=False),
    )
    with closing(judging) as verdict:
        for one in verdict:
            if one.findings:
                yield finding_rows(one.findings, _partition(one.target))


def _partition(target: Target) -> DirectoryName | None:
    return directory_name(target.path if target.path.suffix != ".log" else target.path.parent)


def _refuse(log: Log, damage: Damage, *, strict: bool) -> None:
    if strict:
        raise DecodeError(
            f"{log.path}: expected sound batches alone, found {damage.reason.value} at position "
            f"{damage.position}, {damage.size} bytes"
        )
