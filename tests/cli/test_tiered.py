"""Commands beside a topic whose older segments are in remote storage only (KIP-405)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import kdump
from fixtures_loader import ROOT, TIERED, copy_fixture

OFFSETS = json.loads((ROOT / "brokers" / f"{TIERED[0]}.offsets.json").read_text())["tiered"]
#: The first and the last offset that are in remote storage only.
REMOTE = [OFFSETS["start"], OFFSETS["local"] - 1]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture(TIERED[0], tmp_path / "data")


def without_line(data: Path) -> None:
    """Write the checkpoint of log starts without the line of the topic."""
    checkpoint = data / "log-start-offset-checkpoint"
    lines = [line for line in checkpoint.read_text().splitlines() if "tiered" not in line]
    checkpoint.write_text("\n".join(["0", str(len(lines) - 2), *lines[2:]]) + "\n")


def test_groups_know_offsets_in_remote_storage(data: Path) -> None:
    found = kdump("groups", data)
    assert found.code == 4
    rows = {line["group"]: line for line in found.of("offset") if line["topic"] == "tiered"}
    for row in rows.values():
        assert (row["log_start_offset"], row["log_end_offset"]) == (
            OFFSETS["start"],
            OFFSETS["end"],
        )
        assert row["remote_offsets"] == [REMOTE]
    assert {name: row["outside"] for name, row in rows.items()} == {
        "behind": None,
        "lost": "below start",
        "current": None,
    }
    assert [name for name, row in rows.items() if row["in_remote_storage"]] == ["behind"]
    assert kdump("groups", "--group", "behind", data).code == 0


def test_without_a_line_the_log_start_of_a_tiered_topic_is_unknown(data: Path) -> None:
    without_line(data)
    found = kdump("groups", data)
    assert found.code == 0
    (lost,) = (line for line in found.of("offset") if line["group"] == "lost")
    assert (lost["log_start_offset"], lost["outside"]) == (None, None)
