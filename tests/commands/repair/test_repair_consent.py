"""A repair loses what its plan said, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.heal.forged_copies import broken
from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST, LAST
from commands.repair.repairing import directory, left, plan_id, repair
from kdump.ui import exits
from support.damaged import name
from support.fixtures_loader import copy_fixture
from support.forge import flip

pytestmark = pytest.mark.once

GOOD = damaged.whole()
LOG = Path("orders-0") / name(LAST, ".log")


@pytest.fixture
def amid_and_at_the_end(place: Path) -> tuple[Path, Path]:
    """A log that is corrupt amid it and at its end, and a replica that ends before its end."""
    last = len(GOOD[LAST]) - 1
    corrupt = {FIRST: broken(GOOD[FIRST], 3), LAST: broken(GOOD[LAST], last)}
    data = directory(place / "data", {"orders": (corrupt, {})})
    shorter = {FIRST: GOOD[FIRST], LAST: GOOD[LAST][:last]}
    return data, directory(place / "replica", {"orders": (shorter, {})}, node=b"2")


@pytest.mark.parametrize("only", [(), ("--only", "replica")])
def test_no_record_is_lost_after_a_cure_that_loses_none(
    amid_and_at_the_end: tuple[Path, Path], only: tuple[str, ...]
) -> None:
    """The unreadable end may have records, and nobody agreed to remove it."""
    data, replica = amid_and_at_the_end
    command = ("--from", replica, *only, data)
    size = (data / LOG).stat().st_size
    assert left(*command).keys() == {"orders-0"}
    shown = repair(*command)
    assert shown.code == exits.INCOMPLETE
    assert "loss        no record" in shown.out
    ran = repair(*command, "--apply")
    assert ran.code == exits.INCOMPLETE, ran
    assert "LEFT        orders-0" in ran.out
    assert (data / LOG).stat().st_size == size


def test_only_one_kind_leaves_the_log_as_it_is(place: Path) -> None:
    """A partition whose plan has the checkpoint files of its directory is no exception."""
    data = directory(place / "data", {"orders": (damaged.torn(GOOD), {})})
    (data / "replication-offset-checkpoint").write_bytes(b"garbage\n")
    size = (data / LOG).stat().st_size
    assert left(data, "--only", "rebuild") == {"orders-0": "--only leaves its cure out"}
    ran = repair(data, "--only", "rebuild", "--apply")
    assert ran.code == exits.INCOMPLETE, ran
    assert (data / LOG).stat().st_size == size
    assert (data / "replication-offset-checkpoint").read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("cures", [(), ("--as-broker",)])
def test_a_replica_that_is_refused_is_no_reason_to_lose_records(
    place: Path, cures: tuple[str, ...]
) -> None:
    data, replica = damaged.write(place)
    (replica / "meta.properties").write_bytes(damaged.META.replace(b"=c", b"=other"))
    found = left("--from", replica, *cures, data)
    assert found.keys() == {"middle-0", "end-0"}
    assert all(
        "expected a replica of cluster c, found cluster other" in why for why in found.values()
    )
    itself = left("--from", data, *cures, data)
    assert itself.keys() == {"middle-0", "end-0"}


def test_a_compacted_log_that_a_replica_may_have_is_left(place: Path) -> None:
    """Its batches are not those of the replica: nothing is taken, and nothing is removed."""
    data, replica = place / "data", place / "replica"
    for path in (data, replica):
        copy_fixture("4.3.1/clean", path)
    log = max((data / "compacted-0").glob("*.log"))
    log.write_bytes(flip(log.read_bytes(), -1))
    assert "may be compacted" in left("--from", replica, data)["compacted-0"]
    assert left(data) == {}


def test_a_path_without_a_replica_leaves_the_other_cures(place: Path) -> None:
    data, _ = damaged.write(place)
    other = directory(place / "other", {"another": (GOOD, {})}, node=b"2")
    assert left("--from", other, data).keys() == {"middle-0"}
    assert left("--from", other, "--as-broker", data) == {}


def test_the_consent_names_the_plan_that_is_carried_out(place: Path) -> None:
    data, _ = damaged.write(place)
    agreed = plan_id(data)
    assert plan_id(data, "--as-broker") != agreed
    assert repair(data, "--as-broker", "--apply", "--confirm", agreed).code == exits.REFUSED
