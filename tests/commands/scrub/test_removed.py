"""Sealed segments that a scrub has read, and that are gone: before retention could, or after."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from kdump.history.rows import TABLES
from kdump.ui import exits
from support import forge
from support import forge_metadata as meta
from support.commands import kdump
from support.crashing.running import run
from support.damaged import FIRST, LAST, batches, name
from support.fixtures_loader import copy_fixture
from support.forge import checkpoint
from support.recipes_directory import DAY_MS, OTHER_ID, kraft
from support.scrubs import World, codes, summary

TITLE = "kept"
PARTITION = f"{TITLE}-0"
ENDINGS = (".log", ".index", ".timeindex")
EPOCHS = "leader-epoch-checkpoint"
LONG_MS = 200_000 * DAY_MS
"""Longer than the records are old."""

FOR_EVER = {"retention.ms": "-1"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(tmp_path, FOR_EVER)


def made(top: Path, configs: dict[str, str]) -> World:
    """A log directory of one topic with two segments that were read."""
    values = [meta.config(TITLE, key, value) for key, value in configs.items()]
    (top / "data").mkdir()
    kraft(TITLE, "", *values).write(top / "data")
    world = World(top)
    assert world.scrub().code == exits.OK
    return world


def remove(world: World, base: int = FIRST) -> None:
    for ending in ENDINGS:
        (world.data / PARTITION / name(base, ending)).unlink(missing_ok=True)


def test_what_retention_keeps_is_missed_until_it_is_back(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.data / PARTITION, tmp_path / "backup")
    remove(world)
    for _ in range(2):  # an alarm that is read a day later still stands
        ran = world.scrub()
        assert (ran.code, codes(ran)) == (
            exits.PROBLEMS,
            ["first-segment-missing", "segment-removed"],
        )
    (found,) = (line for line in ran.of("finding") if line["code"] == "segment-removed")
    assert found["offsets"] == {"first": 0, "last": 99}
    assert found["detail"]["expected"].startswith("1 sealed segment from offset 0 on, last read at")
    shutil.copytree(tmp_path / "backup", world.data / PARTITION, dirs_exist_ok=True)
    ran = world.scrub()
    assert (ran.code, codes(ran)) == (exits.OK, [])


def test_the_remembered_timestamp_decides(tmp_path: Path) -> None:
    """The log that is left does not show how old the missing records were."""
    world = made(tmp_path, {"retention.ms": str(LONG_MS)})
    remove(world)
    assert codes(kdump("verify", world.data, searching=False)) == ["log-start-unexplained"]
    assert codes(world.scrub()) == ["log-start-unexplained", "segment-removed"]


@pytest.mark.parametrize(
    "configs", [{"retention.ms": str(DAY_MS)}, {**FOR_EVER, "retention.bytes": "1"}]
)
def test_retention_explains_it(configs: dict[str, str], tmp_path: Path) -> None:
    world = made(tmp_path, configs)
    remove(world)
    ran = world.scrub()
    assert (ran.code, codes(ran)) == (exits.OK, [])


def explained(world: World, how: str) -> None:
    partition = world.data / PARTITION
    match how:
        case "deletion by the broker":
            (partition / EPOCHS).write_bytes(checkpoint([(0, LAST)]))
        case "DeleteRecords":
            (world.data / "log-start-offset-checkpoint").write_bytes(
                checkpoint([(TITLE, 0, LAST + 5)])
            )
        case "files of the deletion":
            (partition / name(FIRST, ".log.deleted")).write_bytes(b"")
        case "another topic":
            (partition / "partition.metadata").write_bytes(forge.partition_metadata(OTHER_ID))


@pytest.mark.parametrize("how", ["DeleteRecords", "files of the deletion"])
def test_what_explains_it(how: str, world: World) -> None:
    remove(world)
    explained(world, how)
    assert codes(world.scrub()) == []
    assert codes(world.scrub()) == []


def test_without_the_leader_epochs_the_memory_is_left(world: World) -> None:
    remove(world)
    (world.data / PARTITION / EPOCHS).unlink()
    ran = kdump("verify", world.data, searching=False)
    assert (ran.code, codes(ran)) == (exits.OK, [])
    assert "log-start-raised" in {each["code"] for each in ran.of("finding")}
    for _ in range(2):
        ran = world.scrub()
        assert ran.code == exits.PROBLEMS
        assert "segment-removed" in codes(ran)
    (summary,) = ran.of("summary")
    assert summary["losses"]["now"] == LAST


@pytest.mark.parametrize(
    ("configs", "also"),
    [(FOR_EVER, {"log-start-raised"}), ({"retention.ms": str(LONG_MS)}, set())],
)
def test_only_delete_records_explains_it(
    configs: dict[str, str], also: set[str], tmp_path: Path
) -> None:
    """Up to the first offset of a segment, it leaves no line in log-start-offset-checkpoint."""
    world = made(tmp_path, configs)
    remove(world)
    explained(world, "deletion by the broker")
    found = kdump("verify", world.data, searching=False)
    assert codes(found) == []
    assert {each["code"] for each in found.of("finding")} & {"log-start-raised"} == also
    for _ in range(2):
        ran = world.scrub()
        assert (ran.code, codes(ran)) == (exits.OK, ["segment-removed-unproven"])


def test_retention_by_time_explains_moved_epochs(tmp_path: Path) -> None:
    world = made(tmp_path, {"retention.ms": str(DAY_MS)})
    remove(world)
    explained(world, "deletion by the broker")
    ran = world.scrub()
    assert (ran.code, codes(ran)) == (exits.OK, [])


def test_the_plan_heals_what_is_gone(tmp_path: Path) -> None:
    """The second run reads nothing, and its plan has the repair of ``verify`` all the same."""
    node = copy_fixture("4.3.1/replicas", tmp_path / "r") / "2"
    argv = ["scrub", str(node), "--state", str(tmp_path / "scrub.db")]
    run(argv, searching=False)
    for path in (node / "behind-0").glob("00000000000000000000.*"):
        path.unlink()
    for _ in range(2):
        out = run(argv, searching=False).out
        assert "segment-removed" in out
        assert f"kdump heal {node / 'behind-0'} --from COPY" in out
        assert "behind-0: no command repairs it" not in " ".join(out.split())


def test_a_topic_that_was_created_again_has_another_history(world: World) -> None:
    remove(world)
    explained(world, "another topic")
    assert "segment-removed" not in codes(world.scrub())


def test_a_follower_truncates_its_log(world: World) -> None:
    partition = world.data / PARTITION
    for ending in ENDINGS:
        (partition / name(LAST, ending)).unlink()
    assert codes(world.scrub()) == []


def test_the_cleaner_merges_segments(tmp_path: Path) -> None:
    world = made(tmp_path, {"cleanup.policy": "compact"})
    (world.data / PARTITION / name(FIRST, ".log")).write_bytes(
        b"".join([*batches(FIRST)[:3], *batches(LAST)])
    )
    remove(world, LAST)
    assert "segment-removed" not in codes(world.scrub())


def test_a_deleted_partition_is_forgotten(world: World) -> None:
    other = world.data / "other-0"
    shutil.copytree(world.data / PARTITION, other)
    world.scrub()
    shutil.rmtree(other)
    assert "segment-removed" not in codes(world.scrub())


@pytest.mark.parametrize("version", [1, 2])
def test_a_state_of_an_earlier_version_begins_anew(world: World, version: int) -> None:
    """Its rows have no digest: a flipped one cannot be told from a right one."""
    with sqlite3.connect(world.state) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table.name} DROP COLUMN sum")
        if version == 1:
            connection.execute("ALTER TABLE segments DROP COLUMN max_timestamp")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = world.state.read_bytes()
    shown = kdump("scrub", "--status", "--state", world.state, searching=False)
    assert (shown.code, world.state.read_bytes()) == (exits.INCOMPLETE, before)
    assert f"found version {version}, which the next scrub begins anew" in shown.said
    ran = world.scrub()
    assert (ran.code, summary(ran)["bytes"]) == (
        exits.OK,
        sum(log.stat().st_size for log in world.data.rglob("*.log")),
    )
    assert kdump("scrub", "--status", "--state", world.state, searching=False).code == exits.OK
    remove(world)
    assert codes(world.scrub()) == ["first-segment-missing", "segment-removed"]
