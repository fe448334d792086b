"""Whether the loops of the kernel run compiled, and a warning where that takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

#: What takes long on plain Python: more than some ten seconds.
_LARGE_BYTES: Final = 1 << 30


def kernel_name() -> str:
    """Return the kind of the kernel that runs."""
    from kdump.format.kernel.headers import COMPILED

    return "compiled" if COMPILED else "plain"


def warn_if_plain(sizes: Iterable[int]) -> None:
    """Print a warning if more than a GiB is read with a plain kernel; ``sizes`` are in bytes."""
    if kernel_name() == "plain" and sum(sizes) > _LARGE_BYTES:
        print(
            "kdump: its inner loops run as plain Python, about ten times slower than compiled: "
            "install a C compiler and Python's headers, such as gcc and python3-dev, then install "
            "kdump again",
            file=sys.stderr,
            flush=True,
        )
