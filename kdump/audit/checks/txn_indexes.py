"""Checks of transaction indexes against the log.

Spec: ``TransactionIndex``, ``ProducerStateManager.lastStableOffset`` (KIP-98); KOD 7.2, 9 (checks
16 to 18) and 10.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import REINDEX, Cure, FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.replay.replay import Replay, SegmentReplay
from kdump.audit.survey.events import Marker
from kdump.format.index import AbortedTxn, TransactionIndex
from kdump.storage.paths import AnyPath
from kdump.values import frozen

TXNINDEX_LENGTH: Final = FindingCode(
    "txnindex-length",
    Severity.ERROR,
    "The length of a .txnindex file is not a multiple of 34: its last entry is incomplete.",
    "The broker ignores the incomplete entry, but appends after it: every later entry is misread.",
    REINDEX,
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_VERSION: Final = FindingCode(
    "txnindex-version",
    Severity.ERROR,
    "An entry of a .txnindex file has a version other than 0.",
    "A broker of 4.4 does not start. Earlier releases check only the first of the two bytes of the "
    "version.",
    "While the broker is stopped, kdump reindex rebuilds the file. Or, if the segment's .log is "
    "valid, delete its .index and .txnindex while the broker is stopped: the broker rebuilds them "
    "at startup.",
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_BELOW_SEGMENT: Final = FindingCode(
    "txnindex-below-segment",
    Severity.WARNING,
    "An entry of a .txnindex file ends below the base offset in its segment's name.",
    "The broker recovers the segment at startup, which rebuilds its indexes.",
    "Let the broker start, or run kdump reindex first. If anything else is wrong in this "
    "partition, first copy the directory.",
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_ORDER: Final = FindingCode(
    "txnindex-order",
    Severity.ERROR,
    "The entries of a .txnindex file do not rise, or an entry ends before it begins.",
    "The broker trusts the index: consumers with read_committed may receive aborted records or "
    "miss committed records.",
    REINDEX,
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_UNFOUNDED: Final = FindingCode(
    "txnindex-unfounded",
    Severity.ERROR,
    "An entry of a .txnindex file names an abort that is not in the log.",
    "The broker trusts the index: consumers with read_committed drop that producer's records up to "
    "its next abort, including committed records.",
    REINDEX,
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_MISSING_ENTRY: Final = FindingCode(
    "txnindex-missing-entry",
    Severity.ERROR,
    "The log holds an aborted transaction that the .txnindex file does not name, or names only "
    "from a later offset on.",
    "The broker does not detect this: consumers with read_committed receive the aborted records.",
    REINDEX,
    check=17,
    cure=Cure.REINDEX,
)
TXNINDEX_STABLE_OFFSET: Final = FindingCode(
    "txnindex-stable-offset",
    Severity.ERROR,
    "An entry of a .txnindex file has a last stable offset that is too high: another transaction "
    "was open below that offset and was aborted later, or that offset is above the log end "
    "offset.",
    "The broker ends its search for aborted transactions at that entry: consumers with "
    "read_committed may receive aborted records.",
    REINDEX,
    check=18,
    cure=Cure.REINDEX,
)
TXNINDEX_STALE: Final = FindingCode(
    "txnindex-stale",
    Severity.WARNING,
    "A .txnindex file does not match its segment, which the next startup recovers after the "
    "unclean shutdown.",
    "The broker rebuilds the file from the log in recovery.",
    "Let the broker start, or run kdump reindex first.",
    check=17,
    cure=Cure.REINDEX,
)


@frozen
class _Index:
    """A segment's transaction index beside the replay of that segment.

    ``end`` is the offset after the segment's last. If the index cannot be read, or has a version
    that brokers do not read, both ``entries`` and the aborts of ``segment`` are empty.
    """

    path: AnyPath
    entries: tuple[AbortedTxn, ...]
    segment: SegmentReplay
    end: int
    is_last: bool


def check_txn_index_files(evidence: Evidence) -> Iterator[Finding]:
    """Check each transaction index by itself: its length, and the order of its entries (16)."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    for number, segment in enumerate(replay.segments):
        base = segment.survey.segment.base_offset
        read = facts.txn_indexes.get(base)
        if read is not None and read.value is not None:
            found = _file(read.path, read.value, base)
            yield from _as_rebuilt(found, recovered=_is_recovered(replay, facts, number))


def check_aborts(evidence: Evidence) -> Iterator[Finding]:
    """Check transaction indexes against the log: unfounded and missing entries (16, 17)."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    for number, index in enumerate(_indexes(replay, facts)):
        found = [*_unfounded_entries(replay, facts, index), *_missing_entries(replay, facts, index)]
        yield from _as_rebuilt(found, recovered=_is_recovered(replay, facts, number))


def check_stable_offsets(evidence: Evidence) -> Iterator[Finding]:
    """Check the last stable offsets of transaction indexes by what they promise (18).

    A broker that searches for aborted transactions stops at an entry whose last stable offset is
    not below the end of the fetch: no transaction of a later entry may begin below that. A
    transaction of the same producer may, if a follower appended several of them at once.
    """
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    # The largest last stable offset so far, and the largest of any other producer.
    first = second = (-1, -1)
    for segment_number, index in enumerate(_indexes(replay, facts)):
        broken: list[tuple[int, AbortedTxn, int]] = []
        for number, entry in enumerate(index.entries):
            stable, _ = second if first[1] == entry.producer_id else first
            if entry.first_offset < stable:
                broken.append((number, entry, stable))
            elif entry.last_stable_offset > replay.end_offset and not _is_end_unknown(
                facts, replay
            ):
                broken.append((number, entry, replay.end_offset))
            key = entry.last_stable_offset, entry.producer_id
            if key > first:
                second = first if first[1] != key[1] else second
                first = key
            elif key[1] != first[1]:
                second = max(second, key)
        if broken:
            number, entry, stable = broken[0]
            finding = _finding(
                TXNINDEX_STABLE_OFFSET,
                index.path,
                number,
                entry,
                Detail(f"transactions decided below {stable}", _describe(entry)),
                len(broken) - 1,
            )
            recovered = _is_recovered(replay, facts, segment_number)
            yield from _as_rebuilt([finding], recovered=recovered)


def _file(path: AnyPath, index: TransactionIndex, base: int) -> Iterator[Finding]:
    size = index.ENTRY_BYTES
    if index.remainder:
        yield Finding(
            TXNINDEX_LENGTH,
            path,
            position=size * len(index.entries),
            size=len(index.remainder),
            detail=Detail(f"a length that is a multiple of {size}", f"{_size(index)} bytes"),
            remedy=explain_command(TXNINDEX_LENGTH),
        )
    findings_by_code: dict[FindingCode, list[tuple[int, AbortedTxn, str]]] = {}
    last = -1
    for number, entry in enumerate(index.entries):
        if entry.version != 0:
            findings_by_code.setdefault(TXNINDEX_VERSION, []).append(
                (number, entry, "an entry of version 0")
            )
            continue
        if entry.last_offset < base:
            expected = f"a last offset of {base} or more"
            findings_by_code.setdefault(TXNINDEX_BELOW_SEGMENT, []).append(
                (number, entry, expected)
            )
        elif entry.last_offset <= last or entry.first_offset > entry.last_offset:
            expected = f"a last offset above {last}, and a first offset not above it"
            findings_by_code.setdefault(TXNINDEX_ORDER, []).append((number, entry, expected))
        last = max(last, entry.last_offset)
    for code, entries in findings_by_code.items():
        number, entry, expected = entries[0]
        yield _finding(
            code, path, number, entry, Detail(expected, _describe(entry)), len(entries) - 1
        )


def _unfounded_entries(replay: Replay, facts: PartitionFacts, index: _Index) -> Iterator[Finding]:
    """Yield the finding for entries that name no abort of the segment."""
    if not index.entries:
        return
    base = index.segment.survey.segment.base_offset
    named = {entry.last_offset for entry in index.entries}
    all_markers = index.segment.survey.events.markers()
    markers = {marker.offset: marker for marker in all_markers if marker.offset in named}
    unfounded: list[tuple[int, AbortedTxn, Marker | None]] = []
    for number, entry in enumerate(index.entries):
        offset, marker = entry.last_offset, markers.get(entry.last_offset)
        if offset < base or not replay.certain(offset, offset):
            continue
        if marker is None:
            # The cleaner drops a marker once no data of it is left, but not its entry.
            beyond = offset >= index.end
            if (beyond and index.is_last and _is_end_unknown(facts, replay)) or not (
                beyond or facts.settings.compacted is False
            ):
                continue
        elif not marker.commit and marker.producer_id == entry.producer_id:
            continue
        unfounded.append((number, entry, marker))
    if unfounded:
        number, entry, marker = unfounded[0]
        found = "none"
        if marker is not None:
            kind = "commit" if marker.commit else "abort"
            found = f"a marker ({kind}) of producer {marker.producer_id}"
        detail = Detail(
            f"a marker at offset {entry.last_offset} that aborts producer {entry.producer_id}",
            found,
        )
        yield _finding(TXNINDEX_UNFOUNDED, index.path, number, entry, detail, len(unfounded) - 1)


def _missing_entries(replay: Replay, facts: PartitionFacts, index: _Index) -> Iterator[Finding]:
    """Yield the finding for aborted transactions of the segment that its index lacks."""
    entries = {(entry.producer_id, entry.last_offset): entry for entry in index.entries}
    newest = index.entries[-1].last_offset if index.entries else -1
    missing: list[tuple[AbortedTxn, AbortedTxn | None]] = []
    for aborted in index.segment.aborted:
        if index.is_last and not facts.stopped and aborted.last_offset > newest:
            continue
        # A broker does not replay batches below the log start, and the cleaner drops their entries.
        if aborted.first_offset < facts.start_offset:
            continue
        if not replay.certain(aborted.first_offset, aborted.last_offset):
            continue
        entry = entries.get((aborted.producer_id, aborted.last_offset))
        if entry is None or entry.first_offset > aborted.first_offset:
            missing.append((aborted, entry))
    if missing:
        aborted, entry = missing[0]
        detail = Detail(
            f"an entry of producer {aborted.producer_id} from {aborted.first_offset} to "
            f"{aborted.last_offset}",
            "none" if entry is None else _describe(entry),
        )
        yield Finding(
            TXNINDEX_MISSING_ENTRY,
            index.path,
            offsets=Offsets(aborted.first_offset, aborted.last_offset),
            detail=detail,
            remedy=explain_command(TXNINDEX_MISSING_ENTRY),
            repeats=len(missing) - 1,
        )


def _indexes(replay: Replay, facts: PartitionFacts) -> Iterator[_Index]:
    """Yield the indexes of all segments, if any segment has or should have one.

    A segment without an index has an empty one.
    """
    segments: Sequence[SegmentReplay] = replay.segments
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


def _is_end_unknown(facts: PartitionFacts, replay: Replay) -> bool:
    """Return whether the log end offset is unknown for the time when the small files were read."""
    return not facts.stopped or replay.doubt is not None


def _is_recovered(replay: Replay, facts: PartitionFacts, number: int) -> bool:
    following = replay.segments[number + 1 : number + 2]
    return facts.recovered(following[0].survey.segment.base_offset if following else None)


def _as_rebuilt(
    findings: Sequence[Finding] | Iterator[Finding], *, recovered: bool
) -> Iterator[Finding]:
    """Yield ``findings``, as warnings if the next start rebuilds the index."""
    for finding in findings:
        if not recovered or finding.code is TXNINDEX_VERSION:
            yield finding
        else:
            code = TXNINDEX_STALE
            yield replace(finding, code=code, remedy=explain_command(code))


def _finding(
    code: FindingCode, path: AnyPath, number: int, entry: AbortedTxn, detail: Detail, repeats: int
) -> Finding:
    return Finding(
        code,
        path,
        position=number * TransactionIndex.ENTRY_BYTES,
        size=TransactionIndex.ENTRY_BYTES,
        offsets=Offsets(entry.first_offset, max(entry.first_offset, entry.last_offset)),
        detail=detail,
        remedy=explain_command(code),
        repeats=repeats,
    )


def _describe(entry: AbortedTxn) -> str:
    version = f" of version {entry.version}" if entry.version else ""
    return (
        f"an entry{version} of producer {entry.producer_id} from {entry.first_offset} to "
        f"{entry.last_offset}, stable below {entry.last_stable_offset}"
    )


def _size(index: TransactionIndex) -> int:
    return index.ENTRY_BYTES * len(index.entries) + len(index.remainder)


CHECKS: Final = (check_txn_index_files, check_aborts, check_stable_offsets)
