"""What a real broker with remote storage answers, and what commands say of its disk (KIP-405)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.broker import Broker
from brokers.programs import consume, run
from brokers.tiering import tier
from support.commands import kdump

pytestmark = pytest.mark.broker

SETTINGS = {"log.flush.start.offset.checkpoint.interval.ms": "1000"}


def consumed(broker: Broker, to: Path, name: str = "tiered-0") -> list[int]:
    to.mkdir()
    consume(broker.version, broker.bootstrap, "read_uncommitted", [name], to)
    lines = (to / f"{name}.read_uncommitted.jsonl").read_text().splitlines()
    return [json.loads(line)["offset"] for line in lines]


def test_what_a_broker_serves_from_remote_storage(tmp_path: Path) -> None:
    """All of it from the log start on; none of it once a start has found no segment here."""
    data = tmp_path / "data"
    with Broker("4.3.1", data, SETTINGS, remote=tmp_path / "remote") as broker:
        offsets = tier(broker)["tiered"]
        start, local, end = offsets["start"], offsets["local"], offsets["end"]
        assert start < local < end
        assert consumed(broker, tmp_path / "before") == list(range(start, end))
        broker.stop()

        # What is copied may go from here, and is served all the same.
        config = tmp_path / "server.properties"
        config.write_text("node.id=1\n")
        argv = "trim", "--config", config, "--before", "1s", data, "--topic", "copied"
        planned = kdump(*argv)
        (gone,), (summary,) = planned.of("trim"), planned.of("summary")
        assert (gone["first_offset"], gone["in_remote_storage"]) == (0, True)
        assert summary["offsets"] == 0
        agreed = "--apply", "--confirm", summary["id"]
        assert kdump(*argv, *agreed).code == 0
        broker.start()
        answer = json.loads(run("4.3.1", "Tiering", broker.bootstrap, stdin='{"copied": {}}'))
        assert (answer["copied"]["start"], answer["copied"]["local"]) == (
            0,
            gone["last_offset"] + 1,
        )
        every = list(range(answer["copied"]["end"]))
        assert consumed(broker, tmp_path / "copied", "copied-0") == every
        broker.stop()

        remote = {"first": start, "last": local - 1}
        found = kdump("verify", data)
        assert found.code == 0
        (line,) = (
            line
            for line in found.of("finding")
            if line["code"] == "records-in-remote-storage" and "tiered-0" in line["path"]
        )
        assert line["offsets"] == remote
        rows = [line for line in kdump("groups", data).of("offset") if line["topic"] == "tiered"]
        assert {(row["log_start_offset"], row["log_end_offset"]) for row in rows} == {(start, end)}
        for path in (data / "tiered-0").glob(f"{local:020}.*"):
            path.unlink()
        found = kdump("verify", data / "tiered-0")
        assert found.code == 4
        (forecast,) = found.of("forecast")
        assert forecast["log_end_offset"] == start
        lost = forecast["lost"]
        assert (lost["sound"], lost["first_offset"], lost["last_offset"]) == (
            local - start,
            start,
            local - 1,
        )
        broker.start()
        answer = json.loads(run("4.3.1", "Tiering", broker.bootstrap, stdin='{"tiered": {}}'))
        assert (answer["tiered"]["start"], answer["tiered"]["end"]) == (start, start)
        assert consumed(broker, tmp_path / "after") == []
