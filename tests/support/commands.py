"""Runs kdump's commands, each in a forked child, and reads the JSON lines that they print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdump.repair.transaction.plan import Plan, decode
from support.crashing.running import run
from support.crashing.seam import Around


@dataclass(frozen=True)
class Ran:
    """The exit code of a command, its JSON lines, and what it said on standard error."""

    code: int
    lines: tuple[dict[str, Any], ...]
    said: str

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """The lines of one type."""
        return (line for line in self.lines if line["type"] == kind)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the plans."""
        return tuple(line["id"] for line in self.of("plan"))


def kdump(*arguments: str | Path, around: Around | None = None, searching: bool = True) -> Ran:
    """Run a command that prints JSON lines; its calls that change files go through ``around``.

    Without ``searching`` no other process can have files open, which takes half the time.
    """
    argv = [*map(str, arguments), "--format", "json"]
    ran = run(argv, around, searching=searching)
    return Ran(ran.code, tuple(map(json.loads, ran.out.splitlines())), ran.err)


def repair(
    command: str, *arguments: str | Path, around: Around | None = None, searching: bool = True
) -> Ran:
    """Run a command that repairs, agreeing to whatever it plans."""
    planned = kdump(command, *arguments, searching=searching)
    if planned.code != 4:
        return planned
    agreed = (word for each in planned.ids for word in ("--confirm", each))
    return kdump(command, *arguments, "--apply", *agreed, around=around, searching=searching)


def done(partition: Path) -> list[Plan]:
    """The plans that were carried out on a partition, as its backups tell, the oldest first."""
    found = [
        (receipt.stat().st_mtime_ns, decode(json.loads((receipt.parent / "plan.json").read_text())))
        for receipt in partition.glob(".kdump/*/receipt.json")
    ]
    return [plan for _, plan in sorted(found, key=lambda each: each[0])]
