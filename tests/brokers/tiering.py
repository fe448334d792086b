"""What is done to a broker with remote storage before its log directory becomes a fixture.

Spec: KIP-405; the program is ``java/Tiering.java``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from brokers.broker import Broker
from brokers.programs import run
from brokers.workload import create_topics
from brokers.zookeeper import Described

SHOWS = {
    "local": "no remote storage",
    "tiered": "older segments in remote storage alone; log start and offsets of groups in them",
    "copied": "older segments in remote storage and here",
    "never-copied": "remote storage, and nothing written",
}
"""The topics, of one partition each, and what each is there to show."""

_SEGMENTS = {
    "internal.segment.bytes": "4000",
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "segment.ms": str(10**12),
}
_REMOTE = {"remote.storage.enable": "true"}
_TOPICS = {
    "local": _SEGMENTS,
    "tiered": {**_SEGMENTS, **_REMOTE, "local.retention.bytes": "1"},
    "copied": {**_SEGMENTS, **_REMOTE},
    "never-copied": {**_SEGMENTS, **_REMOTE},
}
_BEFORE: Mapping[str, Mapping[str, Any]] = {
    "local": {"round": 1, "batches": 20},
    "tiered": {"round": 1, "batches": 30, "local": True},
    "copied": {"round": 1, "batches": 20, "copied": True},
}
#: The log start is in the second segment: that before it is removed in remote storage.
_AFTER: Mapping[str, Mapping[str, Any]] = {
    "tiered": {
        "round": 2,
        "batches": 30,
        "local": True,
        "delete": 60,
        "groups": {"behind": 100, "lost": 30, "current": 250},
    },
    "copied": {"groups": {"behind": 10}},
    "never-copied": {},
    "local": {},
}


def tier(broker: Broker) -> dict[str, dict[str, int]]:
    """Write to topics with and without remote storage, with a restart between.

    Returns the offsets of each topic, as the broker answers: ``start``, ``local``, ``remote`` and
    ``end``.
    """
    create_topics(broker, {name: Described(partitions=1, config=c) for name, c in _TOPICS.items()})
    _move(broker, _BEFORE)
    broker.stop()
    broker.start()
    return _move(broker, _AFTER)


def _move(broker: Broker, order: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    text = run(broker.version, "Tiering", broker.bootstrap, stdin=json.dumps(order))
    told: dict[str, dict[str, int]] = json.loads(text)
    return told
