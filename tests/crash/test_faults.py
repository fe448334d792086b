"""Calls that fail during a repair: each of them once, and each of them and all that follow.

A repair then is complete, or has changed nothing (6), or is pending (5), and says how to go on.
"""

from __future__ import annotations

import errno
import random
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.ui.exits import INCOMPLETE, OK, REFUSED
from support.crashing.conditions import NIGHT, Trial, pending
from support.crashing.places import UnmountableError, fill, small_disk, xfs
from support.crashing.running import Run, run
from support.crashing.seam import Around, Call, failing, short
from support.crashing.straced import trace
from support.crashing.subjects import (
    ALONE,
    AS_OWNER,
    CONVERT,
    HEAL,
    HEAL_AS_OWNER,
    LINKED,
    LOSSY,
    REINDEX,
    SPLIT,
    Subject,
)
from support.crashing.trees import put, take
from support.long_samples import first_of

pytestmark = pytest.mark.once

SEED = 8
ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE)
FEW = 5

Trials = Callable[[Subject], Trial]


def wrong_after_fault(trial: Trial, ran: Run, undoing: bool) -> list[str]:
    """What is wrong with how a repair, or an undo, ended, and with what it left."""
    tree = take(trial.root)
    wrong = trial.wrong_at_start(tree)
    match ran.code, undoing:
        case (0, False):
            wrong += trial.wrong_when_complete(tree)
        case (0, True):
            wrong += trial.wrong_when_undone(tree)
        case (6, False):
            wrong += trial.wrong_when_undone(tree)
        case (6, True):
            wrong += trial.wrong_when_complete(tree)
        case _:
            wrong += pending(ran, trial)
            if not re.search(
                rf": .*; \d+ of \d+ steps are {'undone' if undoing else 'done'};", ran.err
            ):
                wrong.append(f"it does not say how far it has come: {ran}")
            wrong += wrong_after_resuming(trial, ran, undoing)
    put(trial.root, tree)
    wrong += [f"undo: {problem}" for problem in trial.wrong_after_undo(tree)]
    if not undoing:
        wrong += [f"rerun: {problem}" for problem in trial.wrong_after_rerun(tree)]
    if "Traceback" in ran.err:
        wrong.append(f"a traceback: {ran}")
    return wrong


def wrong_after_resuming(trial: Trial, ran: Run, undoing: bool) -> list[str]:
    """The problems after the last printed line is run as a command."""
    program, *argv = shlex.split(ran.last_line) or [""]
    if program != "kdump":
        return [f"the last line is no command: {ran}"]
    again = trial.run(argv)
    if again.code != OK:
        return [f"resumed: {again}"]
    now = take(trial.root)
    wrong = trial.wrong_when_undone(now) if undoing else trial.wrong_when_complete(now)
    return [f"resumed: {problem}" for problem in wrong]


def wrong_after_faults(
    trial: Trial, undoing: bool, step: int = 1, *, both: bool = False
) -> list[str]:
    """What is wrong after faults at every ``step``-th call; by turns of each kind.

    With ``both``, each of these calls fails alone, and then with all that follow.
    """
    start, argv, recorded = (
        (trial.complete, trial.undo_argv, trial.undone)
        if undoing
        else (trial.original, trial.argv, trial.applied)
    )
    wrong = []
    count = len(trial.record(start, argv).calls)
    assert count <= len(recorded.calls)
    for number in range(0, count, step):
        turn, odd = divmod(number // step, 2)
        error = ERRORS[(turn + NIGHT) % len(ERRORS)]
        for lasting in (False, True) if both else (odd == 1,):
            put(trial.root, start)
            ran = trial.run(argv, failing(from_on(number, lasting), error))
            fault = f"{errno.errorcode[error]} {'from' if lasting else 'at'} call {number}"
            wrong += [f"{fault}: {problem}" for problem in wrong_after_fault(trial, ran, undoing)]
    return wrong


def from_on(number: int, lasting: bool) -> Callable[[int], bool]:
    return (lambda made: made >= number) if lasting else (lambda made: made == number)


@pytest.mark.parametrize("undoing", first_of([False, True]), ids=["repair", "undo"])
@pytest.mark.parametrize(
    "subject", first_of([HEAL, LOSSY, REINDEX, CONVERT, *AS_OWNER], 2), ids=str
)
@pytest.mark.slow
def test_a_call_fails(subject: Subject, undoing: bool, trials: Trials) -> None:
    assert wrong_after_faults(trials(subject), undoing, 31) == []


@pytest.mark.nightly
@pytest.mark.parametrize("undoing", [False, True], ids=["repair", "undo"])
def test_every_second_call_of_a_conversion_fails(undoing: bool, trials: Trials) -> None:
    assert wrong_after_faults(trials(CONVERT), undoing, 2) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("undoing", [False, True], ids=["repair", "undo"])
@pytest.mark.parametrize(
    "subject", [LOSSY, REINDEX, LINKED, ALONE, SPLIT, HEAL, HEAL_AS_OWNER, *AS_OWNER[:2]], ids=str
)
def test_each_call_fails(subject: Subject, undoing: bool, trials: Trials) -> None:
    assert wrong_after_faults(trials(subject), undoing, both=True) == []


@pytest.mark.parametrize(
    "subject", first_of([LOSSY, LINKED, HEAL, REINDEX, CONVERT, AS_OWNER[0]], 3), ids=str
)
def test_short_writes(subject: Subject, trials: Trials) -> None:
    trial = trials(subject)
    put(trial.root, trial.original)
    ran = trial.run(trial.argv, short(7))
    assert ran.code == OK, ran
    done = take(trial.root)
    assert trial.wrong_when_complete(done) == []
    ran = trial.run(trial.undo_argv, short(7))
    assert ran.code == OK, ran
    assert trial.wrong_when_undone(take(trial.root)) == []


@pytest.mark.slow
@pytest.mark.strace
@pytest.mark.parametrize("undoing", [False, True], ids=["repair", "undo"])
def test_a_call_really_fails(undoing: bool, trials: Trials, tmp_path: Path) -> None:
    trial = trials(LOSSY)
    start, argv = (trial.complete, trial.undo_argv) if undoing else (trial.original, trial.argv)
    put(trial.root, start)
    chance = random.Random(SEED)
    # Of what else is opened and written, others decide how often.
    calls = [
        call
        for call in trace(argv, trial.root, tmp_path).calls
        if call.name not in ("openat", "write")
    ]
    for call in chance.sample(calls, 3):
        put(trial.root, start)
        error, lasting = errno.errorcode[chance.choice(ERRORS)], chance.choice(("", "+"))
        fault = f"{call.name}:error={error}:when={call.before + 1}{lasting}"
        traced = trace(argv, trial.root, tmp_path, inject=fault)
        ran = Run(tuple(argv), traced.code, "", traced.err)
        assert wrong_after_fault(trial, ran, undoing) == [], fault


# --- file systems


@pytest.fixture
def small(place: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    with small_disk(place / "small", "4m") as directory:
        yield directory


@pytest.mark.parametrize("subject", first_of([HEAL, LOSSY, REINDEX, CONVERT], 2), ids=str)
@pytest.mark.slow
def test_no_space(subject: Subject, small: Path) -> None:
    root = small / "root"
    root.mkdir()
    trial = Trial.of(subject, root)
    fill(small)
    ran = run(trial.argv)
    assert ran.code == REFUSED, ran
    assert trial.wrong_when_unchanged(take(root), trial.original) == []
    (small / "filler").unlink()
    assert trial.wrong_after_rerun(trial.original) == []


@pytest.mark.slow
@pytest.mark.parametrize("subject", [LOSSY, REINDEX, CONVERT, HEAL], ids=str)
def test_space_ends_on_the_way(subject: Subject, small: Path) -> None:
    root = small / "root"
    root.mkdir()
    trial = Trial.of(subject, root)
    count = len(trial.applied.calls)
    put(root, trial.original)
    codes = set()
    for number in range(0, count, 20):
        put(root, trial.original)
        ran = run(trial.argv, before(number, lambda: fill(small)))
        (small / "filler").unlink(missing_ok=True)
        codes.add(ran.code)
        assert wrong_after_fault(trial, ran, undoing=False) == [], number
    assert codes >= {INCOMPLETE, REFUSED}


def before(number: int, happens: Callable[[], None]) -> Around:
    """Something happens before that call."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.number == number:
            happens()
        return make(*call.arguments)

    return around


@pytest.mark.slow
@pytest.mark.parametrize("subject", [LOSSY, LINKED], ids=str)
def test_tails_are_cloned_where_that_goes(subject: Subject, tmp_path: Path) -> None:
    try:
        with xfs(tmp_path) as directory:
            root = directory / "root"
            root.mkdir()
            trial = Trial.of(subject, root)
            assert "clone" in {call.method for call in trial.applied.done}
            assert trial.wrong_when_undone(trial.undone.before[-1]) == []
            states = trial.applied.states
            for _, tree in random.Random(SEED).sample(states, FEW):
                assert trial.wrong_at_start(tree) == []
                assert trial.wrong_after_rerun(tree) == []
                assert trial.wrong_after_undo(tree) == []
    except UnmountableError as error:
        pytest.skip(f"may not mount: {error}")
