"""What must hold of any state that a repair was interrupted in.

The same command goes on to the same end, ``undo`` takes everything back, and a broker that starts
instead loses no more than the repair, or its own start before the repair, would have cost; nor does
it find an index of another log than the one beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kdump.audit.judge import judge
from kdump.audit.startup.outcome import Outcome
from kdump.audit.verdicts.next_start import next_start
from kdump.repair.rewrite import conversion
from kdump.ui.exits import INCOMPLETE, OK, PROBLEMS, REFUSED
from support import pipeline
from support.crashing.recorded import Recorded, record
from support.crashing.running import Run, run
from support.crashing.seam import Around
from support.crashing.sound import misleads, sound_offsets
from support.crashing.subjects import CHECKPOINTS, INTERVAL, MARKER, PARTITION, Subject
from support.crashing.trees import Tree, differences, put, take

LOCK = "data/.lock"
#: Counts nights, of which each fails calls with other errors and loses other pages; 0 in CI.
NIGHT = int(os.environ.get("KDUMP_NIGHT", "0"))


@dataclass(frozen=True)
class Trial:
    """A subject at ``root``, as it was written and planned."""

    subject: Subject
    root: Path
    original: Tree
    plan: dict[str, Any]

    @classmethod
    def of(cls, subject: Subject, root: Path) -> Trial:
        """Write the subject at ``root``, an empty directory, and plan its repair."""
        subject.write(root)
        planned = run(subject.argv(root, "--format", "json"), prepare=_prepared(subject))
        assert planned.code == PROBLEMS, planned
        (plan,) = _lines(planned, "plan")
        return cls(subject, root, take(root), plan)

    @property
    def argv(self) -> list[str]:
        """The command that repairs, with the consent that it needs."""
        return self.subject.argv(self.root, "--apply", "--confirm", self.plan["id"])

    @property
    def undo_argv(self) -> list[str]:
        """The command that takes the repair back."""
        return self.subject.undo(self.root, "--apply")

    @cached_property
    def applied(self) -> Recorded:
        """An uninterrupted repair; every write takes at most 100 bytes."""
        return self._recorded(self.original, self.argv)

    @cached_property
    def undone(self) -> Recorded:
        """An uninterrupted undo behind that."""
        return self._recorded(self.complete, self.undo_argv)

    @property
    def complete(self) -> Tree:
        """The tree behind an uninterrupted repair."""
        return self.applied.before[-1]

    @cached_property
    def floor(self) -> set[int]:
        """The sound offsets that no broker may lose, however the repair is interrupted."""
        _, behind = self.started(self.complete)
        outcome, before = self._at_first
        return behind & before if outcome is Outcome.STARTS else behind

    @cached_property
    def _at_first(self) -> tuple[Outcome, set[int]]:
        return self.started(self.original)

    def started(self, tree: Tree) -> tuple[Outcome, set[int]]:
        """What a broker's start makes of ``tree``, by the forecast: the offsets that it serves."""
        put(self.root, tree)
        path = self.subject.log_directory(self.root)
        path = self.subject.partition(self.root) if self.subject.alone else path
        given = pipeline.read(path, config={"log.index.interval.bytes": str(INTERVAL)})
        for target, surveys, facts in given.targets:
            if target.path.name != PARTITION:
                continue
            made = next_start(judge(target, surveys, facts, given.context))
            assert made is not None
            if made.outcome is not Outcome.STARTS:
                return made.outcome, set()
            cuts = {cut.segment: cut.position for cut in made.cuts}
            kept = set()
            for base, position, offset in self.sound_offsets(tree):
                if base in made.deleted or position >= cuts.get(base, position + 1):
                    continue
                if (made.log_start_offset or 0) <= offset < (made.log_end_offset or 0):
                    kept.add(offset)
            return made.outcome, kept
        raise AssertionError(f"{path}: no {PARTITION}")

    def wrong_at_start(self, tree: Tree) -> list[str]:
        """What a broker that starts on ``tree`` would do worse."""
        floor = self.floor
        outcome, kept = self.started(tree)
        if outcome is not Outcome.STARTS:
            worse = outcome is not self._at_first[0]
            return [f"a broker's start: {outcome.value}"] if worse else []
        wrong = [
            f"a broker is led astray in segment {base}"
            for base in sorted(self._misled(tree) - self._misled(self.original))
        ]
        lost = sorted(floor - kept)
        if lost:
            wrong.append(f"a broker loses {len(lost)} offsets, {lost[0]} to {lost[-1]}")
        return wrong

    def wrong_after_rerun(self, tree: Tree) -> list[str]:
        """What is wrong when the same command is run on ``tree``."""
        ran = self._on(tree, self.argv)
        return _ended(ran, OK) + self.wrong_when_complete(take(self.root))

    def wrong_after_undo(self, tree: Tree) -> list[str]:
        """What is wrong when the repair is undone on ``tree``; there may be nothing to undo."""
        ran = self._on(tree, self.undo_argv)
        return _ended(ran, OK, REFUSED) + self.wrong_when_undone(take(self.root))

    def wrong_after_redo(self, tree: Tree) -> list[str]:
        """What is wrong when the repair is run again on what is left of an undo.

        It refuses, changing nothing, as long as the undo is pending.
        """
        ran = self._on(tree, self.argv)
        now = take(self.root)
        if ran.code == REFUSED:
            wrong = self.wrong_when_unchanged(now, tree)
        else:
            wrong = self.wrong_when_complete(now)
        return [*_ended(ran, OK, REFUSED), *wrong]

    def wrong_when_complete(self, tree: Tree) -> list[str]:
        """How ``tree`` differs from the one behind an uninterrupted repair."""
        new = {
            f"{self.subject.home}/{step['name']}"
            for step in self.plan["steps"]
            if step["step"] == "put" and step.get("mtime_ns") is None
        }
        new |= {f"data/{name}" for name in (*CHECKPOINTS, MARKER)}
        wrong = differences(
            tree, self.complete, ignored=self._ours, timed=lambda name: name not in new
        )
        lock = tree.get(LOCK)
        if lock is not None and lock.uid != tree["data"].uid:
            wrong.append(f"no broker of user {tree['data'].uid} can open {LOCK}")
        return wrong

    def wrong_when_undone(self, tree: Tree) -> list[str]:
        """How ``tree`` differs from the one before the repair."""
        rewritten = {f"data/{name}" for name in CHECKPOINTS}
        return differences(
            tree, self.original, ignored=self._ours, timed=lambda name: name not in rewritten
        )

    def wrong_when_unchanged(self, tree: Tree, before: Tree) -> list[str]:
        """How ``tree`` differs from the one ``before``, folders of repairs included."""
        return differences(tree, before, ignored=lambda name: name == LOCK, timed=lambda _: True)

    def sound_offsets(self, tree: Tree) -> Iterator[tuple[int, int, int]]:
        """Base offset of the segment, position of the batch, and offset, of what is sound."""
        for path, node in tree.items():
            directory, _, name = path.rpartition("/")
            if directory == self.subject.home and name.endswith(".log"):
                for position, offset in sound_offsets(node.content or b""):
                    yield int(name[:20]), position, offset

    def _misled(self, tree: Tree) -> set[int]:
        """The segments with indexes that belong to another log; without an .index it makes all."""
        found = set()
        for path, node in tree.items():
            directory, _, name = path.rpartition("/")
            index, times = (
                tree.get(path.removesuffix(".log") + suffix) for suffix in (".index", ".timeindex")
            )
            if directory != self.subject.home or not name.endswith(".log") or index is None:
                continue
            entries = (index.content or b"", (times and times.content) or b"")
            if misleads(int(name[:20]), node.content or b"", *entries):
                found.add(int(name[:20]))
        return found

    def _ours(self, name: str) -> bool:
        folders = self.subject.folders
        return name in (LOCK, folders) or name.startswith(f"{folders}/")

    def run(self, argv: Sequence[str], around: Around | None = None) -> Run:
        """Run ``kdump ARGV`` as the subject's user, where no log passes the subject's size."""
        return run(argv, around, prepare=_prepared(self.subject))

    def record(self, tree: Tree, argv: Sequence[str], *, piece_bytes: int = 1 << 20) -> Recorded:
        """The same on ``tree``, call by call; no write is longer than ``piece_bytes``."""
        put(self.root, tree)
        return record(argv, self.root, piece_bytes=piece_bytes, prepare=_prepared(self.subject))

    def _on(self, tree: Tree, argv: list[str]) -> Run:
        put(self.root, tree)
        return self.run(argv)

    def _recorded(self, tree: Tree, argv: list[str]) -> Recorded:
        made = self.record(tree, argv, piece_bytes=100)
        assert made.run.code == OK, made.run
        return made


def pending(ran: Run, trial: Trial) -> list[str]:
    """What is wrong with what a repair says that could not go on (exit 5)."""
    wrong = _ended(ran, INCOMPLETE)
    folder = f"{trial.subject.partition(trial.root)}/.kdump/{trial.plan['id']}"
    if folder not in ran.err:
        wrong.append(f"the folder is not named: {ran}")
    if "kdump undo" not in ran.err:
        wrong.append(f"undo is not named: {ran}")
    return wrong


def _prepared(subject: Subject) -> Callable[[], None]:
    def prepare() -> None:
        conversion.MAX_LOG_BYTES = subject.most_bytes  # type: ignore[attr-defined]
        subject.become_user()

    return prepare


def _ended(ran: Run, *codes: int) -> list[str]:
    if ran.code not in codes or "Traceback" in ran.err:
        return [f"expected exit {' or '.join(map(str, codes))}: {ran}"]
    return []


def _lines(ran: Run, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in ran.out.splitlines()]
    return [line for line in lines if line["type"] == kind]
