"""From a broker's exception about ``partition.metadata`` to a broker that serves all records."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from brokers.programs import consume
from kdump.ui import exits
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


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_a_broker_sets_aside_the_only_replica_with_an_unknown_topic_id(
    version: str, tmp_path: Path
) -> None:
    """It serves an empty one instead; the advice beforehand keeps all records served."""
    data = copy_fixture(f"{version}/killed", tmp_path / "data")
    partition = data / NAME
    file = partition / "partition.metadata"
    whole = file.read_bytes()
    first = whole.index(b"topic_id: ") + 10
    file.write_bytes(
        whole[:first] + (b"A" if whole[first:][:1] != b"A" else b"B") + whole[first + 1 :]
    )
    for command in (["next-start"], ["next-start", "--scan"], ["verify", "--quick"], ["verify"]):
        found = kdump(*command, data)
        (forecast,) = (line for line in found.of("forecast") if line["path"] == str(partition))
        assert (found.code, forecast["set_aside"]) == (exits.PROBLEMS, "partition-stray-only")

    healed = copy_fixture(f"{version}/killed", tmp_path / "healed")
    (healed / NAME / file.name).write_bytes(file.read_bytes())
    assert repair("reindex", healed / NAME).code == exits.OK
    assert (healed / NAME / file.name).read_bytes() == whole
    read = tmp_path / "read"
    read.mkdir()
    with Broker(version, healed, QUICK_RESTART) as broker:
        consume(version, broker.bootstrap, "read_uncommitted", [NAME], read)
    expected = consumed(f"{version}/killed")[NAME, "read_uncommitted"].read_bytes()
    assert (read / f"{NAME}.read_uncommitted.jsonl").read_bytes() == expected
    moved = copy_fixture(f"{version}/killed", tmp_path / "moved")
    (moved / NAME).rename(tmp_path / "of the old topic")
    assert {line["code"] for line in kdump("verify", moved).of("finding")} >= {
        "replica-missing-only"
    }
    with Broker(version, moved, QUICK_RESTART):
        assert (moved / NAME / file.name).read_bytes() == whole
    assert not [*moved.glob("*-stray")]

    records = sum(log.stat().st_size for log in partition.glob("*.log"))
    with Broker(version, data, QUICK_RESTART) as broker:
        lines = broker.log_lines()
    assert any("Found stray log dir" in line and NAME in line for line in lines)
    (stray,) = data.glob(f"{NAME}.*-stray")
    assert sum(log.stat().st_size for log in stray.glob("*.log")) == records
    assert sum(log.stat().st_size for log in partition.glob("*.log")) == 0
