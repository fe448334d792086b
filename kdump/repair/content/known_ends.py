"""Surveys of a damaged log with the transaction ends that are known.

If a repair does not rewrite a log, its lost markers stay lost. A replay of these surveys has the
state that a broker had before the damage.

Spec: ``ProducerStateManager`` (KIP-98); KOD 7.3.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.fates import HIGHEST, Fate, LostEnd
from kdump.audit.replay.replay import lost_ends, shows_all_missing
from kdump.audit.survey.survey import Survey
from kdump.format.kernel import producers as _producers
from kdump.format.snapshot import ProducerEntry
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)
_OFFSET: Final = _producers.EVENT_FIELDS.index("offset")
_POSITION: Final = _producers.EVENT_FIELDS.index("position")


@frozen
class KnownEnds:
    """``surveys`` with the known transaction ends; below ``known_below`` all ends are known.

    ``undecided`` are the transactions whose fate nothing shows. Transactions that end above
    ``unknown_from`` may be others than a replay of ``surveys`` has, because an end is missing.
    """

    surveys: tuple[Survey, ...]
    known_below: int
    undecided: tuple[LostEnd, ...]
    unknown_from: int


def known_ends(
    surveys: Sequence[Survey],
    start: Iterable[ProducerEntry],
    facts: PartitionFacts,
    *,
    cut_at: int = HIGHEST,
) -> KnownEnds:
    """Return ``surveys`` with the ends that the evidence decides.

    ``start`` are the producers before the first survey. From offset ``cut_at`` on, the log is cut
    off.
    """
    ends = lost_ends(surveys, start, facts, cut_at=cut_at)
    bases = [survey.segment.base_offset for survey in surveys]
    # Where offsets jump without damage, events do not show the transaction that begins behind: an
    # end there would end that one too.
    jumps = [first for survey in surveys for first, _ in survey.jumps]
    over_jumps = {
        end
        for end in ends
        if any(end.first <= jump <= (HIGHEST if end.last is None else end.last) for jump in jumps)
    }
    added: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for end in ends:
        if end.fate is not Fate.UNDECIDED and end not in over_jumps:
            offset = end.ended if end.exact else end.first
            kind = _producers.ABORT if end.fate is Fate.ABORTED else _producers.COMMIT
            number = max(bisect_right(bases, offset) - 1, 0)
            position = _position(surveys[number], offset)
            row = kind, end.producer, _epoch(surveys, end), offset, position, -1, -1
            added[number].append(row)
    with_ends = tuple(_with_rows(survey, added[number]) for number, survey in enumerate(surveys))
    undecided = tuple(end for end in ends if end.fate is Fate.UNDECIDED)
    unknown = [end.first for end in undecided]
    overlooked = [] if shows_all_missing(surveys) else [surveys[0].segment.base_offset]
    known_below = min([*overlooked, *unknown, *jumps], default=HIGHEST)
    unknown += (end.first for end in over_jumps)
    return KnownEnds(with_ends, known_below, undecided, min(unknown, default=HIGHEST))


def _with_rows(survey: Survey, added: Sequence[tuple[int, ...]]) -> Survey:
    if not added:
        return survey
    rows = survey.events.rows
    known = [tuple(rows[at : at + _EVENT]) for at in range(0, len(rows), _EVENT)]
    together = sorted((*known, *added), key=lambda row: (row[_POSITION], row[_OFFSET]))
    flat = array("q", (number for row in together for number in row))
    return replace(survey, events=replace(survey.events, rows=flat))


def _position(survey: Survey, offset: int) -> int:
    """Return the position where a missing batch of that offset belongs."""
    before = [gap.damage.position for gap in survey.gaps if gap.offset_before < offset]
    return before[-1] if before else survey.size


def _epoch(surveys: Sequence[Survey], end: LostEnd) -> int:
    for survey in surveys:
        rows = survey.events.rows
        for at in range(0, len(rows), _EVENT):
            kind, producer, epoch, offset = rows[at : at + 4]
            if kind == _producers.BEGIN and (producer, offset) == (end.producer, end.begin):
                return epoch
    return -1
