"""Exports beside a broker that replaces and deletes logs after they were listed.

Spec: ``Cleaner.cleanSegments``, ``LocalLog.replaceSegments``; ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.targets.target import assign, open_roots
from kdump.commands.export.command import _report
from kdump.commands.export.export import Order, export
from kdump.commands.export.manifest import Manifest
from kdump.commands.export.output import FileFormat
from kdump.errors import VanishedError
from kdump.output.destination import create_destination
from kdump.storage.access import open_source
from kdump.storage.selection import Selection
from support.exports import JsonObject, lines_of, one_batch

BASES = (0, 10, 20, 30)


def log(partition: Path, base: int) -> Path:
    return partition / f"{base:020d}.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "orders-0"
    path.mkdir(parents=True)
    for base in BASES:
        log(path, base).write_bytes(one_batch(base))
    return path


def run(
    partition: Path, to: Path, change: Callable[[], None], *, live: bool = True, **options: Any
) -> tuple[Manifest, list[JsonObject]]:
    """Export a partition, which changes after it was listed, and before its logs are opened."""
    changes = [change]

    def spread(
        work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int], **_: object
    ) -> Iterator[tuple[int, Any]]:
        while changes:
            changes.pop()()
        yield from enumerate(map(work, tasks))

    (root,) = open_roots([partition])
    (target,) = (replace(one.with_listing(), stopped=not live) for one in assign(root))
    log_sizes = {segment.log: Path(str(segment.log)).stat().st_size for segment in target.segments}
    order = Order(**{"form": FileFormat.JSONL, "selection": Selection(), **options})
    with create_destination(to) as destination:
        manifest = export([target], order, destination, spread, log_sizes)
    return manifest, lines_of(to, manifest)


def offsets(lines: Sequence[JsonObject]) -> list[int]:
    return [line["offset"] for line in lines]


def clean(partition: Path) -> None:
    """Do as the cleaner, which makes one log of three and finds newer records of some keys."""
    log(partition, 0).write_bytes(one_batch(0) + one_batch(20))
    for base in (10, 20):
        log(partition, base).unlink()


def test_records_of_cleaned_logs_are_exported_once(partition: Path, tmp_path: Path) -> None:
    manifest, lines = run(partition, tmp_path / "out", lambda: clean(partition))
    assert offsets(lines) == [0, 1, 2, 20, 21, 22, 30, 31, 32]
    assert not manifest.troubles
    (entry,) = manifest.partitions
    assert (entry.records, entry.deleted) == (9, ())


def test_a_selection_holds_for_what_took_their_place(partition: Path, tmp_path: Path) -> None:
    selection = Selection(first_offset=21, last_offset=30)
    manifest, lines = run(
        partition, tmp_path / "out", lambda: clean(partition), selection=selection
    )
    assert offsets(lines) == [21, 22, 30]
    assert not manifest.troubles


def test_logs_that_retention_deletes_are_one_note(
    partition: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def delete() -> None:
        for base in (0, 10):
            log(partition, base).unlink()

    manifest, lines = run(partition, tmp_path / "out", delete)
    assert offsets(lines) == [20, 21, 22, 30, 31, 32]
    assert not manifest.troubles
    (entry,) = manifest.partitions
    assert entry.deleted == ((0, 19),)
    assert _report(manifest, quiet=False) == 0
    said = capsys.readouterr().out
    assert "orders-0: the broker deleted offsets 0..19 during the export" in said


def test_a_partition_that_is_deleted_is_one_trouble(
    partition: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, lines = run(partition, tmp_path / "out", lambda: shutil.rmtree(partition))
    (trouble,) = manifest.troubles
    assert (trouble.path, trouble.damaged, lines) == (str(partition), False, [])
    assert _report(manifest, quiet=False) == 5
    assert capsys.readouterr().out.count("incomplete: ") == 1


def test_without_a_broker_a_vanished_log_is_missing(partition: Path, tmp_path: Path) -> None:
    manifest, lines = run(
        partition, tmp_path / "out", lambda: log(partition, 10).unlink(), live=False
    )
    assert offsets(lines) == [0, 1, 2, 20, 21, 22, 30, 31, 32]
    (trouble,) = manifest.troubles
    assert trouble.path == str(log(partition, 10))


def test_a_log_that_keeps_vanishing_is_missing(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanishing(path: Any, **options: Any) -> Any:
        if path == log(partition, 10):
            raise VanishedError(path, f"{path}: cannot be read: No such file or directory")
        return open_source(path, **options)

    monkeypatch.setattr("kdump.commands.export.task.open_source", vanishing)
    manifest, lines = run(partition, tmp_path / "out", lambda: None)
    assert offsets(lines) == [0, 1, 2, 20, 21, 22, 30, 31, 32]
    (trouble,) = manifest.troubles
    assert trouble.path == str(log(partition, 10))
