"""A state that flipped, or that another user has put there: it is not believed."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kdump.history.rows import TABLES
from kdump.ui import exits
from support.commands import Ran, kdump
from support.crashing.running import run
from support.forge import batch, record, write_partition
from support.long_samples import first_of

pytestmark = pytest.mark.once

COLUMNS = [(table.name, column.name) for table in TABLES for column in table.columns]
NOBODY = 65534


@pytest.fixture
def data(place: Path) -> Path:
    """A log directory whose first segment has a batch that fails its checksum, and its state."""
    top = place / "data"
    segments = {base: [batch(base, [record()] * 10)] for base in (0, 10, 20)}
    log = write_partition(top, "orders", 0, segments) / f"{0:020d}.log"
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    assert scrub(top).code == exits.PROBLEMS
    return top


def state_of(data: Path) -> Path:
    return data.parent / "scrub.db"


def scrub(data: Path, *options: str) -> Ran:
    return kdump("scrub", data, "--state", state_of(data), *options, searching=False)


def readers(data: Path) -> Iterator[Ran]:
    """What only reads a state."""
    state = state_of(data)
    yield kdump("scrub", "--status", "--state", state, searching=False)
    yield kdump("verify", "--changed-since-last", "--state", state, data, searching=False)


def commands(data: Path) -> Iterator[Ran]:
    """What reads a state, the scrub last: it writes again what it did not believe."""
    yield from readers(data)
    yield scrub(data)


def flipped(value: Any, chance: random.Random) -> Any:
    """The value with another bit, a value of another type, or a number that is none."""
    if chance.random() < 0.1:
        return chance.choice([None, "x", -1, 2**62, 1e999, b"\x1b[2J", "\x1b[2J"])
    if isinstance(value, int):
        return value ^ 1 << chance.randrange(63)
    content = bytearray(value.encode() if isinstance(value, str) else value or b"x")
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content.decode("latin-1") if isinstance(value, str) else bytes(content)


def flip(state: Path, table: str, column: str, chance: random.Random) -> bool:
    """Flip a value of a column in a state, where there is a row and the table takes the value."""
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        if not rows:
            return False
        row = chance.choice(rows)
        where = " AND ".join(f"{name} IS ?" for name in names)
        value = flipped(row[names.index(column)], chance)
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value, *row))
        except sqlite3.IntegrityError:
            return False
    return True


def never_fine(data: Path, what: str) -> None:
    """No command says of the corruption, which the state knows, that all is well."""
    status, verified, scrubbed = commands(data)
    for ran in (status, verified, scrubbed):
        assert ran.code in (exits.OK, exits.PROBLEMS, exits.INCOMPLETE), (what, ran.said)
        assert "Traceback" not in ran.said, what
        assert "\x1b" not in ran.said, what
    assert verified.code != exits.OK, what
    assert scrubbed.code != exits.OK, what


@pytest.mark.parametrize("place_of", first_of(COLUMNS, 8, every=9), ids=".".join)
@pytest.mark.slow
def test_a_value_that_flipped_is_never_believed(data: Path, place_of: tuple[str, str]) -> None:
    table, column = place_of
    chance = random.Random(f"{table} {column}")
    assert sum(flip(state_of(data), table, column, chance) for _ in range(5))
    never_fine(data, f"{table}.{column}")


TEXTS = [
    (table.name, column.name) for table in TABLES for column in table.columns if column.type is str
]


@pytest.mark.parametrize("place_of", first_of(TEXTS, 2), ids=".".join)
def test_text_that_is_no_utf_8_is_never_believed(data: Path, place_of: tuple[str, str]) -> None:
    """Python's module raises its own error for it, without a code of SQLite."""
    table, column = place_of
    with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
        connection.execute(f"UPDATE {table} SET {column} = CAST(x'ff' AS TEXT)")
    never_fine(data, f"{table}.{column}")


@pytest.mark.nightly
def test_two_thousand_flips(data: Path) -> None:
    """Half of them in values, every column; half of them anywhere in the file."""
    state, kept = state_of(data), data.parent / "kept.db"
    shutil.copy(state, kept)
    chance = random.Random(45)
    for number in range(2000):
        shutil.copy(kept, state)
        if number % 2:
            what = "{}.{}".format(*COLUMNS[number // 2 % len(COLUMNS)])
            flip(state, *COLUMNS[number // 2 % len(COLUMNS)], chance)
        else:
            content = bytearray(state.read_bytes())
            position = chance.randrange(len(content))
            what = f"byte {position}"
            content[position] ^= 1 << chance.randrange(8)
            state.write_bytes(content)
        never_fine(data, f"{number}: {what}")


def test_a_segment_whose_row_flipped_is_read_again(data: Path) -> None:
    """And the state is whole again."""
    with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
        connection.execute("UPDATE segments SET findings = '' WHERE base_offset = 0")
    ran = scrub(data)
    (summary,) = ran.of("summary")
    assert summary["bytes"] > 0
    assert [line["code"] for line in ran.of("finding") if line["severity"] == "error"] == [
        "batch-crc-mismatch"
    ]
    assert kdump("scrub", "--status", "--state", state_of(data), searching=False).code == exits.OK


@pytest.mark.parametrize("table", ["directories", "partitions", "runs", "run_directories"])
@pytest.mark.slow
def test_another_row_that_flipped_ends_the_run(data: Path, table: str) -> None:
    """With one line that says what to do."""
    with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
        connection.execute(f"UPDATE {table} SET sum = x'00'")
    ran = scrub(data)
    assert (ran.code, ran.lines) == (exits.INCOMPLETE, ())
    assert "with its digest, found another; move the file away" in ran.said
    assert len(ran.said.splitlines()) == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_version_that_flipped_signs_no_row(data: Path, version: int) -> None:
    """A row that has a digest is checked, whatever the version is: 3 and 2 differ by one bit."""
    with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
        connection.execute("UPDATE segments SET findings = '[]'")
        connection.execute(f"PRAGMA user_version = {version}")
    ran = scrub(data)
    assert ran.code == exits.PROBLEMS
    assert "batch-crc-mismatch" in {line["code"] for line in ran.of("finding")}
    with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
        connection.execute("UPDATE runs SET max_age_s = max_age_s + 1")
        connection.execute(f"PRAGMA user_version = {version}")
    ran = scrub(data)
    assert (ran.code, ran.lines) == (exits.INCOMPLETE, ())
    assert "with its digest, found another" in ran.said


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_version_that_flipped_loses_no_row(data: Path, version: int) -> None:
    def rows() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
            return connection.execute("SELECT * FROM segments WHERE base_offset > 0").fetchall()

    before = rows()
    assert len(before) == 2
    (read,) = scrub(data).of("summary")
    assert rows() == before
    assert read["bytes"] < sum(log.stat().st_size for log in data.rglob("*.log"))


@pytest.mark.parametrize("lost", [1, 5])
def test_rows_without_a_digest_are_forgotten(data: Path, lost: int) -> None:
    """Nothing shows that they are whole: every segment is read again. Numbers of others, too."""
    with closing(sqlite3.connect(state_of(data), isolation_level=None)) as connection:
        for table in TABLES[:lost]:
            connection.execute(f"ALTER TABLE {table.name} DROP COLUMN sum")
        connection.execute("UPDATE segments SET findings = '[]'")
        connection.execute("PRAGMA user_version = 2")
    for ran in readers(data):
        assert ran.code == exits.INCOMPLETE
        assert "found version 2, which the next scrub begins anew" in ran.said
    ran = scrub(data)
    (read,) = ran.of("summary")
    assert ran.code == exits.PROBLEMS
    assert read["bytes"] == sum(log.stat().st_size for log in data.rglob("*.log"))


# --- whose files they are


def plant(data: Path, name: str, link: str | None) -> Path:
    """Let the state's directory be for everybody, and put a file there as another user.

    Returns where a link leads.
    """
    state = state_of(data)
    state.parent.chmod(0o1777)
    file = state.with_name(state.name + name)
    content = file.read_bytes() if file.exists() else b""
    file.unlink(missing_ok=True)
    target = data.parent / "target"
    target.write_bytes(content or b"of root")
    if link == "symbolic":
        file.symlink_to(target)
    elif link == "hard":
        os.link(target, file)
    else:
        file.write_bytes(content)
        os.chown(file, NOBODY, NOBODY)
    return target


@pytest.mark.root
@pytest.mark.parametrize("link", [None, "symbolic", "hard"])
@pytest.mark.parametrize("name", ["", ".lock", "-wal", "-shm", "-journal"])
@pytest.mark.slow
def test_files_of_another_user_are_refused(data: Path, name: str, link: str | None) -> None:
    target = plant(data, name, link)
    before = target.read_bytes()
    for ran in commands(data):
        assert (ran.code, ran.lines) == (exits.REFUSED, ())
        assert "can have put there, found " in ran.said
        assert len(ran.said.splitlines()) == 1
    assert target.read_bytes() == before


@pytest.mark.root
def test_another_user_is_not_believed_by_a_third(data: Path) -> None:
    """A user who is not root reads the state of root, or its own, and no other."""
    state = state_of(data)
    state.parent.chmod(0o1777)

    def status() -> int:
        os.seteuid(1000)
        try:
            return kdump("scrub", "--status", "--state", state, searching=False).code
        finally:
            os.seteuid(0)

    assert status() == exits.OK
    os.chown(state, NOBODY, NOBODY)
    assert status() == exits.REFUSED


@pytest.mark.root
@pytest.mark.parametrize(
    "command", [["verify"], ["export", "--format", "jsonl"]], ids=lambda words: words[0]
)
def test_what_others_can_redirect_is_no_destination(data: Path, command: list[str]) -> None:
    data.parent.chmod(0o777)
    to = data.parent / "out"
    ran = run([*command, "--to", str(to), str(data)])
    assert (ran.code, ran.out) == (exits.REFUSED, "")
    assert "expected a path that only root can change" in ran.err
    assert not to.exists()


@pytest.mark.root
@pytest.mark.parametrize("command", [["scrub"], ["scrub", "--status"], ["verify"]])
def test_a_state_where_nobody_may_look_is_one_line(data: Path, command: list[str]) -> None:
    closed = data.parent / "closed"
    closed.mkdir(mode=0o700)
    options = ["--changed-since-last"] if command[0] == "verify" else []
    targets = [] if "--status" in command else [str(data)]
    argv = [*command, *options, "--state", str(closed / "deep" / "scrub.db"), *targets]
    ran = run(argv, prepare=lambda: os.setuid(NOBODY))
    assert (ran.code, ran.out) == (exits.INCOMPLETE, "")
    assert f"{closed / 'deep'} cannot be read: Permission denied" in ran.err
    assert len(ran.err.splitlines()) == 1
