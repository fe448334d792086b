"""``kdump transactions`` on forged logs: verdicts, what is waited for, and damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support import forge_transactions as txn
from support.fixtures_loader import copy_fixture
from support.forge import TIMESTAMP, batch, flip, marker, record, snapshot, write_partition

META = "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
PLACE = ("orders", 0)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    (path / "meta.properties").write_text(META)
    return path


def sent(offset: int, producer: int, count: int = 2, epoch: int = 0) -> bytes:
    return batch(
        offset, [record()] * count, producer_id=producer, producer_epoch=epoch,
        base_sequence=0, transactional=True,
    )  # fmt: skip


def lines(
    capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0
) -> list[dict[str, Any]]:
    assert main(["transactions", "--format", "json", *map(str, arguments)]) == code
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert found[-1]["exit"] == code
    return found


def verdicts(found: list[dict[str, Any]]) -> dict[int, str]:
    return {line["producer_id"]: line["verdict"] for line in found if line["type"] == "transaction"}


def config(top: Path, partitions: int = 1) -> Path:
    path = top.parent / "server.properties"
    path.write_text(f"log.dirs={top}\ntransaction.state.log.num.partitions={partitions}\n")
    return path


def test_verdicts(top: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Producers 1 to 6, open in the log, of which the coordinator says different things."""
    batches = [sent(2 * number, number) for number in range(1, 7)]
    write_partition(top, *PLACE, {2: batches})
    states = {
        1: txn.state(1, 0, txn.ONGOING, [PLACE]),
        2: txn.state(2, 0, txn.PREPARE_COMMIT, [PLACE]),
        3: txn.state(3, 0, txn.COMPLETE_COMMIT),
        4: txn.state(4, 0, txn.ONGOING, [("other", 0)]),
        5: txn.state(5, 0, txn.PREPARE_ABORT, [("other", 0)]),
    }
    batches = [txn.entry(number, f"id-{number}", value) for number, value in states.items()]
    write_partition(top, "__transaction_state", 0, {1: batches})
    wanted = {1: "late", 2: "marker missing", 3: "hanging", 4: "hanging", 5: "hanging"}
    here = config(top)
    found = lines(capfd, "--config", here, code=4)
    assert verdicts([line for line in found if line.get("topic") == "orders"]) == {
        **wanted,
        6: "hanging",
    }
    # Of what is in no log at hand the coordinator alone speaks.
    assert verdicts([line for line in found if line.get("topic") == "other"]) == {
        4: "late",
        5: "marker missing",
    }
    # With a second partition that is not here, its coordinator may know producer 6.
    assert verdicts(lines(capfd, "--config", config(top, 2), code=4))[6] == "unknown"
    assert set(verdicts(lines(capfd, "--config", here, "--hanging", code=4)).values()) == {
        "hanging"
    }
    assert set(verdicts(lines(capfd, "--config", here, "--transactional-id", "id-[12]"))) == {1, 2}


def test_a_transaction_within_its_timeout_goes_on(
    top: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_partition(top, *PLACE, {0: [sent(0, 1)]})
    txn.transaction_log(top, [txn.state(1, 0, txn.ONGOING, [PLACE])])
    # It began at TIMESTAMP, and may take a minute. The node is not stopped for certain.
    for age_ms, verdict in ((59_000, "ongoing"), (61_000, "late")):
        monkeypatch.setattr("time.time_ns", lambda age_ms=age_ms: (TIMESTAMP + age_ms) * 10**6)
        assert verdicts(lines(capfd, "--config", config(top))) == {1: verdict}


def test_without_the_coordinators_topic_nothing_is_called_hanging(
    top: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_partition(top, *PLACE, {0: [sent(0, 1), batch(2, [record()] * 5)]})
    assert verdicts(lines(capfd, top)) == {1: "unknown"}
    assert main(["transactions", str(top)]) == 0
    text = capfd.readouterr().out
    assert "no partition of __transaction_state is at hand" in text
    assert "kafka-transactions.sh" not in text


def test_what_waits_behind_the_last_stable_offset(
    top: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    segments = {
        0: [sent(0, 1), marker(2, 1, commit=True), sent(3, 2), batch(5, [record()] * 5)],
        10: [sent(10, 3), marker(12, 3, commit=False), sent(13, 4)],
    }
    write_partition(top, *PLACE, segments)
    found = {
        line["producer_id"]: line for line in lines(capfd, top) if line["type"] == "transaction"
    }
    assert {
        producer: (line["first_offset"], line["last_stable_offset"], line["holds_stable_offset"])
        for producer, line in found.items()
    } == {2: (3, 3, True), 4: (13, 3, False)}
    assert found[2]["waiting_records_at_most"] == 12
    behind = sum(map(len, [*segments[0][2:], *segments[10]]))
    assert found[2]["waiting_bytes"] == behind


def test_the_newest_snapshot_counts_as_for_a_broker(
    top: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Producer 7 is in the snapshot alone, 8 in the log before it alone, 9 behind it."""
    entry = (7, 0, 5, 4, 0, TIMESTAMP, -1, 3)
    segments = {0: [sent(0, 8), batch(2, [record()] * 8)], 10: [sent(10, 9)]}
    write_partition(top, *PLACE, segments, files={f"{10:020d}.snapshot": snapshot([entry])})
    assert set(verdicts(lines(capfd, top))) == {7, 9}


def test_a_snapshot_at_the_end_needs_no_log(top: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entry = (7, 0, 5, 4, 0, TIMESTAMP, -1, 3)
    write_partition(
        top, *PLACE, {0: [sent(0, 8), batch(2, [record()] * 8)]},
        files={f"{10:020d}.snapshot": snapshot([entry])},
    )  # fmt: skip
    assert set(verdicts(lines(capfd, top))) == {7}


def test_damage_is_reported(top: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_partition(top, *PLACE, {0: [sent(0, 1), flip(sent(2, 2), 70), batch(4, [record()])]})
    good = [txn.entry(0, "a", txn.state(1, 0, txn.ONGOING, [PLACE]))]
    broken = [batch(1, [record(b"\0\1\7", b"\0\0\0\1b")]), flip(txn.entry(2, "c", None), 70)]
    write_partition(top, "__transaction_state", 0, {0: [*good, *broken]})
    found = lines(capfd, "--config", config(top), code=4)
    assert [line["reason"] for line in found if line["type"] == "fault"] == ["bad-checksum"]
    assert [line["offset"] for line in found if line["type"] == "undecodable"] == [1]
    assert verdicts(found) == {1: "late"}
    (line,) = (line for line in found if line["type"] == "transaction")
    assert line["damaged"] is True
    assert found[-1]["whole"] is False


def test_an_absent_partition_of_the_coordinators_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    shutil.rmtree(data / "__transaction_state-1")
    assert main(["transactions", str(data)]) == exits.INCOMPLETE
    out = capfd.readouterr().out
    assert f"incomplete: {data / '__transaction_state-1'}: " in out
    assert "what it holds is not shown" in out
