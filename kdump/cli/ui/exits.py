"""The numbers of the exit codes.

They are a promise to scripts.
"""

from __future__ import annotations

import signal
from typing import Final

OK: Final = 0
BUG: Final = 1
USAGE: Final = 2
PROBLEMS: Final = 4
INCOMPLETE: Final = 5
REFUSED: Final = 6
INTERRUPTED: Final = 128 + signal.SIGINT.value
CLOSED_PIPE: Final = 128 + signal.SIGPIPE.value
TERMINATED: Final = 128 + signal.SIGTERM.value
