"""The notes of a conversion.

Spec: KIP-98, which brought magic 2 with 0.11; KIP-110, zstd with 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kdump.format.codecs import Codec
from kdump.repair.rewrite.conversion import Rules

#: The note on a directory that a broker deletes at its next start.
DELETED_NOTE: Final = (
    "a broker deletes this directory at startup, so nothing in it is converted; kdump salvage "
    "copies its records"
)


def readers_note(rules: Rules) -> str:
    """Return the note on the brokers that cannot read logs written by ``rules``."""
    release = "2.1" if rules.codec is Codec.ZSTD else "0.11"
    return f"brokers before {release} cannot read the result"


def epochs_note(stamped: int) -> str:
    """Return the note on ``stamped`` batches that get a leader epoch."""
    batches = "1 batch" if stamped == 1 else f"{stamped:,} batches"
    return (
        f"{batches} of message format v2 without a leader epoch get the epoch of their offset, "
        "because followers refuse such batches"
    )


def split_note(log: str, bases: Sequence[int]) -> str:
    """Return the note on a log that is split into logs that begin at ``bases``."""
    return (
        f"{log} becomes larger than a segment can be: it is split into {len(bases)} logs, which "
        f"begin at {', '.join(map(str, bases))}"
    )
