"""Copy: one copy of a partition, as far as comparisons and elections see it.

It is small and can travel: segments are digests and offsets, not batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final, NamedTuple

from kdump.audit.checks.batches import (
    BATCH_BELOW_SEGMENT,
    OFFSETS_NOT_INCREASING,
    SEGMENTS_OVERLAP,
)
from kdump.audit.checks.epochs import LEADER_EPOCH_FALLS, LEADER_EPOCH_NEGATIVE
from kdump.audit.checks.segments import (
    FIRST_SEGMENT_MISSING,
    LOG_START_UNEXPLAINED,
)
from kdump.audit.facts.remote_storage import OffsetRanges
from kdump.audit.finding_code import Severity
from kdump.audit.startup.outcome import Outcome
from kdump.audit.survey.compaction import Compaction
from kdump.audit.survey.survey import Survey, compaction_of, effective_compaction
from kdump.audit.verdicts.next_start import next_start
from kdump.audit.verdicts.verdict import Verdict
from kdump.copies.lineage import LeaderEpochs
from kdump.errors import SourceError
from kdump.format.checkpoint import EpochEntry
from kdump.storage.access import open_source
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import Pace
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

#: Why offsets of a log that was never compacted are in no batch, where no damage says so.
OFFSETS_MISSING: Final = "offsets-missing"
SEGMENT_MISSING: Final = "segment-missing"
_REMOVED: Final = (OFFSETS_MISSING, SEGMENT_MISSING)
#: The log ends below its high watermark or its recovery point: records are gone from its end.
END_MISSING: Final = "end-missing"
#: The log begins after its first leader epoch, and no deletion by a broker explains that.
START_MISSING: Final = "start-missing"
#: The same where a deletion may explain it: another copy that begins earlier decides.
START_UNEXPLAINED: Final = "start-unexplained"
_STARTS: Final = {
    FIRST_SEGMENT_MISSING: START_MISSING,
    LOG_START_UNEXPLAINED: START_UNEXPLAINED,
}
#: The findings on base offsets and leader epochs, which no checksum covers.
_DISORDERED: Final = frozenset(
    {
        BATCH_BELOW_SEGMENT,
        LEADER_EPOCH_FALLS,
        LEADER_EPOCH_NEGATIVE,
        OFFSETS_NOT_INCREASING,
        SEGMENTS_OVERLAP,
    }
)
#: The most damages of one segment that are listed one by one.
MOST_LISTED: Final = 10_000


class OffsetRange(NamedTuple):
    """Offsets from ``first`` up to ``end``, exclusive."""

    first: int
    end: int

    def share(self, base: int, last: int, count: int) -> int:
        """Return how many of the ``count`` records of a batch are at these offsets, at most."""
        inside = min(last + 1, self.end) - max(base, self.first)
        return max(min(count, inside), 0)


@frozen
class LostOffsets:
    """Offsets that a copy had and cannot give any more, and the place in its log.

    ``position`` and ``size`` are in bytes of the log at ``path``, ``size`` is 0 where nothing is
    left of the batches. ``end`` is exclusive; None if no sound batch follows. ``reason`` is that of
    the damage, or one of ``OFFSETS_MISSING``, ``SEGMENT_MISSING`` and ``END_MISSING``,
    ``START_MISSING`` and ``START_UNEXPLAINED``.
    """

    path: AnyPath
    position: int
    size: int
    first: int
    end: int | None
    reason: str


@frozen
class SegmentExtent:
    """A segment of a copy: its batches from ``first`` up to ``end``, exclusive, and their digest.

    ``digest`` is a ``HeaderDigest``; None if the log was not read to its end. ``first`` is None
    without batches.
    """

    log: AnyPath
    base_offset: int
    first: int | None
    end: int
    batches: int
    records: int
    size: int
    digest: bytes | None


@frozen
class Copy:
    """A copy of the partition ``topic``-``partition`` at ``path``, as typed.

    node_id         The node of its log directory; None if it is unknown.
    live            Whether a broker may be writing.
    topic_id        The id of ``partition.metadata`` as text, None without one.
    epochs          The leader epochs of what is on disk, from the log start to the offset after the
                    last sound batch.
    started         Those that its broker has after the next start, up to the log end offset then.
    starts          Whether a start loads it, as far as its own files decide that.
    stray           Whether a start then renames its directory to ``-stray``.
    start_loses     Whether the next start removes sound batches.
    high_watermark  That of the checkpoint, None without a line.
    compacted       Whether the cleaner may have removed records.
    cleaner_offset  The offset up to which the cleaner has cleaned, None if that is unknown.
    segments        Its segments, by base offset.
    lost            The offsets that it has lost, in order.
    unread          What could not be read.
    shows_compaction
                    Whether its settings or its batches show that the cleaner compacts it.
    once            The leader epochs of its checkpoint up to the end of what is lost behind the
                    last batch; None if nothing is, or batches contradict the checkpoint.
    remote          Offsets that are in remote storage only, which other brokers of the partition
                    read there too.
    tiered          The leader epochs from the log start on, where older offsets are in remote
                    storage only; ``epochs`` begins at the first segment. None without these.
    disordered      Whether the offsets or the leader epochs of its batches contradict each other,
                    which no checksum covers.
    """

    topic: str
    partition: int
    path: AnyPath
    node_id: int | None
    live: bool
    topic_id: str | None
    epochs: LeaderEpochs
    started: LeaderEpochs
    starts: bool
    stray: bool
    start_loses: bool
    high_watermark: int | None
    compacted: bool
    cleaner_offset: int | None
    segments: tuple[SegmentExtent, ...]
    lost: tuple[LostOffsets, ...] = ()
    unread: tuple[str, ...] = ()
    shows_compaction: bool = False
    once: LeaderEpochs | None = None
    remote: OffsetRanges = ()
    tiered: LeaderEpochs | None = None
    disordered: bool = False

    @property
    def start(self) -> int:
        """The first offset on disk: the log start offset, if no record is in remote storage."""
        return self.epochs.start

    @property
    def log_start(self) -> int:
        """The log start offset."""
        return self.start if self.tiered is None else self.tiered.start

    @property
    def end_offset(self) -> int:
        """The offset after the last sound batch on disk."""
        return self.epochs.end

    @property
    def end(self) -> int:
        """The log end offset after the next start, which may cut sound batches."""
        return self.started.end

    @property
    def unordered(self) -> bool:
        """Whether its batches are not in order, or offsets are missing between them."""
        return self.disordered or any(lost.reason == OFFSETS_MISSING for lost in self.lost)

    @property
    def lineage(self) -> LeaderEpochs:
        """The leader epochs of what it has, and of what is lost at its end, if they are known."""
        return self.once or self.epochs

    @property
    def size(self) -> int:
        """The bytes of its logs."""
        return sum(segment.size for segment in self.segments)

    @property
    def batches(self) -> int:
        """The sound batches of its logs."""
        return sum(segment.batches for segment in self.segments)

    @property
    def records(self) -> int:
        """The records in the headers of its sound batches."""
        return sum(segment.records for segment in self.segments)

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Its order in an unclean election: the last leader epoch, then the log end (KIP-966).

        Of equal copies, the one that begins first: as leader it makes no other delete records.
        """
        latest = self.started.latest
        return self.can_lead, -1 if latest is None else latest, self.end, -self.log_start

    @property
    def can_lead(self) -> bool:
        """Whether its broker has it after the next start."""
        return self.starts and not self.stray

    def as_compacted(self) -> Copy:
        """Return the copy if the cleaner may have removed what is missing between its batches."""
        lost = tuple(lost for lost in self.lost if lost.reason not in _REMOVED)
        return replace(self, compacted=True, lost=lost)

    @property
    def lacks_start(self) -> bool:
        """Whether the start of its log is lost: followers of its broker would lose it too."""
        return any(lost.reason in (START_MISSING, START_UNEXPLAINED) for lost in self.lost)

    def beside(self, others: Iterable[Copy]) -> Copy:
        """Return the copy without an unexplained start, unless one of ``others`` begins earlier."""
        earlier = any(other.start < self.start for other in others)
        kept = tuple(lost for lost in self.lost if earlier or lost.reason != START_UNEXPLAINED)
        return replace(self, lost=kept)

    def sound_ranges(self) -> Iterator[OffsetRange]:
        """Yield the offsets of sound batches on disk from the log start on, in order."""
        first = self.start
        for lost in self.lost:
            if first < min(lost.first, self.end_offset):
                yield OffsetRange(first, min(lost.first, self.end_offset))
            first = self.end_offset if lost.end is None else max(first, lost.end)
        if first < self.end_offset:
            yield OffsetRange(first, self.end_offset)


def copy_of(
    verdict: Verdict, node_ids: Mapping[AnyPath, int | None], pace: Pace | None = None
) -> Copy:
    """Return the copy that a verdict of default depth is on; its surveys have header digests.

    ``node_ids`` are those of log directories. Where damage is read once more, that is done at
    ``pace``.
    """
    target, facts = verdict.target, verdict.facts
    directory = None if target.directory is None else target.directory.directory.path
    name = directory_name(target.path)
    bases = [segment.base_offset for segment in target.segments]
    on_disk = max((survey.end_offset for survey in verdict.surveys), default=0)
    start, end = bases[0] if bases else 0, on_disk
    starts, stray, start_loses = True, False, False
    of_batches = () if verdict.replay is None else verdict.replay.epochs
    known: tuple[EpochEntry, ...] = ()
    recovered: Collection[int] = ()
    if facts is not None:
        start = max(start, facts.start_offset)
        if facts.epochs is not None and facts.epochs.value:
            known = facts.epochs.value
        # A running broker has recovered its log; a stopped one still does, and then its log ends
        # where recovery ends it.
        forecast = next_start(verdict) if target.stopped else None
        if forecast is not None:
            starts = forecast.outcome is Outcome.STARTS
            stray = forecast.set_aside is not None
            start_loses = bool(forecast.lost.sound)
            recovered = forecast.recovered
            if forecast.log_end_offset is not None:
                end = min(end, forecast.log_end_offset)
            if forecast.log_start_offset is not None:
                start = forecast.log_start_offset
    remote = () if facts is None else facts.remote_offsets
    log_start = remote[0][0] if remote else start
    if remote:  # the log begins there, what is on disk with the first segment
        start = max(start, bases[0] if bases else remote[-1][1] + 1)
        on_disk = max(on_disk, start)
    policy = None if facts is None else facts.compacted
    compacted = effective_compaction(verdict.surveys, policy) is not False
    metadata = None if facts is None or facts.metadata is None else facts.metadata.value
    unread = list(_unread(verdict))
    lost: list[LostOffsets] = []
    live = not target.stopped
    try:
        lost.extend(_lost_start(verdict))
        lost.extend(_lost(verdict.surveys, pace, compacted=compacted, live=live))
    except SourceError as error:
        unread.append(str(error))
    reached = 0
    # While a broker is running, its checkpoints may be newer than what was read of its log.
    if facts is not None and not live:
        reached = max(facts.high_watermark or 0, facts.recovery_point or 0)
    if reached > on_disk and all(each.end for each in lost):
        lost.append(LostOffsets(target.path, 0, 0, on_disk, reached, END_MISSING))
    epochs = _epochs_on_disk(known, of_batches, verdict.surveys, start, max(on_disk, start))
    once = None
    # Only the checkpoint knows the epochs of records that are gone from the end. It is believed as
    # far as it agrees with the batches that are left.
    if known and reached > on_disk and epochs == LeaderEpochs.of(known, start, epochs.end):
        once = LeaderEpochs.of(known, start, max(reached, start))
    return Copy(
        topic=target.path.name if name is None else name.topic,
        partition=-1 if name is None else name.partition,
        path=target.path,
        node_id=None if directory is None else node_ids.get(directory),
        live=live,
        topic_id=None if metadata is None else metadata.topic_id,
        epochs=epochs,
        remote=remote,
        tiered=LeaderEpochs.of(known, log_start, max(on_disk, start)) if remote else None,
        started=LeaderEpochs.of(
            _after_start(known, verdict.surveys, recovered), start, max(end, start)
        ),
        starts=starts,
        stray=stray,
        start_loses=start_loses,
        high_watermark=None if facts is None else facts.high_watermark,
        compacted=compacted,
        cleaner_offset=None if facts is None else facts.cleaner_offset,
        segments=tuple(map(_extent, verdict.surveys)),
        lost=tuple(lost),
        unread=tuple(unread),
        shows_compaction=compaction_of(verdict.surveys, policy) is Compaction.SHOWN,
        once=once,
        disordered=any(finding.code in _DISORDERED for finding in verdict.findings),
    )


def _epochs_on_disk(
    known: Sequence[EpochEntry],
    of_batches: Sequence[EpochEntry],
    surveys: Sequence[Survey],
    start: int,
    end: int,
) -> LeaderEpochs:
    """Return the epochs of a log: those of its checkpoint, unless a batch contradicts them."""
    epochs = LeaderEpochs.of(known, start, end)
    for survey in surveys:
        for run in survey.events.epochs():
            first = max(run.first_offset, start)
            if run.epoch >= 0 and first <= run.last_offset < end:
                ends = {epochs.epoch_at(first), epochs.epoch_at(run.last_offset)}
                if ends != {run.epoch}:
                    return LeaderEpochs.of(of_batches, start, end)
    return epochs


def _after_start(
    entries: Sequence[EpochEntry], surveys: Sequence[Survey], recovered: Collection[int]
) -> list[EpochEntry]:
    """Return the entries of a checkpoint, and those that recovery adds from segments it reads.

    A start does not make them from batches of other segments, not even without a checkpoint.
    """
    found = list(entries)
    for survey in surveys:
        if survey.segment.base_offset in recovered:
            for run in survey.events.epochs():
                if run.epoch >= 0 and (not found or run.epoch > found[-1].epoch):
                    found.append(EpochEntry(run.epoch, run.first_offset))
    return found


def _extent(survey: Survey) -> SegmentExtent:
    return SegmentExtent(
        survey.segment.log,
        survey.segment.base_offset,
        survey.first_offset,
        survey.end_offset,
        survey.batches,
        survey.records,
        survey.size,
        survey.header_digest,
    )


def _lost_start(verdict: Verdict) -> Iterator[LostOffsets]:
    """Yield the offsets that are missing before the first segment."""
    for finding in verdict.findings:
        reason, offsets = _STARTS.get(finding.code), finding.offsets
        if reason is not None and offsets is not None and offsets.last is not None:
            path = verdict.target.path
            yield LostOffsets(path, 0, 0, offsets.first, offsets.last + 1, reason)


def _lost(
    surveys: Sequence[Survey], pace: Pace | None, *, compacted: bool, live: bool
) -> Iterator[LostOffsets]:
    """Yield the lost offsets of a log in order; a compacted log has none between sound batches.

    Raises SourceError.
    """
    bases = [survey.segment.base_offset for survey in surveys]
    found: list[LostOffsets] = []
    for survey, next_base in zip_longest(surveys, bases[1:]):
        of_segment = list(_lost_of(survey, next_base, pace, compacted=compacted, live=live))
        found.extend(of_segment)
        reached = survey.end_offset
        if compacted or next_base is None or next_base <= reached:
            continue
        if not any(lost.end in (None, next_base) for lost in of_segment):
            path = surveys[bisect_right(bases, survey.segment.base_offset)].segment.log
            found.append(LostOffsets(path, 0, 0, reached, next_base, SEGMENT_MISSING))
    for lost in sorted(found, key=lambda each: each.first):
        if lost.end is not None:
            yield lost if lost.end >= lost.first else replace(lost, end=lost.first)
            continue
        # Nothing sound follows in its segment: the offsets up to the next one are lost.
        following = bisect_right(bases, lost.first)
        yield replace(lost, end=bases[following]) if following < len(bases) else lost


def _lost_of(
    survey: Survey, next_base: int | None, pace: Pace | None, *, compacted: bool, live: bool
) -> Iterator[LostOffsets]:
    """Yield the lost offsets of a segment; ``end`` is None where nothing sound follows in it."""
    path = survey.segment.log
    room = MOST_LISTED
    for damage, before, after in _damages(survey, pace):
        if damage.empty and next_base is not None and next_base <= survey.end_offset:
            continue
        if next_base is None and damage.may_be_written(live=live):
            continue
        room -= 1
        first = max(before + 1, survey.segment.base_offset)
        end = after if room else None  # the rest of a segment with more is one range
        yield LostOffsets(path, damage.position, damage.size, first, end, damage.reason.value)
        if not room:
            return
    if not compacted:
        at_start = survey.missing_at_start
        for first, final in ([at_start] if at_start else []) + survey.jumps:
            yield LostOffsets(path, 0, 0, first, final + 1, OFFSETS_MISSING)


def _damages(survey: Survey, pace: Pace | None) -> Iterator[tuple[Damage, int, int | None]]:
    """Yield all damages with the last offset before and the first offset after them.

    A survey lists the first few: the log is then read once more. Raises SourceError.
    """
    if survey.damages == len(survey.gaps):
        for gap in survey.gaps:
            yield gap.damage, gap.offset_before, gap.offset_after
        return
    before = survey.segment.base_offset - 1
    damage: Damage | None = None
    with open_source(survey.segment.log, mapped=False, pace=pace) as source:
        for piece in walk(source, survey.segment.base_offset):
            if isinstance(piece, Damage):
                if damage is not None:
                    yield damage, before, None
                damage = piece
                continue
            if damage is not None:
                yield damage, before, piece.column("base_offset")[0]
                damage = None
            before = piece.column("last_offset")[len(piece) - 1]
    if damage is not None:
        yield damage, before, None


def _unread(verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings:
        if finding.code.severity is Severity.INCOMPLETE:
            detail = "" if finding.detail is None else f": {finding.detail}"
            yield f"{finding.path}: {finding.code.name}{detail}"
