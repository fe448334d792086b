"""The steps of kdump-incident(7), followed to their end: the broker serves what is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from support.documents import TEXTS
from support.fixtures_loader import consumed
from support.served import READ, read_all, records
from support.shown import printed

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

NAME = "codec-zstd-0"
SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
PREFACE, *SECTIONS = re.split(r"^## ", TEXTS["kdump-incident"], flags=re.MULTILINE)
#: The sections that end with the start of the broker; the offsets of ``NAME`` lost by then.
STARTS = {
    "Before a broker starts": range(0),
    "The broker does not start": range(0),
    "The cluster id differs": range(0),
    "Recovery takes hours": range(0),
    "A batch is corrupt": range(7, 12),
    "Indexes are missing or wrong": range(0),
    "The log start is after the log end": range(0),
    "A transaction holds consumers": range(0),
    "The disk is full": range(0),
    "A repair was interrupted": range(0),
}


def test_sections_that_say_so_end_with_a_start() -> None:
    # "Start the brokers" is an output of explain there, which tests of groups follow.
    said = {
        text.partition("\n")[0] for text in SECTIONS if re.search(r"[Ss]tart the broker\b", text)
    }
    elsewhere = {"The log directory is on NFS", "The broker runs on Windows"}  # no data to read
    assert said <= {*STARTS, *elsewhere, "Rules for every incident"}


@pytest.mark.parametrize("title", STARTS)
def test_the_broker_starts_once_the_steps_are_followed(title: str, tmp_path: Path) -> None:
    (section,) = (text for text in SECTIONS if text.partition("\n")[0] == title)
    for _ in printed(f"{PREFACE}## {section}", tmp_path):
        pass
    made = re.search(r"fixtures/brokers/(4\.3\.1/\w+) data", section)
    assert made is not None
    before = records(consumed(made[1])[NAME, READ])
    with Broker("4.3.1", tmp_path / "data", SETTINGS) as broker:
        found = read_all(broker, (NAME,), tmp_path / "read")[NAME]
        log = broker.log_lines()
    recovering = any("Recovering unflushed segment" in line for line in log)
    assert recovering or title != "Recovery takes hours"  # the line that it begins with
    assert before.keys() >= set(STARTS[title])
    assert found == {at: record for at, record in before.items() if at not in STARTS[title]}
    assert not [*(tmp_path / "data").glob("*-stray")]
