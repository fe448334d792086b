"""The run of a dump: files found, opened and printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import click

from kdump.commands.dump.files import KINDS
from kdump.commands.dump.lines import BATCH_KINDS, Covered, DumpFile
from kdump.errors import SourceError
from kdump.format.lines.text import printable
from kdump.format.messages.payloads import INTERNAL_TOPICS
from kdump.storage.access import open_source
from kdump.storage.logdir import (
    DirectoryEntry,
    LogDirectory,
    Partition,
    PathContent,
    Segment,
    directory_name,
    open_paths,
)
from kdump.storage.names import FileKind, parse_file_name
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from kdump.storage.source import Source


def files(
    paths: Iterable[AnyPath], selection: Selection, *, summary: bool
) -> Iterator[DumpFile | SourceError]:
    """Yield the files at ``paths`` in order, or the error of a path.

    A directory yields its files of batches, without segments outside the offsets of ``selection``.
    Raise click.UsageError for a path of a kind that cannot be dumped, or that has no batches to
    select or sum up.
    """
    only_batches = summary or selection != Selection()
    for path, content in zip(paths, open_paths(paths), strict=True):
        if isinstance(content, Segment | DirectoryEntry):
            name = parse_file_name(path.name)
            if name.kind not in BATCH_KINDS | KINDS:
                raise click.UsageError(
                    f"{printable(str(path))}: expected a segment, index, snapshot, checkpoint or "
                    f"metadata file, found a file of another kind ({name.kind.value})."
                )
            if only_batches and name.kind not in BATCH_KINDS:
                raise click.UsageError(
                    f"{printable(str(path))}: filters, --limit and --summary are for files of "
                    f"batches, and this is a file of another kind ({name.kind.value})."
                )
            index = content.index if isinstance(content, Segment) else None
            yield DumpFile(path, name, directory_name(path.parent), index)
        else:
            yield from _directory_files(content, selection)


def _directory_files(
    content: PathContent | SourceError, selection: Selection
) -> Iterator[DumpFile | SourceError]:
    if isinstance(content, LogDirectory):
        for partition in content.partitions():
            yield from _directory_files(partition, selection)
    elif isinstance(content, Partition):
        for segment in selection.segments(content.segments):
            name = parse_file_name(segment.log.name)
            yield DumpFile(segment.log, name, content.name, segment.index)
        for entry in content.entries:
            if entry.name.kind is FileKind.METADATA_SNAPSHOT and not entry.name.suffix:
                yield DumpFile(entry.path, entry.name, content.name)
    elif isinstance(content, SourceError):
        yield content


def file_sizes(found_files: Iterable[DumpFile | SourceError]) -> Iterator[int]:
    """Yield the size of each local file of batches, in bytes."""
    for file in found_files:
        if isinstance(file, DumpFile) and file.holds_batches and isinstance(file.path, Path):
            with suppress(OSError):  # the dump reports it
                yield file.path.stat().st_size


def warn_if_undecoded(found_files: Iterable[DumpFile | SourceError]) -> None:
    """Print a line if the topic of a file is unknown, or if no file is of an internal topic."""
    logs = [file for file in found_files if isinstance(file, DumpFile) and file.holds_batches]
    unknown = [file for file in logs if file.topic is None]
    if not any(file.topic in INTERNAL_TOPICS for file in logs):
        unknown = logs
    if unknown:
        folders = {file.path.parent for file in unknown}
        others = f" and {len(folders) - 1:,} more" if len(folders) > 1 else ""
        click.echo(
            f"kdump: not decoded: {printable(str(unknown[0].path.parent))}{others}: expected the "
            "name of an internal topic and a partition; --topic-name TOPIC names the topic",
            err=True,
        )


class DumpReceiver(Protocol):
    """A receiver of the files of a dump."""

    covered: Covered

    @property
    def done(self) -> bool:
        """Whether the output needs no further file."""

    def start(self) -> None:
        """Begin the output, before all files."""

    def file(self, file: DumpFile, source: Source) -> None:
        """Add a file. Raise SourceError if it cannot be read."""

    def end(self) -> int:
        """End the output after all files, and return the exit code."""


def run(found_files: Iterable[DumpFile | SourceError], output: DumpReceiver) -> int:
    """Pass files to ``output`` until it needs no more, and return the exit code."""
    output.start()
    for file in found_files:
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
