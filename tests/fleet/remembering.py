"""Runs of ``verify`` on Spark with a state, whose tasks this process does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdump.storage.paths import AnyPath
from support import matrix_spark
from support.fleet_reports import JsonObject, Verified, told

#: Of the summary, what says how much was read.
READ = ("bytes", "remembered")
DAY_S = 86_400
_BEGIN_NS = 1_795_900_000_000_000_000


class Killed(BaseException):
    """What ends a run at once."""


@dataclass
class World:
    """Runs over ``paths`` with the state ``state``; ``now_s`` is the time since the first one."""

    verified: Verified
    paths: list[AnyPath]
    state: str
    put: Callable[[str, object], None]
    now_s: int = 0

    def here(self, *options: str) -> tuple[int, list[JsonObject]]:
        """What this process finds without a state."""
        return self.verified(*options, *self.paths)

    def run(self, *options: str, later_s: int = 60) -> tuple[int, list[JsonObject]]:
        """A run with the state, ``later_s`` after the one before."""
        self.now_s += later_s
        now_ns = _BEGIN_NS + self.now_s * 1_000_000_000
        self.put("kdump.history.evidence.directory.time", SimpleNamespace(time_ns=lambda: now_ns))
        return self.verified("--master", "local[2]", "--state", self.state, *options, *self.paths)

    def in_pieces(self) -> None:
        """Have each segment be a task of its own."""
        self.put("kdump.fleet.verify.verify.max_task_bytes", lambda *_: 0)

    def files(self) -> list[Path]:
        """The files with evidence."""
        return sorted(Path(self.state).rglob("*.parquet"))


def world(
    verified: Verified, monkeypatch: pytest.MonkeyPatch, paths: list[AnyPath], state: str
) -> World:
    """Runs whose tasks this process does."""
    matrix_spark.stand_in(monkeypatch.setattr)
    return World(verified, paths, state, monkeypatch.setattr)


def summary(ran: tuple[int, list[JsonObject]]) -> JsonObject:
    return ran[1][-1]


def left_out(ran: tuple[int, list[JsonObject]]) -> JsonObject:
    found: JsonObject = summary(ran)["remembered"]
    return found


def codes(ran: tuple[int, list[JsonObject]]) -> list[str]:
    """The codes of findings that are more than notes."""
    lines = [line for line in ran[1] if line["type"] == "finding"]
    return sorted(line["code"] for line in lines if line["severity"] != "info")


def assert_same(here: tuple[int, list[JsonObject]], there: tuple[int, list[JsonObject]]) -> None:
    """The same was found, however much of it was read."""
    plain = [
        [{name: value for name, value in line.items() if name not in READ} for line in lines]
        for _, lines in (here, there)
    ]
    assert told(plain[1]) == told(plain[0])
    assert there[0] == here[0]


def kill_after(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    """Runs end at once when so many tasks have been done, their results unheard."""

    class Stream(matrix_spark._Stream):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            work, done = self._work, 0

            def limited(task: Any) -> Any:
                nonlocal done
                if done == tasks:
                    raise Killed
                done += 1
                return work(task)

            self._work = limited

    monkeypatch.setattr("kdump.fleet.verify.verify.Stream", Stream)
