"""Checks of producer snapshots and sequence numbers against the replay.

Timestamps are not compared: snapshots before 2.x leave out the timestamps of markers, and the
cleaner lowers the timestamps of batches.

Spec: ``ProducerStateManager``, ``ProducerStateEntry`` (KIP-98, KIP-360, KIP-890); KOD 7.1 and 9
(checks 19, 20, 33).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import Cure, FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.replay.replay import Replay, ViolationKind
from kdump.audit.survey.survey import effective_compaction
from kdump.format.snapshot import ProducerEntries, ProducerEntry
from kdump.storage.paths import AnyPath

SEQUENCE_GAP: Final = FindingCode(
    "sequence-gap",
    Severity.WARNING,
    "The sequence numbers of a producer are not consecutive, and no compaction removed batches "
    "between them: batches are missing, or occur twice.",
    "The broker does not check sequence numbers again once they are written.",
    "Compare with another replica: kdump dump shows the offsets, counts and sequence numbers of "
    "its batches.",
    check=33,
)
SNAPSHOT_DISAGREES: Final = FindingCode(
    "snapshot-disagrees",
    Severity.ERROR,
    "A producer snapshot contradicts the log up to its offset.",
    "The broker trusts the snapshot. It may accept batches twice, refuse a producer's next batch, "
    "or treat an open transaction as ended.",
    "While the broker is stopped, kdump reindex rewrites the snapshot from the log, if the log "
    "reaches back far enough. Otherwise delete the snapshot: the broker then uses an older "
    "snapshot and reads the log after it.",
    check=20,
    cure=Cure.REINDEX,
)

#: The topics to which coordinators write for many producers, with meaningless sequence numbers.
_OF_COORDINATORS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


def check_snapshots(evidence: Evidence) -> Iterator[Finding]:
    """Check the producer snapshots at segment bases and at the log end offset (19, 20)."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    base = replay.segments[0].survey.segment.base_offset
    last = max((at for at, read in facts.snapshots.items() if read.value is not None), default=-1)
    for offset, state in replay.states():
        # The end may lie below the last segment.
        if min(offset, replay.end_offset) > last:
            return  # no snapshot is left to compare with, and each step takes time
        read = facts.snapshots.get(offset)
        # The state before the first segment is unknown, and damage hides producers.
        if read is None or read.value is None or not replay.certain(base, offset - 1):
            continue
        differences = list(_impossible_entries(read.value, offset))
        if offset > base:
            differences += _differences(read.value, state, offset, replay, facts)
        if differences:
            yield _disagreement(read.path, differences)


def check_sequences(evidence: Evidence) -> Iterator[Finding]:
    """Report unusual breaks of sequence numbers (33).

    If the settings are unknown and the log shows compaction, only a break between batches with
    adjacent offsets counts: compaction leaves a gap where it removes a batch.
    """
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    name = facts.partition.name
    if facts.settings.compacted or name is None or name.topic in _OF_COORDINATORS:
        return
    surveys = [segment.survey for segment in replay.segments]
    cleaned = effective_compaction(surveys, facts.settings.compacted) is not False
    for segment in replay.segments:
        breaks = [
            violation
            for violation in segment.violations
            # Producers before 2.5 begin at 0 again when a broker no longer knows them.
            if violation.kind is ViolationKind.SEQUENCE_BREAK
            and violation.found != 0
            and replay.certain(0, violation.offset)
            and not (cleaned and violation.offset != violation.previous_offset + 1)
        ]
        if breaks:
            first = breaks[0]
            yield Finding(
                SEQUENCE_GAP,
                segment.survey.segment.log,
                position=first.position,
                offsets=Offsets(first.offset, first.offset),
                detail=Detail(
                    f"sequence {first.expected} of producer {first.producer_id}, epoch "
                    f"{first.producer_epoch}",
                    str(first.found),
                ),
                repeats=len(breaks) - 1,
            )


def _disagreement(path: AnyPath, differences: Sequence[Detail]) -> Finding:
    code = SNAPSHOT_DISAGREES
    return Finding(
        code,
        path,
        detail=differences[0],
        remedy=explain_command(code),
        repeats=len(differences) - 1,
    )


def _impossible_entries(entries: ProducerEntries, offset: int) -> Iterator[Detail]:
    """Yield the entries that no snapshot of the state before ``offset`` can have."""
    if len({entry.producer_id for entry in entries}) < len(entries):
        for producer_id, count in Counter(entry.producer_id for entry in entries).items():
            if count > 1:
                yield Detail(f"producer {producer_id} once", f"it {count} times")
    for entry in entries:
        if not _is_possible(entry, offset):
            producer = f"producer {entry.producer_id}"
            yield Detail(f"{producer} as it was before offset {offset}", _describe(entry))


def _is_possible(entry: ProducerEntry, offset: int) -> bool:
    return max(entry.last_offset, entry.current_txn_first_offset) < offset


def _differences(
    entries: ProducerEntries,
    state: Mapping[int, ProducerEntry],
    offset: int,
    replay: Replay,
    facts: PartitionFacts,
) -> Iterator[Detail]:
    """Yield the differences between possible entries and the log up to ``offset``."""
    base = replay.segments[0].survey.segment.base_offset
    # A broker that starts without a snapshot replays nothing below the log start.
    start = max(base, facts.log_start or 0)
    cleaned = facts.settings.compacted is not False
    for entry in entries:
        logged = state.get(entry.producer_id)
        if _is_possible(entry, offset) and not (
            (
                _batch_fits(entry, logged, base, cleaned=cleaned)
                or _ends_with_marker(entry, logged, replay)
            )
            and _transaction_fits(entry, logged, base, start, cleaned=cleaned)
        ):
            in_log = "nothing of it" if logged is None else _describe(logged)
            producer = f"producer {entry.producer_id}"
            yield Detail(f"{producer} as in the log ({in_log})", _describe(entry))
    if entries and not cleaned:
        known = {entry.producer_id for entry in entries}
        for logged in state.values():
            # An idle producer expires, but never with an open transaction.
            if logged.current_txn_first_offset >= start and logged.producer_id not in known:
                producer = f"producer {logged.producer_id}"
                yield Detail(f"{producer} as in the log ({_describe(logged)})", "nothing of it")


def _batch_fits(
    entry: ProducerEntry, logged: ProducerEntry | None, base: int, *, cleaned: bool
) -> bool:
    """Return whether the last batch that a snapshot knows of a producer can be the log's."""
    if logged is None or entry.last_offset > logged.last_offset:
        return cleaned or entry.last_offset < base
    if entry.last_offset < logged.last_offset:
        # A marker alone makes an entry without a batch, and the cleaner may have dropped it.
        return entry.last_offset < 0 and entry.coordinator_epoch >= 0
    if entry.last_offset < 0:
        return cleaned or entry.producer_epoch == logged.producer_epoch
    return (entry.producer_epoch, entry.last_sequence, entry.offset_delta) == (
        logged.producer_epoch,
        logged.last_sequence,
        logged.offset_delta,
    )


def _ends_with_marker(entry: ProducerEntry, logged: ProducerEntry | None, replay: Replay) -> bool:
    """Return whether an entry has the offset of its producer's marker, as 0.11.0 wrote it."""
    if logged is None or (entry.producer_epoch, entry.last_sequence) != (
        logged.producer_epoch,
        logged.last_sequence,
    ):
        return False
    return any(
        (marker.producer_id, marker.offset) == (entry.producer_id, entry.last_offset)
        for segment in replay.segments
        for marker in segment.survey.events.markers()
    )


def _transaction_fits(
    entry: ProducerEntry, logged: ProducerEntry | None, base: int, start: int, *, cleaned: bool
) -> bool:
    """Return whether the open transaction that a snapshot knows of a producer can be the log's."""
    in_snapshot = entry.current_txn_first_offset
    in_log = -1 if logged is None else logged.current_txn_first_offset
    if in_snapshot == in_log or cleaned or -1 < in_snapshot < base:
        return True
    return -1 < in_log < start


def _describe(entry: ProducerEntry) -> str:
    first_offset = entry.current_txn_first_offset
    transaction = "no transaction" if first_offset < 0 else f"a transaction from {first_offset}"
    return (
        f"epoch {entry.producer_epoch}, sequence {entry.last_sequence} at offset "
        f"{entry.last_offset}, {transaction}"
    )


CHECKS: Final = (check_snapshots, check_sequences)
