"""Repaired and salvaged directories under real brokers: they start, serve what is sound, go on.

The directories are those that the same releases left, stopped or killed; each partition has other
damage, and another repair.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import QUICK, java_command, run
from support.commands import Ran, kdump, repair
from support.fixtures_loader import consumed, copy_fixture
from support.resealing import places
from support.served import COMMITTED, READ, Records, complaints, loaded, logs, read_all, records

pytestmark = pytest.mark.broker

#: Nothing but what the test does changes a log. The fixtures have transactions that are too old,
#: which coordinators would end after ten seconds.
SETTINGS = {
    "log.cleaner.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    **QUICK_RESTART,
}
MARKER = ".kafka_cleanshutdown"
#: What the tests write beside the transactions and the rest that the program Workload writes.
APPENDED = ("codec-none", "codec-gzip", "codec-lz4", "codec-snappy", "codec-zstd", "a.b_c-1")
WORKLOAD = ("idempotent-0", "compacted-0", "transactions-0", "transfers-0", "transfers-1")


@dataclass(frozen=True)
class Damaged:
    """What damage has done: the offsets that cannot be read, and where recovery would cut."""

    lost: range
    end: int


@dataclass(frozen=True)
class Expected:
    """What is to be read of a partition, and where its log starts and ends; None for unknown."""

    records: Records
    start: int
    end: int | None


def middle_flipped(directory: Path) -> Damaged:
    """One bit of a batch amid a log that has others behind it."""
    logs = [log for log in sorted(directory.glob("*.log")) if len(places(log.read_bytes())) > 2]
    log = logs[(len(logs) - 1) // 2]
    data = bytearray(log.read_bytes())
    spans = places(bytes(data))
    number = len(spans) // 2
    data[spans[number][1] - 1] ^= 4
    log.write_bytes(data)
    return _damaged(data, spans[number - 1][0], spans[number][0])


def torn(directory: Path) -> Damaged:
    """The last batch without its end."""
    log = max(log for log in directory.glob("*.log") if len(places(log.read_bytes())) > 1)
    data = log.read_bytes()
    *_, (before, _), (start, end) = places(data)
    log.write_bytes(data[: end - 5])
    return _damaged(data, before, start)


def _damaged(data: bytes | bytearray, before: int, start: int) -> Damaged:
    def offsets(at: int) -> range:
        first = int.from_bytes(data[at : at + 8], "big")
        return range(first, first + int.from_bytes(data[at + 23 : at + 27], "big") + 1)

    return Damaged(offsets(start), offsets(before).stop)


def indexes_removed(directory: Path) -> None:
    for path in _indexes(directory):
        path.unlink()


def indexes_garbled(directory: Path) -> None:
    for path in _indexes(directory):
        data = path.read_bytes()
        path.write_bytes(data[8:16] + data[:8] + data[16:-3])


def _indexes(directory: Path) -> list[Path]:
    return [*directory.glob("*.index"), *directory.glob("*.timeindex")]


def markers_removed(directory: Path) -> None:
    """No aborted transaction is known any more, nor a producer."""
    for path in [*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]:
        path.unlink()


_CURES = {"--as-broker": "as-broker", "--only-copy": "drop"}
CUT: dict[str, Callable[[Path], Damaged]] = {
    "codec-none-0": middle_flipped,
    "codec-snappy-0": torn,
    "compacted-0": middle_flipped,
    "idempotent-0": middle_flipped,
    "transactions-0": middle_flipped,
    "log-append-time-0": torn,
}
SALVAGED: dict[str, Callable[[Path], Damaged]] = {
    "codec-zstd-0": middle_flipped,
    "deleted-records-0": middle_flipped,
    "transfers-0": torn,
}
REINDEXED: dict[str, Callable[[Path], None]] = {
    "codec-gzip-0": indexes_removed,
    "codec-lz4-0": indexes_garbled,
    "transfers-1": markers_removed,
}


def damaged_and_repaired(
    data: Path, fixture: str, scratch: Path, *, whole: str | None
) -> dict[str, Expected]:
    """Damage partitions of ``data`` and repair them, with no broker there.

    ``whole``: as one plan with this option, else kind by kind.
    """
    starts = offsets(data, "log-start-offset-checkpoint")
    # After a clean stop all is flushed.
    clean = (data / MARKER).exists()
    ends = offsets(data, "recovery-point-offset-checkpoint") if clean else {}
    expected = {
        partition: Expected(records(path), starts.get(partition, 0), ends.get(partition))
        for (partition, isolation), path in consumed(fixture).items()
        if isolation == READ and not partition.startswith("__")
    }
    for name, change in SALVAGED.items():
        damage = change(data / name)
        was = expected[name]
        sound = {at: record for at, record in was.records.items() if at not in damage.lost}
        expected[name] = replace(was, records=sound, end=damage.end if change is torn else was.end)
        assert readable(data / name)[name] >= set(sound)
        salvaged = kdump("salvage", data / name, "--output", scratch)
        assert salvaged.code in (0, 4), salvaged
        shutil.rmtree(data / name)
        shutil.move(scratch / name, data / name)
    for name, change in CUT.items():
        damage = change(data / name)
        was = expected[name]
        if whole == "--only-copy" and change is not torn:
            sound = {at: record for at, record in was.records.items() if at not in damage.lost}
            expected[name] = replace(was, records=sound)
        else:
            sound = {at: record for at, record in was.records.items() if at < damage.end}
            expected[name] = replace(was, records=sound, end=damage.end)
        assert set(sound) <= readable(data / name)[name] <= set(was.records)
    for name, break_indexes in REINDEXED.items():
        break_indexes(data / name)
    for command in ("repair",) if whole else ("reindex", "truncate-to-valid"):
        ran = repaired_as_a_whole(data, whole) if whole else repair(command, data)
        left = {Path(line["partition"]).name for line in ran.of("left")}
        assert left <= SALVAGED.keys()  # nothing on the disk has what a salvage could not copy
        assert ran.code == (5 if left else 0), ran
        assert kdump(command, data).code == ran.code
        assert (data / MARKER).exists() == clean
    if clean:
        assert (data / MARKER).read_bytes() == b""
    found = readable(data)
    for name, expectation in expected.items():
        shown = found.get(name, set())
        assert (
            shown == set(expectation.records) if name in CUT else shown >= set(expectation.records)
        ), name
    return expected


def repaired_as_a_whole(data: Path, option: str) -> Ran:
    """Repair the log directory by one plan: as a broker's recovery would, or as the only copy."""
    planned = kdump("repair", option, data)
    (summary,) = planned.of("summary")
    cures = {Path(line["partition"]).name: line["cure"] for line in planned.of("cure")}
    assert {name: cures.pop(name) for name in CUT} == {
        name: "tail" if change is torn else _CURES[option] for name, change in CUT.items()
    }
    assert {name: cures.pop(name) for name in REINDEXED} == dict.fromkeys(REINDEXED, "rebuild")
    assert cures == {}
    return kdump("repair", option, data, "--apply", "--confirm", summary["id"])


def offsets(data: Path, checkpoint: str) -> dict[str, int]:
    """What a checkpoint says of each partition."""
    lines = (data / checkpoint).read_text().splitlines()[2:]
    return {f"{topic}-{number}": int(at) for topic, number, at in map(str.split, lines)}


def readable(path: Path) -> dict[str, set[int]]:
    """The offsets of the records that ``kdump dump`` shows of each partition."""
    found: dict[str, set[int]] = {}
    for line in kdump("dump", "--records", path, searching=False).of("record"):
        if not line["control"]:
            found.setdefault(f"{line['topic']}-{line['partition']}", set()).add(line["offset"])
    return found


@pytest.mark.parametrize(
    ("version", "state", "whole"),
    [
        pytest.param("4.3.1", "clean", None, marks=pytest.mark.nightly),
        pytest.param("4.3.1", "clean", "--as-broker", marks=pytest.mark.slow),
        pytest.param("4.3.1", "clean", "--only-copy", marks=pytest.mark.slow),
        pytest.param("4.3.1", "killed", None, marks=pytest.mark.slow),
        pytest.param("4.3.1", "killed", "--only-copy", marks=pytest.mark.nightly),
        pytest.param("3.9.1", "clean", "--as-broker", marks=pytest.mark.nightly),
        pytest.param("3.9.1", "killed", "--only-copy", marks=pytest.mark.nightly),
        pytest.param("3.9.1", "killed", None, marks=pytest.mark.nightly),
    ],
)
def test_a_broker_goes_on_with_what_was_repaired(
    version: str, state: str, whole: str | None, tmp_path: Path
) -> None:
    data = copy_fixture(f"{version}/{state}", tmp_path / "data")
    expected = damaged_and_repaired(data, f"{version}/{state}", tmp_path / "salvaged", whole=whole)
    clean = state == "clean"
    before = logs(data, expected)
    # Recovery removes the room of a preallocated log, which is no damage: repair leaves it.
    compared = [name for name in expected if name != "preallocated-0" or clean or whole is None]
    with Broker(version, data, SETTINGS) as broker:
        said = broker.log_lines()
        found = read_all(broker, tuple(expected), tmp_path / "first")
        assert found == {name: expectation.records for name, expectation in expected.items()}
        assert logs(data, compared) == logs_of(before, compared)
        room = [name for name in expected if name not in compared]
        said = [line for line in said if "WARN" not in line or not any(map(line.count, room))]
        hold_against(said, expected, before, clean=clean)
        write_more(broker)
        after = read_all(broker, tuple(expected), tmp_path / "second")
    for name, expectation in expected.items():
        # What the program Workload deletes is of one topic, and from its beginning.
        first = min(after[name], default=0)
        remaining = {at: line for at, line in expectation.records.items() if at >= first}
        assert remaining == expectation.records or name.startswith("deleted-records")
        assert {at: after[name].get(at) for at in remaining} == remaining, name
        new = set(after[name]) - set(remaining)
        assert all(
            at > max(remaining, default=-1) and at >= (expectation.end or 0) for at in new
        ), name
        if name in WORKLOAD or name.removesuffix("-0") in APPENDED:
            assert new, name
    # The fixtures hold transactions without an end; salvage leaves a gap in place of damage.
    expected_codes = {("transaction-late", name) for name in expected}
    expected_codes |= {("batches-hole", name) for name in SALVAGED}
    verified = kdump("verify", data)
    assert {
        (line["code"], Path(line["path"]).relative_to(data).parts[0])
        for line in verified.of("finding")
        if line["severity"] != "info"
    } <= expected_codes


def logs_of(content: dict[str, bytes], names: Collection[str]) -> dict[str, bytes]:
    return {path: data for path, data in content.items() if path.partition("/")[0] in names}


def hold_against(
    said: list[str], expected: dict[str, Expected], before: dict[str, bytes], *, clean: bool
) -> None:
    """The broker has found nothing to cut, and the log start, end and segments that there were."""
    assert complaints(said, clean=clean) == []
    own = [line for line in said if "__cluster_metadata" not in line]
    assert any("Skipping recovery of" in line for line in own) == clean
    found = loaded(own)
    for name, expectation in expected.items():
        start, end, segments = found[name]
        bases = [int(Path(path).stem) for path in before if path.startswith(f"{name}/")]
        assert segments == len(bases), name
        assert start == max(expectation.start, min(bases)), name
        assert (
            end == expectation.end
            if expectation.end is not None
            else end > max(expectation.records, default=-1)
        ), name


def write_more(broker: Broker) -> None:
    """Another round of records, in and out of transactions."""
    orders = [f"{topic}:even:3:4:none" for topic in APPENDED]
    run(broker.version, "Messages", broker.bootstrap, "4", *orders)
    run(broker.version, "Workload", broker.bootstrap, "4", "zstd")


#: Aborts, and commits that an abort of the same producer follows.
MARKERS = {"transactions-0": (14, 31, 59, 79), "transfers-0": (17, 22), "transfers-1": (12, 24)}


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("4.3.1", marks=pytest.mark.slow),
        pytest.param("3.9.1", marks=pytest.mark.nightly),
    ],
)
def test_lost_markers_hide_nothing_and_show_nothing(version: str, tmp_path: Path) -> None:
    """A broker that recovers what was salvaged rebuilds the transaction indexes from the log.

    Of one partition nothing but the coordinator's log shows what became of its transactions.
    """
    fixture = f"{version}/killed"
    data = copy_fixture(fixture, tmp_path / "data")
    if version != "3.9.1":  # under whose epochs some were committed and some aborted
        markers_removed(data / "transfers-1")
    for name, offsets_of_markers in MARKERS.items():
        for log in sorted((data / name).glob("*.log")):
            content = bytearray(log.read_bytes())
            for start, end in places(bytes(content)):
                if int.from_bytes(content[start : start + 8], "big") in offsets_of_markers:
                    assert end - start == 78
                    content[end - 1] ^= 1
            log.write_bytes(content)
        (receipt,) = kdump("salvage", data / name, "--output", tmp_path / "out").of("receipt")
        ends = receipt["transaction_ends"]
        assert {end["marker_offset"] for end in ends} == set(offsets_of_markers), name
        assert {end["code"] for end in ends} == {None}
        shutil.rmtree(data / name)
        shutil.move(tmp_path / "out" / name, data / name)
    (data / "recovery-point-offset-checkpoint").unlink()
    intact = consumed(fixture)
    with Broker(version, data, SETTINGS) as broker:
        said = complaints(broker.log_lines(), clean=False)
        assert not [line for line in said if any(name in line for name in MARKERS)]
        for isolation in (READ, COMMITTED):
            found = read_all(broker, tuple(MARKERS), tmp_path / isolation, isolation)
            assert found == {name: records(intact[name, isolation]) for name in MARKERS}


@pytest.mark.nightly
def test_what_holds_committed_readers_is_what_kafka_finds_hanging(tmp_path: Path) -> None:
    """Beside the broker, and once it is stopped, with a coordinator's log and without one."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for log in data.glob("*/*.log"):
        old = time.time() - 86_400
        os.utime(log, (old, old))
    (node,) = re.findall(r"^node\.id=(\d+)", (data / "meta.properties").read_text(), re.M)
    config = tmp_path / "server.properties"
    config.write_text("transaction.max.timeout.ms=900000\n")

    def found(code: str = "transaction-hanging") -> set[tuple[str, int]]:
        """By kdump: the partition, and where the transaction begins."""
        return {
            (name, line["offsets"]["first"])
            for name in MARKERS
            for line in kdump("verify", data / name, "--config", config).of("finding")
            if line["code"] == code
        }

    def listed(broker: Broker) -> set[tuple[str, int]]:
        """The same by Kafka."""
        tool = java_command("4.3.1", "ERROR", *QUICK)
        tool += ["org.apache.kafka.tools.TransactionsCommand"]
        tool += ["--bootstrap-server", broker.bootstrap, "find-hanging", "--broker-id", node]
        out = subprocess.run(tool, capture_output=True, text=True, timeout=120, check=True).stdout
        header, *rows = (line.split() for line in out.splitlines() if line.strip())
        place = [header.index(column) for column in ("Topic", "Partition", "StartOffset")]
        return {(f"{row[place[0]]}-{row[place[1]]}", int(row[place[2]])) for row in rows}

    late = {("transactions-0", 144), ("transfers-1", 57)}
    with Broker("4.3.1", data, SETTINGS) as broker:
        assert listed(broker) == set() == found()
        assert found("transaction-open") == late
    assert (found(), found("transaction-open")) == (set(), late)
    for path in data.glob("__transaction_state-*"):
        shutil.rmtree(path)
    stable = {name: stable_offset(data / name) for name, _ in late}
    with Broker("4.3.1", data, SETTINGS) as broker:
        assert listed(broker) == late == found()
        names = sorted(stable)
        read = read_all(broker, names, tmp_path / READ, READ)
        committed = read_all(broker, names, tmp_path / COMMITTED, COMMITTED)
    assert found() == late
    for name, offset in stable.items():
        assert max(committed[name]) < offset <= max(read[name])
        assert min(at for at in read[name] if at >= offset) not in committed[name]


def stable_offset(partition: Path) -> int:
    """The last stable offset that ``verify`` prints."""
    (offset,) = {
        line["last_stable_offset"]
        for line in kdump("verify", partition).lines
        if line.get("last_stable_offset") is not None
    }
    assert isinstance(offset, int)
    return offset
