"""Logs that are converted in several processes: what fails there, or is killed, changes nothing.

Either each has a log of its own, or one writes it and the other one reads it back at the same time.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kdump.repair.rewrite import read_back
from kdump.repair.transaction import staging
from kdump.ui.exits import INCOMPLETE, INTERRUPTED, OK, REFUSED, TERMINATED
from support.crashing.conditions import Trial
from support.crashing.places import in_memory
from support.crashing.running import Run, run
from support.crashing.seam import Around, Call
from support.crashing.subjects import CONVERT
from support.crashing.trees import put, take
from support.long_samples import first_of

pytestmark = pytest.mark.once


@pytest.fixture(params=["own", "shared"])
def jobs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The option that lets a worker write logs, one that the command itself reads back or not."""
    if request.param == "own":
        return "--jobs", "2"
    monkeypatch.setattr(staging, "use_two_processes", lambda *_: True)
    monkeypatch.setattr(read_back, "STRETCH_BYTES", 1)
    return "--jobs", "1"


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with in_memory() as root:
        yield Trial.of(CONVERT, root)


def in_worker(act: Callable[[int], None], method: str = "write") -> Around:
    """Calls ``act`` before each call of that kind that a worker makes, with its parent's id."""
    parents = []
    tests = os.getpid()

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if os.getppid() == tests:
            parents.append(os.getpid())
        elif call.method == method:
            act(parents[0])
        return make(*call.arguments)

    return around


@contextmanager
def sends(number: int) -> Iterator[Callable[[int], None]]:
    """The first worker sends the parent that signal; all wait for what comes of it.

    Workers have the owner's rights, so that they share a pipe, and no file beside the tests' own.
    """
    first, given = os.pipe2(os.O_NONBLOCK)
    os.write(given, b"1")

    def send(parent: int) -> None:
        with suppress(BlockingIOError):
            os.read(first, 1)
            os.kill(parent, number)
        signal.pause()

    try:
        yield send
    finally:
        os.close(first)
        os.close(given)


def converted(trial: Trial, jobs: tuple[str, str], around: Around | None = None) -> Run:
    """Run the conversion with workers, from the start."""
    put(trial.root, trial.original)
    return run([*trial.argv, *jobs], around)


@pytest.mark.slow
def test_workers_come_to_the_same_as_none(trial: Trial, jobs: tuple[str, str]) -> None:
    ran = converted(trial, jobs)
    assert ran.code == OK, ran
    assert trial.wrong_when_complete(take(trial.root)) == []
    assert trial.wrong_after_undo(take(trial.root)) == []


@pytest.mark.parametrize("error", first_of([errno.EIO, errno.ENOSPC, errno.EMFILE]))
@pytest.mark.parametrize("method", ["open", "write", "sync"])
@pytest.mark.slow
def test_a_call_of_a_worker_fails(
    trial: Trial, jobs: tuple[str, str], method: str, error: int
) -> None:
    def fail(_: int) -> None:
        raise OSError(error, os.strerror(error))

    ran = converted(trial, jobs, in_worker(fail, method))
    assert ran.code == REFUSED, ran
    assert os.strerror(error) in ran.err
    assert trial.wrong_when_unchanged(take(trial.root), trial.original) == []


def test_a_worker_is_killed(trial: Trial, jobs: tuple[str, str]) -> None:
    ran = converted(trial, jobs, in_worker(lambda _: os.kill(os.getpid(), signal.SIGKILL)))
    assert ran.code == INCOMPLETE, ran
    assert "SIGKILL" in ran.err
    assert trial.wrong_when_unchanged(take(trial.root), trial.original) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)]
)
def test_it_is_stopped_while_workers_write(
    trial: Trial, jobs: tuple[str, str], number: int, code: int
) -> None:
    with sends(number) as send:
        ran = converted(trial, jobs, in_worker(send))
    assert ran.code == code, ran
    assert trial.wrong_when_unchanged(take(trial.root), trial.original) == []


@pytest.mark.slow
def test_it_is_killed_while_workers_write(trial: Trial, jobs: tuple[str, str]) -> None:
    """Then no process has the lock, and the next run starts again."""
    with sends(signal.SIGKILL) as send:
        ran = converted(trial, jobs, in_worker(send))
    assert ran.code == -signal.SIGKILL, ran
    left = take(trial.root)
    assert trial.wrong_at_start(left) == []
    put(trial.root, left)
    ran = run([*trial.argv, *jobs], searching=True)
    assert ran.code == OK, ran
    assert trial.wrong_when_complete(take(trial.root)) == []


def test_workers_do_not_have_the_lock(trial: Trial, jobs: tuple[str, str]) -> None:
    with open(os.memfd_create("links"), "a+", encoding="utf-8") as file:

        def check_lock(_: int) -> None:
            links = (link for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
            file.writelines(f"{link.readlink()}\n" for link in links)
            file.flush()

        ran = converted(trial, jobs, in_worker(check_lock))
        file.seek(0)
        lines = file.read().splitlines()
    assert ran.code == OK, ran
    assert any(line.endswith(".log") for line in lines)
    assert not any(line.endswith(".lock") for line in lines)
