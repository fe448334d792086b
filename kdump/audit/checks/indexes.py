"""Checks of index files by themselves: their length, the order of their entries, their padding.

Spec: ``AbstractIndex``, ``OffsetIndex.append``, ``TimeIndex.maybeAppend``; KOD 9, checks 9, 11, 13.
It must never judge what stands in the unused part of a last segment's index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.findings import Detail, Finding, explaining
from kdump.audit.survey import IndexFacts, Survey


@dataclass(frozen=True, slots=True)
class _Kind:
    """The codes of one kind of index, and what must rise in it."""

    length: FindingCode
    order: FindingCode
    padded: FindingCode
    first: str
    second: str


_OFFSET: Final = _Kind(
    codes.INDEX_LENGTH, codes.INDEX_ORDER, codes.INDEX_PADDED, "offset", "position"
)
_TIME: Final = _Kind(
    codes.TIMEINDEX_LENGTH, codes.TIMEINDEX_ORDER, codes.TIMEINDEX_PADDED, "timestamp", "offset"
)


def check_indexes(survey: Survey, *, sealed: bool) -> Iterator[Finding]:
    """Judge the offset and time index of a segment; ``sealed``: it is not its partition's last."""
    for kind, facts in ((_OFFSET, survey.index), (_TIME, survey.time_index)):
        if facts is not None:
            yield from _check(kind, facts, sealed=sealed)


def _check(kind: _Kind, facts: IndexFacts, *, sealed: bool) -> Iterator[Finding]:
    if facts.remainder:
        yield Finding(
            kind.length,
            facts.path,
            position=facts.size - facts.remainder,
            size=facts.remainder,
            detail=Detail(
                f"a length that is a multiple of {facts.entry_bytes}", f"{facts.size} bytes"
            ),
            remedy=explaining(kind.length),
        )
    if facts.first_disorder is not None:
        number, before, entry = facts.first_disorder
        yield Finding(
            kind.order,
            facts.path,
            position=number * facts.entry_bytes,
            size=facts.entry_bytes,
            detail=Detail(
                f"an entry above {kind.first} {before[0]}, {kind.second} {before[1]}",
                f"{kind.first} {entry[0]}, {kind.second} {entry[1]}",
            ),
            remedy=explaining(kind.order),
            repeats=facts.disorder - 1,
        )
    if sealed and facts.padding:
        used = facts.size - facts.remainder - facts.padding * facts.entry_bytes
        yield Finding(
            kind.padded,
            facts.path,
            position=used,
            size=facts.padding * facts.entry_bytes,
            detail=Detail("the end of the file", f"{facts.padding} empty entries"),
            remedy=explaining(kind.padded),
        )
