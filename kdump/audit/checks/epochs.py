"""Checks of leader epochs in batches and in ``leader-epoch-checkpoint``.

Spec: ``LeaderEpochFileCache``, ``LogSegment.recover`` (KIP-101, KIP-279); KOD 9, checks 22 and 23.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.finding_code import ONE_VALUE, REPLICA_FIRST, Cure, FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.replay.replay import Replay
from kdump.audit.survey.events import EpochRun
from kdump.audit.survey.survey import Survey
from kdump.format.checkpoint import EpochEntry, epochs_rise
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT
from kdump.values import frozen

LEADER_EPOCH_FALLS: Final = FindingCode(
    "leader-epoch-falls",
    Severity.WARNING,
    "A batch has a lower leader epoch than the batches before it. The epoch, which no checksum "
    "covers, was changed, or this log is from another cluster.",
    "The broker ignores the lower epoch. After a change of leader, followers may truncate to a "
    "wrong offset.",
    "Compare the partition with its other replicas: if one of them has the same batches in order, "
    "kdump compare prints the commands that truncate this log, and restore the batches from there. "
    "If another replica is in sync, the broker can also fetch the whole partition from the "
    "leader: move this partition directory out of the log directory." + ONE_VALUE,
    check=23,
)
LEADER_EPOCH_NEGATIVE: Final = FindingCode(
    "leader-epoch-negative",
    Severity.ERROR,
    "A batch has a leader epoch below -1, which no broker writes. No checksum covers the epoch.",
    "The broker serves the batch. A follower that fetches it refuses the epoch, and replication "
    "stops there.",
    REPLICA_FIRST + ONE_VALUE,
    check=23,
)
LEADER_EPOCH_ABSENT: Final = FindingCode(
    "leader-epoch-absent",
    Severity.WARNING,
    "A batch of message format v2 has no leader epoch. The cleaner of 4.0 and later omits the "
    "epoch when it rewrites messages of message format v0 or v1. No checksum covers the epoch.",
    "The broker serves the batch. A follower of 3.9 or later refuses its epoch of -1, and "
    "replication stops there: a new replica never gets in sync. Replicas that have the batch "
    "continue.",
    "While the broker is stopped, kdump convert-v0-v2 sets the leader epoch that belongs to the "
    "offset.",
    check=23,
    cure=Cure.CONVERT,
)
EPOCHS_MISMATCH: Final = FindingCode(
    "epochs-mismatch",
    Severity.ERROR,
    "Batches have a different leader epoch than leader-epoch-checkpoint gives for their offsets.",
    "The broker trusts the checkpoint: after a change of leader, replicas may truncate to a wrong "
    "offset and diverge.",
    "If another replica is in sync, move this partition directory out of the log directory: the "
    "broker then fetches the whole partition from the leader. Otherwise, while the broker is "
    "stopped, kdump reindex writes the file from the leader epochs of the batches.",
    check=23,
    cure=Cure.EPOCHS,
)
EPOCHS_MISSING: Final = FindingCode(
    "epochs-missing",
    Severity.WARNING,
    "The leader-epoch-checkpoint lacks leader epochs that batches have.",
    "A follower whose last leader epoch is missing here may truncate more of its log than "
    "necessary. Recovery adds the epochs above the last epoch in the file.",
    "While the broker is stopped, kdump reindex adds the leader epochs of the batches.",
    check=23,
    cure=Cure.EPOCHS,
)

_NO_EPOCH: Final = -1
_MAGIC: Final = 2


@frozen
class _Run:
    """A run of batches under one leader epoch; ``number`` is the index of its segment."""

    number: int
    survey: Survey
    span: EpochRun


def check_epoch_falls(evidence: Evidence) -> Iterator[Finding]:
    """Check the leader epochs of batches among themselves (23)."""
    replay = evidence.replay
    if replay is None:
        return
    falls = [(before, after) for before, after in pairwise(_runs(replay)) if _falls(before, after)]
    for _, in_segment in groupby(falls, key=lambda pair: pair[1].number):
        pairs = list(in_segment)
        before, after = pairs[0]
        yield Finding(
            LEADER_EPOCH_FALLS,
            after.survey.segment.log,
            position=after.span.first_position,
            offsets=Offsets(after.span.first_offset, after.span.last_offset),
            detail=Detail(
                f"a leader epoch of {before.span.epoch} or more, as at offset "
                f"{before.span.last_offset}",
                str(after.span.epoch),
            ),
            remedy=explain_command(LEADER_EPOCH_FALLS),
            repeats=len(pairs) - 1,
        )


def check_epoch_range(evidence: Evidence) -> Iterator[Finding]:
    """Report leader epochs below 0: -1 means none, and lower values mean nothing (23)."""
    replay = evidence.replay
    if replay is None:
        return
    runs = [
        _Run(number, segment.survey, run)
        for number, segment in enumerate(replay.segments)
        for run in segment.survey.events.epochs()
    ]
    negative = [run for run in runs if run.span.epoch < _NO_EPOCH]
    absent = [
        run
        for run in runs
        # Messages before magic 2 have no epoch.
        if run.span.epoch == _NO_EPOCH and (run.survey.magics or (0, 0))[0] >= _MAGIC
    ]
    for code, expected, runs_found in (
        (LEADER_EPOCH_NEGATIVE, "a leader epoch of -1 or more", negative),
        (LEADER_EPOCH_ABSENT, "a leader epoch, as a follower needs it", absent),
    ):
        for run in runs_found[:1]:
            yield Finding(
                code,
                run.survey.segment.log,
                position=run.span.first_position,
                offsets=Offsets(run.span.first_offset, run.span.last_offset),
                detail=Detail(expected, str(run.span.epoch)),
                remedy=explain_command(code),
                repeats=len(runs_found) - 1,
            )


def check_epoch_checkpoint(evidence: Evidence) -> Iterator[Finding]:
    """Check leader-epoch-checkpoint against the log (22, 23); a missing file has no entries."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    read = facts.epochs or Read(facts.partition.path / LEADER_EPOCH_CHECKPOINT, ())
    if read.value is None or not epochs_rise(read.value):
        return
    entries = read.value
    missing: list[_Run] = []
    wrong: list[_Run] = []
    for run in _comparable_runs(replay, facts, entries):
        is_newer = run.span.epoch > (entries[-1].epoch if entries else -1)
        is_below = not entries or run.span.last_offset < entries[0].start_offset
        if is_below:
            if _is_expected(replay, facts, run):
                missing.append(run)
        elif not _fits(run.span, entries):
            heals = is_newer and facts.recovered(_next_base(replay, run))
            (missing if heals else wrong).append(run)
    for code, runs in ((EPOCHS_MISSING, missing), (EPOCHS_MISMATCH, wrong)):
        if runs:
            span = runs[0].span
            yield Finding(
                code,
                read.path,
                offsets=Offsets(span.first_offset, span.last_offset),
                detail=Detail(
                    f"epoch {span.epoch}, as the batches there have", _describe(span, entries)
                ),
                remedy=explain_command(code),
                repeats=len(runs) - 1,
            )


def _runs(replay: Replay) -> list[_Run]:
    """Return the runs of batches with a leader epoch, as far as no damage hides earlier runs.

    Where the offsets of a segment do not rise, or are not below the next segment, they do not show
    which of them is wrong.
    """
    runs = (
        _Run(number, segment.survey, run)
        for number, segment in enumerate(replay.segments)
        if segment.survey.ordered
        for run in segment.survey.events.epochs()
        if run.epoch >= 0 and replay.certain(run.first_offset, run.last_offset)
    )
    return [run for run in runs if _is_below_next(replay, run)]


def _is_below_next(replay: Replay, run: _Run) -> bool:
    next_base = _next_base(replay, run)
    return next_base is None or run.span.last_offset < next_base


def _falls(before: _Run, after: _Run) -> bool:
    return after.span.epoch < before.span.epoch


def _comparable_runs(
    replay: Replay, facts: PartitionFacts, entries: Sequence[EpochEntry]
) -> Iterator[_Run]:
    """Yield the runs to compare: none beside a fall, none that the checkpoint may not have yet."""
    runs = _runs(replay)
    fallen = {
        id(run)
        for before, after in pairwise(runs)
        if _falls(before, after)
        for run in (before, after)
    }
    newest = entries[-1].epoch if entries else -1
    for run in runs:
        if id(run) in fallen or (not facts.stopped and run.span.epoch > newest):
            continue
        # A broker drops entries below the log start, and moves the first one up to it.
        if run.span.last_offset >= facts.start_offset:
            yield run


def _is_expected(replay: Replay, facts: PartitionFacts, run: _Run) -> bool:
    """Return whether entries should reach back to a run that lies below all of them.

    They need not if later legacy batches may have cleared the cache, or if retention may have
    trimmed it. Recovery by 2.4 to 2.6 drops epoch 0 (KAFKA-10432).
    """
    return (
        facts.in_log_directory
        and facts.settings.compacted is False
        and run.span.epoch > 0
        and all(
            span.epoch >= 0 or span.last_offset < run.span.first_offset
            for segment in replay.segments
            for span in segment.survey.events.epochs()
        )
    )


def _fits(run: EpochRun, entries: Sequence[EpochEntry]) -> bool:
    """Return whether entries give the run's epoch for its offsets, as far as they reach back."""
    starts = [entry.start_offset for entry in entries]
    current = bisect_right(starts, max(run.first_offset, starts[0])) - 1
    next_start = starts[current + 1 : current + 2]
    return entries[current].epoch == run.epoch and (
        not next_start or next_start[0] > run.last_offset
    )


def _next_base(replay: Replay, run: _Run) -> int | None:
    following = replay.segments[run.number + 1 : run.number + 2]
    return following[0].survey.segment.base_offset if following else None


def _describe(run: EpochRun, entries: Sequence[EpochEntry]) -> str:
    descriptions = [
        f"epoch {entry.epoch} from {entry.start_offset}"
        for entry in entries
        if entry.start_offset <= run.last_offset
    ]
    return descriptions[-1] if descriptions else "none"


CHECKS: Final = (check_epoch_falls, check_epoch_range, check_epoch_checkpoint)
