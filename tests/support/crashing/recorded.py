"""One run of a command, call by call: what it did, and how the tree stood before each call."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdump.repair.transaction import disk
from support.crashing.running import Run, run
from support.crashing.seam import Call, Operation, recording
from support.crashing.trees import Tree, take


@dataclass(frozen=True)
class Recorded:
    """``before`` has the tree before each call and after the last; ``done`` what succeeded.

    ``calls`` are their methods and paths, ``changing`` the numbers of those that change anything,
    or make it last. ``made`` counts what of ``done`` was done before each call.
    """

    run: Run
    calls: Sequence[tuple[str, tuple[str, ...]]]
    changing: Sequence[int]
    made: Sequence[int]
    before: Sequence[Tree]
    done: Sequence[Operation]

    @property
    def states(self) -> list[tuple[int, Tree]]:
        """The trees that a kill leaves: each once, with the first call that it comes before."""
        found: list[tuple[int, Tree]] = []
        for number, tree in enumerate(self.before):
            if not found or found[-1][1] != tree:
                found.append((number, tree))
        return found


def record(
    argv: Sequence[str],
    root: Path,
    *,
    piece_bytes: int = 1 << 20,
    prepare: Callable[[], None] = lambda: None,
) -> Recorded:
    """Run ``kdump ARGV``, which changes what is below ``root``; ``prepare`` is called before.

    No write is longer than ``piece_bytes``, so that a small file takes several.
    """
    before: list[Tree] = []
    calls: list[tuple[str, tuple[str, ...]]] = []
    changing: list[int] = []
    made: list[int] = []
    done: list[Operation] = []
    result = os.memfd_create("record")

    def look(call: Call) -> None:
        before.append(take(root))
        calls.append((call.method, call.paths))
        made.append(len(done))
        if call.changes:
            changing.append(call.number)

    def begin() -> None:
        disk._PIECE_BYTES = piece_bytes  # type: ignore[misc]
        prepare()

    def finish() -> None:
        before.append(take(root))
        with os.fdopen(os.dup(result), "wb") as file:
            pickle.dump((calls, changing, made, before, done), file)

    try:
        ran = run(argv, recording(done, root, look), prepare=begin, finish=finish)
        with os.fdopen(os.dup(result), "rb") as file:
            file.seek(0)
            data = file.read()
    finally:
        os.close(result)
    if not data:
        raise AssertionError(f"it did not come to an end:\n{ran}")
    return Recorded(ran, *pickle.loads(data))
