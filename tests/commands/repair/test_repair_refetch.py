"""Partitions moved aside for the broker to fetch again: only where another replica is in sync."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from commands.heal.forged_copies import broken
from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST
from commands.repair.repairing import directory, lasting, left, lines, plan_id, repair
from kdump.ui import exits
from support import forge
from support import forge_metadata as meta
from support.commands import kdump
from support.crashing.recorded import record
from support.crashing.trees import put
from support.damaged import name
from support.fixtures_loader import copy_fixture

GOOD = damaged.whole()
ID, OTHER = forge.TOPIC_ID, "A" * 21 + "g"
NODES = (1, 2, 3)
MARK = "replication-offset-checkpoint"
CLEAN = ".kafka_cleanshutdown"

Records = Sequence[bytes]


def states(
    nodes: Sequence[int] = NODES,
    topic_id: str = ID,
    *,
    in_sync: Sequence[int] | None = None,
    eligible: Sequence[int] | None = None,
) -> Records:
    """The records of a partition, and of what became of its replicas."""
    made = [meta.topic("t", topic_id), meta.partition(topic_id, 0, nodes)]
    if in_sync is None:
        return made
    return [*made, meta.change(topic_id, 0, in_sync=in_sync, eligible=eligible)]


def write(
    top: Path,
    own: Records | None = None,
    given: Records | None = None,
    files: dict[str, bytes | None] | None = None,
) -> tuple[Path, Path]:
    """Write the log directory of node 1, whose partition is corrupt, and that of a controller."""
    data, controller = top / "data", top / "controller"
    damage = {FIRST: broken(GOOD[FIRST], 3), 100: GOOD[100]}
    directory(data, {"t": (damage, files or {})})
    directory(controller, {}, node=b"10")
    for place, records in ((data, own), (controller, given)):
        if records is not None:
            (place / meta.METADATA).mkdir()
            (place / meta.segment_name()).write_bytes(meta.log(records))
    return data, controller


ALONE = "no other replica is in sync"
ROWS = {
    "another-in-sync": (states(), states(in_sync=[2]), None),
    "itself-in-sync": (states(), states(in_sync=[1, 2]), "may leave it before"),
    "no-own-log": (None, states(in_sync=[2]), None),
    "only-in-isr": (states(), states(in_sync=[1]), ALONE),
    "only-in-elr": (states(), states(in_sync=[], eligible=[1]), ALONE),
    "others-in-elr": (states(), states(in_sync=[], eligible=[2, 3]), ALONE),
    "only-replica": (states([1]), states([1]), ALONE),
    "no-replica": (states(), states([2, 3]), "node 1 is no replica of it"),
    "other-topic": (states(), states(topic_id=OTHER), "has no partition 0 of topic id"),
    "older": ([*states(in_sync=[1]), meta.NO_OP], states(in_sync=[1, 2]), ALONE),
    "older-in-sync": ([*states(in_sync=[1, 2]), meta.NO_OP], states(in_sync=[2]), "may leave it"),
    "older-left": ([*states(in_sync=[2]), meta.NO_OP], states(in_sync=[1]), "shut down cleanly"),
    "own-in-sync": (states(in_sync=[1, 2]), None, "may leave it before"),
    "own-left": (states(in_sync=[2]), None, "shut down cleanly"),
    "none": (None, None, "no metadata log says which replicas are in sync"),
    "unread": (states(), [*states(in_sync=[2]), b"\x01\xff"], "could not be read whole"),
}


@pytest.mark.parametrize(("own", "given", "why"), ROWS.values(), ids=ROWS.keys())
def test_another_replica_must_be_in_sync_by_the_newest_metadata_log(
    own: Records | None, given: Records | None, why: str | None, place: Path
) -> None:
    data, controller = write(place, own, given)
    asked = ("--refetch", *(("--metadata", controller) if given is not None else ()), data)
    reasons = left(*asked)
    if why is None:
        (cure,) = lines(repair(*asked, "--format", "json"), "cure")
        assert (cure["cure"], cure["lossy"], reasons) == ("refetch", True, {})
    else:
        assert why in reasons["t-0"]
        assert lines(repair(*asked, "--format", "json"), "cure") == []


@pytest.mark.parametrize(
    ("own", "why"), [(states([1]), "it is the only replica"), (states(in_sync=[1]), None)]
)
def test_the_user_may_know_better(own: Records, why: str | None, place: Path) -> None:
    data, _ = write(place, own)
    found = left("--refetch", "--others-in-sync", data)
    assert (why or "") in found.get("t-0", "")
    assert bool(found) is (why is not None)


def test_the_log_of_the_node_counts_if_its_end_was_flushed(place: Path) -> None:
    """Brokers do not flush it as it grows: after a power loss the node may have been in the ISR."""
    data, _ = write(place, states(in_sync=[2]))
    assert "expected that this node was shut down cleanly" in left("--refetch", data)["t-0"]
    (data / CLEAN).write_bytes(b'{"version":0,"brokerEpoch":7}')
    (cure,) = lines(repair("--refetch", data, "--format", "json"), "cure")
    assert cure["cure"] == "refetch"


@pytest.mark.parametrize(
    ("leader", "topic", "cluster", "refused"),
    [
        (-1, "true", None, True),
        (-1, None, "true", True),
        (-1, "false", "true", False),
        (-1, None, None, False),
        (2, "true", None, False),
    ],
)
def test_no_unclean_election_is_near(
    leader: int, topic: str | None, cluster: str | None, refused: bool, place: Path
) -> None:
    """Where no member of the ISR runs, the first broker that starts would lead."""
    election = "unclean.leader.election.enable"
    given = [
        *states()[:2],
        meta.config("t", election, topic),
        meta.config("", election, cluster, kind=4),
        meta.change(ID, 0, in_sync=[2], leader=leader),
    ]
    data, controller = write(place, states(), given)
    reasons = left("--refetch", "--metadata", controller, data)
    assert ("unclean elections are enabled" in reasons.get("t-0", "")) is refused
    assert bool(reasons) is refused


def test_the_plan_says_where_its_knowledge_is_from(place: Path) -> None:
    """The metadata log of the node is newer than the given one, or denies what the user says."""
    own, older = [*states(in_sync=[2]), meta.NO_OP], states(in_sync=[3])
    data, controller = write(place, own, older)
    (data / CLEAN).write_bytes(b"")
    text = " ".join(repair("--refetch", "--metadata", controller, data).out.split())
    assert "in sync by the metadata log of this node: ISR 2, leader 1" in text
    assert "A leader has them by" not in text
    data, _ = write(place / "user", states(in_sync=[1]))
    text = " ".join(repair("--refetch", "--others-in-sync", data).out.split())
    assert "the metadata log of this node ends with: ISR 1, leader 1" in text


@pytest.mark.parametrize("content", [None, b"", b"version: 0\ntopic_id: short"])
def test_the_topic_id_must_be_known(content: bytes | None, place: Path) -> None:
    data, _ = write(place, files={"partition.metadata": content})
    why = left("--refetch", "--others-in-sync", data)["t-0"]
    assert "expected partition.metadata" in why


@pytest.mark.parametrize("suffix", ["stray", "delete", "future"])
def test_brokers_fetch_current_logs_alone(suffix: str, place: Path) -> None:
    data, controller = write(place, states(), states(in_sync=[2]))
    (data / "t-0").rename(data / f"t-0.{32 * 'a'}-{suffix}")
    ran = repair("--refetch", "--metadata", controller, data, "--format", "json")
    assert lines(ran, "cure") == []
    for each in lines(repair(data, "--format", "json"), "left"):
        assert "--refetch" not in each["options"]


def test_a_directory_in_the_place_of_a_log_is_left(place: Path) -> None:
    """A broker cannot start on it, whatever else has gone."""
    data, controller = write(place, states(), states(in_sync=[2]))
    (data / "t-0" / name(300, ".log")).mkdir()
    why = left("--refetch", "--metadata", controller, data)["t-0"]
    assert "found another type" in why or "log-is-no-file" in why


def test_a_partition_in_two_directories_is_left(place: Path) -> None:
    """Both would stay, and no broker starts on them."""
    data, controller = write(place, states(), states(in_sync=[2]))
    second = directory(place / "second", {"t": ({FIRST: broken(GOOD[FIRST], 3), 100: []}, {})})
    for path, letter in ((data, "B"), (second, "C")):
        text = (path / "meta.properties").read_text() + f"directory.id={21 * letter}g\n"
        (path / "meta.properties").write_text(text)
    ran = repair("--refetch", "--metadata", controller, data, second, "--format", "json")
    told = "\n".join(each["reason"] for each in lines(ran, "left"))
    assert f"{data / 't-0'}: expected it alone, found {second / 't-0'} too" in told
    assert f"{second / 't-0'}: expected it alone, found {data / 't-0'} too" in told
    assert lines(ran, "cure") == []


def test_usage(place: Path) -> None:
    data, controller = write(place, states(), states(in_sync=[2]))
    alone = repair("--metadata", controller, data)
    assert (alone.code, "expected --refetch" in alone.err) == (exits.USAGE, True)
    both = ("--metadata", controller, "--others-in-sync")
    assert repair("--refetch", *both, data).code == exits.USAGE
    wrong = repair("--refetch", "--metadata", data / "t-0", data)
    assert (wrong.code, wrong.err.count("\n")) == (exits.USAGE, 1), wrong
    assert "expected a metadata log" in wrong.err


def test_what_is_right_stays(place: Path) -> None:
    """Of a log that can be repaired without a loss nothing is fetched."""
    data, replica = damaged.write(place)
    asked = ("--refetch", "--others-in-sync", data)
    cures = lines(repair(*asked, "--format", "json"), "cure")
    kinds = {Path(each["partition"]).name: each["cure"] for each in cures}
    assert kinds == {
        "both-0": "tail",
        "end-0": "tail",
        "index-0": "rebuild",
        "middle-0": "refetch",
        "torn-0": "tail",
    }
    cures = lines(repair("--from", replica, *asked, "--format", "json"), "cure")
    assert {Path(each["partition"]).name: each["cure"] for each in cures}["middle-0"] == "replica"


def test_what_is_moved_aside_comes_back_by_undo(place: Path) -> None:
    data, controller = write(place, states(), states(in_sync=[2]))
    (data / MARK).write_text("0\n1\nt 0 200\n")
    (data / CLEAN).write_bytes(b'{"version":0,"brokerEpoch":7}')
    was = lasting(data)
    asked = ("--refetch", "--metadata", controller, data)
    agreed = plan_id(*asked)
    text = repair(*asked)
    assert all(len(line) <= 80 or line.startswith("  ") for line in text.out.splitlines())
    assert "another replica is in sync: ISR 2, leader 1" in " ".join(text.out.split())
    assert repair(*asked, "--apply").code == exits.REFUSED
    assert repair(*asked, "--apply", "--confirm", agreed).code == exits.OK
    assert {path.name for path in (data / "t-0").iterdir()} == {"partition.metadata", ".kdump"}
    assert (data / MARK).read_text() == "0\n0\n"
    assert (data / CLEAN).read_bytes() == b""
    assert repair(*asked).code == exits.OK  # nothing is left to do
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert lasting(data) == was


def test_a_start_amid_it_finds_the_beginning_of_the_log(place: Path) -> None:
    """Nothing goes before the clean shutdown file has lost its epoch, and the last segment first.

    After a kill the same command goes on, and undo takes it back.
    """
    data, controller = write(place, states(), states(in_sync=[2]))
    (data / CLEAN).write_bytes(b'{"version":0,"brokerEpoch":7}')
    (data / MARK).write_text("0\n1\nt 0 200\n")
    command = ["repair", "--refetch", "--metadata", str(controller), str(data), "--apply"]
    command += ["--confirm", plan_id("--refetch", "--metadata", controller, data)]
    recorded = record(command, data)
    after = lasting(data)
    logs = []
    for number, (_, state) in enumerate(recorded.states):
        put(data, state)
        found = [path.name for path in sorted((data / "t-0").glob("*.log"))]
        marker = data / CLEAN
        assert found == [name(FIRST, ".log"), name(100, ".log")][: len(found)]
        if len(found) < 2:
            assert not marker.exists() or marker.read_bytes() == b""
        logs.append(len(found))
        if number % 5 == 0:
            assert kdump(*command).code == exits.OK, number
            assert lasting(data) == after, number
            put(data, state)
            undone = kdump("undo", data, "--plan", command[-1], "--apply")
            assert undone.code in (exits.OK, exits.USAGE), (number, undone)
            assert len(list((data / "t-0").glob("*.log"))) == 2, number
    assert sorted(logs, reverse=True) == logs
    assert set(logs) == {0, 1, 2}


def test_the_node_that_the_metadata_log_of_a_real_cluster_has_in_the_elr(place: Path) -> None:
    """By the log of node 1 it is alone in the ELR; by that of the controller another one leads."""
    nodes = copy_fixture("4.3.1/replicas", place / "nodes")
    log = nodes / "1" / "same-0" / name(0, ".log")
    log.write_bytes(forge.flip(log.read_bytes(), 200))
    asked = ("--refetch", "--topic", "same")
    assert "(ISR empty, ELR 1, leader none)" in left(*asked, nodes / "1")["same-0"]
    given = ("--metadata", nodes / "controller")
    (plan,) = lines(repair(*asked, *given, nodes / "1", "--format", "json"), "plan")
    assert plan["notes"][0] == "another replica is in sync: ISR 2, leader 2"
