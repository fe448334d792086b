"""Puts partitions from elsewhere into the log directory of a stopped broker.

Spec: KOD 2; a KRaft broker knows a partition by the topic id in its ``partition.metadata``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from brokers.broker import Broker
from brokers.workload import create_topics
from brokers.zookeeper import Described

_ID, _EPOCHS = "partition.metadata", "leader-epoch-checkpoint"


def plant(
    version: str, data: Path, partitions: Mapping[str, Path], config: Mapping[str, str]
) -> None:
    """Make ``data``, as a broker of ``version`` leaves it that has these partitions.

    ``partitions`` are directories by topic; each becomes that topic's only partition, without its
    leader epochs, as here they begin anew. Times of files are kept. ``config`` holds settings of
    all these topics.
    """
    described = Described(partitions=1, config=dict(config))
    with Broker(version, data) as broker:
        create_topics(broker, dict.fromkeys(partitions, described))
    for topic, source in partitions.items():
        directory = data / f"{topic}-0"
        for path in directory.iterdir():
            if path.name != _ID:
                path.unlink()
        for path in source.iterdir():
            if path.name not in (_ID, _EPOCHS):
                shutil.copy2(path, directory / path.name)
