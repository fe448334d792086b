"""The JSON lines of commands with tables, as they were recorded: scripts rely on each byte.

``recorded/`` has for each run the first line of each type, and the SHA-256 of all lines. A field
that is added on purpose is recorded anew: delete the file, and run the test twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from kdump.cli.main import main
from support import forge_transactions as txn
from support.fixtures_loader import ROOT
from support.forge import TIMESTAMP, batch, marker, record, write_partition
from support.forge_groups import assignment, classic, commit, member
from support.forge_metadata import METADATA, segment_name
from support.metadata_history import History

RECORDED = Path(__file__).parent / "recorded"
BROKERS = ROOT / "brokers/4.3.1"
REPLICAS = [f"replicas/{number}" for number in (1, 2, 3)]
#: What changes with the version of kdump, and with the time at which files were checked out.
VARYING = re.compile(r'"version":"[^"]*"|"now_ms":\d+')


def groups(top: Path) -> list[str]:
    """A group with a member, offsets below the start and beyond the end, and metadata."""
    write_partition(top / "data", "orders", 0, {10: [batch(10, [record()] * 5)]})
    members = [member("m", assignment([("orders", [0, 1])]), ["orders"])]
    commits = [
        commit("empty", "orders", 0, 12),
        commit("below", "orders", 0, 3),
        commit("stable", "orders", 0, 99),
        classic("stable", members),
        classic("empty", since_ms=TIMESTAMP),
    ]
    write_partition(top / "data", "__consumer_offsets", 0, {0: [batch(0, commits)]})
    return ["groups", "data"]


def transactions(top: Path) -> list[str]:
    """A hanging transaction, one whose marker is missing, and a complete one."""

    def sent(offset: int, producer: int) -> bytes:
        return batch(
            offset, [record()] * 2, producer_id=producer, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip

    batches = [sent(0, 1), marker(2, 1, commit=True), sent(3, 2), sent(5, 3)]
    write_partition(top / "data", "orders", 0, {0: batches})
    states = [
        txn.entry(0, "id-1", txn.state(1, 0, txn.COMPLETE_COMMIT)),
        txn.entry(1, "id-2", txn.state(2, 0, txn.PREPARE_ABORT, [("orders", 0), ("other", 1)])),
    ]
    write_partition(top / "data", "__transaction_state", 0, {0: states})
    settings = "log.dirs=data\ntransaction.state.log.num.partitions=1\n"
    (top / "server.properties").write_text(settings)
    return ["transactions", "--config", "server.properties"]


def metadata(top: Path) -> list[str]:
    """An image with an entry of each kind."""
    (top / METADATA).mkdir()
    (top / segment_name()).write_bytes(History(5).log(600))
    return ["metadata", METADATA]


def metadata_changes(top: Path) -> list[str]:
    """What half of its records change."""
    return [*metadata(top), "--diff", "300"]


RUNS: dict[str, list[str] | Callable[[Path], list[str]]] = {
    "groups": ["groups", "clean"],
    "groups-forged": groups,
    "transactions": ["transactions", "clean"],
    "transactions-forged": transactions,
    "compare": ["compare", *REPLICAS],
    "metadata": ["metadata", "tiered"],
    "metadata-forged": metadata,
    "metadata-changes": metadata_changes,
    "quorum": ["quorum", "clean", "killed"],
}


@pytest.mark.once
@pytest.mark.parametrize("name", RUNS)
def test_the_lines_are_those_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = RUNS[name]
    arguments = run if isinstance(run, list) else run(tmp_path)
    monkeypatch.chdir(BROKERS if isinstance(run, list) else tmp_path)
    code = main([*arguments, "--format", "json"])
    told = capfd.readouterr()
    assert told.err == ""
    lines = VARYING.sub('"varying":0', told.out).splitlines()
    first = {json.loads(line)["type"]: line for line in reversed(lines)}
    assert json.loads(first["summary"])["exit"] == code
    shown = [line for line in lines if line in first.values()]
    found = "\n".join([*shown, sha256("\n".join(lines).encode()).hexdigest(), ""])
    kept = RECORDED / f"{name}.txt"
    if not kept.exists():
        kept.write_text(found)
        pytest.fail(f"{kept.name} is recorded now")
    assert found == kept.read_text()


def test_the_offsets_for_kafkas_tool_are_those_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = groups(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--format", "csv"]) == 4
    assert capfd.readouterr().out == "below,orders,0,3\nempty,orders,0,12\nstable,orders,0,99\n"
