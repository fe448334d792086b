"""The rows of a state: their columns, and the digest by which a row that flipped is found.

A state is believed no further than its rows are whole: each has a digest of its values, and each
value is checked as one of a hostile file. Who may write the file can write rows with right digests.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from kdump.errors import DecodeError
from kdump.history.records import EndReason
from kdump.values import frozen

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
#: The end of the year 9999 in ms, which is the last that can be printed.
_LAST_MS: Final = 253_402_300_799_999
#: A hundred thousand years in seconds; more is no age.
_MOST_SECONDS: Final = 3_155_760_000_000
_DIGEST_BYTES: Final = 8
#: The name of the last column of each table.
DIGEST: Final = "sum"


@frozen
class StateColumn:
    """A column: its name, the SQL type, and the values that it may have.

    A number is from ``least`` to ``most``. A text or a blob has ``least`` to ``most`` characters or
    bytes. With ``optional``, there may be no value.
    """

    name: str
    type: type[int] | type[str] | type[bytes]
    least: int = 0
    most: int = _MOST
    optional: bool = False

    def check(self, value: object) -> None:
        """Raise DecodeError for a value that no scrub writes."""
        if value is None and self.optional:
            return
        if type(value) is not self.type:
            raise DecodeError(
                f"expected {_KINDS[self.type]} in the column {self.name}, found {value!r:.60}"
            )
        found = value if isinstance(value, int) else len(value)
        if not self.least <= found <= self.most:
            raise DecodeError(
                f"expected {self.least} to {self.most} in the column {self.name}, found {found}"
            )

    @property
    def definition(self) -> str:
        """The column in ``CREATE TABLE``."""
        return f"{self.name} {_SQL[self.type]}" + ("" if self.optional else " NOT NULL")


_KINDS: Final = {int: "a whole number", str: "a text", bytes: "bytes"}
_SQL: Final = {int: "INTEGER", str: "TEXT", bytes: "BLOB"}


@frozen
class Table:
    """A table: its columns, whose values the digest in its last column is of.

    ``rules`` are its keys. ``options`` follow the columns.
    """

    name: str
    columns: tuple[StateColumn, ...]
    rules: str
    options: str = ""

    @property
    def creation(self) -> str:
        """The statement that creates it."""
        columns = ", ".join(column.definition for column in self.columns)
        return f"CREATE TABLE {self.name} ({columns}, {DIGEST} BLOB, {self.rules}){self.options};"

    @property
    def names(self) -> str:
        """The names of the columns, without the digest."""
        return ", ".join(column.name for column in self.columns)

    @property
    def insertion(self) -> str:
        """The statement that writes a row, also in the place of another one with its key."""
        places = ", ".join("?" * (len(self.columns) + 1))
        return f"INSERT OR REPLACE INTO {self.name} ({self.names}, {DIGEST}) VALUES ({places})"

    @property
    def selection(self) -> str:
        """The beginning of a statement that reads rows."""
        return f"SELECT {self.names}, {DIGEST} FROM {self.name} "

    def signed(self, values: Sequence[object]) -> tuple[object, ...]:
        """Return a row of ``values``, with its digest."""
        return *values, self._digest(values)

    def checked(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of a row that was read. Raise DecodeError if it is not as written."""
        values = self.valid(row[:-1])
        if row[-1] != self._digest(values):
            raise DecodeError(f"expected a row of {self.name} with its digest, found another")
        return values

    def valid(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return ``values``. Raise DecodeError if one of them is none of its column."""
        for column, value in zip(self.columns, values, strict=True):
            column.check(value)
        return tuple(values)

    def _digest(self, values: Sequence[object]) -> bytes:
        # Numbers, texts, bytes and None: no two of them have the same representation.
        content = repr((self.name, *values)).encode()
        return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _number(name: str, *, optional: bool = False) -> StateColumn:
    """Return the column of a number that another row has, or of any 64 bits."""
    return StateColumn(name, int, _LEAST, optional=optional)


def _time(name: str, *, optional: bool = False) -> StateColumn:
    return StateColumn(name, int, 0, _LAST_MS, optional)


def _hash(name: str) -> StateColumn:
    return StateColumn(name, bytes, 16, 16, optional=True)


DIRECTORIES: Final = Table(
    "directories",
    (_number("id"), StateColumn("key", bytes, 1, 1 << 20), StateColumn("path", bytes, 1, 1 << 20)),
    "PRIMARY KEY (id), UNIQUE (key)",
)
PARTITIONS: Final = Table(
    "partitions",
    (
        _number("id"),
        _number("directory"),
        StateColumn("name", bytes, 1, 1 << 20),
        StateColumn("topic_id", str, 0, 100),
    ),
    "PRIMARY KEY (id), UNIQUE (directory, name, topic_id)",
)
SEGMENTS: Final = Table(
    "segments",
    (
        _number("partition"),
        _number("base_offset"),
        _time("seen_ms"),
        _number("inode"),
        StateColumn("size", int),
        _number("mtime_ns"),
        StateColumn("sealed", int, 0, 1),
        StateColumn("log_bytes", int),
        StateColumn("changed", int, 0, 1),
        _time("tried_ms", optional=True),
        _time("read_ms", optional=True),
        StateColumn("batches", int, optional=True),
        _hash("digest"),
        _time("digest_ms", optional=True),
        _number("digest_form", optional=True),
        _number("ctime_ns", optional=True),
        StateColumn("version", str, 0, 1000, optional=True),
        _hash("earlier"),
        StateColumn("findings", str, 0, 1 << 26, optional=True),
        _number("max_timestamp", optional=True),
    ),
    "PRIMARY KEY (partition, base_offset)",
    " WITHOUT ROWID",
)
RUNS: Final = Table(
    "runs",
    (
        _number("id"),
        _time("begin_ms"),
        _time("end_ms", optional=True),
        StateColumn(
            "reason", str, 0, max(len(reason.value) for reason in EndReason), optional=True
        ),
        StateColumn("max_age_s", int, 0, _MOST_SECONDS),
    ),
    "PRIMARY KEY (id)",
)
RUN_DIRECTORIES: Final = Table(
    "run_directories",
    (
        _number("run"),
        _number("directory"),
        StateColumn("read_bytes", int),
        StateColumn("findings", str, 0, 1 << 26),
        StateColumn("exit", int, 0, 255),
    ),
    "PRIMARY KEY (run, directory)",
    " WITHOUT ROWID",
)
TABLES: Final = (DIRECTORIES, PARTITIONS, SEGMENTS, RUNS, RUN_DIRECTORIES)
