"""Pace: a rate that holds for one process and for several, and the idle class of I/O."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

import pytest

from kdump.storage.access import open_source
from kdump.storage.source import WindowedFile
from kdump.storage.throttle import Pace, use_idle_io
from kdump.storage.workers import Report, run

NS = 1_000_000_000


class Clock:
    """Time that passes only in ``sleep``, or when a test sets it."""

    def __init__(self) -> None:
        self.now_ns = 100 * NS
        self.slept: list[float] = []

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ns += round(seconds * NS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_rate_holds_over_many_pieces(clock: Clock) -> None:
    limited = Pace(1_000_000, clock, clock.sleep)
    start = clock.now_ns
    for _ in range(100):
        limited.spend(100_000)
    assert clock.now_ns - start == pytest.approx(10 * NS, rel=0.03)


def test_time_spent_on_other_things_counts(clock: Clock) -> None:
    limited = Pace(1_000_000, clock, clock.sleep)
    start = clock.now_ns
    for _ in range(100):
        clock.now_ns += 80_000_000  # working for 80 ms on what takes 100 ms at that rate
        limited.spend(100_000)
    assert clock.now_ns - start == pytest.approx(10 * NS, rel=0.03)


def test_a_long_pause_earns_no_more_than_a_moment(clock: Clock) -> None:
    limited = Pace(1_000_000, clock, clock.sleep)
    limited.spend(1_000_000)
    clock.now_ns += 3600 * NS
    clock.slept.clear()
    limited.spend(1_000_000)
    assert clock.slept == [0.75]


def test_who_is_slower_than_the_rate_never_sleeps(clock: Clock) -> None:
    limited = Pace(1_000_000, clock, clock.sleep)
    for _ in range(100):
        clock.now_ns += 200_000_000
        limited.spend(100_000)
    assert clock.slept == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_workers_keep_to_it_together(jobs: int, clock: Clock) -> None:
    """Where no time goes by, what all of them read lies ahead; two at once may lose counts.

    How many depends on who runs when. If each had a pace of its own, nothing would lie ahead.
    """
    limited = Pace(10_000_000, clock, lambda _: None)

    def work(task: int, report: Report) -> None:
        limited.spend(task)

    begin = clock.now_ns
    assert len(list(run(work, [200_000] * 50, jobs))) == 50
    clock.slept.clear()
    probe = Pace(10_000_000, clock, clock.sleep)
    probe._within_rate_ns = limited._within_rate_ns
    probe.spend(0)
    ahead, all_of_it = clock.now_ns - begin, 0.75 * NS  # a second, without the credit
    assert ahead == all_of_it if jobs == 1 else NS / 5 < ahead <= all_of_it


def test_files_are_read_at_the_pace_and_not_mapped(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(1 << 20))
    start = clock.now_ns
    with open_source(path, mapped=True, pace=Pace(1 << 20, clock, clock.sleep)) as source:
        assert isinstance(source, WindowedFile)
        for position in range(0, 1 << 20, 1000):
            source.window(position)
    assert clock.now_ns - start == pytest.approx(NS, rel=0.25)


def test_idle_class_is_taken() -> None:
    numbers = {"x86_64": 252, "aarch64": 31}
    if sys.platform != "linux" or platform.machine() not in numbers:
        pytest.skip("needs Linux on x86-64 or aarch64")

    def io_class(task: int, report: Report) -> int:
        use_idle_io()
        number: int = numbers[platform.machine()]
        who = ctypes.c_long(1), ctypes.c_long(0)
        return int(ctypes.CDLL(None).syscall(ctypes.c_long(number), *who)) >> 13

    assert [outcome.value for outcome in run(io_class, [0], 1)] == [3]


def test_an_unknown_machine_has_no_idle_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("called the kernel with a number of another machine")

    monkeypatch.setattr(platform, "machine", lambda: "vax")
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    use_idle_io()
