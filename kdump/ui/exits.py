"""The numbers of the exit codes, and the code of an error that ends a command.

They are a promise to scripts.
"""

from __future__ import annotations

import signal
from typing import Final

from kdump.errors import Refused, Unfinished, UsageError

OK: Final = 0
BUG: Final = 1
USAGE: Final = 2
PROBLEMS: Final = 4
INCOMPLETE: Final = 5
REFUSED: Final = 6
INTERRUPTED: Final = 128 + signal.SIGINT.value
CLOSED_PIPE: Final = 128 + signal.SIGPIPE.value
TERMINATED: Final = 128 + signal.SIGTERM.value


def exit_code_of(error: Exception) -> int:
    """Return the exit code of a command that ended with ``error``."""
    if isinstance(error, Unfinished):
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        return TERMINATED if isinstance(error.__cause__, SystemExit) else INCOMPLETE
    if isinstance(error, UsageError):
        return USAGE
    return REFUSED if isinstance(error, Refused) else INCOMPLETE


def is_signal(code: int) -> bool:
    """Return whether a signal ended the work: then no further partition is begun."""
    return code in (INTERRUPTED, TERMINATED)
