"""Checks of offset and time indexes: files, entries, missing indexes.

Spec: ``AbstractIndex``, ``OffsetIndex``, ``TimeIndex``, ``LogSegment.largestTimestamp``,
``findOffsetByTimestamp``, ``readNextOffset``; KOD 9, checks 9 to 14. An index that differs from a
rebuilt one is not wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.finding_code import REINDEX, REPLICA_FIRST, Cure, FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.survey.index_promises import LISTED, BrokenPromise, EntryFault, IndexFacts
from kdump.audit.survey.survey import Survey
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_REBUILD: Final = (
    "While the broker is stopped, kdump reindex rebuilds the file. If the segment's .log is valid, "
    "you can delete the .index instead: the broker rebuilds it at startup."
)
INDEX_LENGTH: Final = FindingCode(
    "index-length",
    Severity.WARNING,
    "The length of an .index file is not a multiple of 8: its last entry is incomplete.",
    "The broker ignores the incomplete entry, and lookups take longer. Brokers up to 2.2 rebuild "
    "the index at startup.",
    "Nothing is lost: kdump reindex rebuilds the file. If the file was not copied "
    "to its end, check the .log of the segment too.",
    check=9,
    cure=Cure.REINDEX,
)
INDEX_ORDER: Final = FindingCode(
    "index-order",
    Severity.ERROR,
    "The entries of an .index file do not rise in offset and position.",
    "The broker trusts the index: lookups start at the wrong position, skip records or fail. It "
    "rebuilds the index in recovery, or at startup if the file is missing.",
    _REBUILD,
    check=9,
    cure=Cure.REINDEX,
)
INDEX_PADDED: Final = FindingCode(
    "index-padded",
    Severity.INFO,
    "An .index file has zeros after its entries, and its segment is not the last.",
    "The broker counts the zeros as entries. Lookups begin at the start of the segment: they are "
    "slow, but correct.",
    "Nothing to do.",
    check=11,
)
TIMEINDEX_LENGTH: Final = FindingCode(
    "timeindex-length",
    Severity.WARNING,
    "The length of a .timeindex file is not a multiple of 12: its last entry is incomplete.",
    "The broker ignores the incomplete entry: lookups by time and time-based retention may use a "
    "timestamp that is too low. Brokers up to 2.2 rebuild the index at startup.",
    "While the broker is stopped, kdump reindex rebuilds the file.",
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_ORDER: Final = FindingCode(
    "timeindex-order",
    Severity.ERROR,
    "The timestamps of a .timeindex file do not rise, or its offsets fall.",
    "The broker trusts the index: lookups by time return wrong offsets, and time-based retention "
    "may delete the segment early or never.",
    REINDEX,
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_PADDED: Final = FindingCode(
    "timeindex-padded",
    Severity.ERROR,
    "A .timeindex file has zeros after its entries, and its segment is not the last.",
    "The broker takes the last zeros for the segment's latest timestamp, which is then in 1970: "
    "time-based retention may delete the segment (KAFKA-10207).",
    REINDEX,
    check=11,
    cure=Cure.REINDEX,
)
INDEX_MISPLACED: Final = FindingCode(
    "index-misplaced",
    Severity.ERROR,
    "An entry of an .index file points to a position where no batch starts.",
    "The broker trusts the entry: lookups from its offset on read bytes inside a batch as a batch "
    "header. They fail or find the wrong position.",
    _REBUILD,
    check=9,
    cure=Cure.REINDEX,
)
INDEX_SKIPS: Final = FindingCode(
    "index-skips",
    Severity.ERROR,
    "An entry of an .index file points past records that a lookup must find: these records have "
    "the entry's offset or a higher offset, but are before its position.",
    "The broker trusts the entry: consumers and followers that fetch one of these offsets receive "
    "later records, without an error.",
    _REBUILD,
    check=10,
    cure=Cure.REINDEX,
)
INDEX_BEYOND_LOG: Final = FindingCode(
    "index-beyond-log",
    Severity.ERROR,
    "The last segment's .index file has an offset or a position after the end of the log: the log "
    "has lost its end, or the entry is wrong.",
    "After a clean shutdown, the broker takes the base offset of the segment for the log end "
    "offset, and assigns the offsets of the segment a second time. After an unclean shutdown, "
    "recovery rebuilds the index.",
    "While the broker is stopped, kdump reindex rebuilds the file. If the log has lost its end and "
    "another replica is in sync, start its broker first: this broker then fetches the lost end "
    "from the leader.",
    check=10,
    cure=Cure.REINDEX,
)
INDEX_BEYOND_LOG_SEALED: Final = FindingCode(
    "index-beyond-log-sealed",
    Severity.ERROR,
    "An .index file has a position at or after the end of its log, and its segment is not the "
    "last: the log has lost its end, or the entry is wrong.",
    "Lookups from the entry's offset on find nothing in this segment and continue in the next "
    "segment.",
    "If the log is whole, kdump reindex rebuilds the file while the broker is stopped. If the log "
    "has lost its end, its last records are missing. " + REPLICA_FIRST,
    check=10,
    cure=Cure.REINDEX,
)
INDEX_MISSING: Final = FindingCode(
    "index-missing",
    Severity.WARNING,
    "A segment has no .index file.",
    "At startup, the broker reads the whole segment and rebuilds both indexes. It deletes all "
    "later producer snapshots of the partition.",
    "Nothing is lost if the segment's .log is valid. If it is corrupt, the broker truncates the "
    "segment at the corruption and keeps the later segments: offsets are then missing. While the "
    "broker is stopped, kdump reindex writes the index and truncates nothing: startup then skips "
    "that recovery.",
    check=12,
    cure=Cure.REINDEX,
)
INDEX_REBUILT: Final = FindingCode(
    "index-rebuilt",
    Severity.WARNING,
    "An index file is wrong, but the next startup recovers its segment. Either the last shutdown "
    "was unclean and the recovery point is not past the segment, or this is the metadata log, "
    "which every startup recovers.",
    "The broker rebuilds both indexes of the segment at startup.",
    "Let the broker start, or run kdump reindex first.",
    check=11,
    cure=Cure.REINDEX,
)
TIMEINDEX_SKIPS: Final = FindingCode(
    "timeindex-skips",
    Severity.ERROR,
    "An entry of a .timeindex file has an earlier timestamp than records before its offset.",
    "Lookups by time begin after these records and return a later offset.",
    REINDEX,
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_UNMATCHED: Final = FindingCode(
    "timeindex-unmatched",
    Severity.INFO,
    "An entry of a .timeindex file has a timestamp that no batch up to its offset has.",
    "Lookups by time take longer, but are correct.",
    "Nothing to do.",
    check=13,
)
TIMEINDEX_BEYOND_LOG: Final = FindingCode(
    "timeindex-beyond-log",
    Severity.ERROR,
    "The last segment's .timeindex file has an offset after the end of the log: the log has "
    "lost its end, or the entry is wrong.",
    "After a clean shutdown, an append fails if it has a later timestamp and a lower offset than "
    "the last entry. After an unclean shutdown, recovery rebuilds the index.",
    "While the broker is stopped, kdump reindex rebuilds the file. If the log has lost its end and "
    "another replica is in sync, start its broker first: this broker then fetches the lost end "
    "from the leader.",
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_TOO_LOW: Final = FindingCode(
    "timeindex-too-low",
    Severity.ERROR,
    "The last timestamp in a .timeindex file is earlier than the latest in its segment.",
    "The broker takes the segment for older than it is: time-based retention may delete it early, "
    "and lookups of later times skip it.",
    REINDEX,
    check=14,
    cure=Cure.REINDEX,
)
TIMEINDEX_TOO_HIGH: Final = FindingCode(
    "timeindex-too-high",
    Severity.ERROR,
    "The last timestamp in a .timeindex file is later than the latest in its segment.",
    "The broker takes the segment for newer than it is: time-based retention keeps it and all "
    "later segments too long. Lookups of times after its latest record end in this segment and "
    "find nothing.",
    REINDEX,
    check=14,
    cure=Cure.REINDEX,
)
TIMEINDEX_MISSING: Final = FindingCode(
    "timeindex-missing",
    Severity.ERROR,
    "A segment has no .timeindex file.",
    "The broker creates an empty file, and adds no entries for the records that are in the "
    "segment: time-based retention uses the modification time of the .log, and lookups by time "
    "may find nothing.",
    REINDEX,
    check=12,
    cure=Cure.REINDEX,
)

_NO_TIMESTAMP: Final = -1


@frozen
class _Kind:
    """The codes of one kind of index, and the names of the two fields of its entries."""

    length: FindingCode
    order: FindingCode
    padded: FindingCode
    first: str
    second: str

    def entry(self, entry: tuple[int, int]) -> str:
        return f"{self.first} {entry[0]}, {self.second} {entry[1]}"


_OFFSET: Final = _Kind(INDEX_LENGTH, INDEX_ORDER, INDEX_PADDED, "offset", "position")
_TIME: Final = _Kind(TIMEINDEX_LENGTH, TIMEINDEX_ORDER, TIMEINDEX_PADDED, "timestamp", "offset")


def check_indexes(evidence: Evidence) -> Iterator[Finding]:
    """Check the length, the order and the padding of index files."""
    for survey, next_base in evidence.neighbours:
        for kind, facts in ((_OFFSET, survey.index), (_TIME, survey.time_index)):
            if facts is not None:
                found = _file(kind, facts, sealed=next_base is not None)
                yield from _at_next_start(evidence, next_base, found)


def check_offset_entries(evidence: Evidence) -> Iterator[Finding]:
    """Check whether the entries of each ``.index`` point lookups to the right position."""
    for survey, next_base in evidence.neighbours:
        found = _offset_entries(survey, sealed=next_base is not None, live=evidence.live)
        yield from _at_next_start(evidence, next_base, found)


def check_time_entries(evidence: Evidence) -> Iterator[Finding]:
    """Check whether the entries of each ``.timeindex`` point lookups to the right offset.

    A segment without its ``.index`` is skipped: a broker rebuilds both of its indexes.
    """
    for survey, next_base in evidence.neighbours:
        found = _time_entries(survey, sealed=next_base is not None, live=evidence.live)
        yield from _at_next_start(evidence, next_base, found)


def check_last_timestamp(evidence: Evidence) -> Iterator[Finding]:
    """Check whether a sealed segment's last time entry has its largest timestamp.

    The broker uses that entry for retention and to choose the segment of a lookup.
    """
    for survey, next_base in evidence.neighbours:
        if next_base is not None:
            yield from _at_next_start(evidence, next_base, _largest_timestamp(survey))


def check_missing_indexes(evidence: Evidence) -> Iterator[Finding]:
    """Report the index files that the segments of a partition lack.

    Beside a running broker the indexes of the last segment may not exist yet. Every start rebuilds
    the indexes of a metadata log. Surveys of log ends lack the magics that decide.
    """
    if evidence.quick or evidence.is_metadata_log:
        return
    surveys = evidence.surveys
    no_times = all(survey.segment.time_index is None for survey in surveys)
    for survey, next_base in evidence.neighbours:
        active = evidence.target.next_base is None and survey is surveys[-1]
        if not (active and evidence.live):
            found = _missing_indexes(survey, no_times=no_times)
            yield from _at_next_start(evidence, next_base, found)


def _at_next_start(
    evidence: Evidence, next_base: int | None, findings: Iterable[Finding]
) -> Iterator[Finding]:
    """Return the findings of a segment's indexes as the next start leaves them.

    The start deletes them with the whole partition, or rebuilds them if it recovers the segment.
    """
    if evidence.deleted_at_start:
        return iter(())
    recovered = evidence.facts is not None and evidence.facts.recovered(next_base)
    return as_rebuilt(findings) if recovered or evidence.is_metadata_log else iter(findings)


def as_rebuilt(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the index findings of a segment that the next start recovers, with errors as warnings.

    After an unclean stop, recovery rebuilds the indexes from the segment of the recovery point on.
    """
    for finding in findings:
        if finding.code.severity is Severity.ERROR:
            code = INDEX_REBUILT
            yield replace(finding, code=code, remedy=explain_command(code))
        else:
            yield finding


def _offset_entries(survey: Survey, *, sealed: bool, live: bool) -> Iterator[Finding]:
    # Beside a running broker the last segment's entries may be of batches appended later.
    facts = survey.index
    if facts is None:
        return
    for fault, repeats in _faults(facts):
        if sealed or not live or fault.kind is not BrokenPromise.BEYOND:
            yield _offset_entry(facts, fault, repeats, sealed=sealed)
    if not sealed and not live and BrokenPromise.BEYOND not in facts.counts:
        yield from _beyond_end(survey, _OFFSET, facts, INDEX_BEYOND_LOG)


def _time_entries(survey: Survey, *, sealed: bool, live: bool) -> Iterator[Finding]:
    facts = survey.time_index
    if facts is None or survey.segment.index is None:
        return
    # 0.10 indexed timestamps that batches of magic 0 do not store.
    times_unindexed = survey.magics is None or survey.magics[0] < 1
    for fault, repeats in _faults(facts):
        # check_last_timestamp reports a last entry that is too large.
        at_end = sealed and fault.entry == facts.last
        if fault.kind is BrokenPromise.SKIPS or not (times_unindexed or at_end):
            yield _time_entry(facts, fault, repeats)
    if not sealed and not live:
        yield from _beyond_end(survey, _TIME, facts, TIMEINDEX_BEYOND_LOG)


def _largest_timestamp(survey: Survey) -> Iterator[Finding]:
    facts = survey.time_index
    if facts is None or survey.segment.index is None or survey.magics is None:
        return
    if facts.disorder or facts.padding:
        return  # the last entry is not known
    if facts.last is None and _is_legacy(survey):
        return  # upgrades from 0.10.0, which had no time indexes, left empty time indexes
    timestamp = _NO_TIMESTAMP if facts.last is None else facts.last[0]
    if timestamp < survey.record_timestamp:
        yield _last_timestamp(facts, TIMEINDEX_TOO_LOW, survey.record_timestamp)
    elif timestamp > survey.max_timestamp and survey.magics[0] > 1 and _is_complete(survey):
        yield _last_timestamp(facts, TIMEINDEX_TOO_HIGH, survey.max_timestamp)


def _missing_indexes(survey: Survey, *, no_times: bool) -> Iterator[Finding]:
    segment = survey.segment
    # An empty segment needs no index, and may never have had one.
    if survey.size == 0:
        return
    if segment.index is None:
        yield _missing_file(segment.log, ".index", INDEX_MISSING)
    elif segment.time_index is None and survey.record_timestamp > _NO_TIMESTAMP:
        never_had_any = no_times and _is_legacy(survey)  # as before 0.10.1
        if not never_had_any:
            yield _missing_file(segment.log, ".timeindex", TIMEINDEX_MISSING)


def _file(kind: _Kind, facts: IndexFacts, *, sealed: bool) -> Iterator[Finding]:
    if facts.remainder:
        yield Finding(
            kind.length,
            facts.path,
            position=facts.size - facts.remainder,
            size=facts.remainder,
            detail=Detail(
                f"a length that is a multiple of {facts.entry_bytes}", f"{facts.size} bytes"
            ),
            remedy=explain_command(kind.length),
        )
    if facts.first_disorder is not None:
        number, before, entry = facts.first_disorder
        yield Finding(
            kind.order,
            facts.path,
            position=number * facts.entry_bytes,
            size=facts.entry_bytes,
            detail=Detail(f"an entry above {kind.entry(before)}", kind.entry(entry)),
            remedy=explain_command(kind.order),
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
            remedy=explain_command(kind.padded),
        )


def _faults(facts: IndexFacts) -> Iterator[tuple[EntryFault, int]]:
    """Yield the listed faults, the last of a kind with the number of unlisted ones."""
    listed: Counter[BrokenPromise] = Counter()
    for fault in facts.faults:
        listed[fault.kind] += 1
        more = facts.counts[fault.kind] - LISTED
        yield fault, max(more, 0) if listed[fault.kind] == LISTED else 0


def _offset_entry(facts: IndexFacts, fault: EntryFault, repeats: int, *, sealed: bool) -> Finding:
    offset, position = fault.entry
    offsets = None
    match fault.kind:
        case BrokenPromise.SKIPS:
            code = INDEX_SKIPS
            offsets = Offsets(offset, fault.reference)
            expected = (
                f"an offset above {fault.reference}, the last offset before position {position}"
            )
        case BrokenPromise.BEYOND:
            code = INDEX_BEYOND_LOG_SEALED if sealed else INDEX_BEYOND_LOG
            expected = f"a position below {fault.reference}, the size of the log"
        case _:
            code = INDEX_MISPLACED
            expected = f"the position of a batch, such as {fault.reference}"
    return _entry(_OFFSET, facts, code, fault.number, fault.entry, expected, offsets, repeats)


def _time_entry(facts: IndexFacts, fault: EntryFault, repeats: int) -> Finding:
    if fault.kind is BrokenPromise.SKIPS:
        code = TIMEINDEX_SKIPS
        expected = f"a timestamp of at least {fault.reference}, as records before it have"
    else:
        code = TIMEINDEX_UNMATCHED
        expected = f"a timestamp of at most {fault.reference}, the largest up to there"
    return _entry(_TIME, facts, code, fault.number, fault.entry, expected, None, repeats)


def _beyond_end(
    survey: Survey, kind: _Kind, facts: IndexFacts, code: FindingCode
) -> Iterator[Finding]:
    """Yield the finding for a last entry whose offset lies past the last offset of the log."""
    if facts.last is None or facts.disorder or not _is_complete(survey):
        return
    offset = facts.last[0] if kind is _OFFSET else facts.last[1]
    last_offset = survey.end_offset - 1
    if offset > last_offset:
        number = (facts.size - facts.remainder) // facts.entry_bytes - 1
        expected = f"an offset of at most {last_offset}, the last offset of the log"
        yield _entry(kind, facts, code, number, facts.last, expected)


def _last_timestamp(facts: IndexFacts, code: FindingCode, expected: int) -> Finding:
    text = f"timestamp {expected} at the end, the largest of the segment"
    if facts.last is None:
        return Finding(
            code, facts.path, detail=Detail(text, "no entry"), remedy=explain_command(code)
        )
    number = (facts.size - facts.remainder) // facts.entry_bytes - 1
    return _entry(_TIME, facts, code, number, facts.last, text)


def _entry(
    kind: _Kind,
    facts: IndexFacts,
    code: FindingCode,
    number: int,
    entry: tuple[int, int],
    expected: str,
    offsets: Offsets | None = None,
    repeats: int = 0,
) -> Finding:
    return Finding(
        code,
        facts.path,
        number * facts.entry_bytes,
        facts.entry_bytes,
        offsets,
        Detail(expected, kind.entry(entry)),
        explain_command(code),
        repeats,
    )


def _missing_file(path: AnyPath, extension: str, code: FindingCode) -> Finding:
    detail = Detail(f"a file {path.stem}{extension} beside it", "none")
    return Finding(code, path, detail=detail, remedy=explain_command(code))


def _is_legacy(survey: Survey) -> bool:
    """Return whether all its batches are of magic 0 and 1."""
    return survey.magics is not None and survey.magics[1] < 2


def _is_complete(survey: Survey) -> bool:
    """Return whether all of the log was read, it has no damage, and its offsets rise."""
    unread = not survey.complete or bool(survey.gaps)
    return not unread and survey.ordered


SEGMENT_CHECKS: Final = (
    check_indexes,
    check_offset_entries,
    check_time_entries,
    check_last_timestamp,
)
CHECKS: Final = (check_missing_indexes,)
