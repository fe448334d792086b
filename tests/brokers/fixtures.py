"""Makes one fixture: log directories after a workload, and what consumers or followers did then."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path

from brokers.broker import Broker
from brokers.histories import NAMES, part
from brokers.programs import consume
from brokers.replicas import NODES, Replicas
from brokers.tiering import tier
from brokers.topics import at_least
from brokers.workload import ROUNDS, create, describe, write

# Zeros at a file's end are left out where they are more than a batch or an entry may end with.
TRIMMED_BYTES = 1024
# Of a log's zeros some stay: a batch may end with one, and what is stored must not look torn.
LOG_ZEROS_BYTES = 16
# So may the last entry of an index, which is stored whole.
ENTRY_BYTES = {".index": 8, ".timeindex": 12}

_SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    # A short run leaves the checkpoints that a long one has.
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    # What deleted records leave behind goes at once, not after five minutes.
    "log.retention.check.interval.ms": "1000",
}

_SETTLED_S = 5
_FIRST_TASKS_S = 40  # after a start; later releases have a setting for it
_SETTLE_TIMEOUT_S = 120
_READINGS = 3
_PASSING = (".cleaned", ".swap", ".deleted", ".tmp")

_BATCH_HEAD = struct.Struct(">qi")
_MAGIC_AT = 16
_ATTRIBUTES_AT = 21
_TRANSACTIONAL = 0x10


class UnsettledError(Exception):
    """A log directory that should stand still kept changing."""


def make(version: str, state: str, root: Path) -> dict[str, int]:
    """Run the workload on a broker and store the outcome below ``root``, over what is there.

    ``state`` is how the broker ended: ``clean`` by SIGTERM, ``killed`` by SIGKILL; or ``replicas``
    for three brokers, ``tiered`` for one with remote storage.
    Returns the full sizes, in bytes, of the files stored without their tail of zeros, by path
    below ``root``.
    """
    if state == "replicas":
        return _make_replicas(version, root)
    if state == "tiered":
        return _make_tiered(version, root)
    name = f"{version}/{state}"
    data, reading = root / "brokers" / name, root / "consumed" / name
    for old in (data, reading):
        shutil.rmtree(old, ignore_errors=True)
    reading.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="fixture-") as scratch:
        directory = Path(scratch, "data")
        with Broker(version, directory, _SETTINGS) as broker:
            _write(broker)
            topics = describe(broker)
            _read_undisturbed(broker, topics, reading)
            if state == "clean":
                broker.stop()
            else:
                broker.kill()
        trimmed = store(directory, data)
    described = json.dumps(topics, indent=1, sort_keys=True)
    data.with_name(f"{state}.topics.json").write_text(described + "\n")
    return {f"brokers/{name}/{path}": full for path, full in trimmed.items()}


def _make_replicas(version: str, root: Path) -> dict[str, int]:
    data = root / "brokers" / version / "replicas"
    shutil.rmtree(data, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix="fixture-") as scratch,
        Replicas(version, Path(scratch, "nodes")) as cluster,
    ):
        part(cluster)
        kept = cluster.copy(Path(scratch, "kept"))
        trimmed = store(kept, data)
        led = {}
        for leader in NODES:
            cluster.replace(kept)
            led[leader] = {
                topic: {node: asdict(outcome) for node, outcome in outcomes.items()}
                for topic, outcomes in cluster.truncations(leader, NAMES).items()
            }
    data.with_name("replicas.truncations.json").write_text(json.dumps(led, indent=1) + "\n")
    return {f"brokers/{version}/replicas/{path}": full for path, full in trimmed.items()}


def _make_tiered(version: str, root: Path) -> dict[str, int]:
    data = root / "brokers" / version / "tiered"
    shutil.rmtree(data, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="fixture-") as scratch:
        directory = Path(scratch, "data")
        with Broker(version, directory, _SETTINGS, remote=Path(scratch, "remote")) as broker:
            offsets = tier(broker)
            _settle(directory)
            broker.stop()
        trimmed = store(directory, data)
    data.with_name("tiered.offsets.json").write_text(json.dumps(offsets, indent=1) + "\n")
    return {f"brokers/{version}/tiered/{path}": full for path, full in trimmed.items()}


def store(directory: Path, target: Path) -> dict[str, int]:
    """Copy a log directory without tails of zeros; the full sizes of what was trimmed, by path."""
    trimmed = {}
    for path in sorted(directory.rglob("*")):
        if path.is_dir():
            continue
        relative = path.relative_to(directory)
        content = path.read_bytes()
        filled = len(content.rstrip(b"\0"))
        if len(content) - filled >= TRIMMED_BYTES:
            trimmed[relative.as_posix()] = len(content)
            entry = ENTRY_BYTES.get(path.suffix, 1)
            filled = -(-filled // entry) * entry
            content = content[: filled + (LOG_ZEROS_BYTES if path.suffix == ".log" else 0)]
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        (target / relative).write_bytes(content)
    return trimmed


def _write(broker: Broker) -> None:
    create(broker)
    started = time.monotonic()
    for number in range(1, ROUNDS + 1):
        if number == ROUNDS:
            # A second leader epoch, and what a clean restart amid a segment leaves.
            broker.stop()
            broker.start()
            started = time.monotonic()
        write(broker, number)
        _settle(broker.directory)
    if not at_least(broker.version, "3.9"):
        # Only then they delete what lies below log starts, and write their checkpoints.
        time.sleep(max(0.0, started + _FIRST_TASKS_S - time.monotonic()))
        _settle(broker.directory)


def _read_undisturbed(broker: Broker, topics: Collection[str], reading: Path) -> None:
    for _ in range(_READINGS):
        before = _sizes(broker.directory)
        _read(broker, topics, reading)
        if _sizes(broker.directory) == before:
            return
        # Cleaning, or something of the kind, began only now.
        _settle(broker.directory)
    raise UnsettledError(f"{broker.directory} changed each of {_READINGS} times it was read")


def _read(broker: Broker, topics: Collection[str], reading: Path) -> None:
    partitions = sorted(
        path.name
        for path in broker.directory.iterdir()
        if path.is_dir() and path.name.rpartition("-")[0] in topics
    )
    # Internal topics last: reading the others must not have added to them.
    partitions.sort(key=lambda name: name.startswith("__"))
    transactional = [name for name in partitions if _has_transactions(broker.directory / name)]
    read = (("read_uncommitted", partitions), ("read_committed", transactional))
    for isolation, names in read:
        consume(broker.version, broker.bootstrap, isolation, names, reading)


def _settle(directory: Path) -> None:
    """Wait until cleaner, deletion and checkpoints have caught up with what was written."""
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    seen, since = _sizes(directory), time.monotonic()
    while time.monotonic() < since + _SETTLED_S:
        time.sleep(0.5)
        now = _sizes(directory)
        if now != seen or any(path.endswith(_PASSING) for path in now):
            seen, since = now, time.monotonic()
        if time.monotonic() > deadline:
            raise UnsettledError(f"{directory} had not settled after {_SETTLE_TIMEOUT_S} s")


def _sizes(directory: Path) -> dict[str, int]:
    """Sizes of all files in partitions but the metadata log's, which never rests."""
    sizes = {}
    for path in directory.glob("*-[0-9]*/*"):
        if path.parent.name != "__cluster_metadata-0":
            # The broker may remove a file between the two looks.
            with contextlib.suppress(FileNotFoundError):
                sizes[path.relative_to(directory).as_posix()] = path.stat().st_size
    return sizes


def _has_transactions(partition: Path) -> bool:
    return any(attributes & _TRANSACTIONAL for attributes in _attributes(partition))


def _attributes(partition: Path) -> Iterator[int]:
    """The attributes of every batch of magic 2, up to where preallocated zeros begin."""
    for path in sorted(partition.glob("*.log")):
        content = path.read_bytes()
        position = 0
        while position < len(content):
            _, size = _BATCH_HEAD.unpack_from(content, position)
            if size == 0:
                break
            if content[position + _MAGIC_AT] == 2:
                yield int.from_bytes(
                    content[position + _ATTRIBUTES_AT : position + _ATTRIBUTES_AT + 2]
                )
            position += _BATCH_HEAD.size + size
