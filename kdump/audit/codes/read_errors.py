"""Finding codes of files that could not be read or checked.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Outcome, Severity

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
    "A file disappeared while kdump read it beside a running broker, as in retention, rolling or "
    "cleaning.",
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
LIMIT: Final = FindingCode(
    "limit",
    Severity.INCOMPLETE,
    "A batch decompresses to more data than kdump reads at once: its records were not checked.",
    "The broker has no such limit. Consumers decompress the batch piece by piece.",
    "Find out whether a client sends such batches on purpose. If not, the batch may be a "
    "decompression bomb.",
)
