"""A metadata log that ends before what it had is never called whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.ui import exits
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.long_samples import first_of
from support.metadata_ends import CHANGES, METADATA, vanished_with_indexes

RELEASES = ("3.9.1", "4.3.1", "4.4.0")
COMMANDS = (
    ("verify",),
    ("verify", "--quick"),
    ("verify", "--deep"),
    ("next-start",),
    ("next-start", "--scan"),
    ("quorum",),
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("release", first_of(reversed(RELEASES), every=1))
def test_no_command_gives_the_all_clear(release: str, change: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{release}/clean", tmp_path / "data")
    CHANGES[change](data)
    for command in COMMANDS:
        ran = kdump(*command, data, searching=False)
        assert ran.code == exits.PROBLEMS, command


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("release", RELEASES)
def test_what_brokers_leave_is_whole(release: str, state: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{release}/{state}", tmp_path / "data")
    found = {each["code"] for each in kdump("verify", data, searching=False).of("finding")}
    assert "metadata-end-missing" not in found


def test_offsets_that_a_snapshot_holds_are_not_missing(tmp_path: Path) -> None:
    """Those after it are."""
    data = copy_fixture("3.9.1/clean", tmp_path / "data")
    vanished_with_indexes(data)
    (found,) = (
        each
        for each in kdump("verify", data, searching=False).of("finding")
        if each["code"] == "metadata-end-missing"
    )
    assert found["offsets"] == {"first": 195, "last": 281}
    for path in (data / METADATA).glob("*.snapshot"):
        path.unlink()
    (data / METADATA / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    found_now = kdump("verify", data, searching=False).of("finding")
    assert "metadata-end-missing" not in {each["code"] for each in found_now}
