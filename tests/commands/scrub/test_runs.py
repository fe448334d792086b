"""Runs that end early, disks that give other bytes each time, readers that die, and the report."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.survey.survey import Survey
from kdump.cli.main import main
from kdump.errors import StateError
from kdump.history.state_file import read_state
from support.crashing.running import run
from support.scrubs import World, codes, rewrite, status, summary, with_surveys

pytestmark = pytest.mark.once

PLAIN = "codec-none-0"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path)


def arguments(world: World, *options: str) -> list[str]:
    return ["scrub", str(world.data), "--state", str(world.state), "--format", "json", *options]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
def test_a_signal_ends_a_run_and_the_next_goes_on(world: World, number: int, code: int) -> None:
    program = Path(sys.executable).with_name("kdump")
    process = subprocess.Popen(
        [program, *arguments(world, "--limit-rate", "50kB")], stdout=subprocess.PIPE, text=True
    )
    while not world.state.exists() or recorded(world) < 5:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    lines = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == lines[-1]["exit"] == code
    (line,) = (each for each in lines if each["type"] == "scrub")
    assert (line["reason"], line["exit"]) == ("signal", code)
    assert 0 < line["due_segments"] < 55
    ran = world.scrub()
    assert (ran.code, summary(ran)["segments"]) == (0, line["due_segments"])


def recorded(world: World) -> int:
    try:
        with read_state(world.state) as state:
            ((count,),) = state._execute("SELECT count(*) FROM segments WHERE read_ms IS NOT NULL")
            return int(count)
    except StateError:  # its tables are not there yet
        return 0


@pytest.mark.parametrize(
    "seconds", [0.4, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.0, 0.2, 0.6))]
)
def test_a_signal_at_any_time_ends_in_words(world: World, seconds: float) -> None:
    program = Path(sys.executable).with_name("kdump")
    process = subprocess.Popen(
        [program, *arguments(world)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(seconds)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode in (-signal.SIGTERM, 0, 143)  # before Python has begun, or after all
    assert "Traceback" not in said
    ran = world.scrub()
    assert (ran.code, status(ran)["due_segments"]) == (0, 0)


@pytest.mark.slow
def test_other_bytes_each_time_are_no_silent_change(world: World) -> None:
    """The disk, its cable or the memory: nothing is known of the segment."""
    assert world.scrub().code == 0
    log = world.log(PLAIN)

    def unstable(found: Survey, number: int) -> Survey:
        if found.segment.log != log:
            return found
        return replace(found, header_digest=number.to_bytes(16))

    ran = run(arguments(world, "--max-age", "0s"), prepare=with_surveys(unstable))
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.code, lines[-1]["exit"]) == (5, 5)
    (line,) = (each for each in lines if each.get("severity") == "incomplete")
    assert (line["code"], line["path"]) == ("unreadable", str(log))
    assert "the same bytes each time" in line["detail"]["found"]
    # What was read before still counts, and the segment is due.
    assert summary(world.scrub())["segments"] == 0
    assert world.scrub("--max-age", "0s").code == 0


@pytest.mark.slow
def test_a_reader_that_dies_is_a_finding(world: World) -> None:
    log = world.log(PLAIN)

    def die(found: Survey, _: int) -> Survey:
        if found.segment.log == log:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    ran = run(arguments(world), prepare=with_surveys(die))
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 5
    (line,) = (each for each in lines if each.get("severity") == "incomplete")
    assert "SIGKILL" in line["detail"]["found"]
    again = world.scrub()
    assert (again.code, summary(again)["segments"]) == (0, 1)


@pytest.mark.slow
def test_segments_that_go_during_a_run_are_no_finding(world: World) -> None:
    gone = world.log("deleted-records-0")

    def remove(found: Survey, _: int) -> Survey:
        for path in gone.parent.glob(f"{gone.stem}.*"):
            path.unlink()
        return found

    ran = run(arguments(world), prepare=with_surveys(remove))
    lines = [json.loads(line) for line in ran.out.splitlines()]
    found = {line["path"] for line in lines if line["type"] == "finding"}
    assert not any(gone.stem in path and "deleted-records-0" in path for path in found)


def test_the_report(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    log = world.log(PLAIN)
    data = log.read_bytes()
    rewrite(log, data[:100] + bytes([data[100] ^ 1]) + data[101:], silently=False)
    asked = ["scrub", str(world.data), "--state", str(world.state)]
    assert main(asked) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        f"CORRUPT       At most 8 records of {PLAIN} are corrupt, as far as was read."
    )
    assert any(re.match(rf"ERROR  {PLAIN} +batch-crc-mismatch", line) for line in lines)
    (at,) = (number for number, line in enumerate(lines) if line.startswith("read "))
    assert lines[at - 1] == str(world.data)
    assert re.fullmatch(r"read        \[#+-\] 97 % of 145\.\d+ KiB within 30 days", lines[at])
    assert lines[at + 1].startswith("due         4.12 KiB in 1 segment, read in about ")
    assert " ".join(" ".join(lines[at:]).split()).endswith(
        "until all was read, exit code 4; found batch-crc-mismatch (1)"
    )
    assert max(map(len, lines)) <= max(80, len(str(world.data)) + 80)
    assert main(["scrub", "--status", "--state", str(world.state)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == lines[at - 1 : at + 1]
    rewrite(log, data, silently=False)
    assert main([*asked, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_fast_reads_stopped_logs_with_several_processes(world: World) -> None:
    assert summary(world.scrub())["limit_rate"] == 50_000_000
    ran = world.scrub("--fast", "--max-age", "0s")
    assert (ran.code, summary(ran)["limit_rate"]) == (0, None)
    assert summary(ran)["bytes"] == world.bytes_of()
    assert codes(ran) == []


def test_a_segment_is_no_directory(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scrub", str(world.log(PLAIN)), "--state", str(world.state)]) == 2
    assert "found a segment: kdump verify reads it" in capsys.readouterr().err
    assert not world.state.exists()
