"""A conversion to a new directory that is killed, or loses power: what it makes is whole, or not
there, and what it reads stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from kdump.ui.exits import OK, REFUSED
from support.crashing.page_cache import losses
from support.crashing.places import in_memory
from support.crashing.recorded import Recorded, record
from support.crashing.running import run
from support.crashing.subjects import CONVERT, PARTITION
from support.crashing.trees import Tree, differences, put, take

pytestmark = pytest.mark.once

SEED = 9
FEW, MANY = 8, 200
OUTPUT = "made"
#: What a kill leaves of the directory around the new one.
GROWN = f".kdump.{OUTPUT}.tmp"
TARGET = f"{OUTPUT}/{PARTITION}"


class Copying:
    """A log directory at ``root``, and beside it what its partition is converted to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        CONVERT.write(root)
        self.original = take(root)
        self.argv = CONVERT.argv(root, "--output", str(root / OUTPUT))

    @cached_property
    def whole(self) -> Recorded:
        """An uninterrupted run."""
        put(self.root, self.original)
        made = record(self.argv, self.root, piece_bytes=100)
        assert made.run.code == OK, made.run
        return made

    def wrong(self, tree: Tree) -> list[str]:
        """What is wrong with ``tree``, and with what comes of the same command there."""
        wrong = self._wrong(tree)
        put(self.root, tree)
        ran = run(self.argv)
        # Nothing is overwritten, not even by the same.
        expected = REFUSED if TARGET in tree else OK
        if ran.code != expected or "Traceback" in ran.err:
            wrong.append(f"expected exit {expected}: {ran}")
        return wrong + [f"rerun: {problem}" for problem in self._wrong(take(self.root), there=True)]

    def _wrong(self, tree: Tree, *, there: bool = False) -> list[str]:
        end = self.whole.before[-1]
        expected = end if there or TARGET in tree else self.original
        return differences(
            tree,
            expected,
            ignored=lambda name: name.startswith((OUTPUT, GROWN)) and not self._is_made(name),
            # The times of what was made in another run are others.
            timed=lambda name: name in self.original or name.endswith(".log"),
        )

    def _is_made(self, name: str) -> bool:
        # The facts of a run in the receipt differ each time.
        return name.startswith(f"{TARGET}/") and not name.startswith(f"{TARGET}/.kdump")


@pytest.fixture(scope="module")
def copying() -> Iterator[Copying]:
    with in_memory() as root:
        yield Copying(root)


def wrong_after_kills(copying: Copying, states: list[tuple[int, Tree]]) -> list[str]:
    calls = [*copying.whole.calls, "the end"]
    return [
        f"before {calls[number]}: {problem}"
        for number, tree in states
        for problem in copying.wrong(tree)
    ]


def wrong_after_losses(copying: Copying, count: int) -> list[str]:
    """Half of the moments are about the last one, when the directory gets its name."""
    done, wrong = copying.whole.done, []
    (named,) = (at for at, call in enumerate(done) if call.paths[-1:] == (TARGET,))
    for start in (0, named):
        chance = random.Random(SEED)
        lost = losses(copying.original, done[start:], chance, count // 2, first=done[:start])
        for moment, tree in lost:
            wrong += [f"at {start + moment}: {problem}" for problem in copying.wrong(tree)]
    return wrong


@pytest.mark.slow
def test_it_is_killed(copying: Copying) -> None:
    *states, last = copying.whole.states
    sample = random.Random(SEED).sample(states, FEW)
    assert wrong_after_kills(copying, [*sample, last]) == []


@pytest.mark.nightly
def test_it_is_killed_before_each_call(copying: Copying) -> None:
    assert wrong_after_kills(copying, copying.whole.states) == []


def test_power_is_lost(copying: Copying) -> None:
    assert wrong_after_losses(copying, FEW) == []


@pytest.mark.nightly
def test_power_is_lost_at_many_moments(copying: Copying) -> None:
    assert wrong_after_losses(copying, MANY) == []
