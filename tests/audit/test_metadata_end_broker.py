"""A broker whose metadata log has lost its end goes on without it, as is forecast."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.broker
METADATA = "__cluster_metadata-0"


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_what_came_after_the_snapshot_is_forgotten(version: str, tmp_path: Path) -> None:
    """Topics that were made after it become stray."""
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    oldest, *later = sorted((data / METADATA).glob("*.checkpoint"))
    for path in (*later, *(data / METADATA).glob(f"{0:020}.*")):
        path.unlink()
    ran = kdump("next-start", "--scan", data)
    assert ran.code == 4
    (found,) = (each for each in ran.of("finding") if each["code"] == "metadata-end-missing")
    assert found["offsets"]["first"] == int(oldest.name.partition("-")[0])
    before = {path.name for path in data.iterdir() if path.is_dir()}
    with Broker(version, data, QUICK_RESTART):
        pass
    stray = {path.name.partition(".")[0] for path in data.glob("*-stray")}
    assert stray
    assert stray <= before
