"""Commands beside a topic whose older segments are in remote storage only (KIP-405)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import forge
from support.commands import kdump, repair
from support.crashing.running import run
from support.fixtures_loader import ROOT, TIERED, copy_fixture

OFFSETS = json.loads((ROOT / "brokers" / f"{TIERED[0]}.offsets.json").read_text())["tiered"]
#: The first and the last offset that are in remote storage only.
REMOTE = [OFFSETS["start"], OFFSETS["local"] - 1]
SPAN = {"first_offset": REMOTE[0], "last_offset": REMOTE[1]}


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
        assert row["remote"] == [SPAN]
    assert {name: row["outside"] for name, row in rows.items()} == {
        "behind": None,
        "lost": "below start",
        "current": None,
    }
    assert [name for name, row in rows.items() if row["in_remote_storage"]] == ["behind"]
    assert kdump("groups", "--group", "behind", data).code == 0


def test_without_a_line_a_tiered_topic_begins_in_remote_storage(data: Path) -> None:
    without_line(data)
    found = kdump("groups", data)
    assert found.code == 4
    (lost,) = (line for line in found.of("offset") if line["group"] == "lost")
    first = lost["remote"][0]["first_offset"]
    assert first < OFFSETS["start"]  # of a segment whose first offsets were deleted
    assert (lost["log_start_offset"], lost["outside"]) == (first, "below start")


def exported(to: Path, *arguments: str | Path) -> tuple[int, str, dict[str, Any]]:
    """The exit code of an export, what it said on standard output, and its manifest."""
    ran = run(["export", "--format", "jsonl", "--to", str(to), *map(str, arguments)])
    return ran.code, ran.out, json.loads((to / "_manifest.json").read_text())


def test_an_export_names_the_records_that_it_lacks(data: Path, tmp_path: Path) -> None:
    code, said, manifest = exported(tmp_path / "out", data, "--topic", "tiered")
    assert code == 5
    reason = f"offsets {REMOTE[0]}..{REMOTE[1]} are in remote storage, not read"
    assert f"incomplete: {data / 'tiered-0'}: {reason}" in said
    (trouble,) = manifest["troubles"]
    assert (trouble["reason"], trouble["damaged"]) == (reason, False)
    (entry,) = manifest["partitions"]
    assert entry["remote"] == [REMOTE]
    assert (entry["first_offset"], entry["last_offset"]) == (OFFSETS["local"], OFFSETS["end"] - 1)


def test_an_export_of_what_is_here_is_whole(data: Path, tmp_path: Path) -> None:
    local = f"{OFFSETS['local']}.."
    code, _, manifest = exported(tmp_path / "out", data, "--topic", "tiered", "--offsets", local)
    assert (code, manifest["troubles"]) == (0, [])
    code, _, manifest = exported(tmp_path / "copied", data, "--topic", "copied")
    assert (code, manifest["partitions"][0]["remote"]) == (0, [])


def test_an_export_without_a_segment_names_the_records_too(data: Path, tmp_path: Path) -> None:
    for path in (data / "tiered-0").glob(f"*{OFFSETS['local']}.*"):
        path.unlink()
    code, _, manifest = exported(tmp_path / "out", data, "--topic", "tiered")
    assert code == 5
    (entry,) = manifest["partitions"]
    assert (entry["topic"], entry["records"], entry["remote"]) == ("tiered", 0, [REMOTE])


def test_of_several_copies_one_may_have_what_is_remote_for_others(
    data: Path, tmp_path: Path
) -> None:
    other = copy_fixture(TIERED[0], tmp_path / "other")
    (other / "tiered-0" / f"{200:020}.log").touch()
    code, _, manifest = exported(tmp_path / "out", data, other, "--topic", "tiered")
    assert code == 5
    assert {tuple(map(tuple, entry["remote"])) for entry in manifest["partitions"]} == {
        ((REMOTE[0], 199),)
    }


def with_older(to: Path, first: int, end: int) -> Path:
    """A copy whose log begins with a segment of records that are in remote storage too."""
    to = copy_fixture(TIERED[0], to)
    batches = [forge.batch(at, [forge.record()], leader_epoch=2) for at in range(first, end)]
    (to / "tiered-0" / f"{first:020}.log").write_bytes(b"".join(batches))
    return to


def test_copies_with_other_local_starts_are_equal(data: Path, tmp_path: Path) -> None:
    first = OFFSETS["local"] - 20
    other = with_older(tmp_path / "other", first, OFFSETS["local"])
    found = kdump("compare", "--topic", "tiered", data, other)
    assert found.code == 0
    (partition,) = found.of("partition")
    assert (partition["state"], partition["alone"]) == ("equal", [])
    copies = list(found.of("copy"))
    assert [copy["log_start_offset"] for copy in copies] == [OFFSETS["start"]] * 2
    assert [copy["remote"][0]["last_offset"] for copy in copies] == [REMOTE[1], first - 1]
    for leader in found.of("leader"):
        assert all(cut["offset"] is None for cut in leader["truncations"])
    shown = run(["compare", "--topic", "tiered", str(data), str(other)]).out
    assert "remote      1 partition with offsets in remote storage, not read" in shown
    shown = run(["compare", "--all", "--topic", "tiered", str(data), str(other)]).out
    assert f"replica 1: offsets {REMOTE[0]}..{REMOTE[1]} in remote storage, not read" in shown


@pytest.mark.parametrize(("epoch", "lost"), [(2, 0), (3, 10)])
def test_what_a_follower_drops_is_in_remote_storage(
    epoch: int, lost: int, data: Path, tmp_path: Path
) -> None:
    """A follower that ends before the first segment of the leader begins there anew."""
    first = OFFSETS["local"] - 20
    end = first + 10
    follower = with_older(tmp_path / "follower", first, end)
    if epoch == 3:  # another leader wrote its end
        log = [forge.batch(at, [forge.record()], leader_epoch=3) for at in range(first, end)]
        (follower / "tiered-0" / f"{first:020}.log").write_bytes(b"".join(log))
        (follower / "tiered-0" / "leader-epoch-checkpoint").write_text(f"0\n2\n0 60\n3 {first}\n")
    for path in (follower / "tiered-0").glob(f"{OFFSETS['local']:020}.*"):
        path.unlink()
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        text = (follower / name).read_text()
        (follower / name).write_text(text.replace(f"tiered 0 {OFFSETS['end']}", f"tiered 0 {end}"))
    found = kdump("compare", "--topic", "tiered", data, follower)
    (partition,) = found.of("partition")
    (cut,) = next(line["truncations"] for line in found.of("leader") if line["copy"] == 1)
    assert (cut["restart"], cut["offset"], cut["records"]) == (True, OFFSETS["local"], lost)
    alone = [line for line in partition["alone"] if line["copy"] == 2]
    assert sum(line["last_offset"] + 1 - line["first_offset"] for line in alone) == lost


def test_reindex_keeps_the_leader_epochs_of_remote_records(data: Path) -> None:
    """They lie below the first segment on disk, and brokers read them to serve remote records."""
    partition = data / "tiered-0"
    checkpoint = partition / "leader-epoch-checkpoint"
    lines = checkpoint.read_text()
    checkpoint.write_text(lines + "broken\n")
    assert repair("reindex", partition).code == 0
    assert checkpoint.read_text() == lines
