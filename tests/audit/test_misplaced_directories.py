"""Directories that have the name of an index or of a producer snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from brokers.programs import ProgramError, consume
from support.commands import kdump
from support.fixtures_loader import copy_fixture

NAME = "codec-none-0"
FIRST, LAST, END = 0, 60, 122
SETTINGS = {"log.cleaner.enable": "true", **QUICK_RESTART}


def directory(data: Path, offset: int, extension: str) -> Path:
    """A directory in the place of a file."""
    path = data / NAME / f"{offset:020d}.{extension}"
    path.unlink(missing_ok=True)
    path.mkdir()
    return path


def codes(data: Path, *options: str) -> set[str]:
    return {line["code"] for line in kdump("verify", *options, data).of("finding")}


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("extension", ["index", "timeindex"])
def test_the_index_of_an_older_segment_is_opened_when_it_is_read(
    state: str, extension: str, tmp_path: Path
) -> None:
    data = copy_fixture(f"4.3.1/{state}", tmp_path / "data")
    directory(data, FIRST, extension)
    assert "index-is-directory" in codes(data, "--quick")
    ran = kdump("next-start", data)
    (summary,) = ran.of("summary")
    assert [start["outcome"] for start in summary["next_starts"]] == ["starts"]
    assert ran.code == 4


def test_a_snapshot_that_recovery_cannot_write_costs_the_segment(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    directory(data, LAST, "snapshot")
    assert "snapshot-is-directory" in codes(data)
    ran = kdump("next-start", "--scan", data)
    (forecast,) = (line for line in ran.of("forecast") if line["topic"] == "codec-none")
    assert (forecast["outcome"], forecast["release"]) == ("offline", "4.3")
    assert forecast["cut"] == {"segment": LAST, "position": 0, "offset": LAST}
    lost = forecast["lost"]
    assert (lost["sound"], lost["first_offset"], lost["last_offset"]) == (62, LAST, END - 1)


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.parametrize(("version", "left"), [("4.3.1", 0), ("3.9.1", 4571)])
def test_a_broker_from_4_0_on_truncates_what_it_cannot_recover(
    version: str, left: int, tmp_path: Path
) -> None:
    data = copy_fixture(f"{version}/killed", tmp_path / "data")
    directory(data, LAST, "snapshot")
    lines = refused_start(version, data, SETTINGS)
    assert any(f"{LAST:020d}.snapshot: Is a directory" in line for line in lines)
    assert (data / NAME / f"{LAST:020d}.log").stat().st_size == left


@pytest.mark.broker
@pytest.mark.nightly
def test_a_broker_starts_and_ends_when_a_consumer_reads_the_segment(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    directory(data, FIRST, "index")
    read = tmp_path / "read"
    read.mkdir()
    with Broker("4.3.1", data, SETTINGS) as broker:
        with pytest.raises(ProgramError):
            consume("4.3.1", broker.bootstrap, "read_uncommitted", [NAME], read)
        lines = broker.log_lines()
        broker.kill()
    assert any(f"{FIRST:020d}.index (Is a directory)" in line for line in lines)
