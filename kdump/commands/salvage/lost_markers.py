"""The markers that a salvage writes for transactions without an end.

A broker that recovers the new log replays it and rebuilds the transaction index. So only a marker
in the log itself preserves the fate that the evidence shows. A transaction whose fate is undecided
is committed, so that its records stay readable. It stays open if nothing follows it.

Spec: ``EndTransactionMarker``, ``ProducerStateManager`` (KIP-98); KOD 3.3, 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kdump.audit.checks.transactions import end_lost
from kdump.audit.findings import Finding
from kdump.audit.replay.fates import HIGHEST, Fate, FateEvidence, LostEnd, decide
from kdump.audit.replay.replay import Replay, marks_of
from kdump.audit.survey.survey import Survey
from kdump.commands.salvage.marker import NewMarker
from kdump.commands.salvage.offset_gaps import OffsetGap
from kdump.commands.salvage.selection import PieceSelection
from kdump.commands.salvage.stretches import Left, Why
from kdump.format.batch import Record, encode_marker
from kdump.format.control import encode_end_txn_marker
from kdump.format.kernel import producers as _producers
from kdump.format.snapshot import ProducerEntry
from kdump.storage.walk import Reason
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)


@frozen
class TransactionEnd:
    """A transaction whose marker is missing.

    ``marker`` is the offset of the new marker, None without one. ``served``: whether consumers with
    read_committed get its records, None if they wait for its end.
    """

    end: LostEnd
    marker: int | None
    served: bool | None

    @property
    def lost(self) -> bool:
        """Whether its fate is undecided, or no offset is free for its marker."""
        return self.end.fate is Fate.UNDECIDED or self.marker is None


def replacement_markers(
    selection: PieceSelection,
    missing: Sequence[OffsetGap],
    surveys: Sequence[Survey],
    start: Iterable[ProducerEntry],
    evidence: FateEvidence,
) -> tuple[tuple[LostEnd, ...], tuple[NewMarker, ...]]:
    """Return the transactions of new logs whose marker is missing, and the markers to write.

    ``surveys`` are of the logs with the ``selection``; ``missing`` are its gaps. A transaction gets
    no marker if no missing offset fits.
    """
    # These batches are sound, and are not markers.
    known = [batches for batches in selection.left if batches.why in (Why.REFUSED, Why.WRAPPER)]
    ranges = [part for gap in missing for part in _unknown(gap, known)]
    torn = {
        gap.first
        for gap in missing
        if gap.last is None and gap.left is not None and gap.left.why is Reason.TORN_TAIL
    }
    ends = tuple(
        end
        for end in decide(marks_of(surveys, start), ranges, evidence)
        # The log ends in a torn write, so the transaction may still be running.
        if not (end.fate is Fate.UNDECIDED and end.last is None and end.first in torn)
    )
    used = {*(marker.offset for marker in selection.markers), *evidence.abort_offsets()}
    encoder = _MarkerEncoder(surveys, start)
    markers = []
    # First the markers whose offset is known; for the others only a limit is known.
    for end in sorted(ends, key=lambda end: not end.exact):
        offset = next((at for at in _offsets(end, ranges) if at not in used), None)
        if end.exact:
            offset = end.ended
        if offset is not None:
            used.add(offset)
            markers.append(NewMarker(offset, encoder.marker(end, offset), end))
    return ends, tuple(sorted(markers, key=lambda marker: marker.offset))


def _unknown(gap: OffsetGap, known: Iterable[Left]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a gap that none of the ``known`` batches covers."""
    first, last = gap.first, HIGHEST if gap.last is None else gap.last
    for batches in known:
        if batches.first_offset is None or batches.last_offset is None:
            continue
        if first <= batches.last_offset and batches.first_offset <= last:
            if first < batches.first_offset:
                yield first, batches.first_offset - 1
            first = batches.last_offset + 1
    if first <= last:
        yield first, last


def _offsets(end: LostEnd, missing: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the offsets where the marker of a transaction may have been, the best first."""
    if end.fate is Fate.UNDECIDED and (end.last is None or end.marker == _producers.COMMIT):
        return
    if end.last is None:
        yield from range(end.first, end.ended + 1)
    for first, last in reversed(missing):
        if end.begin < first <= end.first:
            yield from range(min(last, end.ended), first - 1, -1)


class _MarkerEncoder:
    """Encodes markers with the epochs and the timestamp of their transaction."""

    def __init__(self, surveys: Sequence[Survey], start: Iterable[ProducerEntry]) -> None:
        self._runs = [run for survey in surveys for run in survey.events.epochs()]
        self._begins: dict[tuple[int, int], tuple[int, int]] = {}
        self._coordinators: dict[int, list[tuple[int, int]]] = {}
        for entry in start:
            key = entry.producer_id, entry.current_txn_first_offset
            self._begins[key] = entry.producer_epoch, entry.timestamp
            if entry.coordinator_epoch >= 0:
                self._coordinators[entry.producer_id] = [(-1, entry.coordinator_epoch)]
        for survey in surveys:
            rows = survey.events.rows
            for at in range(0, len(rows), _EVENT):
                kind, producer, epoch, offset, _, coordinator, timestamp = rows[at : at + _EVENT]
                if kind == _producers.BEGIN:
                    self._begins[producer, offset] = epoch, timestamp
                elif kind in (_producers.COMMIT, _producers.ABORT):
                    self._coordinators.setdefault(producer, []).append((offset, coordinator))

    def marker(self, end: LostEnd, offset: int) -> bytes:
        epoch, timestamp = self._begins[end.producer, end.begin]
        known = self._coordinators.get(end.producer, [])
        before = [coordinator for at, coordinator in known if at < offset]
        coordinator = before[-1] if before else known[0][1] if known else 0
        epochs = [run for run in self._runs if run.epoch >= 0]
        leaders = [run.epoch for run in epochs if run.first_offset < offset]
        commit = end.fate is not Fate.ABORTED
        key, value = encode_end_txn_marker(commit=commit, coordinator_epoch=coordinator)
        return encode_marker(
            Record(offset, timestamp, key, value, ()),
            # A follower refuses a batch without a leader epoch.
            leader_epoch=max(leaders) if leaders else epochs[0].epoch if epochs else 0,
            producer_id=end.producer,
            producer_epoch=epoch,
        )


def transaction_ends(
    ends: Iterable[LostEnd], markers: Iterable[NewMarker], replayed: Replay
) -> tuple[TransactionEnd, ...]:
    """Return the transactions without a marker in order; ``replayed`` is that of the new logs."""
    offsets = {(marker.end.producer, marker.end.begin): marker.offset for marker in markers}
    opened = {(transaction.producer_id, transaction.first_offset) for transaction in replayed.open}
    aborted = {
        (entry.producer_id, entry.first_offset)
        for segment in replayed.segments
        for entry in segment.aborted
    }
    transactions = []
    for end in sorted(ends, key=lambda end: (end.first, end.begin)):
        key = end.producer, end.begin
        served = None if key in opened else key not in aborted
        transactions.append(TransactionEnd(end, offsets.get(key), served))
    return tuple(transactions)


def findings_of(ends: Iterable[TransactionEnd], replayed: Replay) -> Iterator[Finding]:
    """Yield a finding for each transaction whose end is lost."""
    stable = replayed.open[0].first_offset if replayed.open else replayed.end_offset
    for transaction in ends:
        if not transaction.lost:
            continue
        end = transaction.end
        surveys = [segment.survey for segment in replayed.segments]
        below = [survey for survey in surveys if survey.segment.base_offset <= end.begin]
        text = f"{consequence(transaction)}; the last stable offset is {stable}"
        yield end_lost(below[-1] if below else surveys[0], end, text)


def consequence(transaction: TransactionEnd) -> str:
    """Return a sentence on what consumers with read_committed get of a transaction."""
    if transaction.served is None:
        return "consumers with read_committed stop before its first record"
    get = "get" if transaction.served else "do not get"
    return f"consumers with read_committed {get} its records"
