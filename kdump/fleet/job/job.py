"""One job of Spark with its progress and its end on signals.

The job is waited for in a thread, so that the main thread can be interrupted: py4j and gRPC wait in
calls that no signal ends.

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
from kdump.fleet.session.signals import held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

    from kdump.fleet.session.session import Session

_POLL_SECONDS: Final = 0.1
#: How long an ended job may take to say so.
_END_SECONDS: Final = 10.0
_Stage = tuple[int, int, int]  # its number, its tasks, and how many of these are done
#: Of what Spark says of a failed job.
_TEXT_CHARACTERS: Final = 500
#: What an error of gRPC is about, amid all that it shows of itself.
_DETAILS: Final = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
_NOT_SAID: Final = ("Traceback ", "Driver stacktrace", "JVM stacktrace")


class JobFailed(KdumpError):
    """A job of Spark failed as a whole: the text is what Spark says of that."""


def collected(
    session: Session,
    frame: DataFrame,
    tasks: int,
    on_progress: Callable[[float], None] | None = None,
) -> pa.Table:
    """Return the rows of ``frame``, the last stage of which has so many ``tasks``.

    ``on_progress`` gets the part of them that is done, up to 1. Raises JobFailed, and
    SparkFailed where Spark is gone; any exception that a signal raises meanwhile ends the job.
    """
    with _report_if_lost():
        return _collected(session, frame, tasks, on_progress)


@contextmanager
def _report_if_lost() -> Iterator[None]:
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise SparkFailed(
            f"the connection to Spark was lost during a job: {_said(str(error))}"
        ) from error


def _collected(
    session: Session,
    frame: DataFrame,
    tasks: int,
    on_progress: Callable[[float], None] | None,
) -> pa.Table:
    watch: _Watch = (_ConnectWatch if session.remote else _ClassicWatch)(session.spark)
    rows: list[pa.Table] = []
    errors: list[Exception] = []

    def collect() -> None:
        try:
            watch.mark()
            rows.append(frame.toArrow())
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            errors.append(error)

    thread = Thread(target=collect, name="kdump job", daemon=True)
    with held() as let_through:
        try:
            thread.start()
            while thread.is_alive():
                thread.join(_POLL_SECONDS)
                let_through()
                if on_progress is not None:
                    on_progress(watch.part(tasks))
        except BaseException:
            with suppress(PySparkException, Py4JError, ConnectionError):
                watch.cancel()
            thread.join(_END_SECONDS)
            raise
        finally:
            watch.close()
    if errors:
        if isinstance(errors[0], PySparkException):
            raise JobFailed(_said(str(errors[0]))) from errors[0]
        raise errors[0]
    return rows[0]


class _Watch(Protocol):
    """Finds a job again that another thread has started."""

    def mark(self) -> None:
        """Say that what the calling thread starts is meant."""

    def part(self, tasks: int) -> float:
        """How much is done of the last stage, which has so many ``tasks``."""

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class _ClassicWatch:
    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._target = f"kdump-{uuid4().hex}"

    def mark(self) -> None:
        self._context.setJobGroup(self._target, "kdump", interruptOnCancel=True)

    def part(self, tasks: int) -> float:
        jobs = map(self._tracker.getJobInfo, self._tracker.getJobIdsForGroup(self._target))
        numbers = {number for job in jobs if job is not None for number in job.stageIds}
        stages = map(self._tracker.getStageInfo, numbers)
        return _part(
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
        """The thread that was marked is at its end."""


class _ConnectWatch:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"kdump-{uuid4().hex}"
        self._stages: list[_Stage] = []
        spark.registerProgressHandler(cast("ProgressHandler", self._told))

    def _told(
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

    def part(self, tasks: int) -> float:
        return _part(self._stages, tasks)

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def close(self) -> None:
        self._spark.removeProgressHandler(cast("ProgressHandler", self._told))


def _part(stages: Sequence[_Stage], tasks: int) -> float:
    # The plan table alone is a stage as well, and at first the only one that is known.
    _, count, done = max(stages, default=(0, 0, 0))
    return done / tasks if len(stages) > 1 and count == tasks else 0.0


def _said(text: str) -> str:
    """What Spark says of an error, without stack traces of either language."""
    if details := _DETAILS.search(text):
        text = details[1]
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    told = " ".join(line for line in lines if not line.startswith(_NOT_SAID))
    return told[:_TEXT_CHARACTERS] or "no reason"
