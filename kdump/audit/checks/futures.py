"""Checks of future logs, which a move between log directories writes.

Spec: ``LogManager.recoverAbandonedFutureLogs`` (KAFKA-16082); KOD 9, checks 24, 28, 29
and 31.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.checks.segments import ran_until_ms
from kdump.audit.evidence import Evidence, NodeEvidence
from kdump.audit.facts.missing_start import missing_start, missing_unseen, retention_deletes
from kdump.audit.facts.small_files import PartitionFacts, Successor
from kdump.audit.finding_code import FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.audit.startup.future_loss import lost_to_successor
from kdump.audit.targets.future_logs import FutureFate
from kdump.storage.logdir import directory_name
from kdump.storage.selection import HIGHEST

FUTURE_BESIDE_CURRENT: Final = FindingCode(
    "future-beside-current",
    Severity.ERROR,
    "A log directory holds both the current log and the -future log of a partition, and the "
    "cluster's metadata assigns the replica to this log directory. A broker does not create this "
    "state: log directories were merged, or a directory was copied.",
    "The broker tries to rename the -future directory to the name of the current one, and does not "
    "start. The next startup fails in the same way.",
    "Compare the two with kdump verify and kdump dump, and move the directory whose log ends "
    "earlier out of the log directory. Without its current log, the broker takes the -future log "
    "for the current one.",
    check=29,
    stops=Outcome.REFUSES,
)
FUTURE_UNUSED: Final = FindingCode(
    "future-unused",
    Severity.WARNING,
    "A log directory holds both the current log and the -future log of a partition. The cluster's "
    "metadata assigns the replica to another log directory, or is not known.",
    "The broker starts and does not use the -future log. A broker without ZooKeeper reports the "
    "directory of the current log to the cluster, and its next startup fails.",
    "Compare the two with kdump verify and kdump dump, and move the directory whose log ends "
    "earlier out of the log directory.",
    check=29,
)
FUTURE_STRAY: Final = FindingCode(
    "future-stray",
    Severity.WARNING,
    "A -future log has no partition.metadata, or according to the node's own metadata log this "
    "node is not a replica of its partition. The current log of the partition remains.",
    "The broker renames the directory to -stray and ends the move.",
    "Start the move again if it is still wanted. The -stray directory can then be deleted.",
    check=24,
)
FUTURE_ALONE: Final = FindingCode(
    "future-alone",
    Severity.ERROR,
    "No log directory holds the current log of a partition of this node, and startup does not make "
    "the -future log the current one: the -future log has no partition.metadata, or the cluster's "
    "metadata assigns the replica to another log directory.",
    "The broker creates an empty current log. If it leads, offsets are assigned a second time, and "
    "the -future log is truncated to the empty one or renamed to -stray.",
    "If another replica is in sync, start its broker first: this broker then fetches all records. "
    "Otherwise rename the directory to the partition's name and move it to the log directory that "
    "the metadata assigns, before a broker starts; kdump reindex writes a missing "
    "partition.metadata.",
    check=24,
    harm=Harm.EMPTY,
)
FUTURE_REPLACES: Final = FindingCode(
    "future-replaces",
    Severity.INFO,
    "A move between log directories is complete except for the last step: the cluster's metadata "
    "assigns the replica to the log directory with the -future log.",
    "The broker makes the -future log the current one, and deletes this log.",
    "Nothing to do.",
    check=28,
)
FUTURE_SHORTER: Final = FindingCode(
    "future-shorter",
    Severity.ERROR,
    "The cluster's metadata assigns the replica to the log directory with the -future log, which "
    "ends before the current log.",
    "The broker makes the -future log the current one, and deletes this log with the records that "
    "the -future log does not hold. It does so after a clean shutdown too.",
    "If another replica is in sync, the broker fetches the records again from its leader. "
    "Otherwise, before a broker starts, move the -future directory out of its log directory, and "
    "this directory into it: the broker then starts with this log.",
    check=28,
)

FUTURE_STARTS_LATER: Final = FindingCode(
    "future-starts-later",
    Severity.ERROR,
    "The cluster's metadata assigns the replica to the log directory with the -future log, which "
    "lacks its first segments: this log holds their records. Neither retention, by the topic's "
    "configs, nor DeleteRecords explains this.",
    "The broker makes the -future log the current one, and deletes this log with the records that "
    "the -future log does not hold. If this replica leads, all others take over the log start "
    "offset and delete these records too. It does so after a clean shutdown too.",
    "Before a broker starts, move the -future directory out of its log directory, and this "
    "directory into it: the broker then starts with this log.",
    check=31,
)
FUTURE_START_UNEXPLAINED: Final = FindingCode(
    "future-start-unexplained",
    Severity.WARNING,
    "The cluster's metadata assigns the replica to the log directory with the -future log, which "
    "begins after this log. kdump cannot determine whether retention or DeleteRecords removed the "
    "records between the two beginnings.",
    "The broker makes the -future log the current one, and deletes this log.",
    "If the records are wanted, move the -future directory out of its log directory before a "
    "broker starts, and this directory into it: the broker then starts with this log.",
    check=31,
)

_EXPECTED: Final = {
    FutureFate.REFUSED: (FUTURE_BESIDE_CURRENT, "the current log in another log directory"),
    FutureFate.IGNORED: (FUTURE_UNUSED, "the current log in another log directory"),
    FutureFate.EMPTIED: (FUTURE_ALONE, "a current log in one of the node's log directories"),
}


def check_future_logs(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report the future logs that a start does not just go on to fill.

    While a broker runs, a move goes on: only a state that no move passes through counts.
    """
    stopped = all(facts.stopped for facts in evidence.directories)
    for future in evidence.futures:
        name = directory_name(future.path)
        if future.fate is FutureFate.STRAY and name is not None:
            alone = future.current is None and evidence.node.holds(name.topic, name.partition)
            code: FindingCode = FUTURE_ALONE if alone else FUTURE_STRAY
            expected = "the id of a topic that this node has in partition.metadata"
            found = "none" if evidence.node.image is None else "no such id"
        elif future.fate in _EXPECTED:
            code, expected = _EXPECTED[future.fate]
            found = "none" if future.current is None else str(future.current)
        else:
            continue
        if stopped or future.fate is FutureFate.REFUSED:
            yield file_finding(code, future.path, expected, found)


def check_successor(evidence: Evidence) -> Iterator[Finding]:
    """Report a log in place of which the start makes a future log the current one."""
    facts = evidence.facts
    if facts is None or facts.successor is None or not facts.stopped:
        return
    found = [*_lost_start(evidence, facts, facts.successor)]
    lost = lost_to_successor(facts, evidence.log_end)
    if lost.first_offset is not None and lost.last_offset is not None:
        found.append(
            file_finding(
                FUTURE_SHORTER,
                facts.partition.path,
                f"a future log up to offset {lost.last_offset + 1}",
                f"{facts.successor.path}, which ends at {facts.successor.end}",
                offsets=Offsets(lost.first_offset, lost.last_offset),
            )
        )
    yield from found or [
        Finding(FUTURE_REPLACES, facts.partition.path, size=evidence.log_bytes),
    ]


def _lost_start(
    evidence: Evidence, facts: PartitionFacts, successor: Successor
) -> Iterator[Finding]:
    """Report the records before the first segment of a future log that only this log holds."""
    if successor.facts is None:
        return
    shown = missing_start(successor.facts)
    missing = shown or missing_unseen(successor.facts)
    if missing is None or not facts.partition.segments:
        return
    last = min(missing.last, HIGHEST if evidence.log_end is None else evidence.log_end - 1)
    first = max(facts.start_offset, facts.partition.segments[0].base_offset)
    if first > last:
        return
    gone = [
        survey.max_timestamp
        for survey in evidence.surveys
        if evidence.ends.get(survey.segment.base_offset, HIGHEST) <= missing.last + 1
    ]
    deleted = retention_deletes(
        successor.facts,
        missing,
        successor.bytes,
        ran_until_ms(evidence),
        max(gone, default=None),
    )
    if deleted:
        return
    certain = shown is not None and deleted is False
    yield file_finding(
        FUTURE_STARTS_LATER if certain else FUTURE_START_UNEXPLAINED,
        facts.partition.path,
        f"a future log from offset {first} on",
        f"{successor.path}, which begins at {missing.last + 1}",
        offsets=Offsets(first, last),
    )


CHECKS: Final = (check_successor,)
NODE_CHECKS: Final = (check_future_logs,)
