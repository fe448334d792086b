"""Checks of files that kdump could not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import DirectoryFacts, Read
from kdump.audit.finding_code import FindingCode, Outcome, Severity
from kdump.audit.findings import Detail, Finding, unreadable
from kdump.audit.survey.survey import ReadFailure
from kdump.audit.targets.target import Target
from kdump.errors import SourceError
from kdump.format.lines.shell import operand
from kdump.storage.logdir import EntryType, creates_target, is_special
from kdump.storage.names import FileKind
from kdump.storage.paths import AnyPath
from kdump.storage.workers import WorkerDied

UNREADABLE: Final = FindingCode(
    "unreadable",
    Severity.INCOMPLETE,
    "A file or directory cannot be read: its mode denies even its owner, the disk returned an "
    "error, or it is not a regular file.",
    "If the broker cannot read the file either, it takes the log directory offline.",
    "Check the permissions, and the system log for disk errors. Then verify again.",
    stops=Outcome.OFFLINE,
)
DENIED: Final = FindingCode(
    "denied",
    Severity.INCOMPLETE,
    "A file or directory belongs to another user, and the user that runs kdump may not read it.",
    "The broker runs as its own user, which may be able to read the file: kdump cannot tell.",
    "Run kdump as the owner of the log directory, or as root.",
)
VANISHED: Final = FindingCode(
    "vanished",
    Severity.INCOMPLETE,
    "A file or directory was not there, or became shorter while kdump read it.",
    "Not known, because kdump did not check the file. A file that is really missing has a finding "
    "of its own.",
    "Check the path, and that no other process changes the directory. Then verify again.",
)
VANISHED_LIVE: Final = FindingCode(
    "vanished-live",
    Severity.INFO,
    "A file disappeared while kdump read it and the broker was running, as in retention, rolling "
    "or cleaning.",
    "A running broker deletes and replaces segments all the time.",
    "Nothing to do.",
    check=38,
)
CHANGED_WHILE_READ: Final = FindingCode(
    "changed-while-read",
    Severity.INFO,
    "Something was wrong when kdump read it once and right when kdump read it again, or its file "
    "was replaced in between: another process was writing.",
    "A running broker appends, rolls, cleans, truncates and deletes while kdump reads.",
    "Nothing to do. If the finding recurs on files that nothing changes, test the memory and the "
    "disks.",
    check=38,
)


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


def check_top_files(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report the files at the top of a log directory that could not be read."""
    for read in facts.checkpoints:
        if read.dangling and facts.stopped:  # a broker reads it all the same
            yield Finding(UNREADABLE, read.path, detail=unreadable("a link to nothing"))
        else:
            yield from _unread_files([read], stopped=facts.stopped)
    yield from _unread_files((facts.meta, facts.bootstrap), stopped=facts.stopped)
    for entry in facts.directory.entries:
        lost = entry.type is EntryType.LINK and not creates_target(entry)
        if entry.name.kind is FileKind.LOCK and (lost or is_special(entry)):
            yield Finding(UNREADABLE, entry.path, detail=unreadable(entry.type.value))


def _unread_files(reads: Iterable[Read[Any] | None], *, stopped: bool) -> Iterator[Finding]:
    for read in reads:
        if read is not None and isinstance(read.error, SourceError):
            yield _unread_finding(ReadFailure.of(read.path, read.error), stopped=stopped)


def _unread_finding(missed: ReadFailure, *, stopped: bool) -> Finding:
    code = DENIED if missed.denied else UNREADABLE
    detail = unreadable(missed.text)
    if missed.vanished:
        code = VANISHED if stopped else VANISHED_LIVE
        detail = detail if stopped else detail.as_live()
    return Finding(code, missed.path, detail=detail)


def unread_file(target: Target, missed: ReadFailure) -> Finding:
    """Return the finding for a file that could not be read, which does not count as damage."""
    found = _unread_finding(missed, stopped=target.stopped)
    return (
        found if found.code is VANISHED_LIVE else replace(found, remedy=verify_again(target.path))
    )


def killed_reader(path: AnyPath, died: WorkerDied, target: Target) -> Finding:
    """Return the finding for a file whose reader a signal killed."""
    detail = Detail("a reader that ends by itself", f"a reader that {died.label} killed")
    return Finding(UNREADABLE, path, detail=detail, remedy=verify_again(target.path))


def verify_again(path: AnyPath) -> tuple[str, ...]:
    """Return the command that verifies ``path`` again, the remedy if no other is known."""
    return "kdump", "verify", operand(path)


SEGMENT_CHECKS: Final = (check_unread,)
CHECKS: Final = (check_unread_files,)
DIRECTORY_CHECKS: Final = (check_top_files,)
