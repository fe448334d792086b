"""The transaction indexes and producer snapshots that a plan writes.

They hold the results of a replay of the whole log, including idle producers that a broker would
have expired.

Spec: ``ProducerStateManager``, ``TransactionIndex`` (KIP-98); KOD 7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kdump.audit.checks import partition_files, producers, txn_indexes
from kdump.audit.checks.transactions import TRANSACTION_END_LOST, effect_of_lost_end
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.fates import LostEnd
from kdump.audit.replay.replay import Replay, replay
from kdump.errors import DecodeError
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import Snapshot, encode_snapshot
from kdump.repair.content.known_ends import KnownEnds, known_ends
from kdump.repair.content.producers import can_precede, start_of
from kdump.repair.transaction.plan import Put, Remove, Stamp, Step
from kdump.storage.names import EXTENSIONS, FileKind, format_file_name
from kdump.values import frozen

_SNAPSHOT: Final = EXTENSIONS[FileKind.SNAPSHOT]
#: The most files that a note names for one reason, and the most transactions that are named.
_LISTED: Final = 3


@frozen
class _ReplayedPartition:
    """A partition, the replay of its log, and the names of the files that contradict it.

    ``ends`` are those of its transactions, which ``replay`` has. ``wanted`` are the base offsets of
    segments whose snapshot is to exist.
    """

    facts: PartitionFacts
    replay: Replay
    wrong: frozenset[str]
    files: Mapping[str, Stamp]
    every: bool
    ends: KnownEnds
    wanted: Collection[int]

    @property
    def first(self) -> int:
        return self.replay.segments[0].survey.segment.base_offset

    def unknown_reason(self, offset: int) -> str | None:
        """Return why the state before ``offset`` is unknown, None if it is known."""
        doubt, first = self.replay.doubt, self.ends.unknown_from
        if doubt is not None and not self.replay.certain(self.first, offset - 1):
            first = doubt.first
        if offset <= first:
            return None
        return (
            f"the state from offset {first} on is unknown, because the log is corrupt or lacks "
            "records there"
        )

    def put(self, name: str, content: bytes) -> Put:
        return Put.of(name, content, replaces=name in self.files)


class _Replacement(NamedTuple):
    """A file that has to change, and the reason why it cannot be rebuilt, None without one."""

    put: Put
    why_not: str | None


def producer_steps(
    evidence: Evidence,
    facts: PartitionFacts,
    files: Mapping[str, Stamp],
    *,
    every: bool,
    wanted: Collection[int] = (),
) -> tuple[list[Step], list[str]]:
    """Return the steps for transaction indexes and producer snapshots, and notes.

    ``facts`` are those of the evidence, ``files`` those in the directory. ``every``: also replace
    sound transaction indexes that differ, and add snapshots that are only missing. ``wanted`` are
    base offsets of segments that get a snapshot in any case.
    """
    replayed, surveys = evidence.replay, evidence.surveys
    if replayed is None:
        unchanged = facts.txn_indexes or facts.snapshots
        return [], [_unchanged_note("not all of the log could be read")] if unchanged else []
    steps: list[Step] = list(_strays(facts, replayed))
    start = start_of(facts, surveys)
    entries = () if isinstance(start, str) else start
    ends = known_ends(surveys, entries, facts)
    known = replay(ends.surveys, entries, compacted=facts.settings.compacted)
    wrong = frozenset(_wrong_files(evidence))
    partition = _ReplayedPartition(facts, known, wrong, files, every, ends, wanted)
    replacements = [*_txn_indexes(partition), *_snapshots(partition)]
    if isinstance(start, str):
        return steps, [_unchanged_note(start)] if replacements else []
    steps += (replacement.put for replacement in replacements if replacement.why_not is None)
    notes = list(_not_rebuilt_notes(replacements))
    if notes:
        notes += _lost_end_notes(ends.undecided, replayed)
    snapshots = (step for step in steps if isinstance(step, Put) and step.name.endswith(_SNAPSHOT))
    if any(put.size > Snapshot.HEADER_BYTES for put in snapshots):
        notes.append(
            "producer snapshots get all producers, including those that a broker would have expired"
        )
    return steps, notes


def _unchanged_note(why: str) -> str:
    return f"transaction indexes and producer snapshots stay as they are: {why}"


def _not_rebuilt_notes(replacements: Sequence[_Replacement]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for replacement in replacements:
        if replacement.why_not is not None:
            by_reason.setdefault(replacement.why_not, []).append(replacement.put.name)
    for why_not, names in by_reason.items():
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"not rebuilt: {', '.join(names[:_LISTED])}{more}: {why_not}"


def _lost_end_notes(ends: Sequence[LostEnd], replayed: Replay) -> Iterator[str]:
    """Yield the transactions of which nothing shows whether they were committed."""
    code = TRANSACTION_END_LOST.name
    for end in ends[:_LISTED]:
        yield (
            f"{code}: nothing shows whether the transaction of producer {end.producer} from offset "
            f"{end.begin} on was committed: {effect_of_lost_end(end, replayed)}"
        )
    if len(ends) > _LISTED:
        yield f"{code}: {len(ends) - _LISTED} more transactions"


def _wrong_files(evidence: Evidence) -> Iterator[str]:
    """Yield the names of the files that are malformed, or differ from the log."""
    for check in (
        txn_indexes.check_txn_index_files,
        txn_indexes.check_aborts,
        txn_indexes.check_stable_offsets,
        partition_files.check_snapshot_files,
        producers.check_snapshots,
    ):
        yield from (finding.path.name for finding in check(evidence))


def _strays(facts: PartitionFacts, replayed: Replay) -> Iterator[Remove]:
    """Yield the removals of unreadable snapshots at offsets that no replay reaches."""
    bases = {segment.survey.segment.base_offset for segment in replayed.segments}
    passed = bases | {replayed.end_offset}
    for offset, read in facts.snapshots.items():
        if isinstance(read.error, DecodeError) and offset not in passed:
            yield Remove(read.path.name)


def _txn_indexes(partition: _ReplayedPartition) -> Iterator[_Replacement]:
    segments = partition.replay.segments
    ends = [segment.survey.segment.base_offset for segment in segments[1:]]
    for segment, end in zip(segments, [*ends, partition.replay.end_offset], strict=True):
        base = segment.survey.segment.base_offset
        name = format_file_name(FileKind.TXN_INDEX, base)
        read = partition.facts.txn_indexes.get(base)
        if name not in partition.wrong and not (
            # Entries that end where the log is damaged are evidence of what was there.
            partition.every and partition.replay.certain(base, end - 1)
        ):
            continue
        content = TransactionIndex(segment.aborted).encode()
        current = b"" if read is None or read.value is None else read.value.encode()
        if content != current or (read is not None and read.value is None):
            # Other evidence may have decided the fate of a transaction whose marker is lost.
            unknown_reason = (
                None if end <= partition.ends.known_below else partition.unknown_reason(end)
            )
            yield _Replacement(partition.put(name, content), unknown_reason)


def _snapshots(partition: _ReplayedPartition) -> Iterator[_Replacement]:
    last = len(partition.replay.segments) - 1
    done = -1
    for number, (offset, state) in enumerate(partition.replay.states()):
        name = format_file_name(FileKind.SNAPSHOT, offset)
        missing = number <= last and _missing(partition, offset, len(state), last=number == last)
        if offset > done and (missing or name in partition.wrong):
            read = partition.facts.snapshots.get(offset)
            if read is not None and sorted(read.value or ()) == sorted(state.values()) != []:
                continue
            why_not = partition.unknown_reason(offset)
            if why_not is None and not can_precede(state.values(), offset):
                why_not = "the segments before it hold offsets above its base offset"
            content = encode_snapshot(sorted(state.values()))
            yield _Replacement(partition.put(name, content), why_not)
            done = offset


def _missing(partition: _ReplayedPartition, base_offset: int, known: int, *, last: bool) -> bool:
    """Return whether a snapshot at a segment's base offset is missing and has to be added.

    No broker uses a snapshot at or below the log start, and brokers before 2.8 keep only the newest
    few. A broker that finds no snapshot after a clean stop forgets all ``known`` producers.
    """
    snapshots = partition.facts.snapshots
    lowest = max(partition.first, partition.facts.log_start or 0)
    if base_offset <= lowest or base_offset in snapshots:
        return False
    if base_offset in partition.wanted:
        return True
    if partition.every:
        return bool(snapshots or known)
    if not any(
        offset > partition.first for offset, read in snapshots.items() if read.value is not None
    ):
        return last and known > 0
    bases = {segment.survey.segment.base_offset for segment in partition.replay.segments}
    return base_offset > min(snapshots.keys() & bases, default=base_offset)
