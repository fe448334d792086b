"""What many clients do to a broker, drawn from a seed, for as long as it is wanted.

Spec: ``java/Churn.java``.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from brokers.broker import Broker
from brokers.programs import ProgramError, command, run
from brokers.topics import at_least

SETTINGS = {
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "5000",
}
"""Settings of a broker that does soon what others do after minutes."""

_FOR_EVER = 1_000_000_000


def churn(broker: Broker, seed: int, steps: int) -> None:
    """Do so many things to ``broker``. Raises ProgramError."""
    run(broker.version, "Churn", *_arguments(broker, seed, steps))


@contextmanager
def churning(broker: Broker, seed: int) -> Iterator[None]:
    """Do things to ``broker`` while the block runs. Raises ProgramError if that ended before."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command(broker.version, "Churn", *_arguments(broker, seed, _FOR_EVER)),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            yield
            if process.poll() is not None:
                said.seek(0)
                raise ProgramError(f"Churn ended early:\n{said.read().decode(errors='replace')}")
        finally:
            process.kill()
            process.wait()


def _arguments(broker: Broker, seed: int, steps: int) -> tuple[str, ...]:
    small = "internal.segment.bytes" if at_least(broker.version, "4.1") else "segment.bytes"
    return broker.bootstrap, str(seed), str(steps), small
