"""Replicas that the metadata log assigns to this node, and that no directory in sight serves."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support.commands import kdump
from support.damaged import Recipe, batches
from support.fixtures_loader import copy_fixture
from support.forge import TOPIC_ID, checkpoint
from support.forge_metadata import (
    METADATA,
    change,
    log,
    partition,
    register,
    segment_name,
    snapshot,
    snapshot_name,
    topic,
)
from support.long_samples import first_of
from support.pipeline import judge
from support.recipes_directory import DIRECTORY_ID, META, OTHER_ID, meta_properties

LOST, UNASSIGNED = 21 * "A" + "g", 21 * "A" + "Q"
GONE_ID = "dGhlLXRvcGljLXRoYXQtZw"
HEX = 32 * "1"
ALONE, SHARED = "replica-missing-only", "replica-missing"
ASIDE_ALONE, ASIDE = "replica-set-aside-only", "replica-set-aside"
EMPTIED = "log-directory-emptied"
ELSEWHERE = "replica-directory-missing-only"
POINTS = "recovery-point-offset-checkpoint"


def node(path: Path, *values: bytes, whole: bool = True) -> Path:
    """A node with a partition of the topic ``here``; its metadata log has ``values`` too."""
    known = [topic("here", TOPIC_ID), partition(TOPIC_ID, directories=[DIRECTORY_ID]), *values]
    top = META | {segment_name(): log(known)}
    Recipe("here", [], batches(0), batches(100), top=top).write(path)
    if whole:  # as formatting leaves it, up to 4.3
        (path / "bootstrap.checkpoint").write_bytes(snapshot([]))
    return path


def gone(*directories: str, nodes: Sequence[int] = (1,), adding: Sequence[int] = ()) -> list[bytes]:
    """The records of a partition that is not in the directory."""
    return [topic("gone", GONE_ID), partition(GONE_ID, 0, nodes, directories, adding=adding)]


def of_replicas(*paths: Path, config: dict[str, str] | None = None) -> list[str]:
    codes = [finding.code.name for finding in judge(*paths, config=config)]
    return [code for code in codes if code.startswith("replica-") or code == EMPTIED]


ONE, TWO = gone(DIRECTORY_ID), gone(DIRECTORY_ID, OTHER_ID, nodes=(1, 2))
CHANGED = change(GONE_ID, 0, in_sync=[1])

MISSING = [
    ("just created, perhaps not yet here", ONE, []),
    ("of two replicas, just created", TWO, []),
    ("changed since it was created", [*ONE, CHANGED], [ALONE]),
    ("the only one in sync", [*TWO, CHANGED], [ALONE]),
    ("two in sync", [*TWO, change(GONE_ID, 0, in_sync=[1, 2])], [SHARED]),
    ("not in sync, perhaps as it was down then", [*TWO, change(GONE_ID, 0, in_sync=[2])], []),
    ("the only one eligible", [*TWO, change(GONE_ID, 0, in_sync=[], eligible=[1])], [ALONE]),
    (
        "being added",
        [
            *gone(DIRECTORY_ID, OTHER_ID, nodes=(1, 2), adding=[1]),
            change(GONE_ID, 0, in_sync=[2]),
        ],
        [],
    ),
    ("of another node", [*gone(OTHER_ID, nodes=(2,)), change(GONE_ID, 0, in_sync=[2])], []),
    ("in an offline directory", [*gone(LOST), CHANGED], [ELSEWHERE]),
    ("in a directory out of sight", [*gone(OTHER_ID), CHANGED], [ELSEWHERE]),
    ("in some directory, the node has more", [*gone(UNASSIGNED), CHANGED], []),
    (
        "in some directory, the node has one",
        [register(1, [DIRECTORY_ID]), *gone(UNASSIGNED), CHANGED],
        [ALONE],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"), [case[1:] for case in MISSING], ids=[case[0] for case in MISSING]
)
def test_a_replica_that_had_a_log_is_missed(
    tmp_path: Path, values: list[bytes], expected: list[str]
) -> None:
    data = node(tmp_path / "data", *values)
    assert of_replicas(data) == expected
    # Beside other partitions of the node, or as a copy of a few, nothing is certain.
    part = node(tmp_path / "part", *values, whole=False)
    assert [code for code in of_replicas(part) if code in (ALONE, SHARED)] == []


def test_a_configuration_shows_all_directories(tmp_path: Path) -> None:
    data = node(tmp_path / "data", *gone(UNASSIGNED), CHANGED, whole=False)
    assert of_replicas(data, config={"log.dirs": str(data)}) == [ALONE]


def test_a_snapshot_has_what_was_not_just_created(tmp_path: Path) -> None:
    data = node(tmp_path / "data", *ONE)
    known = [topic("here", TOPIC_ID), partition(TOPIC_ID, directories=[DIRECTORY_ID]), *ONE]
    (data / snapshot_name(4)).write_bytes(snapshot(known))
    assert of_replicas(data) == [ALONE]


def test_a_line_in_a_checkpoint_is_not_reported_twice(tmp_path: Path) -> None:
    data = node(tmp_path / "data", *ONE, CHANGED)
    (data / POINTS).write_bytes(checkpoint([("gone", 0, 5), ("here", 0, 5)]))
    assert of_replicas(data) == [ALONE]


@pytest.mark.parametrize(
    ("in_sync", "adding", "expected"),
    [([1], [], [ALONE]), ([2], [], [SHARED]), ([2], [1], [])],
    ids=["in sync", "not in sync", "being added"],
)
def test_a_log_directory_without_any_partition_lacks_all(
    tmp_path: Path, in_sync: list[int], adding: list[int], expected: list[str]
) -> None:
    """The metadata log is on its own disk, and the disk beside it was wiped."""
    values = gone(OTHER_ID, DIRECTORY_ID, nodes=(1, 2), adding=adding)
    data = node(tmp_path / "data", *values, change(GONE_ID, 0, in_sync=in_sync), whole=False)
    wiped = tmp_path / "wiped"
    wiped.mkdir()
    (wiped / "meta.properties").write_bytes(meta_properties(directory=OTHER_ID))
    assert of_replicas(data, wiped) == expected
    assert of_replicas(wiped, data, config={"log.dirs": f"{wiped},{data}"}) == expected


@pytest.mark.parametrize(
    ("missing", "path"),
    [(["codec-lz4-0"], "codec-lz4-0"), (["codec-lz4-0", "codec-zstd-0"], "")],
)
def test_the_place_of_what_no_checkpoint_lists_is_named(
    missing: list[str], path: str, tmp_path: Path
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for name in missing:
        shutil.rmtree(data / name)
    for file in data.glob("*-checkpoint"):
        file.write_bytes(checkpoint([]))
    found = kdump("verify", "--quick", data).of("finding")
    (lost,) = (each for each in found if each["code"] == "replica-missing-only")
    assert (lost["path"], lost["repeats"]) == (str(data / path), len(missing) - 1)


SET_ASIDE = [
    ("stray", GONE_ID, ONE, [ASIDE_ALONE]),
    ("delete", GONE_ID, ONE, [ASIDE_ALONE]),
    ("stray", None, ONE, [ASIDE_ALONE]),
    ("stray", GONE_ID, TWO, [ASIDE]),
    ("stray", GONE_ID, [*TWO, CHANGED], [ASIDE_ALONE]),
    ("delete", GONE_ID, [*TWO, change(GONE_ID, 0, in_sync=[2])], [ASIDE]),
    ("stray", GONE_ID, gone(OTHER_ID), [ASIDE_ALONE]),  # whichever directory the cluster names
    # The topic was deleted, and one of its name created again.
    ("delete", OTHER_ID, ONE, []),
    ("delete", OTHER_ID, [*ONE, CHANGED], [ALONE]),
    ("delete", GONE_ID, [], []),
    ("stray", GONE_ID, gone(OTHER_ID, nodes=(2,)), []),
    ("future", GONE_ID, ONE, []),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "topic_id", "values", "expected"), SET_ASIDE)
def test_a_replica_that_was_renamed_is_not_here(
    tmp_path: Path, suffix: str, topic_id: str | None, values: list[bytes], expected: list[str]
) -> None:
    data = node(tmp_path / "data", *values)
    aside = data / f"gone-0.{HEX}-{suffix}"
    shutil.copytree(data / "here-0", aside)
    (aside / "partition.metadata").unlink(missing_ok=True)
    if topic_id is not None:
        (aside / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    assert of_replicas(data) == expected
    (data / POINTS).write_bytes(checkpoint([("gone", 0, 5), ("here", 0, 5)]))
    assert of_replicas(data) == expected
    shutil.copytree(data / "here-0", data / "gone-0")
    assert of_replicas(data) == []


def test_a_long_name_is_cut_and_the_topic_id_decides(tmp_path: Path) -> None:
    name = 249 * "n"
    data = node(tmp_path / "data", topic(name, GONE_ID), partition(GONE_ID, 0, (1,), [OTHER_ID]))
    aside = data / f"{name[:200]}-0.{HEX}-stray"
    shutil.copytree(data / "here-0", aside)
    (aside / "partition.metadata").write_text(f"version: 0\ntopic_id: {GONE_ID}")
    assert of_replicas(data) == [ASIDE_ALONE]


# --- real directories


def stray(data: Path, *names: str, suffix: str = "stray") -> None:
    """Rename partitions, as a broker that does not know them; without names, all of them."""
    for path in sorted(data.iterdir()):
        chosen = path.name in names if names else path.name != METADATA
        if path.is_dir() and chosen:
            path.rename(data / f"{path.name}.{HEX}-{suffix}")


def forget(data: Path, name: str) -> None:
    """Remove the lines of a partition from the checkpoints."""
    topic_name, _, number = name.rpartition("-")
    for file in data.glob("*-offset-checkpoint"):
        lines = file.read_text().splitlines()
        left = [line for line in lines[2:] if not line.startswith(f"{topic_name} {number} ")]
        file.write_text("\n".join([lines[0], str(len(left)), *left]) + "\n")


def all_stray(data: Path) -> None:
    stray(data)


def one_stray(data: Path) -> None:
    stray(data, "codec-lz4-0")
    forget(data, "codec-lz4-0")


def one_deleted(data: Path) -> None:
    stray(data, "codec-lz4-0", suffix="delete")


def one_gone(data: Path) -> None:
    shutil.rmtree(data / "codec-lz4-0")
    forget(data, "codec-lz4-0")


def none_left(data: Path) -> None:
    for path in data.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


STATES = {
    all_stray: ASIDE_ALONE,
    one_stray: ASIDE_ALONE,
    one_deleted: ASIDE_ALONE,
    one_gone: ALONE,
    none_left: EMPTIED,
}
COMMANDS = [["verify"], ["verify", "--quick"], ["next-start"], ["next-start", "--scan"]]


@pytest.mark.parametrize(
    "fixture",
    first_of(["4.3.1/clean", "4.3.1/killed", "3.9.1/clean", "4.4.0/killed"], 2, every=1),
)
@pytest.mark.parametrize("damage", STATES, ids=lambda damage: damage.__name__)
def test_no_all_clear_without_a_replica(
    damage: object, fixture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    assert callable(damage)
    damage(data)
    commands = COMMANDS if fixture == "4.3.1/clean" else COMMANDS[1:2]
    for command in commands:
        assert main([*command, str(data)]) == exits.PROBLEMS
        text = " ".join(capsys.readouterr().out.split())
        assert text.startswith("DO NOT START If the broker starts now, it creates missing")
        assert STATES[damage] in text
        if damage is none_left:
            assert "metadata-log-missing-only" in text
        assert "removes no valid record" not in text


@pytest.mark.parametrize("damage", STATES, ids=lambda damage: damage.__name__)
def test_a_scrub_says_it_too(
    damage: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    scrub = ["scrub", "--state", str(tmp_path / "state.db"), str(data)]
    assert main(scrub) == exits.OK
    assert callable(damage)
    damage(data)
    capsys.readouterr()
    assert main([*scrub, "--quiet"]) == exits.PROBLEMS
    assert STATES[damage] in capsys.readouterr().out


def test_the_only_replica_in_sync_of_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/replicas", tmp_path / "r") / "2"
    stray(data, "same-0")
    assert main(["verify", str(data)]) == exits.PROBLEMS
    assert ASIDE_ALONE in capsys.readouterr().out


@pytest.mark.parametrize("configured", [True, False])
def test_a_wiped_disk_beside_the_metadata_log(
    configured: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = copy_fixture("4.3.1/clean", tmp_path / "source")
    data, own = tmp_path / "data", tmp_path / "own"
    data.mkdir()
    own.mkdir()
    shutil.copy(source / "meta.properties", data)
    shutil.copytree(source / METADATA, own / METADATA)
    meta = (source / "meta.properties").read_text()
    (own / "meta.properties").write_text(meta.replace("directory.id=03", "directory.id=04"))
    config = tmp_path / "server.properties"
    config.write_text(
        f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={data}\nmetadata.log.dir={own}\n"
    )
    for command in ("verify", "next-start", "scrub"):
        places = ["--config", str(config)] if configured else [str(data), str(own)]
        state = ["--state", str(tmp_path / "state.db")] if command == "scrub" else []
        assert main([command, *state, *places]) == exits.PROBLEMS
        text = " ".join(capsys.readouterr().out.split())
        assert ALONE in text
        assert "20 more of these in this file" in text


@pytest.mark.parametrize("fixture", ["2.8.2/clean", "1.1.1/clean"])
def test_a_log_directory_of_a_cluster_with_zookeeper_that_was_emptied(
    fixture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    stray(data)
    assert of_replicas(data) == [EMPTIED]
    none_left(data)
    assert main(["next-start", str(data)]) == exits.PROBLEMS
    assert EMPTIED in capsys.readouterr().out


@pytest.mark.parametrize("command", ["groups", "transactions", "compare", "export"])
def test_an_emptied_log_directory_is_no_cluster_without_partitions(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    none_left(data)
    words = [command, *(["--to", str(tmp_path / "out")] if command == "export" else []), str(data)]
    assert main(words) == exits.INCOMPLETE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "expected the partitions that its checkpoints list, found none" in printed.err
    # Beside another one it is named.
    other = copy_fixture("4.3.1/clean", tmp_path / "other")
    words = [*words, str(other)]
    assert main(words) != exits.INCOMPLETE
    assert "found none" in capsys.readouterr().err


def test_a_new_log_directory_has_nothing_to_lose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_bytes(meta_properties())
    for name in (POINTS, "replication-offset-checkpoint"):
        (tmp_path / name).write_text("0\n0\n")
    assert main(["verify", str(tmp_path)]) == exits.OK
    assert capsys.readouterr().out.startswith("NOT CHECKED")


def test_what_a_start_without_the_metadata_log_left_is_no_copy_of_a_part(tmp_path: Path) -> None:
    """Since 4.4 there is no bootstrap.checkpoint, and that start leaves no recovery point."""
    path = node(tmp_path, *ONE, CHANGED, whole=False)
    assert of_replicas(path) == []  # a partition that was copied, and the metadata log
    (path / "here-0").rename(path / f"here-0.{HEX}-stray")
    assert of_replicas(path) == [ASIDE_ALONE]
    (path / POINTS).write_bytes(checkpoint([]))
    assert of_replicas(path) == [ALONE, ASIDE_ALONE]
