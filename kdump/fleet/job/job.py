"""Jobs of Spark, some at a time: progress, and cancellation on signals.

A thread waits for each job, so that the main thread can be interrupted: no signal ends the calls in
which py4j and gRPC wait.

Spec: ``SparkStatusTracker``, ``SparkSession.interruptTag``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Event, Thread, get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kdump.errors import KdumpError
from kdump.fleet.session.jvm import SparkFailed
from kdump.fleet.session.signals import hold_signals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

    from kdump.fleet.session.session import Session

_POLL_SECONDS: Final = 0.1
#: How old the progress of a job may be: to ask for it takes a dozen messages to the JVM.
_ASK_SECONDS: Final = 0.5
#: How long to wait for cancelled jobs, and after what time to cancel them again.
_END_SECONDS: Final = 10.0
_CANCEL_SECONDS: Final = 0.5
_Stage = tuple[int, int, int]  # number, tasks, completed tasks
#: The length of the error text of a failed job.
_TEXT_CHARACTERS: Final = 500
#: The message in the text of a gRPC error.
_DETAILS: Final = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
_STACK_TRACES: Final = ("Traceback ", "Driver stacktrace", "JVM stacktrace")


class JobFailed(KdumpError):
    """A job of Spark failed as a whole; the text is Spark's message."""


class Job:
    """A job of Spark, which ``Jobs`` runs; ``tasks`` is the number of tasks of its last stage.

    ``rows`` are there when it has ended, and ``error`` if it failed.
    """

    def __init__(self, build: Callable[[], DataFrame], tasks: int, watch: _Watch) -> None:
        self.rows: pa.Table | None = None
        self.error: JobFailed | None = None
        self._build = build
        self._tasks = tasks
        self._watch = watch
        self._cancelled = False
        self._bug: Exception | None = None
        self._ended = Event()

    @property
    def ended(self) -> bool:
        """Whether ``rows`` or ``error`` is there."""
        return self._ended.is_set()

    def fraction(self) -> float:
        """Return the fraction of tasks done, up to 1."""
        return 1.0 if self.ended else self._watch.fraction(self._tasks)

    def run(self, any_end: Event) -> None:
        """Run the job in the calling thread, and set ``any_end``."""
        try:
            self._watch.mark()
            try:
                frame = self._build()
                if not self._cancelled:
                    self.rows = frame.toArrow()
            finally:
                self._watch.unmark()
        except PySparkException as error:
            self.error = JobFailed(_error_text(str(error)))
            self.error.__cause__ = error
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            self._bug = error
        finally:
            self._ended.set()
            any_end.set()

    def check(self) -> None:
        """Raise the error of a job that ended in a way that is not a failure of Spark."""
        if self._bug is not None:
            raise self._bug

    def cancel(self) -> None:
        """Cancel the job; one that is about to start may have to be cancelled again."""
        self._cancelled = True
        with suppress(PySparkException, Py4JError, ConnectionError):
            self._watch.cancel()

    def close(self) -> None:
        """Stop watching it."""
        self._watch.close()


class Jobs:
    """Jobs of Spark that run at the same time, each in a thread that waits for it.

    The end of the context cancels what still runs, also when a signal handler raises.
    """

    def __init__(self, session: Session, at_once: int) -> None:
        self._session = session
        self._running: list[Job] = []
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._any_end = Event()
        # Daemons, because a lost JVM must not keep the process.
        self._threads = [
            Thread(target=self._run_jobs, name="kdump job", daemon=True) for _ in range(at_once)
        ]
        self._started = 0

    def _run_jobs(self) -> None:
        while (job := self._queue.get()) is not None:
            job.run(self._any_end)

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *unused: object) -> None:
        with hold_signals():
            ends = time.monotonic() + _END_SECONDS
            while left := [job for job in self._running if not job.ended]:
                for job in left:
                    job.cancel()
                if time.monotonic() > ends:
                    break
                self._any_end.clear()
                self._any_end.wait(_CANCEL_SECONDS)
            for job in self._running:
                job.close()
            for _ in self._threads[: self._started]:
                self._queue.put(None)

    @property
    def running(self) -> Sequence[Job]:
        """The jobs that ``wait`` has not returned."""
        return tuple(self._running)

    @property
    def full(self) -> bool:
        """Whether a further job would wait for the end of another."""
        return len(self._running) >= len(self._threads)

    def start(self, build: Callable[[], DataFrame], tasks: int) -> Job:
        """Start the job of the frame that ``build`` returns, whose last stage has ``tasks``."""
        watch: _Watch
        with _convert_lost_connection():
            watch = (_ConnectWatch if self._session.remote else _ClassicWatch)(self._session.spark)
        job = Job(build, tasks, watch)
        self._running.append(job)
        if self._started < min(len(self._running), len(self._threads)):
            self._threads[self._started].start()
            self._started += 1
        self._queue.put(job)
        return job

    def wait(self, on_poll: Callable[[], None]) -> Job:
        """Wait for the end of a job, and return it; ``on_poll`` is called during the wait.

        An exception that a signal handler raises ends the wait. Raise SparkFailed if the connection
        is lost.
        """
        with _convert_lost_connection(), hold_signals() as deliver:
            while (job := self._next_ended()) is None:
                self._any_end.wait(_POLL_SECONDS)
                deliver()
                on_poll()
            self._running.remove(job)
            job.close()
            job.check()
            return job

    def _next_ended(self) -> Job | None:
        self._any_end.clear()
        return next((job for job in self._running if job.ended), None)


@contextmanager
def _convert_lost_connection() -> Iterator[None]:
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise SparkFailed(
            f"the connection to Spark was lost during a job: {_error_text(str(error))}"
        ) from error


class _Watch(Protocol):
    """Finds a job that another thread has started."""

    def mark(self) -> None:
        """Watch the job that the calling thread starts next."""

    def unmark(self) -> None:
        """Watch no further job of the calling thread."""

    def fraction(self, tasks: int) -> float:
        """Return the fraction done of the last stage, which has this number of ``tasks``."""

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class _ClassicWatch:
    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._target = f"kdump-{uuid4().hex}"
        self._asked = self._fraction = 0.0

    def mark(self) -> None:
        self._context.setJobGroup(self._target, "kdump", interruptOnCancel=True)

    def unmark(self) -> None:
        """Do nothing: the next mark replaces it."""

    def fraction(self, tasks: int) -> float:
        """Return the fraction done, up to half a second old."""
        now = time.monotonic()
        if now >= self._asked + _ASK_SECONDS:
            self._asked, self._fraction = now, self._ask(tasks)
        return self._fraction

    def _ask(self, tasks: int) -> float:
        jobs = map(self._tracker.getJobInfo, self._tracker.getJobIdsForGroup(self._target))
        numbers = {number for job in jobs if job is not None for number in job.stageIds}
        stages = map(self._tracker.getStageInfo, numbers)
        return _fraction(
            [
                (stage.stageId, stage.numTasks, stage.numCompletedTasks)
                for stage in stages
                if stage is not None
            ],
            tasks,
        )

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._target)

    def close(self) -> None:
        """Do nothing: nothing was registered."""


class _ConnectWatch:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"kdump-{uuid4().hex}"
        self._stages: list[_Stage] = []
        self._thread = 0
        spark.registerProgressHandler(cast("ProgressHandler", self._on_progress))

    def _on_progress(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        # Called for each job of the session, by the thread that waits for it.
        if get_ident() == self._thread:
            self._stages = [
                (stage.stage_id, stage.num_tasks, stage.num_completed_tasks)
                for stage in stages or ()
            ]

    def mark(self) -> None:
        self._thread = get_ident()
        self._spark.addTag(self._tag)

    def unmark(self) -> None:
        self._thread = 0
        self._spark.removeTag(self._tag)

    def fraction(self, tasks: int) -> float:
        return _fraction(self._stages, tasks)

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def close(self) -> None:
        self._spark.removeProgressHandler(cast("ProgressHandler", self._on_progress))


def _fraction(stages: Sequence[_Stage], tasks: int) -> float:
    # The plan table is a stage too, and at first the only one that is known.
    _, count, done = max(stages, default=(0, 0, 0))
    return done / tasks if len(stages) > 1 and count == tasks else 0.0


def _error_text(text: str) -> str:
    """Return Spark's message of an error, without stack traces of Java and Python."""
    if details := _DETAILS.search(text):
        text = details[1]
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    message = " ".join(line for line in lines if not line.startswith(_STACK_TRACES))
    return message[:_TEXT_CHARACTERS] or "no reason"
