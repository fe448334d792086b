"""The loader's work on one partition, step by step, on facts alone, with the reason why each
segment is recovered.

The steps follow those of the loader, in order: swaps, opening, recovery, the end of the log,
producer state. A step that stops the broker raises ``StartFailure``.

Spec: ``LogLoader.load``, ``LocalLog.splitOverflowedSegment``, ``UnifiedLog``; KOD 5.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.startup.open_log import OpenLog, nothing_from
from kdump.audit.startup.outcome import (
    Cause,
    Effect,
    LogCut,
    LogFacts,
    Outcome,
    RecoveryReason,
    RejectedBatch,
    Release,
    StartFailure,
)
from kdump.audit.startup.snapshot_reload import SnapshotError, Snapshots
from kdump.audit.startup.swaps import misnamed_file, pending_swaps, resolve_swaps
from kdump.audit.startup.unread_tail import tail_records
from kdump.audit.survey.recovery import Records, RecoveryEnding, RecoveryResult, Span
from kdump.errors import DeniedError, SourceError
from kdump.format.checkpoint import CheckpointNumberError
from kdump.format.index import OffsetIndex, TimeIndex, TransactionIndex
from kdump.format.properties import FatalMetadataError
from kdump.storage.logdir import MAX_LOG_BYTES, Segment, is_metadata_log
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.paths import AnyPath

#: What to do where recovery has more index entries than an index has room for.
_MORE_ROOM: Final = "Raise log.index.size.max.bytes, or segment.index.bytes where the topic has it"


class _SplitError(Exception):
    """A segment was split during recovery: the step starts again."""


class Loader:
    """The loader of one partition; ``load()`` runs it once, and the fields hold its effects.

    ``segments`` are the base offsets of the remaining segments, ``deleted`` of deleted ones.
    ``split`` are those of segments that became two or more, ``recovered`` those of segments that
    recovery reads, with the reason. ``replaced`` are files. ``exact`` is False if the result
    depends on data that was not read; ``unread`` are the segments that would have to be. Of
    ``read_bytes``, ``reread_bytes`` are read once more: a segment without an index is recovered
    again if it was not flushed, and one without a producer snapshot after it is replayed.
    """

    def __init__(
        self,
        facts: PartitionFacts,
        logs: Iterable[LogFacts],
        violations: Iterable[RejectedBatch],
        release: Release,
    ) -> None:
        self.exact = True
        self.log_start_offset = 0
        self.log_end_offset: int | None = None
        self.cuts: list[LogCut] = []
        self.deleted: list[int] = []
        self.recovered: dict[int, RecoveryReason] = {}
        self.split: list[int] = []
        self.replaced: tuple[AnyPath, ...] = ()
        self.read_bytes = self.reread_bytes = self.deleted_bytes = 0
        self.unread: set[int] = set()
        self.lost = Records()
        self._read: set[AnyPath] = set()
        self._facts, self._release = facts, release
        self._log_start = facts.log_start or 0
        self._violations: dict[int, list[RejectedBatch]] = defaultdict(list)
        for violation in sorted(violations, key=lambda violation: violation.position):
            self._violations[violation.base_offset].append(violation)
        self._logs: dict[int, OpenLog] = {}
        self._bases: list[int] = []  # of the logs, ascending
        self._found: dict[int, OpenLog] = {}
        self._order: list[int] = []  # the bases of what was found, ascending
        self._known = {log.segment.log: log for log in logs}
        self._misnamed = facts.misnamed
        self._snapshots = Snapshots({})

    @property
    def segments(self) -> tuple[int, ...]:
        """The base offsets of the open segments."""
        return tuple(self._bases)

    @property
    def snapshots(self) -> frozenset[int]:
        """The offsets of the existing producer snapshots."""
        return self._snapshots.offsets

    def load(self) -> None:
        """Run the loader. Raises StartFailure; the fields then hold the effects up to there."""
        try:
            self._load()
        except SnapshotError as error:
            path = self._facts.partition.path
            raise StartFailure(Cause(Outcome.OFFLINE, str(error), path)) from error

    def _load(self) -> None:
        facts = self._facts
        self._read_epochs()
        # The broker's first three passes over the directory: temporary files go; segments go that
        # a finished cleaning or split replaces; its .swap files get their names.
        self._resolve_swaps()
        # The fourth pass opens the segments. One whose offsets do not fit into an index, as older
        # cleaners wrote it (KAFKA-6264), is split, and the pass begins again.
        self._repeat_after_splits(self._open)
        name = facts.partition.name
        if name is not None and name.suffix == "delete":
            # The broker opens it only to delete it: its cuts do not count as loss.
            self.lost = Records()
            self._check_read(facts.metadata)
            return
        # After a clean shutdown nothing needs recovery but what the fourth pass has recovered.
        if not facts.clean:
            self._repeat_after_splits(self._recover_unflushed)
        self._find_end()
        if self.log_end_offset is not None:
            self._resize_indexes()
            self._snapshots.remove_stray(self._bases)
            self._rebuild(self.log_start_offset, self.log_end_offset, clean=facts.clean)
            self._check_open_transactions()
        # The broker reads it last; its content decides even if the end of the log was not read.
        self._check_read(facts.metadata)

    # --- files

    def _check_read(self, read: Read[Any] | None) -> None:
        """Raise StartFailure if a small file cannot be read."""
        if read is None or read.error is None:
            return
        if isinstance(read.error, DeniedError):  # the broker may have other rights
            self.exact = False
            return
        number = isinstance(read.error, CheckpointNumberError | FatalMetadataError)
        outcome = Outcome.REFUSES if number else Outcome.OFFLINE
        raise StartFailure(Cause(outcome, str(read.error), read.path))

    def _read_epochs(self) -> None:
        read = self._facts.epochs
        self._check_read(read)
        if read is not None and read.value is not None:
            for entry in read.value:
                if entry.epoch < 0 or entry.start_offset < 0:
                    raise self._refusal("an epoch or start offset below 0", read.path)

    def _resolve_swaps(self) -> None:
        partition = self._facts.partition
        self._change(partition.transient or partition.orphans)
        entry = misnamed_file(partition)
        if entry is not None:
            raise self._refusal("its name does not begin with an offset", entry.path)
        resolved = resolve_swaps(partition, self._end_of_swap)
        self.replaced = resolved.replaced
        readable = {offset: read.error is None for offset, read in self._facts.snapshots.items()}
        self._snapshots = Snapshots(
            {offset: readable.get(offset, True) for offset in resolved.snapshots},
            {offset for offset, kind in self._misnamed if kind is FileKind.SNAPSHOT},
            writable=not self._facts.unwritable,
        )
        swapped = {segment.log for segment in pending_swaps(partition)}
        for segment in resolved.segments:
            known = self._known.get(segment.log)
            if known is None:
                self.exact = False
                known = LogFacts(segment, 0)
            # The search for its end has created an index for a swap without one.
            index_sound = segment.index is not None or segment.log in swapped
            base = segment.base_offset
            index_sound |= (base, FileKind.INDEX) in self._misnamed  # it exists all the same
            self._found[base] = OpenLog(base, known, known.recovered, index_sound)

    def _end_of_swap(self, segment: Segment) -> int:
        known = self._known.get(segment.log)
        if known is None or known.end is None:
            self.exact = False
            return segment.base_offset
        end = self._by_release(known.end.next_offset, known.end.searched_offset)
        if end is None:
            raise self._refusal("its end cannot be found", segment.log)
        return end

    def _open(self) -> None:
        """Open all segments, and recover those without a sound index."""
        self._logs.clear()
        self._bases.clear()
        self._order = sorted(self._found)
        for base in self._order:
            log = self._found[base]
            if log.facts.size > MAX_LOG_BYTES:
                raise self._refusal("more bytes than a segment may have", log.path)
            self._change(log.lacks_index)
            reason = None if log.index_sound else RecoveryReason.INDEX_MISSING
            if reason is None and self._is_transaction_index_bad(base):
                reason = RecoveryReason.TRANSACTION_INDEX_CORRUPT
            if reason is not None:
                self._recover(log, reason)
                log.index_sound = True
                if log.result is not None and log.result.ending is RecoveryEnding.EMPTIED:
                    raise self._refusal("index entries that do not rise", log.path)
            self._add(log)

    def _add(self, log: OpenLog) -> None:
        if log.base not in self._logs:
            insort(self._bases, log.base)
        self._logs[log.base] = log

    def _is_transaction_index_bad(self, base: int) -> bool:
        read: Read[TransactionIndex] | None = self._facts.txn_indexes.get(base)
        log = self._found[base]
        if read is None or log.recovered or log.path.suffix != ".log":
            return False
        if isinstance(read.error, DeniedError):
            self.exact = False
        elif isinstance(read.error, SourceError):
            raise StartFailure(Cause(Outcome.OFFLINE, str(read.error), read.path))
        for entry in () if read.value is None else read.value.entries:
            # Up to 4.3 a broker takes the first of two bytes for the version; it may be negative.
            unknown = entry.version if self._release is Release.V4_4 else entry.version >> 8 > 0
            if unknown:
                raise self._refusal("an entry of an unknown version", read.path)
            if entry.last_offset < base:
                return True
        return False

    def _change(self, changes: object) -> None:
        """Raise SnapshotError if the start ``changes`` names in a directory where it may not."""
        if changes and self._facts.unwritable:
            raise SnapshotError

    def _open_indexes(self, log: OpenLog, *, times: bool = True) -> None:
        """Raise StartFailure if an index is no file; it is opened when it is needed."""
        for kind in (FileKind.INDEX, FileKind.TIME_INDEX)[: 1 + times]:
            entry = self._misnamed.get((log.file_base, kind))
            if entry is not None:
                text = f"expected a file, found {entry.type.value}"
                raise StartFailure(Cause(Outcome.OFFLINE, text, entry.path))

    # --- recovery

    def _repeat_after_splits(self, step: Callable[[], None]) -> None:
        while True:
            try:
                return step()
            except _SplitError:
                continue

    def _recover_unflushed(self) -> None:
        point = self._facts.recovery_point or 0
        bases = self.segments
        # A segment is recovered as a whole: the one with the recovery point from its base on.
        floor = max((base for base in bases if base <= point), default=point)
        unflushed = [base for base in bases if base >= floor]
        reason = RecoveryReason.PAST_RECOVERY_POINT
        if is_metadata_log(self._facts.partition):
            reason = RecoveryReason.METADATA_LOG
        elif self._facts.recovery_point is None:
            reason = RecoveryReason.NO_RECOVERY_POINT
        # The first segment that recovery cuts ends the log: what follows it would leave a hole.
        for number, base in enumerate(unflushed):
            log = self._logs[base]
            try:
                cut = self._recover(log, reason)
            except SnapshotError:
                if self._release is Release.V3_9:
                    raise
                cut = self._empty(log)
            if cut:
                self._change(unflushed[number + 1 :])
                self._delete(unflushed[number + 1 :])
                return

    def _recover(self, log: OpenLog, reason: RecoveryReason) -> bool:
        """Recover one segment and return whether recovery cuts it."""
        # Recovery checks the batches against the producers before them, so that their state is
        # built first; that may read earlier segments.
        self._rebuild(self._log_start, log.base, clean=False)
        self._open_indexes(log)
        self._count_read(log)
        self.recovered.setdefault(log.base, reason)
        result = log.result
        if result is None:
            self._miss(log)
            log.recovered = True
            following = bisect_right(self._order, log.base)
            if following < len(self._order):  # as if it were whole: no more is read than that
                self._snapshots.map_end = self._order[following]
                self._snapshots.take()
            return False
        cut = False
        if not log.recovered:
            self._apply_ending(log, result)
            log.recovered = True
            cut = result.valid_bytes < result.size
            if cut:
                self._cut(log, result)
            if result.ending is RecoveryEnding.EMPTIED:
                return cut
        if not result.legacy and result.valid_bytes:
            # A batch whose record is invalid remains, but the producer state ends before it.
            invalid = [
                violation.offset
                for violation in self._violations_in(log, result)
                if violation.effect is Effect.CUTS
            ]
            self._snapshots.map_end = min([result.next_offset, *invalid])
        self._snapshots.take()
        return cut

    def _empty(self, log: OpenLog) -> bool:
        """Truncate a segment whose recovery failed to nothing, and return whether it had bytes.

        Brokers from 4.0 on do so after any I/O error (``LogLoader.recoverLog``).
        """
        size = log.facts.size
        self._count_deleted(log)
        self.cuts = [cut for cut in self.cuts if cut.segment != log.base]
        if size:
            self.cuts.append(LogCut(log.base, 0, log.base, size))
        log.empty()
        return size > 0

    def _apply_ending(self, log: OpenLog, result: RecoveryResult) -> None:
        """Raise StartFailure if recovery stops the broker, and split the segment if it splits."""
        for violation in self._violations_in(log, result):
            if violation.effect is not Effect.CUTS:
                raise self._refusal(violation.text, log.path, violation.position)
        stop = result.position + result.valid_bytes
        match result.ending:
            case RecoveryEnding.OVERFLOW:
                raise self._refusal("an offset out of the segment's range", log.path, stop)
            case RecoveryEnding.FULL:
                text = "more index entries than there is room for"
                raise self._refusal(text, log.path, stop, advice=_MORE_ROOM)
            case RecoveryEnding.SPLIT:
                self._split(log, result)

    def _violations_in(self, log: OpenLog, result: RecoveryResult) -> Iterator[RejectedBatch]:
        """Yield the violations that recovery reads in a segment."""
        stop = result.position + result.passed_bytes
        for violation in self._violations.get(log.file_base, ()):
            if result.position <= violation.position < stop:
                yield violation

    def _split(self, log: OpenLog, result: RecoveryResult) -> None:
        first, parts = result.valid_records.first_offset, []
        if result.rest is not None:
            parts.append(result.rest)
        if first is not None:
            first_part = replace(result, base_offset=first, ending=RecoveryEnding.WHOLE, rest=None)
            parts.insert(0, first_part)
        self.split.append(log.base)
        del self._found[log.base]
        if self._logs.pop(log.base, None) is not None:
            self._bases.remove(log.base)
        self._snapshots.remove([log.base])
        for part in parts:
            facts = LogFacts(log.facts.segment, part.size, part)
            part_log = OpenLog(part.base_offset, facts, part, index_sound=True)
            self._found[part_log.base] = part_log
            self._add(part_log)
        raise _SplitError

    def _cut(self, log: OpenLog, result: RecoveryResult) -> None:
        position, size = result.position + result.valid_bytes, result.size - result.valid_bytes
        self.cuts.append(LogCut(log.base, position, result.next_offset, size))
        self.deleted_bytes += size
        self.lost += result.later_records + self._tail_records(log, result)

    def _tail_records(self, log: OpenLog, result: RecoveryResult) -> Records:
        """Return the unreadable records at the end of a log."""
        if result.tail is None:
            return Records()
        following = min((base for base in self._found if base > log.base), default=None)
        return Records(Span(), tail_records(result.tail, following, self._facts))

    def _delete(self, bases: Sequence[int]) -> None:
        deleted = set(bases)
        self._bases = [base for base in self._bases if base not in deleted]
        self._snapshots.remove(bases)
        for base in bases:
            self.deleted.append(base)
            self._count_deleted(self._logs.pop(base))

    def _count_deleted(self, log: OpenLog) -> None:
        """Count the bytes and records of a segment that is deleted."""
        if log.result is None:
            self._miss(log)
            self.deleted_bytes += log.facts.size
            return
        self.lost += Records(log.result.valid_records)
        self.deleted_bytes += log.result.valid_bytes
        if not log.recovered:
            self.deleted_bytes += log.facts.size - log.result.valid_bytes
            self.lost += log.result.later_records + self._tail_records(log, log.result)

    # --- the end

    def _find_end(self) -> None:
        if self._logs:
            last = self._logs[self._bases[-1]]
            self._open_indexes(last)
            self.log_end_offset = self._next_offset(last)
            if self.log_end_offset is None:
                self.exact = False
            elif self.log_end_offset < self._log_start:
                self._delete(self.segments)
                self._snapshots = Snapshots({})
            else:
                self._count_hidden(last, self.log_end_offset)
        if not self._logs:
            end = self.log_end_offset = self._log_start
            for first, final in self._facts.remote_offsets:
                # No broker serves an offset at or past the log end offset.
                self.lost += Records(Span(final + 1 - first, first, final))
            path = self._facts.partition.path / format_file_name(FileKind.LOG, end)
            facts = LogFacts(Segment(end, path, None, None, None, None, ""), 0)
            self._add(OpenLog(end, facts, nothing_from(end), index_sound=True, recovered=True))
        self.log_start_offset = self._log_start
        if not self._facts.settings.remote_storage:  # remote storage may hold earlier segments
            self.log_start_offset = max(self._log_start, self._bases[0])

    def _resize_indexes(self) -> None:
        log = self._logs[self._bases[-1]]
        room = self._facts.settings.segment_index_bytes
        slots = (OffsetIndex.ENTRY_BYTES, TimeIndex.ENTRY_BYTES)
        for slot, size in zip(slots, log.facts.index_sizes, strict=True):
            if not log.recovered and size // slot > room // slot:
                text = "more entries than segment.index.bytes has room for"
                raise self._refusal(text, log.path, advice=_MORE_ROOM)

    def _next_offset(self, log: OpenLog) -> int | None:
        """Return the log end offset by its last segment, None if its end was not read."""
        result = log.result
        if log.recovered and result is not None:
            searched = None if result.tail_unreadable else result.searched_offset
            end = self._by_release(result.next_offset, searched)
        elif not log.recovered and log.facts.end is not None:
            end = self._by_release(log.facts.end.next_offset, log.facts.end.searched_offset)
        else:
            return None
        if end is None:
            raise self._refusal("its end cannot be found", log.path)
        return end

    def _count_hidden(self, log: OpenLog, end: int) -> None:
        """Count the records that stay in the file, past the log end offset, as lost."""
        if log.result is None:
            return
        sound = log.result.valid_records if log.recovered else log.result.sound
        if sound.last_offset is None or sound.last_offset < end:
            return
        count = sound.count if end == log.base else min(sound.count, sound.last_offset + 1 - end)
        self.lost += Records(replace(sound, count=count, first_offset=end))

    def _rebuild(self, log_start: int, last_offset: int, *, clean: bool) -> None:
        replayed = self._snapshots.rebuild(self._bases, log_start, last_offset, clean=clean)
        for base, start in replayed:
            log = self._logs[base]
            self._open_indexes(log, times=False)
            self._count_read(log)
            if log.result is None:
                self._miss(log)
            for violation in self._violations.get(log.file_base, ()):
                is_replayed = start <= violation.offset < last_offset
                if is_replayed and violation.effect is not Effect.STOPS_RECOVERY:
                    raise self._refusal(violation.text, log.path, violation.position)
            if not log.recovered and log.result is not None and log.result.breaks:
                raise self._refusal("a size that no batch has, in what is replayed", log.path)
            last = base == self._bases[-1] and last_offset > base
            if self._release is not Release.V3_9 and not log.wrappers_readable(to_end=last):
                raise self._refusal("a wrapper that cannot be read", log.path)

    def _count_read(self, log: OpenLog) -> None:
        self.read_bytes += log.facts.size
        if log.path in self._read:
            self.reread_bytes += log.facts.size
        self._read.add(log.path)

    def _miss(self, log: OpenLog) -> None:
        """Note that the result depends on a segment that was not read."""
        self.exact = False
        self.unread.add(log.file_base)

    def _check_open_transactions(self) -> None:
        for log in self._logs.values():
            found = log.facts.unstable
            newer = self._release is not Release.V3_9
            if found is None or log.recovered:
                continue
            self._open_indexes(log, times=False)
            if found.by_base_stops if newer else found.stops:
                raise self._refusal("the way to an open transaction's first batch", log.path)

    def _by_release(self, next_offset: int | None, searched_offset: int | None) -> int | None:
        return next_offset if self._release is Release.V3_9 else searched_offset

    def _refusal(
        self, text: str, path: AnyPath, position: int | None = None, *, advice: str | None = None
    ) -> StartFailure:
        return StartFailure(Cause(Outcome.REFUSES, text, path, position, advice))
