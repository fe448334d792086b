"""Batches as Kafka's own readers and kdump read them: the same records, or a finding where they
throw.

``reader_rows`` has each throw and each leniency of the readers. Batches by seed come on top:
``KDUMP_FUZZ_FIRST`` is the seed that they start from (0). Those that Java decompresses it reads
record by record, and kdump all at once: in front of an error Java may have read more of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from brokers.jars import meant
from format import batch_cases
from format.java_batches import Reading, by_java, differences
from format.reader_rows import ROWS, Row
from kdump.cli.main import main
from support.exports import as_row, dumped, rows_of
from support.forge import CODECS
from support.releases import LOADERS

FIRST = int(os.environ.get("KDUMP_FUZZ_FIRST", "0"))
SAMPLE = 500
#: One after the other, so that two processes share them: 200,000.
PARTS, EACH = 10, 20_000
#: As many of each part are read by the commands too.
COMMANDS = 400
CODES = {
    "bad-checksum": "batch-crc-mismatch",
    "codec": "batch-codec-unknown",
    "magic": "batch-magic-unknown",
    "unreadable": "records-unreadable",
    "cut": "records-cut-off",
    "nulls": "records-null-sizes",
}


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(tmp_path, monkeypatch)


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.loops
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_kdump_reads_a_row_as_java_does(row: Row, reading: Reading) -> None:
    dumped = reading.dumped(row.data)
    assert reading.exported(row.data) == dumped
    assert " ".join(reading.verified(row.data)) == row.found
    if not row.java:
        assert len(dumped.records) == row.count
        assert dumped.error in ("", "cut")


@pytest.mark.broker
@pytest.mark.parametrize("version", LOADERS)
def test_rows_say_what_java_does(version: str, reading: Reading) -> None:
    for row, java in zip(ROWS, by_java(version, [row.data for row in ROWS]), strict=True):
        if row.java == "OutOfMemoryError" and meant(version) == "4.4.0":
            # It compares the size with a limit before it allocates.
            assert (row.name, java.error) == (row.name, "InvalidRecordException")
            continue
        assert (row.name, java.error, len(java.records)) == (row.name, row.java, row.count)
        assert (row.name, differences(java, reading, row.data)) == (row.name, [])


@pytest.mark.slow
def test_commands_read_rows_as_their_reading_does(
    tmp_path: Path, reading: Reading, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    _commands_agree([row.data for row in ROWS], tmp_path, reading, capfdbinary)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_commands_read_batches_by_seed_as_their_reading_does(
    part: int, tmp_path: Path, reading: Reading, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = 1_000_000 + 10 * FIRST + part * EACH
    batches = [batch_cases.case(seed) for seed in range(first, first + COMMANDS)]
    _commands_agree(batches, tmp_path, reading, capfdbinary)


def _commands_agree(
    batches: Sequence[bytes],
    tmp_path: Path,
    reading: Reading,
    capture: pytest.CaptureFixture[bytes],
) -> None:
    """Compare what the commands print of batches, each the log of a partition, with ``reading``."""
    top = tmp_path / "logs"
    read: dict[str, tuple[list[int], list[str]]] = {}
    for number, batch in enumerate(batches):
        path = top / f"rows-{number}" / f"{0:020d}.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(batch)
        offsets = [offset for offset, _ in reading.dumped(batch).records]
        codes = [CODES.get(name, name) for name in reading.verified(batch)]
        read[str(path)] = offsets, [code for code in codes if code in CODES.values()]
    _, lines = dumped(capture, top)
    printed: dict[str, list[int]] = {path: [] for path in read}
    for line in lines:
        printed[line["source_file"]].append(line["offset"])
    assert printed == {path: offsets for path, (offsets, _) in read.items()}
    assert main(["export", str(top), "--to", str(tmp_path / "exported")]) in (0, 4, 5)
    names = ("source_file", "offset", "timestamp", "key", "value", "headers")
    rows = [[row[name] for name in names] for row in rows_of(tmp_path / "exported")]
    expected = [[row[name] for name in names] for row in map(as_row, lines)]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    capture.readouterr()
    main(["verify", "--deep", "--info", "--format", "json", "--progress", "none", str(top)])
    found: dict[str, list[str]] = {path: [] for path in read}
    for line in map(json.loads, capture.readouterr().out.splitlines()):
        if line["type"] == "finding" and line["code"] in CODES.values():
            found[line["path"]].append(line["code"])
    told = {path: sorted(codes) for path, (_, codes) in read.items()}
    assert {path: sorted(codes) for path, codes in found.items()} == told


def _agree(first: int, count: int, reading: Reading) -> None:
    """Compare the batches of ``count`` seeds from ``first`` on with what 4.3.1 reads."""
    batches = [batch_cases.case(seed) for seed in range(first, first + count)]
    wrong = {}
    for seed, batch, java in zip(
        range(first, first + count), batches, by_java("4.3.1", batches), strict=True
    ):
        if found := differences(java, reading, batch):
            wrong[seed] = found
    assert wrong == {}


def test_seeds_give_the_same_batches_of_all_kinds() -> None:
    some = [batch_cases.case(seed) for seed in range(400)]
    assert some == [batch_cases.case(seed) for seed in range(400)]
    wanted = {(2, codec) for codec in range(len(CODECS))}
    wanted |= {(magic, codec) for magic in (0, 1) for codec in range(len(CODECS) - 1)}
    assert wanted <= batch_cases.kinds(some)


@pytest.mark.broker
def test_batches_by_seed(reading: Reading) -> None:
    _agree(0, SAMPLE, reading)


@pytest.mark.broker
@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_many_batches_by_seed(part: int, reading: Reading) -> None:
    _agree(1_000_000 + 10 * FIRST + part * EACH, EACH, reading)
