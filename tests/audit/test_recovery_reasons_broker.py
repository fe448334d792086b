"""Which segments a start recovers, and why, held against what brokers log while they start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support import forge
from support.commands import kdump
from support.fixtures_loader import copy_fixture

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
MISSING = re.compile(
    r"Could not find offset index file corresponding to log file (\S+), recovering"
)
CORRUPT = re.compile(r"Found a corrupted index file corresponding to log file (\S+) due to")
UNFLUSHED = re.compile(r"Recovering unflushed segment (\d+)\. .* recovered for (\S+)\.(?:\s|$)")


def logged(lines: list[str]) -> dict[tuple[str, int], str]:
    """The reason of each recovery that a broker logs, by directory and base offset; the first."""
    found: dict[tuple[str, int], str] = {}
    for line in lines:
        for pattern, reason in (
            (MISSING, "index-missing"),
            (CORRUPT, "transaction-index-corrupt"),
        ):
            if match := pattern.search(line):
                log = Path(match[1])
                found.setdefault((log.parent.name, int(log.stem)), reason)
        if match := UNFLUSHED.search(line):
            usual = "metadata-log" if match[2].startswith("__cluster") else "past-recovery-point"
            found.setdefault((match[2], int(match[1])), usual)
    return found


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_a_broker_recovers_what_is_forecast(version: str, tmp_path: Path) -> None:
    data = copy_fixture(f"{version}/killed", tmp_path / "data")
    (data / "codec-none-0" / "00000000000000000000.index").unlink()
    corrupt = data / "transactions-0" / "00000000000000000051.txnindex"
    corrupt.write_bytes(forge.txn_index([(7, 0, 9, 0)]))

    expected = {
        (f"{line['topic']}-{line['partition']}", each["segment"]): each["reason"]
        for line in kdump("next-start", "--scan", data).of("forecast")
        for each in line["recovery"]
    }
    assert expected["codec-none-0", 0] == "index-missing"
    assert expected["transactions-0", 51] == "transaction-index-corrupt"
    with Broker(version, data, SETTINGS) as broker:
        assert logged(broker.log_lines()) == expected
