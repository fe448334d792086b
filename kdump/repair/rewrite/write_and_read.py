"""Writing and reading back of logs by two processes, or by one.

Reading begins while there is more to write, where a second process has a core to itself: what was
written is told through a pipe, and read through the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from kdump.audit.facts.small_files import TopicSettings
from kdump.repair.rewrite.each_log import value_of
from kdump.repair.rewrite.read_back import STRETCH_BYTES, ReadBack, ReadingBack
from kdump.storage import workers
from kdump.storage.workers import Report

R = TypeVar("R")

Written = Callable[[Path, int, int], None]
"""Called with a new log's path and base offset, and how many bytes stand in it, whole batches."""


def shared(jobs: int, tasks: int, size_bytes: int) -> bool:
    """Whether two processes shall share a log of that size, which is one of so many ``tasks``."""
    return jobs > 1 and tasks == 1 and size_bytes >= STRETCH_BYTES


def write_and_read(
    write: Callable[[Report, Written], R],
    log: Path,
    settings: TopicSettings,
    room: int,
    *,
    share: bool,
    report: Report,
    close_descriptors: Iterable[int] = (),
) -> tuple[R, list[ReadBack]]:
    """What came of ``write``, and what stands in the new logs that it told of, in that order.

    It makes them of the one at ``log``, in a worker if they ``share``; that does not keep
    ``close_descriptors``, and is killed where what it wrote is refused. ``settings`` and ``room``
    are as for ``ReadingBack``. Raises what ``write`` raises, KdumpError or OSError; Refused,
    SourceError.
    """
    readings: dict[Path, ReadingBack] = {}

    def written(path: Path, base_offset: int, size: int) -> None:
        if path not in readings:
            readings[path] = ReadingBack(path, base_offset, settings, room)
        if share:
            readings[path].follow(size)

    if share:
        result = _in_worker(write, log, report, written, close_descriptors)
    else:
        result = write(report, written)
    return result, [reading.finish() for reading in readings.values()]


def telling(pieces: Iterable[bytes], told: Callable[[int], None]) -> Iterator[bytes]:
    """Yield ``pieces``; whoever asks for the next has written those before, whose size is told."""
    size = 0
    for piece in pieces:
        yield piece
        size += len(piece)
        told(size)


def _in_worker(
    write: Callable[[Report, Written], R],
    log: Path,
    report: Report,
    written: Written,
    close_descriptors: Iterable[int],
) -> R:
    def work(_: None, tell: Callable[[int | tuple[Path, int, int]], None]) -> R | OSError:
        try:
            return write(tell, lambda *news: tell(news))
        except OSError as error:  # which a worker cannot raise
            return error

    def told(news: int | tuple[Path, int, int]) -> None:
        if isinstance(news, int):
            report(news)
        else:
            written(*news)

    outcomes = workers.run(work, [None], 1, on_progress=told, close_descriptors=close_descriptors)
    with closing(outcomes):
        (outcome,) = outcomes
    value = value_of(outcome, log)
    if isinstance(value, OSError):
        raise value
    return value
