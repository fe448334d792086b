"""The files of a partition as a plan identifies them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kdump.audit.survey.survey import Survey
from kdump.errors import Refused, SourceError
from kdump.repair.transaction.plan import Stamp
from kdump.storage.logdir import Partition, is_metadata_log
from kdump.storage.source import Source, data_from, source_error

_PIECE_BYTES: Final = 1 << 20
_ZEROS: Final = bytes(_PIECE_BYTES)
#: Pieces of zeros in a row that are hashed as they are: 2 GiB, which no log of a broker exceeds.
_HASHED_ZEROS: Final = 2048


def read_fingerprint(
    partition: Partition, surveys: Iterable[Survey] = ()
) -> tuple[dict[str, Stamp], tuple[int, int]]:
    """Return the stamps of all regular files in the directory by name, and its device and inode.

    Symbolic links are followed, as brokers do. Raises SourceError if the directory cannot be read,
    or if a log of ``surveys`` has changed since it was surveyed.
    """
    path = partition.path
    try:
        found = path.stat()
        with os.scandir(path) as entries:
            stamps = {
                entry.name: Stamp(status.st_size, status.st_mtime_ns)
                for entry in entries
                if (status := _status(Path(entry.path))) is not None
            }
    except OSError as error:
        raise source_error(path, error) from error
    for survey in surveys:
        log, read = survey.segment.log, survey.identity
        if read is not None and stamps.get(log.name) != Stamp(read.size, read.mtime_ns):
            raise SourceError(
                log,
                f"{log}: expected the file as it was read before, found that it changed: run "
                "the command again",
            )
    return stamps, (found.st_dev, found.st_ino)


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of the regular file at ``path``, None without one. Raises OSError."""
    status = _status(path)
    return None if status is None else Stamp(status.st_size, status.st_mtime_ns)


def source_digest(source: Source, position: int, stop: int) -> str:
    """Return the SHA-256 of the bytes from ``position`` up to ``stop``. Raises SourceError."""
    digest = hashlib.sha256()
    while position < stop:
        piece = source.window(position)[: min(stop - position, _PIECE_BYTES)]
        digest.update(piece)
        position += len(piece)
    return digest.hexdigest()


def tail_digest(source: Source, position: int) -> str:
    """Return a digest of the bytes from ``position`` to the end. Raises SourceError.

    It is their SHA-256. Of more zeros in a row than the log of a broker can hold, which holes of
    sparse files have, their number is hashed with it, so that holes cost no time. That a hole and
    zeros that were written give the same, bytes are taken in pieces that are counted from
    ``position`` on.
    """
    digest, zeros = hashlib.sha256(), 0
    counted = list[tuple[int, int]]()
    start, size = position, source.size

    def add_zeros(count: int) -> None:
        if count > _HASHED_ZEROS:
            counted.append((position - start, count))
        else:
            for _ in range(count):
                digest.update(_ZEROS)

    while position < size:
        hole = (min(data_from(source, position), size) - position) // _PIECE_BYTES
        if hole:
            zeros += hole
            position += hole * _PIECE_BYTES
            continue
        count = min(_PIECE_BYTES, size - position)
        piece = source.window(position, count)[:count]
        if piece == _ZEROS:
            zeros += 1
        else:
            add_zeros(zeros)
            zeros = 0
            digest.update(piece)
        position += count
    add_zeros(zeros)
    if not counted:
        return digest.hexdigest()
    return hashlib.sha256(repr((digest.digest(), counted)).encode()).hexdigest()


def refuse_metadata_log(partition: Partition) -> None:
    """Raise Refused for the metadata log of a cluster."""
    if is_metadata_log(partition):
        raise Refused(
            f"{partition.path}: expected a topic's partition, found the metadata log of the "
            "cluster: its quorum decides what is valid there"
        )


def refuse_swaps(partition: Partition) -> None:
    """Raise Refused if the next start swaps files in before it loads the logs."""
    swaps = [segment.log.name for segment in partition.transient if segment.suffix == ".swap"]
    swaps += [entry.name.name for entry in partition.entries if entry.name.suffix == ".swap"]
    if swaps:
        raise Refused(
            f"{partition.path}: expected no files of an unfinished cleaning or split, found "
            f"{', '.join(sorted(swaps)[:3])}: let a broker finish it first"
        )


def refuse_links(logs: Iterable[Path]) -> None:
    """Raise Refused if a log is a symbolic link, which a repair cannot replace."""
    for log in logs:
        if log.is_symlink():
            raise Refused(f"{log}: expected a file, found a symbolic link")


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a regular file, None for other files and for missing ones."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
