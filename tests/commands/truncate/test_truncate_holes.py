"""A hole behind the records: it is cut off, saved and brought back as a hole, and is not read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kdump.repair.transaction.fingerprint import tail_digest
from kdump.storage.access import open_source
from kdump.storage.source import allocated_bytes
from kdump.ui import exits
from support.commands import kdump
from support.forge import batch, record, write_partition
from support.memory import MemorySource

MIB = 1 << 20
TIB = 1 << 40


#: Memory as a file system: a read of a map of a hole fills it there.
TMPFS = Path("/dev/shm")


@pytest.fixture(params=["disk", "tmpfs"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A log of a few records, a hole of a terabyte, and some bytes at its end."""
    if request.param == "disk":
        yield make_log(tmp_path / "data")
        return
    if not os.access(TMPFS, os.W_OK):
        pytest.skip("there is no tmpfs")
    with TemporaryDirectory(dir=TMPFS) as place:
        yield make_log(Path(place))


def make_log(top: Path) -> Path:
    path = write_partition(top, "orders", 0, {0: [batch(0, [record()] * 10)]})
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    end = path / f"{0:020d}.log"
    with end.open("r+b") as file:
        file.seek(TIB)
        file.write(b"the end")
    return end


@pytest.mark.once
def test_a_terabyte_stays_a_hole(log: Path) -> None:
    began = time.process_time()
    options = ("--assume-stopped",)
    planned = kdump("truncate-to-valid", log.parent, *options, searching=False)
    assert planned.code == exits.PROBLEMS
    (plan,) = planned.of("plan")
    consent = ("--apply", "--confirm", plan["id"])
    done = kdump("truncate-to-valid", log.parent, *options, *consent, searching=False)
    assert done.code == exits.OK, done.said
    assert log.stat().st_size < MIB
    (saved,) = log.parent.rglob("*.tail")
    assert saved.stat().st_size == TIB + len(b"the end") - log.stat().st_size
    assert allocated_bytes(saved.stat()) < 8 * MIB
    undone = kdump("undo", log.parent, *options, "--apply", searching=False)
    assert undone.code == exits.OK, undone.said
    assert log.stat().st_size == TIB + len(b"the end")
    assert allocated_bytes(log.stat()) < 8 * MIB
    with log.open("rb") as file:
        file.seek(TIB)
        assert file.read() == b"the end"
    assert time.process_time() - began < 60  # of reading it would take hours


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 5 * MIB, 5 * MIB + 3])
@pytest.mark.parametrize("start", [0, 1, 4096, 2 * MIB])
def test_the_digest_of_a_tail_is_its_sha_256(tmp_path: Path, size: int, start: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * start)
    os.truncate(path, start + size)
    for content in (b"", b"data"):
        with path.open("ab") as file:
            file.write(content)
        with open_source(path, mapped=False) as source:
            assert tail_digest(source, start) == sha256(path.read_bytes()[start:]).hexdigest()


def test_zeros_count_the_same_in_a_hole_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a bound their number is hashed, and it matters where they are, and how many."""
    monkeypatch.setattr("kdump.repair.transaction.fingerprint._HASHED_ZEROS", 2)
    contents = [
        head + bytes(zeros) + tail
        for zeros in (3 * MIB, 4 * MIB, 5 * MIB)
        for head in (b"", b"x", b"x" * MIB)
        for tail in (b"", b"y")
    ]
    digests = set()
    for content in contents:
        path = tmp_path / "file"
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            for position in range(0, len(content), 4096):
                piece = content[position : position + 4096]
                if any(piece):
                    file.seek(position)
                    file.write(piece)
        os.truncate(path, len(content))
        with open_source(path, mapped=False) as source:
            digests.add(tail_digest(source, 0))
            assert tail_digest(source, 0) == tail_digest(MemorySource(content), 0)
            shifted = MemorySource(b"before" + content)
            assert tail_digest(source, 0) == tail_digest(shifted, len(b"before"))
    assert len(digests) == len(contents)
