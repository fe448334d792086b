"""An idle log whose last epoch has no batch: only ``leader-epoch-checkpoint`` knows it.

The cleaner has removed all records from offset 10 on, and the active segment, from 15 on, is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support import forge

TOPIC = "idle"
#: The offset at which epoch 1 began, and the log end offset.
PARTING, END = 10, 15
WHOLE = forge.checkpoint([(0, 0), (1, PARTING)])
FORGOTTEN = forge.checkpoint([(0, 0)])
#: A broker does not start on it; both lines can be read.
MALFORMED = b"0\n9\n" + WHOLE.split(b"\n", 2)[2] + b"2\n"


def write(directory: Path, files: Mapping[str, bytes | None]) -> Path:
    """Write the partition into a log directory; ``files`` are for ``forge.write_partition``."""
    batches = [
        forge.batch(base, [forge.record(key=b"k%d" % base, value=b"v")]) for base in range(PARTING)
    ]
    return forge.write_partition(directory, TOPIC, 0, {0: batches, END: []}, files=files)
