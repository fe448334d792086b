"""Writing and reading back of logs by two processes, or by one.

Where a second process has a core to itself, reading begins while the log is still written. The
writer reports the size of the new log through a pipe, and the reader reads the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from kdump.audit.facts.small_files import TopicSettings
from kdump.repair.rewrite.log_workers import value_of
from kdump.repair.rewrite.read_back import STRETCH_BYTES, LogReader, ReadBack
from kdump.storage import workers
from kdump.storage.paths import AnyPath
from kdump.storage.workers import Report

R = TypeVar("R")

OnWrite = Callable[[Path, int, int], None]
"""Called with the path, the base offset and the size in bytes of a new log, after whole batches."""


def use_two_processes(jobs: int, tasks: int, size_bytes: int) -> bool:
    """Return whether two processes share the work on a log of that size, one of ``tasks`` logs."""
    return jobs > 1 and tasks == 1 and size_bytes >= STRETCH_BYTES


def write_and_read(
    write: Callable[[Report, OnWrite], R],
    log: AnyPath,
    settings: TopicSettings,
    room: int,
    *,
    share: bool,
    report: Report,
    close_descriptors: Iterable[int] = (),
) -> tuple[R, list[ReadBack]]:
    """Return the result of ``write``, and the read-back of each new log in the order of writing.

    ``write`` makes the new logs from the one at ``log``, in a worker if ``share``. The worker
    closes ``close_descriptors``, and is killed if its output is refused. ``settings`` and ``room``
    are as for ``LogReader``. Raises Refused, SourceError, and the KdumpError or OSError of
    ``write``.
    """
    readers: dict[Path, LogReader] = {}

    def on_write(path: Path, base_offset: int, size: int) -> None:
        if path not in readers:
            readers[path] = LogReader(path, base_offset, settings, room)
        if share:
            readers[path].follow(size)

    if share:
        result = _write_in_worker(write, log, report, on_write, close_descriptors)
    else:
        result = write(report, on_write)
    return result, [reader.finish() for reader in readers.values()]


def report_writes(pieces: Iterable[bytes], on_size: Callable[[int], None]) -> Iterator[bytes]:
    """Yield ``pieces`` to a writer; report their total size each time the next piece is taken."""
    size = 0
    for piece in pieces:
        yield piece
        size += len(piece)
        on_size(size)


def _write_in_worker(
    write: Callable[[Report, OnWrite], R],
    log: AnyPath,
    report: Report,
    on_write: OnWrite,
    close_descriptors: Iterable[int],
) -> R:
    def work(_: None, send: Callable[[int | tuple[Path, int, int]], None]) -> R | OSError:
        try:
            return write(send, lambda *size_report: send(size_report))
        except OSError as error:  # a worker cannot raise it
            return error

    def receive(message: int | tuple[Path, int, int]) -> None:
        if isinstance(message, int):
            report(message)
        else:
            on_write(*message)

    outcomes = workers.run(
        work, [None], 1, on_progress=receive, close_descriptors=close_descriptors
    )
    with closing(outcomes):
        (outcome,) = outcomes
    value = value_of(outcome, log)
    if isinstance(value, OSError):
        raise value
    return value
