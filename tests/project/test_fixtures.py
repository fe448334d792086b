"""The fixtures are whole, as listed, and hold what they are there to show; batches of magic 2 here.

Spec: KOD 3.2 and 3.3 (``DefaultRecordBatch``), read here by a few lines that share no code with
kdump.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import consume
from brokers.topics import at_least
from support.broker_files import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    PREFIX,
    TRANSACTIONAL,
    Batch,
    batches,
    checkpoint,
    decoded,
    fixtures,
    in_segment,
    logs,
    records,
    release,
    since,
)
from support.fixtures_loader import (
    FIXTURES,
    LISTS,
    ROOT,
    consumed,
    copy_fixture,
    listing,
    partitions,
    topic_configs,
)
from support.forge_metadata import METADATA
from support.messages import units

MAX_TOTAL_BYTES = 10_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Written with times, offsets and contents that no broker chooses.
REPRODUCED = (
    *(f"codec-{codec}-0" for codec in CODECS),
    *("idempotent-0", "preallocated-0", "a.b_c-1-0", "groups-0"),
    *("deleted-records-0", "deleted-records-1"),
)

ABORT, COMMIT = 0, 1


def with_codecs(first: str) -> pytest.MarkDecorator:
    """For a test of each codec that releases from ``first`` on have."""
    cases = [
        (name, codec)
        for name in fixtures(first)
        for codec in CODECS
        if codec != "zstd" or at_least(release(name), "2.1")
    ]
    return pytest.mark.parametrize(("name", "codec"), cases)


def end_offset(name: str, partition: str) -> int:
    """The offset after the last in a partition, 0 where it is empty."""
    last = -1
    for path in logs(name, partition):
        content = path.read_bytes()
        position = 0
        while position + PREFIX.size <= len(content):
            offset, length, _, magic = PREFIX.unpack_from(content, position)
            if length == 0:
                break
            # A message's offset, and a wrapper's, is its last; a batch begins with its first.
            last = offset
            if magic == 2:
                last = Batch(*HEADER.unpack_from(content, position)).last_offset
            position += length + 12
    return last + 1


every_fixture = pytest.mark.parametrize("name", FIXTURES)


# The table


def test_the_releases_are_there_oldest_first() -> None:
    assert (
        "0.8.2.2/clean",
        *("0.10.2.2/clean", "0.10.2.2/killed"),
        "1.1.1/clean",
        *("2.8.2/clean", "2.8.2/killed"),
        *("3.9.1/clean", "3.9.1/killed"),
        *("4.3.1/clean", "4.3.1/killed"),
        *("4.4.0/clean", "4.4.0/killed"),
    ) == FIXTURES


def test_every_file_is_listed_with_its_digest() -> None:
    found = {}
    for path in ROOT.rglob("*"):
        if path.is_file() and path not in LISTS:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path.relative_to(ROOT).as_posix()] = digest
    assert found == {row.path: row.sha256 for row in listing().values()}


def test_git_has_every_listed_file() -> None:
    # Untracked files count, ignored ones do not: many an ignore list drops *.log.
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no git command on PATH")
    if done.returncode != 0:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    found = set(done.stdout.rstrip("\0").split("\0"))
    assert found - {path.name for path in LISTS} == set(listing())


def test_total_is_small() -> None:
    files = (path for path in ROOT.rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) < MAX_TOTAL_BYTES


@every_fixture
def test_copies_have_the_sizes_that_the_broker_left(name: str, tmp_path: Path) -> None:
    prefix = f"brokers/{name}/"
    copy = copy_fixture(name, tmp_path / "copy")
    sizes = {
        path.relative_to(copy).as_posix(): path.stat().st_size
        for path in copy.rglob("*")
        if path.is_file()
    }
    rows = [row for row in listing().values() if row.path.startswith(prefix)]
    assert sizes == {row.path.removeprefix(prefix): row.full_bytes for row in rows}
    for row in rows:
        with (copy / row.path.removeprefix(prefix)).open("rb") as grown:
            assert hashlib.sha256(grown.read(row.stored_bytes)).hexdigest() == row.sha256
            assert not any(grown.read(4096))


@every_fixture
def test_only_the_kill_left_full_length_indexes(name: str) -> None:
    rows = [row for row in listing().values() if row.path.startswith(f"brokers/{name}/")]
    grown = [row for row in rows if row.full_bytes > row.stored_bytes]
    if name.endswith("/clean"):
        # From 4.4 on a node closes its metadata log as it is.
        folders = {Path(row.path).parent.name for row in grown}
        assert folders == ({METADATA} if name == "4.4.0/clean" else set())
        return
    capacities = {".index": 10485760, ".timeindex": 10485756}
    short = {".index": 4096, ".timeindex": 4092}
    for partition in partitions(name):
        last = max(partition.glob("*.log")).with_suffix("")
        wanted = short if partition.name == "log-append-time-0" else capacities
        for suffix, size in wanted.items():
            path = f"{last.relative_to(ROOT).as_posix()}{suffix}"
            assert listing()[path].full_bytes == size
    assert len(grown) >= 2 * len(partitions(name))


# The log directory


@every_fixture
def test_marker_is_there_after_a_clean_stop_only(name: str) -> None:
    directory = ROOT / "brokers" / name
    assert (directory / ".kafka_cleanshutdown").exists() == name.endswith("/clean")
    # Until 3.8 the file stayed behind.
    kept = not at_least(release(name), "3.8")
    assert (directory / ".lock").exists() == (kept or name.endswith("/killed"))


@every_fixture
def test_every_topic_has_settings_and_its_partitions(name: str) -> None:
    topics = {path.name.rpartition("-")[0] for path in partitions(name)}
    configs = topic_configs(name)
    assert topics - {"__cluster_metadata"} == set(configs)
    for config in configs.values():
        assert int(config["index.interval.bytes"]) in (300, 4096)
        assert int(config["segment.index.bytes"]) in (4096, 10485760)


@every_fixture
def test_checkpoints_cover_all_partitions(name: str) -> None:
    wanted = {
        (topic, int(number))
        for topic, _, number in (path.name.rpartition("-") for path in partitions(name))
        if topic != "__cluster_metadata"
    }
    high_watermarks = checkpoint(name, "replication-offset-checkpoint")
    assert set(high_watermarks) == wanted
    for (topic, number), offset in high_watermarks.items():
        assert offset == end_offset(name, f"{topic}-{number}")
    assert set(checkpoint(name, "recovery-point-offset-checkpoint")) == wanted


@since("3")
def test_metadata_log_has_a_snapshot(name: str) -> None:
    metadata = ROOT / "brokers" / name / "__cluster_metadata-0"
    assert (metadata / "quorum-state").exists()
    assert batches(name, "__cluster_metadata-0")
    snapshots = list(metadata.glob("*.checkpoint"))
    assert snapshots
    for snapshot in snapshots:
        assert re.fullmatch(r"\d{20}-\d{10}\.checkpoint", snapshot.name)
        first, *_, last = in_segment(snapshot)
        assert first.attributes & last.attributes & CONTROL


@since("3")
def test_leader_epochs_changed_once(name: str) -> None:
    for codec in CODECS:
        epochs = [batch.epoch for batch in batches(name, f"codec-{codec}-0")]
        assert len(set(epochs)) == 2
        lines = logs(name, f"codec-{codec}-0")[0].with_name("leader-epoch-checkpoint").read_text()
        assert [int(line.split(" ")[0]) for line in lines.splitlines()[2:]] == sorted(set(epochs))


# What a consumer read


@every_fixture
def test_consumer_read_every_record_of_the_log(name: str) -> None:
    starts = {}
    if at_least(release(name), "0.11"):
        starts = checkpoint(name, "log-start-offset-checkpoint")
    read = {partition for partition, isolation in consumed(name) if isolation == "read_uncommitted"}
    assert read == {path.name for path in partitions(name)} - {"__cluster_metadata-0"}
    for partition in read:
        topic, _, number = partition.rpartition("-")
        start = starts.get((topic, int(number)), 0)
        stored = 0
        for path in logs(name, partition):
            stored += sum(len(unit.inner or (unit,)) for unit in units(path.read_bytes()))
        for batch in batches(name, partition):
            if not batch.attributes & CONTROL and batch.last_offset >= start:
                stored += min(batch.records, batch.last_offset - start + 1)
        offsets = [record["offset"] for record in records(name, partition)]
        assert len(offsets) == stored, partition
        assert offsets == sorted(set(offsets))


@every_fixture
def test_lines_have_the_promised_shape(name: str) -> None:
    for partition, isolation in consumed(name):
        for record in records(name, partition, isolation):
            held = ["key" if "key" in record else "key_base64"]
            held += ["value" if "value" in record else "value_base64"]
            assert list(record) == ["offset", "timestamp", "timestamp_type", *held, "headers"]
            decoded(record, "key")
            decoded(record, "value")
            for header in record["headers"]:
                decoded({key: value for key, value in header.items() if key != "key"}, "value")
                assert isinstance(header["key"], str)


@pytest.mark.parametrize("partition", REPRODUCED)
def test_all_brokers_were_given_the_same_records(partition: str) -> None:
    key = (partition, "read_uncommitted")
    files = {name: consumed(name)[key] for name in FIXTURES if key in consumed(name)}
    assert len({path.read_bytes() for name, path in files.items() if name in fixtures("1.1")}) == 1
    # Before, there were no headers, and in the beginning no times.
    bare = {
        tuple(
            (record["offset"], decoded(record, "key"), decoded(record, "value"))
            for record in map(json.loads, path.read_text().splitlines())
        )
        for path in files.values()
    }
    assert len(bare) == 1


@every_fixture
def test_read_committed_is_there_where_transactions_are(name: str) -> None:
    for path in partitions(name):
        transactional = any(batch.attributes & TRANSACTIONAL for batch in batches(name, path.name))
        assert ((path.name, "read_committed") in consumed(name)) == transactional


# Batches and records


@with_codecs("1.1")
def test_every_codec_in_several_indexed_segments(name: str, codec: str) -> None:
    partition = f"codec-{codec}-0"
    found = {batch.attributes & CODEC_MASK for batch in batches(name, partition)}
    assert found == {CODECS.index(codec)}
    assert len(logs(name, partition)) >= 2
    first = logs(name, partition)[0]
    assert first.with_suffix(".index").stat().st_size >= 3 * 8
    assert first.with_suffix(".timeindex").stat().st_size >= 2 * 12
    assert any(batch.records > 1 for batch in batches(name, partition))


@with_codecs("0.8")
def test_odd_keys_values_and_headers(name: str, codec: str) -> None:
    read = records(name, f"codec-{codec}-0")
    for part in ("key", "value"):
        values = [decoded(record, part) for record in read]
        assert None in values
        assert b"" in values
        assert any(value and b"\x1b" in value for value in values)
    assert any(b"\xff\x00" in (decoded(record, "key") or b"") for record in read)
    if not at_least(release(name), "0.11"):
        assert not any(record["headers"] for record in read)
        return
    headers = [header for record in read for header in record["headers"]]
    assert {"", "größe", "line\nbreak\x1b[0m"} <= {header["key"] for header in headers}
    assert any("value" in header for header in headers)
    assert any(header.get("value_base64") == "" for header in headers)
    names = [Counter(header["key"] for header in record["headers"]) for record in read]
    assert any(counted["trace"] == 2 for counted in names)
    assert any(not record["headers"] for record in read)


@since("1.1")
def test_both_timestamp_types(name: str) -> None:
    appended = batches(name, "log-append-time-0")
    assert all(batch.attributes & LOG_APPEND_TIME for batch in appended)
    newest = "zstd" if at_least(release(name), "2.1") else "gzip"
    assert {batch.attributes & CODEC_MASK for batch in appended} == {0, CODECS.index(newest)}
    created = batches(name, "codec-none-0")
    assert not any(batch.attributes & LOG_APPEND_TIME for batch in created)
    for partition, kind in (("log-append-time-0", "LogAppendTime"), ("codec-none-0", "CreateTime")):
        assert {record["timestamp_type"] for record in records(name, partition)} == {kind}


@since("1.1")
def test_idempotent_producers_number_their_batches(name: str) -> None:
    following: dict[int, int] = {}
    for batch in batches(name, "idempotent-0"):
        assert batch.producer_id >= 0
        assert batch.base_sequence == following.get(batch.producer_id, 0)
        following[batch.producer_id] = batch.base_sequence + batch.records
    assert len(following) == 6
    snapshots = logs(name, "idempotent-0")[-1].with_suffix(".snapshot")
    assert (snapshots.stat().st_size - 10) // 46 >= 4


# Transactions


@since("1.1")
@pytest.mark.parametrize("partition", ["transactions-0", "transfers-1"])
def test_one_transaction_hangs_among_ended_ones(name: str, partition: str) -> None:
    open_since: dict[int, int] = {}
    markers: Counter[int | None] = Counter()
    outside = 0
    for batch in batches(name, partition):
        if batch.marker is not None:
            markers[batch.marker] += 1
            open_since.pop(batch.producer_id, None)
        elif batch.attributes & TRANSACTIONAL:
            open_since.setdefault(batch.producer_id, batch.base_offset)
        else:
            outside += 1
    assert markers[ABORT] >= 3
    assert markers[COMMIT] >= 3
    assert outside >= 3
    (hanging,) = open_since.values()
    committed = [record["offset"] for record in records(name, partition, "read_committed")]
    uncommitted = [record["offset"] for record in records(name, partition)]
    assert set(committed) < set(uncommitted)
    assert max(committed) < hanging <= max(uncommitted)


@since("1.1")
def test_aborted_transactions_are_indexed_in_several_segments(name: str) -> None:
    sizes = [
        path.with_suffix(".txnindex").stat().st_size
        for path in logs(name, "transactions-0")
        if path.with_suffix(".txnindex").exists()
    ]
    assert len(sizes) >= 2
    assert all(size > 0 and size % 34 == 0 for size in sizes)


@since("1.1")
def test_transaction_log_tells_of_all_transactional_ids(name: str) -> None:
    keys = b"".join(
        decoded(record, "key") or b""
        for number in (0, 1)
        for record in records(name, f"__transaction_state-{number}")
    )
    wanted = [b"one", b"two", b"three", b"hanging", b"compacting"]
    # Offsets in transactions came later than transactions.
    wanted += [b"group-offsets"] if at_least(release(name), "2.8") else []
    for transactional_id in wanted:
        assert transactional_id in keys


# Topics of one purpose


@since("1.1")
def test_cleaner_left_tombstones_horizons_and_emptied_batches(name: str) -> None:
    cleaned_to = checkpoint(name, "cleaner-offset-checkpoint")["compacted", 0]
    cleaned = [batch for batch in batches(name, "compacted-0") if batch.last_offset < cleaned_to]
    horizons = any(batch.attributes & DELETE_HORIZON for batch in cleaned)
    assert horizons == at_least(release(name), "3.1")
    assert any(batch.attributes & CONTROL for batch in cleaned)
    assert any(batch.records == 0 for batch in cleaned)
    assert any(0 < batch.records <= batch.last_offset_delta for batch in cleaned)
    assert any(batch.attributes & CODEC_MASK for batch in cleaned)
    kept = [record for record in records(name, "compacted-0") if record["offset"] < cleaned_to]
    assert any(decoded(record, "value") is None for record in kept)
    assert max(Counter(decoded(record, "key") for record in kept).values()) == 1


@since("1.1")
def test_log_start_lies_inside_a_batch(name: str) -> None:
    starts = checkpoint(name, "log-start-offset-checkpoint")
    for number in (0, 1):
        start, partition = starts["deleted-records", number], f"deleted-records-{number}"
        assert any(
            batch.base_offset < start <= batch.last_offset for batch in batches(name, partition)
        )
        assert records(name, partition)[0]["offset"] == start
    assert int(logs(name, "deleted-records-0")[0].stem) > 0
    assert int(logs(name, "deleted-records-1")[0].stem) == 0


@since("2.8")
def test_groups_left_offsets_members_and_tombstones(name: str) -> None:
    read = [record for number in (0, 1) for record in records(name, f"__consumer_offsets-{number}")]
    kinds = {int.from_bytes((decoded(record, "key") or b"")[:2]) for record in read}
    # Offset commits, classic groups, and the consumer protocol's groups and members.
    modern = at_least(release(name), "3.9")
    assert ({1, 2, 3, 5, 6, 7, 8} if modern else {1, 2}) <= kinds
    assert any(decoded(record, "value") is None for record in read)
    markers = {
        batch.marker for number in (0, 1) for batch in batches(name, f"__consumer_offsets-{number}")
    }
    assert {ABORT, COMMIT} <= markers
    groups = b"".join(decoded(record, "key") or b"" for record in read)
    for group in (b"classic", b"classic-static", b"gone-1", b"transactional"):
        assert group in groups
    assert (b"modern" in groups) == modern


@every_fixture
def test_topics_without_records_and_with_an_odd_name(name: str) -> None:
    (only,) = logs(name, "never-written-0")
    assert only.stat().st_size == 0
    # By the records' times, which 0.8 had not.
    assert len(logs(name, "a.b_c-1-0")) == (3 if at_least(release(name), "0.10") else 1)


@since("0.9")
def test_preallocated_segment_has_a_tail_of_zeros_after_the_kill(name: str, tmp_path: Path) -> None:
    copy = copy_fixture(name, tmp_path / "copy")
    last = max((copy / "preallocated-0").glob("*.log"))
    content = last.read_bytes()
    used = 0
    while used < len(content) and (length := PREFIX.unpack_from(content, used)[1]):
        used += length + 12
    if name.endswith("/clean"):
        assert len(content) == used
    else:
        assert len(content) - used > 1024
        assert not any(content[used:])


# The copies


@pytest.mark.broker
@pytest.mark.parametrize(
    "name",
    [
        # The nightly part that makes the fixtures again runs all of them.
        pytest.param(
            name,
            marks=pytest.mark.slow if name in FIXTURES[-1:] else pytest.mark.nightly,
        )
        for name in FIXTURES
    ],
)
def test_broker_starts_on_a_copy_and_serves_the_same_records(name: str, tmp_path: Path) -> None:
    copy = copy_fixture(name, tmp_path / "data")
    # The broker adds to its own topics at once, for it aborts what has hung too long.
    given = {key: path for key, path in consumed(name).items() if not key[0].startswith("__")}
    version = name.split("/")[0]
    topics = json.loads((ROOT / "brokers" / f"{name}.topics.json").read_text())
    settings = {**QUICK_RESTART, "log.cleaner.enable": "false"}
    with Broker(version, copy, settings, topics) as broker:
        recovering = any(
            "Recovering unflushed segment" in line and "partition=__cluster_metadata" not in line
            for line in broker.log_lines()
        )
        names = [partition for partition, isolation in given if isolation == "read_uncommitted"]
        consume(version, broker.bootstrap, "read_uncommitted", names, tmp_path)
    assert recovering == name.endswith("/killed")
    for partition in names:
        read = (tmp_path / f"{partition}.read_uncommitted.jsonl").read_bytes()
        assert read == given[partition, "read_uncommitted"].read_bytes(), partition
