"""spread(): one function over many tasks on all executors.

Tasks are taken from their source a few seconds of work at a time, each time for one job of Spark.
Two jobs run at once, so that cores are not idle when one of them ends. Results come in as jobs end.
Only the tasks and results of these two are held, whatever the number of tasks.

A row of the plan table is a pack of tasks. They are pickled together, so that objects which they
share are sent once. Each row becomes one task of Spark. A task of kdump cannot fail a task of
Spark: from the second attempt on each runs in a forked child, whose death is a result, and the last
attempt gives the tasks up. Tasks that were given up are tried once more, each in a pack of its own.

Spec: ``DataFrame.repartitionById`` and ``mapInArrow``, with and without Spark Connect.
"""

from __future__ import annotations

import gc
import pickle
import time
import traceback
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import pyarrow as pa
from pyspark import TaskContext

from kdump.audit.run.spread import LostTask, failure_text
from kdump.errors import KdumpError
from kdump.fleet.job.job import Job, JobFailed, Jobs
from kdump.fleet.job.packing import JobSize, pack_tasks, task_cost
from kdump.storage import workers
from kdump.storage.workers import WorkerBug, WorkerDied, same_task
from kdump.values import frozen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kdump.fleet.session.session import Session

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")

#: The jobs that run at the same time.
_AT_ONCE: Final = 2
#: The tasks of a job. The driver holds some KB of each, and needs a second for as many results.
_MOST_TASKS: Final = 4096
#: Tasks are alike: of thousands of tiny partitions, a twentieth is sent.
_LEVEL: Final = 1

_PLAN: Final = pa.schema([("pack", pa.int32()), ("tasks", pa.binary())])
#: A row holds some results, which are pickled together.
_RESULTS: Final = pa.schema([("results", pa.binary())])
_RESULTS_DDL: Final = "results binary"
#: The size from which a batch of results is sent.
_BATCH_BYTES: Final = 4 << 20
_FAILURES: Final = "spark.task.maxFailures"
_FAILURES_DEFAULT: Final = "4"


class _Kind(IntEnum):
    RESULT = 0
    ERROR = 1  # a KdumpError
    BUG = 2  # the traceback of any other exception
    DIED = 3
    GIVEN_UP = 4
    LOST = 5  # a LostTask


@frozen
class StreamEntry(Generic[K, T]):
    """A task of a ``Stream``; ``key`` is for its caller, and ``size`` are the bytes that it reads.

    ``alone``: it was given up with others, and gets a pack of its own.
    """

    key: K
    task: T
    size: int
    alone: bool = False


class Stream(Generic[K, T, R]):
    """Runs ``work`` on tasks as they come in; ``work`` and ``careful`` are as for ``spread``."""

    def __init__(
        self,
        session: Session,
        work: Callable[[T], R],
        careful: Callable[[T], T] = same_task,
    ) -> None:
        self._session = session
        self._work = _Work(work, careful, last_attempt=max(_max_failures(session) - 1, 1))
        self._urgent: deque[StreamEntry[K, T]] = deque()

    def add(self, entry: StreamEntry[K, T]) -> None:
        """Add a task, which runs before the rest of those that ``run`` has been given."""
        self._urgent.append(entry)

    def run(
        self,
        source: Iterable[StreamEntry[K, T]],
        total_cost: int,
        on_progress: Callable[[float], None] | None = None,
    ) -> Generator[tuple[K, R | WorkerDied | LostTask], None, None]:
        """Yield the key of each task with its result, in any order.

        ``source`` is read when a job starts. ``total_cost`` is the cost of all its tasks, of which
        ``on_progress`` gets the fraction done. Raise as ``spread`` does.
        """
        entries = iter(source)
        size = JobSize(self._session.cores, time.monotonic())
        windows: dict[Job, _Window[K, T]] = {}
        done = 0

        def report() -> None:
            if on_progress is not None:
                now = sum(int(windows[job].cost * job.fraction()) for job in jobs.running)
                on_progress(min((done + now) / max(total_cost, 1), 1.0))

        with Jobs(self._session, _AT_ONCE) as jobs:
            while True:
                while not jobs.full and (taken := self._take(entries, size.cost)):
                    window = _Window(taken, self._session.cores)
                    windows[jobs.start(partial(self._frame, window.rows()), window.count)] = window
                if not jobs.running:
                    return
                job = jobs.wait(report)
                window = windows.pop(job)
                size.adapt(window.cost, time.monotonic())
                done += window.cost
                report()
                for entry, kind, value in window.results(job):
                    if kind is _Kind.GIVEN_UP and not entry.alone:
                        # Alone in its pack, a task is not given up because of its neighbours.
                        self._urgent.append(replace(entry, alone=True))
                    else:
                        yield entry.key, _decode_result(kind, value)

    def _take(self, entries: Iterator[StreamEntry[K, T]], most: int) -> list[StreamEntry[K, T]]:
        """Return the tasks of the next job, none if there are no further tasks for now."""
        taken: list[StreamEntry[K, T]] = []
        cost = 0
        while cost < most and len(taken) < _MOST_TASKS:
            entry = self._urgent.popleft() if self._urgent else next(entries, None)
            if entry is None:
                break
            taken.append(entry)
            cost += task_cost(entry.size)
        return taken

    def _frame(self, rows: Sequence[bytes]) -> DataFrame:
        numbers = pa.py_buffer(array("i", range(len(rows))))
        pack_numbers = pa.Array.from_buffers(pa.int32(), len(rows), [None, numbers])
        plan = pa.table([pack_numbers, _binary_array(rows)], schema=_PLAN)
        frame = self._session.spark.createDataFrame(plan)
        if len(rows) > 1:  # one row needs no stage that distributes it
            frame = frame.repartitionById(len(rows), "pack")
        return frame.mapInArrow(self._work, _RESULTS_DDL)


class _Window(Generic[K, T]):
    """The tasks of one job, in packs."""

    def __init__(self, entries: Sequence[StreamEntry[K, T]], cores: int) -> None:
        together = [number for number, entry in enumerate(entries) if not entry.alone]
        packs = pack_tasks([entries[number].size for number in together], cores)
        self._entries = entries
        self._packs = [[together[index] for index in pack] for pack in packs]
        self._packs += [[number] for number, entry in enumerate(entries) if entry.alone]
        self.count = len(self._packs)
        self.cost = sum(task_cost(entry.size) for entry in entries)

    def rows(self) -> list[bytes]:
        """Return the rows of the plan table."""
        return [
            zlib.compress(
                pickle.dumps([(number, self._entries[number].task) for number in pack]), _LEVEL
            )
            for pack in self._packs
        ]

    def results(self, job: Job) -> Iterator[tuple[StreamEntry[K, T], _Kind, bytes]]:
        """Yield a result for each task, also if the job has failed."""
        missing = set(range(len(self._entries)))
        for row in () if job.rows is None else job.rows.column("results"):
            for number, kind, value in pickle.loads(row.as_py()):
                missing.remove(number)
                yield self._entries[number], kind, value
        reason = "no task sent its result" if job.error is None else str(job.error)
        for number in sorted(missing):
            yield self._entries[number], _Kind.LOST, pickle.dumps(LostTask(reason))


def spread(
    session: Session,
    work: Callable[[T], R],
    tasks: Sequence[T],
    sizes: Sequence[int],
    *,
    careful: Callable[[T], T] = same_task,
    on_progress: Callable[[float], None] | None = None,
) -> Generator[tuple[int, R | WorkerDied | LostTask], None, None]:
    """Run ``work`` on every task, and yield task numbers with results, in any order.

    ``sizes`` are the bytes that each task reads. Tasks, results and ``work`` are pickled, so that
    ``work`` is a function of a module, a ``partial`` of one, or a dataclass with ``__call__``. It
    may run more than once for a task, also at the same time. When Spark tries again, each task runs
    in a forked child, as ``careful`` returns it. The result is ``WorkerDied`` if a signal killed
    the child, and ``LostTask`` if no executor finished the task or the job failed.

    A task is taken from ``tasks`` when its job starts. The end of the iterator, early or not, ends
    the jobs. Raise the KdumpError that ``work`` raises, and WorkerBug for any other exception of
    it. ``on_progress`` gets the fraction of tasks done, up to 1.
    """
    stream: Stream[int, T, R] = Stream(session, work, careful)
    source = (StreamEntry(number, tasks[number], size) for number, size in enumerate(sizes))
    yield from stream.run(source, sum(map(task_cost, sizes)), on_progress)


def run_single(session: Session, work: Callable[[T], R], task: T) -> R:
    """Run ``work`` on one task, and return the result. Raise JobFailed without one."""
    ((_, result),) = spread(session, work, [task], [0])
    if isinstance(result, WorkerDied | LostTask):
        raise JobFailed(f"expected a result of an executor, found {failure_text(result)}")
    return result


@frozen
class _Work(Generic[T, R]):
    """The function of a task of Spark, which gets its rows of the plan table."""

    work: Callable[[T], R]
    careful: Callable[[T], T]
    last_attempt: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for pack in batch.column("tasks"):
                tasks = pickle.loads(zlib.decompress(pack.as_py()))
                yield from _result_batches(self._run_tasks(tasks, attempt))
        _freeze()

    def _run_tasks(
        self, tasks: Sequence[tuple[int, T]], attempt: int
    ) -> Iterator[tuple[int, _Kind, bytes]]:
        if attempt >= self.last_attempt:
            yield from ((number, _Kind.GIVEN_UP, b"") for number, _ in tasks)
        elif attempt:
            yield from self._run_forked(tasks)
        else:
            yield from ((number, *_attempt(self.work, task)) for number, task in tasks)

    def _run_forked(self, tasks: Sequence[tuple[int, T]]) -> Iterator[tuple[int, _Kind, bytes]]:
        def work(task: T, _: Callable[[int], None]) -> tuple[_Kind, bytes]:
            return _attempt(self.work, task)

        for outcome in workers.run(work, (self.careful(task) for _, task in tasks), 1):
            number, _ = tasks[outcome.index]
            match outcome.value:
                case KdumpError() as error:
                    yield number, _Kind.ERROR, pickle.dumps(error)
                case WorkerDied() as died:
                    yield number, _Kind.DIED, pickle.dumps(died)
                case kind, value:
                    yield number, kind, value


@cache
def _freeze() -> None:
    """Exclude the imported modules from the garbage collection that Spark runs after each task."""
    gc.freeze()


def _attempt(work: Callable[[T], R], task: T) -> tuple[_Kind, bytes]:
    try:
        try:
            return _Kind.RESULT, pickle.dumps(work(task))
        except KdumpError as error:
            return _Kind.ERROR, pickle.dumps(error)
    except Exception:  # noqa: BLE001 - the driver raises it; Spark would only try the task again
        return _Kind.BUG, pickle.dumps(traceback.format_exc())


def _result_batches(results: Iterable[tuple[int, _Kind, bytes]]) -> Iterator[pa.RecordBatch]:
    batch: list[tuple[int, _Kind, bytes]] = []
    batch_bytes = 0
    for result in results:
        batch.append(result)
        batch_bytes += len(result[2])
        if batch_bytes >= _BATCH_BYTES:
            yield _batch(batch)
            batch, batch_bytes = [], 0
    if batch:
        yield _batch(batch)


def _batch(results: Sequence[tuple[int, _Kind, bytes]]) -> pa.RecordBatch:
    return pa.record_batch([_binary_array([pickle.dumps(results)])], schema=_RESULTS)


def _binary_array(values: Sequence[bytes]) -> pa.Array:
    """Return ``values`` as an array; ``pa.array`` would import pandas, which takes 0.4 s."""
    ends = array("i", accumulate(map(len, values), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _decode_result(kind: _Kind, value: bytes) -> R | WorkerDied | LostTask:
    if kind is _Kind.GIVEN_UP:
        return LostTask("every executor that had the task ended before the task")
    found = pickle.loads(value)
    if kind is _Kind.ERROR:
        raise cast(KdumpError, found)
    if kind is _Kind.BUG:
        raise WorkerBug(found)
    return cast("R | WorkerDied | LostTask", found)


def _max_failures(session: Session) -> int:
    """Return the number of failures of a task that make Spark fail the job."""
    return int(session.spark.conf.get(_FAILURES, _FAILURES_DEFAULT) or _FAILURES_DEFAULT)
