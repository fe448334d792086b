"""Reports on the same files in a store and in a file system, made comparable."""

from __future__ import annotations

import json
import re
from typing import Any


def comparable_lines(lines: list[dict[str, Any]], address: str) -> list[dict[str, Any]]:
    """Return ``lines`` without what depends on the ``address`` of the files or on time."""
    prefix, _, query = address.partition("?")
    # What commands that change files name, since none changes an object.
    copy = prefix.partition("://")[2] or prefix
    comparable = []
    for line in lines:
        text = json.dumps(line).replace(f"?{query}" if query else "\0", "").replace(prefix, "ROOT")
        text = text.replace(copy, "ROOT")
        text = re.sub(r"[0-9T:.-]+Z, the present", "the present", text)
        fields = json.loads(text)
        for name in ("seconds", "bytes_per_second", "liveness", "jobs"):
            fields.pop(name, None)
        # A store does not tell its file system, nor what files take on it.
        for start in fields.get("next_starts", ()):
            for name in ("file_system", "writes_bytes"):
                del start[name]
        comparable.append(fields)
    return comparable
