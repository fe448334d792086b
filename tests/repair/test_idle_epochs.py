"""Leader epochs of which no batch is left: whatever rebuilds the checkpoint keeps their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.format.checkpoint import EpochEntry, decode_readable_epochs
from kdump.repair.content.companions import merge_epochs
from kdump.ui import exits
from repair import idle_epochs
from repair.idle_epochs import END, FORGOTTEN, MALFORMED, PARTING, WHOLE
from support import forge
from support.commands import kdump, repair

NAME = "leader-epoch-checkpoint"


def partition(top: Path, content: bytes | None) -> Path:
    """The partition with this checkpoint, on a broker that was stopped cleanly."""
    top.mkdir()
    (top / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    (top / ".kafka_cleanshutdown").touch()
    for name in ("recovery-point", "replication"):
        (top / f"{name}-offset-checkpoint").write_text(f"0\n1\nidle 0 {END}\n")
    (top / "server.properties").write_text("log.cleanup.policy=compact\n")
    return idle_epochs.write(top, {NAME: content})


def test_reindex_keeps_the_lines_of_a_malformed_file(tmp_path: Path) -> None:
    path = partition(tmp_path / "data", MALFORMED)
    ran = repair("reindex", path)
    assert ran.code == exits.OK
    assert (path / NAME).read_bytes() == WHOLE
    (plan,) = ran.of("plan")
    assert any("the lines of 1 without a batch from the old file" in each for each in plan["notes"])
    assert kdump("verify", path).code == exits.OK


def test_a_line_at_the_log_end_goes_as_at_a_start(tmp_path: Path) -> None:
    """A leader writes it before its first batch; a start drops it."""
    torn = MALFORMED.replace(b"\n2\n", f"\n2 {END}\n3 {END + 4}\n".encode())
    path = partition(tmp_path / "data", torn)
    assert repair("reindex", path).code == exits.OK
    assert (path / NAME).read_bytes() == WHOLE


def test_heal_takes_the_line_of_a_missing_file_from_a_copy(tmp_path: Path) -> None:
    path = partition(tmp_path / "data", None)
    copy = partition(tmp_path / "copy", WHOLE)
    config = tmp_path / "data" / "server.properties"
    ran = repair("heal", path, "--from", copy, "--config", config)
    assert ran.code == exits.OK, ran
    assert (path / NAME).read_bytes() == WHOLE


def test_heal_takes_no_line_of_another_lineage(tmp_path: Path) -> None:
    """The copy has the records at 5..9 in another epoch."""
    path = partition(tmp_path / "data", None)
    copy = partition(tmp_path / "copy", forge.checkpoint([(0, 0), (1, 5), (2, PARTING)]))
    repair("heal", path, "--from", copy, "--config", tmp_path / "data" / "server.properties")
    assert not (path / NAME).exists() or (path / NAME).read_bytes() == FORGOTTEN


@pytest.mark.parametrize("content", [WHOLE, MALFORMED])
def test_salvage_keeps_the_line(content: bytes, tmp_path: Path) -> None:
    path = partition(tmp_path / "data", content)
    ran = repair("salvage", path, "--output", tmp_path / "new")
    assert ran.code in (exits.OK, exits.PROBLEMS), ran
    assert (tmp_path / "new" / "idle-0" / NAME).read_bytes() == WHOLE


def test_known_lines_contradict_as_in_the_cache_of_a_broker() -> None:
    """A later line drops the earlier ones that it contradicts."""
    known = [EpochEntry(0, 0), EpochEntry(5, 50), EpochEntry(3, 80)]
    assert merge_epochs(known, (), (), 100) == (EpochEntry(0, 0), EpochEntry(3, 80))


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        (MALFORMED, [(0, 0), (1, PARTING)]),
        (b"0\n2\n0 0\nx 4\n7 9\n8 1", [(0, 0), (7, 9)]),
        (b"\xff\n1 2 3\n4 5\r\n", [(4, 5)]),
        (b"", []),
    ],
)
def test_the_lines_that_can_be_read(data: bytes, entries: list[tuple[int, int]]) -> None:
    assert decode_readable_epochs(data) == tuple(EpochEntry(*entry) for entry in entries)
