"""Checks of transactions: order, hanging transactions, lost markers.

Spec: ``ProducerAppendInfo``, ``EndTransactionMarker`` (KIP-98, KIP-890, KIP-664); KOD 9, checks 32,
34 and 35.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kdump.audit.commands import abort_command
from kdump.audit.evidence import Evidence
from kdump.audit.facts.coordinator import Coordinator, TopicPartition
from kdump.audit.finding_code import SALVAGE_OR_CUT, Cure, FindingCode, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.replay.fates import Fate, LostEnd
from kdump.audit.replay.replay import OpenTransaction, Replay, Violation, ViolationKind, lost_ends
from kdump.audit.survey.survey import Survey
from kdump.format.lines.text import time_text

TRANSACTION_MIXED: Final = FindingCode(
    "transaction-mixed",
    Severity.ERROR,
    "A non-transactional batch is inside an open transaction of its producer.",
    "The broker does not start if it must replay this part of the log, in recovery or because a "
    "producer snapshot is missing.",
    SALVAGE_OR_CUT,
    check=32,
    cure=Cure.CUT,
)
MARKER_UNKNOWN: Final = FindingCode(
    "marker-unknown",
    Severity.ERROR,
    "A control batch of a producer begins with a record that does not end a transaction.",
    "The broker does not start if it must replay this part of the log, in recovery or because a "
    "producer snapshot is missing.",
    SALVAGE_OR_CUT,
    check=32,
    cure=Cure.CUT,
)
MARKER_UNREADABLE: Final = FindingCode(
    "marker-unreadable",
    Severity.ERROR,
    "A control batch of a producer begins with a record that cannot be read.",
    "Recovery truncates the log after the batch and deletes every later segment, valid records "
    "included. Whenever the broker must replay this part of the log, also after that truncation, "
    "it does not start.",
    SALVAGE_OR_CUT,
    check=32,
    cure=Cure.CUT,
)
MARKER_ODD: Final = FindingCode(
    "marker-odd",
    Severity.INFO,
    "The end marker of a transaction is in a batch that no broker writes. The batch has more than "
    "one record, has a sequence number, or is not transactional.",
    "The broker reads only the marker and continues.",
    "Nothing to do. Something other than a broker may have written this log.",
    check=32,
)
PRODUCER_EPOCH_FALLS: Final = FindingCode(
    "producer-epoch-falls",
    Severity.INFO,
    "A batch of a producer has a lower epoch than an earlier batch. A fenced producer wrote it, "
    "which is possible after the broker has dropped the producer's state.",
    "The broker logs a warning when it replays the log, and continues.",
    "Nothing to do, unless two instances of that producer ran at the time.",
    check=32,
)
TRANSACTION_HANGING: Final = FindingCode(
    "transaction-hanging",
    Severity.ERROR,
    "A transaction has no end, and no coordinator will end it. Its last batch is older than any "
    "transaction may become (transaction.max.timeout.ms plus 5 minutes), or the log of its "
    "coordinator (__transaction_state) no longer has the transaction.",
    "The last stable offset stays at the transaction's start: consumers with read_committed read "
    "no further. On a compacted topic, the cleaner cleans nothing after that offset.",
    "While the brokers run, end the transaction with Kafka's own tool, kafka-transactions.sh "
    "abort. Give it the topic, the partition and the start offset that are shown here.",
    check=34,
)
TRANSACTION_LATE: Final = FindingCode(
    "transaction-late",
    Severity.WARNING,
    "A transaction has no end, and its last batch is older than a transaction may become by "
    "default (15 minutes plus 5). Neither the brokers' limit nor the log of its coordinator "
    "(__transaction_state) is known here.",
    "The last stable offset stays at the transaction's start: consumers with read_committed read "
    "no further. On a compacted topic, the cleaner cleans nothing after that offset.",
    "Check whether transaction.max.timeout.ms of the brokers is larger: then the transaction may "
    "still be active. kdump verify --config server.properties reads that limit. If it is not "
    "larger, end the transaction with kafka-transactions.sh abort, with the topic, the partition "
    "and the start offset that are shown here.",
    check=34,
)
TRANSACTION_OPEN: Final = FindingCode(
    "transaction-open",
    Severity.INFO,
    "A transaction is open at the end of the log. Nothing here shows that it has been open for "
    "long.",
    "Its coordinator commits or aborts it, at the latest when it times out.",
    "Nothing to do, unless the brokers allow less than the default of 15 minutes. With --config "
    "server.properties, kdump verify reads their transaction.max.timeout.ms.",
    check=34,
)
# An error, though its records can be read and are not lost: consumers of committed records get what
# may have been aborted, or stop.
TRANSACTION_END_LOST: Final = FindingCode(
    "transaction-end-lost",
    Severity.ERROR,
    "Offsets are missing after the beginning of a transaction, and its marker may be among them. "
    "No transaction index, producer snapshot or coordinator's log (__transaction_state) at hand "
    "shows whether it was committed.",
    "If the producer has a later marker, that marker ends this transaction too. Without one, the "
    "last stable offset stays at the start of the transaction.",
    "Another replica may have the marker: kdump dump --offsets shows it there. If no replica has "
    "it, you must decide. kdump salvage makes the records readable: it ends the transaction with a "
    "commit, and consumers with read_committed get its records even if the producer aborted them. "
    "kdump export --read-committed omits them. After kdump truncate-to-valid, a transaction "
    "without a later marker stays open until its coordinator or kafka-transactions.sh abort ends "
    "it. kdump reindex and kdump convert-v0-v2 leave the transaction indexes that depend on the "
    "marker as they are.",
    check=34,
)
DELETE_HORIZON_ODD: Final = FindingCode(
    "delete-horizon-odd",
    Severity.INFO,
    "Batches have a delete horizon, which only the cleaner of 3.1 and later sets. The topic is not "
    "compacted now, or the horizon is an impossible time.",
    "The broker uses the horizon only in cleaning: it removes tombstones and markers after that "
    "time.",
    "Nothing to do. The topic may have been compacted before.",
    check=35,
)

#: The default transaction timeout, and the grace time before a transaction counts as hanging.
_DEFAULT_MS: Final = 15 * 60_000
_GRACE_MS: Final = 5 * 60_000

_CODES: Final = {
    ViolationKind.PLAIN: TRANSACTION_MIXED,
    ViolationKind.CONTROL_CUT: MARKER_UNREADABLE,
    ViolationKind.CONTROL_FATAL: MARKER_UNKNOWN,
    ViolationKind.CONTROL_ODD: MARKER_ODD,
    ViolationKind.EPOCH_FALLS: PRODUCER_EPOCH_FALLS,
}
#: The kinds that depend on earlier batches: a lost marker turns correct batches into violations.
_BY_STATE: Final = frozenset({ViolationKind.PLAIN, ViolationKind.EPOCH_FALLS})


def check_transactions(evidence: Evidence) -> Iterator[Finding]:
    """Report the violations that the replay found (32)."""
    replay = evidence.replay
    if replay is None:
        return
    for segment in replay.segments:
        reported = [
            violation
            for violation in segment.violations
            if violation.kind in _CODES
            and (violation.kind not in _BY_STATE or replay.certain(0, violation.offset))
        ]
        listed = Counter(violation.kind for violation in segment.violations)
        last = {violation.kind: violation for violation in reported}
        for violation in reported:
            is_last = violation is last[violation.kind]
            more = segment.counts[violation.kind] - listed[violation.kind] if is_last else 0
            yield _violation(segment.survey, violation, more)


def check_hanging(evidence: Evidence) -> Iterator[Finding]:
    """Check the transactions that are open at the log end offset (34).

    If a transaction exceeds its timeout, the coordinator shows whether it has yet to end.
    """
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or facts.partition.name is None:
        return
    topic, partition = facts.partition.name.topic, facts.partition.name.partition
    clock, longest_ms = evidence.clock(), evidence.longest_transaction_ms
    late_ms = _GRACE_MS + (_DEFAULT_MS if longest_ms is None else longest_ms)
    late_code = TRANSACTION_LATE if longest_ms is None else TRANSACTION_HANGING
    code_by_coordinator = {
        True: TRANSACTION_OPEN,
        False: TRANSACTION_HANGING,
        None: late_code,
    }
    for transaction in replay.open:
        start = transaction.first_offset
        if not replay.certain(start, replay.end_offset - 1):
            continue
        code = TRANSACTION_OPEN
        if clock.age_ms(replay, transaction) > late_ms:
            topic_partition = topic, partition
            code = code_by_coordinator[
                _has_to_end(facts.coordinator, replay, transaction, topic_partition)
            ]
        hangs = code is not TRANSACTION_OPEN
        yield Finding(
            code,
            replay.survey_at(start).segment.log,
            offsets=Offsets(start, replay.end_offset - 1),
            detail=_open_detail(transaction),
            remedy=abort_command(topic, partition, start) if hangs else None,
        )


def _has_to_end(
    coordinator: Coordinator | None,
    replay: Replay,
    transaction: OpenTransaction,
    topic_partition: TopicPartition,
) -> bool | None:
    """Return whether the coordinator has yet to end a transaction; None if its log is not here."""
    if coordinator is None:
        return None
    histories = coordinator.histories(
        {open_transaction.producer_id for open_transaction in replay.open}
    )
    return histories[transaction.producer_id].names(topic_partition)


def check_lost_ends(evidence: Evidence) -> Iterator[Finding]:
    """Report transactions of which no evidence shows whether they were committed (34)."""
    replay, facts = evidence.replay, evidence.facts
    if replay is None or facts is None or evidence.deleted_at_start:
        return
    surveys = [segment.survey for segment in replay.segments]
    for end in lost_ends(surveys, replay.start, facts):
        if end.fate is Fate.UNDECIDED:
            yield end_lost(replay.survey_at(end.begin), end, effect_of_lost_end(end, replay))


def effect_of_lost_end(end: LostEnd, replay: Replay) -> str:
    """Return what a broker makes of an undecided ``end``; ``replay`` is that of its log."""
    stable = replay.open[0].first_offset if replay.open else replay.end_offset
    effect = "waits for its end" if end.marker is None else "takes the next marker for its end"
    return f"a broker that replays the log {effect}; the last stable offset is then {stable}"


def end_lost(survey: Survey, end: LostEnd, consequence: str) -> Finding:
    """Return the finding for a transaction with an undecided fate; ``survey`` holds its begin."""
    last = end.first - 1
    return Finding(
        TRANSACTION_END_LOST,
        survey.segment.log,
        offsets=Offsets(end.begin, last),
        detail=Detail(
            f"the end of the transaction of producer {end.producer} from offset {end.begin}",
            f"missing offsets from {end.first} on: {consequence}",
        ),
        remedy=explain_command(TRANSACTION_END_LOST),
    )


def check_horizons(evidence: Evidence) -> Iterator[Finding]:
    """Check the delete horizons of batches, which only a cleaner sets (35)."""
    replay = evidence.replay
    if replay is None:
        return
    for segment in replay.segments:
        horizons = segment.survey.events.horizons
        if horizons.count and (evidence.compacted is False or horizons.lowest_ms <= 0):
            yield Finding(
                DELETE_HORIZON_ODD,
                segment.survey.segment.log,
                position=horizons.position,
                detail=Detail(
                    "a time after 1970, on a compacted topic",
                    f"{horizons.count} batches with {time_text(horizons.lowest_ms)} to "
                    f"{time_text(horizons.highest_ms)}",
                ),
            )


def _violation(survey: Survey, violation: Violation, repeats: int) -> Finding:
    code = _CODES[violation.kind]
    producer = f"of producer {violation.producer_id}, epoch {violation.producer_epoch}"
    match violation.kind:
        case ViolationKind.PLAIN:
            detail = Detail("a transactional batch", f"a batch outside of transactions, {producer}")
        case ViolationKind.EPOCH_FALLS:
            detail = Detail(f"an epoch of {violation.expected} or more", f"a batch {producer}")
        case ViolationKind.CONTROL_ODD:
            detail = Detail(
                "one record, transactional, without a sequence",
                f"a batch of another form {producer}",
            )
        case _:
            detail = Detail("a record that commits or aborts", f"another record {producer}")
    return Finding(
        code,
        survey.segment.log,
        position=violation.position,
        offsets=Offsets(violation.offset, violation.offset),
        detail=detail,
        remedy=explain_command(code),
        repeats=repeats,
    )


def _open_detail(transaction: OpenTransaction) -> Detail:
    return Detail(
        f"a marker of producer {transaction.producer_id}, epoch {transaction.producer_epoch}",
        f"none since its last batch, of {time_text(transaction.timestamp)}",
    )


CHECKS: Final = (check_transactions, check_lost_ends, check_hanging, check_horizons)
