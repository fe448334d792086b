"""Proves that the oracle does and says what a broker's loader and Kafka's dump tool do."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from crc32c import crc32c

from brokers import jars
from brokers.oracle import Loaded, Oracle, OracleError, Refused
from support.releases import LOADERS

BATCH_RECORDS = 3
TIMESTAMP_MS = 1_700_000_000_000
INTERVAL_BYTES = 300

broker = pytest.mark.broker
Of = Callable[[str], Oracle]


@pytest.fixture(params=LOADERS)
def version(request: pytest.FixtureRequest) -> str:
    release: str = request.param
    return release


def varint(value: int) -> bytes:
    """A zigzag varint of a value below 2**31."""
    left = value << 1 ^ value >> 31
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def batch(
    base: int,
    value: bytes = b"v" * 40,
    timestamp_ms: int = TIMESTAMP_MS,
    producer_id: int = -1,
) -> bytes:
    """An uncompressed magic-2 batch of three records without keys."""
    records = b""
    for delta in range(BATCH_RECORDS):
        record = b"\0\0" + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
    stamps = (timestamp_ms, timestamp_ms)
    producer = (producer_id, 0 if producer_id >= 0 else -1, base if producer_id >= 0 else -1)
    fields = struct.pack(">hiqqqhii", 0, BATCH_RECORDS - 1, *stamps, *producer, BATCH_RECORDS)
    checked = fields + records
    return struct.pack(">qiibI", base, len(checked) + 9, 0, 2, crc32c(checked)) + checked


def segment(base: int, batches: int = 10) -> bytes:
    return b"".join(batch(base + BATCH_RECORDS * i) for i in range(batches))


def flipped(content: bytes, position: int) -> bytes:
    changed = bytearray(content)
    changed[position] ^= 1
    return bytes(changed)


def log_name(base: int) -> str:
    return f"{base:020}.log"


def partition(tmp_path: Path, logs: Mapping[int, bytes]) -> Path:
    """A partition directory of these logs by base offset, with indexes that hold no entries."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    for base, content in logs.items():
        (directory / log_name(base)).write_bytes(content)
        (directory / f"{base:020}.index").touch()
        (directory / f"{base:020}.timeindex").touch()
    return directory


def logs_of(directory: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in directory.glob("*.log")}


def open_files(pid: int | None) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@broker
def test_undamaged_log_keeps_its_bytes(oracle: Of, version: str, tmp_path: Path) -> None:
    logs = {0: segment(0), 30: segment(30), 60: b""}
    directory = partition(tmp_path, logs)
    loaded = oracle(version).load(directory)
    assert isinstance(loaded, Loaded)
    assert (loaded.log_start_offset, loaded.log_end_offset) == (0, 60)
    assert loaded.segments == (0, 30, 60)
    assert logs_of(directory) == logs
    assert any("Recovering unflushed segment 30" in line for line in loaded.messages)
    assert all(line.startswith("INFO ") for line in loaded.messages)


@broker
def test_torn_tail_is_cut_at_the_last_whole_batch(oracle: Of, version: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: segment(0) + batch(30)[:-1]})
    loaded = oracle(version).load(directory)
    assert isinstance(loaded, Loaded)
    assert loaded.log_end_offset == 30
    assert logs_of(directory) == {0: segment(0)}
    assert any(
        line.startswith("WARN ") and "Corruption found in segment 0" in line
        for line in loaded.messages
    )


@broker
def test_bad_checksum_cuts_and_takes_the_later_segments(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    directory = partition(
        tmp_path, {0: flipped(segment(0), 4 * len(batch(0)) - 1), 30: segment(30), 60: segment(60)}
    )
    loaded = oracle(version).load(directory)
    assert isinstance(loaded, Loaded)
    assert loaded.segments == (0,)
    assert loaded.log_end_offset == 9
    assert logs_of(directory) == {0: segment(0, batches=3)}
    assert not [path.name for path in directory.iterdir() if path.name.endswith(".deleted")]


@broker
def test_damage_beside_a_missing_index_keeps_the_later_segments(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    """The rebuilding of the index cuts first, so that recovery proper finds nothing to cut."""
    directory = partition(
        tmp_path, {0: flipped(segment(0), 4 * len(batch(0)) - 1), 30: segment(30)}
    )
    (directory / f"{0:020}.index").unlink()
    loaded = oracle(version).load(directory)
    assert isinstance(loaded, Loaded)
    assert loaded.segments == (0, 30)
    assert loaded.log_end_offset == 60
    assert logs_of(directory) == {0: segment(0, batches=3), 30: segment(30)}


@broker
def test_segments_below_the_recovery_point_are_not_read(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    damaged = flipped(segment(0), -1)
    directory = partition(tmp_path, {0: damaged, 30: segment(30)})
    loaded = oracle(version).load(directory, recovery_point=30)
    assert isinstance(loaded, Loaded)
    assert loaded.log_end_offset == 60
    assert logs_of(directory) == {0: damaged, 30: segment(30)}


@broker
def test_missing_index_is_rebuilt_by_the_interval(oracle: Of, version: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    (directory / f"{0:020}.index").unlink()
    config = {"index.interval.bytes": str(INTERVAL_BYTES)}
    loaded = oracle(version).load(directory, clean=True, config=config)
    assert isinstance(loaded, Loaded)
    assert any("Could not find offset index file" in line for line in loaded.messages)
    expected = b""
    size = len(batch(0))
    indexed_position = 0
    for i in range(10):
        if i * size - indexed_position > INTERVAL_BYTES:
            indexed_position = i * size
            expected += struct.pack(">ii", BATCH_RECORDS * (i + 1) - 1, indexed_position)
    assert len(expected) >= 2 * 8
    assert (directory / f"{0:020}.index").read_bytes() == expected


@broker
def test_log_start_beyond_the_end_deletes_everything(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    directory = partition(tmp_path, {0: segment(0), 30: segment(30)})
    loaded = oracle(version).load(directory, log_start=100)
    assert isinstance(loaded, Loaded)
    assert (loaded.log_start_offset, loaded.log_end_offset) == (100, 100)
    assert loaded.segments == (100,)
    assert logs_of(directory) == {100: b""}


@broker
def test_clean_start_leaves_a_torn_tail(oracle: Of, version: str, tmp_path: Path) -> None:
    torn = segment(0) + batch(30)[:-1]
    directory = partition(tmp_path, {0: torn})
    loaded = oracle(version).load(directory, clean=True)
    assert isinstance(loaded, Loaded)
    assert loaded.log_end_offset == 30
    assert logs_of(directory) == {0: torn}


@broker
def test_foreign_log_name_stops_the_broker(oracle: Of, version: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    (directory / "abc.log").write_bytes(b"")
    refused = oracle(version).load(directory)
    assert isinstance(refused, Refused)
    assert refused.error == "java.lang.NumberFormatException"
    assert refused.message == 'For input string: "abc"'
    assert not refused.offline
    assert (directory / log_name(0)).read_bytes() == segment(0)


@broker
def test_malformed_epoch_file_takes_the_directory_offline(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")
    refused = oracle(version).load(directory)
    assert isinstance(refused, Refused)
    assert refused.offline
    assert "leader-epoch-checkpoint" in (refused.message or "")


@broker
@pytest.mark.parametrize(("expiry_ms", "snapshot_bytes"), [(3_600_000, 10), (None, 10 + 46)])
def test_producer_expiry_decides_what_the_snapshot_keeps(
    oracle: Of, version: str, tmp_path: Path, expiry_ms: int | None, snapshot_bytes: int
) -> None:
    written_ms = int(time.time() * 1000) - 2 * 3_600_000
    idempotent = batch(0, timestamp_ms=written_ms, producer_id=7)
    directory = partition(tmp_path, {0: idempotent})
    oracle(version).load(directory)
    # Only a snapshot that is read drops producers, and only a longer log gets a new snapshot.
    assert (directory / f"{3:020}.snapshot").stat().st_size == 10 + 46
    (directory / log_name(0)).write_bytes(idempotent + batch(3))
    loaded = oracle(version).load(directory, clean=True, producer_expiry_ms=expiry_ms)
    assert isinstance(loaded, Loaded)
    assert loaded.log_end_offset == 6
    assert (directory / f"{6:020}.snapshot").stat().st_size == snapshot_bytes


@broker
def test_two_hundred_loads_stay_quick_and_leak_no_files(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    asked = oracle(version)
    directory = partition(tmp_path, {0: segment(0), 30: segment(30)})
    ends = set()
    started = time.monotonic()
    for count in range(200):
        loaded = asked.load(directory)
        assert isinstance(loaded, Loaded)
        ends.add((loaded.segments, loaded.log_end_offset, len(loaded.messages)))
        if count == 10:
            before = open_files(asked.pid)
    assert len(ends) == 2, "only the first load found no snapshot"
    assert time.monotonic() - started < 60
    assert open_files(asked.pid) <= before + 2


@broker
def test_refused_loads_leave_a_bounded_number_of_files_open(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    asked = oracle(version)
    directory = partition(tmp_path, {30 * i: segment(30 * i) for i in range(20)})
    (directory / "abc.log").write_bytes(b"")
    most = 0
    for _ in range(50):
        assert isinstance(asked.load(directory), Refused)
        most = max(most, open_files(asked.pid))
    assert most < 700


@broker
def test_a_refusal_leaves_nothing_for_the_next_load(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    alone = oracle(version).load(directory)
    (directory / "abc.log").write_bytes(b"")
    oracle(version).load(directory)
    (directory / "abc.log").unlink()
    again = oracle(version).load(directory)
    assert isinstance(alone, Loaded)
    assert isinstance(again, Loaded)
    assert again.segments == alone.segments
    assert not any("abc" in line for line in again.messages)


@broker
def test_dump_prints_what_kafka_prints(oracle: Of, version: str, tmp_path: Path) -> None:
    content = batch(0, value=b"\xc3\xa9\xff")
    directory = partition(tmp_path, {0: content})
    path = directory / log_name(0)
    out, err = oracle(version).dump("--files", str(path), "--print-data-log")
    crc = struct.unpack_from(">I", content, 17)[0]
    head = (
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: -1 lastSequence: -1 producerId: -1"
        " producerEpoch: -1 partitionLeaderEpoch: 0 isTransactional: false isControl: false"
        " deleteHorizonMs: OptionalLong.empty position: 0"
        f" CreateTime: {TIMESTAMP_MS} size: {len(content)} magic: 2 compresscodec: none"
        f" crc: {crc} isvalid: true"
    )
    records = [
        f"| offset: {offset} CreateTime: {TIMESTAMP_MS} keySize: -1 valueSize: 3"
        " sequence: -1 headerKeys: [] payload: é\ufffd"
        for offset in range(BATCH_RECORDS)
    ]
    expected = [f"Dumping {path}", "Log starting offset: 0", head, *records]
    assert out.decode().splitlines() == expected
    assert b"Exception" not in err


@broker
def test_dump_reads_what_the_loader_wrote(oracle: Of, version: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    oracle(version).load(directory, config={"index.interval.bytes": "1000"})
    out, err = oracle(version).dump("--files", str(directory / f"{0:020}.index"))
    position = 1000 // len(batch(0)) * len(batch(0)) + len(batch(0))
    offset = position // len(batch(0)) * BATCH_RECORDS + BATCH_RECORDS - 1
    assert out.decode().splitlines()[1:] == [f"offset: {offset} position: {position}"]
    assert err == b""


@broker
def test_dump_that_fails_shows_its_trace_and_the_oracle_lives(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    asked = oracle(version)
    out, err = asked.dump("--files", str(tmp_path / log_name(0)))
    process = asked.pid
    assert out.startswith(b"Dumping ")
    assert b'Exception in thread "main" java.nio.file.NoSuchFileException' in err
    out, err = asked.dump("--key-decoder-class", "none")
    assert out == b""
    assert b"files" in err
    assert asked.pid == process


@broker
def test_no_answer_in_time_ends_the_jvm(version: str, tmp_path: Path) -> None:
    with Oracle(version, answer_seconds=0.0) as asked:
        with pytest.raises(OracleError, match="no answer in time"):
            asked.load(partition(tmp_path, {0: segment(0)}))
        assert asked.pid is None


@broker
def test_a_dead_jvm_is_told_and_replaced(version: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    with Oracle(version) as asked:
        asked.load(directory)
        first = asked.pid
        assert first is not None
        os.kill(first, 9)
        with pytest.raises(OracleError, match=f"JVM of {version} ended with -9"):
            asked.load(directory)
        assert isinstance(asked.load(directory), Loaded)
        assert asked.pid != first


@broker
def test_leaving_the_context_ends_the_jvm(version: str, tmp_path: Path) -> None:
    with Oracle(version) as asked:
        asked.load(partition(tmp_path, {0: segment(0)}))
        process = asked.pid
        assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@broker
def test_our_own_failure_is_not_taken_for_a_refusal(
    oracle: Of, version: str, tmp_path: Path
) -> None:
    directory = partition(tmp_path, {0: segment(0)})
    with pytest.raises(OracleError, match="No value for property 'config'"):
        oracle(version)._ask({"op": "load", "directory": str(directory)})
    assert isinstance(oracle(version).load(directory), Loaded)


def test_missing_names_the_command_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert jars.java() is None
    assert jars.missing.__wrapped__() == "no java command on PATH"
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    assert jars.missing.__wrapped__() == "no javac command on PATH"
    for tool in ("javac", "mvn"):
        (tmp_path / tool).symlink_to(java)
    assert jars.missing.__wrapped__() == f"{java} is Java 11, needed is 17 or later"


def test_classpath_in_the_cache_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(pom: str, directory: Path) -> None:
        assert "<artifactId>kafka_2.13</artifactId>" in pom
        downloads.append(directory)
        directory.mkdir(parents=True)

    downloads: list[Path] = []
    monkeypatch.setenv("KDUMP_JARS", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_download", download)
    first = jars.classpath("4.3.1")
    assert jars.classpath("4.3.1") == first
    assert downloads == [Path(first).parent]
    assert downloads[0].parent == tmp_path / "cache"
    with pytest.raises(KeyError):
        jars.classpath("0.7.0")


def test_publish_yields_to_the_process_that_was_faster(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    jars.publish(tmp_path / "mine", tmp_path / "theirs")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["theirs", "theirs"]
