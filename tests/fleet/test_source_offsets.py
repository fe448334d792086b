"""What a query with offsets or timestamps reads: the right records, and little beside them."""

from __future__ import annotations

import json
import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.consumer_records import as_consumer
from support.fixtures_loader import consumed, copy_fixture, few_first
from support.forge import TIMESTAMP, batch, flip, marker, record, write_partition
from support.long_samples import first_of

pa = pytest.importorskip("pyarrow")

from kdump.audit.targets.listing import list_scope  # noqa: E402
from kdump.errors import DecodeError, UsageError  # noqa: E402
from kdump.fleet.source.bad_records import BadRecords  # noqa: E402
from kdump.fleet.source.by_time import first_offset_since  # noqa: E402
from kdump.fleet.source.columns import (  # noqa: E402
    KAFKA_WITH_HEADERS,
    kafka_rows,
    source_names,
)
from kdump.fleet.source.committed import committed_records  # noqa: E402
from kdump.fleet.source.offsets import PartitionLogs, select_logs  # noqa: E402
from kdump.fleet.source.options import Options  # noqa: E402
from kdump.fleet.source.paths import expand_paths  # noqa: E402
from kdump.storage.selection import HIGHEST  # noqa: E402
from kdump.storage.source import WindowedFile  # noqa: E402
from kdump.tables.committed.batches import CommittedFilter  # noqa: E402
from kdump.tables.tables import record_batches  # noqa: E402

pytestmark = pytest.mark.once

#: Four segments of 20 batches of 5 records; an entry of the index for about every second batch.
BASES = (0, 100, 200, 300)
INTERVAL = 1000


WITHOUT_MARKERS = CommittedFilter(array("q"), HIGHEST, ()).batches
FAILING = BadRecords(Options.parse({}))


def batches(base: int, stamps: Sequence[int] = ()) -> list[bytes]:
    """The batches of a segment of 100 offsets; ``stamps`` are the timestamps of its records."""
    return [
        batch(
            offset,
            [
                record(b"v" * 100, timestamp=stamps[offset - base + place] if stamps else None)
                for place in range(5)
            ],
        )
        for offset in range(base, base + 100, 5)
    ]


def partition(parent: Path, topic: str = "t", **files: bytes | None) -> Path:
    segments = {base: batches(base) for base in BASES}
    return write_partition(parent, topic, 0, segments, interval=INTERVAL, files=files)


def select(*paths: Path | str, **options: str) -> list[PartitionLogs]:
    given = Options.parse({"paths": json.dumps(list(map(str, paths))), **options})
    scope = list_scope(expand_paths(given.paths), None, given.selection)
    return select_logs(scope.targets, given, scope.context, BadRecords(given))


def offsets(selected: Sequence[PartitionLogs]) -> list[int]:
    logs = [log for each in selected for log in each.logs]
    found = record_batches(logs, ["offset"], FAILING)
    return [offset for rows in found for offset in rows.column("offset").to_pylist()]


def ranged(first: int | str, end: int | str) -> dict[str, str]:
    return {
        "startingOffsets": f'{{"t":{{"0":{first}}}}}',
        "endingOffsets": f'{{"t":{{"0":{end}}}}}',
        "subscribe": "t",
    }


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[int]]]:
    """The positions at which each file is read, by its path's last two parts."""
    found: dict[str, set[int]] = defaultdict(set)
    window = WindowedFile.window

    def seen(self: WindowedFile, position: int, at_least: int = 1) -> memoryview:
        found["/".join(Path(self.path).parts[-2:])].add(position)
        return window(self, position, at_least)

    monkeypatch.setattr(WindowedFile, "window", seen)
    yield found


def test_only_the_segments_of_the_offsets_are_read_from_where_the_index_leads(
    tmp_path: Path, reads: dict[str, set[int]]
) -> None:
    partition(tmp_path)
    partition(tmp_path, "other")
    assert offsets(select(tmp_path, **ranged(163, 171))) == list(range(163, 171))
    assert set(reads) == {f"t-0/{100:020d}.log", f"t-0/{100:020d}.index"}
    size = (tmp_path / f"t-0/{100:020d}.log").stat().st_size
    assert min(reads[f"t-0/{100:020d}.log"]) > size // 3


def test_reading_ends_behind_the_last_offset(
    tmp_path: Path, reads: dict[str, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log that is larger than a window, what lies after it is not read."""
    monkeypatch.setattr("kdump.storage.access.WINDOW_BYTES", 8192)
    path = partition(tmp_path)
    assert offsets(select(path, **ranged(-2, 12))) == list(range(12))
    assert set(reads) == {f"t-0/{0:020d}.log"}
    assert max(reads[f"t-0/{0:020d}.log"]) < 4096


@pytest.mark.parametrize("first", [0, 4, 5, 99, 100, 101, 250, 399])
@pytest.mark.parametrize("length", [1, 2, 101, 400])
@pytest.mark.slow
def test_any_range_is_read_whole(tmp_path: Path, first: int, length: int) -> None:
    end = min(first + length, 400)
    path = partition(tmp_path)
    assert offsets(select(path, **ranged(first, end))) == list(range(first, end))


@pytest.mark.parametrize("seed", first_of(range(4, 8)))
def test_a_damaged_index_costs_no_record(seed: int, tmp_path: Path) -> None:
    """Whatever its bytes are, what lies before the offset is found by the headers alone."""
    path = partition(tmp_path)
    rng = random.Random(seed)
    index, size = path / f"{100:020d}.index", (path / f"{100:020d}.log").stat().st_size
    good = index.read_bytes()
    for _ in range(15):
        entries = [good[at : at + 8] for at in range(0, len(good), 8)]
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(entries))
            relative, position = rng.randrange(100), rng.randrange(size)
            entries[place] = rng.choice(
                [
                    relative.to_bytes(4, "big") + position.to_bytes(4, "big"),
                    rng.randbytes(8),
                    entries[rng.randrange(len(entries))],
                    bytes(8),
                ]
            )
        index.write_bytes(b"".join(entries)[: rng.choice([None, -3, 12])])
        first = rng.randrange(100, 200)
        found = offsets(select(path, **ranged(first, 200)))
        assert found == list(range(first, 200))


@pytest.mark.slow
def test_offsets_outside_of_a_log(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    partition(directory)
    starts = b"0\n1\nt 0 107\n"
    (directory / "log-start-offset-checkpoint").write_bytes(starts)
    kafka = {"schema": "kafka"}
    assert offsets(select(directory, **kafka)) == list(range(107, 400))
    assert offsets(select(directory)) == list(range(400))
    for bad, what in (
        (ranged(106, -1), "startingOffsets: expected 107 or more for t-0, found 106"),
        (ranged(-2, 401), "endingOffsets: expected 400, the end of the log, or less for t-0"),
        (ranged(401, 402), "startingOffsets: expected 400, the end of the log, or less for t-0"),
    ):
        with pytest.raises(UsageError, match=what):
            select(directory, **kafka, **bad)
        select(directory, **kafka, **bad, failOnDataLoss="false")
    lenient = {**kafka, "failOnDataLoss": "false"}
    assert offsets(select(directory, **lenient, **ranged(3, 109))) == [107, 108]
    assert offsets(select(directory, **lenient, **ranged(398, 500))) == [398, 399]
    assert offsets(select(directory, **kafka, **ranged(400, 400))) == []


def test_every_partition_has_to_be_named(tmp_path: Path) -> None:
    partition(tmp_path)
    partition(tmp_path, "u")
    with pytest.raises(UsageError, match="expected all partitions that are read, found none for u"):
        select(tmp_path, startingOffsets='{"t":{"0":3}}')
    with pytest.raises(UsageError, match="expected only partitions that are read, found u-0"):
        select(tmp_path, subscribe="t", startingOffsets='{"t":{"0":3},"u":{"0":3}}')
    with pytest.raises(UsageError, match="expected a log of v, w at the paths, found none"):
        select(tmp_path, subscribe="t,v,w")
    with pytest.raises(UsageError, match="expected a log of t-1 at the paths, found none"):
        select(tmp_path, assign='{"t":[0,1]}')


# --- timestamps


def expected(stamps: Sequence[int], timestamp: int, first: int) -> int | None:
    return next((at for at, one in enumerate(stamps) if at >= first and one >= timestamp), None)


def target(path: Path) -> Any:
    scope = list_scope([path], None, Options.parse({}).selection)
    return scope.targets[0].with_listing()


def drawn(rng: random.Random) -> list[int]:
    """Timestamps of 400 records that rise, stand, or jump."""
    kind = rng.randrange(3)
    if kind == 0:
        return sorted(rng.choices(range(1000), k=400))
    if kind == 1:
        return rng.choices(range(50), k=400)
    return [at + (500 if rng.random() < 0.02 else 0) for at in range(400)]


@pytest.mark.parametrize("seed", first_of(range(9, 14)))
@pytest.mark.slow
def test_the_first_offset_of_a_time_is_that_of_the_first_such_record(
    seed: int, tmp_path: Path
) -> None:
    """Also where time indexes are cut, foreign or garbage."""
    rng = random.Random(seed)
    for number in range(5):
        stamps = drawn(rng)
        segments = {base: batches(base, stamps[base : base + 100]) for base in BASES}
        path = write_partition(tmp_path / str(number), "t", 0, segments, interval=INTERVAL)
        for damage in range(4):
            if damage:
                index = path / f"{rng.choice(BASES):020d}.timeindex"
                good = index.read_bytes()
                index.write_bytes(
                    rng.choice(
                        [
                            good[: 12 * rng.randrange(1 + len(good) // 12)],
                            good[:-5],
                            rng.randbytes(len(good)),
                            (path / f"{rng.choice(BASES):020d}.timeindex").read_bytes(),
                            b"",
                        ]
                    )
                )
            listed = target(path)
            for _ in range(6):
                timestamp, first = rng.randrange(-1, 1100), rng.choice([0, rng.randrange(400)])
                found = first_offset_since(listed, timestamp, first, strict=False)
                assert found == expected(stamps, timestamp, first), (number, damage, timestamp)


def test_segments_that_end_before_a_time_are_not_read(
    tmp_path: Path, reads: dict[str, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those only the batch of the last entry of their time index is."""
    monkeypatch.setattr("kdump.fleet.source.by_time._WINDOW_BYTES", 4096)
    stamps = [TIMESTAMP + at for at in range(400)]
    segments = {base: batches(base, stamps[base : base + 100]) for base in BASES}
    path = write_partition(tmp_path, "t", 0, segments, interval=INTERVAL)
    assert first_offset_since(target(path), stamps[233], 0, strict=True) == 233
    sizes = {base: (path / f"{base:020d}.log").stat().st_size for base in BASES}
    for base in BASES[:2]:
        assert min(reads[f"t-0/{base:020d}.log"]) > sizes[base] - 2000
    assert f"t-0/{300:020d}.log" not in reads


def test_limits_by_time(tmp_path: Path) -> None:
    stamps = [TIMESTAMP + at for at in range(400)]
    segments = {base: batches(base, stamps[base : base + 100]) for base in BASES}
    path = write_partition(tmp_path, "t", 0, segments, interval=INTERVAL)
    times = {"startingTimestamp": str(stamps[150]), "endingTimestamp": str(stamps[155])}
    assert offsets(select(path, **times)) == list(range(150, 155))
    by_partition = {"startingOffsetsByTimestamp": f'{{"t":{{"0":{stamps[398]}}}}}'}
    assert offsets(select(path, **by_partition)) == [398, 399]
    late = {"startingTimestamp": str(stamps[399] + 1)}
    with pytest.raises(UsageError, match=f"{stamps[399] + 1} ms or later in t-0, found none"):
        select(path, **late)
    assert offsets(select(path, **late, startingOffsetsByTimestampStrategy="latest")) == []
    assert len(offsets(select(path, endingTimestamp=str(stamps[399] + 1)))) == 400


# --- paths, copies, transactions


def test_globs_and_directories_of_log_directories(tmp_path: Path) -> None:
    for name in ("kafka1", "broker-2"):
        partition(tmp_path / name, name)
        (tmp_path / name / "meta.properties").write_text("version=1\n")
    (tmp_path / "lost+found").mkdir()
    both = ["broker-2", "kafka1"]

    def found(text: str) -> list[str]:
        return [path.name for path in expand_paths([text])]

    assert found(f"{tmp_path}") == both
    assert found(f"file:{tmp_path}") == found(f"file://{tmp_path}") == both
    assert found(f"{tmp_path}/*[0-9]") == both
    assert found(f"{tmp_path}/k*/kafka1-?/*") == [f"{base:020d}.log" for base in BASES]
    assert found(f"{tmp_path}/kafka1") == ["kafka1"]
    assert found(f"{tmp_path}/gone") == ["gone"]
    with pytest.raises(UsageError, match="expected a pattern that some directory"):
        found(f"{tmp_path}/k*/*.properties")
    assert len(offsets(select(tmp_path))) == 800


def test_a_name_may_look_like_a_pattern(tmp_path: Path) -> None:
    directory = tmp_path / "data[1]"
    partition(directory)
    assert list(expand_paths([str(directory)])) == [directory]


def test_of_copies_the_columns_of_spark_have_the_one_of_the_highest_epoch(tmp_path: Path) -> None:
    def copy(name: str, epoch: int, count: int) -> None:
        content = [batch(at, [record(name.encode())], leader_epoch=epoch) for at in range(count)]
        write_partition(tmp_path / name, "t", 0, {0: content})
        (tmp_path / name / "meta.properties").write_text("version=1\n")

    copy("a", 1, 9)
    copy("b", 2, 5)
    copy("c", 2, 4)
    assert offsets(select(tmp_path, schema="kafka")) == list(range(5))
    assert len(offsets(select(tmp_path))) == 18


def in_transaction(offset: int, producer: int) -> bytes:
    return batch(
        offset,
        [record()],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def committed(path: Path, **options: str) -> list[int]:
    level = {"kafka.isolation.level": "read_committed", "schema": "kafka"}
    found = []
    for each in select(path, **level, **options):
        bad = BadRecords(Options.parse(options))
        keep = committed_records(each, bad).batches
        rows = record_batches(each.logs, ["offset"], bad, keep=keep)
        found += [offset for batch_ in rows for offset in batch_.column("offset").to_pylist()]
    return found


def test_committed_records(tmp_path: Path) -> None:
    """Of a transaction that goes over segments, too; nothing behind one that is open."""
    segments = {
        0: [in_transaction(0, 7), in_transaction(1, 8), batch(2, [record()])],
        3: [in_transaction(3, 7), marker(4, 7, commit=False), marker(5, 8, commit=True)],
        6: [in_transaction(6, 7), batch(7, [record()]), marker(8, 7, commit=True)],
        9: [batch(9, [record()]), in_transaction(10, 9), batch(11, [record()])],
    }
    path = write_partition(tmp_path, "t", 0, segments)
    assert committed(path) == [1, 2, 6, 7, 9]
    assert committed(path, **ranged(2, 7)) == [2, 6]


def test_an_undecided_transaction_is_left_out(tmp_path: Path) -> None:
    lost = flip(marker(2, 7, commit=True), -1)
    segments = {0: [batch(0, [record()]), in_transaction(1, 7), lost, batch(3, [record()])]}
    path = write_partition(tmp_path, "t", 0, segments)
    assert committed(path, mode="permissive") == [0, 3]
    with pytest.raises(DecodeError, match=r"t-0: offset 1 and later .* marker of this transaction"):
        committed(path)


def test_the_replicas_of_three_brokers_are_read_once(tmp_path: Path) -> None:
    brokers = copy_fixture("4.3.1/replicas", tmp_path / "brokers")
    selected = select(brokers, schema="kafka")
    names = [each.topic_partition for each in selected]
    assert len(names) == len(set(names)) > 1
    paths = [path for path in brokers.glob("*/*-*") if path.is_dir()]
    assert len({path.name for path in paths}) == len(names) < len(paths)


# --- what real consumers read


def lines(path: Path) -> list[tuple[Any, ...]]:
    """What a consumer read, with the columns of Spark's Kafka source, times in ms."""
    found = []
    for text in path.read_text().splitlines():
        line = json.loads(text)
        offset, timestamp, kind, key, value, headers = as_consumer(line)
        assert isinstance(headers, list)
        found.append(
            (
                key,
                value,
                offset,
                -1 if timestamp is None else timestamp,
                {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}[str(kind)],
                [(name.decode(), content) for name, content in headers] or None,
            )
        )
    return found


@pytest.mark.parametrize("name", few_first())
@pytest.mark.slow
def test_rows_are_what_consumers_read(name: str, grown: Callable[[str], Path]) -> None:
    """Of every topic that a broker left, of any magic, at both isolation levels."""
    directory, rows = grown(name), 0
    for (partition_name, isolation), path in consumed(name).items():
        topic, _, number = partition_name.rpartition("-")
        (each,) = select(
            directory,
            schema="kafka",
            assign=json.dumps({topic: [int(number)]}),
            **{"kafka.isolation.level": isolation},
        )
        keep = WITHOUT_MARKERS
        if isolation == "read_committed":
            keep = committed_records(each, FAILING).batches
        names = source_names(KAFKA_WITH_HEADERS)
        found = [
            (
                row["key"],
                row["value"],
                row["offset"],
                row["timestamp"] // timedelta(milliseconds=1),
                row["timestampType"],
                row["headers"] and [(pair["key"], pair["value"]) for pair in row["headers"]],
            )
            for records in record_batches(each.logs, names, FAILING, keep=keep)
            for row in since_epoch(kafka_rows(records, KAFKA_WITH_HEADERS, strict=True))
        ]
        assert found == lines(path), partition_name
        rows += len(found)
    assert rows > 500


def since_epoch(rows: Any) -> list[dict[str, Any]]:
    """The rows with the time since 1970 for their timestamps."""
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    return [row | {"timestamp": row["timestamp"] - zero} for row in rows.to_pylist()]
