"""Exports on Spark of one fixture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kdump.cli.main import main

FIXTURE = "4.3.1/clean"


def records(to: Path) -> list[tuple[Any, ...]]:
    """Which records the files hold, by topic, partition and offset."""
    names = ["topic", "partition", "offset"]
    columns = pq.read_table(to, columns=names).to_pydict()
    return sorted(zip(*(columns[name] for name in names), strict=True))


def exported(path: object, to: Path) -> int:
    code = main(["export", "--master", "local[2]", "--to", str(to), str(path)])
    manifest = json.loads((to / "_manifest.json").read_text())
    assert len(records(to)) == manifest["records"]
    assert sorted(str(one.relative_to(to)) for one in to.rglob("*") if one.is_file()) == sorted(
        ["_manifest.json", *(file["path"] for file in manifest["files"])]
    )
    assert not (to / "_temporary").exists()
    return code
