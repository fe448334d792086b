"""The healed logs of a partition: stretches first, then ends and missing segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from kdump.copies.lineage import EpochSpan
from kdump.errors import SourceError
from kdump.format.batch import MAX_OFFSET_DELTA, RecordBatch
from kdump.format.checkpoint import EpochEntry
from kdump.repair.heal.alignment import End, Run, align
from kdump.repair.heal.chain import Chain, follow
from kdump.repair.heal.copies import PartitionCopy
from kdump.repair.heal.draft import Draft, new_draft, uncovered
from kdump.repair.heal.lineage import AllowedBatches, parting
from kdump.repair.heal.own_log import OwnSegment
from kdump.repair.heal.reading import Place, place_after, place_of_segment
from kdump.storage.logdir import MAX_LOG_BYTES, Partition, Segment
from kdump.storage.names import FileKind, format_file_name
from kdump.values import frozen

_MAGIC: Final = 2
#: How many batches after a damage are compared with a copy: those before them may lie in a value.
_ENDS: Final = 64
_COMPANIONS: Final = (
    FileKind.INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.SNAPSHOT,
)


@frozen
class OwnLineage:
    """The leader epochs of the log under repair.

    ``entries`` are those of its checkpoint, also those that begin at its ``end`` or behind it.
    ``spans`` are the epochs of its batches.
    """

    entries: tuple[EpochEntry, ...]
    spans: tuple[EpochSpan, ...]
    end: int

    @property
    def latest(self) -> int:
        """The last leader epoch, -1 without any."""
        known = [entry.epoch for entry in self.entries]
        return max([*known, *(span.epoch for span in self.spans)], default=-1)


@frozen
class Healing:
    """What copies give for a log. ``notes`` are about copies that could give nothing."""

    drafts: tuple[Draft, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)


class Healer:
    """Heals the log of ``partition`` from ``copies``, the first of them that has a stretch.

    ``dense``: the log was never compacted, so that missing offsets are lost.
    """

    def __init__(
        self,
        partition: Partition,
        copies: Sequence[PartitionCopy],
        lineage: OwnLineage,
        *,
        dense: bool,
    ) -> None:
        self._partition, self._copies, self._lineage = partition, copies, lineage
        self._dense = dense
        self._notes: dict[str, None] = {}

    def heal(self, segments: Sequence[OwnSegment]) -> Healing:
        """Return the healed logs. Raises SourceError if the log itself cannot be read."""
        most = max(
            [
                *(segment.size for segment in segments),
                *(copy.largest for copy in self._copies),
            ]
        )
        drafts: list[Draft] = []
        for number, own in enumerate(segments):
            following = segments[number + 1] if number + 1 < len(segments) else None
            before = drafts[-1].own.last if drafts else None
            draft = self._fill_stretches(Draft(own, own.size, own.size), before, following)
            drafts += self._fill_end(draft, before, following, min(most, MAX_LOG_BYTES))
        return Healing(tuple(drafts), tuple(self._notes))

    # --- stretches of the same size

    def _fill_stretches(
        self, draft: Draft, before: RecordBatch | None, following: OwnSegment | None
    ) -> Draft:
        own = draft.own
        ends = [End(island.start, island.first) for island in own.islands]
        if following is not None and following.first is not None:
            ends.append(End(own.size, following.first))
        runs: list[Run] = []
        number = 0 if own.first is None else 1
        while number < len(ends):
            start = own.islands[number - 1].end if number else 0
            last = own.islands[number - 1].last if number else None
            if start == ends[number].position:
                break
            found, index = self._fill_stretch(
                own, start, last, before, ends[number : number + _ENDS]
            )
            runs += found
            number += 1 if index is None else index + 1
        return draft.with_runs(runs, own.size) if runs else draft

    def _fill_stretch(
        self,
        own: OwnSegment,
        start: int,
        last: RecordBatch | None,
        before: RecordBatch | None,
        ends: Sequence[End],
    ) -> tuple[list[Run], int | None]:
        """Return the runs of a stretch, and the index of the batch behind it in ``ends``."""
        found: list[tuple[int, list[Run]]] = []
        for copy in self._copies:
            try:
                aligned = self._align(copy, own, start, last, before, ends)
            except SourceError as error:
                self._note_unread(copy, error)
                continue
            if aligned is not None:
                found.append(aligned)
        if not found:
            return [], None
        nearest = min(index for index, _ in found)
        runs: list[Run] = []
        for index, candidates in found:
            for run in candidates if index == nearest else ():
                runs += list(uncovered(run, runs))
                runs.sort(key=lambda each: each.at)
        return runs, nearest

    def _align(
        self,
        copy: PartitionCopy,
        own: OwnSegment,
        start: int,
        last: RecordBatch | None,
        before: RecordBatch | None,
        ends: Sequence[End],
    ) -> tuple[int, list[Run]] | None:
        place = self._place(copy, own, last, before)
        if place is None:
            return None
        previous = last or before
        magic = ends[0].batch.magic if previous is None else previous.magic
        allowed = AllowedBatches(
            self._lineage.entries,
            lowest=-1 if previous is None else previous.leader_epoch,
            highest=None,
            limit=copy.limit,
            dense=self._dense and magic >= _MAGIC,
            next_offset=own.base_offset if last is None else last.last_offset + 1,
        )
        aligned = align(copy, place, start, ends, allowed)
        if aligned is None:
            return None
        index, runs = aligned
        highest = ends[index].batch.leader_epoch
        if any(run.last.leader_epoch > highest for run in runs):
            return None
        return index, runs

    def _place(
        self,
        copy: PartitionCopy,
        own: OwnSegment,
        last: RecordBatch | None,
        before: RecordBatch | None,
    ) -> Place | None:
        """Return the place in a copy of a stretch behind ``last``, or at the start of the log."""
        if last is not None:
            return place_after(copy, last)
        place = place_of_segment(copy, own.base_offset)
        if place is None and before is not None and before.last_offset + 1 == own.base_offset:
            place = place_after(copy, before)
        return place

    # --- ends of logs and missing segments

    def _fill_end(
        self,
        draft: Draft,
        before: RecordBatch | None,
        following: OwnSegment | None,
        most: int,
    ) -> Iterator[Draft]:
        """Yield the draft with the batches that follow it, and new logs behind it."""
        own = draft.own
        last = own.last or before
        stop = None if following is None else following.base_offset
        if (
            not self._dense
            or last is None
            or last.last_offset + 1 != own.end_offset
            or (bool(own.islands) and own.islands[-1].hunted)
            or (stop is not None and own.end_offset >= stop)
        ):
            yield draft
            return
        behind = None if following is None else following.first
        chain = self._follow(last, stop, behind)
        rest = list(chain.runs)
        if not rest:
            yield draft
            return
        taken = list(self._runs_of_log(own, rest, most))
        del rest[: len(taken)]
        yield self._extend(draft, taken, keep_rest=not (rest or chain.complete))
        while rest:
            runs = list(_runs_of_new_log(rest, most))
            del rest[: len(runs)]
            yield new_draft(self._new_segment(runs[0].first_offset), runs)

    def _follow(self, last: RecordBatch, stop: int | None, behind: RecordBatch | None) -> Chain:
        def allowed(copy: PartitionCopy, epoch: int, offset: int) -> AllowedBatches | None:
            highest = None if behind is None else behind.leader_epoch
            if stop is None:
                parted = parting(self._lineage.spans, self._lineage.end, copy)
                if parted is not None:
                    self._note(
                        f"{copy.path} is of another lineage from offset {parted} on: nothing is "
                        "taken from it behind the log"
                    )
                    return None
                if not copy.epochs:
                    highest = max(epoch, self._lineage.latest)
            return AllowedBatches(
                self._lineage.entries,
                lowest=epoch,
                highest=highest,
                limit=copy.limit,
                dense=True,
                next_offset=offset,
            )

        return follow(self._copies, last, stop, behind, allowed, self._note_unread)

    def _runs_of_log(self, own: OwnSegment, runs: Sequence[Run], most: int) -> Iterator[Run]:
        """Yield the first runs that belong into an existing log."""
        size, whole = own.sound_end, own.sound_end == own.size
        for number, run in enumerate(runs):
            fits = size + run.size <= most and run.last.last_offset - own.base_offset <= (
                MAX_OFFSET_DELTA
            )
            if number == 0:
                # In a whole log nothing shows that it has gone on, but the copy's own segment.
                goes_on = not own.islands or run.position > 0
                goes_on = goes_on and (not whole or run.segment == own.base_offset)
            else:
                goes_on = run.position > 0
            if not (fits and goes_on):
                return
            yield run
            size += run.size

    def _extend(self, draft: Draft, runs: Sequence[Run], *, keep_rest: bool) -> Draft:
        """Return the draft with ``runs`` behind its last sound batch.

        ``keep_rest``: damaged bytes behind them stay.
        """
        own = draft.own
        added = sum(run.size for run in runs)
        size = own.sound_end + added
        laid = [_moved(run, own.sound_end) for run in runs]
        return draft.with_runs(laid, max(size, own.size) if keep_rest else size)

    def _new_segment(self, base_offset: int) -> Segment:
        """Return the segment of a new log, with the files that are left of an old one."""
        names = {entry.name.name: entry.path for entry in self._partition.entries}
        index, times, aborts, snapshot = (
            names.get(format_file_name(kind, base_offset)) for kind in _COMPANIONS
        )
        log = self._partition.path / format_file_name(FileKind.LOG, base_offset)
        return Segment(base_offset, log, index, times, aborts, snapshot, "")

    # --- notes

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _note_unread(self, copy: PartitionCopy, error: SourceError) -> None:
        self._note(f"{copy.path} could not be read: {error}")


def _runs_of_new_log(runs: Sequence[Run], most: int) -> Iterator[Run]:
    """Yield the first runs that belong into one new log: a copy's segment begins another one."""
    size = 0
    for number, run in enumerate(runs):
        if number and (run.position == 0 or size + run.size > most):
            return
        yield run
        size += run.size


def _moved(run: Run, start: int) -> Run:
    return replace(run, at=start + run.at)
