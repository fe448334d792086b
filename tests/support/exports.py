"""Exports in this process, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from zstandard import ZstdDecompressor

from kdump.audit.targets.context import Context
from kdump.audit.targets.target import assign, open_roots
from kdump.cli.main import main
from kdump.commands.export.export import Order, export
from kdump.commands.export.manifest import Manifest
from kdump.commands.export.output import FileFormat
from kdump.output.destination import create_destination
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from support.consumer_records import as_bytes
from support.forge import batch, record

JsonObject = dict[str, Any]
Capture = pytest.CaptureFixture[bytes]


def here(
    work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int], **_: object
) -> Iterator[tuple[int, Any]]:
    """Each task twice, the attempts in turn: of two results the last one counts."""
    assert len(tasks) == len(sizes)
    for number, task in reversed(list(enumerate(tasks))):
        work(task)
        yield number, work(task)


def exported(
    paths: Sequence[AnyPath], to: AnyPath, context: Context | None = None, **options: Any
) -> Manifest:
    targets = [one.with_listing() for root in open_roots(paths) for one in assign(root)]
    order = Order(**{"form": FileFormat.JSONL, "selection": Selection(), **options})
    with create_destination(to) as destination:
        return export(targets, order, destination, here, {}, context=context)


def lines_of(to: Path, manifest: Manifest) -> list[JsonObject]:
    files = [to / file.path for file in manifest.files]
    assert sorted(files) == sorted(to.rglob("part-*")), "just the files of the manifest"
    texts = [ZstdDecompressor().stream_reader(path.read_bytes()).read() for path in files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def dumped(capture: Capture, path: Path, *options: str) -> tuple[int, list[JsonObject]]:
    """The records that a dump prints of logs, with the names of their files."""
    code = main(["dump", "--format", "json", "--records", *options, str(path)])
    found, file, kind = [], "", ""
    for line in map(json.loads, capture.readouterr().out.splitlines()):
        if line["type"] == "file":
            file, kind = line["path"], line["kind"]
        elif line["type"] == "record" and kind == "log":
            found.append({**line, "source_file": file})
    return code, found


def as_row(line: JsonObject) -> JsonObject:
    """A line of a dump as a row of the table of records."""
    plain = {name: value for name, value in line.items() if not name.endswith("_base64")}
    headers = [
        {name: as_bytes(pair, name) for name in ("key", "value")} for pair in line["headers"]
    ]
    row = {**plain, **{name: as_bytes(line, name) for name in ("key", "value")}}
    del row["type"]
    return {**row, "headers": headers}


def rows_of(to: Path) -> list[JsonObject]:
    """The records of an export as Parquet, in order."""
    hive = ds.partitioning(pa.schema([("topic", pa.string())]), flavor="hive")
    return by_place(ds.dataset(to, partitioning=hive).to_table().to_pylist())


def by_place(rows: Iterable[JsonObject]) -> list[JsonObject]:
    names = ("topic", "source_file", "position", "offset")
    return sorted(rows, key=lambda row: [row[name] for name in names])


def one_batch(offset: int, *, epoch: int = 0, **more: Any) -> bytes:
    """Three records, each with its offset as value."""
    values = [record(value=f"{offset + place}@{epoch}".encode()) for place in range(3)]
    return batch(offset, values, leader_epoch=epoch, **more)


def copies(top: Path, *logs: bytes) -> list[Path]:
    paths = [top / f"broker{number}" / "orders-0" for number in range(len(logs))]
    for path, log in zip(paths, logs, strict=True):
        path.mkdir(parents=True)
        (path / f"{0:020d}.log").write_bytes(log)
    return paths
