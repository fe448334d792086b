"""What happens to three brokers before their log directories are compared.

Each topic has one partition, and each broker a replica of it. A topic is there for one thing that
copies of a partition can come to; brokers come and go for all of them alike.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokers.replicas import CONTROLLER, NODES, Replicas
from brokers.topics import at_least

CLEANING = {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "300"}
RESTING = {"log.cleaner.enable": "false"}

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_KINDS = ("plain", "idempotent", "transactional")
_SECONDS = 60


class LateError(Exception):
    """A broker has not done in time what it does by itself."""


@dataclass(frozen=True, slots=True)
class PartedTopic:
    """A topic: what it shows, the brokers in the order in which they should lead, its producers."""

    name: str
    shows: str
    brokers: Sequence[int] = NODES
    kind: str = "plain"
    codec: str = "none"
    compact: bool = False


TOPICS = (
    PartedTopic(
        "same", "the same everywhere, with transactions", kind="transactional", codec="zstd"
    ),
    PartedTopic("empty", "nothing"),
    PartedTopic("behind", "3 was away when the others went on", kind="idempotent", codec="lz4"),
    PartedTopic("outrun", "3 was away until its end lay before the log start of the others"),
    PartedTopic("parted", "2 was elected uncleanly, and 1 holds what it lacks", kind="idempotent"),
    PartedTopic("within", "as parted, where 1 and 2 part within one leader epoch", codec="snappy"),
    PartedTopic("in-turn", "1, 3, 2, 1, 3, 2, 1 and 2 led, each alone", kind="transactional"),
    PartedTopic("restored", "3 has its log from a backup, of which the end was truncated since"),
    PartedTopic("recreated", "deleted and created again while 1 and 3 were away"),
    PartedTopic(
        "cleaned",
        "compacted, early and in part on 2, late on 3, never on 1",
        kind="updates",
        compact=True,
    ),
)
"""The topics of ``part``."""

NAMES = tuple(topic.name for topic in TOPICS)


def config(version: str, *, compact: bool = False) -> dict[str, str]:
    """The settings of topics: small segments of records of any time."""
    small = "internal.segment.bytes" if at_least(version, "4.1") else "segment.bytes"
    settings = {
        small: "3000",
        "index.interval.bytes": "300",
        "retention.ms": "-1",
        "segment.ms": str(10**12),
    }
    if compact:
        settings |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        settings |= {"delete.retention.ms": "86400000"}
    return settings


def create(cluster: Replicas, topics: Iterable[PartedTopic]) -> None:
    """Create topics, each replicated by its brokers, of which the first that lives leads."""
    described = {
        topic.name: {
            "brokers": list(topic.brokers),
            "config": config(cluster.version, compact=topic.compact),
        }
        for topic in topics
    }
    cluster.do("create", topics=described)


class Writer:
    """Writes to topics of a cluster as each asks for it; another content each time."""

    def __init__(self, cluster: Replicas, topics: Iterable[PartedTopic], seed: int = 0) -> None:
        self._cluster = cluster
        self._topics = {topic.name: topic for topic in topics}
        self._seed = seed

    def write(self, *names: str, batches: int = 6) -> None:
        """Write so many batches to each of these topics. Raises ProgramError."""
        for name in names:
            topic = self._topics[name]
            self._seed += 1
            self._cluster.do(
                "write",
                topics=[name],
                seed=self._seed,
                kind=topic.kind,
                codec=topic.codec,
                batches=batches,
            )


def part(cluster: Replicas) -> None:
    """Make the topics, and have their copies part as they say. All nodes have stopped then.

    The controller goes last. Raises ProgramError, ServerError, LateError.
    """
    writer = Writer(cluster, TOPICS)
    cluster.configure(dict.fromkeys(NODES, RESTING))
    cluster.start(*NODES)
    create(cluster, TOPICS)
    cluster.in_sync(NAMES)
    writer.write(*(name for name in NAMES if name != "empty"))
    _lead_uncleanly(cluster)
    cluster.in_sync(NAMES)

    # A backup of 3 after it was the only one, and led.
    cluster.stop(1, 2)
    cluster.in_sync(NAMES)
    writer.write("restored")
    cluster.stop(3)
    backup = cluster.top / "backup"
    shutil.copytree(cluster.directory(3) / "restored-0", backup)
    cluster.start(1)
    cluster.in_sync(NAMES)
    writer.write("restored", batches=9)
    # 2 cleans the first half early, 3 cleans all late, and 1 nothing.
    cluster.configure({1: RESTING, 2: CLEANING, 3: RESTING})
    cluster.start(2, 3)
    cluster.in_sync(NAMES)
    writer.write("cleaned", batches=20)
    _says(cluster.directory(2) / "cleaner-offset-checkpoint", "cleaned 0 ")
    cluster.configure({1: RESTING, 2: RESTING, 3: CLEANING})
    for node in (2, 3):
        cluster.stop(node)
        cluster.start(node)
    cluster.in_sync(NAMES)
    writer.write("cleaned", batches=20)
    cluster.in_sync(NAMES)
    _says(cluster.directory(3) / "cleaner-offset-checkpoint", "cleaned 0 ")
    cluster.configure(dict.fromkeys(NODES, RESTING))

    # The end of the same lineage: 3 stays behind, then 2.
    cluster.stop(3)
    cluster.in_sync(NAMES)
    writer.write("behind", "outrun", "within")
    starts = cluster.do("delete-records", topics=["outrun"], kept=2)
    for node in (1, 2):
        start = f"outrun 0 {starts['outrun']}\n"
        _says(cluster.directory(node) / "log-start-offset-checkpoint", start)
    cluster.kill(2)
    cluster.in_sync(NAMES)
    # In the same leader epoch as before.
    writer.write("within", "parted", "in-turn")

    # Each alone.
    _alone(cluster, 3, writer, "in-turn")
    _alone(cluster, 2, writer, "parted", "within", "in-turn")
    _alone(cluster, 1, writer, "in-turn")
    _alone(cluster, 3, writer, "in-turn")
    _alone(cluster, 2, writer, "in-turn")
    _alone(cluster, 1, writer, "in-turn")
    _alone(cluster, 2, writer, "in-turn")
    cluster.do("delete", topics=["recreated"])
    create(cluster, [topic for topic in TOPICS if topic.name == "recreated"])
    cluster.in_sync(NAMES)
    writer.write("recreated")
    _gone(cluster.directory(2))
    cluster.kill(2)
    cluster.stop(CONTROLLER)
    shutil.rmtree(cluster.directory(3) / "restored-0")
    shutil.move(backup, cluster.directory(3) / "restored-0")


def wander(cluster: Replicas, seed: int, topics: int = 12, rounds: int = 6) -> list[str]:
    """Topics whose brokers come and go, drawn from a seed; their names. All nodes have stopped.

    Raises ProgramError, ServerError.
    """
    draw = random.Random(seed)
    made = [
        PartedTopic(
            f"wander-{number}",
            "chance",
            brokers=draw.sample(NODES, len(NODES)),
            kind=_KINDS[number % len(_KINDS)],
            codec=draw.choice(_CODECS),
        )
        for number in range(topics)
    ]
    names = [topic.name for topic in made]
    writer = Writer(cluster, made, seed * 1000)
    cluster.configure(dict.fromkeys(NODES, RESTING))
    cluster.start(*NODES)
    create(cluster, made)
    cluster.in_sync(names)
    writer.write(*names, batches=2)
    _lead_uncleanly(cluster)
    for _ in range(rounds):
        stay = draw.sample(NODES, draw.choice((1, 1, 2, 2, 3)))
        for node in draw.sample(cluster.running, len(cluster.running)):
            if node not in stay:
                draw.choice((cluster.stop, cluster.kill))(node)
        for node in stay:
            if node not in cluster.running:
                cluster.start(node)
        cluster.in_sync(names)
        writer.write(*draw.sample(names, topics // 2), batches=draw.randint(1, 4))
        if len(stay) > 1 and draw.random() < 0.6:
            cluster.kill(draw.choice(stay))
            cluster.in_sync(names)
            writer.write(*draw.sample(names, topics // 3), batches=draw.randint(1, 4))
    for node in draw.sample(cluster.running, len(cluster.running)):
        draw.choice((cluster.stop, cluster.kill))(node)
    cluster.stop(CONTROLLER)
    return names


def rest(cluster: Replicas, seed: int, topics: int = 4) -> list[str]:
    """Topics that are written by a seed, on brokers that then stop cleanly; their names.

    The next seed may follow on the same brokers. Raises ProgramError, ServerError.
    """
    draw = random.Random(seed)
    made = [
        PartedTopic(
            f"quiet-{seed}-{number}",
            "chance",
            brokers=draw.sample(NODES, len(NODES)),
            kind="updates" if compact else draw.choice(_KINDS),
            codec=draw.choice(_CODECS),
            compact=compact,
        )
        for number in range(topics)
        for compact in [draw.random() < 0.3]
    ]
    names = [topic.name for topic in made]
    cluster.configure({node: draw.choice((CLEANING, RESTING)) for node in NODES})
    cluster.start(*draw.sample(NODES, len(NODES)))
    create(cluster, made)
    cluster.in_sync(names)
    writer = Writer(cluster, made, seed * 1000)
    for _ in range(draw.randint(1, 3)):
        writer.write(*draw.sample(names, topics - 1), batches=draw.randint(1, 20))
    cluster.in_sync(names)
    cluster.stop(*draw.sample(NODES, len(NODES)))
    cluster.stop(CONTROLLER)
    return names


def _lead_uncleanly(cluster: Replicas) -> None:
    """Let any broker lead the log of transactions too, which Kafka creates with other settings."""
    setting = {"unclean.leader.election.enable": "true"}
    cluster.do("alter", topics=["__transaction_state"], config=setting)


def _alone(cluster: Replicas, node: int, writer: Writer, *names: str) -> None:
    """Have ``node`` run instead of what runs, lead, and take records for these topics."""
    cluster.stop(*cluster.running)
    cluster.start(node)
    cluster.in_sync(NAMES)
    writer.write(*names, batches=4)


def _says(checkpoint: Path, text: str) -> None:
    """Wait until a broker has written so in a checkpoint. Raises LateError."""
    until = time.monotonic() + _SECONDS
    while text not in (checkpoint.read_text() if checkpoint.exists() else ""):
        if time.monotonic() > until:
            raise LateError(f"{checkpoint} does not say {text!r} after {_SECONDS} s")
        time.sleep(0.3)


def _gone(directory: Path) -> None:
    """Wait until what a broker deletes is gone."""
    while list(directory.glob("*-delete")):
        time.sleep(0.3)
