"""Jobs keep all cores busy, by a clock that only this test moves."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kdump.fleet.job import spread
from kdump.fleet.job.packing import FILE_BYTES, task_cost

pytestmark = pytest.mark.once

MB, GB = 1 << 20, 1 << 30
#: What a core reads in a second, and what a job takes before its first task starts.
RATE, START_SECONDS = 500 * MB, 0.1


@dataclass(eq=False)
class Job:
    packs: list[int]
    ready: float
    ends: float = 0.0
    rows: None = None
    error: None = None

    def fraction(self) -> float:
        return 0.0


@dataclass
class Cores:
    """In the place of ``Jobs``: Spark's order, in which earlier jobs go first."""

    count: int
    sizes: list[int]
    now: float = 0.0
    jobs: int = 0
    running: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [0.0] * self.count

    def __enter__(self) -> Cores:
        return self

    def __exit__(self, *_: object) -> None: ...

    @property
    def full(self) -> bool:
        return len(self.running) >= 2

    def start(self, build: Any, tasks: int) -> Job:
        (rows,) = build.args
        packs = [pickle.loads(zlib.decompress(row)) for row in rows]
        assert len(packs) == tasks
        costs = [sum(task_cost(self.sizes[task]) for _, task in pack) for pack in packs]
        self.jobs += 1
        self.running.append(Job(costs, self.now + START_SECONDS))
        return self.running[-1]

    def wait(self, on_poll: Callable[[], None]) -> Job:
        while True:
            done = min((job for job in self.running if not job.packs), key=ends, default=None)
            core = min(range(self.count), key=self.free.__getitem__)
            waiting = [job for job in self.running if job.packs]
            if done is not None and (not waiting or done.ends <= self.free[core]):
                self.now = done.ends
                self.running.remove(done)
                return done
            job = min(waiting, key=lambda job: max(job.ready, self.free[core]))
            start = max(job.ready, self.free[core], self.now)
            self.free[core] = start + job.packs.pop(0) / RATE
            job.ends = max(job.ends, self.free[core])


def ends(job: Job) -> float:
    return job.ends


def run(sizes: list[int], cores: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """When the result of each task came, and which task it is; jobs are counted by ``Cores``."""
    clock = Cores(cores, sizes)
    monkeypatch.setattr(spread, "Jobs", lambda *_: clock)
    monkeypatch.setattr(spread, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(spread, "_max_failures", lambda _: 4)
    session: Any = SimpleNamespace(cores=cores)
    tasks = range(len(sizes))
    came = [(clock.now, number) for number, _ in spread.spread(session, str, tasks, sizes)]
    assert sorted(number for _, number in came) == list(tasks)
    assert clock.jobs * START_SECONDS < 0.02 * clock.now * cores or clock.now < 20
    return came


@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("before", [0, 10_000])
def test_a_large_partition_beside_many_tiny_ones(
    before: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [MB] * before + [GB] * 50 + [MB] * (10_000 - before)
    came = run(sizes, cores, monkeypatch)
    balanced = sum(map(task_cost, sizes)) / RATE / cores
    assert came[-1][0] < 1.15 * balanced + 3 * START_SECONDS


def test_results_come_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of 64 partitions with 69 GB, which are read at 1 GB a second."""
    came = run([1100 * MB] * 64, 2, monkeypatch)
    assert len([number for at, number in came if at < 60]) > 45
    gaps = [later - before for (before, _), (later, _) in pairwise(came)]
    assert max(gaps) < 12


def test_few_jobs_for_many_tiny_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    came = run([0] * 30_000, 2, monkeypatch)
    assert came[-1][0] < 1.03 * 30_000 * FILE_BYTES / RATE / 2
