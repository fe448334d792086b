"""Partitions that kdump has changed, replicated to a new broker, which then serves them alone.

A follower that refuses what it fetches says so in its log, and never gets in sync.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from brokers.broker import Broker
from brokers.planting import plant
from brokers.programs import run
from support.cleaner_topic import TOPIC, cleaned
from support.commands import kdump, repair
from support.converting import convert, legacy_batches, logs
from support.fixtures_loader import copy_fixture
from support.resealing import places
from support.served import COMMITTED, READ, read_all

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

SETTINGS = {"log.cleaner.enable": "false"}
OLD = ("magic-0", "magic-1", "formats-rolled", "compacted-magic-1")
NEW = ("codec-zstd", "transactions")
LEADER, FOLLOWER, SECONDS = 1, 2, 30
#: How a follower says that it gives up.
REFUSALS = ("Unexpected error occurred while processing data", "marked as failed")


def replicas(broker: Broker, brokers: Sequence[int], topics: Iterable[str]) -> dict[str, list[int]]:
    """Have exactly these brokers hold the partition 0 of each topic; those then in sync."""
    wanted = ",".join(map(str, brokers))
    output = run(broker.version, "Replicas", broker.bootstrap, str(SECONDS), wanted, *topics)
    found: dict[str, list[int]] = json.loads(output)
    return found


def flip(log: Path, number: int) -> None:
    """Spoil the last byte of a batch of a log."""
    content = bytearray(log.read_bytes())
    _, end = places(bytes(content))[number]
    content[end - 1] ^= 4
    log.write_bytes(content)


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_what_was_changed_replicates(version: str, tmp_path: Path) -> None:
    old = copy_fixture("2.8.2/clean", tmp_path / "old")
    new = copy_fixture(f"{version}/clean", tmp_path / "new")
    sources = {f"converted-{topic}": old / f"{topic}-0" for topic in OLD}
    for way in ("salvaged", "cut"):
        sources |= {
            f"{way}-{topic}": shutil.copytree(new / f"{topic}-0", tmp_path / way / f"{topic}-0")
            for topic in NEW
        }
    data = tmp_path / "data"
    plant(version, data, sources, {})
    change(data, tmp_path / "out")

    replicate(version, data, list(sources), tmp_path)


def replicate(version: str, data: Path, topics: Sequence[str], tmp_path: Path) -> None:
    """Replicate the partitions of the stopped broker of ``data`` to another, and leave them there.

    Consumers of both isolation levels must read the same from the leader and from the follower.
    """
    names = [f"{topic}-0" for topic in topics]
    with (
        Broker(version, data, SETTINGS, heap="256m") as leader,
        Broker(version, tmp_path / "second", SETTINGS, joins=leader, heap="256m") as follower,
    ):
        before = [read_all(leader, names, tmp_path / way, way) for way in (READ, COMMITTED)]
        in_sync = replicas(leader, [LEADER, FOLLOWER], topics)
        said = follower.log_lines()
        assert [line for line in said if any(words in line for words in REFUSALS)] == []
        assert in_sync == {topic: [LEADER, FOLLOWER] for topic in topics}
        assert replicas(leader, [FOLLOWER], topics) == {topic: [FOLLOWER] for topic in topics}
        after = [read_all(leader, names, tmp_path / way, way) for way in (READ, COMMITTED)]
        assert all(before[0].values())
        assert after == before
    found = kdump("verify", tmp_path / "second").of("finding")
    assert [line for line in found if "epoch" in line["code"]] == []


def test_what_a_cleaner_has_rewritten_replicates_once_it_has_epochs(tmp_path: Path) -> None:
    version = "4.3.1"
    old, data = copy_fixture("2.8.2/clean", tmp_path / "old"), tmp_path / "data"
    sources = {topic: old / f"{topic}-0" for topic in ("compacted-magic-0", "compacted-magic-1")}
    # A follower appends no batch that is larger than a segment.
    plant(version, data, sources, {**TOPIC, "internal.segment.bytes": "24000"})
    cleaned(data, {topic: int(logs(source)[-1].stem) for topic, source in sources.items()})
    absent = [
        line
        for line in kdump("verify", data).of("finding")
        if line["code"] == "leader-epoch-absent"
    ]
    assert {Path(line["path"]).parent.name for line in absent} == {
        f"{topic}-0" for topic in sources
    }
    assert {line["severity"] for line in absent} == {"warning"}
    assert convert(data).code == 0
    replicate(version, data, list(sources), tmp_path)


def change(data: Path, output: Path) -> None:
    """Convert, salvage and cut the partitions of the stopped broker, as their names say."""
    for directory in data.glob("converted-*"):
        assert convert(directory).code == 0
    assert legacy_batches(*data.glob("converted-*")) == []
    for directory in sorted(data.glob("salvaged-*")):
        flip(min(directory.glob("*.log")), 1)
        assert kdump("salvage", directory, "--output", output).code == 0
        shutil.rmtree(directory)
        shutil.move(output / directory.name, directory)
    for directory in sorted(data.glob("cut-*")):
        log = max(log for log in directory.glob("*.log") if len(places(log.read_bytes())) > 1)
        flip(log, -1)
        assert repair("truncate-to-valid", directory).code == 0
