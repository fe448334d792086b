"""Leader epochs without a batch at the end of an idle log, among three brokers.

No record says that epoch 1 began at offset 10, only the checkpoints do. Without that line a replica
truncates its log below the high watermark, and forgets where the log ended.

Spec: ``LeaderEpochFileCache.endOffsetFor``, ``Partition.readRecords``, ``AbstractFetcherThread``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import idle_epochs
import pytest
from brokers.histories import RESTING, PartedTopic, create
from brokers.replicas import CONTROLLER, NODES, Replicas
from commands import repair
from idle_epochs import END, FORGOTTEN, MALFORMED, PARTING, TOPIC, WHOLE

from kdump.cli.ui import exits

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
        below = f"Truncating {TOPIC}-0 to offset {PARTING} below high watermark {END}"
        assert any(below in line for line in cluster.log_lines(3))
        assert not any(below in line for line in cluster.log_lines(2))
        cluster.stop(*NODES, CONTROLLER)
    segments = {node: sorted(path.name for path in paths[node].glob("*.log")) for node in NODES}
    assert segments[1] == segments[2] == [f"{0:020}.log", f"{END:020}.log"]
    assert segments[3] == [f"{0:020}.log"]
