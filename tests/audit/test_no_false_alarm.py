"""States that sound nodes have, in which nothing is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.ui import exits
from support.commands import kdump
from support.crashing.running import run
from support.fixtures_loader import copy_fixture
from support.forge import checkpoint

METADATA = "__cluster_metadata-0"
LOSSES = {"log-directory-emptied", "replica-missing-only", "replica-missing"}
OTHER_ID = "q2Y3hBDoQ1mDkd8pO5sTgA"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def codes(*arguments: str | Path) -> set[str]:
    return {each["code"] for each in kdump(*arguments, searching=False).of("finding")}


def drained(data: Path) -> None:
    """The last partition was deleted: no broker writes these high watermarks again."""
    for path in data.glob("*-[0-9]"):
        shutil.rmtree(path)
    (data / "recovery-point-offset-checkpoint").write_bytes(checkpoint([]))


def zookeeper(data: Path) -> None:
    drained(data)
    (data / "meta.properties").write_text("version=0\nbroker.id=1\n")


@pytest.mark.parametrize("change", [drained, zookeeper])
def test_a_drained_directory_has_lost_nothing(change: Callable[[Path], None], data: Path) -> None:
    change(data)
    for command in (("verify",), ("verify", "--quick"), ("next-start", "--scan")):
        assert "log-directory-emptied" not in codes(*command, data)


def test_a_first_log_that_is_moved_here_is_one(data: Path) -> None:
    """A broker writes lines for future logs too."""
    for path in data.glob("*-[0-9]"):
        if path.name != "codec-none-0":
            shutil.rmtree(path)
    (data / "codec-none-0").rename(data / f"codec-none-0.{'0' * 32}-future")
    assert "log-directory-emptied" not in codes("verify", "--quick", data)
    assert run(["groups", str(data)]).code == exits.OK


def configured(tmp_path: Path, *directories: Path) -> Path:
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={','.join(map(str, directories))}\n")
    return config


def test_a_copy_of_a_part_of_a_node_lacks_nothing(data: Path, tmp_path: Path) -> None:
    """Nor by the configuration of the node that it comes from."""
    for path in data.iterdir():
        if path.name not in ("meta.properties", METADATA, "codec-none-0"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    config = configured(tmp_path, Path("/var/lib/kafka"))
    assert not codes("verify", "--quick", "--config", config, data) & LOSSES


def moved(data: Path, tmp_path: Path) -> Path:
    """``codec-none-0`` is in another log directory of the node."""
    other = tmp_path / "other"
    other.mkdir()
    meta = (data / "meta.properties").read_text()
    text = re.sub(r"directory\.id=\S+", f"directory.id={OTHER_ID}", meta)
    (other / "meta.properties").write_text(text)
    (data / "codec-none-0").rename(other / "codec-none-0")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        rows = [row.split() for row in (data / name).read_text().splitlines()[2:]]
        for place, here in ((data, False), (other, True)):
            kept = [row for row in rows if (row[0] == "codec-none") is here]
            (place / name).write_bytes(checkpoint([tuple(row) for row in kept]))
    return other


def test_a_replica_in_another_directory_of_the_configuration_is_not_missing(
    data: Path, tmp_path: Path
) -> None:
    other = moved(data, tmp_path)
    config = configured(tmp_path, data, other)
    for paths in ((), (data,), (data, other)):
        assert not codes("verify", "--quick", "--config", config, *paths) & LOSSES


def test_an_export_of_a_directory_without_the_metadata_log_is_whole(
    data: Path, tmp_path: Path
) -> None:
    other = moved(data, tmp_path)
    ran = run(["export", "--format", "jsonl", str(other), "--to", str(tmp_path / "out")])
    assert ran.code == exits.OK, ran


def test_a_future_log_that_startup_promotes_is_not_lost(data: Path, tmp_path: Path) -> None:
    (data / "codec-none-0").rename(data / f"codec-none-0.{'0' * 32}-future")
    ran = run(["export", "--format", "jsonl", str(data), "--to", str(tmp_path / "out")])
    assert (ran.code, "damage" in ran.out) == (exits.INCOMPLETE, False)
