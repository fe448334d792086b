"""survey(): reads a segment in one pass: damage, offsets, timestamps, events and statistics.

A survey holds facts, and the first few of each kind of irregularity; the checks interpret them. Its
size grows with producers and transactions, not with batches.

Spec: ``LogSegment``, ``DefaultRecordBatch``; KOD 9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.anomalies import (
    OUT_OF_ORDER,
    Fault,
    FaultKind,
    HeaderFaults,
    is_known_codec,
)
from kdump.audit.survey.compaction import Compaction, compaction_evidence, missing_means_lost
from kdump.audit.survey.events import NO_EVENTS, Events, Gathering
from kdump.audit.survey.header_digest import HeaderDigest
from kdump.audit.survey.index_promises import IndexFacts, IndexPass
from kdump.audit.survey.payloads import coordinator_decoder, undecodable_records
from kdump.audit.survey.rebuilt_indexes import Rebuild, RebuiltIndexes
from kdump.audit.survey.recovery import Recovery, RecoveryResult
from kdump.audit.survey.statistics import Measurement, SegmentStatistics
from kdump.errors import CutError, DecodeError, DeniedError, LimitError, SourceError, VanishedError
from kdump.format.batch import HEADER_BYTES, BatchTable, RecordBatch, is_marker
from kdump.format.kernel import headers as _headers
from kdump.format.legacy import is_wrapper
from kdump.format.records import RecordReader, RecordSummary
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment, directory_name
from kdump.storage.mended_header import mended_header
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity, Source
from kdump.storage.throttle import Pace
from kdump.storage.walk import Damage, Reason, WalkedLog, batch_bytes, ends_with_zeros, walk
from kdump.values import frozen

#: The most irregularities of one kind that a survey lists; all are counted.
LISTED: Final = 8

_MAGIC: Final = 2
_REPORT_BYTES: Final = 8 << 20
_DEFAULTS: Final = TopicSettings()
_NO_COUNTS: Final[Counter[Reason | FaultKind]] = Counter()


@frozen
class Gap:
    """A damage, the last offset before it, and the first offset after it (None at the end).

    The times are the largest timestamps of the neighbouring batches, in ms; None without one.
    ``marker``: the damaged header is that of a transaction marker. ``mended`` is the batch that it
    is with the right size and magic, None if more of it is wrong.
    """

    damage: Damage
    offset_before: int
    offset_after: int | None
    time_before_ms: int | None = None
    time_after_ms: int | None = None
    marker: bool = False
    mended: RecordBatch | None = None


@frozen
class ReadFailure:
    """A file that could not be read to its end, with the reason."""

    path: AnyPath
    vanished: bool
    text: str
    denied: bool = False

    @classmethod
    def of(cls, path: AnyPath, error: SourceError) -> ReadFailure:
        """Return the entry for ``error`` at the file ``path``."""
        vanished, denied = isinstance(error, VanishedError), isinstance(error, DeniedError)
        return cls(path, vanished, str(error), denied)


@frozen
class Survey:
    """The result of one pass over a segment.

    ``size`` is the size of the log at open in bytes, ``read_bytes`` how much of it was read,
    ``sound_bytes`` the bytes in sound batches. ``first_offset`` and ``last_offset`` are of the
    first and last sound batch in the file, None without one. ``records`` is the sum of the counts
    in headers, markers included; ``wrappers`` is the number of unread wrappers (magic 0 and 1),
    whose headers have no count. ``counts`` has all damages by reason and all faults by kind, listed
    or not. ``record_timestamp`` is the latest timestamp of batches that hold records, ``magics``
    the lowest and the highest magic; both leave out batches that were found by hunting.
    ``identity`` is the log's identity at open, None if it could not be opened. ``zero_tail`` says
    that the last damage reaches to the end of the log, and ends with zeros. A batch that is being
    written into a preallocated file looks so. ``recovered`` is the effect of recovery on the log,
    None if it was not read from its start to its end; ``rebuilt`` has its rebuilt indexes, and
    ``header_digest`` the 16 bytes of a ``HeaderDigest``, if they were requested. So are the
    ``statistics``. ``read_ms`` is the time in ms of the earlier run that made the survey, None if
    this run did.
    """

    segment: Segment
    deep: bool
    size: int
    read_bytes: int
    sound_bytes: int
    batches: int
    control_batches: int
    records: int
    wrappers: int
    first_offset: int | None
    last_offset: int | None
    last_position: int | None
    max_timestamp: int
    gaps: tuple[Gap, ...]
    faults: tuple[Fault, ...]
    counts: Counter[Reason | FaultKind]
    index: IndexFacts | None
    time_index: IndexFacts | None
    unread: tuple[ReadFailure, ...]
    identity: Identity | None = None
    zero_tail: bool = False
    record_timestamp: int = -1
    magics: tuple[int, int] | None = None
    events: Events = NO_EVENTS
    recovered: RecoveryResult | None = None
    rebuilt: RebuiltIndexes | None = None
    header_digest: bytes | None = None
    statistics: SegmentStatistics | None = None
    read_ms: int | None = None

    @property
    def end_offset(self) -> int:
        """The offset after the last sound batch; the base offset without one."""
        return self.segment.base_offset if self.last_offset is None else self.last_offset + 1

    @property
    def known_end(self) -> int | None:
        """The offset after the last record; None if that is not certain.

        Corruption before the last valid batch does not matter to it.
        """
        uncertain = not self.complete or self._at_end or (self.size and self.last_offset is None)
        return None if uncertain else self.end_offset

    @property
    def written_end(self) -> int | None:
        """As ``known_end``, but a torn write and preallocated room may follow the last record."""
        if not self.complete or not all(gap.damage.is_tail for gap in self._at_end):
            return None
        # Without a batch and without damage, a quick survey found no batch to start from.
        found = self.last_offset is not None or not self.size or self.gaps
        return self.end_offset if found else None

    @property
    def _at_end(self) -> list[Gap]:
        """The damages that follow the last sound batch."""
        return [gap for gap in self.gaps if gap.offset_after is None]

    @property
    def damages(self) -> int:
        """The number of damages, listed or not."""
        return sum(self.counts[reason] for reason in Reason) if self.counts else 0

    @property
    def unwritten(self) -> bool:
        """Whether the log is empty, or holds only the zeros of a preallocated file."""
        room = all(gap.damage.empty for gap in self.gaps)
        return self.complete and self.first_offset is None and room

    @property
    def ordered(self) -> bool:
        """Whether the offsets of the sound batches rise from batch to batch."""
        return not any(self.counts[kind] for kind in OUT_OF_ORDER)

    @property
    def cleaned(self) -> bool:
        """Whether a batch shows compaction: it has too few records, or a delete horizon."""
        return self.counts[FaultKind.MISCOUNTED] > 0 or self.events.horizons.count > 0

    @property
    def counted(self) -> int | None:
        """The number of records in sound batches, None if not all of them could be counted."""
        all_counted = self.complete and self.read_bytes == self.size and not self.wrappers
        return self.records if all_counted else None

    @property
    def jumps(self) -> list[tuple[int, int]]:
        """The listed ranges that the offsets of neighbouring batches leave out: first and last."""
        return [
            (fault.reference + 1, fault.batch.base_offset - 1)
            for fault in self.faults
            if fault.kind is FaultKind.GAP
        ]

    @property
    def missing_at_start(self) -> tuple[int, int] | None:
        """The first and last missing offset between the base offset and the first batch, or None.

        Damage at the start has these offsets itself. The header of a wrapper before magic 2 does
        not say where it begins.
        """
        first, base = self.first_offset, self.segment.base_offset
        if any(gap.offset_before < base for gap in self.gaps):
            return None
        if first is None or first <= base or self.magics is None or self.magics[0] != _MAGIC:
            return None
        return base, first - 1

    @property
    def complete(self) -> bool:
        """Whether the log was read to its end."""
        return all(unread.path != self.segment.log for unread in self.unread)


def compaction_of(surveys: Sequence[Survey], compacted: bool | None) -> Compaction:
    """Return whether the segments of a log show compaction.

    ``compacted`` is as for ``compaction_evidence``.
    """
    gaps, cleaned = traces_of_compaction(surveys)
    return compaction_evidence(compacted, gaps=gaps, cleaned=cleaned)


def effective_compaction(surveys: Sequence[Survey], compacted: bool | None) -> bool | None:
    """Return ``compacted``, but False if it is unknown and nothing in the log shows compaction."""
    gaps, cleaned = traces_of_compaction(surveys)
    return False if missing_means_lost(compacted, gaps=gaps, cleaned=cleaned) else compacted


def traces_of_compaction(surveys: Sequence[Survey]) -> tuple[int, bool]:
    """Return the arguments ``gaps`` and ``cleaned`` of ``compaction_evidence`` for a log."""
    gaps = sum(survey.counts[FaultKind.GAP] for survey in surveys)
    return gaps, any(survey.cleaned for survey in surveys)


def survey(
    segment: Segment,
    report: Callable[[int], None],
    *,
    mapped: bool,
    sealed: bool,
    deep: bool,
    pace: Pace | None = None,
    settings: TopicSettings = _DEFAULTS,
    rebuild_room: int | None = None,
    digest: bool = False,
    statistics: bool = False,
) -> Survey:
    """Read ``segment`` and its indexes once; ``deep`` also reads every record.

    ``mapped``, ``sealed`` and ``pace`` are as for ``open_source``; ``sealed`` also says that the
    segment is not its partition's last, so that its indexes have no room left. ``report`` is called
    with counts of log bytes that were read. Recovery builds indexes by ``settings``, which also say
    whether the cleaner may have compacted the log. With a ``rebuild_room`` the indexes are rebuilt;
    their content is held if it has at most that many bytes. ``digest`` asks for a digest of the
    headers, ``statistics`` for statistics of the batches and of the reading.
    """
    measurement = Measurement() if statistics else None
    # The indexes first: their entries are then not newer than the log, which a broker may extend.
    indexes = IndexPass(segment, mapped=mapped, sealed=sealed, pace=pace)
    unread = [ReadFailure.of(path, error) for path, error in indexes.errors]
    recovery = Recovery(segment.base_offset, settings)
    rebuild = None
    if rebuild_room is not None:
        rebuild = Rebuild(segment.base_offset, settings, room=rebuild_room)
    cleaned = settings.compacted
    log = LogPass(
        segment,
        report,
        deep,
        indexes,
        recovery,
        rebuild,
        cleaned=cleaned,
        digest=digest,
        measurement=measurement,
    )
    try:
        with open_source(segment.log, mapped=mapped, sealed=sealed, pace=pace) as source:
            log.read(source)
    except SourceError as error:
        unread.append(ReadFailure.of(segment.log, error))
    return log.survey(indexes.index, indexes.time_index, tuple(unread))


class LogPass:
    """The running sums of one pass over a segment's log, or over its end."""

    def __init__(
        self,
        segment: Segment,
        report: Callable[[int], None],
        deep: bool,
        indexes: IndexPass | None = None,
        recovery: Recovery | None = None,
        rebuild: Rebuild | None = None,
        *,
        cleaned: bool | None = True,
        digest: bool = False,
        measurement: Measurement | None = None,
    ) -> None:
        self.segment = segment
        self.report = report
        self.indexes = indexes
        self.measurement = measurement
        blocks = None if measurement is None else measurement.sums.blocks
        self.reader = RecordReader(sizes=blocks) if deep else None
        name = directory_name(segment.log.parent)
        self.decoder = None if name is None else coordinator_decoder(name.topic)
        self.gathering = Gathering()
        self.size = self.start = self.position = self.reported = 0
        self.headers = HeaderFaults(segment.base_offset, cleaned=cleaned)
        self.state = self.headers.state
        self.first_offset: int | None = None
        self.last_position: int | None = None
        self.gaps: list[Gap] = []
        self.faults: list[Fault] = []
        self.counts: Counter[Reason | FaultKind] = Counter()
        self.open_gap: Gap | None = None
        self.last_time_ms: int | None = None
        self.identity: Identity | None = None
        self.zero_tail = False
        self.recovery = recovery
        self.recovered: RecoveryResult | None = None
        self.rebuild = rebuild
        self.rebuilt: RebuiltIndexes | None = None
        self.digest = HeaderDigest() if digest else None
        self.header_digest: bytes | None = None

    def read(self, source: Source, start: int = 0) -> None:
        """Walk the log from position ``start``, where a batch begins; raises SourceError."""
        self.size = source.size
        self.identity = source.identity
        self.start = self.position = self.reported = start
        if isinstance(source, WalkedLog) and self.digest is not None:
            # The damage itself is not there to be hashed.
            self.digest, self.header_digest = None, source.header_digest
        self._walk(source)

    def _walk(self, source: Source) -> None:
        for piece in walk(source, self.segment.base_offset, self.start):
            # One pass over the file serves all: each gets every piece, in the order of the file.
            if self.recovery is not None:
                self.recovery.add(piece)
            if self.rebuild is not None:
                self.rebuild.add(piece)
            if self.digest is not None:
                self.digest.add(piece, source)
            if isinstance(piece, Damage):
                self._close_gap()
                self.headers.add_damage()
                marker = is_marker(source.window(piece.position, HEADER_BYTES))
                self.open_gap = Gap(
                    piece,
                    self.headers.previous,
                    None,
                    self.last_time_ms,
                    marker=marker,
                    mended=mended_header(source, piece),
                )
                self.gathering.add_damage()
                if self.indexes is not None:
                    self.indexes.add_damage(piece.position + piece.size)
                self._advance(piece.position + piece.size)
                continue
            if self.open_gap is not None:
                first = piece[0]
                after_ms = _known_time(first.max_timestamp)
                self.open_gap = replace(
                    self.open_gap, offset_after=first.base_offset, time_after_ms=after_ms
                )
                self._close_gap()
            previous = self.headers.previous
            if self.first_offset is None:
                self.first_offset = piece.column("base_offset")[0]
            for fault in self.headers.add(piece):
                self._fault(fault)
            last = len(piece) - 1
            self.last_position = piece.column("position")[last]
            self.last_time_ms = _known_time(piece.column("max_timestamp")[last])
            if self.indexes is not None:
                self.indexes.add(piece)
            self.gathering.add(piece, source)
            if self.measurement is not None:
                self.measurement.sums.add(piece)
            if self.reader is not None:
                self._records(source, piece, self.reader, previous)
                if self.decoder is not None:
                    for fault in undecodable_records(piece, source, self.reader, self.decoder):
                        self._fault(fault)
            self._advance(piece.end)
        # A broker that preallocates leaves zeros after the batch that it was writing.
        if self.open_gap is not None and self.open_gap.damage.size > HEADER_BYTES:
            self.zero_tail = ends_with_zeros(source)
        self._close_gap(at_end=True)
        if self.indexes is not None:
            self.indexes.finish(self.size)
        if self.recovery is not None:
            self.recovered = self.recovery.finish(source)
        if self.rebuild is not None:
            self.rebuilt = self.rebuild.finish()
        if self.digest is not None:
            self.header_digest = self.digest.digest()
        if self.position > self.reported:
            self.report(self.position - self.reported)

    def survey(
        self,
        index: IndexFacts | None,
        time_index: IndexFacts | None,
        unread: tuple[ReadFailure, ...],
    ) -> Survey:
        """Return the survey, with the facts of the indexes and the files that could not be read."""
        state = self.state
        found = state[_headers.T_BATCHES] > 0
        return Survey(
            segment=self.segment,
            deep=self.reader is not None,
            size=self.size,
            read_bytes=self.position - self.start,
            sound_bytes=state[_headers.T_BYTES],
            batches=state[_headers.T_BATCHES],
            control_batches=state[_headers.T_CONTROL],
            records=state[_headers.T_RECORDS],
            wrappers=0 if self.reader else state[_headers.T_WRAPPERS],
            first_offset=self.first_offset,
            last_offset=state[_headers.T_PREVIOUS] if found else None,
            last_position=self.last_position,
            max_timestamp=state[_headers.T_MAX_TIMESTAMP],
            gaps=tuple(self.gaps),
            faults=tuple(self.faults),
            counts=self.counts or _NO_COUNTS,
            index=index,
            time_index=time_index,
            unread=unread,
            identity=self.identity,
            zero_tail=self.zero_tail,
            record_timestamp=-1 if self.indexes is None else self.indexes.record_timestamp,
            magics=None if self.indexes is None else self.indexes.magics,
            events=self.gathering.events(),
            recovered=self.recovered,
            rebuilt=self.rebuilt,
            header_digest=self.header_digest,
            statistics=None if self.measurement is None else self.measurement.finish(),
        )

    def _advance(self, position: int) -> None:
        self.position = position
        if position - self.reported >= _REPORT_BYTES:
            self.report(position - self.reported)
            self.reported = position

    def _close_gap(self, *, at_end: bool = False) -> None:
        if self.open_gap is None:
            return
        gap, self.open_gap = self.open_gap, None
        self.counts[gap.damage.reason] += 1
        # Damage at the end is always listed: it decides whether the end of the log is known.
        if at_end or self.counts[gap.damage.reason] <= LISTED:
            self.gaps.append(gap)

    def _records(
        self, source: Source, table: BatchTable, reader: RecordReader, previous: int
    ) -> None:
        row = reader.skip_matching(table, 0, source.window(table.position))
        while row < len(table):
            if row:
                previous = table[row - 1].last_offset
            self._records_of(source, table[row], reader, previous)
            row = reader.skip_matching(table, row + 1, source.window(table.position))

    def _records_of(
        self, source: Source, batch: RecordBatch, reader: RecordReader, previous: int
    ) -> None:
        """Check the records of one batch; ``previous`` is the last offset before it."""
        try:
            summary = reader.summary(batch, batch_bytes(source, batch))
        except CutError as error:
            self._fault(Fault(FaultKind.CUT, batch, text=str(error)))
        except DecodeError as error:
            if is_known_codec(batch):  # else the codec is the fault
                self._fault(Fault(FaultKind.UNREADABLE, batch, text=str(error)))
        except LimitError as error:
            self._fault(Fault(FaultKind.LIMIT, batch, text=str(error)))
        else:
            if is_wrapper(batch):
                self._wrapper(batch, summary, previous)
            beyond = summary.last_offset - batch.last_offset
            if is_wrapper(batch) and batch.magic == 0:
                beyond = abs(beyond)  # its offset is that of the last message inside
            if summary.odd_nulls:
                self._fault(Fault(FaultKind.NULLS, batch, summary.odd_nulls))
            if summary.disorder or beyond > 0:
                self._fault(Fault(FaultKind.DISORDER, batch, summary.last_offset))
            if summary.count and summary.max_timestamp > batch.max_timestamp:
                self._fault(Fault(FaultKind.LATE, batch, summary.max_timestamp))
        self._advance(batch.position + batch.size)

    def _wrapper(self, batch: RecordBatch, summary: RecordSummary, previous: int) -> None:
        """Add the messages of a wrapper and its first offset, which its header does not have."""
        self.state[_headers.T_RECORDS] += summary.count
        if self.measurement is not None:
            self.measurement.sums.wrapped[batch.codec_id] += summary.count
        first = summary.first_offset
        if first is not None and first <= previous < batch.base_offset:
            spanning = replace(batch, base_offset=first)
            self._fault(Fault(FaultKind.BACKWARDS, spanning, previous))

    def _fault(self, fault: Fault) -> None:
        self.counts[fault.kind] += 1
        if self.counts[fault.kind] <= LISTED:
            self.faults.append(fault)


def _known_time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms
