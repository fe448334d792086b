"""Shorter retention that frees a number of bytes: the oldest records go first."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from kdump.audit.facts.retention import RetentionConfigs
from kdump.audit.sizes.measure import OldSegment, PartitionSpace
from kdump.commands.space.shorter import ShorterRetention, shorter_retention
from kdump.storage.names import parse_directory_name
from kdump.ui import exits
from support.commands import kdump
from support.crashing.running import run
from support.fixtures_loader import ROOT

HOUR: Final = 3_600_000
NOW: Final = 10_000 * HOUR
DELETE: Final = RetentionConfigs(True, False, 1_000 * HOUR, -1)
MIB: Final = 1 << 20


def partition(
    name: str, *hours: int, configs: RetentionConfigs = DELETE, size: int = MIB
) -> PartitionSpace:
    """A partition of segments of ten offsets, whose newest records are so many hours old."""
    old = tuple(
        OldSegment(number * 10, number * 10 + 10, NOW - age * HOUR, size, ())
        for number, age in enumerate(hours)
    )
    return PartitionSpace(Path(name), parse_directory_name(name), configs=configs, old=old)


def freed(found: tuple[ShorterRetention, ...]) -> dict[str, tuple[int, int, int]]:
    return {each.topic: (each.segments, each.offsets, each.bytes // MIB) for each in found}


LOGS: Final = [
    partition("old-0", 400, 300, 200),
    partition("old-1", 390, 20),
    partition("young-0", 250, 10, 1),
]


@pytest.mark.parametrize(
    ("wanted", "expected", "hours"),
    [
        (1, {"old": (1, 10, 1)}, 400),
        (MIB + 1, {"old": (2, 20, 2)}, 390),
        (3 * MIB, {"old": (3, 30, 3)}, 300),
        (4 * MIB, {"old": (3, 30, 3), "young": (1, 10, 1)}, 250),
        (100 * MIB, {"old": (5, 50, 5), "young": (3, 30, 3)}, 1),
    ],
)
def test_the_oldest_go_first(
    wanted: int, expected: dict[str, tuple[int, int, int]], hours: int
) -> None:
    found = shorter_retention(LOGS, {}, wanted, NOW)
    assert freed(found) == expected
    # A segment is deleted once it is older than its retention.
    assert {each.retention_ms for each in found} == {hours * HOUR - 1}


def test_segments_of_one_time_go_together() -> None:
    logs = [partition("a-0", 50), partition("b-0", 50), partition("b-1", 50, 40)]
    assert freed(shorter_retention(logs, {}, 1, NOW)) == {"b": (2, 20, 2), "a": (1, 10, 1)}


def test_none_that_is_younger_than_an_hour() -> None:
    assert shorter_retention([partition("a-0", 0)], {}, 1, NOW) == ()
    assert shorter_retention([], {}, 1, NOW) == ()


@pytest.mark.parametrize(
    "log",
    [
        partition("__consumer_offsets-0", 400),
        partition("t-0", 400, configs=replace(DELETE, compact=True)),
        partition("t-0", 400, configs=replace(DELETE, delete=False)),
        partition("t-0", 400, configs=replace(DELETE, remote=True)),
    ],
)
def test_other_topics_keep_what_they_have(log: PartitionSpace) -> None:
    assert shorter_retention([log], {}, 1, NOW) == ()


@pytest.mark.parametrize(
    ("configs", "restored"),
    [
        ({}, "--delete-config retention.ms"),
        ({"a": {"retention.ms": "86400000"}}, "--add-config retention.ms=86400000"),
        ({"a": {"retention.ms": " -1 "}}, "--add-config retention.ms=-1"),
        ({"a": {"retention.ms": "x; rm -rf /"}}, "--delete-config retention.ms"),
    ],
)
def test_the_configs_can_be_restored(configs: dict[str, dict[str, str]], restored: str) -> None:
    (found,) = shorter_retention([partition("a-0", 50)], configs, 1, NOW)
    head = "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics"
    assert " ".join(found.command) == (
        f"{head} --entity-name a --add-config retention.ms={50 * HOUR - 1}"
    )
    assert " ".join(found.restore) == f"{head} --entity-name a {restored}"


def test_the_report_says_what_frees_it() -> None:
    data = ROOT / "brokers/4.3.1/clean"
    ran = kdump("space", "--free", "30KiB", data, searching=False)
    lines = list(ran.of("shorter_retention"))
    (summary,) = ran.of("summary")
    assert lines
    assert sum(line["bytes"] for line in lines) >= 30 * 1024 - summary["due_bytes"]
    text = run(["space", "--free", "30KiB", str(data)], searching=False).out
    shown = [line.strip() for line in text.splitlines() if "kafka-configs.sh" in line]
    expected = [" ".join(line[name]) for line in lines for name in ("command", "restore")]
    times = re.compile(r"retention\.ms=\d+")  # a time from now on
    assert [times.sub("", each) for each in shown] == [times.sub("", each) for each in expected]
    assert "ON ALL REPLICAS" in " ".join(text.split())
    assert "what is due is enough" in run(
        ["space", "--free", "1", str(data)], searching=False
    ).out.replace("\n            ", " ")
    assert not list(kdump("space", "--free", "1", data, searching=False).of("shorter_retention"))


def test_a_size_that_is_none() -> None:
    ran = run(["space", "--free", "much", str(ROOT)], searching=False)
    assert ran.code == exits.USAGE
    assert "expected a size such as 50MB" in ran.err
