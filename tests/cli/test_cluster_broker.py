"""``dump --decode`` and ``metadata`` on what a broker writes of a cluster that has everything.

Groups of all kinds, transactions in several states, ACLs, quotas, a SCRAM user, a topic that was
deleted and created again: decoded as by the decoders of 4.4.0, the image as its replay builds it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers import jars
from brokers.broker import QUICK_RESTART, Broker
from brokers.oracle import Oracle
from brokers.programs import run
from brokers.workload import create
from kdump.cli.main import main
from support.connect_member import METADATA as WORKER
from support.connect_member import connect_member
from support.dump_tool import (
    BATCH_SUFFIXES,
    DECODERS,
    SECRETS,
    TOOL,
    by_file,
    escaped,
    group_values,
    printed_by,
)
from support.forge_metadata import METADATA
from support.group_tool import tool
from support.images import compare, kafkas, kdumps

pytestmark = pytest.mark.broker

VERSIONS = [
    "4.4.0",
    pytest.param("4.3.1", marks=pytest.mark.nightly),
    *(pytest.param(version, marks=pytest.mark.nightly) for version in jars.BETWEEN),
    pytest.param("3.9.1", marks=pytest.mark.nightly),
]
PASSWORD = "PLANTEDpassword"
SETTINGS = QUICK_RESTART | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A release, and the log directory that its broker left when it was killed."""
    version = request.param
    directory = tmp_path_factory.mktemp("cluster") / "data"
    with Broker(version, directory, SETTINGS) as broker:
        create(broker)
        for number in ("1", "2"):
            run(version, "Messages", broker.bootstrap, number, "groups:even:6:3:none")
            run(version, "Groups", broker.bootstrap, number, "consumer")
        run(version, "Workload", broker.bootstrap, "1", "zstd", "hang")
        run(version, "Administration", broker.bootstrap, "a.b_c-1", PASSWORD)
        if version >= "4.3":
            share(broker)
        with connect_member(broker.bootstrap, "connect-cluster"):
            broker.kill()
    yield version, directory


def share(broker: Broker) -> None:
    wanted = ("--add-config", "share.auto.offset.reset=earliest")
    tool(broker, "--alter", "--group", "shared", *wanted, program=jars.config_command(jars.USUAL))
    read_some = ("--topic", "groups", "--group", "shared", "--max-messages", "5")
    tool(broker, *read_some, program=SHARE_CONSUMER)


def files(directory: Path, topic: str) -> list[Path]:
    return sorted(
        path
        for top in directory.glob(f"{topic}-*")
        for path in top.iterdir()
        if path.suffix in BATCH_SUFFIXES and path.stat().st_size
    )


@pytest.mark.parametrize("topic", [name for name in DECODERS if "remote" not in name])
def test_text_equals_that_of_kafkas_decoders(
    topic: str,
    cluster: tuple[str, Path],
    oracle: Callable[[str], Oracle],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    version, directory = cluster
    paths = files(directory, topic)
    if not paths:
        assert (topic, version < "4.3") == ("__share_group_state", True)
        return
    main(["dump", "--decode", *map(str, paths)])
    ours = dict(by_file(capfdbinary.readouterr().out.decode(), paths))
    theirs = printed_by(oracle(TOOL), paths, [DECODERS[topic]])
    for path, (text, error) in theirs.items():
        assert error is None
        expected = SECRETS.sub(r'"\1":"redacted"', escaped(text))
        assert ours[path].splitlines() == expected.replace(PASSWORD, "redacted").splitlines()
    assert PASSWORD not in "".join(ours.values())
    assert sum(text.count(' payload: {"') for text in ours.values()) > 2
    if topic == "__transaction_state":  # all states that are written
        states = set(re.findall(r'"transactionStatus":"(\w+)"', "".join(ours.values())))
        assert states == {
            "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        }  # fmt: skip


def test_members_are_taken_apart_as_by_the_decoder_of_3_9(
    cluster: tuple[str, Path],
    oracle: Callable[[str], Oracle],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Those of consumers; of others, such as a worker of Kafka Connect, the bytes are shown."""
    _, directory = cluster
    paths = files(directory, "__consumer_offsets")
    ours, theirs = group_values(paths, oracle("3.9.1"), capfd)
    assert ours == theirs
    members = {
        each["protocolType"]: member for each in ours for member in each["members"]
    }  # the last of each
    assert members["consumer"]["assignment"]["assignedPartitions"]
    worker = members["connect"]
    assert worker["subscription"] == b64encode(WORKER).decode()


def test_the_image_equals_kafkas(
    cluster: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    _, directory = cluster
    partition = directory / METADATA
    ours = kdumps(partition, capfd)
    assert {"acl", "quota", "scram", "topic", "config"} <= set(ours)
    assert PASSWORD not in json.dumps(ours)
    theirs = kafkas(partition, ours["header"][0])
    compare(ours, json.loads(json.dumps(theirs).replace(PASSWORD, "redacted")))
