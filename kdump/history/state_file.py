"""Opens the file of a state: its lock, its version, and that it is a state at all.

During a run the file is in WAL mode. Others can then read it, and no commit waits for the disk: a
power failure loses the last commits. Between runs the state is one file, unless another process had
it open when the last run ended.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from kdump.errors import Refused, StateError
from kdump.history.rows import DIGEST, TABLES, Table
from kdump.history.state import BEGIN_AGAIN, NO_STATE, ScrubState, state_errors
from kdump.output.files import LOCK, check_owners, try_lock
from kdump.storage.rights import Rights, acting

#: The version of the tables. A file of a later version is refused.
_VERSION: Final = 3
#: "kdmp", in the header of the file.
_APPLICATION: Final = 0x6B646D70


@contextmanager
def open_state(path: Path, rights: Rights | None = None) -> Iterator[ScrubState]:
    """Yield the state in the file ``path``, which is created if it does not exist.

    As root, everything is done with ``rights``. Only one run at a time has the state. Raises
    Refused while another run has it, or if another user may have put one of its files there, and
    StateError if the file is no state, is of a later version, or cannot be written.
    """
    check_owners(path)
    with _lock(path, rights):
        with acting(rights), state_errors(path):
            connection = _begin(path)
        try:
            yield _checked(path, connection, rights)
        finally:
            with acting(rights):
                with suppress(sqlite3.Error):  # a reader has it open, or the disk is full
                    connection.execute("PRAGMA journal_mode = DELETE")
                connection.close()


@contextmanager
def read_state(path: Path, rights: Rights | None = None) -> Iterator[ScrubState]:
    """Yield the state in the file ``path``, only to be read; a run may be writing it.

    As root, everything is done with ``rights``. Raises Refused if another user may have put one of
    its files there, and StateError if there is no such file, or it is no state of this version.
    """
    check_owners(path)
    with acting(rights), state_errors(path):
        connection = _connect(path, "ro")
    try:
        with acting(rights), state_errors(path):
            version = _check(path, connection)
        if version != _VERSION:
            found = "an empty file" if version is None else f"version {version}"
            raise StateError(
                f"{path}: expected a state of version {_VERSION}, found {found}, which the next "
                "scrub begins anew: it reads everything again"
            )
        yield _checked(path, connection, rights)
    finally:
        with acting(rights):
            connection.close()


def _checked(path: Path, connection: sqlite3.Connection, rights: Rights | None) -> ScrubState:
    """Return the state of an open file. Raises Refused and StateError."""
    check_owners(path)  # again: SQLite has made files since
    state = ScrubState(path, connection, rights)
    state.check()
    return state


def _begin(path: Path) -> sqlite3.Connection:
    """Return a connection that may write, to a state that is created if it does not exist."""
    _create(path)
    connection = _connect(path, "rw")
    try:
        version = _check(path, connection)
        if version is None:
            tables = "".join(table.creation for table in TABLES)
            connection.executescript(
                f"BEGIN; {tables} PRAGMA application_id = {_APPLICATION}; "
                f"PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        elif version != _VERSION:
            _convert(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript("BEGIN IMMEDIATE; COMMIT;")  # fails if it cannot be written
    except BaseException:  # Ctrl-C too: the caller does not have the connection yet
        connection.close()
        raise
    return connection


def _convert(connection: sqlite3.Connection) -> None:
    """Make a state of this version of an earlier one.

    Where every row has a digest, the version alone has flipped: rows stay as they are, with the
    digest that they have. Rows without one cannot be checked, so that none of them stays: all is
    read again.
    """
    connection.execute("BEGIN IMMEDIATE")
    if not all(_has_digests(connection, table) for table in TABLES):
        for table in TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {table.name}")
            connection.execute(table.creation)
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _has_digests(connection: sqlite3.Connection, table: Table) -> bool:
    columns = connection.execute(f"PRAGMA table_info({table.name})")
    return DIGEST in {name for _, name, *_ in columns}


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


def _check(path: Path, connection: sqlite3.Connection) -> int | None:
    """Return the version of a state, None for an empty file. Raise StateError for another one."""
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if application == version == tables == 0:
        return None
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
    return int(version)


@contextmanager
def _lock(path: Path, rights: Rights | None) -> Iterator[None]:
    """Hold the lock of a state file. Its own file has it: SQLite locks the state for moments."""
    lock = path.with_name(path.name + LOCK)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with acting(rights):
            descriptor = os.open(lock, flags, 0o644)
    except OSError as error:
        raise StateError(f"{lock}: cannot be opened: {error.strerror}") from error
    try:
        if not try_lock(descriptor):
            raise Refused(
                f"{path}: another scrub uses this state: wait for its end, or name another file "
                "with --state"
            )
        yield
    finally:
        os.close(descriptor)
