"""``verify --changed-since-last``: what scrubs have read is left out, and the run says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import Ran, kdump
from support.directory_state import state as state_of
from support.scrubs import World, codes, rewrite, summary


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World.make(tmp_path)
    assert made.scrub().code == 0
    return made


def verify(world: World, *options: str) -> Ran:
    return kdump(
        "verify", world.data, "--changed-since-last", "--state", world.state, *options,
        searching=False,
    )  # fmt: skip


def test_what_is_unchanged_is_left_out(world: World) -> None:
    before = state_of(world.top)
    ran = verify(world)
    assert ran.code == 0
    found = summary(ran)
    assert found["left_out"] == {"segments": 55, "log_bytes": world.bytes_of()}
    assert state_of(world.top) == before


def test_only_what_has_changed_is_read(world: World) -> None:
    changed, hidden = world.log("codec-none-0"), world.log("codec-zstd-0")
    for log, silently in ((changed, False), (hidden, True)):
        data = log.read_bytes()
        rewrite(log, data[:100] + bytes([data[100] ^ 1]) + data[101:], silently=silently)
    ran = verify(world)
    assert (ran.code, codes(ran, ("error",))) == (4, ["batch-crc-mismatch"])
    assert summary(ran)["left_out"]["segments"] == 54
    assert (
        codes(kdump("verify", world.data, searching=False), ("error",))
        == ["batch-crc-mismatch"] * 2
    )


def test_damage_is_never_left_out(world: World) -> None:
    log = world.log("codec-none-0")
    data = log.read_bytes()
    rewrite(log, data[:100] + bytes([data[100] ^ 1]) + data[101:], silently=False)
    assert world.scrub().code == 4
    ran = verify(world)
    assert (ran.code, codes(ran, ("error",))) == (4, ["batch-crc-mismatch"])
    assert summary(ran)["left_out"]["segments"] == 54


def test_directories_that_no_scrub_has_seen_are_read(world: World, tmp_path: Path) -> None:
    other = World.make(tmp_path / "other", "4.3.1/clean")
    ran = kdump(
        "verify", other.data, "--changed-since-last", "--state", world.state, searching=False
    )
    assert summary(ran)["left_out"] == {"segments": 0, "log_bytes": 0}
    assert summary(ran)["bytes"] >= other.bytes_of()


@pytest.mark.parametrize("option", ["--quick", "--deep"])
def test_what_does_not_go_together(world: World, option: str) -> None:
    ran = verify(world, option)
    assert (ran.code, ran.lines) == (2, ())
    assert "--changed-since-last: expected no --quick" in ran.said
    ran = kdump("verify", world.data, "--state", world.state, searching=False)
    assert (ran.code, ran.lines) == (2, ())
    assert "--state: expected --changed-since-last" in ran.said


def test_without_a_state(world: World, tmp_path: Path) -> None:
    ran = kdump(
        "verify", world.data, "--changed-since-last", "--state", tmp_path / "no", searching=False
    )
    assert (ran.code, ran.lines) == (5, ())
    assert "No such file" in ran.said


def test_of_a_partition_of_a_scrubbed_directory(world: World) -> None:
    ran = kdump(
        "verify", world.data / "codec-none-0", "--changed-since-last", "--state", world.state,
        searching=False,
    )  # fmt: skip
    assert summary(ran)["left_out"]["segments"] == 2
