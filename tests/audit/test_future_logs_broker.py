"""What real brokers do with future logs at a start, beside the forecast."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from support.commands import Ran, kdump
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.broker

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
UNIQUE = "0123456789abcdef0123456789abcdef"
RELEASES = ("4.3.1", "3.9.1")
#: The older one at night.
BY_COST = ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)]
OTHER_ID = "AAABBBCCCDDDEEEFFFGGGw"


def future(directory: Path, name: str) -> Path:
    return directory / f"{name}.{UNIQUE}-future"


def two_directories(version: str, tmp_path: Path) -> tuple[Path, Path]:
    """A fixture, to which the metadata assigns all replicas, and an empty directory beside it."""
    first = copy_fixture(f"{version}/clean", tmp_path / "a")
    second = tmp_path / "b"
    second.mkdir()
    lines = (first / "meta.properties").read_text().splitlines()
    changed = [f"directory.id={OTHER_ID}" if "directory.id" in line else line for line in lines]
    (second / "meta.properties").write_text("\n".join(changed) + "\n")
    (second / ".kafka_cleanshutdown").touch()
    (first / ".kafka_cleanshutdown").touch()
    return first, second


def shorten(log: Path) -> None:
    """Remove the last segment that holds anything, and what follows it."""
    logs = sorted(path for path in log.glob("*.log"))
    last = [path for path in logs if path.stat().st_size][-1]
    for path in log.iterdir():
        if path.suffix != ".metadata" and path.name[:20] >= last.stem and path.name[0] == "0":
            path.unlink()


@pytest.mark.nightly
@pytest.mark.parametrize("version", RELEASES)
def test_future_logs_end_as_forecast(version: str, tmp_path: Path) -> None:
    first, second = two_directories(version, tmp_path)

    def moved(name: str, *, source: Path, target: Path) -> Path:
        shutil.copytree(source / name, future(target, name))
        return future(target, name)

    moved("codec-gzip-0", source=first, target=second)
    for name in ("codec-none-0", "transactions-0"):  # complete, and shorter than its current log
        shutil.copytree(first / name, second / name)
        (first / name).rename(future(first, name))
    shorten(future(first, "transactions-0"))
    (moved("codec-snappy-0", source=first, target=second) / "partition.metadata").unlink()
    (moved("codec-lz4-0", source=first, target=second) / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {OTHER_ID}"
    )
    (first / "codec-zstd-0").rename(future(first, "codec-zstd-0"))
    (first / "idempotent-0").rename(future(second, "idempotent-0"))
    (first / "groups-0").rename(second / "groups-0")
    shutil.copytree(second / "groups-0", future(second, "groups-0"))
    (first / "log-append-time-0").rename(future(first, "log-append-time-0"))
    (future(first, "log-append-time-0") / "partition.metadata").unlink()

    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={first},{second}\n")
    settings = SETTINGS | {"log.dirs": f"{first},{second}"}
    ran = kdump("verify", "--config", config)
    found = {
        (line["code"], Path(line["path"]).parent.name, Path(line["path"]).name.partition(".")[0])
        for line in ran.of("finding")
        if line["code"].startswith("future-")
    }
    assert found == {
        ("future-replaces", "b", "codec-none-0"),
        ("future-shorter", "b", "transactions-0"),
        ("future-stray", "b", "codec-snappy-0"),
        ("future-stray", "b", "codec-lz4-0"),
        ("future-alone", "b", "idempotent-0"),
        ("future-alone", "a", "log-append-time-0"),
        ("future-unused", "b", "groups-0"),
    }
    (lost,) = [line for line in ran.of("forecast") if line["lost"]["sound"]]
    assert (lost["topic"], lost["lost"]["last_offset"]) == ("transactions", ends(second)[1] - 1)
    with Broker(version, first, settings) as broker:
        for _ in range(240):  # until the cluster assigns groups-0 to the directory of both its logs
            if "future-beside-current" in codes_of(kdump("verify", "--quick", "--config", config)):
                break
            time.sleep(0.25)
        lines = broker.log_lines()

    held = {directory.name: held_by(directory) for directory in (first, second)}
    assert held["a"] >= {"codec-none-0", "transactions-0", "codec-zstd-0", "log-append-time-0"}
    assert held["a"] >= {"log-append-time-0-stray"}
    assert held["b"] >= {"codec-none-0-delete", "transactions-0-delete"}
    assert held["b"] >= {"codec-snappy-0-stray", "codec-lz4-0-stray", "groups-0-future"}
    replaced = [line for line in lines if "Attempting to recover abandoned future log" in line]
    for name in ("codec-none-0", "transactions-0", "codec-zstd-0"):
        assert any(f" for {name} at " in line for line in replaced)
    for name in ("idempotent-0", "log-append-time-0"):
        assert any(f"Created log for partition {name} in {first}" in line for line in lines)
    assert lost["lost"]["first_offset"] == ends(first)[1]

    ran = kdump("next-start", "--config", config)
    starts = next(ran.of("summary"))["next_starts"]
    assert (ran.code, [start["outcome"] for start in starts]) == (4, ["starts", "refuses"])
    said = "\n".join(refused_start(version, first, settings))
    assert "Error while renaming dir for groups-0 in log dir" in said
    (future(second, "groups-0")).rename(tmp_path / "aside")
    assert kdump("next-start", "--config", config).code == 0
    with Broker(version, first, settings):
        pass


@pytest.mark.nightly
@pytest.mark.parametrize("version", RELEASES)
def test_a_future_log_beside_its_current_log_stops_every_start(
    version: str, tmp_path: Path
) -> None:
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    (data / ".kafka_cleanshutdown").touch()
    shutil.copytree(data / "codec-none-0", future(data, "codec-none-0"))
    for _ in range(2):
        assert kdump("next-start", data).code == 4
        said = "\n".join(refused_start(version, data, SETTINGS))
        assert "DirectoryNotEmptyException" in said
    # The other one of the two can go as well.
    (data / "codec-none-0").rename(tmp_path / "aside")
    assert kdump("next-start", data).code == 0
    with Broker(version, data, SETTINGS) as broker:
        lines = broker.log_lines()
    assert any("Successfully recovered abandoned future log for codec-none-0" in x for x in lines)


@pytest.mark.parametrize("version", BY_COST)
def test_what_a_future_log_lacks_goes_as_forecast(version: str, tmp_path: Path) -> None:
    first, second = two_directories(version, tmp_path)
    (first / "codec-lz4-0").rename(second / "codec-lz4-0")
    empty, short = future(first, "codec-lz4-0"), future(first, "codec-zstd-0")
    empty.mkdir()
    shutil.copy(second / "codec-lz4-0" / "partition.metadata", empty)
    (first / "codec-zstd-0").rename(short)
    shorten(short)

    ran = kdump("verify", first, second)
    found = {(line["code"], Path(line["path"]).name) for line in ran.of("finding")}
    assert ran.code == 4
    assert ("future-shorter", "codec-lz4-0") in found
    assert {code for code, _ in found} >= {"recovery-point-beyond-end", "high-watermark-beyond-end"}
    starts = {Path(line["path"]).name: line for line in ran.of("forecast")}
    replaced = starts["codec-lz4-0"]
    assert (replaced["lost"]["first_offset"], replaced["lost"]["last_offset"]) == (0, 109)

    with Broker(version, first, SETTINGS | {"log.dirs": f"{first},{second}"}):
        for _ in range(240):
            if (first / "codec-lz4-0").exists() and (first / "codec-zstd-0").exists():
                break
            time.sleep(0.25)
        (promoted,) = (first / "codec-lz4-0").glob("*.log")
        assert (promoted.name, promoted.stat().st_size) == (f"{0:020}.log", 0)
        assert "codec-lz4-0-delete" in held_by(second)
    (line,) = kdump("next-start", first / "codec-zstd-0").of("forecast")
    assert line["log_end_offset"] == starts[short.name]["log_end_offset"]


@pytest.mark.parametrize("version", BY_COST)
def test_the_first_segments_that_a_future_log_lacks_go_as_forecast(
    version: str, tmp_path: Path
) -> None:
    first, second = two_directories(version, tmp_path)
    name = "codec-none-0"
    shutil.copytree(first / name, second / name)
    (first / name).rename(future(first, name))
    for path in future(first, name).glob(f"{0:020}.*"):
        path.unlink()
    for command in ("next-start", "verify"):
        ran = kdump(command, first, second)
        assert ran.code == 4
        starts = {Path(line["path"]): line["lost"] for line in ran.of("forecast")}
        lost = starts[second / name]
        assert (lost["sound"], lost["first_offset"], lost["last_offset"]) == (60, 0, 59)
    assert "future-starts-later" in codes_of(ran)

    with Broker(version, first, SETTINGS | {"log.dirs": f"{first},{second}"}):
        for _ in range(240):
            if (first / name).exists() and f"{name}-delete" in held_by(second):
                break
            time.sleep(0.25)
        assert f"{name}-delete" in held_by(second)
    (line,) = kdump("next-start", first / name).of("forecast")
    assert (line["log_start_offset"], line["log_end_offset"]) == (60, 122)


def held_by(directory: Path) -> set[str]:
    """Its partitions: their names, and behind a unique id what they are called for."""
    return {re.sub(r"\.[0-9a-f]{32}-", "-", path.name) for path in directory.iterdir()}


def codes_of(ran: Ran) -> set[str]:
    return {line["code"] for line in ran.of("finding")}


def ends(directory: Path) -> tuple[int, int]:
    """The log start and log end offset of transactions-0, or of what it was renamed to."""
    (path,) = directory.glob("transactions-0*")
    (line,) = kdump("next-start", path).of("forecast")
    return line["log_start_offset"], line["log_end_offset"]
