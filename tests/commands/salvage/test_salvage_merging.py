"""A partition put together from replicas, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.heal.forged_copies import broken, plain
from kdump.cli.main import main
from kdump.ui import exits
from support import forge
from support.damaged import name

GOOD = {0: plain(0, 100), 100: plain(100, 200)}


def replica(top: Path, node: str, *numbers: int) -> Path:
    """A replica whose first segment has corrupt batches at ``numbers``."""
    damaged = GOOD[0]
    for number in numbers:
        damaged = broken(damaged, number)
    path = forge.write_partition(top / node, "t", 0, GOOD)
    (path / name(0, ".log")).write_bytes(b"".join(damaged))
    return path


@pytest.mark.parametrize(("other", "lost"), [((9,), ()), ((3, 9), (3,))])
def test_each_replica_gives_what_the_other_lacks(
    other: tuple[int, ...], lost: tuple[int, ...], tmp_path: Path
) -> None:
    paths = [replica(tmp_path, "one", 3), replica(tmp_path, "two", *other)]
    out = tmp_path / "out"
    assert main(["salvage", *map(str, paths), "--output", str(out)]) == exits.OK
    kept = b"".join(one for at, one in enumerate(GOOD[0]) if at not in lost)
    assert (out / "t-0" / name(0, ".log")).read_bytes() == kept
    assert (out / "t-0" / name(100, ".log")).read_bytes() == b"".join(GOOD[100])


def test_a_segment_that_only_the_other_replica_has(tmp_path: Path) -> None:
    paths = [replica(tmp_path, "one", 3), replica(tmp_path, "two")]
    for file in paths[0].glob(name(100, ".*")):
        file.unlink()
    out = tmp_path / "out"
    assert main(["salvage", *map(str, paths), "--output", str(out)]) == exits.OK
    for base in GOOD:
        assert (out / "t-0" / name(base, ".log")).read_bytes() == b"".join(GOOD[base])
