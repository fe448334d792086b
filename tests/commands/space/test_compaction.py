"""What ``space`` says of compaction: the next partition, and what is not cleaned."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from kdump.commands.space import cleaner
from kdump.storage.liveness import BrokerState, Liveness
from kdump.ui import exits
from support.commands import kdump
from support.crashing.running import run
from support.forge import batch, checkpoint, partition_metadata, record, snapshot, write_partition
from support.forge_metadata import METADATA, config, log, partition, segment_name, topic

pytestmark = pytest.mark.once

HOUR_S: Final = 3600


def meta_properties(data: Path, directory_id: str) -> None:
    lines = ["version=1", "node.id=1", "cluster.id=kdumpFixturesCluster0A",
             f"directory.id={directory_id}"]  # fmt: skip
    (data / "meta.properties").write_text("\n".join([*lines, ""]))


def topic_id(number: int) -> str:
    return f"{number:0>20}AA"


class Node:
    """A node with a log directory, its metadata log and compacted topics."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.values: list[bytes] = []
        self.cleaned: list[tuple[object, ...]] = []
        (data / METADATA).mkdir(parents=True)
        meta_properties(data, "A" * 21 + "Q")

    def add(self, name: str, cleaned: int | None, **configs: str) -> Path:
        """A topic of four segments of one size, from offsets 0, 10, 20 and 30 on."""
        number = len(self.values) + 1
        ident = topic_id(number)
        self.values += [topic(name, ident), partition(ident)]
        for key, value in {"cleanup.policy": "compact", **configs}.items():
            self.values.append(config(name, key.replace("_", "."), value))
        segments = {base: [batch(base, [record(bytes(4_000), b"k")])] for base in (0, 10, 20, 30)}
        files: dict[str, bytes | None] = {f"{30:020}.snapshot": snapshot()}
        if cleaned is not None:
            self.cleaned.append((name, 0, cleaned))
        made = write_partition(self.data, name, 0, segments, files=files)
        (made / "partition.metadata").write_bytes(partition_metadata(ident))
        return made

    def write(self) -> Path:
        (self.data / segment_name()).write_bytes(log(self.values))
        (self.data / "cleaner-offset-checkpoint").write_bytes(checkpoint(self.cleaned))
        return self.data


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "data")


def compaction(data: Path) -> dict[str, dict[str, Any]]:
    ran = kdump("space", data, searching=False)
    assert ran.code == exits.OK
    return {line["topic"]: line["compaction"][0] for line in ran.of("topic")
            if line["compaction"]}  # fmt: skip


def said(*arguments: str | Path) -> str:
    return re.sub(r"\s+", " ", run(["space", *map(str, arguments)], searching=False).out)


def test_the_highest_ratio_comes_next(node: Node) -> None:
    node.add("low", 20)
    node.add("half", 10)
    node.add("high", None)
    node.add("off", 30)
    found = compaction(node.write())
    assert {name: (line["wait"], line["next"]) for name, line in found.items()} == {
        "low": ("ratio", False),
        "half": ("ready", False),
        "high": ("ready", True),
        "off": ("active", False),
    }
    assert found["half"]["dirty_ratio"] == round(2 / 3, 6)
    text = said(node.data)
    assert "the cleaner will take high-0 next (dirty ratio 1.00)" in text
    size = found["half"]["dirty_bytes"] + found["high"]["dirty_bytes"]
    assert f"{size / 1024:.2f} KiB dirty in 2 partitions that the cleaner takes in turn" in text
    assert "how much of it cleaning frees is unknown" in text
    assert "below min.cleanable.dirty.ratio" in text


def test_the_column_says_what_holds_compacted_topics(node: Node) -> None:
    node.add("ratio", 20)
    node.add("lag", None, **{"min.compaction.lag.ms": str(10**12)})
    node.add("rolls", 30)
    node.add("turn", None)
    ran = run(["space", "--wide", str(node.write())], searching=False)
    held = {
        name: line.split("  ")[-1].strip()
        for line in ran.out.splitlines()
        for name in ("ratio", "lag", "rolls", "turn")
        if line.strip().startswith(f"{name} ")
    }
    assert held == {
        "ratio": "dirty ratio",
        "lag": "min lag",
        "rolls": "active segment",
        "turn": "cleaner",
    }
    assert "within min.compaction.lag.ms" in said(node.data)


def test_several_with_one_ratio_are_said(node: Node) -> None:
    node.add("a", None)
    node.add("b", None)
    data = node.write()
    assert all(line["next"] for line in compaction(data).values())
    assert "(dirty ratio 1.00, or one of 1 more with the same)" in said(data)


def test_a_forced_cleaning_is_said(node: Node) -> None:
    node.add("a", 20, **{"max.compaction.lag.ms": "1000"})
    data = node.write()
    assert compaction(data)["a"]["forced"]
    assert "will take a-0 next by max.compaction.lag.ms (dirty ratio 0.33)" in said(data)


def test_the_directories_of_a_node_have_one_cleaner(node: Node, tmp_path: Path) -> None:
    """The checkpoint of one directory counts for partitions of the other, and so do its logs."""
    node.add("a", 20)
    node.add("b", None)
    data = node.write()
    other = tmp_path / "other"
    other.mkdir()
    meta_properties(other, "A" * 21 + "g")
    (data / "b-0").rename(other / "b-0")
    (other / "cleaner-offset-checkpoint").write_bytes(checkpoint([("a", 0, 20)]))
    (data / "cleaner-offset-checkpoint").write_bytes(checkpoint([("b", 0, 10)]))
    ran = kdump("space", data, other, searching=False)
    found = {line["topic"]: line["compaction"][0] for line in ran.of("topic")
             if line["compaction"]}  # fmt: skip
    assert (found["a"]["wait"], found["a"]["first_dirty_offset"]) == ("ratio", 20)
    assert (found["b"]["next"], found["b"]["first_dirty_offset"]) == (True, 10)
    (data / "cleaner-offset-checkpoint").write_bytes(checkpoint([("a", 0, 10)]))
    ran = kdump("space", data, other, searching=False)
    waits = {line["topic"]: line["compaction"][0]["wait"] for line in ran.of("topic")
             if line["compaction"]}  # fmt: skip
    assert waits == {"a": "unknown", "b": "ready"}  # two lines that differ


def test_a_move_pauses_the_cleaner(node: Node, tmp_path: Path) -> None:
    node.add("a", None)
    data = node.write()
    other = tmp_path / "other"
    other.mkdir()
    meta_properties(other, "A" * 21 + "g")
    future = write_partition(other, "a", 0, {0: [batch(0, [record()])]})
    (future / "partition.metadata").write_bytes((data / "a-0" / "partition.metadata").read_bytes())
    future.rename(other / "a-0.0123456789abcdef0123456789abcdef-future")
    ran = kdump("space", data, other, searching=False)
    waits = [line["compaction"][0]["wait"] for line in ran.of("topic") if line["compaction"]]
    assert waits == ["move"]
    assert "they are not cleaned meanwhile" in said(data, other)


def test_a_checkpoint_that_cannot_be_read_is_unknown(node: Node) -> None:
    node.add("a", None)
    data = node.write()
    (data / "cleaner-offset-checkpoint").write_text("nonsense\n")
    assert compaction(data)["a"]["wait"] == "unknown"
    assert "of a-0, which is unknown" in said(data)


def test_without_a_cleaner_nothing_is_compacted(node: Node, tmp_path: Path) -> None:
    node.add("a", None)
    data = node.write()
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\nlog.cleaner.enable=false\n")
    text = said("--config", properties)
    assert "by log.cleaner.enable=false" in text
    assert "HELD BY cleaner off" in text or "cleaner off" in text
    assert "the cleaner will take" not in text


def test_a_broker_default_decides_over_topics_without_a_ratio(node: Node, tmp_path: Path) -> None:
    node.add("a", 20)
    node.add("own", 20, **{"min.cleanable.dirty.ratio": "0.9"})
    data = node.write()
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\nlog.cleaner.min.cleanable.ratio=0.1\n")
    ran = kdump("space", "--config", properties, searching=False)
    waits = {line["topic"]: line["compaction"][0]["wait"] for line in ran.of("topic")
             if line["compaction"]}  # fmt: skip
    assert waits == {"a": "ready", "own": "ratio"}
    properties.write_text(f"log.dirs={data}\nlog.cleaner.min.cleanable.ratio=much\n")
    ran = kdump("space", "--config", properties, searching=False)
    waits = {line["topic"]: line["compaction"][0]["wait"] for line in ran.of("topic")
             if line["compaction"]}  # fmt: skip
    assert waits == {"a": "unknown", "own": "ratio"}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker runs wherever one asks."""
    live = Liveness(BrokerState.LIVE, "a test says so")
    monkeypatch.setattr("kdump.audit.targets.target.liveness", lambda *_, **__: live)


def aged(data: Path, hours: int, *, checkpoint_hours: int) -> None:
    now = data.stat().st_mtime
    for path in data.glob("*-0/*.log"):
        os.utime(path, (now, now - hours * HOUR_S))
    file = data / "cleaner-offset-checkpoint"
    os.utime(file, (now, now - checkpoint_hours * HOUR_S))


@pytest.mark.usefixtures("running")
def test_a_cleaner_that_stands_still_is_said(node: Node) -> None:
    made = node.add("a", None)
    node.add("b", 10)
    data = node.write()
    assert "ready for" not in said(data)  # it may begin any moment
    aged(data, 5, checkpoint_hours=9)
    text = said(data)
    assert "the cleaner takes a-0 next" in text
    assert "it has been ready for 5 h" in text
    assert "the checkpoint of the cleaner has stood still for 9 h" in text
    aged(data, 5, checkpoint_hours=2)
    assert "the checkpoint of the cleaner was written meanwhile" in said(data)
    (data / "cleaner-offset-checkpoint").unlink()
    assert "no checkpoint of the cleaner is there" in said(data)
    (made / f"{0:020}.log.cleaned").write_bytes(bytes(4096))
    text = said(data)
    assert "the cleaner is at a-0" in text
    assert "ready for" not in text


def test_of_a_stopped_broker_no_cleaner_stands_still(node: Node) -> None:
    node.add("a", None)
    data = node.write()
    aged(data, 5, checkpoint_hours=9)
    assert "ready for" not in said(data)
    assert cleaner._STILL_MS == HOUR_S * 1000
