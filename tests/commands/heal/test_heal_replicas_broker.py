"""A replica that was healed from another, among three brokers: it joins, and has what they have.

Spec: ``AbstractFetcherThread``, ``UnifiedLog.truncateTo``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.histories import PartedTopic, Writer, create
from brokers.programs import consume
from brokers.replicas import CONTROLLER, NODES, Outcome, Replicas
from support.commands import kdump
from support.resealing import places
from support.served import COMMITTED, READ, Records, records

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

HEALED, LEADER, THIRD = 3, 1, 2
#: Each topic by the damage of its copy on the healed broker.
TOPICS = (
    PartedTopic("flipped", "a flipped bit in two batches", kind="transactional", codec="zstd"),
    PartedTopic("zeroed", "zeros over the borders of batches", kind="idempotent"),
    PartedTopic("torn", "the last log ends within a batch", kind="transactional"),
    PartedTopic("headless", "the first segment is gone", kind="plain", codec="lz4"),
    PartedTopic("hollow", "a segment in the middle is gone", kind="idempotent"),
    PartedTopic("short", "the last two segments are gone", kind="transactional"),
)
NAMES = tuple(topic.name for topic in TOPICS)


def write_history(cluster: Replicas, *, killed: bool) -> None:
    """Several leader epochs, of each of which some batches; all nodes have stopped then."""
    writer = Writer(cluster, TOPICS)
    cluster.start(*NODES)
    create(cluster, TOPICS)
    cluster.in_sync(NAMES)
    writer.write(*NAMES, batches=30)
    cluster.stop(LEADER)
    cluster.in_sync(NAMES)
    writer.write(*NAMES, batches=30)
    cluster.start(LEADER)
    cluster.in_sync(NAMES)
    cluster.stop(THIRD)
    cluster.in_sync(NAMES)
    writer.write(*NAMES, batches=30)
    cluster.start(THIRD)
    cluster.in_sync(NAMES)
    if killed:
        cluster.kill(*NODES)
    else:
        cluster.stop(*NODES)
    cluster.stop(CONTROLLER)


def damage(top: Path) -> None:
    """Damage the partitions below ``top`` as their names say."""
    paths = {name: sorted((top / f"{name}-0").glob("*.log")) for name in NAMES}
    assert min(map(len, paths.values())) >= 4
    for log in paths["flipped"][:2]:
        data = bytearray(log.read_bytes())
        _, end = places(bytes(data))[1]
        data[end - 3] ^= 16
        log.write_bytes(data)
    for log in paths["zeroed"][1:3]:
        data = bytearray(log.read_bytes())
        start, end = places(bytes(data))[1]
        data[start - 20 : end - 5] = bytes(end - 5 - start + 20)
        log.write_bytes(data)
    log = [each for each in paths["torn"] if each.stat().st_size][-1]
    log.write_bytes(log.read_bytes()[:-7])
    gone = [paths["headless"][0], paths["hollow"][1], *paths["short"][-2:]]
    for log in gone:
        for path in log.parent.glob(f"{log.stem}.*"):
            path.unlink()


def logs_of(top: Path) -> dict[str, bytes]:
    """The bytes of all logs of each topic, one behind the other: borders may differ."""
    return {
        name: b"".join(path.read_bytes() for path in sorted((top / f"{name}-0").glob("*.log")))
        for name in NAMES
    }


def read_from(cluster: Replicas, node: int, directory: Path) -> dict[tuple[str, str], Records]:
    """What consumers of both isolation levels read where ``node`` alone runs, and so leads."""
    led = cluster.in_sync(NAMES)
    assert {led[name]["leader"] for name in NAMES} == {node}
    directory.mkdir()
    partitions = [f"{name}-0" for name in NAMES]
    for isolation in (READ, COMMITTED):
        consume(cluster.version, cluster.addresses[node], isolation, partitions, directory)
    return {
        (name, isolation): records(directory / f"{name}-0.{isolation}.jsonl")
        for name in NAMES
        for isolation in (READ, COMMITTED)
    }


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_healed_replica_joins_and_has_the_same(
    version: str, killed: bool, tmp_path: Path
) -> None:
    with Replicas(version, tmp_path / "nodes") as cluster:
        write_history(cluster, killed=killed)
        healed, other = cluster.directory(HEALED), cluster.directory(LEADER)
        whole = logs_of(other)
        assert logs_of(healed) == whole
        damage(healed)
        for name in NAMES:
            assert logs_of(healed)[name] != whole[name]
            ran = kdump("heal", healed / f"{name}-0", "--from", other, "--apply")
            assert ran.code == 0, (name, ran)
        assert logs_of(healed) == whole

        outcomes = cluster.truncations(LEADER, NAMES)
        ends = {name: outcomes[name][THIRD].end for name in NAMES}
        assert None not in ends.values()
        for name in NAMES:
            found = outcomes[name][HEALED]
            assert Outcome(found.end, found.offset) == Outcome(ends[name], None), name
        # Each in turn is the only one that runs; nothing is written meanwhile.
        read = {}
        cluster.stop(THIRD, HEALED)
        read[LEADER] = read_from(cluster, LEADER, tmp_path / "1")
        for node, before in ((HEALED, LEADER), (THIRD, HEALED)):
            cluster.start(node)
            cluster.in_sync(NAMES)
            cluster.stop(before)
            read[node] = read_from(cluster, node, tmp_path / str(node))
        assert all(read[LEADER].values())
        assert read[HEALED] == read[LEADER]
        assert read[THIRD] == read[LEADER]
        cluster.stop(THIRD, CONTROLLER)
    assert {node: logs_of(cluster.directory(node)) for node in NODES} == dict.fromkeys(NODES, whole)
