"""Leader epochs without a batch at the end of an idle log, among three brokers.

No record says that epoch 1 began at offset 10, only the checkpoints do. Without that line a replica
truncates its log below the high watermark, and forgets where the log ended.

Spec: ``LeaderEpochFileCache.endOffsetFor``, ``Partition.readRecords``, ``AbstractFetcherThread``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from brokers.histories import RESTING, PartedTopic, Writer, create
from brokers.replicas import CONTROLLER, NODES, SECONDS, Replicas
from kdump.ui import exits
from repair import idle_epochs
from repair.idle_epochs import END, FORGOTTEN, MALFORMED, PARTING, TOPIC, WHOLE
from support.commands import repair
from support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

IDLE = PartedTopic(TOPIC, "its last records are compacted away", compact=True)
NAME = "leader-epoch-checkpoint"


def plant(directory: Path, content: bytes) -> Path:
    """Write what a broker has of the topic after the cleaner, with this checkpoint."""
    partition = directory / f"{TOPIC}-0"
    metadata = (partition / "partition.metadata").read_bytes()
    shutil.rmtree(partition)
    idle_epochs.write(directory, {NAME: content, "partition.metadata": metadata})
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = directory / name
        lines = path.read_text().split("\n")
        new = (f"{TOPIC} 0 {END}" if line.startswith(f"{TOPIC} ") else line for line in lines)
        path.write_text("\n".join(new))
    return partition


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_replica_keeps_its_end_by_the_line_that_reindex_keeps(
    version: str, tmp_path: Path
) -> None:
    """2 has its line again from a malformed file; 3 has forgotten it."""
    with Replicas(version, tmp_path / "nodes") as cluster:
        cluster.configure(dict.fromkeys(NODES, RESTING))
        cluster.start(*NODES)
        create(cluster, [IDLE])
        cluster.in_sync([TOPIC])
        cluster.stop(*NODES)
        contents = {1: WHOLE, 2: MALFORMED, 3: FORGOTTEN}
        paths = {node: plant(cluster.directory(node), contents[node]) for node in NODES}
        assert repair("reindex", paths[2]).code == exits.OK
        assert (paths[2] / NAME).read_bytes() == WHOLE

        outcomes = cluster.truncations(1, [TOPIC])[TOPIC]
        assert {node: found.end for node, found in outcomes.items()} == {2: END, 3: END}
        assert {node: found.offset for node, found in outcomes.items()} == {2: None, 3: PARTING}
        # 3.9 asks for the high watermark after it has truncated, and so does not warn of it.
        below = {
            "4.3.1": f"Truncating {TOPIC}-0 to offset {PARTING} below high watermark {END}",
            "3.9.1": f"Non-monotonic update of high watermark from (offset={END}, ",
        }[version]
        assert any(below in line for line in cluster.log_lines(3) if f"{TOPIC}-0" in line)
        assert not any(below in line for line in cluster.log_lines(2) if f"{TOPIC}-0" in line)
        cluster.stop(*NODES, CONTROLLER)
    segments = {node: sorted(path.name for path in paths[node].glob("*.log")) for node in NODES}
    assert segments[1] == segments[2] == [f"{0:020}.log", f"{END:020}.log"]
    assert segments[3] == [f"{0:020}.log"]


@pytest.mark.parametrize("version", ["4.3.1"])
def test_a_replica_stays_out_while_its_leader_lacks_the_line(version: str, tmp_path: Path) -> None:
    """A leader that moves a log to another directory forgets its own epoch, which has no batch.

    A replica that led in an epoch before that, without a batch too, asks for it in vain until a
    record is written (KAFKA-15608, KAFKA-20961).
    """
    leader, replica, third = 1, 3, 2
    top = tmp_path / "nodes"
    directories = {node: f"{top / str(node)},{top / str(node)}-b" for node in NODES}
    settings = {node: {**RESTING, "log.dirs": directories[node]} for node in NODES}
    quiet = PartedTopic("quiet", "nothing is written to it", brokers=(replica, leader, third))
    with Replicas(version, top, settings) as cluster:
        cluster.start(*NODES)
        create(cluster, [quiet])
        cluster.in_sync(["quiet"])
        Writer(cluster, [quiet]).write("quiet", batches=3)
        cluster.in_sync(["quiet"])
        cluster.stop(leader, third, replica)
        cluster.start(replica)  # which leads in a new epoch, without a batch
        assert cluster.in_sync(["quiet"])["quiet"]["leader"] == replica
        cluster.start(leader)
        cluster.in_sync(["quiet"])

        cluster.pause(replica)
        waited = cluster.do("wait", topics=["quiet"], brokers=[leader], seconds=SECONDS)
        assert waited["ready"], waited
        (held,) = top.glob(f"{leader}*/quiet-0")
        target = next(each for each in directories[leader].split(",") if each != str(held.parent))
        before = (held / NAME).read_text().split("\n")[2:-1]
        cluster.do("move", topics=["quiet"], broker=leader, to=target)
        moved = Path(target) / "quiet-0"
        until(moved.exists, SECONDS)
        after = (moved / NAME).read_text().split("\n")[2:-1]
        assert after == before[:1]  # the epoch of the batches alone
        cluster.resume(replica)

        def loops() -> int:
            said = "is out of range, which typically implies a leader change. Reset fetch offset to"
            return sum(said in line and "quiet-0" in line for line in cluster.log_lines(replica))

        until(lambda: loops() > 20, SECONDS)
        assert not cluster.do("wait", topics=["quiet"], brokers=[leader, replica], seconds=5)[
            "ready"
        ]
        said = "Could not determine the end offset of the last fetched epoch"
        print([line for line in cluster.log_lines(leader) if said in line][:2])
        Writer(cluster, [quiet], 7).write("quiet", batches=1)
        cluster.in_sync(["quiet"])
