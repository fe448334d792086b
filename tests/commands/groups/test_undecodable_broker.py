"""The advice of records-undecodable, followed to its end on a real broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from kdump.cli.main import main
from support import forge
from support.forge_groups import commit_key
from support.group_tool import asked_offsets, fill, tool

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

SETTINGS = QUICK_RESTART | {"offsets.topic.num.partitions": "1"}


def test_groups_are_given_back_after_a_record_that_no_release_reads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    partition = directory / "__consumer_offsets-0"
    with Broker("4.3.1", directory, SETTINGS) as broker:
        fill(broker)
        wanted = {place: row[0] for place, row in asked_offsets(broker).items()}
        broker.kill()
        log = partition / f"{0:020d}.log"
        end = _end_offset(log, capfd)
        with log.open("ab") as file:
            broken = forge.record(b"\0\3\1", commit_key("broken", "groups", 0))
            file.write(forge.batch(end, [broken]))
        assert main(["verify", "--deep", str(partition)]) == 4
        assert "records-undecodable" in capfd.readouterr().out

        broker.start()
        assert asked_offsets(broker) == {}
        assert any("Deserializing record" in line for line in broker.log_lines())
        broker.stop()

        assert main(["groups", "--format", "csv", str(directory)]) == 4
        csv = tmp_path / "offsets.csv"
        csv.write_text(capfd.readouterr().out)
        shutil.move(partition, tmp_path / "aside")
        broker.start()
        groups = [word for group, _, _ in wanted for word in ("--group", group)]
        tool(broker, "--reset-offsets", "--from-file", str(csv), "--execute", *groups)
        assert {place: row[0] for place, row in asked_offsets(broker).items()} == wanted


def _end_offset(log: Path, capfd: pytest.CaptureFixture[str]) -> int:
    assert main(["dump", str(log)]) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    return int(last.split("lastOffset: ")[1].split()[0]) + 1
