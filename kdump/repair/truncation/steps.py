"""The order of the steps of a cut.

Until the log has its new end, a start recovers the log to the same end. While the log is shorter
than its index says, the index is missing.

Spec: ``UnifiedLog.truncateTo``, ``LogManager.checkpointLogs``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.replay import Replay
from kdump.audit.survey.survey import Survey
from kdump.format.batch import HEADER_BYTES
from kdump.format.checkpoint import encode_epochs
from kdump.format.index import AbortedTxn, TransactionIndex
from kdump.format.snapshot import encode_snapshot
from kdump.repair.content.epochs import epochs_after
from kdump.repair.content.producers import can_precede
from kdump.repair.transaction.fingerprint import source_digest, tail_digest
from kdump.repair.transaction.plan import (
    Cut,
    Line,
    Prefix,
    Put,
    PutMarker,
    Remove,
    Stamp,
    Step,
    TakeMarker,
)
from kdump.repair.truncation.cut_point import CutPoint
from kdump.repair.truncation.remaining_log import RemainingLog
from kdump.storage.access import open_source
from kdump.storage.names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    format_file_name,
)
from kdump.storage.source import status_of


class CutSteps:
    """The steps of a cut at ``cut_point``.

    ``surveys`` are of all segments, ``files`` are the files in the directory. ``known``: all
    producers are known, so that a snapshot after the cut can be written.
    """

    def __init__(
        self,
        facts: PartitionFacts,
        surveys: tuple[Survey, ...],
        cut_point: CutPoint,
        after: RemainingLog,
        files: Mapping[str, Stamp],
        *,
        known: bool,
    ) -> None:
        self._facts = facts
        self._cut = surveys[cut_point.number]
        self._later = [survey.segment for survey in surveys[cut_point.number + 1 :]]
        self._cut_point = cut_point
        self._after = after
        self._files = files
        self._known = known

    def steps(self) -> Iterator[Step]:
        """Yield all steps. Raises SourceError."""
        if self._facts.clean:
            yield TakeMarker()
        facts, after = self._facts, self._after
        yield from recovery_point_step(facts, after.base)
        yield from self._removals()
        if self._after.indexes is not None:
            yield from self._last_segment(self._after.indexes)
        if self._known:
            yield from end_snapshot(facts, after.replay, self._files)
        yield from end_steps(facts, after.surveys, after.end, self._files)
        if self._facts.clean:
            yield PutMarker()

    def _removals(self) -> Iterator[Step]:
        """Yield the removals of later segments, their snapshots, and snapshots after the end."""
        for segment in reversed(self._later):
            # The log first: a broker removes the other files of a segment without a log.
            for path in (segment.log, segment.index, segment.time_index, segment.txn_index):
                if path is not None:
                    yield Remove(path.name)
        later, end = {segment.base_offset for segment in self._later}, self._after.end
        for offset in sorted(self._facts.snapshots, reverse=True):
            if offset > end or (offset in later and offset < end):
                yield Remove(self._facts.snapshots[offset].path.name)

    def _last_segment(self, indexes: tuple[bytes, bytes]) -> Iterator[Step]:
        """Yield the steps for the log that is cut and its indexes."""
        names = self._name(FileKind.INDEX), self._name(FileKind.TIME_INDEX)
        yield from (Remove(name) for name in names if name in self._files)
        yield self._shorten()
        for name, content in zip(names, indexes, strict=True):
            yield Put.of(name, content, replaces=False)
        yield from self._transactions()

    def _shorten(self) -> Cut | Put:
        log, size = self._cut.segment.log, self._cut_point.position
        with open_source(log, mapped=False, sealed=True) as source:
            if status_of(log).st_nlink > 1:
                # A cut would also cut the file under its other names.
                digest, mtime_ns = source_digest(source, 0, size), self._files[log.name].mtime_ns
                return Put(log.name, size, digest, True, Prefix(size), mtime_ns=mtime_ns)
            header, last = b"", self._after.surveys[-1].last_position
            if last is not None:
                header = bytes(source.window(last, HEADER_BYTES)[: min(HEADER_BYTES, size - last)])
            return Cut(log.name, size, tail_digest(source, size), header.hex())

    def _transactions(self) -> Iterator[Step]:
        name, found = self._name(FileKind.TXN_INDEX), self._facts.txn_indexes.get(self._after.base)
        exists, current = name in self._files, None if found is None else found.value
        aborted = self._after.replay.segments[-1].aborted
        if not (self._known and self._after.ends_known) and current is not None:
            # The entries are in the order of their ends; those before the cut stay correct. One of
            # which the log has neither a batch nor the marker would hide what its producer wrote
            # later: only the marker ends that for consumers.
            within = takewhile(lambda entry: entry.last_offset < self._after.end, current.entries)
            aborted = tuple(entry for entry in within if not self._is_left_out(entry))
        content = TransactionIndex(tuple(aborted)).encode()
        if (content or exists) and (current is None or current.encode() != content):
            yield Put.of(name, content, replaces=exists)

    def _is_left_out(self, entry: AbortedTxn) -> bool:
        """Return whether all offsets of a transaction lie where those of the log jump."""
        return any(
            first <= entry.first_offset and entry.last_offset <= last
            for first, last in self._after.surveys[-1].jumps
        )

    def _name(self, kind: FileKind) -> str:
        return format_file_name(kind, self._after.base)


def end_steps(
    facts: PartitionFacts, surveys: Sequence[Survey], end: int, files: Mapping[str, Stamp]
) -> Iterator[Step]:
    """Yield the steps for leader epochs and checkpoint lines of a log that ends at ``end``.

    ``surveys`` are of its segments, ``files`` are the files in the directory.
    """
    log_start, base = facts.log_start or 0, surveys[-1].segment.base_offset
    read = facts.epochs
    entries = () if read is None else read.value
    if entries is not None and all(entry.epoch >= 0 <= entry.start_offset for entry in entries):
        first = surveys[0].segment.base_offset
        new_entries = epochs_after(entries, surveys, max(log_start, first), end)
        if new_entries is not None:
            name = LEADER_EPOCH_CHECKPOINT
            yield Put.of(name, encode_epochs(new_entries), replaces=name in files)
    yield from _line(facts, HIGH_WATERMARK_CHECKPOINT, facts.high_watermark, end)
    yield from _line(facts, LOG_START_CHECKPOINT, facts.log_start, end)
    yield from _line(facts, CLEANER_CHECKPOINT, facts.cleaner_offset, base)


def end_snapshot(
    facts: PartitionFacts, after: Replay, files: Mapping[str, Stamp]
) -> Iterator[Step]:
    """Yield a snapshot of the producers at the end of ``after``, unless a valid one has them.

    All producers before the log of ``after`` must be known.
    """
    end = after.end_offset
    found = facts.snapshots.get(end)
    if found is not None and found.value is not None and can_precede(found.value, end):
        return
    if end <= (facts.log_start or 0):
        return
    *_, (_, state) = after.states()
    name = format_file_name(FileKind.SNAPSHOT, end)
    yield Put.of(name, encode_snapshot(state.values()), replaces=name in files)


def recovery_point_step(facts: PartitionFacts, base: int) -> Iterator[Step]:
    """Yield the step that lowers the recovery point to ``base``, if it is higher."""
    yield from _line(facts, RECOVERY_POINT_CHECKPOINT, facts.recovery_point, base)


def _line(facts: PartitionFacts, checkpoint: str, offset: int | None, most: int) -> Iterator[Step]:
    if offset is not None and offset > most and has_lines(facts):
        yield Line(checkpoint, offset, most)


def has_lines(facts: PartitionFacts) -> bool:
    """Return whether the checkpoint lines of this topic and partition belong to this directory.

    They do not if a broker has renamed the directory to delete it or to set it aside. Then another
    directory may have the name.
    """
    name = facts.partition.name
    return facts.in_log_directory and name is not None and name.suffix in ("", "future")
