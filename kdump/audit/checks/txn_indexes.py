"""Checks of transaction indexes against the log.

Spec: ``TransactionIndex``, ``ProducerStateManager.lastStableOffset`` (KIP-98); KOD 7.2, 9 (checks
16 to 18) and 10.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Detail, Finding, Offsets, explaining
from kdump.audit.replay.replay import Replay, Replayed
from kdump.audit.survey.events import Marker
from kdump.format.index import AbortedTxn, TransactionIndex


@dataclass(frozen=True, slots=True)
class _Index:
    """A segment's transaction index beside what a replay says of that segment.

    ``end`` is the offset behind the segment's last. Where the index cannot be read, or is of
    another version than brokers read, neither it nor the segment has anything to compare.
    """

    path: Path
    entries: tuple[AbortedTxn, ...]
    segment: Replayed
    end: int
    is_last: bool


def check_txn_index_files(evidence: Evidence) -> Iterator[Finding]:
    """Judge each transaction index by itself: its length, and the order of its entries (16)."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.doomed:
        return
    for number, segment in enumerate(replay.segments):
        base = segment.survey.segment.base_offset
        read = facts.txn_indexes.get(base)
        if read is not None and read.value is not None:
            found = _file(read.path, read.value, base)
            yield from _healed(found, recovered=_recovered(replay, facts, number))


def check_aborts(evidence: Evidence) -> Iterator[Finding]:
    """Judge transaction indexes against the log: unfounded and missing entries (16, 17)."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.doomed:
        return
    for number, index in enumerate(_indexes(replay, facts)):
        found = [*_unfounded(replay, facts, index), *_missing(replay, facts, index)]
        yield from _healed(found, recovered=_recovered(replay, facts, number))


def check_stable_offsets(evidence: Evidence) -> Iterator[Finding]:
    """Judge the last stable offsets of transaction indexes by what they promise (18).

    A broker that looks for aborted transactions stops at an entry whose last stable offset is not
    below the end of what it serves: none of a later entry may begin below that. One of the same
    producer may, where a follower appended several of its transactions at once.
    """
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.doomed:
        return
    # The largest last stable offset so far, and the largest of any other producer.
    first = second = (-1, -1)
    for number, index in enumerate(_indexes(replay, facts)):
        broken: list[tuple[int, AbortedTxn, int]] = []
        for place, entry in enumerate(index.entries):
            stable, _ = second if first[1] == entry.producer_id else first
            if entry.first_offset < stable:
                broken.append((place, entry, stable))
            elif entry.last_stable_offset > replay.end_offset and not _end_unknown(facts, replay):
                broken.append((place, entry, replay.end_offset))
            mine = entry.last_stable_offset, entry.producer_id
            if mine > first:
                second = first if first[1] != mine[1] else second
                first = mine
            elif mine[1] != first[1]:
                second = max(second, mine)
        if broken:
            place, entry, stable = broken[0]
            finding = _finding(
                codes.TXNINDEX_STABLE_OFFSET,
                index.path,
                place,
                entry,
                Detail(f"transactions decided below {stable}", _describe(entry)),
                len(broken) - 1,
            )
            yield from _healed([finding], recovered=_recovered(replay, facts, number))


def _file(path: Path, index: TransactionIndex, base: int) -> Iterator[Finding]:
    size = index.ENTRY_BYTES
    if index.remainder:
        yield Finding(
            codes.TXNINDEX_LENGTH,
            path,
            position=size * len(index.entries),
            size=len(index.remainder),
            detail=Detail(f"a length that is a multiple of {size}", f"{_bytes(index)} bytes"),
            remedy=explaining(codes.TXNINDEX_LENGTH),
        )
    odd: dict[FindingCode, list[tuple[int, AbortedTxn, str]]] = {}
    last = -1
    for place, entry in enumerate(index.entries):
        if entry.version != 0:
            odd.setdefault(codes.TXNINDEX_VERSION, []).append(
                (place, entry, "an entry of version 0")
            )
            continue
        if entry.last_offset < base:
            what = f"a last offset of {base} or more"
            odd.setdefault(codes.TXNINDEX_BELOW_SEGMENT, []).append((place, entry, what))
        elif entry.last_offset <= last or entry.first_offset > entry.last_offset:
            what = f"a last offset above {last}, and a first offset not above it"
            odd.setdefault(codes.TXNINDEX_ORDER, []).append((place, entry, what))
        last = max(last, entry.last_offset)
    for code, entries in odd.items():
        place, entry, what = entries[0]
        yield _finding(code, path, place, entry, Detail(what, _describe(entry)), len(entries) - 1)


def _unfounded(replay: Replay, facts: PartitionFacts, index: _Index) -> Iterator[Finding]:
    """Entries that name no abort of the segment."""
    if not index.entries:
        return
    base = index.segment.survey.segment.base_offset
    named = {entry.last_offset for entry in index.entries}
    ended = index.segment.survey.events.markers()
    markers = {marker.offset: marker for marker in ended if marker.offset in named}
    bad: list[tuple[int, AbortedTxn, Marker | None]] = []
    for place, entry in enumerate(index.entries):
        offset, marker = entry.last_offset, markers.get(entry.last_offset)
        if offset < base or not replay.certain(offset, offset):
            continue
        if marker is None:
            # The cleaner drops a marker, and leaves its entry, when no data of it is left.
            beyond = offset >= index.end
            if (beyond and index.is_last and _end_unknown(facts, replay)) or not (
                beyond or facts.settings.compacted is False
            ):
                continue
        elif not marker.commit and marker.producer_id == entry.producer_id:
            continue
        bad.append((place, entry, marker))
    if bad:
        place, entry, marker = bad[0]
        found = "none"
        if marker is not None:
            kind = "commit" if marker.commit else "abort"
            found = f"a marker ({kind}) of producer {marker.producer_id}"
        detail = Detail(
            f"a marker at offset {entry.last_offset} that aborts producer {entry.producer_id}",
            found,
        )
        yield _finding(codes.TXNINDEX_UNFOUNDED, index.path, place, entry, detail, len(bad) - 1)


def _missing(replay: Replay, facts: PartitionFacts, index: _Index) -> Iterator[Finding]:
    """Aborted transactions of the segment that its index does not name as they are."""
    entries = {(entry.producer_id, entry.last_offset): entry for entry in index.entries}
    newest = index.entries[-1].last_offset if index.entries else -1
    bad: list[tuple[AbortedTxn, AbortedTxn | None]] = []
    for aborted in index.segment.aborted:
        if index.is_last and not facts.stopped and aborted.last_offset > newest:
            continue
        # Of what lies below the log start a broker replays nothing, and the cleaner keeps no entry.
        if aborted.first_offset < facts.start_offset:
            continue
        if not replay.certain(aborted.first_offset, aborted.last_offset):
            continue
        entry = entries.get((aborted.producer_id, aborted.last_offset))
        if entry is None or entry.first_offset > aborted.first_offset:
            bad.append((aborted, entry))
    if bad:
        aborted, entry = bad[0]
        detail = Detail(
            f"an entry of producer {aborted.producer_id} from {aborted.first_offset} to "
            f"{aborted.last_offset}",
            "none" if entry is None else _describe(entry),
        )
        yield Finding(
            codes.TXNINDEX_MISSING_ENTRY,
            index.path,
            offsets=Offsets(aborted.first_offset, aborted.last_offset),
            detail=detail,
            remedy=explaining(codes.TXNINDEX_MISSING_ENTRY),
            repeats=len(bad) - 1,
        )


def _indexes(replay: Replay, facts: PartitionFacts) -> Iterator[_Index]:
    """The indexes of all segments, also of those that have none, if there is any to be expected."""
    segments: Sequence[Replayed] = replay.segments
    if not facts.txn_indexes and not any(segment.aborted for segment in segments):
        return
    for number, segment in enumerate(segments):
        survey, is_last = segment.survey, number + 1 == len(segments)
        end = replay.end_offset if is_last else segments[number + 1].survey.segment.base_offset
        read = facts.txn_indexes.get(survey.segment.base_offset)
        if read is None:
            path = survey.segment.log.with_suffix(".txnindex")
            yield _Index(path, (), segment, end, is_last)
        elif read.value is None or any(entry.version for entry in read.value.entries):
            yield _Index(read.path, (), replace(segment, aborted=()), end, is_last)
        else:
            yield _Index(read.path, read.value.entries, segment, end, is_last)


def _end_unknown(facts: PartitionFacts, replay: Replay) -> bool:
    """Whether nobody knows the log's end as it was when the small files were read."""
    return not facts.stopped or replay.doubt is not None


def _recovered(replay: Replay, facts: PartitionFacts, number: int) -> bool:
    following = replay.segments[number + 1 : number + 2]
    return facts.recovered(following[0].survey.segment.base_offset if following else None)


def _healed(
    findings: Sequence[Finding] | Iterator[Finding], *, recovered: bool
) -> Iterator[Finding]:
    """The same findings as they are where the next start rebuilds the index anyway."""
    for finding in findings:
        if not recovered or finding.code is codes.TXNINDEX_VERSION:
            yield finding
        else:
            code = codes.TXNINDEX_STALE
            yield replace(finding, code=code, remedy=explaining(code))


def _finding(
    code: FindingCode, path: Path, place: int, entry: AbortedTxn, detail: Detail, repeats: int
) -> Finding:
    return Finding(
        code,
        path,
        position=place * TransactionIndex.ENTRY_BYTES,
        size=TransactionIndex.ENTRY_BYTES,
        offsets=Offsets(entry.first_offset, max(entry.first_offset, entry.last_offset)),
        detail=detail,
        remedy=explaining(code),
        repeats=repeats,
    )


def _describe(entry: AbortedTxn) -> str:
    version = f" of version {entry.version}" if entry.version else ""
    return (
        f"an entry{version} of producer {entry.producer_id} from {entry.first_offset} to "
        f"{entry.last_offset}, stable below {entry.last_stable_offset}"
    )


def _bytes(index: TransactionIndex) -> int:
    return index.ENTRY_BYTES * len(index.entries) + len(index.remainder)
