"""The ``server.properties`` of a broker for tests, by release.

Spec: ``kafka.server.KafkaConfig``; before Kafka 3 with a ZooKeeper, then as a single KRaft node.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_COMMON = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.backoff.ms": "500",
    "auto.create.topics.enable": "false",
}

_KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "4194304",
}

_ZOOKEEPER = {
    "broker.id": "1",
    # A century: old records would be deleted by age.
    "log.retention.hours": "876000",
    "log.cleaner.enable": "true",
    "log.cleaner.dedupe.buffer.size": "8388608",
}

_SHARE = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}

# Settings that only some releases know, or need.
_SETTINGS_OF = {
    "3.9.1": {"group.coordinator.rebalance.protocols": "classic,consumer"},
    "4.3.1": _SHARE,
    "4.4.0": _SHARE,
}


def with_kraft(
    version: str, directory: Path, client: int, controller: int, beyond: Mapping[str, str]
) -> str:
    """For a node that keeps the cluster itself; ``client`` and ``controller`` are its ports."""
    listeners = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
        "log.dirs": str(directory),
    }
    return _text(listeners | _KRAFT | _COMMON | _SETTINGS_OF.get(version, {}) | dict(beyond))


def tiered(directory: Path) -> dict[str, str]:
    """What a broker says beyond, whose topics may have older segments in ``directory``."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "rsm.config.dir": str(directory),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        # Segments are copied, and removed here, as soon as they are sealed.
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.segment.delete.delay.ms": "500",
    }


def joining(client: int, controller: str) -> dict[str, str]:
    """What node 2 of a cluster says beyond or instead: ``controller`` is that of node 1."""
    return {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client}",
    }


#: A replica for each of three brokers, also of what Kafka keeps for itself.
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


def of_controller(
    version: str, directory: Path, node: int, address: str, beyond: Mapping[str, str]
) -> str:
    """For the only controller of a cluster of brokers; ``address`` is what it listens on."""
    own = {
        "process.roles": "controller",
        "node.id": str(node),
        "controller.quorum.voters": f"{node}@{address}",
        "listeners": f"CONTROLLER://{address}",
        "log.dirs": str(directory),
    }
    return _replicated(version, own, beyond)


def of_broker(
    version: str,
    directory: Path,
    node: int,
    address: str,
    controller: str,
    beyond: Mapping[str, str],
) -> str:
    """For a broker of a cluster; ``controller`` is the voter, as ``node@host:port``."""
    own = {
        "process.roles": "broker",
        "node.id": str(node),
        "controller.quorum.voters": controller,
        "listeners": f"PLAINTEXT://{address}",
        "log.dirs": str(directory),
    }
    return _replicated(version, own, beyond)


def _replicated(version: str, own: Mapping[str, str], beyond: Mapping[str, str]) -> str:
    usual = _KRAFT | _COMMON | _REPLICATED | _SETTINGS_OF.get(version, {})
    return _text(usual | dict(own) | dict(beyond))


def with_zookeeper(
    version: str, directory: Path, client: int, zookeeper: str, beyond: Mapping[str, str]
) -> str:
    """For a broker that keeps the cluster in a ZooKeeper at the address ``zookeeper``."""
    if version.startswith("0.8."):
        listeners = {
            "host.name": "127.0.0.1",
            "advertised.host.name": "127.0.0.1",
            "port": str(client),
        }
    else:
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{client}"}
    connection = {"zookeeper.connect": zookeeper, "log.dirs": str(directory)}
    return _text(listeners | connection | _ZOOKEEPER | _COMMON | dict(beyond))


def _text(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
