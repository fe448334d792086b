"""A pool of forked workers that survives the death of a worker.

Plain ``fork`` and pipes, because the pools of ``multiprocessing`` need a writable /dev/shm. A
worker that a signal killed (SIGBUS, when a mapped file was cut underneath) is replaced, and its
task is told apart. Fork before any thread is started: this module must never start one. No child
outlives ``run``, and none returns from it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import select
import signal
import struct
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from kdump.errors import KdumpError

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")

Report = Callable[[int], None]
"""Called with a count of bytes that were done; now and then, each call is a message."""

_HEADER = struct.Struct("=cQ")  # kind and length of a message; both ends are the same program
_TASK, _PROGRESS, _RESULT, _ERROR, _BUG = b"T", b"P", b"R", b"E", b"B"
_PIPE_BYTES = 1 << 16  # what a pipe holds
# A signal that comes between Python's last look for one and the wait for workers does not end that
# wait: only the next message would, and a worker may take minutes until it has one.
_WAIT_MILLISECONDS = 1000
_PR_SET_PDEATHSIG = 1
# Over a fork: until a child has handlers of its own, a signal must not run its parent's in it.
_HELD_BACK = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}


@dataclass(frozen=True, slots=True)
class Died:
    """The worker was killed by ``signal`` while it had the task."""

    signal: int

    @property
    def label(self) -> str:
        """The signal's name, such as SIGBUS."""
        try:
            return signal.Signals(self.signal).name
        except ValueError:  # a real-time signal
            return f"signal {self.signal}"


@dataclass(frozen=True, slots=True)
class Result(Generic[T, R]):
    """What became of one task: ``index`` is its place in the order of tasks, counted from 0.

    ``task`` is the one that was worked on last, which is another one after a retry.
    """

    index: int
    task: T
    value: R | KdumpError | Died


class WorkerBug(RuntimeError):
    """A worker met an error that is none of ``KdumpError``: the text is its traceback."""


@dataclass(slots=True, eq=False)
class _Worker(Generic[T]):
    pid: int
    tasks: int  # the pipe that carries tasks to the worker
    results: int  # the pipe that carries messages from it
    job: tuple[int, T] | None = None
    received: bytearray = field(default_factory=bytearray)


def run(
    work: Callable[[T, Callable[[P], None]], R],
    tasks: Iterable[T],
    jobs: int,
    *,
    retry: Callable[[T, Died], T | None] | None = None,
    on_progress: Callable[[P], None] | None = None,
    close_descriptors: Iterable[int] = (),
) -> Generator[Result[T, R], None, None]:
    """Do ``work`` on every task in at most ``jobs`` forked workers; outcomes come as they complete.

    Tasks and results travel pickled; ``work`` does not, nor does what it refers to. A KdumpError
    that ``work`` raises is the outcome's value; any other exception is raised here as WorkerBug.
    When a worker dies by a signal ``retry`` may give a task to do in the place of its own; None
    makes ``Died`` the outcome. ``on_progress`` gets what workers report, pickled too. Workers close
    ``close_descriptors``, such as that of a lock, which would else be held by them too.

    Leaving the iterator early, by an exception or by ``close``, kills and reaps every worker; to
    be sure of the moment use ``contextlib.closing``.
    """
    if jobs < 1:
        raise ValueError(f"expected at least 1 job, found {jobs}")
    not_theirs = tuple(close_descriptors)
    waiting = enumerate(tasks)
    again: deque[tuple[int, T]] = deque()
    workers: dict[int, _Worker[T]] = {}  # by the descriptor of their results
    idle: list[_Worker[T]] = []
    poll = select.poll()

    def next_job() -> tuple[int, T] | None:
        return again.popleft() if again else next(waiting, None)

    def hire() -> _Worker[T]:
        others = [fd for worker in workers.values() for fd in (worker.tasks, worker.results)]
        with signals_held_back() as before:
            worker: _Worker[T] = _fork(work, [*others, *not_theirs], before)
            workers[worker.results] = worker  # now an interrupt finds whom to reap
        poll.register(worker.results, select.POLLIN)
        return worker

    def dispatch() -> None:
        while (idle or len(workers) < jobs) and (job := next_job()) is not None:
            worker = idle.pop() if idle else hire()
            worker.job = job
            with suppress(BrokenPipeError):  # it just died: its results pipe will tell
                _send(worker.tasks, _TASK, job[1])

    def bury(worker: _Worker[T]) -> Result[T, R] | None:
        poll.unregister(worker.results)
        del workers[worker.results]
        if worker in idle:
            idle.remove(worker)
        status = _reap(worker)
        if not os.WIFSIGNALED(status):
            raise WorkerBug(f"worker exited with status {os.waitstatus_to_exitcode(status)}")
        if worker.job is None:
            return None
        index, task = worker.job
        died = Died(os.WTERMSIG(status))
        replacement = retry(task, died) if retry is not None else None
        if replacement is None:
            return Result(index, task, died)
        again.append((index, replacement))
        return None

    def receive(worker: _Worker[T]) -> Iterator[Result[T, R]]:
        chunk = os.read(worker.results, _PIPE_BYTES)
        if not chunk:
            outcome = bury(worker)
            if outcome is not None:
                yield outcome
            return
        worker.received += chunk
        for kind, payload in _messages(worker.received):
            if kind == _PROGRESS:
                if on_progress is not None:
                    on_progress(pickle.loads(payload))
                continue
            if kind == _BUG:
                raise WorkerBug(pickle.loads(payload))
            assert worker.job is not None
            index, task = worker.job
            worker.job = None
            idle.append(worker)
            yield Result(index, task, pickle.loads(payload))

    try:
        dispatch()
        while any(worker.job is not None for worker in workers.values()):
            outcomes = [
                outcome
                for descriptor, _ in poll.poll(_WAIT_MILLISECONDS)
                for outcome in receive(workers[descriptor])
            ]
            dispatch()  # before the caller takes its time with the outcomes
            yield from outcomes
    except BaseException:
        # All of them before any is waited for, since a second signal may end that: one that went on
        # would have the pipes of another pool open, whose workers then wait for their end in vain.
        for worker in workers.values():
            os.kill(worker.pid, signal.SIGKILL)
        raise
    finally:
        for worker in workers.values():
            _reap(worker)


@contextmanager
def signals_held_back() -> Iterator[set[signal.Signals | int]]:
    """Hold signals back around a fork; yields the mask that ``initialise_child`` sets."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def initialise_child(parent: int, mask: set[signal.Signals | int]) -> bool:
    """Make a process that was just forked by ``parent`` end with it, and leave signals to it.

    False where the parent is gone already.
    """
    gc.freeze()  # what the parent made stays shared: to look through it would copy its pages
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the parent acts
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    # A core file would hold records.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # else it died before we asked to be told


def default_jobs() -> int:
    """How many workers suit this process: the CPUs it may use, by affinity and cgroup."""
    if sys.platform == "linux":
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    quota = _cgroup_cpus(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, int(min(cpus, quota)))


def _cgroup_cpus(membership: Path, root: Path) -> float:
    """How many CPUs' time the cgroups above this process leave it; infinite without a quota."""
    limit = float("inf")
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return limit
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / controllers if controllers else root
        # In a container the path may be the host's, and the own group is then the mount itself.
        group = mount / path.lstrip("/")
        for directory in (group, *group.parents):
            if directory.is_relative_to(mount):
                limit = min(limit, _quota(directory))
    return limit


def _quota(group: Path) -> float:
    """The CPUs' time that one cgroup grants, in version 2 or version 1 files."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            quota, period = " ".join((group / name).read_text() for name in names).split()
            if quota not in ("max", "-1"):
                return int(quota) / int(period)
    return float("inf")


def _fork(
    work: Callable[[T, Callable[[P], None]], R],
    close: Iterable[int],
    mask: set[signal.Signals | int],
) -> _Worker[T]:
    """Fork a worker; signals are held back, and ``mask`` is what it shall block instead."""
    parent = os.getpid()
    tasks_read, tasks_write = os.pipe()
    results_read, results_write = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            not_ours = [tasks_write, results_read, *close]
            _be_worker(work, tasks_read, results_write, not_ours, parent, mask)
    except OSError:
        os.close(tasks_write)
        os.close(results_read)
        raise
    finally:
        os.close(tasks_read)
        os.close(results_write)
    return _Worker(pid, tasks_write, results_read)


def _be_worker(
    work: Callable[[T, Callable[[P], None]], R],
    tasks: int,
    results: int,
    close: Iterable[int],
    parent: int,
    mask: set[signal.Signals | int],
) -> NoReturn:
    """Live as a worker; leaves by ``os._exit`` alone, so that nothing of the parent runs twice."""
    status = 1
    try:
        for descriptor in close:
            os.close(descriptor)
        if initialise_child(parent, mask):
            _serve(work, tasks, results)
        status = 0
    finally:
        os._exit(status)


def _serve(work: Callable[[T, Callable[[P], None]], R], tasks: int, results: int) -> None:
    """Do one task after the other until the parent closes the pipe or is gone."""

    def report(progress: P) -> None:
        _send(results, _PROGRESS, progress)

    while (header := _read(tasks, _HEADER.size)) is not None:
        _, length = _HEADER.unpack(header)
        payload = _read(tasks, length)
        if payload is None:
            return
        kind, value = _attempt(work, payload, report)
        _write(results, _HEADER.pack(kind, len(value)))
        _write(results, value)


def _attempt(
    work: Callable[[T, Callable[[P], None]], R], payload: bytes, report: Callable[[P], None]
) -> tuple[bytes, bytes]:
    try:
        try:
            return _RESULT, pickle.dumps(work(pickle.loads(payload), report))
        except KdumpError as error:
            return _ERROR, pickle.dumps(error)
    except Exception:  # noqa: BLE001 - this is the process's last resort; the parent raises it
        return _BUG, pickle.dumps(traceback.format_exc())


def _send(descriptor: int, kind: bytes, value: object) -> None:
    payload = pickle.dumps(value)
    _write(descriptor, _HEADER.pack(kind, len(payload)) + payload)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int, length: int) -> bytes | None:
    """Read exactly ``length`` bytes; None if the other end was closed before."""
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, min(length - len(data), _PIPE_BYTES))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _messages(received: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Take the complete messages out of what was received so far."""
    while len(received) >= _HEADER.size:
        kind, length = _HEADER.unpack_from(received)
        end = _HEADER.size + length
        if len(received) < end:
            return
        with memoryview(received) as message:
            payload = bytes(message[_HEADER.size : end])
        del received[:end]
        yield kind, payload


def _reap(worker: _Worker[T]) -> int:
    """Close the pipes, at which an idle worker exits, and wait for the end; returns its status."""
    os.close(worker.tasks)
    os.close(worker.results)
    return os.waitpid(worker.pid, 0)[1]
