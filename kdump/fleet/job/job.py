"""One job of Spark: progress, and cancellation on signals.

A thread waits for the job, so that the main thread can be interrupted: no signal ends the calls in
which py4j and gRPC wait.

Spec: ``SparkStatusTracker``, ``SparkSession.interruptTag``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
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
#: How long to wait for a cancelled job.
_END_SECONDS: Final = 10.0
_Stage = tuple[int, int, int]  # number, tasks, completed tasks
#: The length of the error text of a failed job.
_TEXT_CHARACTERS: Final = 500
#: The message in the text of a gRPC error.
_DETAILS: Final = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
_STACK_TRACES: Final = ("Traceback ", "Driver stacktrace", "JVM stacktrace")


class JobFailed(KdumpError):
    """A job of Spark failed as a whole; the text is Spark's message."""


def collect(
    session: Session,
    frame: DataFrame,
    tasks: int,
    on_progress: Callable[[float], None] | None = None,
) -> pa.Table:
    """Return the rows of ``frame``, whose last stage has this number of ``tasks``.

    ``on_progress`` gets the fraction of tasks done, up to 1. An exception that a signal handler
    raises cancels the job. Raise JobFailed, and SparkFailed if the connection is lost.
    """
    with _convert_lost_connection():
        return _collect(session, frame, tasks, on_progress)


@contextmanager
def _convert_lost_connection() -> Iterator[None]:
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise SparkFailed(
            f"the connection to Spark was lost during a job: {_error_text(str(error))}"
        ) from error


def _collect(
    session: Session,
    frame: DataFrame,
    tasks: int,
    on_progress: Callable[[float], None] | None,
) -> pa.Table:
    watch: _Watch = (_ConnectWatch if session.remote else _ClassicWatch)(session.spark)
    rows: list[pa.Table] = []
    errors: list[Exception] = []

    def fetch() -> None:
        try:
            watch.mark()
            rows.append(frame.toArrow())
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            errors.append(error)

    thread = Thread(target=fetch, name="kdump job", daemon=True)
    with hold_signals() as deliver:
        try:
            thread.start()
            while thread.is_alive():
                thread.join(_POLL_SECONDS)
                deliver()
                if on_progress is not None:
                    on_progress(watch.fraction(tasks))
        except BaseException:  # Ctrl-C too: the cluster would go on with the job
            with suppress(PySparkException, Py4JError, ConnectionError):
                watch.cancel()
            thread.join(_END_SECONDS)
            raise
        finally:
            watch.close()
    if errors:
        if isinstance(errors[0], PySparkException):
            raise JobFailed(_error_text(str(errors[0]))) from errors[0]
        raise errors[0]
    return rows[0]


class _Watch(Protocol):
    """Finds a job that another thread has started."""

    def mark(self) -> None:
        """Watch the job that the calling thread starts next."""

    def fraction(self, tasks: int) -> float:
        """Return the fraction done of the last stage, which has this number of ``tasks``."""

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class _ClassicWatch:
    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._target = f"kdump-{uuid4().hex}"

    def mark(self) -> None:
        self._context.setJobGroup(self._target, "kdump", interruptOnCancel=True)

    def fraction(self, tasks: int) -> float:
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
        """Do nothing: the mark ends with its thread."""


class _ConnectWatch:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"kdump-{uuid4().hex}"
        self._stages: list[_Stage] = []
        spark.registerProgressHandler(cast("ProgressHandler", self._on_progress))

    def _on_progress(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        self._stages = [
            (stage.stage_id, stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()
        ]

    def mark(self) -> None:
        self._spark.addTag(self._tag)

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
