"""A pool of forked workers that survives the death of a worker.

Plain ``fork`` and pipes, because the pools of ``multiprocessing`` need a writable /dev/shm. A
worker that a signal kills (SIGBUS, when a mapped file is truncated underneath) is replaced, and its
task ends with ``WorkerDied``. Fork before any thread is started; this module starts none. No child
outlives ``run``, and no child returns from it.
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
from kdump.values import frozen

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")

Report = Callable[[int], None]
"""Takes the count of bytes done since the last call. Each call sends a message to the parent."""

_HEADER = struct.Struct("=cQ")  # kind and length of a message; both ends are the same program
_TASK, _PROGRESS, _RESULT, _ERROR, _BUG = b"T", b"P", b"R", b"E", b"B"
_PIPE_BYTES = 1 << 16  # what a pipe holds
# A signal that arrives after Python's last check for signals and before the wait for workers does
# not end that wait. The next message does, which may take a worker minutes.
_WAIT_MILLISECONDS = 1000
_PR_SET_PDEATHSIG = 1
# Blocked over a fork: until a child has set handlers of its own, it would run those of its parent.
_BLOCKED_SIGNALS = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGALRM,
}


@frozen
class WorkerDied:
    """The worker was killed by ``signal`` while it had the task."""

    signal: int

    @property
    def label(self) -> str:
        """The signal's name, such as SIGBUS."""
        try:
            return signal.Signals(self.signal).name
        except ValueError:  # a real-time signal
            return f"signal {self.signal}"

    @property
    def of_map(self) -> bool:
        """Whether it died of a file that was truncated while it was mapped."""
        return self.signal == signal.SIGBUS


@frozen
class Result(Generic[T, R]):
    """The result of one task.

    ``index`` is the task's position in the order of tasks, counted from 0. ``task`` is the task as
    it was last given to a worker: after a retry that is its replacement. ``value`` is what the work
    returned, the KdumpError that it raised, or the death of its worker.
    """

    index: int
    task: T
    value: R | KdumpError | WorkerDied


class WorkerBug(RuntimeError):
    """A worker raised an exception other than ``KdumpError``; the text is its traceback."""


@dataclass(slots=True, eq=False)
class _Worker(Generic[T]):
    pid: int
    tasks: int  # the pipe that carries tasks to the worker
    results: int  # the pipe that carries messages from it
    job: tuple[int, T] | None = None
    received: bytearray = field(default_factory=bytearray)


def same_task(task: T) -> T:
    """Return ``task``: it is tried again as it is."""
    return task


def in_order(results: Iterable[tuple[int, R]]) -> Iterator[R]:
    """Yield the results of tasks in the order of the tasks, which are numbered from 0.

    ``results`` have the number of their task, and come in any order.
    """
    ready: dict[int, R] = {}
    following = 0
    for number, result in results:
        ready[number] = result
        while following in ready:
            yield ready.pop(following)
            following += 1


def progress_counter(total: int, on_progress: Callable[[int], None]) -> Callable[[float], None]:
    """Return a callback for fractions of ``total``, which reports counts to ``on_progress``."""
    done = 0

    def report(fraction: float) -> None:
        nonlocal done
        count = int(fraction * total)
        if count > done:
            on_progress(count - done)
            done = count

    return report


def run(
    work: Callable[[T, Callable[[P], None]], R],
    tasks: Iterable[T],
    jobs: int,
    *,
    retry: Callable[[T, WorkerDied], T | None] | None = None,
    on_progress: Callable[[P], None] | None = None,
    close_descriptors: Iterable[int] = (),
) -> Generator[Result[T, R], None, None]:
    """Do ``work`` on every task in at most ``jobs`` forked workers; yield results as they complete.

    Tasks and results are pickled; ``work`` and the objects that it refers to are not. A KdumpError
    that ``work`` raises is the value of the result; this function raises any other exception as
    WorkerBug. When a signal kills a worker, ``retry`` may return a task to do instead of the one
    that the worker had; without one the value of the result is ``WorkerDied``.
    ``on_progress`` takes what workers report, which is pickled too. Workers close
    ``close_descriptors``: the descriptor of a lock, for example, would hold the lock in each of
    them.

    Leaving the iterator early, by an exception or by ``close``, kills and reaps every worker. Use
    ``contextlib.closing`` to choose the moment.
    """
    if jobs < 1:
        raise ValueError(f"expected at least 1 job, found {jobs}")
    parent_only = tuple(close_descriptors)
    numbered_tasks = enumerate(tasks)
    retries: deque[tuple[int, T]] = deque()
    workers: dict[int, _Worker[T]] = {}  # by the descriptor of their results
    idle: list[_Worker[T]] = []
    poll = select.poll()

    def next_job() -> tuple[int, T] | None:
        return retries.popleft() if retries else next(numbered_tasks, None)

    def start_worker() -> _Worker[T]:
        others = [fd for worker in workers.values() for fd in (worker.tasks, worker.results)]
        with block_signals() as previous_mask:
            worker: _Worker[T] = _fork(work, [*others, *parent_only], previous_mask)
            workers[worker.results] = worker  # from here on an interrupt reaps it
        poll.register(worker.results, select.POLLIN)
        return worker

    def dispatch() -> None:
        while (idle or len(workers) < jobs) and (job := next_job()) is not None:
            worker = idle.pop() if idle else start_worker()
            worker.job = job
            with suppress(BrokenPipeError):  # it just died: its results pipe ends
                _send(worker.tasks, _TASK, job[1])

    def remove_worker(worker: _Worker[T]) -> Result[T, R] | None:
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
        died = WorkerDied(os.WTERMSIG(status))
        replacement = retry(task, died) if retry is not None else None
        if replacement is None:
            return Result(index, task, died)
        retries.append((index, replacement))
        return None

    def receive(worker: _Worker[T]) -> Iterator[Result[T, R]]:
        chunk = os.read(worker.results, _PIPE_BYTES)
        if not chunk:
            result = remove_worker(worker)
            if result is not None:
                yield result
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
            results = [
                result
                for descriptor, _ in poll.poll(_WAIT_MILLISECONDS)
                for result in receive(workers[descriptor])
            ]
            dispatch()  # workers go on while the caller handles the results
            yield from results
    except BaseException:  # Ctrl-C too: no worker goes on
        # All workers are killed before the wait for any of them, which a second signal may end. A
        # worker that survived would hold the pipes of another pool open, and the workers of that
        # pool would never see their pipes end.
        for worker in workers.values():
            os.kill(worker.pid, signal.SIGKILL)
        raise
    finally:
        for worker in workers.values():
            _reap(worker)


@contextmanager
def block_signals() -> Iterator[set[signal.Signals | int]]:
    """Block signals around a fork; yield the mask that ``initialise_child`` sets."""
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_SIGNALS)
    try:
        yield previous_mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def initialise_child(parent: int, mask: set[signal.Signals | int]) -> bool:
    """Set up a process that ``parent`` has just forked; return whether the parent still runs.

    The process ends with its parent, and leaves the signals of a terminal to it. ``mask`` is its
    signal mask.
    """
    gc.freeze()  # the collector would copy the pages that hold the parent's objects
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
    return os.getppid() == parent  # it may have died before prctl


def default_jobs() -> int:
    """Return how many workers suit this process: the CPUs it may use, by affinity and cgroup."""
    if sys.platform == "linux":
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    quota = _cgroup_cpus(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, int(min(cpus, quota)))


def _cgroup_cpus(membership: Path, root: Path) -> float:
    """Return the number of CPUs that the cgroups of this process grant; infinite without a quota.

    ``membership`` is the file that names the cgroups, ``root`` the directory they are mounted at.
    """
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
        # In a container the path may be that of the host, and the mount itself is the cgroup.
        cgroup = mount / path.lstrip("/")
        for directory in (cgroup, *cgroup.parents):
            if directory.is_relative_to(mount):
                limit = min(limit, _quota(directory))
    return limit


def _quota(cgroup: Path) -> float:
    """Return the number of CPUs that one cgroup grants, by its files of version 2 or version 1."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            quota, period = " ".join((cgroup / name).read_text() for name in names).split()
            if quota not in ("max", "-1"):
                return int(quota) / int(period)
    return float("inf")


def _fork(
    work: Callable[[T, Callable[[P], None]], R],
    close: Iterable[int],
    mask: set[signal.Signals | int],
) -> _Worker[T]:
    """Fork a worker that closes the descriptors in ``close``.

    Signals are blocked during the fork; ``mask`` is the signal mask of the worker.
    """
    parent = os.getpid()
    tasks_read, tasks_write = os.pipe()
    results_read, results_write = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _run_worker(
                work, tasks_read, results_write, [tasks_write, results_read, *close], parent, mask
            )
    except OSError:
        os.close(tasks_write)
        os.close(results_read)
        raise
    finally:
        os.close(tasks_read)
        os.close(results_write)
    return _Worker(pid, tasks_write, results_read)


def _run_worker(
    work: Callable[[T, Callable[[P], None]], R],
    tasks: int,
    results: int,
    close: Iterable[int],
    parent: int,
    mask: set[signal.Signals | int],
) -> NoReturn:
    """Run as a worker, and end in ``os._exit``, so that no code of the parent runs twice."""
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
    """Do one task after another until the parent closes the pipe or ends."""

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
    except Exception:  # noqa: BLE001 - whatever it is, the parent raises it
        return _BUG, pickle.dumps(traceback.format_exc())


def _send(descriptor: int, kind: bytes, value: object) -> None:
    payload = pickle.dumps(value)
    _write(descriptor, _HEADER.pack(kind, len(payload)) + payload)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int, length: int) -> bytes | None:
    """Return exactly ``length`` bytes, or None if the other end is closed before."""
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, min(length - len(data), _PIPE_BYTES))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _messages(received: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Take the complete messages out of ``received``; yield kind and payload of each."""
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
    """Close the pipes, which ends an idle worker; wait for its end and return its wait status."""
    os.close(worker.tasks)
    os.close(worker.results)
    return os.waitpid(worker.pid, 0)[1]
