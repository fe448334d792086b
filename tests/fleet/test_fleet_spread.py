"""spread(): every task comes back, whatever becomes of who does it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet import fleet_work
from kdump.audit.run.spread import LostTask
from kdump.errors import UsageError
from kdump.storage.workers import WorkerBug, WorkerDied

pyspark = pytest.importorskip("pyspark")

from pyspark import cloudpickle  # noqa: E402

from kdump.fleet.job.spread import spread  # noqa: E402
from kdump.fleet.session.session import Cluster, Session, open_session  # noqa: E402
from kdump.fleet.session.signals import hold_signals  # noqa: E402

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with fleet_work.by_value(), open_session(Cluster(master="local[2]")) as started:
        yield started


NUMBERS = range(20)


def test_every_task_comes_back_with_its_number(session: Session) -> None:
    found = dict(spread(session, fleet_work.pid, NUMBERS, [0] * 20))
    assert sorted(found) == list(NUMBERS)
    assert os.getpid() not in found.values()
    assert not list(spread(session, fleet_work.pid, [], []))


def test_where_nothing_is_tried_again_the_first_attempt_does_the_work(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.fleet.job.spread._max_failures", lambda _: 1)
    found = dict(spread(session, fleet_work.slow, NUMBERS, [0] * 20))
    assert found == {number: number for number in NUMBERS}


def test_large_tasks_are_shared_out(session: Session) -> None:
    parts: list[float] = []
    sizes = [60 << 20] * 20
    found = spread(session, fleet_work.slow, NUMBERS, sizes, on_progress=parts.append)
    assert dict(found) == {number: number for number in NUMBERS}
    assert parts == sorted(parts)
    assert max(part for part in parts if part < 1) > 0
    assert max(parts) <= 1


class Taken(list[int]):
    """Tasks, and how many of them have been asked for."""

    asked = 0

    def __getitem__(self, number: Any) -> Any:
        self.asked = max(self.asked, number + 1)
        return super().__getitem__(number)


def test_results_come_before_the_last_task_has_ended(session: Session, tmp_path: Path) -> None:
    flag, tasks = tmp_path / "flag", Taken(range(40))
    work = partial(fleet_work.last_after, flag=flag, last=39)
    found: dict[int, object] = {}
    for number, result in spread(session, work, tasks, [60 << 20] * 40):
        if not found:
            assert tasks.asked < 20  # what is taken is what two jobs run
        flag.touch()
        found[number] = result
    assert sorted(found) == list(range(40))
    assert found[39] is True


def test_what_kills_a_worker_is_the_result_of_that_task_alone(session: Session) -> None:
    found = dict(spread(session, fleet_work.deadly, NUMBERS, [0] * 20))
    assert found.pop(7) == WorkerDied(signal.SIGKILL)
    assert found == {number: number for number in NUMBERS if number != 7}


def test_what_kills_every_worker_is_lost_alone(session: Session) -> None:
    found = dict(spread(session, fleet_work.deadly_to_both, NUMBERS, [0] * 20))
    lost = found.pop(7)
    assert isinstance(lost, LostTask)
    assert "ended before the task" in lost.text
    assert found == {number: number for number in NUMBERS if number != 7}


def test_a_worker_killed_once_changes_nothing(session: Session, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}" for number in NUMBERS[:2]]
    found = dict(spread(session, fleet_work.deadly_once, paths, [0] * 2))
    # The second is met by a forked child, whose death is a result.
    assert found == {0: "0", 1: WorkerDied(signal.SIGKILL)}


def test_careful_tasks_are_those_of_later_attempts(session: Session) -> None:
    found = dict(
        spread(session, fleet_work.deadly, [1, 7], [0] * 2, careful=lambda number: number + 1)
    )
    assert found == {0: 2, 1: 8}


def test_errors_are_raised_by_the_driver(session: Session) -> None:
    with pytest.raises(UsageError, match="expected another number"):
        list(spread(session, fleet_work.refusing, NUMBERS, [0] * 20))
    with pytest.raises(WorkerBug, match="ZeroDivisionError"):
        list(spread(session, fleet_work.dividing, NUMBERS, [0] * 20))


def test_a_job_that_fails_as_a_whole_is_told_for_each_task(session: Session) -> None:
    cloudpickle.unregister_pickle_by_value(fleet_work)  # type: ignore[no-untyped-call]
    try:
        found = dict(spread(session, fleet_work.slow, NUMBERS, [0] * 20))
    finally:
        cloudpickle.register_pickle_by_value(fleet_work)  # type: ignore[no-untyped-call]
    assert sorted(found) == list(NUMBERS)
    for lost in found.values():
        assert isinstance(lost, LostTask)
        assert "No module named 'fleet'" in lost.text


def test_an_interrupt_amid_a_finalizer_is_not_lost(session: Session, tmp_path: Path) -> None:
    """As of py4j's objects, in the finalizers of which Python drops exceptions."""

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    def drop(_: float) -> None:
        Finalized()

    begun = tmp_path / "begun"
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(spread(session, fleet_work.long, [begun], [0], on_progress=drop))
    assert time.monotonic() - started < 60


def test_signals_that_are_held_come_in_their_order() -> None:
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, lambda number, frame: came.append(number))
        with hold_signals() as let_through:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            assert not came
            let_through()
            assert came == [signal.SIGTERM, signal.SIGINT]
            signal.raise_signal(signal.SIGINT)
        assert came == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]
        signal.raise_signal(signal.SIGTERM)
        assert came[3:] == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_an_interrupt_ends_the_job_and_its_workers(session: Session, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def interrupt() -> None:
        while not begun.exists() or not begun.read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(spread(session, fleet_work.long, [begun], [0]))
    assert time.monotonic() - started < 300
    worker = int(begun.read_text())
    for _ in range(300):
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the worker still runs")
    assert dict(spread(session, fleet_work.slow, [1], [0])) == {0: 1}
