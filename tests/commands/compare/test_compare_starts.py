"""``compare`` of replicas whose logs begin at different offsets.

Spec: ``ReplicaFetcherThread.processPartitionData``, with which a follower takes over the log start
offset of its leader.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support.commands import Ran, kdump
from support.damaged import FIRST, batches, name
from support.fixtures_loader import copy_fixture
from support.forge import checkpoint
from support.recipes_directory import RECIPES

BY_NAME = {recipe.name: recipe for recipe in RECIPES}
EPOCHS = "leader-epoch-checkpoint"


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """The log directories of nodes 1 to 3, with equal replicas of ``same``."""
    return copy_fixture("4.3.1/replicas", tmp_path / "r")


def bases(partition: Path) -> list[int]:
    return sorted(int(path.stem) for path in partition.glob("*.log"))


def behead(partition: Path) -> int:
    """Remove the first segment; the offset at which the log begins then."""
    first, second, *_ = bases(partition)
    for path in partition.glob(f"{first:020d}.*"):
        path.unlink()
    return second


def deleted_by_broker(partition: Path) -> int:
    """Remove the first segment as a broker does, which moves the first leader epoch too."""
    start = behead(partition)
    lines = (partition / EPOCHS).read_text().splitlines()[2:]
    entries = [(int(epoch), int(offset)) for epoch, offset in map(str.split, lines)]
    before = [entry for entry in entries if entry[1] <= start]
    after = [entry for entry in entries if entry[1] > start]
    (partition / EPOCHS).write_bytes(checkpoint([(before[-1][0], start), *after]))
    return start


def compared(nodes: Path, topic: str = "behind") -> Ran:
    return kdump("compare", nodes / "1", nodes / "2", "--topic", topic, searching=False)


def truncations(ran: Ran) -> dict[int, Any]:
    """What each leader makes the other of two copies do."""
    return {line["copy"]: line["truncations"][0] for line in ran.of("leader")}


def test_a_missing_first_segment_is_a_difference(nodes: Path) -> None:
    assert behead(nodes / "2/behind-0") == 41
    ran = compared(nodes)
    (partition,) = ran.of("partition")
    assert (ran.code, partition["state"]) == (exits.PROBLEMS, "different")
    first, second = ran.of("copy")
    assert first["damages"] == []
    (damage,) = second["damages"]
    assert (damage["first_offset"], damage["last_offset"]) == (0, 40)
    assert (damage["reason"], damage["sound_in"]) == ("start-missing", [1])
    effects = truncations(ran)
    assert effects[1]["deleted_records"] == 0
    assert effects[1]["deleted_first_offset"] is None
    assert (effects[2]["deleted_first_offset"], effects[2]["deleted_last_offset"]) == (0, 40)
    assert (effects[2]["deleted_records"], effects[2]["restart"]) == (41, False)


def test_the_text_says_what_the_others_lose_and_how_to_heal(
    nodes: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    behead(nodes / "2/behind-0")
    main(["compare", str(nodes / "1"), str(nodes / "2"), "--topic", "behind"])
    text = " ".join(capfd.readouterr().out.split())
    assert "replica 2: behind-0, offsets 0..40: start-missing; valid in 1" in text
    assert (
        "2 leads replica 1 loses 41 records, offsets 0..40, before the log start of the leader"
        in text
    )
    assert "start replica 2 lacks the start of its log: do not start its broker first" in text
    assert f"kdump heal {nodes}/2/behind-0 --from {nodes}/1/behind-0" in text


def test_a_start_that_a_broker_moved_is_no_difference(
    nodes: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = deleted_by_broker(nodes / "2/behind-0")
    ran = compared(nodes)
    (partition,) = ran.of("partition")
    assert (ran.code, partition["state"]) == (exits.OK, "lagging")
    assert all(copy["damages"] == [] for copy in ran.of("copy"))
    assert truncations(ran)[2]["deleted_last_offset"] == start - 1
    main(["compare", str(nodes / "1"), str(nodes / "2"), "--topic", "behind"])
    assert "PARTITION behind-0: log starts differ" in capfd.readouterr().out


def test_another_replica_decides_on_a_start_that_configs_do_not_explain(tmp_path: Path) -> None:
    """Nothing is known of retention, and what is left is young."""
    short = BY_NAME["headless-unknown-young"].write(tmp_path / "short")
    shutil.copytree(tmp_path / "short", tmp_path / "long")
    whole = tmp_path / "long" / short.name
    same = kdump("compare", short, whole, searching=False)
    assert (same.code, [copy["damages"] for copy in same.of("copy")]) == (exits.OK, [[], []])
    (whole / name(FIRST, ".log")).write_bytes(b"".join(batches(FIRST)))
    ran = kdump("compare", short, whole, searching=False)
    reasons = [[damage["reason"] for damage in copy["damages"]] for copy in ran.of("copy")]
    assert (ran.code, reasons) == (exits.PROBLEMS, [["start-unexplained"], []])


def test_of_equal_replicas_the_one_that_begins_first_is_preferred(nodes: Path) -> None:
    deleted_by_broker(nodes / "1/behind-0")
    (partition,) = compared(nodes).of("partition")
    assert [copy["preference"] for copy in compared(nodes).of("copy")] == [2, 1]
    assert partition["first"] == 2


def test_healed_replicas_are_equal(nodes: Path) -> None:
    behead(nodes / "2/behind-0")
    partition, source = nodes / "2/behind-0", nodes / "1/behind-0"
    main(["heal", str(partition), "--from", str(source), "--apply"])
    ran = compared(nodes)
    assert (ran.code, [line["state"] for line in ran.of("partition")]) == (exits.OK, ["equal"])
