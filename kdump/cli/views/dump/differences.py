"""Where the text of ``dump`` differs from Kafka's own dump tool, and why.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.3.1. Help, manual and tests read this table; the
tests know no other difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DIFFERENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "escapes": "Characters that could upset a terminal, line breaks among them, are printed as "
        "\\xNN, \\uNNNN or \\UNNNNNNNN; Kafka's tool prints them as they are.",
        "zero slots": "The slots of a preallocated index that hold nothing yet are counted in one "
        "line, zeroSlots; Kafka's tool takes the first for an entry if there is none before it, "
        "and stops there, although stale entries may follow.",
        "damage": "Damage is a line in its place, and what stands behind it follows; Kafka's tool "
        "ends with an exception, and the files that follow are not printed.",
        "judgement": "No index is held against its log: that is what kdump verify does; Kafka's "
        "tool prints mismatches to standard error.",
        "files": "Checkpoints, leader epochs, metadata and files whose names end in .deleted, "
        ".cleaned, .swap, .tmp or .part are printed too; Kafka's tool ignores them.",
    }
)
