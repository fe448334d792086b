"""How many records damage at the end of a log may have held: a true bound, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import kdump.cli.main
from kdump.audit.facts.small_files import (
    PartitionFacts,
    TopicSettings,
    read_directory,
    read_partition_facts,
)
from kdump.audit.startup.unread_tail import tail_records
from kdump.audit.survey.recovery import Span, Tail, recover
from kdump.storage.access import open_source
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path, read_partition
from kdump.storage.paths import as_local
from kdump.ui import exits
from support.damaged import FIRST, LAST, batches
from support.fixtures_loader import copy_fixture
from support.forge import batch, checkpoint, flip, message, record, wrapper, write_partition

CRC_AT = 17
_POINT, _MARK = "recovery-point-offset-checkpoint", "replication-offset-checkpoint"


def facts(
    directory: Path,
    *,
    point: int | None = None,
    mark: int | None = None,
    clean: bool = False,
    state: BrokerState = BrokerState.STOPPED,
) -> PartitionFacts:
    partition = write_partition(directory, "tail", 0, {FIRST: batches(FIRST)})
    for name, offset in ((_POINT, point), (_MARK, mark)):
        if offset is not None:
            (directory / name).write_bytes(checkpoint([("tail", 0, offset)]))
    if clean:
        (directory / ".kafka_cleanshutdown").touch()
    target = open_path(directory)
    assert isinstance(target, LogDirectory)
    top = read_directory(target, Liveness(state, "a test says so"))
    stopped = state is BrokerState.STOPPED
    return read_partition_facts(read_partition(partition), top, TopicSettings(), stopped=stopped)


BATCH = Tail(100, 112, torn=False)
TORN = Tail(100, None, torn=True)
BYTES = Tail(100, None, torn=False)


@pytest.mark.parametrize(
    ("tail", "known", "expected"),
    [
        (BATCH, {}, Span(12, 100, 111)),
        (BATCH, {"mark": 112, "point": 90}, Span(12, 100, 111)),
        (BATCH, {"mark": 113}, Span(13, 100, unbounded=True)),
        (BATCH, {"point": 120, "clean": True}, Span(20, 100, 119)),
        (BYTES, {}, Span(0, 100, unbounded=True)),
        (BYTES, {"mark": 139}, Span(39, 100, unbounded=True)),
        (BYTES, {"point": 139}, Span(39, 100, unbounded=True)),
        (BYTES, {"point": 139, "clean": True}, Span(39, 100, 138)),
        (BYTES, {"point": 139, "mark": 150, "clean": True}, Span(50, 100, unbounded=True)),
        (BYTES, {"mark": 139, "state": BrokerState.LIVE}, Span(0, 100, unbounded=True)),
        (TORN, {}, Span()),
        (TORN, {"mark": 100, "point": 100, "clean": True}, Span()),
        (TORN, {"mark": 105}, Span(5, 100, unbounded=True)),
    ],
)
def test_bounds_of_the_records_in_a_tail(
    tail: Tail, known: dict[str, object], expected: Span, tmp_path: Path
) -> None:
    assert tail_records(tail, None, facts(tmp_path, **known)) == expected  # type: ignore[arg-type]


def test_the_next_segment_bounds_what_was_before_it(tmp_path: Path) -> None:
    given = facts(tmp_path, mark=500)
    for tail in (BATCH, BYTES, TORN):
        assert tail_records(tail, 130, given) == Span(30, 100, 129)
        assert tail_records(tail, 100, given) == Span()


def test_checkpoints_speak_of_the_partition_that_is_served(tmp_path: Path) -> None:
    given = facts(tmp_path, mark=139)
    assert tail_records(BYTES, None, None) == Span(0, 100, unbounded=True)
    aside = as_local(given.partition.path).rename(tmp_path / f"tail-0.{'0' * 32}-stray")
    given = replace(given, partition=read_partition(aside))
    assert tail_records(BYTES, None, given) == Span(0, 100, unbounded=True)


def tail_of(path: Path, *pieces: bytes) -> Tail | None:
    path.write_bytes(b"".join(pieces))
    with open_source(path, mapped=False) as source:
        return recover(source, LAST, TopicSettings()).tail


_SOUND = batches(LAST)
_LAST = _SOUND[-1]


@pytest.mark.parametrize(
    ("damaged", "end"),
    [
        pytest.param(flip(_LAST, -1), 200, id="record"),
        pytest.param(flip(_LAST, CRC_AT), 200, id="crc"),
        pytest.param(flip(_LAST, 60), None, id="count"),
        pytest.param(flip(_LAST, 26), None, id="last-offset"),
        pytest.param(flip(flip(_LAST, -1), 7), None, id="base-offset"),
        pytest.param(flip(_LAST, -1) + bytes(70), None, id="zeros-behind"),
        pytest.param(flip(_LAST, -1) * 2, None, id="two"),
        pytest.param(flip(message(190, b"value"), -1), 191, id="message"),
        pytest.param(
            flip(wrapper(199, [message(190), message(199)], codec="gzip"), -1), None, id="wrapper"
        ),
        pytest.param(
            flip(batch(190, [record()], count=99, last_offset_delta=98), -1), None, id="no-room"
        ),
        pytest.param(flip(batch(190, [record(b"x")] * 99, codec="zstd"), -1), 289, id="compressed"),
    ],
)
def test_a_header_is_believed_where_its_fields_agree(
    damaged: bytes, end: int | None, tmp_path: Path
) -> None:
    found = tail_of(tmp_path / "log", *_SOUND[:-1], damaged)
    assert found == Tail(190, end, torn=False)


def test_a_torn_batch_is_not_counted_by_its_header(tmp_path: Path) -> None:
    assert tail_of(tmp_path / "log", *_SOUND[:-1], _LAST[:-5]) == Tail(190, None, torn=True)
    assert tail_of(tmp_path / "log", *_SOUND, bytes(500)) is None


# --- as it is printed


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The last log of a partition that ends at offset 122, its directory stopped uncleanly."""
    path = copy_fixture("4.3.1/clean", tmp_path / "data")
    (path / ".kafka_cleanshutdown").unlink()
    return sorted((path / "codec-none-0").glob("*.log"))[-1]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    kdump.cli.main.main([str(argument) for argument in arguments])
    return " ".join(capsys.readouterr().out.split())


def test_a_damaged_last_batch_counts_its_records(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_bytes(flip(log.read_bytes(), -1))
    text = printed(capsys, "verify", log.parent)
    assert "lost at most 12 records: 110..121" in text
    assert "consumers stop at 110; no valid batch follows" in text
    assert "truncates at offset 110" in text
    assert "removes at most 12 corrupt records (110..121)" in text


def test_bytes_without_a_header_leave_the_number_unknown(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = log.read_bytes()
    garbage = bytes(37 * number % 251 + 1 for number in range(2000))
    log.write_bytes(data[:-2000] + garbage)
    top = log.parent.parent
    text = printed(capsys, "verify", log.parent)
    assert "lost at least 32 records: 90.. consumers stop at 90; no valid batch" in text
    arguments = ["next-start", "--scan", "--format", "json", "--topic", "codec-none", str(top)]
    assert kdump.cli.main.main(arguments) == exits.PROBLEMS  # lost already
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line["type"] == "forecast"]
    lost = line["lost"]
    assert (lost["unreadable"], lost["first_offset"], lost["last_offset"]) == (None, 90, None)
    assert not line["exact"]
    for name in (_POINT, _MARK):
        (top / name).unlink()
    text = printed(capsys, "verify", log.parent)
    assert "lost an unknown number of records: 90.." in text
    assert "removes an unknown number of corrupt records (90..)" in text
