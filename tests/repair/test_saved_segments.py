"""Segments saved on another file system and brought back; ``tests/commands/trim`` kills it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.sizes.measure import OldSegment
from kdump.errors import Refused, SourceError, Unfinished
from kdump.repair.removal import OldSegments, remove_segments
from kdump.repair.saved_segments import (
    check_backup_directory,
    restore_segments,
    save_segments,
    saved_segments,
)
from kdump.repair.transaction.fingerprint import stamp_of
from support.crashing.places import small_disk
from support.crashing.seam import Call
from support.crashing.trees import take
from support.fixtures_loader import copy_fixture
from support.planning import calling

EPOCHS = "leader-epoch-checkpoint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "elsewhere", "8m") as directory:
        yield directory


def old_segments(data: Path, *, remote: bool = False) -> OldSegments:
    path, suffixes = data / "codec-lz4-0", (".log", ".index", ".timeindex")
    segments = tuple(
        OldSegment(base, end, None, 1000, tuple(f"{base:020}{suffix}" for suffix in suffixes))
        for base, end in pairwise((0, 48, 100))
    )
    stamps = {name: stamp_of(path / name) for old in segments for name in old.files}
    status = path.stat()
    files = {name: stamp for name, stamp in stamps.items() if stamp is not None}
    identity = status.st_dev, status.st_ino
    return OldSegments(
        path, data, identity, segments, files, stamp_of(data / "replication-offset-checkpoint"),
        remote=remote,
    )  # fmt: skip


def trimmed(data: Path, elsewhere: Path, *, remote: bool = False) -> OldSegments:
    old = old_segments(data, remote=remote)
    check_backup_directory(elsewhere, old, 1000)
    save_segments(old, elsewhere, "0a0b0c0d", assume_stopped=True)
    assert remove_segments(old, lambda _: None, assume_stopped=True)
    return old


def restore(old: OldSegments, elsewhere: Path) -> None:
    (saved,) = saved_segments(elsewhere, old.path, old.log_directory)
    assert saved.id == saved.record.id == "0a0b0c0d"
    restore_segments(saved, old.path, old.log_directory, assume_stopped=True)


@pytest.mark.parametrize("remote", [False, True])
def test_all_bytes_come_back(remote: bool, data: Path, elsewhere: Path) -> None:
    before = take(data / "codec-lz4-0")
    old = trimmed(data, elsewhere, remote=remote)
    assert take(data / "codec-lz4-0") != before
    restore(old, elsewhere)
    assert take(data / "codec-lz4-0") == before
    assert saved_segments(elsewhere, old.path, old.log_directory) == []


@pytest.mark.parametrize("number", [2, 5, 9, 14, 40])
def test_a_failed_call_of_saving_removes_nothing(number: int, data: Path, elsewhere: Path) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.number == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    before = take(data / "codec-lz4-0")
    old = old_segments(data)
    with calling(around), pytest.raises(Refused, match="nothing was removed"):
        save_segments(old, elsewhere, "0a0b0c0d", assume_stopped=True)
    assert take(data / "codec-lz4-0") == before
    assert saved_segments(elsewhere, old.path, old.log_directory) == []


@pytest.mark.parametrize("number", [1, 4, 12, 30, 45])
def test_a_failed_call_of_an_undo_can_go_on(number: int, data: Path, elsewhere: Path) -> None:
    before = take(data / "codec-lz4-0")
    old, count = trimmed(data, elsewhere), 0

    def around(call: Call, make: Callable[..., Any]) -> Any:
        nonlocal count
        count += 1
        if count == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    with calling(around), pytest.raises((Refused, Unfinished, SourceError)):
        restore(old, elsewhere)
    if saved_segments(elsewhere, old.path, old.log_directory):
        restore(old, elsewhere)
    assert take(data / "codec-lz4-0") == before


def changed(elsewhere: Path, **fields: object) -> None:
    (record,) = elsewhere.glob("*/saved.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": 2},
        {"segments": []},
        {"segments": [[]]},
        {"log_start": float("inf")},
        {"node": []},
        {"segments": [[f"{0:020}.index"]]},
        {"segments": [[f"{0:020}.log", f"{48:020}.index"]]},
        {"segments": [["../x.log"]]},
        {"segments": [[f"{48:020}.log"], [f"{0:020}.log"]]},
        {"log_start": 48},
        {"log_start_line": "x"},
        {"files": {}},
        {"files": {f"{0:020}.log": 5}},
    ],
)
def test_a_forged_record_is_refused(fields: dict[str, object], data: Path, elsewhere: Path) -> None:
    old = trimmed(data, elsewhere)
    changed(elsewhere, **fields)
    with pytest.raises(Refused, match="expected the record of a backup"):
        saved_segments(elsewhere, old.path, old.log_directory)


def test_saved_leader_epochs_are_compared(data: Path, elsewhere: Path) -> None:
    old = trimmed(data, elsewhere)
    (saved,) = elsewhere.glob(f"*/{EPOCHS}")
    saved.write_text("0\n1\n7 3\n")
    with pytest.raises(Refused, match="expected SHA-256"):
        restore(old, elsewhere)
    assert not (old.path / f"{0:020}.log").exists()


def test_a_backup_of_another_node_is_none(data: Path, elsewhere: Path) -> None:
    """Replicas of a partition have the same names and topic ids on all nodes."""
    old = trimmed(data, elsewhere)
    meta = data / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    assert saved_segments(elsewhere, old.path, data) == []


def test_times_that_a_file_system_rounds_do_not_matter(data: Path, elsewhere: Path) -> None:
    before = take(data / "codec-lz4-0")
    old = trimmed(data, elsewhere)
    for path in elsewhere.glob("*/0*"):
        os.utime(path, (1, 1))
    restore(old, elsewhere)
    assert take(data / "codec-lz4-0") == before


def test_what_changed_is_not_saved(data: Path, elsewhere: Path) -> None:
    old = old_segments(data)
    os.utime(old.path / f"{0:020}.log", (1, 1))
    with pytest.raises(Refused, match="plan again"):
        save_segments(old, elsewhere, "0a0b0c0d", assume_stopped=True)


def test_a_backup_needs_another_file_system_and_room(data: Path, elsewhere: Path) -> None:
    old = old_segments(data)
    with pytest.raises(Refused, match="on another file system"):
        check_backup_directory(data.parent, old, 1000)
    with pytest.raises(Refused, match="free bytes"):
        check_backup_directory(elsewhere, old, 8 << 20)


def test_it_comes_back_only_where_the_log_goes_on(data: Path, elsewhere: Path) -> None:
    old = trimmed(data, elsewhere)
    (saved,) = saved_segments(elsewhere, old.path, old.log_directory)
    line = data / "log-start-offset-checkpoint"
    before = line.read_bytes()
    line.write_text("0\n1\ncodec-lz4 0 100\n")
    with pytest.raises(Refused, match="a broker has raised it"):
        restore_segments(saved, old.path, data, assume_stopped=True)
    line.write_bytes(before)
    log = old.path / f"{0:020}.log"
    log.write_bytes(b"x")
    with pytest.raises(Refused, match="than the saved one"):
        restore_segments(saved, old.path, data, assume_stopped=True)
    log.unlink()
    for path in old.path.glob(f"{100:020}.*"):
        path.unlink()
    with pytest.raises(Refused, match="found no log"):
        restore_segments(saved, old.path, data, assume_stopped=True)
    with pytest.raises(SourceError):
        saved_segments(elsewhere / "nowhere", old.path, data)


@pytest.mark.parametrize(("epochs", "ok"), [("nonsense", False), (None, True)])
def test_leader_epochs_that_a_broker_left(
    epochs: str | None, ok: bool, data: Path, elsewhere: Path
) -> None:
    old = trimmed(data, elsewhere)
    path = old.path / EPOCHS
    path.unlink()
    if epochs is not None:
        path.write_text(epochs)
    if ok:
        restore(old, elsewhere)
        assert path.read_text().splitlines()[2:] == ["0 0", "2 76"]
    else:
        with pytest.raises(Refused, match="expected leader epochs"):
            restore(old, elsewhere)
        assert path.read_text() == "nonsense"
