"""The ways to free bytes: reassignments that lose nothing, and the offsets to delete before."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from kdump.audit.facts.cluster import ClusterImage, Node, Replicas
from kdump.audit.facts.retention import DueSegments, Hold, RetentionConfigs
from kdump.audit.facts.space import Space
from kdump.audit.sizes.measure import OldSegment, PartitionSpace
from kdump.audit.targets.context import Context
from kdump.audit.targets.future_logs import FutureFate, FutureLog
from kdump.commands.space import reassignment
from kdump.commands.space.delete_records import deleted_offsets
from kdump.commands.space.reassignment import (
    Reassignment,
    moves_between_directories,
    replicas_given_up,
)
from kdump.storage.logdir import LogDirectory
from kdump.storage.names import parse_directory_name
from kdump.ui import exits
from support.commands import kdump
from support.crashing.places import small_disk
from support.crashing.running import run
from support.damaged import Recipe, batches
from support.fixtures_loader import copy_fixture
from support.forge import TOPIC_ID
from support.forge_metadata import log, partition, segment_name, topic
from support.recipes_directory import META
from support.stand_in import stand_in

HOUR: Final = 3_600_000
NOW: Final = 10_000 * HOUR
DELETE: Final = RetentionConfigs(True, False, 1_000 * HOUR, -1)
MIB: Final = 1 << 20
DATA: Final = Path("/a")


def aged(
    name: str, *hours: int | None, configs: RetentionConfigs = DELETE, active: int = 1
) -> PartitionSpace:
    """A partition of segments of ten offsets, and so many active ones that may not go."""
    old = tuple(
        OldSegment(
            number * 10,
            number * 10 + 10,
            None if age is None else NOW - age * HOUR,
            MIB,
            (),
        )
        for number, age in enumerate(hours)
    )
    return PartitionSpace(
        DATA / name,
        parse_directory_name(name),
        segments=len(old) + active,
        configs=configs,
        old=old,
    )


def offsets(*partitions: PartitionSpace, mib: float) -> dict[str, int]:
    found = deleted_offsets(partitions, int(mib * MIB), NOW)
    if found is None:
        return {}
    assert found.json["version"] == 1
    assert found.bytes == found.segments * MIB
    assert found.offsets == found.segments * 10
    return {f"{each['topic']}-{each['partition']}": each["offset"]
            for each in found.json["partitions"]}  # fmt: skip


@pytest.mark.parametrize(
    ("mib", "expected"),
    [
        (0.1, {"a-0": 10}),
        (1.1, {"a-0": 10, "a-1": 10}),
        (3, {"a-0": 20, "a-1": 10}),
        (4, {"a-0": 20, "a-1": 10, "b-0": 10}),
        (99, {"a-0": 30, "a-1": 20, "b-0": 20}),
    ],
)
def test_the_oldest_segments_go_first(mib: float, expected: dict[str, int]) -> None:
    """Those that are younger than an hour stay."""
    logs = aged("a-0", 400, 300, 200), aged("a-1", 390, 20), aged("b-0", 250, 10, 0)
    assert offsets(*logs, mib=mib) == expected


def test_the_active_segment_stays() -> None:
    assert offsets(aged("a-0", 400, 300, active=0), mib=9) == {"a-0": 10}
    assert offsets(aged("a-0", 400, active=0), mib=9) == {}


def test_segments_of_one_time_go_in_their_order() -> None:
    """One segment has older records than the one before; the offset is that of the last."""
    assert offsets(aged("a-0", 300, 500, 300), mib=2) == {"a-0": 20}


def test_what_is_due_goes_by_itself() -> None:
    log = replace(aged("a-0", 400, 300), due=DueSegments(1, 10, Hold.AGE))
    assert offsets(log, mib=1) == {"a-0": 20}


def test_a_time_that_is_unknown_ends_a_log() -> None:
    assert offsets(aged("a-0", 400, None, 300), mib=9) == {"a-0": 10}


@pytest.mark.parametrize(
    "log",
    [
        aged("__consumer_offsets-0", 400),
        aged("t-0", 400, configs=replace(DELETE, compact=True)),
        aged("t-0", 400, configs=replace(DELETE, delete=False)),
        aged("t-0", 400, configs=replace(DELETE, remote=True)),
    ],
)
def test_other_topics_keep_their_records(log: PartitionSpace) -> None:
    assert offsets(log, mib=1) == {}


# --- reassignments


IN_SYNC: Final = Replicas((1, 2, 3), in_sync=(3, 2, 1), established=True)


def context_of(replicas: Mapping[str, Replicas], **fields: Any) -> Context:
    """Node 1, with these partitions of its topics by name, in ``DATA``."""
    by_topic: dict[str, dict[int, Replicas]] = {}
    for name, found in replicas.items():
        topic, _, number = name.rpartition("-")
        by_topic.setdefault(topic, {})[int(number)] = found
    image = ClusterImage(
        end_offset=1,
        topics={topic: f"id-{topic}" for topic in by_topic},
        names={f"id-{topic}": topic for topic in by_topic},
        deleted=frozenset(),
        replicas={f"id-{topic}": found for topic, found in by_topic.items()},
        topic_configs=fields.pop("configs", {}),
        broker_configs=fields.pop("brokers", {}),
        problem=None,
    )
    return Context(NOW, nodes={DATA: Node(True, 1, image)}, **fields)


def sized(sizes: Mapping[str, float]) -> list[PartitionSpace]:
    return [
        PartitionSpace(DATA / name, parse_directory_name(name), bytes=int(size * MIB))
        for name, size in sizes.items()
    ]


def names(found: Reassignment | None) -> list[str]:
    if found is None:
        return []
    return sorted(each.path.name for each in found.partitions)


@pytest.mark.parametrize(
    ("mib", "expected"),
    [
        (0.5, ["a-0"]),
        (1.5, ["a-1"]),
        (4, ["b-0"]),
        (5.5, ["a-0", "b-0"]),
        (99, ["a-0", "a-1", "b-0"]),
    ],
)
def test_few_bytes_move(mib: float, expected: list[str]) -> None:
    sizes = {"a-0": 1, "a-1": 2, "b-0": 5}
    found = replicas_given_up(
        sized(sizes), context_of(dict.fromkeys(sizes, IN_SYNC)), int(mib * MIB)
    )
    assert names(found) == expected
    assert found is not None
    assert found.bytes == sum(sizes[name] for name in expected) * MIB
    assert found.json["version"] == 1
    for each in found.json["partitions"]:
        assert each["replicas"] == [2, 3]
        assert "log_dirs" not in each


@pytest.mark.parametrize(
    "replicas",
    [
        Replicas((1,), in_sync=(1,)),
        Replicas((1, 2), in_sync=(1, 2)),
        Replicas((1, 2, 3), in_sync=(1, 2)),
        Replicas((1, 2, 3), in_sync=(2,)),
        Replicas((1, 2, 3), in_sync=(1, 2, 3), adding=(3,)),
        Replicas((1, 2, 3), in_sync=(1, 2, 3), removing=(3,)),
        Replicas((2, 3, 4), in_sync=(2, 3, 4)),
    ],
)
def test_replicas_that_a_node_does_not_give_up(replicas: Replicas) -> None:
    """Alone, with one other, with one that lags, and in the middle of a reassignment."""
    context = context_of({"a-0": replicas})
    assert replicas_given_up(sized({"a-0": 1}), context, 1) is None


def test_a_replica_that_lags_itself_may_go() -> None:
    context = context_of({"a-0": Replicas((2, 1, 3), in_sync=(2, 3))})
    found = replicas_given_up(sized({"a-0": 1}), context, 1)
    assert found is not None
    assert found.json["partitions"][0]["replicas"] == [2, 3]


@pytest.mark.parametrize(
    ("configs", "brokers", "config", "kept", "only_least"),
    [
        ({}, {}, None, False, False),
        ({"a": {"min.insync.replicas": "2"}}, {}, None, False, True),
        ({"a": {"min.insync.replicas": "3"}}, {}, None, True, False),
        ({}, {"": {"min.insync.replicas": "3"}}, None, True, False),
        ({}, {}, {"min.insync.replicas": "3"}, True, False),
        ({"a": {"min.insync.replicas": "1"}}, {}, {"min.insync.replicas": "3"}, False, False),
    ],
)
def test_enough_replicas_are_left(
    configs: Any, brokers: Any, config: Any, kept: bool, only_least: bool
) -> None:
    context = context_of({"a-0": IN_SYNC}, configs=configs, brokers=brokers, config=config)
    found = replicas_given_up(sized({"a-0": 1}), context, 1)
    assert (found is None) == kept
    if found is not None:
        assert found.partitions[0].only_least == only_least


def test_what_is_no_replica_of_the_node_stays() -> None:
    """Internal topics, the metadata log, what moves or is set aside, and unknown topics."""
    found = sized({
        "__consumer_offsets-0": 1, "__cluster_metadata-0": 1, "moving-0": 1, "stray-0": 1,
        "unknown-0": 1, f"t-0.{32 * 'a'}-future": 1, "a-0": 1, "empty-0": 0,
    })  # fmt: skip
    known = ("__consumer_offsets-0", "__cluster_metadata-0", "moving-0", "stray-0", "t-0", "a-0",
             "empty-0")  # fmt: skip
    future = FutureLog(Path("/b/moving-0.x-future"), DATA / "moving-0", FutureFate.CONTINUES)
    context = context_of(
        dict.fromkeys(known, IN_SYNC), futures=(future,), strays=frozenset({DATA / "stray-0"})
    )
    assert names(replicas_given_up(found, context, 99 * MIB)) == ["a-0"]
    assert names(replicas_given_up(found, Context(NOW), 99 * MIB)) == []


SPACES: Final = {"/a": (1, 10), "/b": (2, 30), "/c": (3, 100), "/d": (1, 500), "/m": (4, 900)}


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log directories, each with the number of its file system and the free MiB there."""

    def space(path: Path) -> Space | None:
        device, free = SPACES[str(path)]
        return Space(device, 1 << 40, free * MIB, None)

    monkeypatch.setattr(reassignment, "read_space", space)
    monkeypatch.setattr(reassignment, "identity", str)


def moved(
    disks: None, sizes: Mapping[str, float], mib: float, beyond: Iterable[str], **config: str
) -> Reassignment | None:
    context = context_of(
        dict.fromkeys(sizes, IN_SYNC),
        config={"log.dirs": "/a,/b,/c,/d", "metadata.log.dir": "/m"} | config,
        beyond=tuple(LogDirectory(Path(path), (), ()) for path in beyond),
    )
    space = Space(1, 1 << 40, 10 * MIB, None)
    return moves_between_directories(sized(sizes), context, space, int(mib * MIB))


def test_partitions_move_to_where_more_room_is(disks: None) -> None:
    found = moved(disks, {"a-0": 5, "a-1": 2}, 6, ["/b", "/c", "/d", "/m"])
    assert found is not None
    assert names(found) == ["a-0", "a-1"]
    assert {target: len(group) for target, group in found.targets.items()} == {"/c": 2}
    assert found.json["partitions"][0] == {
        "topic": "a",
        "partition": 0,
        "replicas": [1, 2, 3],
        "log_dirs": ["/c", "any", "any"],
    }


def test_no_directory_is_left_with_less_room_than_the_other(disks: None) -> None:
    sizes = {f"a-{number}": 4.0 for number in range(9)}
    found = moved(disks, sizes, 99, ["/b"])
    # 10 and 30 MiB are free: after two moves 18 and 22.
    assert len(names(found)) == 2
    assert names(moved(disks, {"a-0": 11}, 5, ["/b"])) == []


@pytest.mark.parametrize(
    ("beyond", "config"),
    [
        ([], {}),
        (["/d"], {}),  # the same file system
        (["/m"], {}),  # of the metadata log alone
        (["/b"], {"cordoned.log.dirs": "/b"}),
        (["/b", "/c"], {"cordoned.log.dirs": "*"}),
    ],
)
def test_directories_that_take_no_partition(
    disks: None, beyond: list[str], config: dict[str, str]
) -> None:
    assert moved(disks, {"a-0": 1}, 1, beyond, **config) is None


# --- the report


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """One of three nodes, which all have the partition of a topic in sync."""
    known = [topic("here", TOPIC_ID), partition(TOPIC_ID, 0, (2, 1, 3), [])]
    top = META | {segment_name(): log(known)}
    Recipe("here", [], batches(0), batches(100), top=top).write(tmp_path / "data")
    return tmp_path / "data"


def test_the_files_beside_a_running_broker(node: Path) -> None:
    written_s = int(time.time()) - 3 * 3600
    os.utime(next((node / "__cluster_metadata-0").glob("*.log")), (written_s, written_s))
    with stand_in(node):
        ran = kdump("space", "--free", "8KiB", node)
        text = run(["space", "--free", "8KiB", str(node)], searching=True).out
    assert ran.code == exits.OK
    (given_up,) = ran.of("reassignment")
    assert given_up["kind"] == "give-up"
    assert given_up["bytes"] >= 8 * 1024
    assert given_up["partitions"] == 1
    assert given_up["json"]["partitions"] == [{"topic": "here", "partition": 0, "replicas": [2, 3]}]
    shown = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert shown[0] == given_up["json"]
    words = " ".join(text.split())
    assert given_up["metadata_ms"] == written_s * 1000
    assert "by a metadata log that was written 3 h " in words
    assert "No record is lost. At least 2 replicas are left of each" in words
    assert "--reassignment-json-file reassign.json --execute" in words
    assert "kdump trim" not in words
    assert words.index("way 1 ") < words.index("--execute")


def test_a_stopped_broker_has_no_use_for_them(node: Path) -> None:
    ran = kdump("space", "--free", "8KiB", node, searching=False)
    assert not [*ran.of("reassignment"), *ran.of("delete_records")]
    (node / "here-0" / f"{900:020}.log.deleted").write_bytes(bytes(8192))
    words = " ".join(run(["space", "--free", "8KiB", str(node)], searching=False).out.split())
    assert "reassign" not in words
    assert "way 1 8.00 KiB: leftovers that no log needs. No record is lost" in words
    assert words.count("kdump trim --leftovers") == 1
    assert "if the broker does not start for lack of space" in words


def test_offsets_to_delete_before_are_shown(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    with stand_in(data):
        ran = kdump("space", "--free", "60KiB", data)
        text = run(["space", "--free", "60KiB", str(data)], searching=True).out
    (deleted,) = ran.of("delete_records")
    (summary,) = ran.of("summary")
    assert deleted["bytes"] > 0
    assert deleted["bytes"] + summary["due_bytes"] < 60 * 1024 or deleted["segments"]
    for each in deleted["json"]["partitions"]:
        names_of = sorted(data.joinpath(f"{each['topic']}-{each['partition']}").glob("*.log"))
        assert each["offset"] in {int(log.stem) for log in names_of[1:]}
    assert json.dumps(deleted["json"]) in text.splitlines()
    assert "kafka-delete-records.sh --bootstrap-server HOST:PORT --offset-json-file" in text


def test_a_stopped_broker_is_moved_by_kdump(tmp_path: Path) -> None:
    data, config = copy_fixture("4.3.1/clean", tmp_path / "data"), tmp_path / "server.properties"
    with small_disk(tmp_path / "small", "64m") as small:
        target = copy_fixture("4.3.1/clean", small / "b")
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        config.write_text(f"log.dirs={target},{data}\n")
        # What has less room on its own file system is freed.
        ran = kdump("space", "--free", "60KiB", "--config", config, target, searching=False)
        assert [*ran.of("move")] == []
        shutil.move(data / "codec-lz4-0", target)
        ran = kdump("space", "--free", "60KiB", "--config", config, target, searching=False)
        text = run(["space", "--free", "60KiB", "--config", str(config), str(target)]).out
    assert ran.code == exits.OK
    assert "where more room is. No record is lost" in " ".join(text.split())
    (move,) = ran.of("move")
    assert move["command"] == ["kdump", "move", "--to", str(data), str(target / "codec-lz4-0")]
    assert " ".join(move["command"]) in text
