"""State: what was read of each segment, when, and what was found, in a file of SQLite.

A directory is known by its ids, a partition by its directory, name and topic id, a segment by its
base offset: a moved mount is the same directory. Each segment is written as soon as it was read, so
that a run that is killed loses the segment that it was in.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kdump.errors import StateError
from kdump.scrub.records import (
    DirectoryRun,
    FileState,
    Reading,
    ReadPace,
    Reason,
    Run,
    SegmentRecord,
    Status,
)
from kdump.storage.objects.address import AnyPath
from kdump.storage.rights import Rights, acting

#: Parts of messages: what was expected, and what to do.
NO_STATE: Final = "expected the state of a scrub"
BEGIN_AGAIN: Final = (
    "move the file away, and the next scrub begins a new one: it reads everything again"
)
#: The seconds of a day: scrubs are started once a day, or more often.
_DAY: Final = 86_400.0
_SEGMENT: Final = (
    "base_offset, seen_ms, inode, size, mtime_ns, sealed, log_bytes, changed, tried_ms, read_ms, "
    "batches, digest, digest_ms, digest_form, ctime_ns, version, earlier, findings, max_timestamp"
)


class State:
    """The rows of one file; ``state_file`` opens it.

    Every method raises StateError if the file cannot be read or written.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, rights: Rights | None = None
    ) -> None:
        self._path = path
        self._connection = connection
        self._rights = rights

    def directories(self) -> list[tuple[int, str, Path]]:
        """Return the number, the key and the path of each directory."""
        rows = self._execute("SELECT id, key, path FROM directories ORDER BY id")
        return [(number, os.fsdecode(key), Path(os.fsdecode(path))) for number, key, path in rows]

    def find_directory(self, key: str) -> int | None:
        """Return the number of a directory; None if no run has seen it."""
        rows = self._execute("SELECT id FROM directories WHERE key = ?", (os.fsencode(key),))
        return rows[0][0] if rows else None

    def add_directory(self, key: str, path: AnyPath) -> int:
        """Return the number of a new directory."""
        self._execute(
            "INSERT INTO directories (key, path) VALUES (?, ?)",
            (os.fsencode(key), os.fsencode(str(path))),
        )
        return self._number("SELECT last_insert_rowid()")

    def move_directory(self, number: int, key: str | None, path: AnyPath) -> None:
        """Write where a directory is now, and its key if that is another one."""
        self._execute(
            "UPDATE directories SET path = ?1, key = coalesce(?2, key) WHERE id = ?3",
            (os.fsencode(str(path)), None if key is None else os.fsencode(key), number),
        )

    def partition(self, directory: int, name: str, topic_id: str) -> int:
        """Return the number of a partition in a directory; ``topic_id`` is empty if unknown.

        An unknown topic id is taken for the one that was known last, and one that becomes known for
        that of the same partition.
        """
        named = directory, os.fsencode(name)
        fields = (*named, topic_id)
        if not topic_id and (last := self.find_partition(directory, name, topic_id)) is not None:
            return last
        self._execute(
            "UPDATE OR IGNORE partitions SET topic_id = ?3 "
            "WHERE directory = ?1 AND name = ?2 AND topic_id = ''",
            fields,
        )
        self._execute(
            "INSERT OR IGNORE INTO partitions (directory, name, topic_id) VALUES (?, ?, ?)", fields
        )
        return self._number(
            "SELECT id FROM partitions WHERE directory = ? AND name = ? AND topic_id = ?", fields
        )

    def find_partition(self, directory: int, name: str, topic_id: str) -> int | None:
        """Return the number of a partition, the newest without a ``topic_id``; None without any."""
        rows = self._execute(
            "SELECT id FROM partitions WHERE directory = ?1 AND name = ?2 "
            "AND ?3 IN ('', topic_id) ORDER BY id DESC",
            (directory, os.fsencode(name), topic_id),
        )
        return rows[0][0] if rows else None

    def segments(self, partition: int) -> Mapping[int, SegmentRecord]:
        """Return the segments of a partition, by base offset."""
        rows = self._execute(f"SELECT {_SEGMENT} FROM segments WHERE partition = ?", (partition,))
        return {record.base_offset: record for record in map(_record, rows)}

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
        self._execute(
            f"INSERT OR REPLACE INTO segments (partition, {_SEGMENT}) "
            f"VALUES (?{', ?' * (9 + len(read))})",
            (
                partition,
                segment.base_offset,
                segment.seen_ms,
                file.inode,
                file.size,
                file.mtime_ns,
                segment.sealed,
                segment.log_bytes,
                segment.changed,
                segment.tried_ms,
                *read,
            ),
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
        self._execute("INSERT INTO runs (begin_ms, max_age_s) VALUES (?, ?)", (begin_ms, max_age_s))
        return self._number("SELECT last_insert_rowid()")

    def end_run(
        self, number: int, end_ms: int, reason: Reason, directories: Mapping[int, DirectoryRun]
    ) -> None:
        """Write the end of a run, with what it did in each directory by the directory's number."""
        with self.transaction():
            self._execute(
                "UPDATE runs SET end_ms = ?, reason = ? WHERE id = ?",
                (end_ms, reason.value, number),
            )
            for directory, each in directories.items():
                findings = json.dumps([[*found, count] for found, count in each.findings.items()])
                self._execute(
                    "INSERT INTO run_directories VALUES (?, ?, ?, ?, ?)",
                    (number, directory, each.read_bytes, findings, each.exit_code),
                )

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

    def status(self, now_ms: int, directories: Collection[int] | None = None) -> Iterator[Status]:
        """Yield each directory that a run ended in, by path, with what is due at ``now_ms``.

        With ``directories``, only those of these numbers.
        """
        rows = self._execute(
            "SELECT d.id, d.path, r.begin_ms, r.end_ms, r.reason, r.max_age_s, s.read_bytes, "
            "s.findings, s.exit FROM directories d "
            "JOIN run_directories s ON s.directory = d.id JOIN runs r ON r.id = s.run "
            "WHERE r.id = (SELECT max(run) FROM run_directories WHERE directory = d.id) "
            "ORDER BY d.path"
        )
        for directory, path, begin, end, reason, max_age_s, read_bytes, findings, code in rows:
            if directories is not None and directory not in directories:
                continue
            ((success_ms,),) = self._execute(
                "SELECT max(r.end_ms) FROM runs r JOIN run_directories s ON s.run = r.id "
                "WHERE s.directory = ? AND s.exit = 0",
                (directory,),
            )
            found = {(severity, name): count for severity, name, count in json.loads(findings)}
            records = self._segments_of(directory)
            due = [record.log_bytes for record in records if record.is_due(now_ms, max_age_s)]
            yield Status(
                directory,
                Path(os.fsdecode(path)),
                Run(begin, end, Reason(reason), max_age_s),
                DirectoryRun(read_bytes, found, code),
                success_ms,
                sum(record.log_bytes for record in records),
                sum(due),
                len(records),
                len(due),
                min((record.known_ms for record in records), default=None),
            )

    def pace(self, status: Status, now_ms: int) -> ReadPace:
        """Return the pace of the runs in a directory within its ``--max-age``, until ``now_ms``."""
        ((read_bytes, begin_ms),) = self._execute(
            "SELECT total(s.read_bytes), min(r.begin_ms) FROM runs r "
            "JOIN run_directories s ON s.run = r.id WHERE s.directory = ? AND r.begin_ms >= ?",
            (status.directory, now_ms - 1000 * status.run.max_age_s),
        )
        seconds = 0.0 if begin_ms is None else (now_ms - begin_ms) / 1000
        return ReadPace(int(read_bytes), max(seconds, _DAY))

    def _segments_of(self, directory: int) -> list[SegmentRecord]:
        rows = self._execute(
            f"SELECT {_SEGMENT} FROM segments WHERE partition IN "
            "(SELECT id FROM partitions WHERE directory = ?)",
            (directory,),
        )
        return list(map(_record, rows))

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

    def _number(self, query: str, values: tuple[object, ...] = ()) -> int:
        ((number,),) = self._execute(query, values)
        return int(number)

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        # SQLite opens files beside the state whenever it needs them.
        with acting(self._rights), state_errors(self._path):
            return self._connection.execute(statement, values).fetchall()


@contextmanager
def state_errors(path: Path) -> Iterator[None]:
    """Raise an error of SQLite in the ``with`` block as StateError about the file ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise StateError(
                f"{path}: cannot be written: {error}: if the disk is full, free space; start the "
                "scrub again: what was recorded stays"
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise StateError(f"{path}: cannot be used: {error}") from error
        raise StateError(f"{path}: {NO_STATE}, found: {error}; {BEGIN_AGAIN}") from error


def _record(row: tuple[Any, ...]) -> SegmentRecord:
    base_offset, seen_ms, *file, sealed, log_bytes, changed, tried_ms = row[:9]
    reading = None if row[9] is None else Reading(*row[9:])
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
