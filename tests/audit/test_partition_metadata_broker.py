"""From a broker's exception about ``partition.metadata`` to a broker that serves all records."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from brokers.broker import QUICK_RESTART, Broker, refused_start
from brokers.programs import consume
from commands import kdump, repair
from fixtures_loader import consumed, copy_fixture

pytestmark = [pytest.mark.broker, pytest.mark.slow]

FIXTURE = "4.3.1/killed"
#: Contents that a power loss leaves, what a broker logs about each, and what is wrong.
DAMAGE = {
    "codec-none-0": (b"", "PartitionMetadataReadBuffer.read", "partition-metadata-fatal"),
    "codec-zstd-0": (bytes(43), "Malformed line in partition", "partition-metadata-malformed"),
}


def test_the_advice_on_the_exception_ends_in_a_broker_with_all_records(tmp_path: Path) -> None:
    data = copy_fixture(FIXTURE, tmp_path / "data")
    whole = {name: (data / name / "partition.metadata").read_bytes() for name in DAMAGE}
    for name, (content, _, _) in DAMAGE.items():
        (data / name / "partition.metadata").write_bytes(content)
    lines = refused_start("4.3.1", data, QUICK_RESTART)

    for name, (_, message, code) in DAMAGE.items():
        line = next(line for line in lines if message in line)
        (explained,) = kdump("explain", line).of("message")
        assert explained["codes"] == [code]
        assert "kdump reindex --apply" in explained["advice"]
        # A stack trace names no file: the advice names the command that does.
        if str(data) not in line:
            assert "kdump next-start" in explained["advice"]
        started = kdump("next-start", data)
        assert started.code == 4
        reasons = [each["path"] for line in started.of("forecast") for each in line["reasons"]]
        assert str(data / name / "partition.metadata") in reasons
        verified = kdump("verify", "--quick", data)
        (remedy,) = (each["remedy"] for each in verified.of("finding") if each["code"] == code)
        assert remedy[:2] == ["kdump", "reindex"]
        assert repair(*shlex.split(shlex.join(remedy[1:]))).code == 0
        assert (data / name / "partition.metadata").read_bytes() == whole[name]

    assert kdump("next-start", data).code == 0
    with Broker("4.3.1", data, QUICK_RESTART) as broker:
        consume("4.3.1", broker.bootstrap, "read_uncommitted", DAMAGE, tmp_path / "read")
    for name in DAMAGE:
        expected = consumed(FIXTURE)[name, "read_uncommitted"].read_bytes()
        assert (tmp_path / "read" / f"{name}.read_uncommitted.jsonl").read_bytes() == expected
