"""The process of the command: its scripts call ``main``, and ``python -m kdump`` does.

This module is imported before all others, and imports hardly anything itself, so that Ctrl-C ends
the process silently also while the modules of a command are imported.
"""

from __future__ import annotations

import sys
from typing import NoReturn

_INTERRUPTED = 130  # as in kdump.ui.exits, which takes time to import


def main() -> int:
    """Run the process's arguments and return the exit code."""
    try:
        import signal

        before = signal.getsignal(signal.SIGINT)
        # A shell starts background jobs with SIGINT ignored, and so it stays.
        guarded = before is signal.default_int_handler
        if guarded:
            signal.signal(signal.SIGINT, _end)
        from kdump.cli.main import main as run

        if guarded:
            signal.signal(signal.SIGINT, before)
        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _end(*_: object) -> NoReturn:
    # An exception amid an import may be swallowed, or become another one. There is nothing to undo.
    import os

    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
