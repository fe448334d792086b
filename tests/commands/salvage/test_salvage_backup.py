"""``kdump salvage`` of a backup: the sound records that a repair cut off can be had again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support import forge
from support.commands import Ran, kdump, repair
from support.crashing.seam import Around
from support.directory_state import state
from support.dumps import dumped
from support.reflinks import cloning

pytestmark = pytest.mark.usefixtures("unsearched")

CUT = 21
"""The offset of the damaged batch, in the second of three segments."""
END = 45


def some(base: int, batches: int, value: str = "value") -> list[bytes]:
    """Batches of three records from ``base`` on."""
    return [
        forge.batch(
            offset, [forge.record(b"%s %d" % (value.encode(), offset + i)) for i in (0, 1, 2)]
        )
        for offset in range(base, base + 3 * batches, 3)
    ]


def damaged(directory: Path) -> Path:
    """A partition of which the third batch of the second segment has a wrong checksum."""
    segments = {base: some(base, 5) for base in (0, 15, 30)}
    segments[15][2] = forge.flip(segments[15][2], -1)
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (directory / "replication-offset-checkpoint").write_text(f"0\n1\norders 7 {END}\n")
    partition = forge.write_partition(directory, "orders", 7, segments)
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return partition


def cut(partition: Path, around: Around | None = None) -> Path:
    """Cut the partition where a broker would; returns the folder of the backup."""
    ran = repair("truncate-to-valid", partition, around=around, searching=False)
    assert ran.code == exits.OK, ran.said
    (folder,) = partition.joinpath(".kdump").iterdir()
    return folder


Salvage = Callable[..., Ran]


@pytest.fixture
def salvage(capsys: pytest.CaptureFixture[str]) -> Salvage:
    """Runs the command in this process, which is measured."""

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        code = main(["salvage", *map(str, arguments), "--format", "json", "--progress", "none"])
        out, err = capsys.readouterr()
        return Ran(code, tuple(map(json.loads, out.splitlines())), err)

    return run


def records(partition: Path) -> list[dict[str, Any]]:
    return list(dumped(partition, "--records"))


@pytest.mark.parametrize("around", [None, cloning], ids=["copied", "cloned"])
@pytest.mark.parametrize("written_since", [False, True])
def test_what_was_cut_off_is_read_from_the_backup(
    around: Around | None, written_since: bool, place: Path, tmp_path: Path, salvage: Salvage
) -> None:
    partition = damaged(place)
    original = [record for record in records(partition) if record["offset"] >= CUT + 3]
    folder = cut(partition, around)
    if written_since:
        with partition.joinpath(f"{15:020d}.log").open("ab") as log:
            log.write(b"".join(some(CUT, 3, "another")))
    before = state(partition)
    ran = salvage(folder, "--output", tmp_path / "out")
    assert ran.code == exits.OK, ran.said
    (receipt,) = ran.of("receipt")
    assert receipt["partition"] == str(folder)
    assert [(h["first_offset"], h["last_offset"]) for h in receipt["holes"]] == [(CUT, CUT + 2)]
    assert receipt["log_end_offset"] == END
    target = tmp_path / "out" / "orders-7"
    found = records(target)
    assert [(record["offset"], record["value"]) for record in found] == [
        (each["offset"], each["value"]) for each in original
    ]
    assert (target / "partition.metadata").read_bytes().endswith(b"AAAAAAAAAAAAAAAAAAAAAQ")
    assert (target / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert kdump("verify", "--fail-on", "error", target, searching=False).code == exits.OK
    assert state(partition) == before


def test_undo_that_is_refused_names_the_way_to_the_records(place: Path) -> None:
    partition = damaged(place)
    folder = cut(partition)
    with partition.joinpath(f"{15:020d}.log").open("ab") as log:
        log.write(b"".join(some(CUT, 3, "another")))
    ran = kdump("undo", partition, "--apply", searching=False)
    assert ran.code == exits.REFUSED
    assert f"Its backup is in {folder}, and kdump salvage reads the logs there" in ran.said


def test_a_backup_without_logs_is_refused(place: Path, tmp_path: Path, salvage: Salvage) -> None:
    partition = damaged(place)
    partition.joinpath(f"{0:020d}.index").unlink(missing_ok=True)
    assert repair("reindex", partition, searching=False).code == exits.OK
    (folder,) = partition.joinpath(".kdump").iterdir()
    ran = salvage(folder, "--output", tmp_path / "out")
    assert ran.code == exits.REFUSED
    assert "found a backup of kdump reindex, which saved no log" in ran.said
    assert not (tmp_path / "out").exists()


def test_a_repair_that_is_not_finished_is_refused(
    place: Path, tmp_path: Path, salvage: Salvage
) -> None:
    folder = cut(damaged(place))
    (folder / "receipt.json").unlink()
    ran = salvage(folder, "--output", tmp_path / "out")
    assert ran.code == exits.REFUSED
    assert "expected the backup of a finished repair, found an unfinished repair" in ran.said
    ran = salvage(folder.with_name("0123abcd"), "--output", tmp_path / "out")
    assert ran.code == exits.REFUSED
    assert "expected the backup of a finished repair, found none" in ran.said


def test_a_partition_and_its_backup_are_two_runs(
    place: Path, tmp_path: Path, salvage: Salvage
) -> None:
    partition = damaged(place)
    folder = cut(partition)
    ran = salvage(folder, partition, "--output", tmp_path / "out")
    assert ran.code == exits.USAGE
    assert "expected one origin for each partition" in ran.said
