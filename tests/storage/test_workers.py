from __future__ import annotations

import errno
import faulthandler
import fcntl
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import KdumpError, VanishedError
from kdump.storage import workers
from kdump.storage.access import open_source
from kdump.storage.workers import Report, Result, WorkerBug, WorkerDied, default_jobs, run
from support.children import children
from support.descriptors import descriptors, none_left_open

# A pool that goes wrong hangs. A correct one takes long only if the whole machine hangs.
pytestmark = [pytest.mark.forks, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = children()
    with none_left_open():
        yield
    assert not children() - before


def double(task: int, report: Report) -> int:
    report(task)
    return task * 2


def kill_self(number: int) -> None:
    faulthandler.disable()  # pytest's would print the worker's last words
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_task_has_its_outcome(jobs: int) -> None:
    done: list[int] = []
    outcomes = list(run(double, range(50), jobs, on_progress=done.append))
    assert sorted(outcomes, key=lambda outcome: outcome.index) == [
        Result(number, number, number * 2) for number in range(50)
    ]
    assert sorted(done) == list(range(50))


def test_no_tasks_fork_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> int:
        raise AssertionError("forked without a task")

    monkeypatch.setattr(os, "fork", never)
    assert list(run(double, [], 3)) == []


def test_at_least_one_job_is_asked_for() -> None:
    with pytest.raises(ValueError, match="at least 1 job, found 0"):
        next(run(double, [1], 0))


def test_work_is_done_in_other_processes_and_in_no_more_than_asked() -> None:
    def where(task: int, report: Report) -> int:
        time.sleep(0.002)
        return os.getpid()

    pids = {outcome.value for outcome in run(where, range(20), 3)}
    assert os.getpid() not in pids
    assert len(pids) == 3
    assert len({outcome.value for outcome in run(where, range(1), 3)}) == 1


def test_tasks_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    with closing(run(double, tasks(), 2)) as outcomes:
        next(outcomes)
        assert len(taken) < 10


def test_large_tasks_and_results_pass() -> None:
    def reverse(task: bytes, report: Report) -> bytes:
        return task[::-1]

    tasks = [bytes([number]) * 3_000_000 + b"end" for number in range(6)]
    for outcome in run(reverse, tasks, 2):
        assert outcome.value == outcome.task[::-1]


def test_a_slow_reader_blocks_no_worker() -> None:
    def fill(task: int, report: Report) -> bytes:
        return b"x" * 500_000

    outcomes = []
    for outcome in run(fill, range(8), 2):
        time.sleep(0.01)
        outcomes.append(outcome.index)
    assert sorted(outcomes) == list(range(8))


def test_an_error_of_ours_is_a_value() -> None:
    def fail(task: int, report: Report) -> int:
        if task == 1:
            raise VanishedError("/data/00.log", "/data/00.log: gone")
        return task

    values = {outcome.index: outcome.value for outcome in run(fail, range(3), 2)}
    error = values[1]
    assert isinstance(error, VanishedError)
    assert (str(error), error.path) == ("/data/00.log: gone", "/data/00.log")
    assert (values[0], values[2]) == (0, 2)


def test_any_other_error_is_a_bug_and_ends_the_run() -> None:
    def fail(task: int, report: Report) -> int:
        return 1 // task

    with pytest.raises(WorkerBug, match=r"(?s)Traceback.*1 // task.*ZeroDivisionError"):
        list(run(fail, [1, 0, 1, 1], 2))


class Unpicklable(KdumpError):
    def __reduce__(self) -> str:
        raise TypeError("cannot be sent")


def test_what_cannot_be_pickled_is_a_bug() -> None:
    def give(task: int, report: Report) -> Callable[[], int]:
        return lambda: task

    def fail(task: int, report: Report) -> int:
        raise Unpicklable("an error")

    with pytest.raises(WorkerBug, match=r"(?i)pickle"):
        list(run(give, [1], 1))
    with pytest.raises(WorkerBug, match="cannot be sent"):
        list(run(fail, [1], 1))


def test_a_worker_that_exits_is_a_bug() -> None:
    def leave(task: int, report: Report) -> int:
        os._exit(3)

    with pytest.raises(WorkerBug, match="worker exited with status 3"):
        list(run(leave, range(3), 2))

    def stop(task: int, report: Report) -> int:
        raise SystemExit(0)

    with pytest.raises(WorkerBug, match="worker exited with status 1"):
        list(run(stop, range(3), 2))


def read_all(task: tuple[str, bool], report: Report) -> int:
    """Read a file that is cut in the middle of it, as a broker's retention might do."""
    path, mapped = task
    faulthandler.disable()
    with open_source(Path(path), mapped=mapped) as source:
        first = source.window(0, 1)[0]
        os.truncate(path, 10)
        return first + source.window(source.size - 1, 1)[0]


def test_a_real_sigbus_kills_one_worker_and_no_other(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(6)]
    for path in paths:
        path.write_bytes(b"\1" * 300_000)
    tasks = [(str(path), True) for path in paths]
    outcomes = list(run(read_all, tasks, 2))
    assert len(outcomes) == 6
    for outcome in outcomes:
        assert outcome.value == WorkerDied(signal.SIGBUS)
        assert outcome.value.label == "SIGBUS"


def test_after_sigbus_a_task_is_done_another_way(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(6)]
    for path in paths:
        path.write_bytes(b"\1" * 300_000)

    def unmapped(task: tuple[str, bool], died: WorkerDied) -> tuple[str, bool] | None:
        path, mapped = task
        return (path, False) if mapped and died.signal == signal.SIGBUS else None

    tasks = [(str(path), True) for path in paths]
    outcomes = list(run(read_all, tasks, 2, retry=unmapped))
    assert sorted(outcome.index for outcome in outcomes) == list(range(6))
    for outcome in outcomes:
        assert outcome.task == (str(paths[outcome.index]), False)
        assert isinstance(outcome.value, VanishedError) or outcome.value == 2


def test_a_task_that_kills_again_after_its_retry_has_died() -> None:
    seen: list[tuple[str, int]] = []

    def die(task: str, report: Report) -> int:
        kill_self(signal.SIGKILL)
        return 0

    def once(task: str, died: WorkerDied) -> str | None:
        seen.append((task, died.signal))
        return "second" if task == "first" else None

    assert list(run(die, ["first"], 1, retry=once)) == [
        Result(0, "second", WorkerDied(signal.SIGKILL))
    ]
    assert seen == [("first", signal.SIGKILL), ("second", signal.SIGKILL)]


def test_the_death_of_some_leaves_the_results_of_the_others() -> None:
    def sometimes(task: int, report: Report) -> int:
        if task % 5 == 2:
            kill_self(signal.SIGSEGV)
        return task

    values = {outcome.index: outcome.value for outcome in run(sometimes, range(40), 3)}
    assert values == {
        number: WorkerDied(signal.SIGSEGV) if number % 5 == 2 else number for number in range(40)
    }


def test_a_worker_killed_while_idle_loses_no_task(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def where(task: int, report: Report) -> int:
        while task == 1 and not gate.exists():
            time.sleep(0.001)
        return os.getpid()

    with closing(run(where, range(2), 2)) as outcomes:
        first = next(outcomes)
        assert first.index == 0
        assert isinstance(first.value, int)
        os.kill(first.value, signal.SIGKILL)
        while alive(first.value):
            time.sleep(0.001)
        # Opened only after the death was noticed.
        with subprocess.Popen(["sh", "-c", 'sleep 0.1; : >"$0"', str(gate)]):
            (second,) = outcomes
    assert second.index == 1
    assert isinstance(second.value, int)


def interrupt_in_the_middle_of_a_fork() -> int:
    """How many children are left, -1 if it goes on."""
    plain_fork = os.fork

    def interrupted() -> int:
        pid = plain_fork()
        if pid:
            os.kill(os.getpid(), signal.SIGINT)
        return pid

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.fork = interrupted
    try:
        list(run(double, range(3), 2))
    except KeyboardInterrupt:
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
            return 1
        return 0
    return -1


def test_an_interrupt_in_the_middle_of_a_fork_leaves_no_child() -> None:
    # In a process of one thread, like that of kdump: the process of the tests may have more.
    pid = os.fork()
    if pid == 0:
        left = 2
        try:
            left = interrupt_in_the_middle_of_a_fork()
        finally:
            os._exit(left & 0xFF)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_second_interrupt_finds_all_workers_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_fork, plain_reap, hired = workers._fork, workers._reap, []

    def hire(*arguments: Any) -> Any:
        hired.append(plain_fork(*arguments))
        return hired[-1]

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "_fork", hire)
    monkeypatch.setattr(workers, "_reap", interrupted)
    outcomes = run(lambda task, _: time.sleep(1000 * task), range(2), 2)
    assert next(outcomes).index == 0
    with pytest.raises(KeyboardInterrupt):
        outcomes.close()
    # The one that was idle, too: it may have the pipes of another pool open.
    ended = [os.WTERMSIG(plain_reap(worker)) for worker in hired]
    assert ended == [signal.SIGKILL, signal.SIGKILL]


def test_a_signal_just_before_the_wait_is_noticed_within_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wait ends by itself: a signal after Python's last check cannot end it."""
    plain = select.poll()

    class Poll:
        register, unregister = plain.register, plain.unregister

        @staticmethod
        def poll(*timeout: float) -> list[tuple[int, int]]:
            ready = plain.poll(*timeout)
            if not ready:  # as where Python's handler runs when the wait is over
                raise KeyboardInterrupt
            return ready

    monkeypatch.setattr(select, "poll", Poll)
    with pytest.raises(KeyboardInterrupt):
        list(run(lambda task, _: time.sleep(1000), range(2), 2))


def test_a_task_that_cannot_be_handed_over_counts_as_lost_with_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain_write = workers._write

    def refuse(descriptor: int, data: bytes) -> None:
        if data[:1] == workers._TASK:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        plain_write(descriptor, data)

    real_fork = os.fork

    def fork_dead() -> int:
        pid = real_fork()
        os.kill(pid or os.getpid(), signal.SIGKILL)
        return pid

    monkeypatch.setattr(workers, "_write", refuse)
    monkeypatch.setattr(os, "fork", fork_dead)
    assert list(run(double, [7], 1)) == [Result(0, 7, WorkerDied(signal.SIGKILL))]


def test_real_time_signals_have_a_label() -> None:
    assert WorkerDied(signal.SIGRTMIN + 3).label == f"signal {signal.SIGRTMIN + 3}"


@pytest.mark.timeout(300)  # the workers sleep longer
def test_leaving_early_kills_and_reaps() -> None:
    pids_read, pids_write = os.pipe()

    def sleep(task: int, report: Report) -> int:
        if task:
            os.write(pids_write, b"%10d" % os.getpid())
            time.sleep(600)
        return task

    outcomes = run(sleep, [0, 1, 1], 3)
    assert next(outcomes).value == 0
    pids = {int(os.read(pids_read, 10)) for _ in range(2)}
    outcomes.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    os.close(pids_read)
    os.close(pids_write)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_parent_ends_the_run(number: signal.Signals) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    parent = os.getpid()

    def sleep(task: int, report: Report) -> int:
        if task == 1:
            os.kill(parent, number)
        time.sleep(60)
        return task

    before = signal.signal(number, stop)
    try:
        with pytest.raises(Stopped):
            list(run(sleep, range(3), 2))
    finally:
        signal.signal(number, before)


def test_workers_ignore_the_terminals_interrupt_and_obey_sigterm() -> None:
    def survive(task: int, report: Report) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGUSR1)
        return signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        assert [outcome.value for outcome in run(survive, [0], 1)] == [True]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_workers_have_no_signal_blocked_and_leave_no_core() -> None:
    def state(task: int, report: Report) -> tuple[int, int]:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return len(blocked), resource.getrlimit(resource.RLIMIT_CORE)[0]

    assert [outcome.value for outcome in run(state, [0], 1)] == [(0, 0)]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def test_workers_hold_no_pipe_of_another_and_no_lock_of_the_parent(tmp_path: Path) -> None:
    lock = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    before = descriptors()

    def count(task: int, report: Report) -> int:
        time.sleep(0.01)
        with pytest.raises(OSError):
            os.fstat(lock)
        return len(descriptors() - before)

    counts = {outcome.value for outcome in run(count, range(12), 4, close_descriptors=iter([lock]))}
    assert counts == {2}
    os.close(lock)


def test_a_lock_is_released_though_a_worker_lives(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with closing(run(double, iter([1, 2]), 1, close_descriptors=[lock])) as outcomes:
        next(outcomes)
        os.close(lock)
        other = os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # would raise if it were still held
        assert next(outcomes).value == 4
    os.close(other)


PARENT = """
import os, sys, time
from kdump.storage.workers import run

def sleep(task, report):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

list(run(sleep, range(2), 2))
"""


def test_workers_die_with_their_parent() -> None:
    if sys.platform != "linux":
        pytest.skip("elsewhere a busy worker ends its task first")
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_worker_whose_parent_died_before_it_could_ask_exits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with pytest.raises(WorkerBug, match="status 0"):
        list(run(double, [1], 1))


def test_a_failing_fork_leaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(BlockingIOError):
        list(run(double, [1], 1))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def test_messages_come_out_whole_however_they_arrive() -> None:
    data = b"".join(
        workers._HEADER.pack(workers._RESULT, len(payload)) + payload
        for payload in (pickle.dumps(number) for number in range(5))
    )
    received, values = bytearray(), []
    for position in range(0, len(data), 3):
        received += data[position : position + 3]
        values += [pickle.loads(payload) for _, payload in workers._messages(received)]
    assert values == list(range(5))
    assert received == b""


def test_a_cut_task_ends_the_worker() -> None:
    tasks_read, tasks_write = os.pipe()
    os.write(tasks_write, workers._HEADER.pack(workers._TASK, 100) + b"only this")
    os.close(tasks_write)
    done: list[int] = []

    def never(task: int, report: Report) -> None:
        done.append(task)

    workers._serve(never, tasks_read, -1)
    assert done == []
    os.close(tasks_read)


def test_default_jobs_follow_the_affinity() -> None:
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)
    if sys.platform == "linux":
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(before)})
            assert default_jobs() == 1
        finally:
            os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {}, float("inf")),
        ("0::/\n", {"cpu.max": "max 100000\n"}, float("inf")),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1.0),
        ("0::/not/here\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "rubbish\n"}, float("inf")),
        (
            "4:memory:/x\n3:cpu,cpuacct:/x\n2:cpuset:/\n0::/\n",
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        ("1:cpuset:/\n", {"cpuset/cpu.max": "100000 100000"}, float("inf")),
    ],
)
def test_a_cgroups_quota_is_found(
    tmp_path: Path, membership: str, files: dict[str, str], expected: float
) -> None:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    assert workers._cgroup_cpus(tmp_path / "membership", tmp_path / "root") == expected


def test_no_cgroups_no_quota(tmp_path: Path) -> None:
    assert workers._cgroup_cpus(tmp_path / "none", tmp_path) == float("inf")
