"""The stretches that a salvage takes, and what it leaves.

Spec: ``LogSegment.recover``, ``LogSegment.canConvertToRelativeOffset``; KOD 3.6, 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit.survey.compaction import missing_means_lost
from kdump.audit.survey.log_end import first_offset_of
from kdump.commands.salvage.marker import NewMarker
from kdump.commands.salvage.overlap import resolve_overlaps
from kdump.commands.salvage.stretches import (
    Left,
    Opener,
    Piece,
    Stretch,
    Sum,
    Why,
    as_left,
    open_log,
    split,
)
from kdump.errors import SourceError
from kdump.format.batch import MARKER_BYTES, MAX_OFFSET_DELTA, BatchTable, RecordBatch, is_marker
from kdump.format.legacy import is_wrapper
from kdump.storage.logdir import Segment
from kdump.storage.paths import as_local
from kdump.storage.source import Identity, Source
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

#: The first magic whose headers hold all offsets; headers of wrappers do not.
_MAGIC: Final = 2


@frozen
class PieceSelection:
    """The selection from ``segments``: ``pieces`` in the order of logs and positions.

    ``identities`` are those of the files when they were read, None for a file that could not be
    opened. ``errors`` has a sentence for each file that could not be read to its end. ``markers``
    replace missing transaction markers, in the order of offsets. ``opener`` opens the logs.
    """

    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    identities: tuple[Identity | None, ...]
    errors: tuple[str, ...] = ()
    markers: tuple[NewMarker, ...] = ()
    opener: Opener = open_log

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The pieces that are taken."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Stretch))

    @property
    def left(self) -> tuple[Left, ...]:
        """The pieces that are not taken."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Left))


def select_pieces(
    segments: Sequence[Segment],
    *,
    hunted: bool,
    compacted: bool | None,
    starts: Mapping[Path, int] | None = None,
    opener: Opener = open_log,
    is_confirmed: Callable[[RecordBatch], bool] | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> PieceSelection:
    """Read the logs of ``segments``, in the order of base offsets, and select the pieces to take.

    ``hunted``: take batches that a search after damage has found. ``compacted`` is by
    the settings, None if unknown. Missing offsets end a stretch unless it is True; if it is
    unknown, until the gaps of the log show that it may be compacted. ``starts`` has the position
    where the reading of a log begins, if that is not 0. ``opener`` opens the logs.
    ``is_confirmed`` says which batches that a search has found are taken without ``hunted``.
    ``report`` is called with counts of bytes that were read.
    """
    pieces: list[Piece] = []
    identities: list[Identity | None] = []
    errors: list[str] = []
    for number, segment in enumerate(segments):
        start = (starts or {}).get(as_local(segment.log), 0)
        scan = _Scan(
            number,
            segment.base_offset,
            start,
            hunted=hunted,
            compacted=compacted,
            is_confirmed=is_confirmed,
        )
        identity = None
        try:
            with opener(segment) as source:
                identity = source.identity
                scan.read(source, report)
        except SourceError as error:
            errors.append(str(error))
            scan.unread(0 if identity is None else identity.size)
        pieces += scan.pieces
        identities.append(identity)
    resolved = resolve_overlaps(segments, pieces, opener)
    return PieceSelection(
        tuple(segments), tuple(resolved), tuple(identities), tuple(errors), opener=opener
    )


def leave_out(selection: PieceSelection, log: int, positions: Sequence[int]) -> PieceSelection:
    """Return the selection without the batches at ``positions`` of log number ``log``.

    Raises SourceError.
    """
    pieces = list(selection.pieces)
    for position in sorted(positions):
        index = next(
            index
            for index, piece in enumerate(pieces)
            if isinstance(piece, Stretch)
            and piece.log == log
            and piece.start <= position < piece.stop
        )
        stretch = pieces[index]
        assert isinstance(stretch, Stretch)
        segment, opener = selection.segments[log], selection.opener
        before, rest = split(segment, stretch, "position", position - 1, opener)
        assert rest is not None
        batch, after = split(segment, rest, "position", position, opener)
        assert batch is not None
        parts = (before, as_left(batch, Why.REFUSED), after)
        pieces[index : index + 1] = [part for part in parts if part is not None]
    return replace(selection, pieces=tuple(pieces))


class _Scan:
    """The pieces of one log. Each batch is checked by itself and against the batch before it."""

    def __init__(
        self,
        log: int,
        base_offset: int,
        start: int,
        *,
        hunted: bool,
        compacted: bool | None,
        is_confirmed: Callable[[RecordBatch], bool] | None,
    ) -> None:
        self.pieces: list[Piece] = []
        self._log = log
        self._lowest, self._highest = base_offset, base_offset + MAX_OFFSET_DELTA
        self._hunted, self._compacted = hunted, compacted
        self._is_confirmed = is_confirmed
        self._gaps = 0
        self._open = Sum(log)
        self._why: Why | None = None
        self._position = start

    def read(self, source: Source, report: Callable[[int], None]) -> None:
        """Read the pieces of the log. Raises SourceError."""
        for piece in walk(source, self._lowest, self._position):
            before = self._position
            if isinstance(piece, Damage):
                self._close()
                end = piece.position + piece.size
                marker = is_marker(source.window(piece.position, MARKER_BYTES))
                self.pieces.append(
                    Left(self._log, piece.position, end, piece.reason, marker=marker)
                )
                self._position = end
            else:
                self._table(source, piece)
            report(self._position - before)
        self._close()

    def unread(self, size: int) -> None:
        """Add the rest of the log as a piece that cannot be read."""
        self._close()
        stop = max(size, self._position)
        self.pieces.append(Left(self._log, self._position, stop, Why.UNREAD))

    def _table(self, source: Source, table: BatchTable) -> None:
        usual = table.usual
        # Each batch that a search has found is looked for in the copies.
        single = table.hunted and not self._hunted and self._is_confirmed is not None
        row = 0
        while row < len(table):
            batch = table[row]
            # A wrapper's header does not hold its first offset. None: the content does not either.
            first = first_offset_of(source, batch)
            why = self._objection(table, batch, first)
            if first is None:
                first = batch.base_offset
            if why is not self._why or (why is None and self._breaks(batch, first)):
                self._close()
                self._why = why
            stop = row + 1
            whole = usual is not None and usual.last_offset <= self._highest
            if single:
                pass
            elif why is Why.HUNTED or (why is None and whole):
                stop = len(table)
            elif why is None:
                stop = self._end(table, row)
            self._open.add(table, row, stop, first)
            row = stop
            last = table[row - 1]
            self._position = last.position + last.size

    def _objection(self, table: BatchTable, batch: RecordBatch, first: int | None) -> Why | None:
        if table.hunted and not self._hunted:
            confirmed = self._is_confirmed is not None and self._is_confirmed(batch)
            if not confirmed:
                return Why.HUNTED
        if batch.last_offset < batch.base_offset:
            return Why.INVERTED
        if batch.base_offset < self._lowest or batch.last_offset > self._highest:
            return Why.OUT_OF_RANGE
        return Why.WRAPPER if first is None else None

    def _breaks(self, batch: RecordBatch, first: int) -> bool:
        """Return whether a batch whose first record has offset ``first`` begins a new stretch."""
        if not self._open:
            return False
        before = self._open.last_offset
        gap = self._whole and first > before + 1 and not is_wrapper(batch)
        self._gaps += gap
        return gap or first <= before

    @property
    def _whole(self) -> bool:
        """Whether missing offsets end a stretch."""
        return missing_means_lost(self._compacted, gaps=self._gaps, cleaned=False)

    def _end(self, table: BatchTable, row: int) -> int:
        """Return the row after the last of the batches from ``row`` on whose offsets rise.

        Batches of old formats are checked one by one.
        """
        bases, lasts = table.column("base_offset"), table.column("last_offset")
        magics = table.column("magic")
        end, before, whole = row + 1, lasts[row], self._whole
        while end < len(table) and before < bases[end] <= lasts[end] <= self._highest:
            if magics[end] < _MAGIC or (whole and bases[end] != before + 1):
                break
            before = lasts[end]
            end += 1
        return end

    def _close(self) -> None:
        stretch = self._open.stretch()
        if stretch is not None:
            self.pieces.append(stretch if self._why is None else as_left(stretch, self._why))
        self._open = Sum(self._log)
