"""What tests have executors do. Travels by value, as executors do not have the tests."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import TaskContext, cloudpickle

from kdump.storage.paths import as_local


@contextmanager
def by_value() -> Iterator[None]:
    """Meanwhile these functions travel themselves, not by their names."""
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(here)  # type: ignore[no-untyped-call]


def pid(_: int) -> int:
    return os.getpid()


def whereabouts(_: int) -> tuple[int, str, str]:
    """The JVM above the worker, the working directory, and where its Python is from."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rpartition(")")[2].split()[1]), str(Path.cwd()), sys.prefix


def without_jvm(_: int) -> None:
    """Kills the JVM of a local master, two processes above."""
    os.kill(whereabouts(0)[0], signal.SIGKILL)
    time.sleep(60)


def attempt(_: int) -> int:
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


def slow(number: int) -> int:
    time.sleep(0.1)
    return number


def long(path: Path) -> None:
    path.write_text(str(os.getpid()))
    time.sleep(600)


def deadly(number: int) -> int:
    """One of them kills whoever does it, at each attempt."""
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def deadly_to_both(number: int) -> int:
    """One of them kills the worker of Spark, from a forked child too."""
    if number == 7:
        os.kill(os.getpid() if attempt(0) == 0 else os.getppid(), signal.SIGKILL)
    return number


def deadly_once(path: Path) -> str:
    """The first that comes here is killed."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return path.name
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def refusing(number: int) -> int:
    from kdump.errors import UsageError

    if number == 3:
        raise UsageError("expected another number")
    return number


def dividing(number: int) -> float:
    return 1 / number


def logs_of(task: Any) -> list[Path]:
    """The logs that a task of verify reads."""
    from kdump.audit.run.target_tasks import SegmentTask, VerdictTask

    if isinstance(task, VerdictTask):
        return []
    if isinstance(task, SegmentTask):
        return [] if task.path is None else [as_local(task.path)]
    return [task.inventory.folder / name for name in task.inventory.logs]


def deadly_work(task: Any, log: Path, **options: Any) -> object:
    from kdump.audit.run import target_tasks as verify_task

    if log in logs_of(task):
        os.kill(os.getpid(), signal.SIGKILL)
    return verify_task.run_task(task, **options)


def work_killed_once(task: Any, flag: Path, **options: Any) -> object:
    from kdump.audit.run import target_tasks as verify_task

    found = verify_task.run_task(task, **options)
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def work_without_executor(task: Any, flag: Path, **options: Any) -> object:
    """The first that comes here kills its executor, a JVM two processes above."""
    from kdump.audit.run import target_tasks as verify_task

    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return verify_task.run_task(task, **options)
    # The worker's parent is the daemon, and that one's the JVM.
    executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    flag.write_text(str(executor))
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)
    raise AssertionError("still alive")


def forgetful_work(task: Any, log: Path, **options: Any) -> object:
    from dataclasses import replace

    from kdump.audit.run import target_tasks as verify_task

    found = verify_task.run_task(task, **options)
    return replace(found, lines=()) if log in logs_of(task) else found


def deadly_verdict(task: Any, path: Path, **options: Any) -> object:
    """Who is to judge that partition is killed, also where its segments were read before."""
    from kdump.audit.run import target_tasks as verify_task

    if not isinstance(task, verify_task.SegmentTask) and task.target.path == path:
        os.kill(os.getpid(), signal.SIGKILL)
    return verify_task.run_task(task, **options)


def deadly_combination(stages: Any, task: Any) -> object:
    """Who compares the copies of the topic ``parted`` is killed."""
    from kdump.fleet.verify import groups

    if task.values()[0].topic == "parted":
        os.kill(os.getpid(), signal.SIGKILL)
    return groups.combine_group(stages, task)


def export_killed_once(task: Any, flag: Path) -> object:
    """The first that comes here is killed when its file is written."""
    from kdump.commands.export import task as export_task

    found = export_task.export_logs(task)
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def deadly_export(task: Any, topic: str) -> object:
    """Who has written the records of this topic is killed, always."""
    from kdump.commands.export import task as export_task

    found = export_task.export_logs(task)
    if task.shares[0].log.origin.topic == topic:
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def export_slow_once(task: Any, flag: Path) -> object:
    """The first that comes here has written its file, and takes minutes to say so.

    ``flag`` is there while it does.
    """
    from kdump.commands.export import task as export_task

    found = export_task.export_logs(task)
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return found
    time.sleep(300)
    flag.unlink()
    return found


def impatient(task: Any, *, work: Any, seconds: float, **more: Any) -> object:
    """Waits no longer for any answer of a store."""
    from kdump.storage.objects import client

    client._ANSWER_SECONDS = seconds  # type: ignore[misc]
    return work(task, **more)


def last_after(number: int, flag: Path, last: int) -> bool:
    """The last one waits for ``flag``, but not for long; whether it was there."""
    for _ in range(600 if number == last else 0):
        if flag.exists():
            return True
        time.sleep(0.1)
    return flag.exists()


def held_partition(task: Any, path: Path, flag: Path, **options: Any) -> object:
    """Who comes to that partition touches ``flag``, and stays there."""
    from kdump.audit.run import target_tasks as verify_task

    if task.target.path == path:
        flag.touch()
        time.sleep(600)
    return verify_task.run_task(task, **options)
