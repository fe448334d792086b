"""A member of a group of Kafka Connect: the group protocol of a worker, without its connectors.

Spec: ``ConnectProtocol`` (KAFKA-2371): a URL and the offset of the configuration; assigned are an
error, a leader, and tasks by connector.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.base import BaseCoordinator

URL = "http://worker-1:8083/"
_PROTOCOL = "default"


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


METADATA = struct.pack(">h", 0) + _string(URL) + struct.pack(">q", 17)


class _Member(BaseCoordinator):  # type: ignore[misc]
    def protocol_type(self) -> str:
        return "connect"

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [(_PROTOCOL, METADATA)]

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[Any]
    ) -> dict[str, bytes]:
        head = struct.pack(">hh", 0, 0) + _string(leader_id) + _string(URL) + struct.pack(">q", 17)
        tasks = struct.pack(">i", 1) + _string("sink") + struct.pack(">iii", 2, 0, 1)
        return {leader_id: head + tasks}


@contextmanager
def connect_member(bootstrap: str, group: str) -> Iterator[None]:
    """A worker in ``group`` that stays until the block ends."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)  # for its client, which knows the broker
    try:
        member = _Member(
            consumer._client,
            group_id=group,
            session_timeout_ms=60_000,
            api_version=consumer.config["api_version"],
            metrics=None,
        )
        assert member.ensure_active_group(timeout_ms=30_000), "has not joined within 30 s"
        yield
    finally:
        consumer.close()
