"""The healed logs of a partition: stretches first, then ends and missing segments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile
from typing import Final, NamedTuple

from kdump.errors import SourceError
from kdump.format.batch import MAX_OFFSET_DELTA, RecordBatch
from kdump.repair.healing.alignment import BatchRun, End, align
from kdump.repair.healing.chain import Follower
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.draft import Draft, new_draft, uncovered
from kdump.repair.healing.lineage import AllowedBatches, OwnLineage, epoch_in, shares_epochs
from kdump.repair.healing.own_log import OwnSegment
from kdump.repair.healing.reading import Place, find, place_of_segment
from kdump.storage.logdir import MAX_LOG_BYTES, Partition, Segment
from kdump.storage.names import FileKind, format_file_name
from kdump.values import frozen

_MAGIC: Final = 2
#: How many batches after a damage are compared with a copy: those before them may lie in a value.
_ENDS: Final = 256
#: How many islands before a damage are looked for in a copy, of which some may be damaged too.
_ANCHORS: Final = 8
_COMPANIONS: Final = (
    FileKind.INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.SNAPSHOT,
)


@frozen
class Healing:
    """What copies give for a log.

    ``notes`` are about lineages, ``unread`` about copies that could not be read.
    """

    drafts: tuple[Draft, ...]
    notes: tuple[str, ...]
    unread: tuple[str, ...]


class Healer:
    """Heals the log of ``partition`` from ``copies``, the first of them that has a stretch.

    ``dense``: the log was never compacted, so that missing offsets are lost. ``over_gaps``: also
    take what copies have behind the log after offsets that none has.
    """

    def __init__(
        self,
        partition: Partition,
        copies: Sequence[PartitionCopy],
        lineage: OwnLineage,
        *,
        dense: bool,
        over_gaps: bool = False,
    ) -> None:
        self._partition, self._copies, self._lineage = partition, copies, lineage
        self._dense, self._over_gaps = dense, over_gaps
        notes = () if lineage.contradiction is None else (lineage.contradiction,)
        self._notes: dict[str, None] = dict.fromkeys(notes)
        self._unread: dict[str, None] = {}

    def heal(self, segments: Sequence[OwnSegment]) -> Healing:
        """Return the healed logs. Raises SourceError if the log itself cannot be read."""
        most = max(
            [
                *(segment.size for segment in segments),
                *(copy.largest for copy in self._copies),
            ]
        )
        most = min(most, MAX_LOG_BYTES)
        drafts = list(self._fill_front(segments, most))
        for number, own in enumerate(segments):
            rest = segments[number + 1 :]
            before = drafts[-1].own if drafts else None
            draft = self._fill_stretches(
                Draft(own, own.size, own.size), before, rest[0] if rest else None
            )
            drafts += self._fill_end(draft, before, rest, most)
        return Healing(tuple(drafts), tuple(self._notes), tuple(self._unread))

    # --- stretches of the same size

    def _fill_stretches(
        self, draft: Draft, before: OwnSegment | None, following: OwnSegment | None
    ) -> Draft:
        """Return the draft with all stretches that lie between two batches of the log."""
        own = draft.own
        ends = _ends(own, following)
        runs: list[BatchRun] = []
        number = 0 if own.first is None else 1
        while number <= len(own.islands):
            start = own.islands[number - 1].end if number else 0
            if start == own.size:
                break
            first = bisect_left(ends, number, key=lambda end: end.island)
            behind = ends[first : first + _ENDS]
            found, island = (
                self._fill_stretch(own, number, before, behind) if behind else ([], None)
            )
            for window in () if island is None else _windows(own, number, island):
                runs += (part for run in found for part in clipped(run, *window))
            number = number + 1 if island is None else island + 1
        return draft.with_runs(runs, own.size) if runs else draft

    def _fill_stretch(
        self,
        own: OwnSegment,
        number: int,
        before: OwnSegment | None,
        ends: Sequence[End],
    ) -> tuple[list[BatchRun], int | None]:
        """Return the runs of the stretch before island ``number``, and the island behind it."""
        found: list[tuple[int, list[BatchRun]]] = []
        for copy in self._copies:
            try:
                aligned = self._align(copy, own, number, before, ends)
            except SourceError as error:
                self._note_unread(copy, error)
                continue
            if aligned is not None:
                found.append(aligned)
        if not found:
            return [], None
        # A copy with the same damage has nothing to take, and may meet the log inside a value.
        useful = [island for island, candidates in found if candidates]
        nearest = min(useful or (island for island, _ in found))
        runs: list[BatchRun] = []
        for island, candidates in found:
            for run in candidates if island == nearest else ():
                runs += list(uncovered(run, runs))
                runs.sort(key=lambda each: each.at)
        return runs, nearest

    def _align(
        self,
        copy: PartitionCopy,
        own: OwnSegment,
        number: int,
        before: OwnSegment | None,
        ends: Sequence[End],
    ) -> tuple[int, list[BatchRun]] | None:
        """Lay the stretch beside a copy, from the nearest batch on that both have."""
        for anchor in _anchors(copy, own, number, before):
            batch, magic = anchor.batch, ends[0].batch.magic
            allowed = AllowedBatches(
                copy,
                self._lineage.entries,
                lowest=-1 if batch is None else batch.leader_epoch,
                highest=None,
                dense=self._dense and magic >= _MAGIC,
                next_offset=own.base_offset if batch is None else batch.last_offset + 1,
            )
            aligned = align(copy, anchor.place, anchor.position, ends, allowed)
            if aligned is None:
                if anchor.sure:
                    break
                continue
            index, runs = aligned
            highest = ends[index].batch.leader_epoch
            if all(run.last.leader_epoch <= highest for run in runs):
                return ends[index].island, runs
        return None

    # --- ends of logs and missing segments

    def _fill_front(self, segments: Sequence[OwnSegment], most: int) -> Iterator[Draft]:
        """Yield logs before the first one, which are lost if the leader epochs begin before it."""
        start = self._lineage.start
        if not self._dense or start is None or start >= segments[0].base_offset:
            return
        rest = list(self._follower(segments).start(start).runs)
        while rest:
            runs = list(_runs_of_new_log(rest, most))
            del rest[: len(runs)]
            yield new_draft(self._new_segment(runs[0].first_offset), runs)

    def _fill_end(
        self,
        draft: Draft,
        before: OwnSegment | None,
        following: Sequence[OwnSegment],
        most: int,
    ) -> Iterator[Draft]:
        """Yield the draft with the batches that follow it, and new logs behind it."""
        own = self._without_doubtful(draft.own)
        last = own.last or (None if before is None else before.last)
        stop = following[0].base_offset if following else None
        end = own.end_offset if last is None else max(own.end_offset, last.last_offset + 1)
        if not self._dense or (stop is not None and end >= stop):
            yield draft
            return
        follower = self._follower(following)
        if last is None:
            found = follower.start(own.base_offset)
        else:
            known = last.last_offset + 1 == own.end_offset
            found = follower.follow(last, known=known)
        rest = list(found.runs)
        if not rest:
            yield draft
            return
        # Batches in doubt may be sound all the same: they stay where no others have their offsets.
        doubtful = _end_of(rest, own.end_offset) < draft.own.end_offset
        taken = list(self._runs_of_log(own, rest, most))
        del rest[: len(taken)]
        if doubtful and rest and rest[0].first_offset < draft.own.end_offset:
            yield draft
            return
        end = taken[-1].last.last_offset + 1 if taken else own.end_offset
        whole = rest[0].first_offset == end if rest else found.complete
        draft = replace(draft, own=own)
        yield self._extend(draft, taken, keep_rest=doubtful or not whole)
        while rest:
            runs = list(_runs_of_new_log(rest, most))
            del rest[: len(runs)]
            yield new_draft(self._new_segment(runs[0].first_offset), runs)

    def _without_doubtful(self, own: OwnSegment) -> OwnSegment:
        """Return a segment without the batches at its end that may lie in a record's value."""
        if not own.islands or not own.islands[-1].hunted or self.is_confirmed(own.islands[-1].last):
            return own
        sure = tuple(takewhile(lambda island: not island.hunted, own.islands))
        return replace(own, islands=sure)

    def is_confirmed(self, batch: RecordBatch) -> bool:
        """Return whether a walk over a copy finds a batch that a search in the log has found."""
        for copy in self._copies:
            try:
                found = find(copy, batch)
            except SourceError as error:
                self._note_unread(copy, error)
                continue
            if found.after is not None and not found.hunted:
                return True
        return False

    def _follower(self, following: Sequence[OwnSegment]) -> Follower:
        """Return what finds the batches before the segments in ``following``."""
        stop = following[0].base_offset if following else None
        behind = following[0].first if following else None
        islands = (island for own in following for island in own.islands if not island.hunted)
        pairs = ((island.first, island.last) for island in islice(islands, _ANCHORS))
        # A copy that has later batches of this log has the history that led to them.
        proofs = list(chain.from_iterable(pairs))

        def proven(copy: PartitionCopy) -> bool:
            has_later = any(find(copy, proof).after is not None for proof in proofs)
            return has_later or self._shares_epochs(copy, stop)

        def allowed(copy: PartitionCopy, batch: RecordBatch | None) -> AllowedBatches | None:
            epoch = -1 if batch is None else batch.leader_epoch
            highest = None if behind is None else behind.leader_epoch
            if stop is None:
                offset = 0 if batch is None else batch.last_offset
                found = epoch_in(copy, offset)
                if batch is None:
                    if not self._shares_epochs(copy, None):
                        return None
                elif found is None:
                    highest = epoch
                elif found != epoch:
                    note = (
                        f"{copy.path} is of another lineage: it has offset {offset} in leader "
                        f"epoch {found}, not {epoch}; heal takes nothing from it after the log end"
                    )
                    self._notes[note] = None
                    return None
            return AllowedBatches(
                copy,
                self._lineage.entries,
                lowest=epoch,
                highest=highest,
                dense=True,
                next_offset=None if batch is None else batch.last_offset + 1,
            )

        return Follower(
            self._copies,
            stop,
            behind,
            proven,
            allowed,
            self._note_unread,
            epochs_known=bool(self._lineage.proof),
            over_gaps=self._over_gaps,
        )

    def _shares_epochs(self, copy: PartitionCopy, stop: int | None) -> bool:
        """Return whether a copy has the leader epochs of the log up to ``stop``, None for all."""
        entries = self._lineage.proof
        if stop is None:
            stop = entries[-1].start_offset + 1 if entries else 0
        return shares_epochs(entries, copy, stop)

    def _runs_of_log(
        self, own: OwnSegment, runs: Sequence[BatchRun], most: int
    ) -> Iterator[BatchRun]:
        """Yield the first runs that belong into an existing log."""
        size, end, whole = own.sound_end, own.end_offset, own.sound_end == own.size
        for number, run in enumerate(runs):
            fits = size + run.size <= most and run.last.last_offset - own.base_offset <= (
                MAX_OFFSET_DELTA
            )
            if run.first_offset != end:
                return
            if number == 0:
                # In a whole log nothing shows that it has gone on, but the copy's own segment.
                goes_on = run.position > 0 and (not whole or run.segment == own.base_offset)
                goes_on = goes_on or not own.islands
            else:
                goes_on = run.position > 0
            if not (fits and goes_on):
                return
            yield run
            size, end = size + run.size, run.last.last_offset + 1

    def _extend(self, draft: Draft, runs: Sequence[BatchRun], *, keep_rest: bool) -> Draft:
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

    def _note_unread(self, copy: PartitionCopy, error: SourceError) -> None:
        self._unread[f"{copy.path} could not be read: {error}"] = None


class _Anchor(NamedTuple):
    """A batch that a copy has too, None for the start of a log.

    The batch behind it is at ``position`` of the log under repair, and at ``place`` in the copy.
    ``sure``: it does not lie inside a record's value.
    """

    position: int
    batch: RecordBatch | None
    place: Place
    sure: bool = True


def _anchors(
    copy: PartitionCopy, own: OwnSegment, number: int, before: OwnSegment | None
) -> Iterator[_Anchor]:
    """Yield the nearest batches before island ``number`` that a copy has, the nearest first."""
    is_other = yield from _anchors_within(copy, own, number)
    if is_other or number > _ANCHORS:
        return
    place = place_of_segment(copy, own.base_offset)
    if place is not None:
        yield _Anchor(0, None, place)
    elif before is not None and (before.size, before.end_offset) == (
        before.sound_end,
        own.base_offset,
    ):
        # In a copy with other borders the batches of the segment before come first.
        for anchor in _anchors_within(copy, before, len(before.islands)):
            yield anchor._replace(position=anchor.position - before.size)


def _anchors_within(
    copy: PartitionCopy, own: OwnSegment, number: int
) -> Generator[_Anchor, None, bool]:
    """Yield the nearest batches of a segment before island ``number`` that a copy has.

    Returns whether it has another batch in the place of one: those before it count no more.
    """
    for island in reversed(own.islands[max(number - _ANCHORS, 0) : number]):
        for batch in reversed(island.samples):
            found = find(copy, batch)
            if found.is_other and not island.hunted:
                return True
            if found.after is not None:
                end = batch.position + batch.size
                yield _Anchor(end, batch, found.after, not island.hunted)
    return False


def _ends(own: OwnSegment, following: OwnSegment | None) -> list[End]:
    """Return the batches that may be behind a damage: the first and the last ones of islands.

    The copy may have some of them damaged.
    """
    ends: list[End] = []
    for number, island in enumerate(own.islands):
        ends += (End(batch.position, batch, number) for batch in island.samples)
    if following is not None and following.first is not None:
        ends.append(End(own.size, following.first, len(own.islands)))
    return ends


def _windows(own: OwnSegment, number: int, island: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of what may be replaced before island ``island``.

    It begins behind the island before ``number``. Batches stay, but those that a search has found.
    """
    start = own.islands[number - 1].end if number else 0
    for each in own.islands[number:island]:
        if not each.hunted:
            yield start, each.start
            start = each.end
    yield start, own.islands[island].start if island < len(own.islands) else own.size


def clipped(run: BatchRun, start: int, stop: int) -> Iterator[BatchRun]:
    """Yield the part of a run from position ``start`` up to ``stop``, if any."""
    at, end = max(run.at, start), min(run.at + run.size, stop)
    if at < end:
        yield replace(run, at=at, size=end - at, position=run.position + at - run.at)


def _end_of(runs: Sequence[BatchRun], offset: int) -> int:
    """Return the offset up to which runs follow each other from ``offset`` on."""
    for run in runs:
        if run.first_offset != offset:
            break
        offset = run.last.last_offset + 1
    return offset


def _runs_of_new_log(runs: Sequence[BatchRun], most: int) -> Iterator[BatchRun]:
    """Yield the first runs that belong into one new log: a copy's segment begins another one."""
    size = end = 0
    for number, run in enumerate(runs):
        if number and (run.first_offset != end or run.position == 0 or size + run.size > most):
            return
        yield run
        size, end = size + run.size, run.last.last_offset + 1


def _moved(run: BatchRun, start: int) -> BatchRun:
    return replace(run, at=start + run.at)
