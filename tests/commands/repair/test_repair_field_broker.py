"""Logs with wrong fields, mended, under real brokers: all records are served as they were written.

Without the repair, an offset beyond the index alone keeps the broker from its start.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.server import ServerError
from commands.repair.repairing import lines, repair
from commands.repair.test_repair_field import wrong
from kdump.ui import exits
from support.commands import kdump
from support.fixtures_loader import consumed, copy_fixture
from support.losses import places
from support.served import COMMITTED, READ, complaints, logs, read_all, records

pytestmark = [pytest.mark.broker]

SETTINGS = {
    "log.cleaner.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    **QUICK_RESTART,
}
#: The field of a batch amid the first log of each partition, and what ``wrong`` makes of it.
WRONG = {
    "codec-none-0": ("base offset", 1 << 9),
    "codec-gzip-0": ("base offset", 0x3F),
    "codec-zstd-0": ("size", 17),
    "idempotent-0": ("size", 1 << 28),
    "transactions-0": ("base offset", 1 << 35),
    "codec-lz4-0": ("leader epoch", 77),
    "log-append-time-0": ("magic", 1),
    "codec-snappy-0": ("magic", 5),
}


def spoil(data: Path) -> None:
    for partition, (field, value) in WRONG.items():
        log = min((data / partition).glob("*.log"))
        found, content = places(log), log.read_bytes()
        batch = found[len(found) // 2]
        changed = wrong(content[batch.position : batch.end], field, value)
        log.write_bytes(content[: batch.position] + changed + content[batch.end :])


@pytest.mark.parametrize(
    ("version", "state"),
    [
        pytest.param("4.3.1", "killed", marks=pytest.mark.slow),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in (("4.3.1", "clean"), ("3.9.1", "killed"), ("3.9.1", "clean"))
        ),
    ],
)
def test_a_broker_serves_what_was_written(version: str, state: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{version}/{state}", tmp_path / "data")
    before = logs(data, WRONG)
    spoil(data)
    cures = lines(repair(data, "--format", "json"), "cure")
    assert {Path(each["partition"]).name: each["cure"] for each in cures} == dict.fromkeys(
        WRONG, "field"
    )
    assert repair(data, "--apply").code == exits.OK
    assert logs(data, WRONG) == before
    (start,) = kdump("next-start", "--scan", data).of("summary")
    assert start["exit"] == exits.OK
    intact = consumed(f"{version}/{state}")
    with Broker(version, data, SETTINGS) as broker:
        said = [line for line in broker.log_lines() if any(map(line.count, WRONG))]
        assert complaints(said, clean=state == "clean") == []
        for isolation in (READ, COMMITTED):
            names = [name for name in WRONG if (name, isolation) in intact]
            found = read_all(broker, names, tmp_path / isolation, isolation)
            assert names
            assert found == {name: records(intact[name, isolation]) for name in names}


@pytest.mark.nightly
def test_without_it_the_broker_does_not_start(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    spoil(data)
    (data / "recovery-point-offset-checkpoint").unlink()
    assert kdump("next-start", "--scan", data).code == exits.PROBLEMS
    with (
        pytest.raises(ServerError, match="Split operation is only permitted"),
        Broker("4.3.1", data, SETTINGS),
    ):
        pass
    cures = lines(repair(data, "--format", "json"), "cure")
    assert "field" in {line["cure"] for line in cures}
