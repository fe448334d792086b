"""Several losses in one log at once: none hides another, and their sum is right."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.forge import flip
from support.long_samples import first_of, wrong_seeds
from support.losses import NAMES, Losses, places

pytestmark = pytest.mark.once

FEW: Final = 30


def wrong(seed: int, top: Path) -> list[str]:
    """What ``verify`` counts wrong after damage by a seed."""
    name = NAMES[seed % len(NAMES)]
    directory = copy_fixture("4.3.1/clean", top / "data")
    losses = Losses(seed, directory / name)
    lost = losses.lost
    ran = kdump("verify", directory, "--topic", name.rpartition("-")[0], searching=False)
    (line,) = (each for each in ran.of("forecast") if each["path"].endswith(name))
    records = line["lost_now"]["records"]
    said = [] if records == len(lost) else [f"{name}: {records} records, expected {len(lost)}"]
    if ran.code != (4 if lost or losses.zeros else 0):
        said.append(f"{name}: exit code {ran.code}")
    return said


@pytest.mark.parametrize("seed", first_of(range(FEW), 10, every=1))
def test_no_loss_hides_another(seed: int, tmp_path: Path) -> None:
    assert wrong(seed, tmp_path) == []


@pytest.mark.parametrize("corrupt", [0, 1])
def test_corruption_does_not_hide_that_the_last_batch_was_zeroed(
    corrupt: int, tmp_path: Path
) -> None:
    """The end of the log is known as long as no corruption follows its last valid batch."""
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    log = max((directory / "codec-none-0").glob("*.log"))
    *others, last = places(log)
    data = log.read_bytes()
    for place in others[:corrupt]:
        data = flip(data, place.end - 1)
    log.write_bytes(data[: last.position] + bytes(last.size))
    ran = kdump("verify", directory, "--topic", "codec-none", searching=False)
    (line,) = ran.of("forecast")
    lost = sum(len(place.offsets) for place in [*others[:corrupt], last])
    assert line["lost_now"]["records"] == lost
    assert "recovery-point-beyond-end" in {each["code"] for each in ran.of("finding")}


@pytest.mark.nightly
def test_no_loss_hides_another_in_many_logs(tmp_path: Path) -> None:
    assert wrong_seeds(wrong, tmp_path, FEW, 1000) == {}
