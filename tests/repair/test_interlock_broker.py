"""Repairs and real brokers exclude each other in either order."""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.server import ServerError
from support import forge
from support.commands import Ran, kdump, repair
from support.crashing.seam import Around, Call
from support.crashing.trees import Node, differences, take
from support.fixtures_loader import copy_fixture
from support.resealing import places

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
MARKER = ".kafka_cleanshutdown"
#: To be cut, indexed and converted. The others are repaired before a broker runs.
CUT, INDEXED, OLD = "codec-snappy-0", "codec-gzip-0", "codec-zstd-0"
WAS_CUT, WAS_INDEXED, WAS_OLD = "codec-none-0", "codec-lz4-0", "log-append-time-0"
REPAIRS = {CUT: "truncate-to-valid", INDEXED: "reindex", OLD: "convert-v0-v2"}
REPAIRED = {WAS_CUT: "truncate-to-valid", WAS_INDEXED: "reindex", WAS_OLD: "convert-v0-v2"}


def flip(partition: Path) -> None:
    """A bit inside the first log, which a start after a clean stop does not read."""
    log = min(partition.glob("*.log"))
    data = bytearray(log.read_bytes())
    spans = places(bytes(data))
    data[spans[len(spans) // 2][1] - 1] ^= 4
    log.write_bytes(data)


def swap(partition: Path) -> None:
    """The first two entries of the first time index, which no start reads."""
    index = min(partition.glob("*.timeindex"))
    data = index.read_bytes()
    index.write_bytes(data[12:24] + data[:12] + data[24:])


def age(partition: Path) -> None:
    """Messages of magic 1 with the offsets that the first log's batches have, in their place."""
    log = min(partition.glob("*.log"))
    data = log.read_bytes()
    heads = [struct.unpack_from(">q15xi8xq", data, start) for start, _ in places(data)]
    messages = [
        forge.message(base + each, b"value %d" % each, b"key", timestamp=stamp)
        for base, delta, stamp in heads
        for each in range(delta + 1)
    ]
    offsets, times = forge.index_entries(messages, int(log.stem), 300)
    log.write_bytes(b"".join(messages))
    log.with_suffix(".index").write_bytes(forge.offset_index(offsets, int(log.stem)))
    log.with_suffix(".timeindex").write_bytes(forge.time_index(times, int(log.stem)))


@pytest.fixture
def data(version: str, tmp_path: Path) -> Path:
    """A log directory of a broker that stopped cleanly; six partitions ask for repair."""
    directory = copy_fixture(f"{version}/clean", tmp_path / "data")
    for name in (CUT, WAS_CUT):
        flip(directory / name)
    for name in (INDEXED, WAS_INDEXED):
        swap(directory / name)
    for name in (OLD, WAS_OLD):
        age(directory / name)
    return directory


def left(data: Path) -> dict[str, Node]:
    """The content of the partitions that are repaired."""
    names = [*REPAIRS, *REPAIRED]
    return {f"{name}/{path}": node for name in names for path, node in take(data / name).items()}


def reconcile(data: Path) -> dict[str, Node]:
    """The same beside a broker, once it has written down that it leads them."""
    before: dict[str, Node] = {}
    for _ in range(60):
        with suppress(FileNotFoundError):
            now = left(data)
            if now == before:
                return now
            before = now
        time.sleep(0.5)
    raise AssertionError("the broker comes to no rest")


def partitions(data: Path) -> dict[str, Node]:
    """The whole log directory but for the metadata log, which has a lock of its own."""
    return {
        path: node for path, node in take(data).items() if not path.startswith("__cluster_metadata")
    }


def changed(found: dict[str, Node], before: dict[str, Node]) -> list[str]:
    """What is not as it was before."""
    return differences(found, before, ignored=lambda path: False, timed=lambda path: True)


def refused(ran: Ran, *words: str) -> None:
    assert ran.code == 6, ran
    assert all(word in ran.said for word in words), ran.said


@pytest.mark.parametrize("version", [pytest.param("3.9.1", marks=pytest.mark.nightly), "4.3.1"])
def test_refused_beside_a_broker_and_after_one(version: str, data: Path) -> None:
    for name, command in REPAIRED.items():
        assert repair(command, data / name).code == 0
    (agreed,) = kdump("truncate-to-valid", data / CUT).ids
    consent = ("--apply", "--confirm", agreed)
    with Broker(version, data, SETTINGS):
        before = reconcile(data)
        for lock in ("there", "unlinked"):
            if lock == "unlinked":
                (data / ".lock").unlink()
            refused(kdump("truncate-to-valid", data, *consent))
            for name, command in REPAIRS.items():
                refused(kdump(command, data / name, *consent))
            for name in REPAIRED:
                refused(kdump("undo", data / name, "--apply"))
        assert changed(left(data), before) == []
    before = left(data)
    for name in REPAIRED:
        refused(kdump("undo", data / name, "--apply"), ".kdump", "changed since")
    assert changed(left(data), before) == []
    for name, command in REPAIRS.items():
        assert repair(command, data / name).code == 0
    for name in REPAIRS:
        assert kdump("undo", data / name, "--apply").code == 0
    assert changed(left(data), before) == []


def at(moments: Mapping[str, Callable[[Call], bool]], act: Callable[[str], None]) -> Around:
    """Calls ``act`` once at each moment, before the first call that is it."""
    ahead = dict(moments)

    def around(call: Call, make: Callable[..., Any]) -> Any:
        for moment in [name for name, is_it in ahead.items() if is_it(call)]:
            del ahead[moment]
            act(moment)
        return make(*call.arguments)

    return around


def is_folder(call: Call) -> bool:
    return call.method == "make_directory"


def is_cut(call: Call) -> bool:
    return call.method == "truncate" and call.paths[0].endswith(".log")


def is_put(call: Call) -> bool:
    """A log takes the place of another."""
    return call.method == "rename" and call.paths[1].endswith(".log")


@pytest.mark.parametrize(
    ("version", "name", "amid"),
    [
        ("3.9.1", CUT, is_cut),
        ("4.3.1", CUT, is_cut),
        pytest.param("3.9.1", OLD, is_put, marks=pytest.mark.nightly),
        ("4.3.1", OLD, is_put),
    ],
)
def test_a_broker_that_starts_during_a_repair_stops_at_once(
    version: str, name: str, amid: Callable[[Call], bool], data: Path, tmp_path: Path
) -> None:
    marker = (data / MARKER).read_bytes()
    states = tmp_path / "told"
    states.mkdir()

    def start(moment: str) -> None:
        """In the process that repairs, which has the lock."""
        before = partitions(data)
        broker = Broker(version, data, SETTINGS)
        try:
            broker.start()
        except ServerError:
            said = [line for line in broker.log_lines() if "lock" in line]
        there = (data / MARKER).read_bytes().decode() if (data / MARKER).exists() else None
        text = {"said": said, "marker": there, "changed": changed(partitions(data), before)}
        (states / moment).write_text(json.dumps(text))

    moments = {"prepared": is_folder, "amid": amid}
    assert repair(REPAIRS[name], data / name, around=at(moments, start)).code == 0
    found = {moment: json.loads((states / moment).read_text()) for moment in moments}
    for each in found.values():
        assert any("Failed to acquire lock" in line for line in each["said"])
        assert each["changed"] == []
    taken = name == CUT
    there = marker.decode()
    assert [found[moment]["marker"] for moment in moments] == [there, None if taken else there]
    assert (data / MARKER).read_bytes() == (b"" if taken else marker)
    assert kdump(REPAIRS[name], data / name).code == 0


def is_marker(call: Call) -> bool:
    return call.method == "rename" and call.paths[1].endswith(MARKER)


def die(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("version", "name", "moment"),
    [
        ("4.3.1", CUT, is_cut),
        ("4.3.1", OLD, is_put),
        pytest.param("4.3.1", CUT, is_marker, marks=pytest.mark.nightly),
        pytest.param("3.9.1", CUT, is_cut, marks=pytest.mark.nightly),
        pytest.param("3.9.1", CUT, is_marker, marks=pytest.mark.nightly),
        pytest.param("3.9.1", OLD, is_put, marks=pytest.mark.nightly),
    ],
)
def test_a_broker_between_kill_and_rerun(
    version: str, name: str, moment: Callable[[Call], bool], data: Path
) -> None:
    """A broker recovers the partition, and its changes mix with those of kdump."""
    killed = repair(REPAIRS[name], data / name, around=at({"": moment}, die))
    assert killed.code == -signal.SIGKILL
    assert kdump(REPAIRS[name], data / name).code == 5
    with Broker(version, data, SETTINGS):
        pass
    before = left(data)
    (folder,) = (data / name / ".kdump").iterdir()
    for command, consent in ((REPAIRS[name], ("--confirm", folder.name)), ("undo", ())):
        refused(kdump(command, data / name, "--apply", *consent), ".kdump", "changed since")
    assert changed(left(data), before) == []
