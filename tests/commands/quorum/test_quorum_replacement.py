"""``kdump quorum`` where the disks of a majority are lost: which to replace, and in which order."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from support import quorum_disks as disks
from support.fixtures_loader import copy_fixture
from support.forge import batch, control_batch, record
from support.forge_metadata import METADATA, NO_OP, segment_name, uuid

CLUSTER = "kdumpFixturesCluster0A"
IDS = {node: f"kdumpControllerDirec{node}g" for node in (1, 2, 3)}


def node(top: Path, number: int, *, log: bool = True) -> Path:
    """The disk of a node of a real cluster that node 1 led last; without ``log`` a new one."""
    directory = copy_fixture("4.3.1/clean", top / str(number))
    meta = directory / "meta.properties"
    text = meta.read_text().replace("node.id=1", f"node.id={number}")
    meta.write_text(text.replace("directory.id=03F0", f"directory.id=0{number}F0"))
    for path in directory.iterdir():
        if path.is_dir() and (path.name != METADATA or not log):
            shutil.rmtree(path)
    for snapshot in directory.glob(f"{METADATA}/*.checkpoint"):
        snapshot.unlink()  # the whole log is there
    return directory


class Quorum:
    """Runs the command with the voters 1 to 3; its JSON lines, and the text of the verdict."""

    def __init__(self, top: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = top / "config"
        self._config.write_text("controller.quorum.voters=1@a:1,2@b:1,3@c:1\n")
        self._capsys = capsys

    def __call__(self, *paths: Path, static: bool = True) -> tuple[int, dict[str, Any], str]:
        options = ["--config", str(self._config)] if static else []
        arguments = ["quorum", *map(str, paths), *options]
        code = main([*arguments, "--format", "json"])
        *_, summary = map(json.loads, self._capsys.readouterr().out.splitlines())
        assert main(arguments) == code
        text = self._capsys.readouterr().out
        assert text.startswith("OK  " if code == 0 else "ERROR  ")
        for line in text.splitlines():
            whole = line.startswith(("REPLICA", " " * 14))
            assert len(line) <= 80 or whole or " " not in line.strip(), line
        return code, summary, " ".join(text.split())


@pytest.fixture
def quorum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Quorum:
    return Quorum(tmp_path, capsys)


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


@pytest.mark.parametrize(("survivor", "first", "later"), [(3, 2, 1), (2, 3, 1), (1, 2, 3)])
def test_a_disk_that_was_not_of_the_last_leader_is_replaced_first(
    survivor: int, first: int, later: int, quorum: Quorum, tmp_path: Path
) -> None:
    directory = node(tmp_path, survivor)
    code, summary, text = quorum(directory)
    found = summary["replacement"]
    assert code == 4
    assert [each["node_id"] for each in found["first"]] == [first]
    assert [each["node_id"] for each in found["later"]] == [later]
    assert (found["last_leader"], found["lacks_from_offset"], found["sources"]) == (1, 305, [])
    assert in_order(
        text,
        f"may have committed records from offset 305 on, which node {survivor} does not have",
        f"1. Format one new disk, for node {first}",
        f": kafka-storage.sh format -t {CLUSTER}",
        f"2. Run this, and start the nodes in the order that it prints: kdump quorum {directory}",
        f"3. When there is a leader, format the new disk of node {later} likewise",
    )
    assert ("not of node 1: it led last" in text) is (survivor != 1)
    # Its advice, up to the next answer.
    code, summary, text = quorum(directory, node(tmp_path, first, log=False))
    assert (code, summary["can_lead"], summary["replacement"]) == (0, [survivor], None)
    assert f"Start node {survivor} first; it leads as soon as node {first} runs too" in text


def test_a_new_disk_of_the_last_leader_is_not_what_helps(quorum: Quorum, tmp_path: Path) -> None:
    code, summary, text = quorum(node(tmp_path, 3), node(tmp_path, 1, log=False))
    assert code == 4
    assert summary["start_first"] == [3, 1]
    assert (
        "Node 1 led last, and stops at every startup before it votes: replace the disk of" in text
    )
    assert "disk of node 2 instead, and the disk of node 1 once there is a leader" in text
    assert "it leads as soon as" not in text
    assert "or restart it until they do" not in text


def test_brokers_that_reach_further_are_named_as_a_source(quorum: Quorum, tmp_path: Path) -> None:
    survivor, near, far = node(tmp_path, 3), node(tmp_path, 4), node(tmp_path, 5)
    disks.cut_batches(30)(survivor)
    disks.cut_batches(10)(near)
    code, summary, text = quorum(survivor, near, far)
    assert code == 4
    sources = summary["replacement"]["sources"]
    assert [each["copy"] for each in sources] == [3, 2]
    end = summary["replacement"]["lacks_from_offset"]
    assert [each["first_offset"] for each in sources] == [end, end]
    assert sources[0]["end_offset"] == 305 > sources[1]["end_offset"] > end
    assert in_order(
        text,
        f"from offset {end} on",
        f"Node 5 has offsets {end}..304 of them",
        "1. Format one new disk, for node 2",
        f"2. To keep the later records of node 5, copy the whole {far / METADATA}",
        "delete quorum-state in the copy",
        "3. Run this",
    )
    # With it, the new disk leads.
    new = node(tmp_path, 2, log=False)
    shutil.copytree(far / METADATA, new / METADATA)
    (new / METADATA / "quorum-state").unlink()
    code, summary, text = quorum(survivor, new, far)
    assert (code, summary["can_lead"]) == (0, [2])


def test_without_a_voter_the_log_of_a_broker_is_the_source(quorum: Quorum, tmp_path: Path) -> None:
    broker = node(tmp_path, 4)
    _, summary, text = quorum(broker)
    assert [each["node_id"] for each in summary["replacement"]["first"]] == [2, 3]
    assert "Format 2 new disks, for node 2 and node 3" in text
    assert f"copy the whole {broker / METADATA} into the new directory of node 2" in text
    # No log is left: the formatted new disk of a voter.
    code, _, text = quorum(node(tmp_path, 1, log=False))
    assert code == 4
    assert "No metadata log is given" in text
    assert "Format" not in text


def test_an_empty_disk_alone_says_nothing_of_the_quorum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "1"
    empty.mkdir()
    config = tmp_path / "config"
    config.write_text("controller.quorum.voters=1@a:1,2@b:1,3@c:1\n")
    assert main(["quorum", str(empty), "--config", str(config)]) == 5
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("found an empty directory: is the disk mounted?\n")


def test_what_does_not_start_is_repaired_and_not_replaced(quorum: Quorum, tmp_path: Path) -> None:
    broken = node(tmp_path, 2)
    disks.empty_quorum_state(broken)
    _, summary, text = quorum(node(tmp_path, 3), broken)
    assert summary["replacement"] is None
    assert "kdump explain quorum-state-malformed" in text


def test_dynamic_voters_keep_their_directory_ids(quorum: Quorum, tmp_path: Path) -> None:
    def keys(nodes: Sequence[int]) -> bytes:
        listed = b"".join(struct.pack(">i", each) + uuid(IDS[each]) + b"\0" for each in nodes)
        return bytes([len(nodes) + 1]) + listed

    listed = b"".join(
        struct.pack(">i", each) + uuid(name) + b"\1" + struct.pack(">hh", 0, 1) + b"\0\0"
        for each, name in IDS.items()
    )
    voters = struct.pack(">h", 0) + bytes([len(IDS) + 1]) + listed + b"\0"
    elected = struct.pack(">hi", 1, 1) + keys([1, 2, 3]) + keys([1, 2]) + b"\0"
    log = [
        control_batch(0, 2, elected, leader_epoch=1),
        control_batch(1, 5, struct.pack(">hhb", 0, 1, 0), leader_epoch=1),
        control_batch(2, 6, voters, leader_epoch=1),
        batch(3, [record(NO_OP)], leader_epoch=1),
    ]
    directory = tmp_path / "3"
    (directory / METADATA).mkdir(parents=True)
    (directory / segment_name()).write_bytes(b"".join(log))
    (directory / "meta.properties").write_text(
        f"version=1\nnode.id=3\ncluster.id={CLUSTER}\ndirectory.id={IDS[3]}\n"
    )
    code, summary, text = quorum(directory, static=False)
    assert code == 4
    assert summary["replacement"]["first"] == [{"node_id": 2, "directory_id": IDS[2]}]
    assert in_order(
        text,
        "1. Format one new disk, for node 2",
        ": kafka-storage.sh format",
        "--no-initial-controllers",
        f"2. In its meta.properties, before its first start, write the old directory id, by which "
        f"the others know the voter: directory.id={IDS[2]} for node 2",
        "3. Run this",
    )
