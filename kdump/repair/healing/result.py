"""Surveys of the healed logs, and what stays damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.index_promises import IndexPass
from kdump.audit.survey.rebuilt_indexes import Rebuild
from kdump.audit.survey.recovery import Recovery
from kdump.audit.survey.survey import LogPass, ReadFailure, Survey
from kdump.errors import Refused
from kdump.repair.healing.draft import Draft, LogPart, PartsSource
from kdump.repair.healing.own_log import OwnSegment
from kdump.repair.transaction.fingerprint import source_digest
from kdump.repair.transaction.plan import Assembly, Piece
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import typed_text
from kdump.storage.walk import Damage, walk
from kdump.values import frozen


@frozen
class HealedLog:
    """The log of a draft: its survey, its SHA-256, and the recipe that makes it."""

    draft: Draft
    survey: Survey
    sha256: str
    recipe: Assembly


@frozen
class LeftOffsets:
    """Offsets that stay missing: ``size`` damaged bytes at ``position`` of the log ``name``.

    ``size`` is 0 where nothing is left of them. ``last`` is None if it is unknown.
    """

    name: str
    position: int
    size: int
    first: int
    last: int | None


def survey_draft(
    draft: Draft, settings: TopicSettings, room: int, report: Callable[[int], None]
) -> HealedLog:
    """Read the log of a changed draft, as ``survey_parts`` does.

    Raises Refused if a batch of a copy is not sound in it, SourceError.
    """
    survey, digest, recipe = survey_parts(draft.segment, draft.parts(), settings, room, report)
    _check_runs(draft)
    return HealedLog(draft, survey, digest, recipe)


def survey_parts(
    segment: Segment,
    parts: Iterable[LogPart],
    settings: TopicSettings,
    room: int,
    report: Callable[[int], None],
) -> tuple[Survey, str, Assembly]:
    """Read the log of ``parts``, with the present indexes of ``segment``.

    Returns its survey, its SHA-256, and the recipe that makes it. Indexes are rebuilt, and held if
    they have at most ``room`` bytes. Raises SourceError.
    """
    indexes = IndexPass(segment, mapped=False, sealed=True)
    recovery = Recovery(segment.base_offset, settings)
    rebuild = Rebuild(segment.base_offset, settings, room=room)
    compacted = settings.compacted
    log = LogPass(segment, report, False, indexes, recovery, rebuild, cleaned=compacted)
    # Digests of the parts before checksums are compared, and of the whole after that: if a copy
    # changes in between, they contradict each other, and apply refuses the plan.
    laid = tuple(parts)
    recipe = Assembly(tuple(_pieces(laid)))
    with PartsSource(segment.log, laid) as source:
        log.read(source)
    with PartsSource(segment.log, laid) as source:
        digest = source_digest(source, 0, source.size)
    unread = tuple(ReadFailure.of(path, error) for path, error in indexes.errors)
    return log.survey(indexes.index, indexes.time_index, unread), digest, recipe


def left_offsets(segments: Sequence[OwnSegment], *, dense: bool) -> Iterator[LeftOffsets]:
    """Yield what stays damaged in a log of these segments, in order.

    ``dense``: offsets that are missing between segments were lost. Zeros at the end of the log are
    the room of a preallocated file.
    """
    next_offset: int | None = None
    for own, following in pairwise([*segments, None]):
        assert own is not None
        name, base = own.segment.log.name, own.base_offset
        if dense and next_offset is not None and next_offset < base:
            yield LeftOffsets(name, 0, 0, next_offset, base - 1)
        position, offset = 0, base
        last: int | None
        for island in own.islands:
            if island.start > position:
                last = island.first.base_offset - 1
                yield LeftOffsets(name, position, island.start - position, offset, last)
            position, offset = island.end, island.last.last_offset + 1
        next_offset = offset
        if position == own.size:
            continue
        next_base = None if following is None else following.base_offset
        if next_base is None and is_room(own, position):
            continue
        last = None if next_base is None else max(next_base - 1, offset - 1)
        yield LeftOffsets(name, position, own.size - position, offset, last)
        next_offset = None


def is_room(own: OwnSegment, position: int) -> bool:
    """Return whether only zeros follow ``position``, as in a preallocated file."""
    with open_source(own.segment.log, mapped=False, sealed=True) as source:
        if source.size != own.size:
            return False
        piece = next(walk(source, own.base_offset, position), None)
    return isinstance(piece, Damage) and piece.empty


def _check_runs(draft: Draft) -> None:
    """Raise Refused unless the walk over a draft finds sound batches in all of its runs."""
    runs = iter(draft.runs)
    run = next(runs, None)
    for start, end in draft.own.damages:
        while run is not None and run.at + run.size <= start:
            run = next(runs, None)
        if run is not None and run.at < end:
            raise Refused(
                f"{run.log}: expected valid batches at position {run.position} to be valid in "
                f"{draft.segment.log.name} too, found corruption at {start}: run the command again"
            )


def _pieces(parts: Iterable[LogPart]) -> Iterator[Piece]:
    for part in parts:
        if part.path is None:
            yield Piece("", part.position, part.size, "", part.content.hex())
        else:
            with PartsSource(part.path, [part]) as source:
                digest = source_digest(source, 0, source.size)
            yield Piece(typed_text(part.path), part.position, part.size, digest)
