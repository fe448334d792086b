"""Partitions that were moved aside, among three brokers: these fetch them again from their leaders.

Spec: ``LogLoader.load``, ``ReplicaFetcherThread``, ``PartitionChangeBuilder``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.histories import RESTING, PartedTopic, Writer, create
from brokers.replicas import CONTROLLER, NODES, Replicas
from commands.repair.repairing import left, lines, plan_id, repair
from kdump.ui import exits
from support import forge
from support.commands import kdump
from support.losses import places

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

TOPICS = (
    PartedTopic("corrupt", "a batch amid the log is corrupt", kind="transactional", codec="zstd"),
    PartedTopic("cut", "a segment amid the log is gone", kind="idempotent"),
    PartedTopic("whole", "nothing is wrong"),
)
NAMES = [topic.name for topic in TOPICS]


def spoil(data: Path) -> None:
    """Damage a batch of a log that valid ones follow, and remove a segment amid another."""
    log = min((data / "corrupt-0").glob("*.log"))
    position = places(log)[0].position + places(log)[0].size
    log.write_bytes(forge.flip(log.read_bytes(), position - 1))
    _, gone, _, *_ = sorted((data / "cut-0").glob("*.log"))
    for path in (data / "cut-0").glob(f"{gone.stem}.*"):
        path.unlink()


def logs(data: Path, topic: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((data / f"{topic}-0").glob("*.log")))


def written(cluster: Replicas) -> Writer:
    """Start the brokers, and write the topics, whose replicas are all in sync then."""
    cluster.configure(dict.fromkeys(NODES, RESTING))
    cluster.start(*NODES)
    create(cluster, TOPICS)
    cluster.in_sync(NAMES)
    writer = Writer(cluster, TOPICS)
    for _ in range(3):
        writer.write(*NAMES)
    cluster.in_sync(NAMES)
    return writer


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
@pytest.mark.parametrize("killed", [False, True], ids=["clean", "killed"])
def test_the_broker_fetches_what_was_moved_aside(
    version: str, killed: bool, tmp_path: Path
) -> None:
    with Replicas(version, tmp_path / "nodes") as cluster:
        writer = written(cluster)
        data = cluster.directory(1)
        (cluster.kill if killed else cluster.stop)(1)
        cluster.in_sync(NAMES)  # the others alone
        writer.write(*NAMES)
        spoil(data)
        asked = ("--refetch", "--metadata", cluster.directory(CONTROLLER), data)
        assert {"corrupt-0", "cut-0"} <= left(data).keys()
        agreed = plan_id(*asked)
        ran = repair(*asked, "--apply", "--confirm", agreed)
        assert ran.code == exits.OK, ran
        cluster.start(1)
        states = cluster.in_sync(NAMES)
        assert all(state["leader"] != 1 for state in states.values())
        writer.write(*NAMES)
        cluster.in_sync(NAMES)
        cluster.stop(*NODES, CONTROLLER)
    for topic in NAMES:
        assert logs(data, topic) == logs(cluster.directory(2), topic) != b""
    assert kdump("verify", data).code == exits.OK
    assert kdump("compare", *map(cluster.directory, NODES)).code == exits.OK


def test_the_only_replica_in_sync_is_never_moved_aside(tmp_path: Path) -> None:
    """Where the user says that others are in sync, and they are not, all brokers lose the topic."""
    with Replicas("4.3.1", tmp_path / "nodes") as cluster:
        writer = written(cluster)
        data, controller = cluster.directory(1), cluster.directory(CONTROLLER)
        cluster.stop(2, 3)
        cluster.in_sync(NAMES)
        writer.write(*NAMES)
        cluster.stop(1)
        spoil(data)
        refused = left("--refetch", "--metadata", controller, data)
        for name in ("corrupt-0", "cut-0"):
            assert "no other replica is in sync" in refused[name]
        wrong = ("--refetch", "--others-in-sync", data)
        ran = repair(*wrong, "--apply", "--confirm", plan_id(*wrong))
        assert ran.code == exits.OK, ran
        cluster.stop(CONTROLLER)
        cluster.truncations(1, NAMES)
        cluster.stop(*NODES, CONTROLLER)
    for node in NODES:
        assert logs(cluster.directory(node), "corrupt") == b""
        assert logs(cluster.directory(node), "whole") != b""
    assert lines(repair(data, "--format", "json"), "cure") == []
