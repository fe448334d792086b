"""A repair, or an undo, that is killed before any of its calls, or after the last.

The states that a kill leaves are taken in one run, before each call; that a real kill leaves the
same is shown on a sample, by the seam and by strace.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from brokers.oracle import Loaded, Oracle
from support.crashing.conditions import Trial
from support.crashing.recorded import Recorded, record
from support.crashing.running import run
from support.crashing.seam import SYSCALLS, killed_before
from support.crashing.straced import TracedRun, trace
from support.crashing.subjects import (
    AS_OWNER,
    CONVERT,
    END,
    HEAL,
    HEAL_AS_OWNER,
    INTERVAL,
    LOSSY,
    PARTITION,
    REINDEX,
    SPLIT,
    SUBJECTS,
    UNCLEAN,
    Subject,
)
from support.crashing.trees import Tree, differences, put, take
from support.long_samples import first_of

pytestmark = pytest.mark.once

SEED = 6
_FIRST = (HEAL, LOSSY, REINDEX, CONVERT)
#: Where some are ``slow``, these are the last ones.
ORDERED = (*_FIRST, *(subject for subject in SUBJECTS if subject not in _FIRST))
FOLDERS = f"/{PARTITION}/.kdump"
#: How many states of a subject are tried by default, and by ``slow``; ``nightly`` tries all.
FEW, SOME, ALL = 4, 6, sys.maxsize
#: strace counts these exactly: nothing but a repair makes them.
COUNTED = ("fsync", "rename", "unlink", "ftruncate", "mkdir", "link", "fchmod", "pwrite64")

Trials = Callable[[Subject], Trial]


def sampled(recorded: Recorded, seed: int, count: int = FEW) -> list[tuple[int, Tree]]:
    """Some of the states: always the last one."""
    *states, last = recorded.states
    return [*random.Random(seed).sample(states, min(count, len(states))), last]


def labelled(recorded: Recorded, number: int, wrong: Sequence[str]) -> list[str]:
    call = "the end" if number == len(recorded.calls) else recorded.calls[number]
    return [f"before call {number}, {call}: {problem}" for problem in wrong]


def killed_repairs(trial: Trial, states: Sequence[tuple[int, Tree]]) -> list[str]:
    """What is wrong with any of the states of a repair."""
    wrong = []
    for number, tree in states:
        found = trial.wrong_at_start(tree)
        found += [f"rerun: {problem}" for problem in trial.wrong_after_rerun(tree)]
        found += [f"undo: {problem}" for problem in trial.wrong_after_undo(tree)]
        wrong += labelled(trial.applied, number, found)
    return wrong


def killed_undos(trial: Trial, states: Sequence[tuple[int, Tree]]) -> list[str]:
    """What is wrong with any of the states of an undo."""
    wrong = []
    for number, tree in states:
        found = trial.wrong_at_start(tree)
        found += [f"undo: {problem}" for problem in trial.wrong_after_undo(tree)]
        found += [f"redo: {problem}" for problem in trial.wrong_after_redo(tree)]
        wrong += labelled(trial.undone, number, found)
    return wrong


# --- what a kill leaves


@pytest.mark.parametrize("subject", first_of(ORDERED, 2), ids=str)
@pytest.mark.slow
def test_a_killed_repair(subject: Subject, trials: Trials) -> None:
    trial = trials(subject)
    assert killed_repairs(trial, sampled(trial.applied, SEED)) == []


@pytest.mark.parametrize("subject", first_of(ORDERED, 2), ids=str)
@pytest.mark.slow
def test_a_killed_undo(subject: Subject, trials: Trials) -> None:
    trial = trials(subject)
    assert killed_undos(trial, sampled(trial.undone, SEED)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_repair_killed_before_each_call(subject: Subject, trials: Trials) -> None:
    trial = trials(subject)
    assert killed_repairs(trial, trial.applied.states) == []


@pytest.mark.nightly
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_an_undo_killed_before_each_call(subject: Subject, trials: Trials) -> None:
    trial = trials(subject)
    assert killed_undos(trial, trial.undone.states) == []


@pytest.mark.parametrize(
    "subject", [LOSSY, REINDEX, CONVERT, HEAL, *AS_OWNER, HEAL_AS_OWNER], ids=str
)
@pytest.mark.slow
def test_an_uninterrupted_repair_and_its_undo(subject: Subject, trials: Trials) -> None:
    trial = trials(subject)
    assert trial.wrong_when_undone(trial.undone.before[-1]) == []
    assert not any(name.startswith(trial.subject.folders) for name in trial.undone.before[-1])
    assert trial.wrong_when_complete(trial.complete) == []
    assert trial.wrong_after_rerun(trial.complete) == []


def test_a_split_parts_a_transaction_from_its_end(trials: Trials) -> None:
    """Else states in which two logs hold the same would not be among those that are tried."""
    complete = trials(SPLIT).complete
    logs = [path for path in complete if path.startswith(SPLIT.home) and path.endswith("141.log")]
    assert len(logs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("undoing", [False, True], ids=["repair", "undo"])
def test_a_kill_leaves_what_was_recorded(undoing: bool, trials: Trials) -> None:
    trial = trials(LOSSY)
    start, argv = begin(trial, undoing)
    put(trial.root, start)
    recorded = record(argv, trial.root)
    for number in random.Random(SEED).sample(range(len(recorded.calls)), 6):
        put(trial.root, start)
        ran = run(argv, killed_before(number))
        assert ran.code == -signal.SIGKILL, ran
        assert unlike(take(trial.root), recorded.before[number]) == []


def begin(trial: Trial, undoing: bool) -> tuple[Tree, list[str]]:
    """From where a repair, or its undo, starts, and the command."""
    return (trial.complete, trial.undo_argv) if undoing else (trial.original, trial.argv)


def unlike(found: Tree, expected: Tree) -> list[str]:
    """The differences of two trees, except the times of the runs in a folder's files."""
    names = {name for name in {*found, *expected} if FOLDERS in name}
    lines = differences(found, expected, ignored=lambda name: name in names, timed=lambda _: False)
    return lines + [
        f"{name}: in one alone" for name in names if (name in found) != (name in expected)
    ]


# --- strace


@pytest.fixture
def strace(tmp_path: Path) -> Callable[..., TracedRun]:
    """``strace(argv, root, inject)``: a traced run."""

    def of(argv: list[str], root: Path, inject: str | None = None) -> TracedRun:
        return trace(argv, root, tmp_path, inject=inject)

    return of


@pytest.mark.strace
@pytest.mark.parametrize("undoing", [False, True], ids=["repair", "undo"])
@pytest.mark.parametrize("subject", first_of([HEAL, LOSSY, REINDEX, CONVERT], 2), ids=str)
@pytest.mark.slow
def test_every_call_that_changes_something_is_made_by_disk(
    subject: Subject, undoing: bool, trials: Trials, strace: Callable[..., TracedRun]
) -> None:
    trial = trials(subject)
    start, argv = begin(trial, undoing)
    put(trial.root, start)
    ran = strace(argv, trial.root)
    assert ran.code == 0, ran.err
    assert len(ran.calls) > 20
    assert stray(ran, trial.root) == []


def stray(ran: TracedRun, root: Path) -> list[str]:
    """The calls that ``disk`` did not make, one by one."""
    made = [line.split('"')[1::2] for line in ran.record.splitlines()]
    wrong = [] if len(made) == len(ran.calls) else [f"{len(made)} by disk, {len(ran.calls)} in all"]
    for (method, *paths), call in zip(made, ran.calls, strict=False):
        named = {os.path.relpath(path, root) for path in paths}
        if call.name not in SYSCALLS[method] or not named <= set(call.paths):
            wrong.append(f"disk: {method} {sorted(named)}; strace: {call}")
    return wrong


@pytest.mark.slow
@pytest.mark.strace
@pytest.mark.parametrize("undoing", [False, True], ids=["repair", "undo"])
def test_a_real_kill_leaves_what_was_recorded(
    undoing: bool, trials: Trials, strace: Callable[..., TracedRun]
) -> None:
    trial = trials(LOSSY)
    start, argv = begin(trial, undoing)
    put(trial.root, start)
    recorded = record(argv, trial.root)
    put(trial.root, start)
    calls = strace(argv, trial.root).calls
    counted = [number for number, call in enumerate(calls) if call.name in COUNTED]
    for number in random.Random(SEED).sample(counted, 3):
        put(trial.root, start)
        call = calls[number]
        ran = strace(argv, trial.root, f"{call.name}:signal=KILL:when={call.before + 1}")
        assert ran.code == -signal.SIGKILL, ran.err
        assert unlike(take(trial.root), recorded.before[recorded.changing[number]]) == []


# --- brokers


@pytest.mark.broker
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(SOME, id="some", marks=pytest.mark.slow),
        pytest.param(ALL, id="all", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize("subject", [LOSSY, UNCLEAN, REINDEX, CONVERT, SPLIT, HEAL], ids=str)
def test_a_broker_starts_on_what_a_kill_leaves(
    subject: Subject,
    version: str,
    count: int,
    trials: Trials,
    oracle: Callable[[str], Oracle],
    tmp_path: Path,
) -> None:
    trial = trials(subject)
    before, after = (
        served(trial, tree, oracle(version), tmp_path) for tree in (trial.original, trial.complete)
    )
    expected = before & after
    # A log that is damaged near its start serves little until it is healed.
    assert expected
    assert len(after) > 100
    applied, undone = (sampled(recorded, SEED, count) for recorded in (trial.applied, trial.undone))
    for number, tree in [*applied, *undone]:
        lost = expected - served(trial, tree, oracle(version), tmp_path)
        assert not lost, f"before call {number}: {sorted(lost)}"


def served(trial: Trial, tree: Tree, loader: Oracle, directory: Path) -> set[int]:
    """The offsets that a broker serves which starts on ``tree``."""
    root = directory / "start"
    root.mkdir()
    put(root, tree)
    top = trial.subject.log_directory(root)
    try:
        loaded = loader.load(
            top / PARTITION,
            clean=(top / ".kafka_cleanshutdown").exists(),
            log_start=line(top / "log-start-offset-checkpoint"),
            recovery_point=line(top / "recovery-point-offset-checkpoint"),
            config={"index.interval.bytes": str(INTERVAL)},
        )
        assert isinstance(loaded, Loaded), loaded
        assert loaded.log_end_offset <= END
        return {
            offset
            for _, _, offset in trial.sound_offsets(take(root))
            if loaded.log_start_offset <= offset < loaded.log_end_offset
        }
    finally:
        shutil.rmtree(root)


def line(checkpoint: Path) -> int:
    """What a checkpoint says of the partition."""
    for text in checkpoint.read_text().splitlines():
        if text.startswith("orders 0 "):
            return int(text.split()[2])
    return 0
