"""``move`` is killed, or fails, at every call: a broker may start; resume and undo end it."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from commands.move.two_directories import (
    CHECKPOINTS,
    MARKER,
    NAME,
    lines,
    start,
    write,
)
from kdump.repair.relocation import move
from kdump.ui import exits
from support.crashing.places import in_memory
from support.crashing.recorded import record
from support.crashing.running import run
from support.crashing.seam import failing
from support.crashing.trees import Tree, differences, put, take
from support.long_samples import first_of

pytestmark = pytest.mark.once

LOCKS = ("a/.lock", "b/.lock")
CLEAN = {
    "from-unclean": (False, True),
    "both-clean": (True, True),
    "to-unclean": (True, False),
}


class Trial:
    """A move from ``a`` to ``b``, before anything was done; all its states are in ``root``."""

    def __init__(self, root: Path, *, copied: bool) -> None:
        self.root, self.copied = root, copied
        self.original: Tree = take(root)
        self.first = start(root)
        self.argv = ["move", "--to", str(root / "b"), str(root / "a" / NAME), "--apply"]
        self.undo_argv = ["undo", str(root / "b" / NAME), "--apply"]
        self.lines = {
            (directory, each): lines(root / directory / each)
            for directory in ("a", "b")
            for each in CHECKPOINTS
        }

    def again(self, tree: Tree) -> None:
        put(self.root, tree)

    def wrong_at_start(self) -> list[str]:
        """What a broker would do that it should not."""
        found = start(self.root)
        wrong = []
        if len(found.directories) == 0:
            wrong.append("the partition is nowhere: a broker creates it empty")
        if len(found.cleaned) > 1 and len(found.directories) == 1:
            wrong.append("the log cleaner finds two lines")
        if len(found.directories) == 1:
            if found.files != self.first.files:
                wrong.append("other files")
            if found.offsets != self.first.offsets:
                wrong.append(f"other lines: {found.offsets}")
            if found.believed and not self.first.believed:
                wrong.append("a log without a clean shutdown is believed")
        if len(found.directories) == 2 and not self.copied:
            wrong.append("two directories after a rename")
        return wrong

    def wrong_when_moved(self) -> list[str]:
        """What is wrong at the end."""
        found = start(self.root)
        wrong = self.wrong_at_start()
        wrong += [] if found.directories == ("b",) else [f"it is in {found.directories}"]
        wrong += [] if found.cleaned == self.first.cleaned else [f"cleaned {found.cleaned}"]
        for each in CHECKPOINTS:
            ours, theirs = (dict(self.lines[directory, each]) for directory in ("a", "b"))
            moved = ours.pop(NAME)
            if lines(self.root / "a" / each) != ours:
                wrong.append(f"a/{each}")
            if lines(self.root / "b" / each) != theirs | {NAME: moved}:
                wrong.append(f"b/{each}")
        return wrong

    def wrong_when_undone(self, *, cleared: bool = True) -> list[str]:
        """What differs from the beginning; lines may be in another order.

        Not ``cleared``: a copy that nobody needs may be left, which the next move removes.
        """
        checkpoints = {f"{directory}/{each}" for directory, each in self.lines}
        wrong = differences(
            take(self.root),
            self.original,
            # What it hides is not hidden again.
            ignored=lambda name: (
                name in LOCKS
                or name in checkpoints
                or name == f"b/{MARKER}"
                or (not cleared and ".kdump" in name)
            ),
            timed=lambda _: True,
        )
        for (directory, each), expected in self.lines.items():
            if lines(self.root / directory / each) != expected:
                wrong.append(f"{directory}/{each}")
            if (self.root / directory / each).exists() != (f"{directory}/{each}" in self.original):
                wrong.append(f"{directory}/{each} is there or not")
        return wrong

    def wrong_after_resume(self) -> list[str]:
        ran = run(self.argv)
        if ran.code != exits.OK:
            return [str(ran)]
        return self.wrong_when_moved()

    def unchanged(self) -> list[str]:
        return differences(
            take(self.root),
            self.original,
            ignored=lambda name: name in LOCKS,
            timed=lambda _: True,
        )

    def home(self) -> Path:
        """Where the record of the move is."""
        records = [*self.root.glob("*/*/.kdump/*/begun.json")]
        return records[0].parents[2] if records else self.root / "b" / NAME


@pytest.fixture(params=["copied", "renamed"])
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the log directories count as those of two file systems."""
    is_copied: bool = request.param == "copied"
    if is_copied:
        monkeypatch.setattr(move, "shares_mount", lambda *_: False)
    return is_copied


@pytest.fixture(params=first_of(CLEAN))
def trial(request: pytest.FixtureRequest, copied: bool) -> Iterator[Trial]:
    with in_memory() as root:
        write(root, clean=CLEAN[request.param])
        yield Trial(root, copied=copied)


def test_it_moves_and_comes_back(trial: Trial) -> None:
    ran = run(trial.argv)
    assert ran.code == exits.OK, ran
    assert trial.wrong_when_moved() == []
    again = run(trial.argv)
    assert again.code == exits.OK, again
    assert "already" in again.out
    ran = run(trial.undo_argv)
    assert ran.code == exits.OK, ran
    assert trial.wrong_when_undone() == []


@pytest.mark.slow
def test_killed_before_every_call(trial: Trial) -> None:
    made = record(trial.argv, trial.root)
    assert made.run.code == exits.OK, made.run
    wrong: list[Any] = []
    for number, tree in made.states:
        trial.again(tree)
        before = made.calls[number] if number < len(made.calls) else "the end"
        begun = any(name.endswith("/begun.json") for name in tree)
        wrong += [(number, before, each) for each in trial.wrong_at_start()]
        if number < len(made.calls):
            wrong += [(number, before, "resume", each) for each in trial.wrong_after_resume()]
        if not begun:
            continue
        trial.again(tree)
        ran = run(["undo", str(trial.home()), "--apply"])
        if ran.code != exits.OK:
            wrong.append((number, before, "undo", str(ran)))
        wrong += [(number, before, "undo", each) for each in trial.wrong_when_undone()]
    assert wrong == []


@pytest.mark.slow
def test_an_undo_killed_before_every_call(trial: Trial) -> None:
    assert run(trial.argv).code == exits.OK
    made = record(trial.undo_argv, trial.root)
    assert made.run.code == exits.OK, made.run
    wrong: list[Any] = []
    for number, tree in made.states:
        trial.again(tree)
        before = made.calls[number] if number < len(made.calls) else "the end"
        wrong += [(number, before, each) for each in trial.wrong_at_start()]
        if any(name.endswith("/begun.json") for name in tree):
            ran = run(["undo", str(trial.home()), "--apply"])
            if ran.code != exits.OK:
                wrong.append((number, before, str(ran)))
        leftovers = [*trial.root.glob("b/*.kdump-*"), *trial.root.glob("a/*/.kdump")]
        if not leftovers:
            wrong += [(number, before, each) for each in trial.wrong_when_undone()]
        # What a killed removal of the copy leaves, the next move removes.
        wrong += [(number, before, "again", each) for each in trial.wrong_after_resume()]
    assert wrong == []


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.slow
def test_a_failure_of_every_call(error: int, trial: Trial) -> None:
    """Nothing was changed, or the command that goes on is printed and does."""
    made = record(trial.argv, trial.root)
    wrong: list[Any] = []
    for number in made.changing:
        trial.again(trial.original)
        ran = run(trial.argv, failing(partial(eq, number), error))
        call = number, made.calls[number]
        wrong += [(*call, each) for each in trial.wrong_at_start()]
        if ran.code == exits.REFUSED:
            wrong += [(*call, each) for each in trial.unchanged()]
        elif ran.code == exits.INCOMPLETE:
            _, *argv = shlex.split(ran.last_line)
            again = run(argv)
            wrong += [] if again.code == exits.OK else [(*call, str(again))]
        elif ran.code != exits.OK:
            wrong.append((*call, str(ran)))
        if ran.code in (exits.OK, exits.INCOMPLETE):
            left = trial.wrong_when_moved()
            # A full disk may keep lines of a log that is gone.
            wrong += [(*call, each) for each in left if ran.code or not each.startswith("a/")]
    assert wrong == []


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.slow
def test_a_failure_of_every_call_of_an_undo(error: int, trial: Trial) -> None:
    assert run(trial.argv).code == exits.OK
    moved = take(trial.root)
    made = record(trial.undo_argv, trial.root)
    wrong: list[Any] = []
    for number in made.changing:
        trial.again(moved)
        ran = run(trial.undo_argv, failing(partial(eq, number), error))
        call = number, made.calls[number]
        wrong += [(*call, each) for each in trial.wrong_at_start()]
        if ran.code == exits.INCOMPLETE:
            _, *argv = shlex.split(ran.last_line)
            again = run(argv)
            wrong += [] if again.code == exits.OK else [(*call, str(again))]
        elif ran.code == exits.REFUSED:
            continue
        wrong += [(*call, each) for each in trial.wrong_when_undone(cleared=False)]
    assert wrong == []
