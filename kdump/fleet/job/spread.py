"""spread(): one function over many tasks on all executors.

A row of the plan table is a pack of tasks, pickled together, so that what they share travels once;
each row becomes one task of Spark. No task of Spark fails for what its tasks do: from the second
attempt on they run in a forked child each, whose death is a result, and the last attempt gives them
up. Those are tried once more, each in a pack of its own.

Spec: ``DataFrame.repartitionById`` and ``mapInArrow``, the same over Spark Connect.
"""

from __future__ import annotations

import gc
import pickle
import traceback
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import pyarrow as pa
from pyspark import TaskContext

from kdump.errors import KdumpError
from kdump.fleet.job.job import JobFailed, collected
from kdump.fleet.job.packing import packs
from kdump.storage import workers
from kdump.storage.workers import Died, WorkerBug

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

T = TypeVar("T")
R = TypeVar("R")

_PLAN: Final = pa.schema([("pack", pa.int32()), ("tasks", pa.binary())])
#: A row holds some results, pickled together.
_RESULTS: Final = pa.schema([("results", pa.binary())])
_RESULTS_DDL: Final = "results binary"
#: A batch of results is sent on when it holds so many bytes.
_BATCH_BYTES: Final = 4 << 20
_FAILURES: Final = "spark.task.maxFailures"
_FAILURES_DEFAULT: Final = "4"


@dataclass(frozen=True, slots=True)
class Lost:
    """What stands for the result of a task that has none: ``text`` says why."""

    text: str


class _Kind(IntEnum):
    RESULT = 0
    ERROR = 1  # a KdumpError
    BUG = 2  # the traceback of any other
    DIED = 3
    GIVEN_UP = 4
    LOST = 5  # what became of the job


def _as_it_is(task: T) -> T:
    return task


def spread(
    session: Session,
    work: Callable[[T], R],
    tasks: Sequence[T],
    sizes: Sequence[int],
    *,
    careful: Callable[[T], T] = _as_it_is,
    on_progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, R | Died | Lost]]:
    """Do ``work`` on every task; the results come with the numbers of their tasks, in any order.

    ``sizes`` are the bytes that each task reads. Tasks, results and ``work`` travel pickled; a
    function at the top of a module, a ``partial`` of one or a dataclass with ``__call__`` does so
    by its name. ``work`` may run more than once, also at the same time. When Spark tries again,
    each task runs in a forked child as ``careful`` makes it: ``Died`` is the result where a signal
    killed that. ``Lost`` is it where no executor came to an end, or the job failed.

    A KdumpError that ``work`` raises is raised here, any other as WorkerBug. ``on_progress`` gets
    the part that is done, up to 1.
    """
    done = _Work(work, careful, last_attempt=max(_failures(session) - 1, 1))
    whole = packs(sizes, session.cores)
    given_up: list[int] = []
    for number, kind, value in _results(session, done, tasks, whole, on_progress):
        if kind is _Kind.GIVEN_UP:
            given_up.append(number)
        else:
            yield number, _result(kind, value)
    # What is alone is not given up for what its neighbours did.
    alone = [range(number, number + 1) for number in sorted(given_up)]
    for number, kind, value in _results(session, done, tasks, alone, None):
        yield number, _result(kind, value)


def counting(total: int, on_progress: Callable[[int], None]) -> Callable[[float], None]:
    """Make counts of what is done by now parts of it."""
    done = 0

    def told(part: float) -> None:
        nonlocal done
        now = int(part * total)
        if now > done:
            on_progress(now - done)
            done = now

    return told


@dataclass(frozen=True, slots=True)
class _Work(Generic[T, R]):
    """What a task of Spark does with its rows of the plan table."""

    work: Callable[[T], R]
    careful: Callable[[T], T]
    last_attempt: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for pack in batch.column("tasks"):
                yield from _sent(self._each(pickle.loads(pack.as_py()), attempt))
        _freeze()

    def _each(
        self, tasks: Sequence[tuple[int, T]], attempt: int
    ) -> Iterator[tuple[int, _Kind, bytes]]:
        if attempt >= self.last_attempt:
            yield from ((number, _Kind.GIVEN_UP, b"") for number, _ in tasks)
        elif attempt:
            yield from self._forked(tasks)
        else:
            yield from ((number, *_attempt(self.work, task)) for number, task in tasks)

    def _forked(self, tasks: Sequence[tuple[int, T]]) -> Iterator[tuple[int, _Kind, bytes]]:
        def work(task: T, _: Callable[[int], None]) -> tuple[_Kind, bytes]:
            return _attempt(self.work, task)

        for outcome in workers.run(work, (self.careful(task) for _, task in tasks), 1):
            number, _ = tasks[outcome.index]
            match outcome.value:
                case KdumpError() as error:
                    yield number, _Kind.ERROR, pickle.dumps(error)
                case Died() as died:
                    yield number, _Kind.DIED, pickle.dumps(died)
                case kind, value:
                    yield number, kind, value


@cache
def _freeze() -> None:
    """Leave alone what the first tasks have imported: Spark collects garbage behind each task."""
    gc.freeze()


def _attempt(work: Callable[[T], R], task: T) -> tuple[_Kind, bytes]:
    try:
        try:
            return _Kind.RESULT, pickle.dumps(work(task))
        except KdumpError as error:
            return _Kind.ERROR, pickle.dumps(error)
    except Exception:  # noqa: BLE001 - told by the driver, where Spark would only try it again
        return _Kind.BUG, pickle.dumps(traceback.format_exc())


def _sent(results: Iterable[tuple[int, _Kind, bytes]]) -> Iterator[pa.RecordBatch]:
    held: list[tuple[int, _Kind, bytes]] = []
    held_bytes = 0
    for result in results:
        held.append(result)
        held_bytes += len(result[2])
        if held_bytes >= _BATCH_BYTES:
            yield _batch(held)
            held, held_bytes = [], 0
    if held:
        yield _batch(held)


def _batch(results: Sequence[tuple[int, _Kind, bytes]]) -> pa.RecordBatch:
    return pa.record_batch([_binary([pickle.dumps(results)])], schema=_RESULTS)


def _binary(values: Sequence[bytes]) -> pa.Array:
    """The same as an array; ``pa.array`` would import pandas, which takes a worker 0.4 s."""
    ends = array("i", accumulate(map(len, values), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _results(
    session: Session,
    work: _Work[T, R],
    tasks: Sequence[T],
    shares: Sequence[range],
    on_progress: Callable[[float], None] | None,
) -> Iterator[tuple[int, _Kind, bytes]]:
    """Run one job; a result for every task in ``shares``, whatever becomes of it."""
    if not shares:
        return
    rows = [pickle.dumps([(number, tasks[number]) for number in share]) for share in shares]
    numbers = pa.py_buffer(array("i", range(len(rows))))
    which = pa.Array.from_buffers(pa.int32(), len(rows), [None, numbers])
    plan = pa.table([which, _binary(rows)], schema=_PLAN)
    frame = session.spark.createDataFrame(plan)
    if len(shares) > 1:  # what is one row needs no stage that shares it out
        frame = frame.repartitionById(len(shares), "pack")
    missing = {number for share in shares for number in share}
    reason = "no task sent its result"
    try:
        table = collected(session, frame.mapInArrow(work, _RESULTS_DDL), len(shares), on_progress)
    except JobFailed as failed:
        reason = str(failed)
    else:
        for row in table.column("results"):
            for number, kind, value in pickle.loads(row.as_py()):
                missing.remove(number)
                yield number, kind, value
    lost = pickle.dumps(Lost(reason))
    yield from ((number, _Kind.LOST, lost) for number in sorted(missing))


def _result(kind: _Kind, value: bytes) -> R | Died | Lost:
    if kind is _Kind.GIVEN_UP:
        return Lost("every executor that had the task ended before the task")
    found = pickle.loads(value)
    if kind is _Kind.ERROR:
        raise cast(KdumpError, found)
    if kind is _Kind.BUG:
        raise WorkerBug(found)
    return cast("R | Died | Lost", found)


def _failures(session: Session) -> int:
    """How often Spark lets a task fail before it gives up the job."""
    return int(session.spark.conf.get(_FAILURES, _FAILURES_DEFAULT) or _FAILURES_DEFAULT)
