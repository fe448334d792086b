"""Writes to a database in SQLite's WAL mode, and ends as if killed; tests of a release run it.

Each run finds what the one before it has left: a row, in a log that no connection has closed. It
uses the standard library alone, and prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sqlite3


def main() -> None:
    """Print what SQLite is, and the number of rows: before a transaction, in it, and after it."""
    writer = sqlite3.connect("state.db")
    (mode,) = writer.execute("PRAGMA journal_mode = wal").fetchone()
    writer.execute("CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY)")
    reader = sqlite3.connect("state.db")

    def rows() -> int:
        (number,) = reader.execute("SELECT count(*) FROM runs").fetchone()
        return int(number)

    seen = [rows()]
    with writer:
        writer.execute("INSERT INTO runs DEFAULT VALUES")
        seen.append(rows())
    seen.append(rows())
    found = {
        "version": sqlite3.sqlite_version,
        "options": [name for (name,) in writer.execute("PRAGMA compile_options")],
        "mode": mode,
        "rows": seen,
    }
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
