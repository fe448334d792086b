"""The free space of a log directory's file system, and what startup needs of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.server import ServerError
from kdump.audit.facts.small_files import DirectoryFacts, read_directory
from kdump.audit.facts.space import Space
from kdump.audit.startup.room import Room, space_findings
from kdump.cli.main import main
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path
from support.commands import Ran, kdump
from support.crashing.places import mounted
from support.fixtures_loader import ROOT, copy_fixture
from support.long_samples import first_of
from support.recipes_directory import meta_properties

RUNS = pytest.mark.parametrize(
    "run",
    first_of(
        [("next-start",), ("verify",), ("next-start", "--scan"), ("verify", "--quick")],
        count=2,
        every=1,
    ),
    ids=" ".join,
)
BLOCK = 4096
STOPPED = Liveness(BrokerState.STOPPED, "a test says so")


def give(monkeypatch: pytest.MonkeyPatch, free_bytes: int, free_files: int | None) -> None:
    """Let all file systems have this free space; without ``free_files`` they make inodes."""
    files = (0, 0, 0) if free_files is None else (1 << 20, free_files, free_files)
    status = [BLOCK, BLOCK, 1 << 18, free_bytes // BLOCK, free_bytes // BLOCK, *files, 0, 255]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(status))


def codes(ran: Ran) -> list[str]:
    """The codes of what is no note."""
    return [line["code"] for line in ran.of("finding") if line["severity"] != "info"]


def start(ran: Ran) -> dict[str, object]:
    """The forecast of the only log directory."""
    (summary,) = ran.of("summary")
    (found,) = summary["next_starts"]
    assert isinstance(found, dict)
    return found


@RUNS
@pytest.mark.parametrize(
    ("free_bytes", "free_files"), [(0, 1000), (1 << 30, 0)], ids=["space", "inodes"]
)
def test_a_killed_broker_does_not_start_on_a_full_disk(
    run: tuple[str, ...],
    free_bytes: int,
    free_files: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    assert kdump(*run, data).code == 0
    give(monkeypatch, free_bytes, free_files)
    ran = kdump(*run, data)
    found = start(ran)
    assert (ran.code, found["outcome"]) == (4, "refuses")
    assert found["file_system"] == {
        "total_bytes": BLOCK << 18,
        "free_bytes": free_bytes,
        "free_inodes": free_files,
    }
    if run[0] == "verify":
        assert codes(ran) == ["disk-full"]


@pytest.mark.parametrize(
    ("run", "free_bytes"),
    [
        (("next-start",), 0),
        (("next-start", "--scan"), 1 << 20),
        (("verify", "--quick"), 0),
        (("verify",), 0),
    ],
)
def test_the_report_names_the_command_that_shows_what_takes_the_space(
    run: tuple[str, ...],
    free_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = ROOT / "brokers/4.3.1/killed"
    give(monkeypatch, free_bytes, None)
    main([*run, str(data)])
    assert f"              kdump space {data}" in capsys.readouterr().out.splitlines()
    give(monkeypatch, 1 << 30, None)
    main([*run, str(data)])
    assert "kdump space" not in capsys.readouterr().out


@RUNS
def test_little_space_is_a_warning(
    run: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    give(monkeypatch, 1 << 20, None)
    ran = kdump(*run, data)
    assert (ran.code, codes(ran), start(ran)["outcome"]) == (0, ["disk-low"], "starts")
    give(monkeypatch, 1 << 30, None)
    assert codes(kdump(*run, data)) == []


def test_what_a_clean_startup_deletes_first_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots that the next startup deletes leave room for the small files that it writes."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    give(monkeypatch, 0, 0)
    ran = kdump("verify", data)
    assert (codes(ran), start(ran)["outcome"]) == (["disk-low"], "starts")
    for path in data.glob("*/*.snapshot"):
        path.unlink()
    (data / ".kafka_cleanshutdown").unlink()
    ran = kdump("verify", data)
    assert (codes(ran)[0], start(ran)["outcome"]) == ("disk-full", "refuses")


@RUNS
@pytest.mark.parametrize(
    ("free_bytes", "free_files"), [(100 << 10, 1000), (1 << 30, 6)], ids=["space", "inodes"]
)
def test_what_recovery_cannot_write_costs_a_segment(
    run: tuple[str, ...],
    free_bytes: int,
    free_files: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The least that a startup writes fits, and perhaps not all that it has at the same time."""
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    give(monkeypatch, free_bytes, free_files)
    ran = kdump(*run, data)
    assert (ran.code, codes(ran), start(ran)["outcome"]) == (4, ["disk-short"], "starts")
    assert main([*run, str(data)]) == 4
    first = " ".join(capfd.readouterr().out.split())
    assert first.startswith(
        "DO NOT START If the broker starts now, it may empty segments that it recovers, where a "
        "write finds no space. "
    )


def test_a_clean_start_recovers_no_segment_that_it_could_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    give(monkeypatch, 140 << 10, 6)
    ran = kdump("verify", data)
    assert (ran.code, codes(ran), start(ran)["outcome"]) == (0, ["disk-low"], "starts")


def test_missing_indexes_need_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each needs a page for its entries, and an inode; the whole need is counted."""
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    before = start(kdump("next-start", "--scan", data))
    removed = [*data.glob("codec-*/*.timeindex")]
    for path in removed:
        path.unlink()
    after = start(kdump("next-start", "--scan", data))
    files = [int(str(each["writes_files"])) for each in (before, after)]
    assert files[1] - files[0] == 5  # of the recovered segments, one of each log
    assert int(str(after["writes_bytes"])) > int(str(before["writes_bytes"]))


def test_directories_of_a_node_share_a_file_system(tmp_path: Path) -> None:
    """Two that each fit do not fit together; another node, or another disk, does not count."""
    need, free = Room(10 * BLOCK, 10), 15 * BLOCK
    space = Space(device=1, total_bytes=1 << 30, free_bytes=free, free_files=None)
    facts = []
    for name, node in (("a", 1), ("b", 1), ("c", 2)):
        path = copy_fixture("4.3.1/clean", tmp_path / name)
        directory = f"ZGlyZWN0b3J5LTEyMzQ1{name}g"
        (path / "meta.properties").write_bytes(meta_properties(node=node, directory=directory))
        (path / ".kafka_cleanshutdown").unlink()
        content = open_path(path)
        assert isinstance(content, LogDirectory)
        facts.append(replace(read_directory(content, STOPPED), space=space))

    def found(*directories: DirectoryFacts) -> list[str]:
        return [each.code.name for each in space_findings((one, need) for one in directories)]

    first, second, other = facts
    assert found(first) == ["disk-low"]
    assert found(first, second) == ["disk-full", "disk-full"]
    assert found(first, other) == ["disk-low", "disk-low"]
    elsewhere = replace(second, space=replace(space, device=2))
    assert found(first, elsewhere) == ["disk-low", "disk-low"]


def test_the_report_shows_the_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    give(monkeypatch, 0, 7)
    for command in ("verify", "next-start"):
        assert main([command, str(data)]) == 4
        printed = capfd.readouterr().out
        assert "\ndisk        0 bytes of 1.00 GiB free, 7 inodes free\n" in printed
        assert printed.startswith("DO NOT START  ")


def test_a_quorum_needs_space_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    assert kdump("quorum", data).code == 0
    give(monkeypatch, 0, 1000)
    ran = kdump("quorum", data)
    assert ran.code == 4
    assert "disk-full" in str(ran.lines)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 file system without a reserve for root."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-b", str(BLOCK), image], check=True)
    with mounted(tmp_path / "small", "-o", "loop", str(image)) as directory:
        yield directory


def fill(file_system: Path) -> Path:
    """Take all free space of ``file_system`` with one file, which is returned."""
    filler = file_system / "filler"
    os.sync()  # what is not written yet has more reserved than it will take
    with filler.open("wb") as file:
        size, step = 0, 1 << 20
        while step >= BLOCK:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError:
                step //= 2
        os.fsync(file.fileno())
    assert os.statvfs(file_system).f_bavail <= 2
    return filler


@pytest.mark.root
@pytest.mark.broker
@pytest.mark.slow
def test_a_real_broker_on_a_full_disk(small_disk: Path) -> None:
    """The broker fails as forecast, and starts once the advice is followed."""
    data = copy_fixture("4.3.1/killed", small_disk / "data")
    filler = fill(small_disk)
    for run in (("next-start",), ("next-start", "--scan"), ("verify", "--quick"), ("verify",)):
        ran = kdump(*run, data)
        assert (ran.code, start(ran)["outcome"]) == (4, "refuses"), run
    settings = {"log.cleaner.enable": "false", **QUICK_RESTART}
    with pytest.raises(ServerError) as failed, Broker("4.3.1", data, settings):
        pass
    assert "No space left on device" in str(failed.value)
    filler.unlink()
    assert kdump("next-start", "--scan", data).code == 0
    with Broker("4.3.1", data, settings):
        pass


@pytest.mark.root
@pytest.mark.broker
@pytest.mark.nightly
def test_a_real_broker_empties_segments_on_a_disk_without_inodes(small_disk: Path) -> None:
    """It starts, and records are gone that were valid. With enough inodes none goes."""
    whole = copy_fixture("4.3.1/killed", small_disk / "whole")
    data = copy_fixture("4.3.1/killed", small_disk / "data")
    fillers = list[Path]()
    while os.statvfs(small_disk).f_favail > 3:  # as many as the metadata log takes
        fillers.append(small_disk / str(len(fillers)))
        fillers[-1].touch()
    ran = kdump("next-start", "--scan", data)
    assert (ran.code, codes(ran), start(ran)["outcome"]) == (4, ["disk-short"], "starts")
    assert emptied(data, whole)
    for path in fillers:
        path.unlink()
    assert kdump("next-start", "--scan", whole).code == 0
    assert not emptied(whole, data)


def emptied(data: Path, other: Path) -> list[str]:
    """Start a broker there, and return the logs that it leaves empty and that ``other`` has."""
    settings = {"log.cleaner.enable": "false", **QUICK_RESTART}
    broker = Broker("4.3.1", data, settings)
    try:
        with suppress(ServerError):  # it has recovered the logs before
            broker.start()
        lines = broker.log_lines()
    finally:
        broker._abandon()
    sizes = {path.relative_to(data): path.stat().st_size for path in data.rglob("*.log")}
    said = "Found invalid offset during recovery. Deleting the corrupt segment"
    lost = [str(path) for path, size in sizes.items() if not size and (other / path).stat().st_size]
    assert bool(lost) == any(said in line for line in lines)
    return lost
