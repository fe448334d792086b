"""The transaction indexes and producer snapshots that a plan writes.

They are what a replay of the whole log comes to, producers included that a broker would have
forgotten for being idle.

Spec: ``ProducerStateManager``, ``TransactionIndex`` (KIP-98); KOD 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kdump.audit.checks import partition_files, producers, txn_indexes
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.replay import Replay, replay
from kdump.errors import DecodeError
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import Snapshot, encode_snapshot
from kdump.repair.content.known_ends import known_ends
from kdump.repair.content.producers import possible, start_of
from kdump.repair.transaction.plan import Put, Remove, Stamp, Step
from kdump.storage.names import EXTENSIONS, FileKind, format_file_name

_SNAPSHOT: Final = EXTENSIONS[FileKind.SNAPSHOT]
#: So many files are named that are not made anew for the same reason.
_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class _Replayed:
    """A partition, what its log comes to, and the names of the files that say otherwise.

    All transactions are known below ``ends_known_below``.
    """

    facts: PartitionFacts
    replay: Replay
    wrong: frozenset[str]
    files: Mapping[str, Stamp]
    every: bool
    ends_known_below: int

    @property
    def first(self) -> int:
        return self.replay.segments[0].survey.segment.base_offset

    def hidden(self, offset: int) -> str | None:
        """Why nobody knows the state before ``offset``, None if it does not depend on damage."""
        doubt = self.replay.doubt
        if doubt is None or self.replay.certain(self.first, offset - 1):
            return None
        return (
            f"the state from offset {doubt.first} on is unknown, because the log is damaged or "
            "lacks records there"
        )

    def put(self, name: str, content: bytes) -> Put:
        return Put.of(name, content, replaces=name in self.files)


class _Wanted(NamedTuple):
    """A file that is to be another, and why it cannot be."""

    put: Put
    why_not: str | None


def producer_steps(
    evidence: Evidence, facts: PartitionFacts, files: Mapping[str, Stamp], *, every: bool
) -> tuple[list[Step], list[str]]:
    """The steps, and what is to be said about them.

    ``facts`` are those of the evidence, ``files`` those in the directory. ``every``: also
    transaction indexes that only differ, and snapshots that are only missing.
    """
    seen, surveys = evidence.replay, evidence.surveys
    if seen is None:
        left = facts.txn_indexes or facts.snapshots
        return [], [_left("not all of the log could be read")] if left else []
    steps: list[Step] = list(_strays(facts, seen))
    start = start_of(facts, surveys)
    entries = () if isinstance(start, str) else start
    ends = known_ends(surveys, entries, facts)
    known = replay(ends.surveys, entries, compacted=facts.settings.compacted)
    wrong = frozenset(_wrong(evidence))
    partition = _Replayed(facts, known, wrong, files, every, ends.known_below)
    wanted = [*_txn_indexes(partition), *_snapshots(partition)]
    if isinstance(start, str):
        return steps, [_left(start)] if wanted else []
    steps += (one.put for one in wanted if one.why_not is None)
    notes = list(_not_made(wanted))
    put_anew = (step for step in steps if isinstance(step, Put) and step.name.endswith(_SNAPSHOT))
    if any(put.size > Snapshot.HEADER_BYTES for put in put_anew):
        notes.append(
            "producer snapshots get all producers, including those that a broker would have expired"
        )
    return steps, notes


def _left(why: str) -> str:
    return f"transaction indexes and producer snapshots stay as they are: {why}"


def _not_made(wanted: Sequence[_Wanted]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for one in wanted:
        if one.why_not is not None:
            by_reason.setdefault(one.why_not, []).append(one.put.name)
    for why_not, names in by_reason.items():
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"not rebuilt: {', '.join(names[:_LISTED])}{more}: {why_not}"


def _wrong(evidence: Evidence) -> Iterator[str]:
    """The names of the files that are malformed, or differ from the log."""
    for check in (
        txn_indexes.check_txn_index_files,
        txn_indexes.check_aborts,
        txn_indexes.check_stable_offsets,
        partition_files.check_snapshot_files,
        producers.check_snapshots,
    ):
        yield from (finding.path.name for finding in check(evidence))


def _strays(facts: PartitionFacts, seen: Replay) -> Iterator[Remove]:
    """Snapshots that cannot be read and are of a state that no replay comes by."""
    passed = {segment.survey.segment.base_offset for segment in seen.segments} | {seen.end_offset}
    for offset, read in facts.snapshots.items():
        if isinstance(read.error, DecodeError) and offset not in passed:
            yield Remove(read.path.name)


def _txn_indexes(partition: _Replayed) -> Iterator[_Wanted]:
    segments = partition.replay.segments
    ends = [segment.survey.segment.base_offset for segment in segments[1:]]
    for segment, end in zip(segments, [*ends, partition.replay.end_offset], strict=True):
        base = segment.survey.segment.base_offset
        name = format_file_name(FileKind.TXN_INDEX, base)
        read = partition.facts.txn_indexes.get(base)
        if not (partition.every or name in partition.wrong):
            continue
        content = TransactionIndex(segment.aborted).encode()
        stands = b"" if read is None or read.value is None else read.value.encode()
        if content != stands or (read is not None and read.value is None):
            # Where a marker is lost, other evidence may have decided.
            hidden = None if end <= partition.ends_known_below else partition.hidden(end)
            yield _Wanted(partition.put(name, content), hidden)


def _snapshots(partition: _Replayed) -> Iterator[_Wanted]:
    last = len(partition.replay.segments) - 1
    done = -1
    for number, (offset, state) in enumerate(partition.replay.states()):
        name = format_file_name(FileKind.SNAPSHOT, offset)
        missing = number <= last and _missing(partition, offset, len(state), last=number == last)
        if offset > done and (missing or name in partition.wrong):
            stands = partition.facts.snapshots.get(offset)
            if stands is not None and sorted(stands.value or ()) == sorted(state.values()) != []:
                continue
            why_not = partition.hidden(offset)
            if why_not is None and not possible(state.values(), offset):
                why_not = "the segments before it hold offsets above its base offset"
            content = encode_snapshot(sorted(state.values()))
            yield _Wanted(partition.put(name, content), why_not)
            done = offset


def _missing(partition: _Replayed, base_offset: int, known: int, *, last: bool) -> bool:
    """Whether a snapshot is to stand at a segment's base where none is.

    No broker uses one that is not above the log start, and those before 2.8 keep the newest few.
    One that finds none after a clean stop takes all ``known`` producers for unheard of.
    """
    stand = partition.facts.snapshots
    lowest = max(partition.first, partition.facts.log_start or 0)
    if base_offset <= lowest or base_offset in stand:
        return False
    if partition.every:
        return bool(stand or known)
    if not any(
        offset > partition.first for offset, read in stand.items() if read.value is not None
    ):
        return last and known > 0
    bases = {segment.survey.segment.base_offset for segment in partition.replay.segments}
    return base_offset > min(stand.keys() & bases, default=base_offset)
