"""Checks of files that kdump could not read, or that the broker may not open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kdump.audit import codes
from kdump.audit.evidence import Evidence
from kdump.audit.facts.denied_files import DeniedFile
from kdump.audit.facts.small_files import DirectoryFacts, Read
from kdump.audit.findings import Detail, Finding, unreadable
from kdump.audit.survey.survey import ReadFailure
from kdump.audit.targets.target import Target
from kdump.errors import SourceError
from kdump.format.lines.shell import operand
from kdump.storage.paths import AnyPath
from kdump.storage.workers import WorkerDied


def check_unread(evidence: Evidence) -> Iterator[Finding]:
    """Report logs and indexes that a survey could not read."""
    for survey in evidence.surveys:
        for missed in survey.unread:
            yield unread_file(evidence.target, missed)


def check_unread_files(evidence: Evidence) -> Iterator[Finding]:
    """Report the small files of a partition that could not be read."""
    facts = evidence.facts
    if facts is None:
        return
    small = (facts.epochs, facts.metadata, facts.quorum_state, facts.repairs)
    reads = (*small, *facts.snapshots.values(), *facts.txn_indexes.values())
    yield from _unread_files(reads, stopped=facts.stopped)


def check_broker_rights(evidence: Evidence) -> Iterator[Finding]:
    """Report, in one finding, the files of a partition that the broker's user may not open."""
    facts = evidence.facts
    if facts is not None and facts.denied:
        yield _denied_files(facts.denied, _repair_rights(facts.partition.path, facts.denied))


def check_broker_rights_at_top(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report, in one finding, the top files that the broker's user may not open."""
    if facts.denied:
        paths = [operand(file.path) for file in facts.denied]
        owned = all(file.owned for file in facts.denied)
        change = ("chmod", "u+rwX") if owned else ("chown", "-h", f"{facts.denied[0].user}:")
        yield _denied_files(facts.denied, (*change, *paths))


def _denied_files(denied: Sequence[DeniedFile], remedy: tuple[str, ...]) -> Finding:
    first = denied[0]
    more = f", and {len(denied) - 1:,} more such files" if len(denied) > 1 else ""
    detail = Detail(first.expected, f"{first.found}{more}")
    return Finding(codes.BROKER_DENIED, first.path, detail=detail, remedy=remedy)


def _repair_rights(partition: AnyPath, denied: Sequence[DeniedFile]) -> tuple[str, ...]:
    """Return the command that gives a partition's files to the broker's user.

    It leaves out files with several links: another link may be a file outside of the directory.
    """
    path = operand(partition)
    if all(file.owned for file in denied):
        return ("chmod", "-R", "u+rwX", path)
    user = denied[0].user
    ours = ("(", "-type", "d", "-o", "-links", "1", ")")
    return (
        *("find", path, "-xdev", "-not", "-user", user, *ours),
        *("-exec", "chown", "-h", f"{user}:", "{}", "+"),
    )


def check_top_files(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report the files at the top of a log directory that could not be read."""
    checkpoints = (
        facts.recovery_points,
        facts.high_watermarks,
        facts.log_starts,
        facts.cleaner_offsets,
    )
    for read in checkpoints:
        if read is not None and read.dangling and facts.stopped:  # a broker reads it all the same
            yield Finding(codes.UNREADABLE, read.path, detail=unreadable("a link to nothing"))
        else:
            yield from _unread_files([read], stopped=facts.stopped)
    yield from _unread_files((facts.meta, facts.bootstrap), stopped=facts.stopped)


def _unread_files(reads: Iterable[Read[Any] | None], *, stopped: bool) -> Iterator[Finding]:
    for read in reads:
        if read is not None and isinstance(read.error, SourceError):
            yield _unread_finding(ReadFailure.of(read.path, read.error), stopped=stopped)


def _unread_finding(missed: ReadFailure, *, stopped: bool) -> Finding:
    code = codes.DENIED if missed.denied else codes.UNREADABLE
    detail = unreadable(missed.text)
    if missed.vanished:
        code = codes.VANISHED if stopped else codes.VANISHED_LIVE
        detail = detail if stopped else detail.as_live()
    return Finding(code, missed.path, detail=detail)


def unread_file(target: Target, missed: ReadFailure) -> Finding:
    """Return the finding for a file that could not be read, which does not count as damage."""
    found = _unread_finding(missed, stopped=target.stopped)
    return (
        found
        if found.code is codes.VANISHED_LIVE
        else replace(found, remedy=verify_again(target.path))
    )


def killed_reader(path: AnyPath, died: WorkerDied, target: Target) -> Finding:
    """Return the finding for a file whose reader a signal killed."""
    detail = Detail("a reader that ends by itself", f"a reader that {died.label} killed")
    return Finding(codes.UNREADABLE, path, detail=detail, remedy=verify_again(target.path))


def verify_again(path: AnyPath) -> tuple[str, ...]:
    """Return the command that verifies ``path`` again, the remedy if no other is known."""
    return "kdump", "verify", operand(path)
