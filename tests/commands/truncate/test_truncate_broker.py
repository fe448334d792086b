"""``kdump truncate-to-valid`` against recovery: the loaders of 3.9.1 and 4.3.1 on the same copies.

Of each damaged partition one copy is cut by kdump, the others are recovered by the brokers' own
loaders, from the beginning. What kdump has written must be what the loader leaves. ``INSTEAD`` and
``UNMADE`` say where it is not, and why; in none of it kdump keeps less than the broker.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from brokers.oracle import Loaded
from kdump.repair.transaction.plan import Loss, Plan
from support.crashing.conditions import NIGHT
from support.side_by_side import (
    Copy,
    Mended,
    Of,
    compare_all,
    ends,
    jumps,
    mend,
    sizes,
    sound,
    unlike,
)
from support.starts import Start, starts

pytestmark = pytest.mark.broker

SEED = 6
#: Those of the starts of a night, another each night.
SEEDS = (0, 4)
SAMPLE = 30
#: kdump cuts elsewhere, and keeps more. What it then writes is what the broker makes of logs that
#: end there.
INSTEAD = {
    "stops": "the broker does not start; kdump cuts, so that it does",
    "empties": "the broker empties a segment with an offset that does not rise, and drops what is "
    "behind; kdump cuts before that offset",
    "splits": "the broker splits a segment whose last batch lies too far from its base; kdump cuts "
    "before that batch",
}
#: kdump changes nothing where the broker does.
UNMADE = {
    "holes": "without an index the broker cuts one log alone, and keeps the later ones behind a "
    "hole; kdump refuses",
    "swaps": "the broker finishes a swap first; kdump refuses, and leaves that to it",
    "restarts": "the log ends below its log start: the broker begins an empty one there; for kdump "
    "nothing is wrong with the batches",
}


def compare_cut(mended: Mended, cut: Copy) -> list[str]:
    """In what kdump's copy is not what a broker makes of logs that end there.

    Where offsets do not rise, a broker that replays such a log gives transactions the ends of
    others: a copy of an abort marker before a commit marker hides committed records. There the
    entries of the transaction index that end below the cut stay, as they were before. So they do
    where offsets jump, but for those of which the log has neither a batch nor the marker.
    """
    wrong = unlike(mended, cut)
    (plan,) = mended.plans
    accepted = any("Recovery accepts this" in note for note in plan.notes)
    if not accepted and not jumps(max(mended.directory.glob("*.log"))):
        return wrong
    return [text for text in wrong if not _keeps_entries(mended, text.partition(": ")[0], plan)]


def _keeps_entries(mended: Mended, name: str, plan: Plan) -> bool:
    """Whether a transaction index has the entries that it had, those that end below the cut."""
    if not name.endswith(".txnindex"):
        return False
    (old,) = mended.directory.glob(f".kdump/{plan.id}/old/{name}")
    data, end = old.read_bytes(), plan.log_end[1]
    assert end is not None
    entries = (data[at : at + 34] for at in range(0, len(data), 34))
    gaps = jumps((mended.directory / name).with_suffix(".log"))
    below = [
        entry
        for entry in entries
        for first, last in [struct.unpack_from(">qq", entry, 10)]
        if last < end and not any(gap.start <= first and last in gap for gap in gaps)
    ]
    return (mended.directory / name).read_bytes() == b"".join(below)


def mend_one(start: Start, target: Path) -> Mended:
    """Write one copy and have kdump cut it: the plan says what is lost."""
    mended = mend(start, target, "truncate-to-valid")
    gone = mended.before - sound(mended.directory)
    (loss,) = [plan.loss for plan in mended.plans] or [Loss()]
    # The headers of older formats do not say how many records are inside.
    if all(batch.magic == 2 for batch in gone):
        assert loss.sound.count == sum(batch.records * times for batch, times in gone.items()), (
            start
        )
    return mended


def compare(mended: Mended, copy: Copy) -> tuple[str | None, list[str]]:
    """Hold what kdump made of its copy against what a loader made of another."""
    if not isinstance(copy.loaded, Loaded):
        return ("stops" if mended.plans else None), []
    ours, theirs = sizes(mended.directory), sizes(copy.directory)
    if ours == theirs:
        return None, unlike(mended, copy) + ends(mended, copy)
    if copy.swap and not mended.plans:
        return "swaps", []
    if mended.ran.code == 6:
        return "holes", []
    # What lies too far from its segment's base has no offset that was ever given to it.
    less = (sound(copy.directory) & mended.before) - sound(mended.directory)
    wrong = [f"kdump keeps less: {less}"] if less else []
    said = "\n".join(copy.loaded.messages)
    if "Found invalid offset during recovery" in said:
        return "empties", wrong
    if "Splitting overflowed segment" in said:
        return "splits", wrong
    if copy.log_start and copy.loaded.segments == (copy.log_start,):
        return "restarts", wrong
    return None, [*wrong, f"{ours} for {theirs}"]


def test_a_sample_is_cut_as_by_a_broker(oracle: Of, tmp_path: Path) -> None:
    chosen = random.Random(SEED).sample(sorted(starts(), key=lambda start: start.name), SAMPLE)
    compare_all(chosen, oracle, tmp_path, mend_one, compare, compare_cut)


@pytest.mark.nightly
def test_all_are_cut_as_by_a_broker(oracle: Of, tmp_path: Path) -> None:
    counts = compare_all(
        starts(SEEDS[NIGHT % len(SEEDS)]), oracle, tmp_path, mend_one, compare, compare_cut
    )
    assert counts["all"] >= 400
    assert set(counts) <= {"all", *INSTEAD, *UNMADE}
    assert sum(counts[kind] for kind in UNMADE) <= counts["all"] * 0.03
    # A tenth of all has batches twice, swapped, or with another base offset.
    assert sum(counts[kind] for kind in INSTEAD) <= counts["all"] * 0.07
