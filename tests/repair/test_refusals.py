"""Repairs that other processes, or other owners, stand in the way of: refused, and nothing changed.

With real processes that hold the lock of a log directory or its files, as a broker does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kdump.repair.transaction import fingerprint
from kdump.repair.transaction.plan import Stamp
from kdump.storage import liveness
from kdump.ui.exits import OK, REFUSED
from support.crashing.conditions import LOCK, Trial
from support.crashing.places import UnmountableError, in_memory, mounted
from support.crashing.running import Run, run
from support.crashing.subjects import CONVERT, HEAL, LOSSY, MOVED, PARTITION, REINDEX, Subject
from support.crashing.trees import put, take
from support.damaged import name
from support.long_samples import first_of
from support.stand_in import child

pytestmark = pytest.mark.once

LOG, INDEX = name(0, ".log"), name(0, ".index")
NOBODY = 65534
#: Has a file open, and takes its lock as Java does if that is asked for.
HELD = """
import fcntl, sys
file = open(sys.argv[1], sys.argv[2])
if sys.argv[3] == "True":
    fcntl.lockf(file, fcntl.LOCK_EX)
"""


@pytest.fixture
def trial() -> Iterator[Trial]:
    with in_memory() as root:
        yield Trial.of(LOSSY, root)


@contextmanager
def holding(path: Path, mode: str = "r+", *, locked: bool = False) -> Iterator[int]:
    """Another process has ``path`` open, and locked; its id."""
    with child(HELD, path, mode, locked) as pid:
        yield pid


def refused(trial: Trial, argv: Sequence[str], prepare: Callable[[], None] = lambda: None) -> Run:
    """Run it; it must refuse, and change nothing."""
    before = take(trial.root)
    ran = run(argv, prepare=prepare, searching=True)
    assert ran.code == REFUSED, ran
    assert trial.wrong_when_unchanged(take(trial.root), before) == []
    return ran


def both(trial: Trial, complete: bool) -> list[str]:
    """The command that comes next."""
    put(trial.root, trial.complete if complete else trial.original)
    return trial.undo_argv if complete else trial.argv


@pytest.mark.parametrize("complete", [False, True], ids=["repair", "undo"])
@pytest.mark.slow
def test_beside_a_process_with_the_lock(trial: Trial, complete: bool) -> None:
    argv = both(trial, complete)
    lock = trial.root / "data/.lock"
    lock.touch()
    shutil.chown(lock, lock.parent.stat().st_uid)
    with holding(lock, locked=True) as pid:
        assert f"process {pid}" in refused(trial, argv).err
        assert run([*argv, "--assume-stopped"], searching=True).code == REFUSED
    assert run(argv, searching=True).code == OK


@pytest.mark.parametrize("complete", [False, True], ids=["repair", "undo"])
@pytest.mark.parametrize(
    "held", first_of([f"{PARTITION}/{LOG}", f"{PARTITION}/{INDEX}", "orders-1/" + LOG])
)
@pytest.mark.slow
def test_beside_a_process_with_a_file_open(trial: Trial, held: str, complete: bool) -> None:
    argv = both(trial, complete)
    with holding(trial.root / "data" / held) as pid:
        ran = refused(trial, argv)
        assert f"process {pid}" in ran.err
        assert run([*argv, "--assume-stopped"], searching=True).code == REFUSED
    assert run(argv, searching=True).code == OK


@pytest.mark.parametrize("complete", [False, True], ids=["repair", "undo"])
@pytest.mark.parametrize("held", first_of([".lock", f"{PARTITION}/{LOG}", "orders-1/" + LOG]))
@pytest.mark.slow
def test_heal_beside_a_process(held: str, complete: bool) -> None:
    with in_memory() as root:
        trial = Trial.of(HEAL, root)
        argv = both(trial, complete)
        path = root / "data" / held
        path.touch()
        shutil.chown(path, path.parent.stat().st_uid)
        if held != ".lock":  # to touch a file changes its time
            put(root, trial.complete if complete else trial.original)
        with holding(path, locked=held == ".lock") as pid:
            assert f"process {pid}" in refused(trial, argv).err
            assert run([*argv, "--assume-stopped"], searching=True).code == REFUSED
        assert run(argv, searching=True).code == OK


def test_beside_a_process_whose_lock_file_was_unlinked(trial: Trial) -> None:
    lock = trial.root / "data/.lock"
    lock.touch()
    with holding(lock, locked=True):
        lock.unlink()
        refused(trial, trial.argv)
        assert not lock.exists()


def test_beside_a_process_whose_files_were_unlinked(trial: Trial) -> None:
    log = trial.root / "data" / PARTITION / LOG
    with holding(log):
        content = log.read_bytes()
        log.unlink()
        log.write_bytes(content)
        refused(trial, trial.argv)


@pytest.mark.parametrize("complete", first_of([False, True]), ids=["repair", "undo"])
@pytest.mark.parametrize("held", first_of([name(100, ".log"), name(100, ".index")]))
def test_beside_a_reader_of_what_changes(trial: Trial, held: str, complete: bool) -> None:
    """It could read half of the change."""
    argv = both(trial, complete)
    file = trial.root / "data" / PARTITION / held
    with holding(file, "r") as pid:
        for arguments in (argv, [*argv, "--assume-stopped"]):
            ran = refused(trial, arguments)
            assert f"process {pid} (python" in ran.err
            assert f"has {file} open, and could read a half-made change" in ran.err
    assert run(argv, searching=True).code == OK


@pytest.mark.slow
@pytest.mark.parametrize("complete", [False, True], ids=["repair", "undo"])
@pytest.mark.parametrize(
    "held", first_of([f"data/{PARTITION}/{LOG}", "data/orders-1/" + LOG, "data/meta.properties"])
)
def test_a_reader_of_what_stays_is_in_the_way_of_no_repair(
    trial: Trial, held: str, complete: bool
) -> None:
    argv = both(trial, complete)
    with holding(trial.root / held, "r"):
        assert run(argv, searching=True).code == OK


def test_a_writer_elsewhere_is_in_the_way_of_no_repair(trial: Trial) -> None:
    with holding(trial.root / "server.properties"):
        assert run(trial.argv, searching=True).code == OK


def test_a_partition_that_stands_alone_needs_no_lock() -> None:
    alone = Subject("alone", LOSSY.command, LOSSY.files, alone=True)
    with in_memory() as root:
        trial = Trial.of(alone, root)
        with holding(trial.root / "data" / PARTITION / LOG):
            refused(trial, trial.argv)
        assert run(trial.argv, searching=True).code == OK
        assert not (root / "data/.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("complete", [False, True], ids=["repair", "undo"])
def test_a_bare_partition_in_a_container_needs_a_word(complete: bool) -> None:
    """As where only the partition is mounted: a broker outside is not seen, nor is its lock."""
    alone = Subject("alone", LOSSY.command, LOSSY.files, alone=True)
    with in_memory() as root:
        trial = Trial.of(alone, root)
        argv = both(trial, complete)
        ran = refused(trial, argv, prepare=contained)
        assert "processes outside of this container are hidden" in ran.err
        assert "mount the log directory" in ran.err
        verify = ["verify", str(root / "data" / PARTITION)]
        within, outside = (
            " ".join(ran.out.split()) for ran in (run(verify, prepare=contained), run(verify))
        )
        if complete:
            same = "OK 1 partition, 152 records: every checksum matches."
            assert within.startswith(f"{same} Startup after a crash recovers ")
            assert outside.startswith(f"{same} Startup recovers ")
        else:
            same = "At most 10 records of orders-0 are corrupt."
            assert within.startswith(f"CORRUPT {same} If it dies, its next startup also removes ")
            assert outside.startswith(
                f"DO NOT START {same} If the broker starts now, it also removes "
            )
        assert "processes outside of this container are hidden" in within
        ran = run([*argv, "--assume-stopped"], prepare=contained, searching=True)
        assert ran.code == OK, ran


def test_a_log_directory_in_a_container_is_seen_whole(trial: Trial) -> None:
    assert run(trial.argv, prepare=contained, searching=True).code == OK


def contained() -> None:
    liveness._FIRST_PROCESS_NAMESPACE = "pid:[1]"


# --- owners


@pytest.mark.root
@pytest.mark.parametrize("complete", [False, True], ids=["repair", "undo"])
@pytest.mark.parametrize("subject", first_of([LOSSY, REINDEX, CONVERT]), ids=str)
def test_the_files_of_somebody_else(subject: Subject, complete: bool) -> None:
    with in_memory() as root:
        root.chmod(0o755)
        trial = Trial.of(subject, root)
        argv = both(trial, complete)
        # Everything can be read and written; but it belongs to another user.
        for path in root.rglob("*"):
            path.chmod(0o777 if path.is_dir() else 0o666)
        before = take(root)
        ran = run(argv, prepare=become_nobody)
        assert ran.code == REFUSED, ran
        now = take(root)
        assert trial.wrong_when_unchanged(now, before) == []
        assert (LOCK in now) == (LOCK in before)  # one of another owner would stop a broker
        assert str(NOBODY) in ran.err


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


# --- other file systems


@pytest.mark.slow
@pytest.mark.parametrize("stop", first_of([1, 3]))
def test_a_partition_on_another_file_system(stop: int, place: Path) -> None:
    (place / "elsewhere").mkdir()
    try:
        with mounted(place / "elsewhere", "-t", "tmpfs", "-o", "size=8m", "tmpfs"):
            trial = Trial.of(MOVED, place)
            assert trial.wrong_when_undone(trial.undone.before[-1]) == []
            states = trial.applied.states
            for _, tree in states[stop :: len(states) // 6]:
                assert trial.wrong_at_start(tree) == []
                assert trial.wrong_after_rerun(tree) == []
                assert trial.wrong_after_undo(tree) == []
    except UnmountableError as error:
        pytest.skip(f"may not mount: {error}")


def test_a_file_that_goes_while_its_repair_is_planned(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the checks have read, and the listing that a plan holds, are of two moments."""
    listed = fingerprint.read_fingerprint

    def later(*arguments: Any) -> tuple[dict[str, Stamp], tuple[int, int]]:
        stamps, identity = listed(*arguments)
        return {name: stamps[name] for name in stamps if ".snapshot" not in name}, identity

    monkeypatch.setattr("kdump.repair.truncation.plan.read_fingerprint", later)
    put(trial.root, trial.original)
    ran = run(trial.argv)
    assert ran.code == REFUSED, ran
    assert ", found no such file: the directory has changed since it was read" in ran.err
    assert trial.wrong_when_unchanged(take(trial.root), trial.original) == []
