"""The same work on several logs, in forked workers or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TypeVar

from kdump.errors import KdumpError, SourceError
from kdump.storage import workers
from kdump.storage.paths import AnyPath
from kdump.storage.workers import Report

T = TypeVar("T")
R = TypeVar("R")


def run_on_logs(
    work: Callable[[T, Report], R],
    tasks: Sequence[T],
    log_of: Callable[[T], AnyPath],
    *,
    jobs: int,
    report: Report,
    close_descriptors: Iterable[int] = (),
) -> list[R]:
    """Return the results of ``work`` on ``tasks``, in their order; ``log_of`` returns a task's log.

    With one job or one task ``work`` runs in this process, else in workers of ``workers.run``. In a
    worker it may only raise a KdumpError. Raises that KdumpError; SourceError if a worker was
    killed.
    """
    if jobs == 1 or len(tasks) < 2:
        return [work(task, report) for task in tasks]
    found: dict[int, R] = {}
    outcomes = workers.run(
        work, tasks, jobs, on_progress=report, close_descriptors=close_descriptors
    )
    with closing(outcomes):
        for outcome in outcomes:
            found[outcome.index] = value_of(outcome, log_of(outcome.task))
    return [found[number] for number in range(len(tasks))]


def value_of(outcome: workers.Result[T, R], log: AnyPath) -> R:
    """Return the result of a worker; raise its KdumpError, or SourceError if it was killed."""
    value = outcome.value
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.WorkerDied):
        raise SourceError(log, f"{log}: {value.label} killed the process that read it")
    return value
