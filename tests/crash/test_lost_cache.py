"""A loss of power during a repair, or an undo: what was not synced is lost, or comes out of order.

The operations of one run are replayed, up to a moment of chance and with some of them lost; each
tree that comes of it must be one from where a repair goes on, or can be taken back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence

import pytest

from kdump.ui.exits import OK
from support.crashing.conditions import NIGHT, Trial
from support.crashing.page_cache import PageCache, losses
from support.crashing.seam import Operation
from support.crashing.subjects import HEAL, LOSSY, REINDEX, SPLIT, Subject
from support.crashing.trees import Node, Tree
from support.long_samples import first_of

pytestmark = pytest.mark.once

SEED = 7
FEW, MANY = 8, 4_000
#: Each state of an undo is also done again: it takes longer, and adds less.
MANY_UNDONE = 1_000
SUBJECTS = [HEAL, LOSSY, REINDEX, SPLIT]
#: Logs that are replaced and added, a truncation that takes the marker and a log's tail, a rebuild
#: of files, a conversion into more logs than before; each with its undo.
COMMANDS = [(subject, undoing) for undoing in (False, True) for subject in SUBJECTS]

Trials = Callable[[Subject], Trial]


@pytest.mark.parametrize("undoing", first_of([False, True]))
@pytest.mark.parametrize("subject", first_of(SUBJECTS), ids=str)
@pytest.mark.slow
def test_power_is_lost(subject: Subject, undoing: bool, trials: Trials) -> None:
    assert wrong_after(trials(subject), undoing, FEW) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("subject", "undoing"), COMMANDS, ids=str)
def test_power_is_lost_at_many_moments(subject: Subject, undoing: bool, trials: Trials) -> None:
    assert wrong_after(trials(subject), undoing, MANY_UNDONE if undoing else MANY) == []


@pytest.mark.parametrize("subject", first_of(SUBJECTS), ids=str)
@pytest.mark.slow
def test_power_is_lost_after_a_kill(subject: Subject, trials: Trials) -> None:
    assert wrong_behind_kills(trials(subject), 2, 4) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("subject", "count"), [(HEAL, 6), (LOSSY, 6), (REINDEX, 6), (SPLIT, 3)], ids=str
)
def test_power_is_lost_after_each_kill(subject: Subject, count: int, trials: Trials) -> None:
    assert wrong_behind_kills(trials(subject), MANY, count) == []


def wrong_behind_kills(trial: Trial, kills: int, count: int) -> list[str]:
    """What is wrong where a repair was killed and gone on with before the power was lost.

    What the killed process had not synced may be lost then, too.
    """
    wrong = []
    chance = random.Random(SEED + NIGHT)
    killed = range(len(trial.applied.calls))
    for number in chance.sample(killed, min(kills, len(killed))):
        first = trial.applied.done[: trial.applied.made[number]]
        start = trial.applied.before[number]
        again = trial.record(start, trial.argv, piece_bytes=100)
        assert again.run.code == OK, again.run
        for moment, tree in losses(trial.original, again.done, chance, count, first=first):
            found = trial.wrong_at_start(tree)
            found += [f"undo: {problem}" for problem in trial.wrong_after_undo(tree)]
            found += [f"rerun: {problem}" for problem in trial.wrong_after_rerun(tree)]
            call = trial.applied.calls[number]
            wrong += [
                f"killed before {number}, {call}, then {moment}: {problem}" for problem in found
            ]
    return wrong


def wrong_after(trial: Trial, undoing: bool, count: int) -> list[str]:
    """What is wrong in any of ``count`` states; of equal ones only the first is tried."""
    start, recorded = (trial.complete, trial.undone) if undoing else (trial.original, trial.applied)
    tried: set[Hashable] = set()
    wrong = []
    chance = random.Random(SEED + NIGHT)
    for number, (moment, tree) in enumerate(losses(start, recorded.done, chance, count)):
        key = frozenset(tree.items())
        if key in tried:
            continue
        tried.add(key)
        found = trial.wrong_at_start(tree)
        found += [f"undo: {problem}" for problem in trial.wrong_after_undo(tree)]
        if undoing:
            found += [f"redo: {problem}" for problem in trial.wrong_after_redo(tree)]
        else:
            found += [f"rerun: {problem}" for problem in trial.wrong_after_rerun(tree)]
        last = recorded.done[moment - 1] if moment else None
        call = "the start" if last is None else f"{last.method} {last.paths}"
        wrong += [f"state {number}, after {call}: {problem}" for problem in found]
    assert len(tried) > min(count, 80) / 4  # an undo of a rebuild has few states
    return wrong


# --- the model


def file(content: bytes = b"", mtime_ns: int = 1) -> Node:
    return Node(content, 0o600, 0, 0, mtime_ns)


DIRECTORY = Node(None, 0o700, 0, 0)
TREE: Tree = {".": DIRECTORY, "a": DIRECTORY, "a/log": file(b"sound and torn", 5)}


def left(operations: Sequence[Operation], count: int = 200) -> list[Tree]:
    """Different trees that may be left of ``operations`` when all were made."""
    cache = PageCache.of(TREE)
    for operation in operations:
        cache.do(operation)
    chance = random.Random(SEED)
    found: list[Tree] = []
    for _ in range(count):
        tree = cache.left(chance)
        if tree not in found:
            found.append(tree)
    return found


def test_what_is_synced_lasts() -> None:
    cut = Operation("truncate", ("a/log",), file(b"sound", 9))
    assert len(left([cut])) > 1
    assert left([cut, Operation("sync", ("a/log",))]) == [{**TREE, "a/log": file(b"sound", 9)}]


def test_what_is_not_synced_is_lost_or_zeros_or_older() -> None:
    written = file(b"sound and torn, more", 9)
    states = left([Operation("write", ("a/log",), written)], 1000)
    found = {tree["a/log"] for tree in states}
    assert {TREE["a/log"], written, file(b"sound and torn", 9)} <= found
    assert file(b"sound and torn\0\0more", 9) in found
    assert file(written.content or b"", 5) not in found  # it is longer since then


def test_a_cut_changes_size_and_time_at_once() -> None:
    cut = file(b"sound", 9)
    found = {tree["a/log"] for tree in left([Operation("truncate", ("a/log",), cut)])}
    assert found == {TREE["a/log"], cut}


def test_a_name_lasts_once_its_directory_is_synced() -> None:
    made = [
        Operation("open", ("a/new",), file()),
        Operation("write", ("a/new",), file(b"new")),
        Operation("sync", ("a/new",)),
    ]
    assert TREE in left(made)
    assert left([*made, Operation("sync", ("a",))]) == [{**TREE, "a/new": file(b"new")}]


def test_a_file_that_is_renamed_before_it_is_synced_may_be_empty() -> None:
    made = [
        Operation("open", ("a/new",), file()),
        Operation("write", ("a/new",), file(b"new")),
        Operation("rename", ("a/new", "a/log")),
        Operation("sync", ("a",)),
    ]
    found = [tree["a/log"].content for tree in left(made)]
    assert {b"", b"new"} <= set(found)


def test_what_comes_later_under_the_same_name_is_lost_too() -> None:
    made = [
        Operation("make_directory", ("b",), DIRECTORY),
        Operation("rename", ("a/log", "b/log")),
        Operation("sync", ("b",)),
        Operation("sync", ("a",)),
    ]
    # The directory was never synced into its own: all that was moved there is gone.
    assert {".": DIRECTORY, "a": DIRECTORY} in left(made)
    whole = {".": DIRECTORY, "a": DIRECTORY, "b": DIRECTORY, "b/log": TREE["a/log"]}
    assert left([*made, Operation("sync", (".",))]) == [whole]


def test_both_names_of_a_file_are_of_one_file() -> None:
    made = [Operation("link", ("a/log", "a/kept")), Operation("sync", ("a",))]
    (tree,) = left(made)
    assert {node.twin for path, node in tree.items() if node.content} == {"a/kept"}
