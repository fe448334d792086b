"""Where the text of ``dump`` differs from Kafka's own dump tool, and why.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.4.0. Help, manual and tests read this table; the
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
        "zero slots": "Empty slots of a preallocated index are counted in a single line, "
        "zeroSlots; Kafka's tool takes the first for an entry if there is none "
        "before it, and stops there, although stale entries may follow.",
        "decoders": "--data decodes keys and values of internal topics, also of other releases; "
        "Kafka's tool needs an option for each topic, and reads those of its own release. If a "
        "record cannot be decoded, the reason is worded differently. A log does not say which tool "
        "reads it: the status of a transaction is its name, as in the tool of 4.4, for logs of all "
        "releases; earlier tools print its number.",
        "secrets": 'Decoded metadata has "redacted" in place of SCRAM keys and of configs that '
        "are passwords; Kafka's tool prints them.",
        "corruption": "Corruption is printed where it occurs, and the dump continues after it; "
        "Kafka's tool ends with an exception, and does not print the files that follow.",
        "judgement": "No index is compared with its log, which is what kdump verify does; Kafka's "
        "tool prints mismatches to standard error.",
        "files": "Checkpoints, leader epochs, metadata and files whose names end in .deleted, "
        ".cleaned, .swap, .tmp or .part are printed too; Kafka's tool ignores them.",
    }
)
