"""Small files that ``reindex`` has written: a broker starts on them as after any clean stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump, repair
from support.fixtures_loader import consumed, copy_fixture
from support.served import COMMITTED, READ, complaints, loaded, read_all, records

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
TORN = b"0\n99\nnonsense\n"
NAMES = (
    "codec-none-0",
    "codec-gzip-0",
    "codec-zstd-0",
    "codec-lz4-0",
    "transactions-0",
    "deleted-records-0",
)


@pytest.mark.parametrize("version", ["4.3.1"])
def test_a_broker_starts_on_rebuilt_small_files(version: str, tmp_path: Path) -> None:
    fixture = f"{version}/clean"
    data = copy_fixture(fixture, tmp_path / "data")
    epochs = (data / "codec-none-0" / "leader-epoch-checkpoint").read_bytes()
    metadata = (data / "codec-gzip-0" / "partition.metadata").read_bytes()
    starts = (data / "log-start-offset-checkpoint").read_bytes()
    (data / "codec-none-0" / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0\n")
    (data / "codec-gzip-0" / "partition.metadata").unlink()
    (data / "codec-zstd-0" / "partition.metadata").write_bytes(b"version: 0\n")
    for name in ("recovery-point", "replication"):
        (data / f"{name}-offset-checkpoint").write_bytes(TORN)
    (data / "log-start-offset-checkpoint").write_bytes(
        # With the second line, if it stayed, the broker would delete a whole log.
        starts + b"codec-lz4 0 999999\nnonsense\n"
    )

    assert kdump("next-start", data).code == 4
    remedies = {
        tuple(finding["remedy"])
        for finding in kdump("verify", data).of("finding")
        if finding["severity"] in ("error", "warning")
    }
    partitions = ("codec-gzip-0", "codec-none-0", "codec-zstd-0")
    assert remedies == {("kdump", "reindex", str(data / name)) for name in partitions} | {
        ("kdump", "reindex", str(data))
    }
    assert repair("reindex", data).code == 0
    assert kdump("next-start", data).code == 0
    assert (data / "codec-none-0" / "leader-epoch-checkpoint").read_bytes() == epochs
    assert (data / "codec-gzip-0" / "partition.metadata").read_bytes() == metadata

    with Broker(version, data, SETTINGS) as broker:
        said = broker.log_lines()
        found = {
            isolation: read_all(broker, NAMES, tmp_path / isolation, isolation)
            for isolation in (READ, COMMITTED)
        }
    assert complaints(said, clean=True) == []
    assert any("Skipping recovery of" in line for line in said)
    for name in NAMES:
        before = consumed(fixture)  # what no transaction wrote is there once
        assert found[READ][name] == records(before[name, READ])
        committed = records(before.get((name, COMMITTED), before[name, READ]))
        # A start aborts a transaction that has hung: consumers then get what waited behind it.
        end = max(committed) + 1
        assert {
            at: record for at, record in found[COMMITTED][name].items() if at < end
        } == committed
    assert loaded(said)["deleted-records-0"].start > 0
    assert not [*data.glob("*-stray")]
