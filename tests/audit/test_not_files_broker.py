"""What real brokers make of links, directories and special files in the place of others.

A FIFO has no part: a broker that opens one waits for ever.
"""

from __future__ import annotations

import re
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from audit.not_files import FAILS, NAMES, SHAPES, SOURCE, STATES, plant, truncates
from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.broker

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
WAIT_S = 60


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_brokers_take_what_is_no_file_as_the_table_says(version: str, tmp_path: Path) -> None:
    """A log directory for each state, with a partition that the metadata log does not know.

    A broker renames it to -stray when it is loaded, unless the log directory fails.
    """
    first = copy_fixture(f"{version}/clean", tmp_path / "data")
    text = (first / "meta.properties").read_text()
    logs: dict[tuple[str, str, str], Path] = {}
    for state in STATES:
        for shape in SHAPES:
            for name in NAMES if shape != "fifo" else ():
                other = tmp_path / f"{state} {shape} {name}"
                other.mkdir()
                (other / "meta.properties").write_text(
                    re.sub("directory.id=.*", f"directory.id={directory_id()}", text)
                )
                if state == "clean":
                    (other / ".kafka_cleanshutdown").touch()
                log = other / f"codec-none-{len(logs) + 10}"
                plant(first, log, name, shape)
                logs[name, shape, state] = log
    known = {
        (name, shape, state)
        for (name, shape), states in FAILS.items()
        for state in states
        if shape != "fifo" and (version == "3.9.1" or not truncates(name, state))
    }
    paths = ",".join(map(str, [first, *(log.parent for log in logs.values())]))
    with Broker(version, first, SETTINGS | {"log.dirs": paths}, heap="1500m") as broker:
        deadline = time.monotonic() + WAIT_S
        failed = set(logs)
        while failed != known and time.monotonic() < deadline:
            failed = {key for key, log in logs.items() if log.exists()}
            time.sleep(0.2)
        broker.kill()
    assert failed == known


def directory_id() -> str:
    """A random id that no option looks like."""
    while True:
        found = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_a_log_goes_on_without_a_segment_whose_log_is_a_link_to_nothing(
    version: str, tmp_path: Path
) -> None:
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    log, index = (data / SOURCE / f"{60:020}.{kind}" for kind in ("log", "index"))
    log.rename(tmp_path / "on another file system")
    log.symlink_to("/not mounted/file")
    with Broker(version, data, SETTINGS):
        pass
    assert log.is_symlink()
    assert not index.exists()
    (line,) = kdump("next-start", data / SOURCE).of("forecast")
    assert (line["log_start_offset"], line["log_end_offset"]) == (0, 60)
