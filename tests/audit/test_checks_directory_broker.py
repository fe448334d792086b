"""What the codes of small files and names say that a broker does, held against its own loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from brokers.oracle import Loaded, Oracle
from kdump.audit.facts.small_files import read_small
from kdump.format.checkpoint import decode_offsets
from support.recipes_directory import END, RECIPES

pytestmark = pytest.mark.broker

REFUSED, OFFLINE, LOADED = "refused", "offline", "loaded"

#: What a load ends with, where it does not leave the log as it was.
OUTCOMES: Mapping[str, str] = {
    "file-name-refused": REFUSED,
    "partition-metadata-fatal": REFUSED,
    "partition-metadata-malformed": OFFLINE,
    "epochs-malformed": OFFLINE,
    "epochs-number": REFUSED,
    "preallocated-tail-clean": REFUSED,
}
#: The log's end after the load, and its segments, of recipes that lose something or look like it.
LOST: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "start-beyond": (END + 1, (END + 1,)),
    "clean-torn": (END - 10, (0, 100)),
    "swap-empty": (100, (0, 100)),
    "swap-over-both": (150, (0,)),
    "swap-inside": (END, (0, 50, 100)),
    "swap-unknown-torn": (90, (0,)),
    "swap-unknown-empty": (100, (0, 100)),
    "name-unpadded": (END, (0, 7, 100)),
    "name-negative": (END, (-5, 0, 100)),
    "id-none-empty": (0, (0,)),
    "id-none-preallocated": (0, (0,)),
    "held": (END, (0, 50, 100)),
    "held-not-due": (END, (0, 50, 100)),
    "held-forever": (END, (0, 50, 100)),
    "future-last": (END, (0, 50, 100)),
    "clocks-differ": (END, (0, 50, 100)),
    "last-offset-moved": (130 + (1 << 20), (0, 100)),
    "last-offset-moved-known": (130 + (1 << 20), (0, 100)),
    "wiped": (0, (0,)),
    "wiped-marked": (0, (0,)),
    "wiped-epochs": (0, (0,)),
    "wiped-snapshot": (0, (0,)),
    "wiped-at-start": (END, (END,)),
    "wiped-but-swap": (100, (0,)),
    "never-written": (0, (0,)),
    # Without the first segment.
    **{each.name: (END, (100,)) for each in RECIPES if each.name.startswith("headless")},
}
#: All but the one whose fault is the metadata log's, which is no business of this loader.
PARTITIONS = [recipe for recipe in RECIPES if recipe.name != "snapshot-name"]


def offset(directory: Path, checkpoint: str, topic: str) -> int:
    """The line of a checkpoint that a broker would hand to the loader; 0 without one."""
    read = read_small(directory / checkpoint, decode_offsets)
    return {line.topic: line.offset for line in read.value or ()}.get(topic, 0)


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_loads_end_as_the_codes_say(
    version: str, oracle: Callable[[str], Oracle], tmp_path: Path
) -> None:
    differences = []
    for recipe in PARTITIONS:
        directory = tmp_path / recipe.name
        loaded = oracle(version).load(
            recipe.write(directory),
            clean=(directory / ".kafka_cleanshutdown").exists(),
            log_start=offset(directory, "log-start-offset-checkpoint", recipe.name),
            recovery_point=offset(directory, "recovery-point-offset-checkpoint", recipe.name),
            config={"index.interval.bytes": "300", "retention.ms": "-1"},
        )
        outcome = next((OUTCOMES[code] for code in recipe.expected if code in OUTCOMES), LOADED)
        if isinstance(loaded, Loaded):
            found: object = LOADED, loaded.log_end_offset, loaded.segments
            expected: object = outcome, *LOST.get(recipe.name, (END, (0, 100)))
        else:
            found, expected = OFFLINE if loaded.offline else REFUSED, outcome
        if found != expected:
            differences.append((recipe.name, expected, found))
    assert differences == []
