"""Reports of ``verify`` from this process and from executors, to be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdump.cli.main import main
from support import forge, recipes_directory
from support.pipeline import NOW_MS

JsonObject = dict[str, Any]
#: ``verified(*arguments)``: the exit code and the lines of the JSON report, from either engine.
Verified = Callable[..., tuple[int, list[JsonObject]]]
#: Of the summary, what is about the run and not about what was found.
EFFORT = {"seconds", "jobs"}


@pytest.fixture
def verified(
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    every_process: Callable[[], Iterator[Path]],
) -> Verified:
    # Executors search all processes too, and name those that they cannot see.
    monkeypatch.setattr("kdump.storage.liveness._processes", every_process)
    # Findings tell the present.
    clock = SimpleNamespace(time_ns=lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr("kdump.audit.targets.listing.time", clock)
    monkeypatch.setattr("kdump.fleet.verify.listing.time", clock)

    def of(*arguments: object) -> tuple[int, list[JsonObject]]:
        code = main(["verify", "--format", "json", *map(str, arguments)])
        return code, [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]

    return of


def told(lines: Sequence[JsonObject]) -> list[str]:
    """The report without what differs from run to run, in an order of its own."""
    kept = [{name: value for name, value in line.items() if name not in EFFORT} for line in lines]
    return sorted(json.dumps(without_free_space(line), sort_keys=True) for line in kept)


def without_free_space(line: JsonObject) -> JsonObject:
    """The line without the free space of file systems, on which everybody writes meanwhile."""
    if "next_starts" not in line:
        return line
    starts = [dict(start) for start in line["next_starts"]]
    for start in starts:
        if start["file_system"] is not None:
            start["file_system"] = {"total_bytes": start["file_system"]["total_bytes"]}
    return {**line, "next_starts": starts}


def assert_equal(here: tuple[int, list[JsonObject]], there: tuple[int, list[JsonObject]]) -> None:
    assert told(there[1]) == told(here[1])
    assert there[0] == here[0]
    forecasts = [
        [line["path"] for line in lines if line["type"] == "forecast"] for _, lines in (here, there)
    ]
    assert forecasts[0] == forecasts[1]


def fleet_broker(top: Path, number: int) -> Path:
    """A log directory of 100 partitions, one of them damaged, and one of four segments."""
    segments = {base: [forge.batch(base, [forge.record()])] for base in range(4)}
    for partition in range(100):
        several = partition == number
        forge.write_partition(top, "orders", partition, segments if several else {0: segments[0]})
    log = top / f"orders-{99 - number}" / f"{0:020d}.log"
    log.write_bytes(forge.flip(log.read_bytes(), -1))
    (top / "meta.properties").write_bytes(recipes_directory.meta_properties(node=number))
    (top / ".kafka_cleanshutdown").touch()
    return top
