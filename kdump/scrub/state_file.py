"""Opens the file of a state: its lock, its version, and that it is a state at all.

During a run the file is in WAL mode. Others can then read it, and no commit waits for the disk: a
power failure loses the last commits. Between runs the state is one file, unless another process had
it open when the last run ended.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from kdump.errors import Refused, StateError
from kdump.scrub.state import BEGIN_AGAIN, NO_STATE, State, state_errors
from kdump.storage.rights import Rights, acting

#: The version of the tables. A file of a later version is refused.
_VERSION: Final = 2
#: "kdmp", in the header of the file.
_APPLICATION: Final = 0x6B646D70
_TABLES: Final = """
CREATE TABLE directories (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, path BLOB NOT NULL);
CREATE TABLE partitions (
  id INTEGER PRIMARY KEY, directory INTEGER NOT NULL REFERENCES directories,
  name BLOB NOT NULL, topic_id TEXT NOT NULL, UNIQUE (directory, name, topic_id)
);
CREATE TABLE segments (
  partition INTEGER NOT NULL REFERENCES partitions, base_offset INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, sealed INTEGER NOT NULL, log_bytes INTEGER NOT NULL,
  changed INTEGER NOT NULL, tried_ms INTEGER, read_ms INTEGER, batches INTEGER, digest BLOB,
  digest_ms INTEGER, digest_form INTEGER, ctime_ns INTEGER, version TEXT, earlier BLOB,
  findings TEXT, max_timestamp INTEGER, PRIMARY KEY (partition, base_offset)
) WITHOUT ROWID;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, begin_ms INTEGER NOT NULL, end_ms INTEGER, reason TEXT,
  max_age_s INTEGER NOT NULL
);
CREATE TABLE run_directories (
  run INTEGER NOT NULL REFERENCES runs, directory INTEGER NOT NULL REFERENCES directories,
  read_bytes INTEGER NOT NULL, findings TEXT NOT NULL, exit INTEGER NOT NULL,
  PRIMARY KEY (run, directory)
) WITHOUT ROWID;
"""


#: What makes the tables of version 1 those of this one, in the file and for a reader of it.
_SINCE_1: Final = "ALTER TABLE segments ADD COLUMN max_timestamp INTEGER;"
_AS_SINCE_1: Final = (
    "CREATE TEMP VIEW segments AS SELECT *, NULL AS max_timestamp FROM main.segments"
)


@contextmanager
def open_state(path: Path, rights: Rights | None = None) -> Iterator[State]:
    """Yield the state in the file ``path``, which is created if it does not exist.

    As root, everything is done with ``rights``. Only one run at a time has the state. Raises
    Refused while another run has it, and StateError if the file is no state, is of a later version,
    or cannot be written.
    """
    with _lock(path, rights):
        with acting(rights), state_errors(path):
            connection = _begin(path)
        try:
            yield State(path, connection, rights)
        finally:
            with acting(rights):
                with suppress(sqlite3.Error):  # a reader has it open, or the disk is full
                    connection.execute("PRAGMA journal_mode = DELETE")
                connection.close()


@contextmanager
def read_state(path: Path) -> Iterator[State]:
    """Yield the state in the file ``path``, only to be read; a run may be writing it.

    Raises StateError if there is no such file, or it is no state or of a later version.
    """
    with state_errors(path):
        connection = _connect(path, "ro")
        try:
            if _check(path, connection):
                raise StateError(f"{path}: {NO_STATE}, found an empty file")
            if _version(connection) == 1:
                connection.execute(_AS_SINCE_1)
            yield State(path, connection)
        finally:
            connection.close()


def _begin(path: Path) -> sqlite3.Connection:
    """Return a connection that may write, to a state that is created if it does not exist."""
    _create(path)
    connection = _connect(path, "rw")
    try:
        if _check(path, connection):
            connection.executescript(
                f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION}; "
                f"PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        elif _version(connection) == 1:
            connection.executescript(f"BEGIN; {_SINCE_1} PRAGMA user_version = {_VERSION}; COMMIT;")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript("BEGIN IMMEDIATE; COMMIT;")  # fails if it cannot be written
    except BaseException:  # Ctrl-C too: the caller does not have the connection yet
        connection.close()
        raise
    return connection


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: cannot be created: {error.strerror}") from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    try:
        status = path.stat()
    except OSError as error:
        raise StateError(f"{path}: cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise StateError(f"{path}: expected a file with the state of a scrub, found no file")
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _check(path: Path, connection: sqlite3.Connection) -> bool:
    """Return whether the file is empty. Raise StateError if it is not a state of this version."""
    ((application,),) = connection.execute("PRAGMA application_id")
    version = _version(connection)
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if application == version == tables == 0:
        return True
    if application != _APPLICATION:
        raise StateError(
            f"{path}: {NO_STATE}, found a database of another program: name another file with "
            "--state"
        )
    if version > _VERSION:
        raise StateError(
            f"{path}: expected a state of version {_VERSION}, found version {version}: use the "
            "release of kdump that wrote it, or name another file with --state"
        )
    ((sound,),) = connection.execute("PRAGMA quick_check(1)")
    if sound != "ok":
        raise StateError(f"{path}: {NO_STATE}, found damage: {sound}; {BEGIN_AGAIN}")
    return False


def _version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version")
    return int(version)


@contextmanager
def _lock(path: Path, rights: Rights | None) -> Iterator[None]:
    """Hold the lock of a state file. Its own file has it: SQLite locks the state for moments."""
    lock = path.with_name(f"{path.name}.lock")
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with acting(rights):
            descriptor = os.open(lock, flags, 0o644)
    except OSError as error:
        raise StateError(f"{lock}: cannot be opened: {error.strerror}") from error
    try:
        try:
            # Not flock(2), whose lock a worker would hold on after its parent was killed.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise Refused(
                f"{path}: another scrub uses this state: wait for its end, or name another file "
                "with --state"
            ) from error
        yield
    finally:
        os.close(descriptor)
