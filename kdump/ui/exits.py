"""The ending of a run, and the exit code that follows from it.

No other module decides an exit code. The numbers are a promise to scripts.
"""

from __future__ import annotations

import signal
from typing import Final, Self

from kdump.errors import Refused, Unfinished, UsageError
from kdump.values import frozen

OK: Final = 0
BUG: Final = 1
USAGE: Final = 2
PROBLEMS: Final = 4
INCOMPLETE: Final = 5
REFUSED: Final = 6
INTERRUPTED: Final = 128 + signal.SIGINT.value
CLOSED_PIPE: Final = 128 + signal.SIGPIPE.value
TERMINATED: Final = 128 + signal.SIGTERM.value


@frozen
class Ending:
    """What a run, or its part for one partition, came to.

    ``stopped_by`` is the signal that ended it. ``unread``: something that was asked for could not
    be read, or a repair is done in part. ``refused``: nothing was changed, because something stands
    in the way. ``misused``: the command line asks for what is not there. ``problems`` were found or
    are left. All of them may hold at once; the exit code is that of the first.
    """

    stopped_by: signal.Signals | None = None
    unread: bool = False
    refused: bool = False
    misused: bool = False
    problems: bool = False

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Return the ending of what ``error`` ended."""
        if isinstance(error, Unfinished) and isinstance(error.__cause__, KeyboardInterrupt):
            return cls(stopped_by=signal.SIGINT)
        if isinstance(error, Unfinished) and isinstance(error.__cause__, SystemExit):
            return cls(stopped_by=signal.SIGTERM)
        if isinstance(error, UsageError):
            return cls(misused=True)
        refused = isinstance(error, Refused)
        return cls(refused=refused, unread=not refused)

    def __or__(self, other: Ending) -> Ending:
        """Return the ending of two parts together."""
        return Ending(
            self.stopped_by or other.stopped_by,
            self.unread or other.unread,
            self.refused or other.refused,
            self.misused or other.misused,
            self.problems or other.problems,
        )

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by.value
        if self.unread:
            return INCOMPLETE
        if self.refused:
            return REFUSED
        if self.misused:
            return USAGE
        return PROBLEMS if self.problems else OK


#: The ending of a command whose paths hold nothing that it could read.
NOTHING_READ: Final = Ending(unread=True)
