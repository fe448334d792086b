"""``kdump verify`` on what real brokers wrote: no false alarm, and it counts as they do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokers.oracle import Oracle
from kdump.cli.main import main
from support.consumer_records import EXAMPLES, FEW_EXAMPLES, log_start
from support.fixtures_loader import FIXTURES, REPLICAS, consumed, few_first

JsonObject = dict[str, Any]
Grown = Callable[[str], Path]

pytestmark = pytest.mark.usefixtures("unsearched")

#: What belongs to normal running: gaps that compaction left, snapshots of former ends, transactions
#: whose producers were killed, timestamps that producers made up, topics for an older broker.
NOTES = {
    "preallocated-tail",
    "segment-bytes-small",
    "segments-gap",
    "snapshot-stray",
    "timestamps-future",
    "transaction-open",
}


def verified(capfdbinary: pytest.CaptureFixture[bytes], *args: str) -> tuple[int, list[JsonObject]]:
    code = main(["verify", "--format", "json", *args])
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert (lines[0]["type"], lines[-1]["type"], lines[-1]["exit"]) == ("header", "summary", code)
    return code, lines


@pytest.mark.parametrize("depth", [[], ["--deep"]], ids=["shallow", "deep"])
@pytest.mark.parametrize("name", few_first())
def test_nothing_above_info_on_undamaged_fixtures(
    name: str, depth: list[str], grown: Grown, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, lines = verified(capfdbinary, *depth, str(grown(name)))
    assert code == 0
    findings = [(line["code"], line["severity"]) for line in lines if line["type"] == "finding"]
    assert {severity for _, severity in findings} == {"info"}
    assert {code for code, _ in findings} <= NOTES
    # Of the tails only the preallocated topic of a killed broker has something to tell.
    tails = [code for code, _ in findings if "tail" in code]
    assert tails == (["preallocated-tail"] if name.endswith("killed") else [])
    summary = lines[-1]
    logs = list(grown(name).glob("*-*/*.log"))
    assert summary["segments"] == len(logs) > 10
    assert summary["bytes"] == sum(path.stat().st_size for path in logs)
    assert summary["partitions"] == len([path for path in grown(name).iterdir() if path.is_dir()])


@pytest.mark.parametrize("name", few_first(REPLICAS))
def test_three_brokers_have_what_a_restored_log_leaves_alone(
    name: str, grown: Grown, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, lines = verified(capfdbinary, *map(str, sorted(grown(name).iterdir())))
    assert code == 4
    found = [line for line in lines if line.get("severity") in ("warning", "error")]
    # The log of a topic on 3 is from a backup, its checkpoints are not.
    assert [(line["code"], Path(line["path"]).parent.name) for line in found] == [
        ("recovery-point-beyond-end", "3"),
        ("high-watermark-beyond-end", "3"),
    ]


@pytest.mark.once
@pytest.mark.parametrize(("name", "topic_partition", "path"), FEW_EXAMPLES)
def test_records_counted_equal_the_consumers(
    name: str,
    topic_partition: str,
    path: Path,
    grown: Grown,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """What a consumer does not see are control records, and what lies below the log start."""
    directory = str(grown(name) / topic_partition)
    _, lines = verified(capfdbinary, "--deep", directory)
    main(["dump", "--format", "json", "--records", directory])
    dumped = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    start = log_start(name, topic_partition)
    hidden = [
        line
        for line in dumped
        if line["type"] == "record" and (line["control"] or line["offset"] < start)
    ]
    assert lines[-1]["records"] == len(path.read_text().splitlines()) + len(hidden)


@pytest.mark.broker
@pytest.mark.parametrize("name", few_first())
def test_counts_equal_those_of_kafkas_dump_tool(
    name: str,
    oracle: Callable[[str], Oracle],
    grown: Grown,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """But for records that no header counts: those in wrappers of magic 0 and 1."""
    partitions = sorted(path for path in grown(name).iterdir() if path.is_dir())
    compared = 0
    for partition in partitions:
        if name.endswith("killed") and partition.name.startswith("preallocated"):
            continue  # Kafka's tool ends with an exception at the zeros
        shallow, deep = (
            verified(capfdbinary, *depth, str(partition))[1][-1] for depth in ([], ["--deep"])
        )
        logs = ",".join(map(str, sorted(partition.glob("*.log"))))
        stdout, _ = oracle("4.3.1").dump("--files", logs, "--deep-iteration")
        shown = stdout.decode().split("\n")
        batches = [line for line in shown if line.startswith(("baseOffset: ", "offset: "))]
        records = sum(line.startswith("| offset: ") for line in shown)
        wrappers = sum(
            line.startswith("offset: ") and "compresscodec: none" not in line for line in batches
        )
        assert shallow["batches"] == deep["batches"] == len(batches)
        assert (shallow["uncounted_wrappers"], deep["uncounted_wrappers"]) == (wrappers, 0)
        assert deep["records"] == records
        assert shallow["records"] == records or wrappers
        compared += len(batches)
    assert compared > 250


def test_every_fixture_has_consumers() -> None:
    """The comparison above would be empty without them."""
    assert {name for name in FIXTURES if consumed(name)} == set(FIXTURES)
    assert len(EXAMPLES) > 60
