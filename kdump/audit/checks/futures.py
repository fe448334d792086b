"""Checks of future logs, which a move between log directories writes.

Spec: ``LogManager.recoverAbandonedFutureLogs`` (KAFKA-16082); KOD 9, checks 24, 28 and 29.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.evidence import Evidence, NodeEvidence
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.audit.startup.future_loss import lost_to_successor
from kdump.audit.targets.future_logs import FutureFate
from kdump.storage.logdir import directory_name

_EXPECTED: Final = {
    FutureFate.REFUSED: (codes.FUTURE_BESIDE_CURRENT, "the current log in another log directory"),
    FutureFate.IGNORED: (codes.FUTURE_UNUSED, "the current log in another log directory"),
    FutureFate.EMPTIED: (codes.FUTURE_ALONE, "a current log in one of the node's log directories"),
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
            code: FindingCode = codes.FUTURE_ALONE if alone else codes.FUTURE_STRAY
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
    lost = lost_to_successor(facts, evidence.log_end)
    if lost.first_offset is None or lost.last_offset is None:
        yield Finding(codes.FUTURE_REPLACES, facts.partition.path, size=evidence.log_bytes)
        return
    yield file_finding(
        codes.FUTURE_SHORTER,
        facts.partition.path,
        f"a future log up to offset {lost.last_offset + 1}",
        f"{facts.successor.path}, which ends at {facts.successor.end}",
        offsets=Offsets(lost.first_offset, lost.last_offset),
    )
