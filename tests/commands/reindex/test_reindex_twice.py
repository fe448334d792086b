"""``kdump reindex --all`` twice: the second run finds nothing to do, and no evidence is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.side_by_side import mend
from support.starts import starts


@pytest.mark.parametrize(
    "name",
    [
        "flip base-offset 9",  # a last batch whose offset is beyond the next segment
        "torn 0",  # a first segment without most of its batches, but with their aborts
        "torn 14",
        "log start 13",  # a log start beyond the log end, which the first run removes
    ],
)
def test_a_second_run_changes_nothing(name: str, tmp_path: Path) -> None:
    (start,) = (start for start in starts(4) if start.name == name)
    mended = mend(start, tmp_path / "mended", "reindex", "--all")
    assert mended.ran.code == 0


def test_aborts_of_lost_batches_stay(tmp_path: Path) -> None:
    """They show which transactions had ended before the segments that follow."""
    (start,) = (start for start in starts(4) if start.name == "torn 0")
    mended = mend(start, tmp_path / "mended", "reindex", "--all")
    index = mended.directory / "00000000000000000000.txnindex"
    assert index.stat().st_size == 4 * 34
