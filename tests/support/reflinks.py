"""File systems that clone files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from support.crashing.seam import Call


def cloning(call: Call, make: Callable[..., Any]) -> Any:
    """As on a file system that clones."""
    if call.method == "clone":
        target, source = call.arguments
        os.sendfile(target, source, 0, os.fstat(source).st_size)
        return None
    assert call.method != "copy"
    return make(*call.arguments)
