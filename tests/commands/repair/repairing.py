"""Runs ``kdump repair`` and reads its lines. Imports nothing of kdump but that and exit codes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from commands.repair import damaged_directory as damaged
from kdump.ui import exits
from support.commands import kdump
from support.crashing.recorded import Recorded
from support.crashing.running import Run, run
from support.crashing.trees import Node, put, take

#: The options that allow another cure than that by a replica where valid batches follow corrupt
#: ones.
OTHERS = ("--refetch", "--only-copy", "--as-broker")


def repair(*arguments: object, around: Any = None) -> Run:
    return run(["repair", *map(str, arguments)], around)


def lines(ran: Run, kind: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, ran.out.splitlines()) if each["type"] == kind]


def plan_id(*arguments: object) -> str:
    """The id of the plan, which is not carried out."""
    (summary,) = lines(repair(*arguments, "--format", "json"), "summary")
    assert summary["id"] is not None
    return str(summary["id"])


def left(*arguments: object) -> dict[str, str]:
    """Why partitions are left, by their names."""
    ran = repair(*arguments, "--format", "json")
    return {Path(each["partition"]).name: each["reason"] for each in lines(ran, "left")}


def tree(data: Path) -> dict[str, Node]:
    """All below the directory, but for the lock, which stays once it was made."""
    return {path: node for path, node in take(data).items() if path != ".lock"}


def lasting(data: Path) -> dict[str, Node]:
    """What brokers read, but for the times of files: not the records of repairs."""
    return {path: node.lasting for path, node in tree(data).items() if ".kdump" not in path}


def goes_on_or_is_undone(
    data: Path, command: Sequence[str], agreed: str, recorded: Recorded, part: slice
) -> None:
    """From each state the repair ends as it did, and its undo as it began, but for times.

    ``data`` is as the repair left it, by the plan with the id ``agreed``. ``part`` is of the
    recorded states.
    """
    after = lasting(data)
    put(data, recorded.before[0])
    before = lasting(data)
    for number, state in recorded.states[part]:
        put(data, state)
        assert kdump(*command).code == exits.OK, number
        assert lasting(data) == after, number
        put(data, state)
        undone = kdump("undo", data, "--plan", agreed, "--apply")
        assert undone.code in (exits.OK, exits.USAGE), (number, undone)
        assert lasting(data) == before, number


def directory(
    path: Path,
    topics: Mapping[str, tuple[damaged.Segments, Mapping[str, bytes | None]]],
    *,
    node: bytes = b"1",
) -> Path:
    """A log directory with partition 0 of each topic: its batches and other files."""
    path.mkdir(parents=True, exist_ok=True)
    for topic, (segments, files) in topics.items():
        damaged.write_topic(path, topic, segments, files)
    (path / "meta.properties").write_bytes(damaged.META.replace(b"node.id=1", b"node.id=" + node))
    return path
