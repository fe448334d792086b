"""Runs of ``kdump scrub`` on a log directory of a real broker, with a state beside it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kdump.commands.scrub.reading
from kdump.audit.survey.survey import Survey
from kdump.history.rows import TABLES
from support.commands import Ran
from support.commands import kdump as command
from support.fixtures_loader import copy_fixture

FIXTURE = "4.3.1/killed"
# Any: what is replaced here is not one of its own names.
reading: Any = kdump.commands.scrub.reading


@dataclass(frozen=True)
class World:
    """A log directory and the state of its scrubs; both are in ``top``."""

    top: Path

    @classmethod
    def make(cls, top: Path, fixture: str = FIXTURE) -> World:
        copy_fixture(fixture, top / "data")
        return cls(top)

    @property
    def data(self) -> Path:
        return self.top / "data"

    @property
    def state(self) -> Path:
        return self.top / "scrub.db"

    def scrub(self, *options: str | Path) -> Ran:
        """One run over the log directory."""
        return command("scrub", self.data, "--state", self.state, *options, searching=False)

    def log(self, partition: str, number: int = 0) -> Path:
        """The log of one of a partition's segments, by its place in their order."""
        return sorted((self.data / partition).glob("*.log"))[number]

    def bytes_of(self, *partitions: str) -> int:
        """The size of all logs, or of those of some partitions."""
        found = [self.data / name for name in partitions] or list(self.data.iterdir())
        return sum(log.stat().st_size for path in found for log in path.glob("*.log"))


def change_state(state: Path, statement: str, values: Sequence[object] = ()) -> None:
    """Change rows of a state; each has the digest of its new values."""
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute(statement, values)
        for table in TABLES:
            for row in connection.execute(table.selection).fetchall():
                connection.execute(table.insertion, table.signed(row[:-1]))


def summary(ran: Ran) -> dict[str, Any]:
    (line,) = ran.of("summary")
    return line


def status(ran: Ran) -> dict[str, Any]:
    (line,) = ran.of("scrub")
    return line


def codes(ran: Ran, severities: Sequence[str] = ("error", "incomplete", "warning")) -> list[str]:
    """The codes of findings that are more than notes, each once for each place."""
    return sorted(line["code"] for line in ran.of("finding") if line["severity"] in severities)


def rewrite(log: Path, data: bytes, *, silently: bool) -> None:
    """Put other bytes into a file; ``silently`` puts its modification time back."""
    before = log.stat()
    log.write_bytes(data)
    if silently:
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns + 5_000_000_000))


def with_surveys(change: Callable[[Survey, int], Survey]) -> Callable[[], None]:
    """What lets every survey of a scrub go through ``change``, with its number in the worker."""

    def prepare() -> None:
        real, count = reading.survey, 0

        def survey(*positional: object, **named: object) -> Survey:
            nonlocal count
            count += 1
            return change(real(*positional, **named), count)

        reading.survey = survey

    return prepare
