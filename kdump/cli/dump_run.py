"""Runs a dump: finds the files of batches, walks each, and writes what the renderer makes of it.

Spec: none of Kafka's. It must never raise on damage, and never leave out a file without saying so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import click

from kdump.cli.dump_lines import BatchFile, Covered, Renderer
from kdump.cli.exits import INCOMPLETE, OK, PROBLEMS
from kdump.errors import DecodeError, LimitError, SourceError
from kdump.format.batch import HEADER_BYTES, RecordBatch, RecordReader, read_header
from kdump.format.text import printable
from kdump.storage.logdir import (
    Entry,
    LogDirectory,
    Partition,
    Segment,
    Target,
    directory_name,
    find,
)
from kdump.storage.names import FileKind, parse_file_name
from kdump.storage.source import Source, open_source
from kdump.storage.walk import Damage, Reason, batch_bytes, walk

_BATCH_KINDS: Final = frozenset(
    {FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT}
)


def files(paths: Iterable[Path]) -> Iterator[BatchFile | SourceError]:
    """Find the files of batches at ``paths``, in order, errors in their places.

    Raises click.UsageError for a file of another kind.
    """
    for path, target in zip(paths, find(paths), strict=True):
        if isinstance(target, Segment | Entry):
            name = parse_file_name(path.name)
            if name.kind not in _BATCH_KINDS:
                raise click.UsageError(
                    f"{printable(str(path))}: expected a .log or .checkpoint file, "
                    f"found a file of another kind ({name.kind.value})."
                )
            yield BatchFile(path, name, directory_name(path.parent))
        else:
            yield from _inside(target)


def _inside(target: Target | SourceError) -> Iterator[BatchFile | SourceError]:
    if isinstance(target, LogDirectory):
        yield from chain.from_iterable(map(_inside, target.partitions()))
    elif isinstance(target, Partition):
        logs = [segment.log for segment in target.segments]
        snapshots = [
            entry.path
            for entry in target.entries
            if entry.name.kind is FileKind.METADATA_SNAPSHOT and not entry.name.suffix
        ]
        for path in logs + snapshots:
            yield BatchFile(path, parse_file_name(path.name), target.name)
    elif isinstance(target, SourceError):
        yield target


def run(
    batch_files: Iterable[BatchFile | SourceError],
    renderer: Renderer,
    out: BinaryIO,
    records: bool,
) -> int:
    """Write everything; returns the exit code."""
    covered = Covered()
    reader = RecordReader() if records else None
    out.write(renderer.start())
    for file in batch_files:
        try:
            if isinstance(file, SourceError):
                raise file
            with open_source(file.path, mapped=False) as source:
                _dump(file, source, reader, renderer, out, covered)
        except SourceError as error:
            covered.incomplete += 1
            click.echo(f"kdump: {printable(str(error))}", err=True)
    exit_code = INCOMPLETE if covered.incomplete else PROBLEMS if covered.damages else OK
    out.write(renderer.end(covered, exit_code))
    return exit_code


def _dump(
    file: BatchFile,
    source: Source,
    reader: RecordReader | None,
    renderer: Renderer,
    out: BinaryIO,
    covered: Covered,
) -> None:
    last: Damage | None = None
    covered.files += 1
    covered.bytes += source.size
    out.write(renderer.file(file, source.size))
    for piece in walk(source, file.base_offset):
        if isinstance(piece, Damage):
            last = piece
            covered.damages += 1
            out.write(renderer.damage(piece, _damaged_header(source, piece)))
            continue
        last = None
        for batch in piece:
            covered.batches += 1
            if reader is None or renderer.shows_batches:
                out.write(renderer.batch(batch))
            if reader is not None:
                _dump_records(batch, source, reader, renderer, out, covered)
    out.write(renderer.end_of_file(file, last))


def _dump_records(
    batch: RecordBatch,
    source: Source,
    reader: RecordReader,
    renderer: Renderer,
    out: BinaryIO,
    covered: Covered,
) -> None:
    try:
        for table in reader.tables(batch, batch_bytes(source, batch)):
            covered.records += len(table)
            for lines in renderer.records(table):
                out.write(lines)
    except DecodeError as error:
        covered.damages += 1
        out.write(renderer.unread(batch, "records-unreadable", str(error)))
    except LimitError as error:
        covered.incomplete += 1
        out.write(renderer.unread(batch, "limit", str(error)))


def _damaged_header(source: Source, damage: Damage) -> RecordBatch | None:
    """The header of the damaged batch, where the damage is just the one that it claims to be."""
    if damage.reason is not Reason.BAD_CHECKSUM or damage.size != damage.claimed_bytes:
        return None
    return read_header(source.window(damage.position, HEADER_BYTES), damage.position)
