"""Where the tasks of a run are done: in workers of this process, or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.values import frozen


@frozen
class LostTask:
    """The result of a task that has sent none; ``text`` is the reason."""

    text: str


def failure_text(result: workers.WorkerDied | LostTask) -> str:
    """Return what was found in the place of the result of a task."""
    return result.text if isinstance(result, LostTask) else f"a process that {result.label} killed"


class Spread(Protocol):
    """Runs ``work`` on every task; ``fleet.job.spread`` does so on Spark."""

    def __call__(
        self,
        work: Callable[[Any], Any],
        tasks: Sequence[Any],
        sizes: Sequence[int],
        *,
        careful: Callable[[Any], Any] = ...,
        on_progress: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield task numbers with results, in any order; ``sizes`` are the bytes that tasks read.

        ``careful`` returns a task as it is done once more, after the truncation of a log that was
        mapped killed its process. The result is ``WorkerDied`` if a signal killed the process, and
        ``LostTask`` if no executor finished the task. Raise the KdumpError that ``work`` raises.
        ``on_progress`` gets the fraction of tasks done.
        """


@frozen
class Workers:
    """Runs tasks in at most ``jobs`` forked workers of this process."""

    jobs: int

    def __call__(
        self,
        work: Callable[[Any], Any],
        tasks: Sequence[Any],
        sizes: Sequence[int],
        *,
        careful: Callable[[Any], Any] = workers.same_task,
        on_progress: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield task numbers with results, as ``Spread`` describes."""

        def run(task: Any, _: Callable[[int], None]) -> Any:
            return work(task)

        def retry(task: Any, died: workers.WorkerDied) -> Any | None:
            again = careful(task)
            return again if died.of_map and again != task else None

        done, total = 0, max(sum(sizes), 1)
        with closing(workers.run(run, tasks, self.jobs, retry=retry)) as results:
            for result in results:
                if isinstance(result.value, KdumpError):
                    raise result.value
                done += sizes[result.index]
                if on_progress is not None:
                    on_progress(done / total)
                yield result.index, result.value
