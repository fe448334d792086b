"""The run of a dump: files found, opened and printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import click

from kdump.cli.views.dump.files import KINDS
from kdump.cli.views.dump.lines import BATCH_KINDS, Covered, DumpFile
from kdump.errors import SourceError
from kdump.format.lines.text import printable
from kdump.storage.access import open_source
from kdump.storage.logdir import (
    Entry,
    LogDirectory,
    Partition,
    PathContent,
    Segment,
    directory_name,
    open_paths,
)
from kdump.storage.names import FileKind, parse_file_name
from kdump.storage.selection import Selection
from kdump.storage.source import Source


def files(
    paths: Iterable[Path], selection: Selection, *, summary: bool
) -> Iterator[DumpFile | SourceError]:
    """Find the files at ``paths``, in order, errors in their places.

    Of directories these are the files of batches alone, without segments that lie outside the
    offsets of the ``selection``. Raises click.UsageError for a named file of a kind that cannot be
    dumped, or where there is nothing to be selected or summed up.
    """
    just_batches = summary or selection != Selection()
    for path, content in zip(paths, open_paths(paths), strict=True):
        if isinstance(content, Segment | Entry):
            name = parse_file_name(path.name)
            if name.kind not in BATCH_KINDS | KINDS:
                raise click.UsageError(
                    f"{printable(str(path))}: expected a segment, index, snapshot, checkpoint or "
                    f"metadata file, found a file of another kind ({name.kind.value})."
                )
            if just_batches and name.kind not in BATCH_KINDS:
                raise click.UsageError(
                    f"{printable(str(path))}: filters, --limit and --summary are for files of "
                    f"batches, and this is a file of another kind ({name.kind.value})."
                )
            index = content.index if isinstance(content, Segment) else None
            yield DumpFile(path, name, directory_name(path.parent), index)
        else:
            yield from _inside(content, selection)


def _inside(
    content: PathContent | SourceError, selection: Selection
) -> Iterator[DumpFile | SourceError]:
    if isinstance(content, LogDirectory):
        for partition in content.partitions():
            yield from _inside(partition, selection)
    elif isinstance(content, Partition):
        for segment in selection.segments(content.segments):
            name = parse_file_name(segment.log.name)
            yield DumpFile(segment.log, name, content.name, segment.index)
        for entry in content.entries:
            if entry.name.kind is FileKind.METADATA_SNAPSHOT and not entry.name.suffix:
                yield DumpFile(entry.path, entry.name, content.name)
    elif isinstance(content, SourceError):
        yield content


class Output(Protocol):
    """What a dump makes of the files that it is handed."""

    covered: Covered

    @property
    def done(self) -> bool:
        """Whether no further file is asked for."""

    def start(self) -> None:
        """Begin, before all files."""

    def file(self, file: DumpFile, source: Source) -> None:
        """Take in one file; raises SourceError where it cannot be read."""

    def end(self) -> int:
        """End, behind all files; returns the exit code."""


def run(found: Iterable[DumpFile | SourceError], output: Output) -> int:
    """Hand every file to ``output`` until it has enough; returns the exit code."""
    output.start()
    for file in found:
        if output.done:
            break
        try:
            if isinstance(file, SourceError):
                raise file
            with open_source(file.path, mapped=False) as source:
                output.file(file, source)
        except SourceError as error:
            output.covered.incomplete += 1
            click.echo(f"kdump: {printable(str(error))}", err=True)
    return output.end()
