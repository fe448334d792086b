"""From a broker's exception about ``partition.metadata`` to a broker that serves all records."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from brokers.programs import consume
from support.commands import kdump, repair
from support.fixtures_loader import consumed, copy_fixture

pytestmark = [pytest.mark.broker, pytest.mark.slow]

FIXTURE = "4.3.1/killed"
NAME = "codec-none-0"


@pytest.mark.parametrize(
    ("content", "message", "code"),
    [
        pytest.param(
            b"",
            "PartitionMetadataReadBuffer.read",
            "partition-metadata-fatal",
            marks=pytest.mark.nightly,
        ),
        (bytes(43), "Malformed line in partition metadata file", "partition-metadata-malformed"),
    ],
    ids=["empty", "zeros"],
)
def test_the_advice_on_the_exception_ends_in_a_broker_with_all_records(
    content: bytes, message: str, code: str, tmp_path: Path
) -> None:
    data = copy_fixture(FIXTURE, tmp_path / "data")
    file = data / NAME / "partition.metadata"
    whole = file.read_bytes()
    file.write_bytes(content)
    lines = refused_start("4.3.1", data, QUICK_RESTART)

    line = next(line for line in lines if message in line)
    (explained,) = kdump("explain", line).of("message")
    assert explained["codes"] == [code]
    assert "kdump reindex --apply" in explained["advice"]
    # The line of a stack trace names no file: the advice names the command that does.
    assert (str(file) in line) != ("kdump next-start" in explained["advice"])
    started = kdump("next-start", data)
    assert started.code == 4
    reasons = [each["path"] for found in started.of("forecast") for each in found["reasons"]]
    assert reasons == [str(file)]

    assert repair("reindex", file.parent).code == 0
    assert file.read_bytes() == whole
    assert kdump("next-start", data).code == 0
    read = tmp_path / "read"
    read.mkdir()
    with Broker("4.3.1", data, QUICK_RESTART) as broker:
        consume("4.3.1", broker.bootstrap, "read_uncommitted", [NAME], read)
    expected = consumed(FIXTURE)[NAME, "read_uncommitted"].read_bytes()
    assert (read / f"{NAME}.read_uncommitted.jsonl").read_bytes() == expected
