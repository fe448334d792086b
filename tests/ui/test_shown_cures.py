"""What JSON lines show of the cures of partitions, and of the plan of a log directory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from commands.repair import damaged_directory as damaged
from kdump.format.lines.shell import shell_text
from kdump.ui import exits
from support.commands import Ran, kdump
from support.crashing.running import run

pytestmark = pytest.mark.once

REBUILD = {"cure": "rebuild", "option": None}
TAIL = {"cure": "tail", "option": None}
REPLICA = {"cure": "replica", "option": "--from REPLICA"}
REFETCH = {"cure": "refetch", "option": "--refetch"}
DROP = {"cure": "drop", "option": "--only-copy"}
AS_BROKER = {"cure": "as-broker", "option": "--as-broker"}
#: Of each partition of the damaged directory, as ``repair`` plans them.
CURES = {
    "index-0": [REBUILD],
    "torn-0": [TAIL],
    "both-0": [TAIL],
    "middle-0": [REPLICA, REFETCH, DROP, AS_BROKER],
    "end-0": [REPLICA, TAIL],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return damaged.write(tmp_path)[0]


def forecasts(ran: Ran) -> dict[str, dict[str, Any]]:
    """The lines of partitions that have cures, or are left to a person."""
    return {Path(line["path"]).name: line for line in ran.of("forecast") if "cures" in line}


def words(command: str, tmp_path: Path) -> list[str]:
    options = {"scrub": ["--state", str(tmp_path / "state")], "next-start": ["--scan"]}
    return [command, *options.get(command, [])]


@pytest.mark.parametrize("command", ["verify", "scrub", "next-start"])
def test_each_partition_has_the_cures_that_repair_has(
    command: str, data: Path, tmp_path: Path
) -> None:
    found = forecasts(kdump(*words(command, tmp_path), data))
    # Where a log has no index, the quick pass takes recovery for granted.
    cures = CURES if command == "verify" else {n: c for n, c in CURES.items() if n != "index-0"}
    assert {name: line["cures"] for name, line in found.items()} == cures
    left = {name: line["left"] for name, line in found.items() if line["left"] is not None}
    assert left == {
        "middle-0": {
            "reason": "valid batches follow corrupt ones",
            "remedy": ["kdump", "salvage", str(data / "middle-0"), "--output", "DIR"],
        }
    }


def test_repair_plans_the_first_cure_that_needs_no_option(data: Path) -> None:
    planned = {
        Path(line["partition"]).name: line["cure"] for line in kdump("repair", data).of("cure")
    }
    free = {
        name: next(each["cure"] for each in line["cures"] if each["option"] is None)
        for name, line in forecasts(kdump("verify", data)).items()
        if line["left"] is None
    }
    assert planned == free


def in_words(steps: Sequence[dict[str, Any]]) -> str:
    """The steps as the text has them, but for its line breaks."""
    number, parts = count(1), []
    for step in steps:
        place = "" if step["fact"] else f"{next(number)} "
        parts += [place + step["text"], *map(shell_text, step["commands"])]
    return " ".join(" ".join(parts).split())


@pytest.mark.parametrize("command", ["verify", "scrub"])
def test_the_plan_has_a_line_a_step(command: str, data: Path, tmp_path: Path) -> None:
    ran = kdump(*words(command, tmp_path), data)
    steps = list(ran.of("step"))
    text = run([*words(command, tmp_path), str(data)]).out
    assert f" plan {in_words(steps)}" in " ".join(text.split())
    assert {step["path"] for step in steps} == {str(data)}
    *rest, check = steps
    assert (check["partitions"], check["commands"]) == (0, [["kdump", "verify", str(data)]])
    assert all(step["partitions"] for step in rest)
    assert not any(step["fact"] for step in steps)
    assert ran.lines[-1]["type"] == "summary"
    assert list(ran.lines[-1 - len(steps) : -1]) == steps


def test_a_step_counts_the_partitions_that_it_is_about(tmp_path: Path) -> None:
    data = damaged.write_many(tmp_path / "data", 30)
    steps = list(kdump("verify", data).of("step"))
    (one,) = (step for step in steps if step["commands"] == [["kdump", "repair", str(data)]])
    assert one["partitions"] == 20


def test_nothing_is_shown_where_nothing_is_wrong(tmp_path: Path) -> None:
    data = tmp_path / "data"
    damaged.write_topic(data, "ok", damaged.whole(), {})
    (data / "meta.properties").write_bytes(damaged.META)
    ran = kdump("verify", data)
    assert forecasts(ran) == {}
    assert list(ran.of("step")) == []


def test_many_corrupt_partitions_have_one_command_that_drops(tmp_path: Path) -> None:
    data = tmp_path / "data"
    damaged.write_corrupt(data, tmp_path / "replica", 5)
    steps = kdump("verify", data).of("step")
    (step,) = (line for line in steps if "--only-copy" in str(line["commands"]))
    assert step["partitions"] == 5
    assert "drop their corrupt batches, at most 25 records" in step["text"]
    (command,) = step["commands"]
    assert run([*command[1:], "--apply"]).code == exits.REFUSED  # it asks for consent
    planned = kdump(*command[1:])
    (summary,) = planned.of("summary")
    assert run([*command[1:], "--apply", "--confirm", summary["id"]]).code == exits.OK
    assert kdump("verify", data).code == exits.OK
