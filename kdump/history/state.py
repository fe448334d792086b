"""State: what was read of each segment, when, and what was found, in a file of SQLite.

A directory is known by its ids, a partition by its directory, name and topic id, a segment by its
base offset: a moved mount is the same directory. Each segment is written as soon as it was read, so
that a run that is killed loses the segment that it was in. Rows are believed if they are whole, see
``rows``: a segment whose row is not is read again, and without another row no run can go on.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kdump.errors import DecodeError, StateError
from kdump.history.records import (
    DirectoryRun,
    DirectoryStatus,
    EndReason,
    FileState,
    PastRun,
    ReadPace,
    SegmentReading,
    SegmentRecord,
    decode_findings,
)
from kdump.history.rows import DIRECTORIES, PARTITIONS, RUN_DIRECTORIES, RUNS, SEGMENTS, Table
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights, acting

#: Parts of messages: what was expected, and what to do.
NO_STATE: Final = "expected the state of a scrub"
BEGIN_AGAIN: Final = (
    "move the file away, and the next scrub begins a new one: it reads everything again"
)
#: The seconds of a day: scrubs are started once a day, or more often.
_DAY: Final = 86_400.0


class ScrubState:
    """The rows of one file; ``state_file`` opens it.

    Every method raises StateError if the file cannot be read or written.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, rights: Rights | None = None
    ) -> None:
        self._path = path
        self._connection = connection
        self._rights = rights

    def check(self) -> None:
        """Raise StateError for a row without which no run can go on: of any table but segments."""
        for table in (DIRECTORIES, PARTITIONS, RUNS, RUN_DIRECTORIES):
            self._rows(table, "")

    def directories(self) -> list[tuple[int, str, Path]]:
        """Return the number, the key and the path of each directory."""
        return [
            (number, os.fsdecode(key), Path(os.fsdecode(path)))
            for number, key, path in self._rows(DIRECTORIES, "ORDER BY id")
        ]

    def find_directory(self, key: str) -> int | None:
        """Return the number of a directory; None if no run has seen it."""
        name = os.fsencode(key)
        # An index that flipped leads to the row of another key.
        found = self._rows(DIRECTORIES, "WHERE key = ?", name)
        return next((number for number, known, _ in found if known == name), None)

    def add_directory(self, key: str, path: AnyPath) -> int:
        """Return the number of a new directory."""
        number = self._next_number(DIRECTORIES)
        self._put(DIRECTORIES, number, os.fsencode(key), os.fsencode(str(path)))
        return number

    def move_directory(self, number: int, key: str | None, path: AnyPath) -> None:
        """Write where a directory is now, and its key if that is another one."""
        ((_, known, at),) = self._rows(DIRECTORIES, "WHERE id = ?", number)
        new = (known if key is None else os.fsencode(key), os.fsencode(str(path)))
        if new != (known, at):
            self._put(DIRECTORIES, number, *new)

    def partition(self, directory: int, name: str, topic_id: str) -> int:
        """Return the number of a partition in a directory; ``topic_id`` is empty if unknown.

        An unknown topic id is taken for the one that was known last, and one that becomes known for
        that of the same partition.
        """
        known = self._partitions(directory, name)
        if not topic_id and known:
            return max(known.values())
        number = known.get(topic_id)
        if number is None:
            number = known.get("", self._next_number(PARTITIONS))
            self._put(PARTITIONS, number, directory, os.fsencode(name), topic_id)
        return number

    def find_partition(self, directory: int, name: str, topic_id: str) -> int | None:
        """Return the number of a partition, the newest without a ``topic_id``; None without any."""
        known = self._partitions(directory, name)
        return known.get(topic_id) if topic_id else max(known.values(), default=None)

    def _partitions(self, directory: int, name: str) -> dict[str, int]:
        """Return the numbers of the partitions of this name by topic id."""
        named = directory, os.fsencode(name)
        rows = self._rows(PARTITIONS, "WHERE directory = ? AND name = ?", *named)
        return {row[3]: row[0] for row in rows if row[1:3] == named}

    def segments(self, partition: int) -> Mapping[int, SegmentRecord]:
        """Return the segments of a partition whose rows are whole, by base offset."""
        records = self._records("WHERE partition = ?", partition)
        return {record.base_offset: record for record in records}

    def record(self, partition: int, segment: SegmentRecord) -> None:
        """Write what is known of a segment."""
        file, reading = segment.file, segment.reading
        read: tuple[object, ...] = (None,) * 10
        if reading is not None:
            read = (
                reading.read_ms,
                reading.batches,
                reading.digest,
                reading.digest_ms,
                reading.digest_form,
                reading.ctime_ns,
                reading.version,
                reading.earlier,
                reading.findings,
                reading.max_timestamp,
            )
        self._put(
            SEGMENTS,
            partition,
            segment.base_offset,
            segment.seen_ms,
            file.inode,
            file.size,
            file.mtime_ns,
            int(segment.sealed),
            segment.log_bytes,
            int(segment.changed),
            segment.tried_ms,
            *read,
        )

    def forget_segments(self, partition: int, base_offsets: Iterable[int]) -> None:
        """Remove segments that no longer exist."""
        for base_offset in base_offsets:
            self._execute(
                "DELETE FROM segments WHERE partition = ? AND base_offset = ?",
                (partition, base_offset),
            )

    def forget_partitions(self, directory: int, present: Iterable[int | None]) -> None:
        """Remove the partitions of a directory that are not ``present``, with their segments."""
        rows = self._execute("SELECT id FROM partitions WHERE directory = ?", (directory,))
        for number in {number for (number,) in rows}.difference(present):
            self._execute("DELETE FROM segments WHERE partition = ?", (number,))
            self._execute("DELETE FROM partitions WHERE id = ?", (number,))

    def begin_run(self, begin_ms: int, max_age_s: int) -> int:
        """Write that a run begins; return its number."""
        number = self._next_number(RUNS)
        self._put(RUNS, number, begin_ms, None, None, max_age_s)
        return number

    def end_run(
        self, number: int, end_ms: int, reason: EndReason, directories: Mapping[int, DirectoryRun]
    ) -> None:
        """Write the end of a run, with what it did in each directory by the directory's number."""
        with self.transaction():
            ((_, begin_ms, _, _, max_age_s),) = self._rows(RUNS, "WHERE id = ?", number)
            self._put(RUNS, number, begin_ms, end_ms, reason.value, max_age_s)
            for directory, each in directories.items():
                findings = json.dumps([[*found, count] for found, count in each.findings.items()])
                done = each.read_bytes, findings, each.exit_code
                self._put(RUN_DIRECTORIES, number, directory, *done)

    def forget_runs(self, before_ms: int) -> None:
        """Remove the runs that began before a time, but of each directory the last success."""
        self._execute(
            "DELETE FROM run_directories WHERE run IN (SELECT id FROM runs WHERE begin_ms < ?) "
            "AND run NOT IN (SELECT max(run) FROM run_directories WHERE exit = 0 "
            "GROUP BY directory)",
            (before_ms,),
        )
        self._execute(
            "DELETE FROM runs WHERE begin_ms < ? AND id NOT IN (SELECT run FROM run_directories)",
            (before_ms,),
        )

    def status(
        self, now_ms: int, directories: Collection[int] | None = None
    ) -> Iterator[DirectoryStatus]:
        """Yield each directory that a run ended in, by path, with what is due at ``now_ms``.

        With ``directories``, only those of these numbers.
        """
        for directory, _, path in sorted(self.directories(), key=lambda each: os.fsencode(each[2])):
            if directories is not None and directory not in directories:
                continue
            ended = self._ended(directory)
            if not ended:
                continue
            run, of_run = ended[-1]
            records = self._records(
                "WHERE partition IN (SELECT id FROM partitions WHERE directory = ?)", directory
            )
            due = [record.log_bytes for record in records if record.is_due(now_ms, run.max_age_s)]
            yield DirectoryStatus(
                directory,
                path,
                run,
                of_run,
                max((run.end_ms for run, of_run in ended if not of_run.exit_code), default=None),
                sum(record.log_bytes for record in records),
                sum(due),
                len(records),
                len(due),
                min((record.known_ms for record in records), default=None),
            )

    def pace(self, status: DirectoryStatus, now_ms: int) -> ReadPace:
        """Return the pace of the runs in a directory within its ``--max-age``, until ``now_ms``."""
        after = now_ms - 1000 * status.run.max_age_s
        runs = [each for each in self._ended(status.directory) if each[0].begin_ms >= after]
        begin_ms = min((run.begin_ms for run, _ in runs), default=now_ms)
        read_bytes = sum(of_run.read_bytes for _, of_run in runs)
        return ReadPace(read_bytes, max((now_ms - begin_ms) / 1000, _DAY))

    def _ended(self, directory: int) -> list[tuple[PastRun, DirectoryRun]]:
        """Return the runs that ended in a directory, in their order."""
        runs = {
            number: (begin_ms, end_ms, reason, max_age_s)
            for number, begin_ms, end_ms, reason, max_age_s in self._rows(
                RUNS, "WHERE id IN (SELECT run FROM run_directories WHERE directory = ?)", directory
            )
        }
        rows = self._rows(RUN_DIRECTORIES, "WHERE directory = ? ORDER BY run", directory)
        with self._believed():
            return [
                (_run(*runs[number]), DirectoryRun(read_bytes, _counts(findings), code))
                for number, _, read_bytes, findings, code in rows
                if number in runs
            ]

    def _records(self, rest: str, value: int) -> list[SegmentRecord]:
        """Return the segments whose rows are whole; the others have to be read again."""
        records = list[SegmentRecord]()
        for row in self._execute(SEGMENTS.selection + rest, (value,)):
            try:
                records.append(_record(SEGMENTS.checked(row)))
            except DecodeError:
                continue
        return records

    def _rows(self, table: Table, rest: str, *values: object) -> list[tuple[Any, ...]]:
        """Return rows of a table. Raise StateError if one is not whole."""
        rows = self._execute(table.selection + rest, values)
        with self._believed():
            return list(map(table.checked, rows))

    @contextmanager
    def _believed(self) -> Iterator[None]:
        """Raise a DecodeError in the ``with`` block as StateError."""
        try:
            yield
        except DecodeError as error:
            raise StateError(f"{self._path}: {NO_STATE}: {error}; {BEGIN_AGAIN}") from error

    def _put(self, table: Table, *values: object) -> None:
        """Write a row, also in the place of another one with its key."""
        self._execute(table.insertion, table.signed(values))

    def _next_number(self, table: Table) -> int:
        ((last,),) = self._execute(f"SELECT max(id) FROM {table.name}")
        return 1 + (last if isinstance(last, int) else 0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is written in the ``with`` block, or nothing of it."""
        try:
            self._execute("BEGIN IMMEDIATE")
            yield
            self._execute("COMMIT")
        except BaseException:  # a signal may come amid each of these
            if self._connection.in_transaction:  # a full disk has rolled it back
                self._execute("ROLLBACK")
            raise

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        # SQLite opens files beside the state whenever it needs them.
        with acting(self._rights), state_errors(self._path):
            return self._connection.execute(statement, values).fetchall()


@contextmanager
def state_errors(path: Path) -> Iterator[None]:
    """Raise an error of SQLite in the ``with`` block as StateError about the file ``path``."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # Python's module has no code for text that is no UTF-8, and raises the latter where the
        # text of an error is none.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise StateError(
                f"{path}: cannot be written: {error}: if the disk is full, free space; start the "
                "scrub again: what was recorded stays"
            ) from error
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_CORRUPT:
            raise StateError(f"{path}: cannot be used: {error}") from error
        raise StateError(f"{path}: {NO_STATE}, found: {error}; {BEGIN_AGAIN}") from error


def _record(row: tuple[Any, ...]) -> SegmentRecord:
    """Return the segment of a row of ``SEGMENTS``. Raise DecodeError."""
    _, base_offset, seen_ms, *file, sealed, log_bytes, changed, tried_ms = row[:10]
    reading = None
    if row[10] is not None:
        *needed, _, findings, _ = row[10:]
        if None in (*needed, findings):
            raise DecodeError("expected all of what was read of a segment, found no value")
        reading = SegmentReading(*row[10:])
        decode_findings(findings, Path())
    return SegmentRecord(
        base_offset,
        seen_ms,
        FileState(*file),
        bool(sealed),
        log_bytes,
        bool(changed),
        tried_ms,
        reading,
    )


def _run(begin_ms: int, end_ms: int | None, reason: str | None, max_age_s: int) -> PastRun:
    try:
        ended = EndReason(reason)
    except ValueError as error:
        raise DecodeError(f"expected why a run ended, found {reason!r}") from error
    if end_ms is None:
        raise DecodeError("expected the time at which a run ended, found none")
    return PastRun(begin_ms, end_ms, ended, max_age_s)


def _counts(text: str) -> dict[tuple[str, str], int]:
    """Return how often a run found what, by severity and code. Raise DecodeError."""
    try:
        found = json.loads(text)
        counts = {(severity, code): count for severity, code, count in found}
    except (ValueError, TypeError, RecursionError) as error:
        raise DecodeError("expected findings with their numbers, found others") from error
    for (severity, code), count in counts.items():
        if not (isinstance(severity, str) and isinstance(code, str) and type(count) is int):
            raise DecodeError("expected a severity, a code and a number, found others")
    return counts
