"""The advice of ``kdump quorum`` for lost disks, followed to its end on real controllers."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from brokers.broker import format_directory
from brokers.controllers import NODES, Controllers
from support import quorum_disks as disks
from support.commands import kdump

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

VERSION = "4.3.1"


def replace_disk(controllers: Controllers, voter: dict[str, Any]) -> Path:
    """Format a new disk for a voter of ``replacement``, as the steps say; returns it."""
    node, identity = voter["node_id"], voter["directory_id"]
    directory = controllers.directory(node)
    options = [] if identity is None else ["--no-initial-controllers"]
    format_directory(VERSION, directory, controllers.config(node), *options)
    if identity is not None:
        meta = directory / "meta.properties"
        text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={identity}", meta.read_text())
        meta.write_text(text)
    return directory


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_steps_for_two_lost_disks_of_three(dynamic: bool, tmp_path: Path) -> None:
    with Controllers(VERSION, tmp_path / "data", dynamic=dynamic) as controllers:
        controllers.format()
        assert controllers.start() == {}
        assert controllers.wait()
        controllers.alter_configs({"num.io.threads": "2"})
        time.sleep(1)  # until all have fetched
        leader = controllers.elected()[-1].node
        controllers.kill()
        base = tmp_path / "base"
        shutil.copytree(tmp_path / "data", base)

        for survivor in (next(node for node in NODES if node != leader), leader):
            end = follow(controllers, base, survivor, leader)
        # What a broker has beyond the survivor comes back with its log.
        controllers.replace(base)
        broker = tmp_path / "broker"
        shutil.copytree(base / str(leader), broker)
        meta = broker / "meta.properties"
        meta.write_text(meta.read_text().replace(f"node.id={leader}", "node.id=4"))
        survivor = next(node for node in NODES if node != leader)
        disks.cut_batches(5)(controllers.directory(survivor))
        for node in {*NODES} - {survivor}:
            shutil.rmtree(controllers.directory(node))
        answer = replacement(controllers.directory(survivor), broker)
        (source,) = answer["sources"]
        assert source["first_offset"] == answer["lacks_from_offset"] < source["end_offset"]
        (voter,) = answer["first"]
        new = replace_disk(controllers, voter)
        shutil.rmtree(new / disks.METADATA, ignore_errors=True)
        shutil.copytree(broker / disks.METADATA, new / disks.METADATA)
        disks.remove_quorum_state(new)
        elected = start(controllers, controllers.directory(survivor), new)
        assert elected == (voter["node_id"], source["end_offset"])
        assert end >= source["first_offset"]


def follow(controllers: Controllers, base: Path, survivor: int, leader: int) -> int:
    """Lose all disks but that of ``survivor``, and do what is said; the end of its log."""
    controllers.replace(base)
    for node in {*NODES} - {survivor}:
        shutil.rmtree(controllers.directory(node))
    size = disks.last_log(controllers.directory(survivor)).stat().st_size
    answer = replacement(controllers.directory(survivor))
    assert answer["last_leader"] == leader
    (first,), (later,) = answer["first"], answer["later"]
    assert first["node_id"] != leader
    new = replace_disk(controllers, first)
    elected = start(controllers, controllers.directory(survivor), new, kill=False)
    assert elected == (survivor, answer["lacks_from_offset"])
    # The other disk, which is that of the last leader in one of the two cases.
    replace_disk(controllers, later)
    assert controllers.start([later["node_id"]]) == {}
    wait_for_size(controllers.directory(later["node_id"]), size)
    assert not any(map(controllers.stopped_for, NODES))
    controllers.kill()
    ran = kdump("quorum", *(controllers.directory(node) for node in NODES), searching=False)
    assert not [each for each in ran.of("problem") if not each["note"]]
    return int(answer["lacks_from_offset"])


def wait_for_size(directory: Path, size: int) -> None:
    """Wait until the metadata log in a directory has this size: its node has fetched it."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        logs = list((directory / disks.METADATA).glob("*.log"))
        if logs and max(logs).stat().st_size >= size:
            return
        time.sleep(0.2)


def replacement(*paths: Path) -> dict[str, Any]:
    ran = kdump("quorum", *paths, searching=False)
    (summary,) = ran.of("summary")
    assert ran.code == 4
    found: dict[str, Any] = summary["replacement"]
    return found


def start(
    controllers: Controllers, survivor: Path, new: Path, *, kill: bool = True
) -> tuple[int, int]:
    """Ask again, and start the nodes in the order that is said; the leader, and where it began."""
    ran = kdump("quorum", survivor, new, searching=False)
    (summary,) = ran.of("summary")
    assert summary["replacement"] is None
    assert len(summary["can_lead"]) == 1
    assert {*summary["start_first"]} == {int(survivor.name), int(new.name)}
    for node in summary["start_first"]:
        assert controllers.start([node]) == {}
    (elected, *_) = controllers.wait(180)
    if kill:
        controllers.kill()
    return elected.node, elected.start_offset
