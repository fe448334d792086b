"""What is said of a store that misbehaves."""

from __future__ import annotations

import json
import re
from typing import Any


def told(lines: list[dict[str, Any]], place: str) -> list[dict[str, Any]]:
    """What does not depend on where the files are, and how long it took."""
    prefix, _, query = place.partition("?")
    kept = []
    for line in lines:
        text = json.dumps(line).replace(f"?{query}" if query else "\0", "").replace(prefix, "ROOT")
        text = re.sub(r"[0-9]+, the present", "the present", text)
        one = json.loads(text)
        for name in ("seconds", "bytes_per_second", "liveness", "jobs"):
            one.pop(name, None)
        kept.append(one)
    return kept
