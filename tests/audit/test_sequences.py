"""The evidence of sequence numbers at a gap: only producers on both sides of it count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.commands import kdump
from support.damaged import FIRST, LAST, batches, name
from support.forge import batch, flip, record
from support.recipes_directory import RECIPES

HOLE = next(recipe for recipe in RECIPES if recipe.name == "hole-unknown")


def of(producer: int, offset: int, sequence: int, count: int = 10, epoch: int = 0) -> bytes:
    return batch(
        offset,
        [record() for _ in range(count)],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def gaps(directory: Path, first: Sequence[bytes], last: Sequence[bytes]) -> list[dict[str, Any]]:
    """The findings about missing offsets in a log of two segments, of unknown settings."""
    partition = HOLE.write(directory)
    for base, pieces in ((FIRST, first), (LAST, last)):
        (partition / name(base, ".log")).write_bytes(b"".join(pieces))
    ran = kdump("verify", directory, searching=False)
    named = ("records-missing", "offsets-missing", "batch-offset-changed")
    return [finding for finding in ran.of("finding") if finding["code"] in named]


def codes(directory: Path, first: Sequence[bytes], last: Sequence[bytes]) -> list[str]:
    return [finding["code"] for finding in gaps(directory, first, last)]


#: Of two producers, the first is idle from 70 on.
BEFORE = [*[of(7, 10 * number, 10 * number) for number in range(7)], of(8, 70, 0)]


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        # A sequence breaks far behind the hole, and over the hole none does.
        ([of(8, 100, 10), of(8, 110, 50)], "offsets-missing"),
        ([of(8, 100, 10), of(7, 110, 70), of(7, 120, 90)], "batch-offset-changed"),
        ([of(8, 100, 30), of(7, 110, 70)], "records-missing"),
        ([of(8, 100, 10), of(7, 110, 90)], "records-missing"),
        # Both go on, or the new one of them begins behind the hole.
        ([of(8, 100, 10), of(7, 110, 70)], "batch-offset-changed"),
        ([of(9, 100, 0), of(8, 110, 10), of(7, 120, 70)], "batch-offset-changed"),
        # Those of whom nothing follows may have lost batches; so may those that do not number.
        ([of(8, 100, 10), of(8, 110, 20)], "offsets-missing"),
        ([of(9, 100, 40), of(8, 110, 10), of(7, 120, 70)], "offsets-missing"),
        ([of(8, 100, 10), of(7, 110, 0, epoch=1)], "offsets-missing"),
        ([of(8, 100, 10), of(7, 110, 70), *batches(120, 1)], "offsets-missing"),
    ],
)
def test_between_segments(behind: Sequence[bytes], code: str, tmp_path: Path) -> None:
    assert codes(tmp_path, BEFORE, behind) == [code]


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        ([of(8, 80, 10), of(8, 90, 40)], "offsets-missing"),
        ([of(8, 80, 30), of(7, 90, 60)], "records-missing"),
        ([of(8, 80, 10), of(7, 90, 60)], "batch-offset-changed"),
        ([of(9, 80, 0), of(8, 90, 10)], "offsets-missing"),
    ],
)
def test_inside_a_segment(behind: Sequence[bytes], code: str, tmp_path: Path) -> None:
    before = [*[of(7, 10 * number, 10 * number) for number in range(6)], of(8, 60, 0)]
    assert codes(tmp_path, [*before, *behind], [of(10, 100, 0)]) == [code]


def test_a_break_before_the_gap_does_not_count(tmp_path: Path) -> None:
    before = [of(7, 0, 0), of(8, 10, 0), of(8, 20, 30), of(7, 30, 10)]
    before += [of(7, 40 + 10 * number, 20 + 10 * number) for number in range(4)]
    assert codes(tmp_path, before, [of(8, 100, 40), of(7, 110, 60)]) == ["batch-offset-changed"]


def test_one_flipped_bit_of_the_last_offset_shows_beside_other_producers(tmp_path: Path) -> None:
    first = [*BEFORE, *batches(80, 2)]
    last = [of(8, 100, 10), of(7, 110 + (1 << 20), 70)]
    (found,) = gaps(tmp_path, first, last)
    assert found["code"] == "batch-offset-changed"
    assert found["detail"]["found"] == (
        f"{110 + (1 << 20)}: the sequence of producer 7 continues after them"
    )


def test_the_only_batch_of_the_last_segment(tmp_path: Path) -> None:
    first = [*[of(7, 10 * number, 10 * number) for number in range(10)]]
    (found,) = gaps(tmp_path, first, [of(7, 100 + (1 << 20), 100)])
    assert found["code"] == "batch-offset-changed"
    assert found["offsets"] == {"first": 100, "last": 99 + (1 << 20)}


def test_a_jump_over_damage_too_is_no_evidence_for_the_gap(tmp_path: Path) -> None:
    damaged = flip(of(7, 60, 60), -1)
    first = [*[of(7, 10 * number, 10 * number) for number in range(6)], damaged, of(8, 70, 0)]
    assert codes(tmp_path, [*first, of(7, 90, 70)], [of(7, 100, 80)]) == ["offsets-missing"]


def test_more_breaks_than_are_listed_leave_it_undecided(tmp_path: Path) -> None:
    first = [of(7, 10 * number, 10 * number) for number in range(10)]
    last = [*[of(7, 100 + n, 500 + 30 * n, 1) for n in range(10)], of(7, 170, 771)]
    assert codes(tmp_path, first, last) == ["offsets-missing"]


@pytest.mark.parametrize("depth", [[], ["--quick"]], ids=["default", "quick"])
def test_a_partition_that_is_deleted_needs_no_decision(depth: list[str], tmp_path: Path) -> None:
    """The settings of a topic are deleted before its logs, which may have been compacted."""
    partition = HOLE.write(tmp_path)
    before = kdump("verify", *depth, tmp_path, searching=False)
    assert "offsets-missing" in [finding["code"] for finding in before.of("finding")]
    partition.rename(partition.with_name(f"{partition.name}.{32 * '0'}-delete"))
    ran = kdump("verify", *depth, tmp_path, searching=False)
    assert "offsets-missing" not in [finding["code"] for finding in ran.of("finding")]
