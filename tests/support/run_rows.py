"""The rows of the tables that ``verify --to`` appends to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

JsonObject = dict[str, Any]

#: The tables but that of runs.
TABLES = ("findings", "forecasts", "ledger", "statistics")
#: The columns that are about the run.
OF_RUN = {"run_id", "run_begin", "run_date"}


def rows(to: Path, table: str) -> list[JsonObject]:
    """The rows of one table, of all runs."""
    found: list[JsonObject] = pq.read_table(to / table).to_pylist()
    return found


def without(row: JsonObject, *names: str) -> str:
    """A row as text, without what differs from run to run, and without some columns."""
    kept = {name: value for name, value in row.items() if name not in {*OF_RUN, *names}}
    return json.dumps(kept, sort_keys=True)
