"""spread(): one function over many tasks on all executors.

A row of the plan table is a pack of tasks. They are pickled together, so that objects which they
share are sent once. Each row becomes one task of Spark. A task of kdump cannot fail a task of
Spark: from the second attempt on each runs in a forked child, whose death is a result, and the last
attempt gives the tasks up. Tasks that were given up are tried once more, each in a pack of its own.

Spec: ``DataFrame.repartitionById`` and ``mapInArrow``, with and without Spark Connect.
"""

from __future__ import annotations

import gc
import pickle
import traceback
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import pyarrow as pa
from pyspark import TaskContext

from kdump.errors import KdumpError
from kdump.fleet.job.job import JobFailed, collect
from kdump.fleet.job.packing import pack_tasks
from kdump.storage import workers
from kdump.storage.workers import WorkerBug, WorkerDied
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

T = TypeVar("T")
R = TypeVar("R")

_PLAN: Final = pa.schema([("pack", pa.int32()), ("tasks", pa.binary())])
#: A row holds some results, which are pickled together.
_RESULTS: Final = pa.schema([("results", pa.binary())])
_RESULTS_DDL: Final = "results binary"
#: The size from which a batch of results is sent.
_BATCH_BYTES: Final = 4 << 20
_FAILURES: Final = "spark.task.maxFailures"
_FAILURES_DEFAULT: Final = "4"


@frozen
class LostTask:
    """The result of a task that has sent none; ``text`` is the reason."""

    text: str


def failure_text(result: WorkerDied | LostTask) -> str:
    """Return what was found in the place of the result of a task."""
    return result.text if isinstance(result, LostTask) else f"a process that {result.label} killed"


class _Kind(IntEnum):
    RESULT = 0
    ERROR = 1  # a KdumpError
    BUG = 2  # the traceback of any other exception
    DIED = 3
    GIVEN_UP = 4
    LOST = 5  # a LostTask


def _same_task(task: T) -> T:
    return task


def spread(
    session: Session,
    work: Callable[[T], R],
    tasks: Sequence[T],
    sizes: Sequence[int],
    *,
    careful: Callable[[T], T] = _same_task,
    on_progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, R | WorkerDied | LostTask]]:
    """Run ``work`` on every task, and yield task numbers with results, in any order.

    ``sizes`` are the bytes that each task reads. Tasks, results and ``work`` are pickled, so that
    ``work`` is a function of a module, a ``partial`` of one, or a dataclass with ``__call__``. It
    may run more than once for a task, also at the same time. When Spark tries again, each task runs
    in a forked child, as ``careful`` returns it. The result is ``WorkerDied`` if a signal killed
    the child, and ``LostTask`` if no executor finished the task or the job failed.

    Raise the KdumpError that ``work`` raises, and WorkerBug for any other exception of it.
    ``on_progress`` gets the fraction of tasks done, up to 1.
    """
    spark_work = _Work(work, careful, last_attempt=max(_max_failures(session) - 1, 1))
    packs = pack_tasks(sizes, session.cores)
    given_up: list[int] = []
    for number, kind, value in _run_job(session, spark_work, tasks, packs, on_progress):
        if kind is _Kind.GIVEN_UP:
            given_up.append(number)
        else:
            yield number, _decode_result(kind, value)
    # Alone in its pack, a task is not given up because of its neighbours.
    alone = [range(number, number + 1) for number in sorted(given_up)]
    for number, kind, value in _run_job(session, spark_work, tasks, alone, None):
        yield number, _decode_result(kind, value)


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
                yield from _result_batches(self._run_tasks(pickle.loads(pack.as_py()), attempt))
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


def _run_job(
    session: Session,
    work: _Work[T, R],
    tasks: Sequence[T],
    packs: Sequence[range],
    on_progress: Callable[[float], None] | None,
) -> Iterator[tuple[int, _Kind, bytes]]:
    """Run one job; yield a result for every task in ``packs``, also if the job fails."""
    if not packs:
        return
    rows = [pickle.dumps([(number, tasks[number]) for number in pack]) for pack in packs]
    numbers = pa.py_buffer(array("i", range(len(rows))))
    pack_numbers = pa.Array.from_buffers(pa.int32(), len(rows), [None, numbers])
    plan = pa.table([pack_numbers, _binary_array(rows)], schema=_PLAN)
    frame = session.spark.createDataFrame(plan)
    if len(packs) > 1:  # one row needs no stage that distributes it
        frame = frame.repartitionById(len(packs), "pack")
    missing = {number for pack in packs for number in pack}
    reason = "no task sent its result"
    try:
        table = collect(session, frame.mapInArrow(work, _RESULTS_DDL), len(packs), on_progress)
    except JobFailed as failed:
        reason = str(failed)
    else:
        for row in table.column("results"):
            for number, kind, value in pickle.loads(row.as_py()):
                missing.remove(number)
                yield number, kind, value
    lost = pickle.dumps(LostTask(reason))
    yield from ((number, _Kind.LOST, lost) for number in sorted(missing))


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
