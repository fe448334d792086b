"""The name of the command, which advice and usage messages show."""

from __future__ import annotations

import sys
from typing import Final

NAME: Final = "kdump"
#: Packages install this name alone: on their systems the other may be the kernel's.
OTHER_NAME: Final = "kafka-kdump"


def program() -> str:
    """Return the name by which this process was called, ``kdump`` in a process of another."""
    return OTHER_NAME if sys.argv[0].rpartition("/")[2] == OTHER_NAME else NAME
