"""Finding codes of files that could not be read or checked.

Spec: the behaviour and the messages of brokers of 3.9 to 4.3. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Outcome, Severity

UNREADABLE: Final = FindingCode(
    "unreadable",
    Severity.INCOMPLETE,
    "A file or directory could not be read: its owner has no right to, a disk fails, or it is no "
    "regular file.",
    "A file that it cannot read takes the log directory offline.",
    "Check the system's log for disk errors and the permissions, and verify again.",
    ("Could not read file {}",),
    stops=Outcome.OFFLINE,
)
DENIED: Final = FindingCode(
    "denied",
    Severity.INCOMPLETE,
    "A file or directory belongs to another user, and the user that runs kdump may not read it.",
    "Runs as its own user, which may be able to read it: nothing is known here.",
    "Run kdump as the owner of the log directory, or as root.",
)
VANISHED: Final = FindingCode(
    "vanished",
    Severity.INCOMPLETE,
    "A file or directory was not there, or became shorter while it was read.",
    "What is missing is a matter of its own; nothing was judged here.",
    "Check the path, and that nothing else works in the directory; then verify again.",
)
VANISHED_LIVE: Final = FindingCode(
    "vanished-live",
    Severity.INFO,
    "A file went away while it was read beside a running broker: retention, rolling or cleaning.",
    "It deletes and replaces segments all the time.",
    "Nothing to do.",
    check=38,
)
CHANGED_WHILE_READ: Final = FindingCode(
    "changed-while-read",
    Severity.INFO,
    "Something looked wrong at one look and not at another, or its file was replaced in between: "
    "somebody was writing.",
    "It appends, rolls, cleans, truncates and deletes while others read.",
    "Nothing to do. If it comes back on files that nobody changes, test memory and disks.",
    check=38,
)
LIMIT: Final = FindingCode(
    "limit",
    Severity.INCOMPLETE,
    "A batch decompresses to more than kdump reads at once: its records were not judged.",
    "Has no such limit; consumers decompress it piece by piece.",
    "If nobody sends such batches on purpose, it may be a decompression bomb.",
)
