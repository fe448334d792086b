"""``kdump convert-v0-v2`` on what real brokers left: the same records, as consumers read them.

The batches are compared with those that ``converting`` works out from ``messages``, which reads
magic 0 and 1 without kdump.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support import messages
from support.broker_files import fixtures
from support.commands import kdump, repair
from support.consumer_records import as_consumer, log_start
from support.converting import (
    COMMAND,
    JsonObject,
    above_info,
    convert,
    first_difference,
    kept,
    legacy_batches,
    logs,
    misfits,
    nothing_to_do,
    records,
    split,
    stale_indexes,
    tree,
)
from support.fixtures_loader import consumed, copy_fixture
from support.forge import CODECS
from support.legacy_partitions import Partition, Piece, WrittenRecord

pytestmark = pytest.mark.once

LEGACY = fixtures("0.8", before="3")

every_legacy = pytest.mark.parametrize(
    "name",
    [
        LEGACY[0],
        *(pytest.param(name, marks=pytest.mark.nightly) for name in LEGACY[1:]),
    ],
)

#: Of a killed broker this one ends with zeros, which must be cut first.
PREALLOCATED = "preallocated-0"


@pytest.fixture
def top(name: str, place: Path) -> Path:
    """A copy of the fixture, all of whose logs are sound."""
    copy = copy_fixture(name, place / "data")
    if name.endswith("/killed"):
        cut = repair("truncate-to-valid", copy / PREALLOCATED, searching=False)
        assert cut.code == 0, cut.said
    return copy


def stored(top: Path) -> dict[str, Partition]:
    """The partitions of a log directory."""
    return {
        path.name: Partition({int(log.stem): pieces(log.read_bytes()) for log in logs(path)})
        for path in sorted(top.glob("*-*/"))
    }


def pieces(content: bytes) -> list[Piece]:
    """What a log holds side by side."""
    return [Piece(data, 2) if data[16] > 1 else of_old(data) for data in split(content)]


def of_old(data: bytes) -> Piece:
    (unit,) = messages.units(data)
    records = tuple(
        WrittenRecord(
            offset, -1 if timestamp is None else timestamp, kind == "LogAppendTime", key, value
        )
        for offset, timestamp, kind, key, value in unit.records()
    )
    return Piece(data, unit.outer.magic, CODECS[unit.outer.codec], records)


def with_legacy(partitions: Mapping[str, Partition]) -> list[str]:
    """The partitions that hold magic 0 or 1."""
    return [name for name in partitions if any(p.is_legacy for p in partitions[name].pieces())]


def unread(name: str, after: Mapping[str, Sequence[JsonObject]]) -> list[object]:
    """The records that a real consumer read and that are not there, or are there as others."""
    wrong: list[object] = []
    for (partition, isolation), path in consumed(name).items():
        if isolation != "read_uncommitted":
            continue
        start = log_start(name, partition)
        found = [
            as_consumer(line)
            for line in after.get(partition, ())
            if not line["control"] and line["offset"] >= start
        ]
        lines = map(json.loads, path.read_text().splitlines())
        # A consumer does not see magics; where it saw no timestamp they were 0.
        wanted = [as_consumer(kept({"magic": 0, "codec": None, **line})) for line in lines]
        wrong += [pair for pair in itertools.zip_longest(found, wanted) if pair[0] != pair[1]][:1]
    return wrong


@pytest.mark.slow
@every_legacy
def test_in_place(name: str, top: Path) -> None:
    partitions, before, files = stored(top), records(top), tree(top)
    assert len(with_legacy(partitions)) >= 5
    ran = convert(top)
    assert ran.code == 0, ran.said
    receipts = {Path(receipt["partition"]).name for receipt in ran.of("receipt")}
    assert receipts == set(with_legacy(partitions))
    after = records(top)
    assert first_difference(before, after) is None
    assert unread(name, after) == []
    for partition in receipts:
        assert misfits(top / partition, partitions[partition]) == [], partition
    changed = {path for path, data in tree(top).items() if files.get(path) != data}
    assert {path.split("/")[0] for path in changed} == receipts
    assert above_info(top) == []
    assert legacy_batches(top) == []
    assert nothing_to_do(top)
    for partition in receipts:
        undone = kdump("undo", top / partition, "--apply", searching=False)
        assert undone.code == 0, undone.said
    assert tree(top) == files


@every_legacy
@pytest.mark.slow
def test_output(name: str, top: Path, place: Path) -> None:
    partitions, before, files = stored(top), records(top), tree(top)
    output = place / "new"
    ran = kdump(COMMAND, top, "--output", output, searching=False)
    assert ran.code == 0, ran.said
    made = {path.name for path in output.iterdir()}
    assert made == set(with_legacy(partitions))
    after = records(output)
    assert first_difference({partition: before[partition] for partition in made}, after) is None
    assert unread(name, before | after) == []
    for partition in made:
        assert misfits(output / partition, partitions[partition]) == [], partition
    assert stale_indexes(output.glob("*/*.log")) == []
    assert above_info(output) == []
    assert legacy_batches(output) == []
    assert nothing_to_do(output)
    assert tree(top) == files


def test_zeros_after_the_end_are_to_be_cut_first(place: Path) -> None:
    top = copy_fixture("0.10.2.2/killed", place / "data")
    files = tree(top)
    for arguments in ((), ("--output", place / "new")):
        ran = kdump(COMMAND, top / PREALLOCATED, *arguments, searching=False)
        assert ran.code == 6, ran
        assert "truncate-to-valid" in ran.said
    assert tree(top) == files
    assert not (place / "new").exists() or not list((place / "new").iterdir())
