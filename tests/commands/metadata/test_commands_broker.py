"""What ``kdump metadata --format commands`` prints, run against an empty broker of 4.3.1."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from brokers.broker import Broker
from brokers.jars import USUAL, config_command
from brokers.programs import QUICK, java_command
from kdump.cli.main import main
from kdump.metadata.image import AccessControlEntry, MetadataImage
from kdump.metadata.replay import read_state
from kdump.storage.logdir import read_partition
from support import forge_metadata as meta
from support.forge_metadata import METADATA, log, segment_name
from support.metadata_history import metadata_value

pytestmark = pytest.mark.broker

ID = "b25lLXRvcGljLTEyMzQ1N{}"
CLASSES = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": config_command(USUAL),
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def acl(number: int, **fields: Any) -> bytes:
    known = {
        "id": ID.format("ABCDEFGHIJKLMNOP"[number]),
        "patternType": 3,
        "principal": "User:alice",
        "host": "*",
        "permissionType": 3,
    }
    return metadata_value("AccessControlEntryRecord", **(known | fields))


def quota(value: float, key: str = "producer_byte_rate", **names: str | None) -> bytes:
    entity = [
        {"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in names.items()
    ]
    return metadata_value("ClientQuotaRecord", entity=entity, key=key, value=value, remove=False)


RECORDS = [
    meta.topic("orders", ID.format("w")),
    *(meta.partition(ID.format("w"), number) for number in range(3)),
    meta.config("orders", "cleanup.policy", "compact,delete"),
    meta.config("orders", "leader.replication.throttled.replicas", "0:1,2:1"),
    meta.topic("-a_b.c", ID.format("g")),
    meta.partition(ID.format("g"), 0),
    meta.config("-a_b.c", "retention.ms", "-1"),
    meta.topic("__consumer_offsets", ID.format("Q")),
    meta.partition(ID.format("Q"), 0),
    meta.config("__consumer_offsets", "cleanup.policy", "compact"),
    # The broker sets the first of these by itself.
    meta.config("", "min.insync.replicas", "1", kind=4),
    meta.config("", "log.retention.ms", "77000000", kind=4),
    meta.config("1", "log.cleaner.threads", "2", kind=4),
    meta.config("sub", "metrics", "org.apache.kafka.a,org.apache.kafka.b", kind=16),
    meta.config("sub", "match", "client_id=a.*", kind=16),
    meta.config("readers", "consumer.session.timeout.ms", "46000", kind=32),
    quota(1048576.0, user="al ice"),
    quota(0.5, "request_percentage", user="al ice"),
    quota(2000.0, user=None),
    quota(3000.0, client_id="a,b"),
    quota(4000.0, client_id=None),
    quota(5000.0, user="bob", client_id="c"),
    quota(6000.0, user="bob", client_id=None),
    quota(7000.0, user=None, client_id="c"),
    quota(80.0, "connection_creation_rate", ip="127.0.0.1"),
    acl(0, resourceType=2, resourceName="orders", operation=3),
    acl(1, resourceType=2, resourceName="*", operation=8, principal="User:*", permissionType=2),
    acl(2, resourceType=2, resourceName="ord", patternType=4, operation=10, host="10.0.0.1"),
    acl(3, resourceType=3, resourceName="it's", operation=3),
    acl(4, resourceType=4, resourceName="kafka-cluster", operation=12),
    acl(5, resourceType=5, resourceName="tx $1", operation=15),
    acl(6, resourceType=6, resourceName="token", operation=8),
    acl(7, resourceType=7, resourceName="User:bob", operation=13, principal="User:CN=a, O=b"),
]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with Kafka's scripts, as far as the commands need them."""
    directory = tmp_path_factory.mktemp("tools")
    for name, main_class in CLASSES.items():
        java = " ".join(f"'{word}'" for word in java_command("4.3.1", "ERROR", *QUICK))
        (directory / name).write_text(f'#!/bin/sh\nexec {java} {main_class} "$@"\n')
        (directory / name).chmod(0o755)
    return directory


def test_the_commands_make_the_same_cluster_again(
    tools: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source" / METADATA
    source.mkdir(parents=True)
    (source.parent / segment_name()).write_bytes(log(RECORDS))
    assert main(["metadata", "--format", "commands", str(source)]) == 0
    script = capfd.readouterr().out
    assert script.count("kafka-") == len(script.splitlines()) - 5
    with Broker("4.3.1", tmp_path / "made", SETTINGS) as broker:
        done = subprocess.run(
            ["bash", "-eu"],
            input=script,
            env={
                **os.environ,
                "PATH": f"{tools}:{os.environ['PATH']}",
                "BOOTSTRAP": broker.bootstrap,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    wanted = read_state(read_partition(source)).image
    found = read_state(read_partition(tmp_path / "made" / METADATA)).image
    topics = {topic.name: len(topic.partitions) for topic in wanted.topics}
    del topics["__consumer_offsets"]
    assert {topic.name: len(topic.partitions) for topic in found.topics} == topics
    assert {each.replicas for topic in found.topics for each in topic.partitions.values()} == {(1,)}
    assert found.quotas == wanted.quotas
    assert acls(found) == acls(wanted)
    configs = {key: values for key, values in wanted.configs.items() if key.name[:2] != "__"}
    assert found.configs == configs


def test_without_a_bootstrap_nothing_runs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / METADATA).mkdir()
    (tmp_path / segment_name()).write_bytes(log(RECORDS))
    main(["metadata", "--format", "commands", str(tmp_path / METADATA)])
    script = capfd.readouterr().out
    environment = {name: value for name, value in os.environ.items() if name != "BOOTSTRAP"}
    done = subprocess.run(
        ["bash", "-s"], input=script, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "set it to HOST:PORT" in done.stderr
    assert "kafka-topics.sh" not in done.stderr


def acls(image: MetadataImage) -> set[tuple[object, ...]]:
    def key(entry: AccessControlEntry) -> tuple[object, ...]:
        return (
            entry.resource_type, entry.resource, entry.pattern_type, entry.principal, entry.host,
            entry.operation, entry.permission_type,
        )  # fmt: skip

    return set(map(key, image.acls.values()))
