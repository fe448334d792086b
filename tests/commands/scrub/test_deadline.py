"""The end of a run's time: also amid a read, and what is read in the time left."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kdump.audit.survey.survey import Survey
from kdump.commands.scrub.deadline import Deadline
from kdump.storage import workers
from support.crashing.running import run
from support.forge import batch, record, write_partition
from support.scrubs import World, status, summary, with_surveys


class Clock:
    """Time that passes only in ``sleep``, and the alarm that rings when its time has come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.alarm: float | None = None
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(signal, "setitimer", self._set)

    def _set(self, _: int, seconds: float) -> None:
        self.alarm = self.now + seconds if seconds else None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.alarm is not None and self.now >= self.alarm:
            signal.raise_signal(signal.SIGALRM)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def sleepy(clock: Clock, closed: list[bool], *seconds: float) -> Generator[float, None, None]:
    try:
        for each in seconds:
            clock.sleep(each)
            yield each
    finally:
        closed.append(True)


def test_without_an_end_all_is_yielded(clock: Clock) -> None:
    closed = list[bool]()
    deadline = Deadline(None)
    assert list(deadline.until(sleepy(clock, closed, 0, 0))) == [0, 0]
    assert (deadline.reached, closed, deadline.left) == (False, [True], float("inf"))


def test_the_wait_for_a_result_ends(clock: Clock) -> None:
    closed = list[bool]()
    deadline = Deadline(0.3)
    assert list(deadline.until(sleepy(clock, closed, 0, 0, 60))) == [0, 0]
    assert deadline.reached
    assert closed == [True]
    assert list(deadline.until(sleepy(clock, closed, 0))) == []


def test_the_work_on_a_result_is_not_interrupted(clock: Clock) -> None:
    deadline = Deadline(0.2)
    done = 0
    for _ in deadline.until(sleepy(clock, [], 0, 0, 0)):
        clock.sleep(0.3)
        done += 1
    assert (done, deadline.reached) == (1, True)


def test_the_handler_of_others_comes_back(clock: Clock) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with closing(sleepy(clock, [], 60)) as results:
        list(Deadline(0.05).until(results))
    assert signal.getsignal(signal.SIGALRM) == before


def test_the_alarm_is_one_of_real_time() -> None:
    def wait() -> Generator[None, None, None]:
        signal.pause()
        yield

    deadline = Deadline(0.01)
    assert (list(deadline.until(wait())), deadline.reached) == ([], True)


@pytest.fixture
def rung() -> Iterator[list[int]]:
    """The alarms that came while no deadline waited for them."""
    found = list[int]()
    before = signal.signal(signal.SIGALRM, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGALRM, before)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("rung")
def test_workers_end_with_it(clock: Clock) -> None:
    """The alarm rings while a worker is at its second task, which has no end."""
    parent = os.getpid()
    reader, writer = os.pipe()

    def work(endless: bool, _: Callable[[object], None]) -> bool:
        if endless:
            os.read(reader, 1)  # until the result of the first task is there
        while endless:
            os.kill(parent, signal.SIGALRM)
            time.sleep(0.05)
        return endless

    def tasks() -> Iterator[bool]:
        yield from (False, True)

    deadline = Deadline(1)
    values = []
    for result in deadline.until(workers.run(work, tasks(), 1)):
        values.append(result.value)
        os.write(writer, b".")
    os.close(reader)
    os.close(writer)
    assert (values, deadline.reached) == ([False], True)


@pytest.fixture
def large(tmp_path: Path) -> World:
    """Eight sealed segments of 400 kB, one of 4 MB, and the last one."""
    world = World(tmp_path)
    values = [b"x" * 400_000] * 8 + [b"x" * 4_000_000, b"x"]
    segments = {n: [batch(n, [record(value)])] for n, value in enumerate(values)}
    world.data.mkdir()
    write_partition(world.data, "large", 0, segments)
    (world.data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return world


#: Runs of a few seconds that read nine small segments, also beside others that use the CPUs.
MOST_RUNS = 40


@pytest.mark.slow
def test_a_run_ends_in_time_and_the_next_goes_on(large: World) -> None:
    read = list[int]()
    while sum(read) < 9 and len(read) < MOST_RUNS:
        ran = large.scrub("--max-duration", "3s", "--limit-rate", "500kB")
        assert ran.code == 0
        assert status(ran)["reason"] == "duration"
        read.append(summary(ran)["segments"])
    assert sum(read) == 9
    assert max(read) < 9
    # The large one takes 8 seconds, and no run begins it.
    assert "found one of 3.81 MiB: raise --max-duration" in ran.said
    assert status(ran)["due_segments"] == 1
    ran = large.scrub()
    assert (summary(ran)["segments"], status(ran)["reason"]) == (1, "done")


@pytest.mark.slow
def test_a_pace_that_is_too_slow_is_said(large: World) -> None:
    for _ in range(MOST_RUNS):
        ran = large.scrub("--max-duration", "3s", "--limit-rate", "500kB", "--max-age", "1d")
        if summary(ran)["segments"]:  # without any there is no pace
            break
    assert "expected a pace at which everything is read within" in ran.said
    assert status(ran)["due_seconds"] > 86_400
    ran = large.scrub("--max-age", "1d")
    assert "pace" not in ran.said


def test_no_time_for_the_quick_pass(large: World) -> None:
    """Nothing at all was checked: that is no success."""
    ran = large.scrub("--max-duration", "0s")
    assert (ran.code, summary(ran)["exit"], summary(ran)["partitions"]) == (5, 5, 0)
    assert "nothing was read" in ran.said
    assert list(ran.of("scrub")) == []
    large.scrub()
    ran = large.scrub("--max-duration", "0s")
    assert (ran.code, status(ran)["reason"]) == (5, "done")  # of the run before


@pytest.mark.slow
def test_a_segment_that_takes_too_long_lets_others_read(large: World) -> None:
    """The disk is slower than the limit: the read is ended, and comes last in the next run."""
    log = sorted((large.data / "large-0").glob("*.log"))[0]
    data = batch(0, [record(b"x" * 3_000_000)])
    log.write_bytes(data)

    def slow(found: Survey, _: int) -> Survey:
        if found.segment.log == log:
            time.sleep(60)
        return found

    asked = ["scrub", str(large.data), "--state", str(large.state), "--format", "json"]
    read = list[int]()
    while sum(read) < 9 and len(read) < MOST_RUNS:
        ran = run([*asked, "--max-duration", "2s"], prepare=with_surveys(slow))
        read.append(json.loads(ran.out.splitlines()[-1])["segments"])
    # The first run begins with it, the second one leaves it to the last.
    assert (read[0], sum(read)) == (0, 9)
    assert "found one of 2.86 MiB" in ran.err
