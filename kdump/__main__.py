"""The process of the command: its scripts call ``main``, and ``python -m kdump`` does.

This module is imported before all others, and imports nothing that is not loaded yet, so that
Ctrl-C ends the process silently also while the modules of a command are imported.
"""

import _signal  # type: ignore[import-not-found]  # built in; signal takes time to import
import sys

_INTERRUPTED = 130  # as in kdump.ui.exits, which takes time to import


def _end(*_: object) -> None:
    # An exception amid an import may be swallowed, or become another one. There is nothing to undo.
    import os

    os._exit(_INTERRUPTED)


_DEFAULT = _signal.default_int_handler
# A shell starts background jobs with SIGINT ignored, and so it stays.
_GUARDED = _signal.getsignal(_signal.SIGINT) is _DEFAULT
if _GUARDED:
    _signal.signal(_signal.SIGINT, _end)


def main() -> int:
    """Run the process's arguments and return the exit code."""
    try:
        from kdump.cli.main import main as run

        if _GUARDED:
            _signal.signal(_signal.SIGINT, _DEFAULT)
        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
