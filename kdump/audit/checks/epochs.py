"""Checks of leader epochs in batches and in ``leader-epoch-checkpoint``.

Spec: ``LeaderEpochFileCache``, ``LogSegment.recover`` (KIP-101, KIP-279); KOD 9, checks 22 and 23.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from kdump.audit import codes
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.findings import Detail, Finding, Offsets, explaining
from kdump.audit.replay.replay import Replay
from kdump.audit.survey.events import EpochRun
from kdump.audit.survey.survey import Survey
from kdump.format.checkpoint import EpochEntry
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT

_NO_EPOCH: Final = -1
_MAGIC: Final = 2


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of batches under one leader epoch; ``number`` is that of its segment."""

    number: int
    survey: Survey
    run: EpochRun


def check_epoch_falls(evidence: Evidence) -> Iterator[Finding]:
    """Judge the leader epochs of batches among themselves (23)."""
    replay = evidence.replay
    if replay is None:
        return
    falls = [(before, after) for before, after in pairwise(_runs(replay)) if _falls(before, after)]
    for _, in_segment in groupby(falls, key=lambda pair: pair[1].number):
        pairs = list(in_segment)
        before, after = pairs[0]
        yield Finding(
            codes.LEADER_EPOCH_FALLS,
            after.survey.segment.log,
            position=after.run.first_position,
            offsets=Offsets(after.run.first_offset, after.run.last_offset),
            detail=Detail(
                f"a leader epoch of {before.run.epoch} or more, as at offset "
                f"{before.run.last_offset}",
                str(after.run.epoch),
            ),
            remedy=explaining(codes.LEADER_EPOCH_FALLS),
            repeats=len(pairs) - 1,
        )


def check_epoch_range(evidence: Evidence) -> Iterator[Finding]:
    """Judge leader epochs below 0: -1 stands for none, and less for nothing (23)."""
    replay = evidence.replay
    if replay is None:
        return
    runs = [
        _Run(number, segment.survey, run)
        for number, segment in enumerate(replay.segments)
        for run in segment.survey.events.epochs()
    ]
    negative = [each for each in runs if each.run.epoch < _NO_EPOCH]
    absent = [
        each
        for each in runs
        # Messages before magic 2 have none.
        if each.run.epoch == _NO_EPOCH and (each.survey.magics or (0, 0))[0] >= _MAGIC
    ]
    for code, expected, found in (
        (codes.LEADER_EPOCH_NEGATIVE, "a leader epoch of -1 or more", negative),
        (codes.LEADER_EPOCH_ABSENT, "a leader epoch, as a follower needs it", absent),
    ):
        for each in found[:1]:
            yield Finding(
                code,
                each.survey.segment.log,
                position=each.run.first_position,
                offsets=Offsets(each.run.first_offset, each.run.last_offset),
                detail=Detail(expected, str(each.run.epoch)),
                remedy=explaining(code),
                repeats=len(found) - 1,
            )


def check_epoch_checkpoint(evidence: Evidence) -> Iterator[Finding]:
    """Judge leader-epoch-checkpoint against the log (22, 23). A missing file has no entries."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.doomed:
        return
    read = facts.epochs or Read(facts.partition.path / LEADER_EPOCH_CHECKPOINT, ())
    if read.value is None or not _rises(read.value):
        return
    entries = read.value
    missing: list[_Run] = []
    wrong: list[_Run] = []
    for each in _judged(replay, facts, entries):
        behind = each.run.epoch > (entries[-1].epoch if entries else -1)
        below = not entries or each.run.last_offset < entries[0].start_offset
        if below:
            if _must_be_there(replay, facts, each):
                missing.append(each)
        elif not _fits(each.run, entries):
            healed = behind and facts.recovered(_next_base(replay, each))
            (missing if healed else wrong).append(each)
    for code, runs in ((codes.EPOCHS_MISSING, missing), (codes.EPOCHS_MISMATCH, wrong)):
        if runs:
            run = runs[0].run
            yield Finding(
                code,
                read.path,
                offsets=Offsets(run.first_offset, run.last_offset),
                detail=Detail(
                    f"epoch {run.epoch}, as the batches there have", _describe(run, entries)
                ),
                remedy=explaining(code),
                repeats=len(runs) - 1,
            )


def _runs(replay: Replay) -> list[_Run]:
    """The runs of batches with a leader epoch, as far as no damage hides what is before them.

    Where the offsets of a segment do not rise, they do not show which of them is wrong.
    """
    return [
        _Run(number, segment.survey, run)
        for number, segment in enumerate(replay.segments)
        if segment.survey.ordered
        for run in segment.survey.events.epochs()
        if run.epoch >= 0 and replay.certain(run.first_offset, run.last_offset)
    ]


def _falls(before: _Run, after: _Run) -> bool:
    return after.run.epoch < before.run.epoch


def _judged(replay: Replay, facts: PartitionFacts, entries: Sequence[EpochEntry]) -> Iterator[_Run]:
    """The runs to be compared: not those beside a fall, nor any that nobody can know of."""
    runs = _runs(replay)
    fallen = {
        id(run)
        for before, after in pairwise(runs)
        if _falls(before, after)
        for run in (before, after)
    }
    newest = entries[-1].epoch if entries else -1
    for each in runs:
        if id(each) in fallen or (not facts.stopped and each.run.epoch > newest):
            continue
        # Below the log start entries go, and the first one is moved up to it.
        if each.run.last_offset >= facts.start_offset:
            yield each


def _must_be_there(replay: Replay, facts: PartitionFacts, each: _Run) -> bool:
    """Whether entries should reach back to a run that lies below all of them.

    Not where legacy batches may have cleared the cache since, or retention moved it on; recovery
    by 2.4 to 2.6 forgets epoch 0 (KAFKA-10432).
    """
    return (
        facts.in_log_directory
        and facts.settings.compacted is False
        and each.run.epoch > 0
        and all(
            run.epoch >= 0 or run.last_offset < each.run.first_offset
            for segment in replay.segments
            for run in segment.survey.events.epochs()
        )
    )


def _fits(run: EpochRun, entries: Sequence[EpochEntry]) -> bool:
    """Whether entries give the run's epoch for its offsets, as far as they reach back."""
    starts = [entry.start_offset for entry in entries]
    in_force = bisect_right(starts, max(run.first_offset, starts[0])) - 1
    behind = starts[in_force + 1 : in_force + 2]
    return entries[in_force].epoch == run.epoch and (not behind or behind[0] > run.last_offset)


def _rises(entries: Sequence[EpochEntry]) -> bool:
    return all(one.epoch >= 0 <= one.start_offset for one in entries) and all(
        before.epoch < after.epoch and before.start_offset < after.start_offset
        for before, after in pairwise(entries)
    )


def _next_base(replay: Replay, each: _Run) -> int | None:
    following = replay.segments[each.number + 1 : each.number + 2]
    return following[0].survey.segment.base_offset if following else None


def _describe(run: EpochRun, entries: Sequence[EpochEntry]) -> str:
    told = [
        f"epoch {entry.epoch} from {entry.start_offset}"
        for entry in entries
        if entry.start_offset <= run.last_offset
    ]
    return told[-1] if told else "none"
