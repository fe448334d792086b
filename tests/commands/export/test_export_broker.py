"""Exports of three brokers' disks, and what consumers got while the brokers ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.histories import PartedTopic, Writer, create
from brokers.programs import consume
from brokers.replicas import CONTROLLER, NODES, Replicas
from kdump.cli.main import main
from kdump.commands.export.manifest import Manifest, decode_manifest
from kdump.ui import exits
from support.consumer_records import as_consumer
from support.exports import lines_of
from support.served import COMMITTED, READ

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

AWAY, LEADER, OTHER = 3, 1, 2
TOPICS = (
    PartedTopic("plain", "records of no transaction", codec="lz4"),
    PartedTopic("deleted", "records were deleted while 3 was away", kind="idempotent"),
    PartedTopic(
        "transactions", "commits and aborts, the first deleted", kind="transactional", codec="zstd"
    ),
)
NAMES = tuple(topic.name for topic in TOPICS)
DELETED = NAMES[1:]


def records(to: Path) -> dict[str, list[object]]:
    """What an export holds of each topic, without markers, in the form of a consumer."""
    files, _ = decode_manifest((to / "_manifest.json").read_bytes())
    found: dict[str, list[object]] = {name: [] for name in NAMES}
    lines = lines_of(to, Manifest(files, (), ()))
    for line in sorted(lines, key=lambda line: int(line["offset"])):
        if line["topic"] in found and not line["control"]:
            found[line["topic"]].append(as_consumer(line))
    return found


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_copies_give_what_consumers_got(version: str, killed: bool, tmp_path: Path) -> None:
    """Nothing is missing, and nothing that was deleted comes from the broker that was away."""
    read: dict[str, dict[str, list[object]]] = {}
    with Replicas(version, tmp_path / "nodes") as cluster:
        writer = Writer(cluster, TOPICS)
        cluster.start(*NODES)
        create(cluster, TOPICS)
        cluster.in_sync(NAMES)
        writer.write(*NAMES, batches=20)
        cluster.in_sync(NAMES)
        cluster.stop(AWAY)
        cluster.in_sync(NAMES)
        writer.write(*NAMES, batches=20)
        starts = cluster.do("delete-records", topics=list(DELETED), kept=50)
        assert all(starts.values())
        for isolation in (READ, COMMITTED):
            into = tmp_path / isolation
            into.mkdir()
            partitions = [f"{name}-0" for name in NAMES]
            consume(version, cluster.addresses[LEADER], isolation, partitions, into)
            read[isolation] = {
                name: [
                    as_consumer(json.loads(line))
                    for line in (into / f"{name}-0.{isolation}.jsonl").read_text().splitlines()
                ]
                for name in NAMES
            }
        if not killed:
            cluster.stop(OTHER, LEADER)
        cluster.kill(CONTROLLER, *NODES)
        directories = [str(cluster.directory(node)) for node in NODES]
    for isolation in (READ, COMMITTED):
        to = tmp_path / f"out.{isolation}"
        options = ["--read-committed"] * (isolation == COMMITTED)
        arguments = ["--format", "jsonl", "--dedupe-replicas", *options, "--to", str(to)]
        assert main(["export", *arguments, *directories]) == exits.OK
        assert main(["check", str(to)]) == exits.OK
        assert records(to) == read[isolation]
        assert all(read[isolation].values())
    whole = tmp_path / "whole"
    arguments = ["--format", "jsonl", "--dedupe-replicas", "--below-log-start", "--to", str(whole)]
    assert main(["export", *arguments, *directories]) == exits.OK
    assert all(len(records(whole)[name]) > len(read[READ][name]) for name in DELETED)
