"""Checks of files that the broker may not open.

Spec: the rights of its user, as the system checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.denied_files import DeniedFile
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.finding_code import FindingCode, Outcome, Severity
from kdump.audit.findings import Detail, Finding
from kdump.format.lines.shell import operand
from kdump.storage.paths import AnyPath

BROKER_DENIED: Final = FindingCode(
    "broker-denied",
    Severity.ERROR,
    "The broker's user may not open a file or directory, as after root restored files or started "
    "the broker. The broker's user is the user that owns most partition directories.",
    "A running broker continues to use its open files. The next startup takes the whole log "
    "directory offline, and the broker exits if it has no other log directory. If the broker may "
    "open the files of a partition but not change its directory, brokers from 4.0 on also delete "
    "all records of a segment that they recover, and of one more segment at each startup.",
    "Run the command of the finding as root: it gives the files to the broker's user. Then verify "
    "again. Start the broker only as its own user.",
    check=40,
    stops=Outcome.OFFLINE,
)


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
    return Finding(BROKER_DENIED, first.path, detail=detail, remedy=remedy)


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


CHECKS: Final = (check_broker_rights,)
DIRECTORY_CHECKS: Final = (check_broker_rights_at_top,)
