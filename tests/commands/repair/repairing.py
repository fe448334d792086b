"""Runs ``kdump repair`` and reads its lines. Imports nothing of kdump but what runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commands.repair import damaged_directory as damaged
from support.crashing.running import Run, run
from support.crashing.trees import Node, take

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
