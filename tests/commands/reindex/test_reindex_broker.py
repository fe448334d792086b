"""``kdump reindex --all`` against recovery: the loaders of 3.9.1 and 4.3.1 on the same copies.

Of each damaged partition one copy is reindexed by kdump, the others are recovered by the
brokers' own loaders, from the beginning. Where those leave a log as it is, its indexes must be the
same, and so must be whatever else kdump has written.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brokers.oracle import Loaded
from support.crashing.conditions import NIGHT
from support.resealing import places
from support.side_by_side import Copy, Mended, Of, compare_all, differs, mend, sizes, sound, unlike
from support.starts import Start, starts

pytestmark = pytest.mark.broker

SEED = 7
#: Those of the starts of a night, another each night.
SEEDS = (0, 4)
SAMPLE = 20
#: The kinds of differences.
LISTED = {
    "swaps": "the broker finishes a swap first; kdump refuses, and leaves that to it",
}


def spread(seed: int) -> list[Start]:
    """All starts, but of swaps, which are refused, only as many as of most other kinds."""
    return [
        start for start in starts(seed) if start.name not in {f"swap {n}" for n in range(15, 28)}
    ]


def mend_one(start: Start, target: Path) -> Mended:
    """Write one copy and have kdump index it."""
    return mend(start, target, "reindex", "--all")


def compare(mended: Mended, copy: Copy) -> tuple[str | None, list[str]]:
    """Hold what kdump made of its copy against what a loader made of another."""
    assert mended.before == sound(mended.directory)
    if not isinstance(copy.loaded, Loaded):
        return None, []
    ours, theirs = sizes(mended.directory), sizes(copy.directory)
    wrong = unlike(mended, copy) if ours == theirs else []
    for name in (name for name, size in ours.items() if theirs.get(name) == size):
        for suffix in (".index", ".timeindex"):
            file = Path(name).with_suffix(suffix)
            why = differs(mended.directory / file, copy.directory / file)
            active = name == max(theirs)
            if why and not (active and begins(mended.directory / file, copy.directory / file)):
                wrong.append(f"{file}: {why}")
    if mended.ran.code == 6 and copy.swap:
        return ("swaps" if wrong else None), []
    return None, wrong


def begins(mended: Path, loaded: Path) -> bool:
    """Whether the valid entries of the last segment's index are those of the other one.

    Until a broker closes it, slots follow that hold nothing, or what was there before.
    """
    ours, theirs = mended.read_bytes(), loaded.read_bytes()
    behind = ours[len(theirs) :]
    if mended.suffix == ".timeindex":
        return ours.startswith(theirs) and not any(behind)
    # An index that points only to the first batch does not belong to this log.
    points_to = int.from_bytes(behind[4:8], "big")
    starts_at = {start for start, _ in places(mended.with_suffix(".log").read_bytes())}
    return ours.startswith(theirs) and points_to not in starts_at - {0}


def test_a_sample_is_indexed_as_by_a_broker(oracle: Of, tmp_path: Path) -> None:
    chosen = random.Random(SEED).sample(sorted(starts(), key=lambda start: start.name), SAMPLE)
    compare_all(chosen, oracle, tmp_path, mend_one, compare, unlike)


@pytest.mark.nightly
def test_all_are_indexed_as_by_a_broker(oracle: Of, tmp_path: Path) -> None:
    counts = compare_all(
        spread(SEEDS[NIGHT % len(SEEDS)]), oracle, tmp_path, mend_one, compare, unlike
    )
    assert counts["all"] >= 400
    assert set(counts) <= {"all", *LISTED}
    assert counts.total() - counts["all"] <= counts["all"] * 0.03
