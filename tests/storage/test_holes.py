"""Holes of sparse files: zeros that are not read, and nothing else is different."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.survey import header_digest
from kdump.audit.survey.header_digest import HeaderDigest
from kdump.audit.survey.survey import survey
from kdump.errors import VanishedError
from kdump.storage import source as sources
from kdump.storage.access import open_source
from kdump.storage.logdir import MAX_LOG_BYTES, read_partition
from kdump.storage.source import Source, WindowedFile, data_from, stretch
from kdump.storage.walk import Damage, walk
from kdump.ui import exits
from support.forge import batch, record, write_partition
from support.long_samples import first_of

BLOCK = 4096
TIB = 1 << 40
RUN = "import sys; from kdump.cli.main import main; sys.exit(main())"
COMMANDS = [
    ["scrub", "--state", "state"],
    ["export", "--format", "jsonl", "--to", "out"],
    ["verify"],
    ["verify", "--deep"],
    ["verify", "--quick"],
    ["next-start", "--scan"],
    ["dump"],
    ["dump", "--records"],
    ["manifest", "--to", "file.kdm"],
    ["salvage", "--output", "new"],
]


def write(path: Path, parts: list[bytes | int]) -> Path:
    """Write a file of bytes, and of holes of a number of bytes."""
    with path.open("wb") as file:
        for part in parts:
            if isinstance(part, int):
                file.seek(part, os.SEEK_CUR)
            else:
                file.write(part)
        file.truncate(file.tell())
    return path


def filled(path: Path) -> Path:
    """A copy of the file, without its holes."""
    whole = path.with_suffix(".filled")
    whole.write_bytes(path.read_bytes())
    return whole


@pytest.fixture(autouse=True)
def _holes(tmp_path: Path) -> None:
    probe = write(tmp_path / "probe", [b"x", 1 << 20])
    with WindowedFile(probe) as source:
        if data_from(source, BLOCK) != source.size:
            pytest.skip("the file system of temporary files has no holes")


def parts_of(rng: random.Random) -> list[bytes | int]:
    """Batches, garbage and holes, which often do not begin or end at a block."""
    parts: list[bytes | int] = []
    size = offset = 0
    for _ in range(rng.randrange(1, 8)):
        kind = rng.random()
        if kind < 0.4:
            made = [record(rng.randbytes(rng.choice((9, 900))))] * rng.randrange(1, 4)
            data = batch(offset, made)
            parts.append(data)
            offset += len(made)
            size += len(data)
        elif kind < 0.5:
            garbage = rng.randbytes(rng.randrange(1, 3000))
            parts.append(garbage)
            size += len(garbage)
        else:
            hole = rng.randrange(2, 40) * BLOCK - rng.choice((0, size % BLOCK, 3, 61))
            parts.append(hole)
            size += hole
    return parts


def pieces(source: Source) -> tuple[list[Any], bytes]:
    digest, found = HeaderDigest(), list[Any]()
    for piece in walk(source, 0):
        digest.add(piece, source)
        found.append(piece if isinstance(piece, Damage) else (piece.rows.tolist(), piece.hunted))
    return found, digest.digest()


@pytest.mark.parametrize("opened", [partial(open_source, mapped=True), WindowedFile])
def test_a_hole_is_zeros(opened: Callable[[Path], Any], tmp_path: Path) -> None:
    rng = random.Random(45)
    skipped = 0
    for number in range(40):
        path = write(tmp_path / f"{number}.log", parts_of(rng))
        with opened(path) as sparse, opened(filled(path)) as whole:
            assert pieces(sparse) == pieces(whole), number
            assert all(data_from(whole, at) == at for at in range(0, whole.size, BLOCK))
            data = path.read_bytes()
            start = rng.randrange(len(data) + 1)
            assert b"".join(stretch(sparse, start, len(data))) == data[start:]
            skipped += any(data_from(sparse, at) > at for at in range(0, sparse.size, BLOCK))
    assert skipped > 20


def test_a_batch_may_begin_in_a_hole(tmp_path: Path) -> None:
    """The base offset of a batch begins with zeros."""
    data = batch(7, [record(b"value")])
    assert data[:7] == bytes(7)
    path = write(tmp_path / "log", [b"garbage", 3 * BLOCK - 7, data[7:]])
    with WindowedFile(path) as source:
        assert data_from(source, BLOCK) == 3 * BLOCK
        damage, table = walk(source, 0)
    assert isinstance(damage, Damage)
    assert not isinstance(table, Damage)
    assert (damage.size, table.position) == (3 * BLOCK - 7, 3 * BLOCK - 7)


def test_a_truncated_file_is_no_hole(tmp_path: Path) -> None:
    path = write(tmp_path / "log", [b"x", 1 << 20])
    with WindowedFile(path) as source:
        os.truncate(path, BLOCK)
        assert data_from(source, 2 * BLOCK) == 2 * BLOCK
        with pytest.raises(VanishedError):
            source.window(2 * BLOCK)


@pytest.mark.parametrize("error", [errno.EINVAL, None])
def test_without_holes_of_the_system_zeros_are_read(
    error: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "log", [batch(0, [record()]), 1 << 20])

    def refuse(*_: object) -> int:
        raise OSError(error, "no holes here")

    with WindowedFile(path) as source:
        known = pieces(source)
        monkeypatch.setattr(sources, "_SEEK_DATA", None if error is None else os.SEEK_DATA)
        monkeypatch.setattr(os, "lseek", refuse)
        assert data_from(source, BLOCK) == BLOCK
        assert pieces(source) == known


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A partition whose log has 1 TiB, nearly all of it a hole at its end."""
    write_partition(tmp_path, "t", 0, {0: [batch(0, [record(b"one")]), batch(1, [record(b"two")])]})
    try:
        os.truncate(tmp_path / "t-0" / f"{0:020}.log", TIB)
    except OSError as error:
        pytest.skip(f"the file system has no such files: {error}")
    return tmp_path / "t-0"


@pytest.mark.parametrize("command", first_of(COMMANDS, 3), ids=" ".join)
def test_commands_do_not_read_a_hole(command: list[str], large: Path) -> None:
    """Reading the zeros would take many minutes."""
    argv = [sys.executable, "-c", RUN, *command, "t-0"]
    ran = subprocess.run(argv, cwd=large.parent, capture_output=True, text=True, timeout=300)
    assert ran.returncode in (exits.OK, exits.PROBLEMS), ran.stderr
    if command[0] == "verify":
        assert "log-too-large" in ran.stdout
    if command[0] == "export":
        files = json.loads((large.parent / "out" / "_manifest.json").read_text())["files"]
        assert [log["records"] for file in files for log in file["logs"]] == [2]
    if command[0] == "salvage":
        assert (large.parent / "new" / "t-0" / f"{0:020}.log").stat().st_size < BLOCK


def test_a_hole_amid_a_log_takes_no_time_to_hash(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log that no broker loads, only the bytes are hashed that a broker could address."""
    with (large / f"{0:020}.log").open("ab") as file:
        file.write(batch(2, [record(b"three")]))
    hashed: list[int] = []

    def note(source: Source, position: int, end: int) -> Iterator[memoryview]:
        for piece in stretch(source, position, end):
            hashed.append(len(piece))
            yield piece

    monkeypatch.setattr(header_digest, "stretch", note)
    (segment,) = read_partition(large).segments
    found = survey(segment, lambda _: None, mapped=False, sealed=False, deep=False, digest=True)
    assert found.header_digest is not None
    assert MAX_LOG_BYTES // 2 < sum(hashed) <= MAX_LOG_BYTES
