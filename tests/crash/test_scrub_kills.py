"""Scrubs that are killed at random, and that run out of space for their state.

What the state then says was read is held against the system calls that read it, as strace saw them.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kdump.history.state_file import read_state
from support.crashing.places import mounted
from support.scrubs import World, status

#: Each is over in a moment, so that a run has many of them to lose.
RATE = "100kB"
SEGMENTS = 55
_READ = re.compile(
    r"^\d+ +(?:pread64|preadv2?|read)\(\d+<(?P<path>[^>]+\.log)>.* = (?P<count>\d+)$"
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World.make(tmp_path)
    assert made.scrub().code == 0
    return made


def command(world: World) -> list[str]:
    """Everything is due in each run, however often it was read before."""
    program = Path(sys.executable).with_name("kdump")
    return [
        *(str(program), "scrub", str(world.data), "--state", str(world.state)),
        *("--max-age", "0s", "--limit-rate", RATE, "--progress", "none", "--quiet"),
    ]


def read_by(trace: Path) -> dict[str, int]:
    """The bytes that were read of each log."""
    found: dict[str, int] = defaultdict(int)
    for line in trace.read_text(errors="replace").splitlines():
        if (match := _READ.match(line)) is not None:
            found[match["path"]] += int(match["count"])
    return found


def recorded_since(world: World, begin_ms: int) -> dict[str, int]:
    """The logs that the state says were read since, with their sizes."""
    with sqlite3.connect(world.state) as connection:
        rows = connection.execute(
            "SELECT p.name, s.base_offset, s.size FROM segments s "
            "JOIN partitions p ON p.id = s.partition WHERE s.read_ms >= ?",
            (begin_ms,),
        ).fetchall()
    connection.close()
    return {
        str(world.data / os.fsdecode(name) / f"{base:020}.log"): size for name, base, size in rows
    }


def kill_once(world: World, segments: int, seconds: float, trace: Path) -> int:
    """Kill a run so long after it has recorded some segments; return how many, all of them read."""
    begin_ms = time.time_ns() // 1_000_000
    traced = ["strace", "-f", "-y", "-qq", "-e", "trace=pread64,preadv,preadv2,read"]
    process = subprocess.Popen(
        [*traced, "-o", trace, *command(world)], start_new_session=True, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and len(recorded_since(world, begin_ms)) < segments:
        time.sleep(0.01)
    time.sleep(seconds)
    with suppress(ProcessLookupError):  # it came to its end
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    recorded, read = recorded_since(world, begin_ms), read_by(trace)
    for log, size in recorded.items():
        assert read.get(log, 0) >= size, f"{log} is recorded and was not read"
    with read_state(world.state) as state:
        assert list(state.status(begin_ms))
    return len(recorded)


def kill_often(world: World, times: int, seed: int) -> None:
    chance = random.Random(seed)
    counts = [
        kill_once(world, chance.randrange(SEGMENTS), chance.uniform(0, 0.1), world.top / "trace")
        for _ in range(times)
    ]
    # Some were killed before the first segment, and most in between.
    assert any(0 < count < SEGMENTS for count in counts), counts
    done = world.scrub()
    assert (done.code, status(done)["due_bytes"]) == (0, 0)


@pytest.mark.strace
@pytest.mark.slow
def test_a_few_kills(world: World) -> None:
    kill_often(world, 5, seed=1)


@pytest.mark.strace
@pytest.mark.nightly
def test_two_hundred_kills(world: World) -> None:
    kill_often(world, 200, seed=int(os.environ.get("KDUMP_NIGHT", "2")))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=512k", "tmpfs") as directory:
        yield directory


@pytest.mark.root
@pytest.mark.nightly
def test_fifty_full_disks(world: World, small_disk: Path) -> None:
    """The disk fills up before the run or amid it; the next run goes on with what was recorded."""
    state, filler = small_disk / "scrub.db", small_disk / "filler"
    chance = random.Random(int(os.environ.get("KDUMP_NIGHT", "3")))
    failed = 0
    for _ in range(50):
        room = os.statvfs(small_disk)
        free = chance.randrange(0, 500) << 10  # a whole run takes 300 to 400 KiB
        filler.write_bytes(b"x" * max(0, room.f_bavail * room.f_bsize - free))
        begin_ms = time.time_ns() // 1_000_000
        ran = subprocess.run(
            [*command(world)[:4], str(state), *command(world)[5:], "--limit-rate", "none"],
            capture_output=True,
            text=True,
            check=False,
        )
        filler.unlink()
        failed += ran.returncode != 0
        if ran.returncode:
            assert (ran.returncode, len(ran.stderr.splitlines())) == (5, 1), ran.stderr
        if state.stat().st_size:
            with read_state(state) as opened:
                assert all(each.run.begin_ms <= begin_ms + 60_000 for each in opened.status(0))
    assert 0 < failed < 50
    last = subprocess.run([*command(world)[:4], str(state)], capture_output=True, check=False)
    assert last.returncode == 0
