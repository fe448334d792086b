"""The fixtures of old brokers hold what they are there to show of magic 0 and 1.

Spec: KOD 3.1 (``AbstractLegacyRecordBatch``), read here by ``messages``, which shares no code with
kdump.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from brokers.topics import at_least
from support import messages
from support.broker_files import batches, checkpoint, decoded, fixtures, logs, records, release
from support.fixtures_loader import FIXTURES, ROOT, consumed, listing, partitions
from support.messages import GZIP, LOG_APPEND_TIME, LZ4, NONE, SNAPPY, Unit

CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4}
LEGACY = fixtures("0.8", before="3")
SEVERAL_FORMATS = fixtures("0.10", before="3")
MAGIC_1 = fixtures("0.11", before="3")

every_legacy = pytest.mark.parametrize("name", LEGACY)
with_magic_0_topics = pytest.mark.parametrize("name", SEVERAL_FORMATS)
with_magic_1_topics = pytest.mark.parametrize("name", MAGIC_1)
to_and_fro = pytest.mark.parametrize("name", fixtures("2.3", before="3"))


def units(name: str, partition: str) -> list[Unit]:
    return [unit for path in logs(name, partition) for unit in messages.units(path.read_bytes())]


def legacy_partitions(name: str) -> list[str]:
    """The partitions of a fixture that hold nothing newer than magic 1."""
    found = (path.name for path in partitions(name))
    return [each for each in found if units(name, each) and not batches(name, each)]


def magics(path: Path) -> list[int]:
    """The magic of every message, wrapper and batch of a segment."""
    content, position, found = path.read_bytes(), 0, []
    while position < len(content):
        found.append(content[position + 16])
        position += 12 + int.from_bytes(content[position + 8 : position + 12])
    return found


def gaps(unit: Unit) -> bool:
    """Whether offsets are missing between those of a wrapper's messages."""
    offsets = [message.offset for message in unit.inner]
    return any(after - before > 1 for before, after in itertools.pairwise(offsets))


# What a consumer read


@every_legacy
def test_consumer_read_what_the_messages_say(name: str) -> None:
    assert len(legacy_partitions(name)) >= (3 if at_least(release(name), "0.11") else 6)
    for partition in legacy_partitions(name):
        stored = [record for unit in units(name, partition) for record in unit.records()]
        read = [
            (
                record["offset"],
                record["timestamp"],
                record["timestamp_type"],
                decoded(record, "key"),
                decoded(record, "value"),
            )
            for record in records(name, partition)
        ]
        assert stored == read, partition


@every_legacy
def test_offsets_rise(name: str) -> None:
    for partition in legacy_partitions(name):
        offsets = [record[0] for unit in units(name, partition) for record in unit.records()]
        assert offsets == sorted(set(offsets))


# The native formats


@pytest.mark.parametrize("name", fixtures("0.8", before="0.11"))
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_in_several_indexed_segments(name: str, codec: str) -> None:
    partition = f"codec-{codec}-0"
    magic = 1 if at_least(release(name), "0.10") else 0
    found = units(name, partition)
    assert {(unit.outer.codec, unit.outer.magic) for unit in found} == {(CODECS[codec], magic)}
    assert len(logs(name, partition)) >= 2
    first = logs(name, partition)[0]
    assert first.with_suffix(".index").stat().st_size >= 3 * 8
    assert first.with_suffix(".timeindex").exists() == bool(magic)
    if codec != "none":
        assert {1, 10} <= {len(unit.inner) for unit in found}
        assert not any(gaps(unit) for unit in found)


@every_legacy
def test_lz4_header_checksums_are_wrong_in_magic_0_alone(name: str) -> None:
    # The byte after magic, flags and block size; right is xxh32 of these two bytes alone.
    found: dict[int, set[tuple[bytes, int]]] = {0: set(), 1: set()}
    for partition in legacy_partitions(name):
        for unit in units(name, partition):
            if unit.outer.codec == LZ4:
                assert unit.outer.value is not None
                found[unit.outer.magic].add((unit.outer.value[4:6], unit.outer.value[6]))
    # xxh32(60 40) >> 8 & 0xff, and the same over the frame's magic number too.
    assert found[0] <= {(b"\x60\x40", 0x1A)}
    assert found[1] <= {(b"\x60\x40", 0x82)}
    assert found[0] | found[1]


@every_legacy
def test_relative_offsets_and_times_of_wrappers(name: str) -> None:
    seen = Counter[int]()
    for partition in legacy_partitions(name):
        for unit in units(name, partition):
            if not unit.inner:
                continue
            seen[unit.outer.magic] += 1
            assert {message.magic for message in unit.inner} == {unit.outer.magic}
            assert {message.codec for message in unit.inner} == {NONE}
            if unit.outer.magic == 0:
                assert unit.inner[-1].offset == unit.outer.offset
                continue
            # Also where the cleaner took away the first.
            assert unit.inner[0].offset == 0
            if not unit.outer.attributes & LOG_APPEND_TIME:
                times = [message.timestamp for message in unit.inner]
                assert unit.outer.timestamp == max(time for time in times if time is not None)
    assert seen[0] > 20 or seen[1] > 20


@pytest.mark.parametrize("name", fixtures("0.10", before="0.11"))
def test_wrappers_with_append_time_are_plain_inside_in_0_10(name: str) -> None:
    appended = units(name, "log-append-time-0")
    assert all(unit.outer.attributes & LOG_APPEND_TIME for unit in appended)
    assert {unit.outer.codec for unit in appended} == {NONE, GZIP}
    inside = [message for unit in appended for message in unit.inner]
    assert inside
    assert not any(message.attributes & LOG_APPEND_TIME for message in inside)


@pytest.mark.parametrize("name", fixtures("0.10", before="0.11"))
def test_groups_commit_in_magic_1(name: str) -> None:
    keys = [
        unit.outer.key or b""
        for number in (0, 1)
        for unit in units(name, f"__consumer_offsets-{number}")
    ]
    # Offset commits and group metadata.
    assert {int.from_bytes(key[:2]) for key in keys} == {1, 2}
    assert any(b"classic" in key for key in keys)


# Older formats of newer brokers


@with_magic_0_topics
def test_magic_0_from_a_newer_broker(name: str) -> None:
    found = units(name, "magic-0-0")
    assert {unit.outer.magic for unit in found} == {0}
    assert {unit.outer.codec for unit in found} == set(CODECS.values())


@with_magic_1_topics
def test_magic_1_from_a_newer_broker(name: str) -> None:
    for partition in ("magic-1-0", "magic-1-append-time-0"):
        found = units(name, partition)
        assert {unit.outer.magic for unit in found} == {1}
        assert {unit.outer.codec for unit in found} == set(CODECS.values())
    appended = units(name, "magic-1-append-time-0")
    everything = [message for unit in appended for message in (unit.outer, *unit.inner)]
    assert all(message.attributes & LOG_APPEND_TIME for message in everything)


@pytest.mark.parametrize("name", LEGACY)
def test_cleaner_left_wrappers_with_gaps(name: str) -> None:
    cleaned = {
        topic: offset
        for (topic, _), offset in checkpoint(name, "cleaner-offset-checkpoint").items()
    }
    topics = {
        0: "compacted-magic-0" if at_least(release(name), "0.10") else "compacted",
        1: "compacted-magic-1" if at_least(release(name), "0.11") else "compacted",
    }
    for magic, topic in topics.items():
        if magic == 1 and not at_least(release(name), "0.10"):
            continue
        kept = [unit for unit in units(name, f"{topic}-0") if unit.outer.offset < cleaned[topic]]
        assert {unit.outer.magic for unit in kept} == {magic}
        keys = [record[3] for unit in kept for record in unit.records()]
        assert max(Counter(keys).values()) == 1
        assert any(record[4] is None for unit in kept for record in unit.records())
        wrappers = [unit for unit in kept if unit.inner]
        if not at_least(release(name), "0.10"):
            assert not wrappers
            continue
        assert {unit.outer.codec for unit in wrappers} == {GZIP, SNAPPY, LZ4}
        assert any(gaps(unit) for unit in wrappers)
        assert any(len(unit.inner) == 1 for unit in wrappers)


@to_and_fro
def test_one_segment_holds_all_magics_to_and_fro(name: str) -> None:
    (segment,) = logs(name, "formats-0")
    assert [magic for magic, _ in itertools.groupby(magics(segment))] == [0, 1, 2, 1, 0, 2]
    legacy = {(unit.outer.magic, unit.outer.codec) for unit in units(name, "formats-0")}
    assert legacy == set(itertools.product((0, 1), CODECS.values()))
    assert {batch.attributes & 7 for batch in batches(name, "formats-0")} == set(range(5))


@to_and_fro
def test_one_directory_holds_segments_of_all_magics(name: str) -> None:
    segments = [set(magics(path)) for path in logs(name, "formats-rolled-0")]
    assert len(segments) >= 4
    assert set.union(*segments) == {0, 1, 2}
    assert all(len(found) < 3 for found in segments)


@to_and_fro
def test_old_clients_wrote_to_a_newer_broker(name: str) -> None:
    for partition, magic in (("client-0.8-kept-0", 0), ("client-0.10-kept-0", 1)):
        found = units(name, partition)
        assert {unit.outer.magic for unit in found} == {magic}
        assert {unit.outer.codec for unit in found} == set(CODECS.values())
    assert not units(name, "client-0.8-raised-0")
    raised = records(name, "client-0.8-raised-0")
    assert {record["timestamp"] for record in raised} == {-1}


# Files beside the log


@every_legacy
def test_leader_epochs_of_older_formats(name: str) -> None:
    for partition in legacy_partitions(name):
        path = ROOT / "brokers" / name / partition / "leader-epoch-checkpoint"
        # Empty in the releases that had just learned of epochs.
        sizes = {"1.1.1": 0}
        assert (path.stat().st_size if path.exists() else None) == sizes.get(release(name))


@every_legacy
def test_zookeeper_leaves_no_topic_ids(name: str) -> None:
    paths = [row.path for row in listing().values() if row.path.startswith(f"brokers/{name}/")]
    assert paths
    assert not any(path.endswith("partition.metadata") for path in paths)
    properties = ROOT / "brokers" / name / "meta.properties"
    assert properties.exists() == at_least(release(name), "0.10")


def test_every_release_has_its_consumer() -> None:
    assert all(consumed(name) for name in FIXTURES)
