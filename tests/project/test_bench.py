"""The bench runs on small segments, prints a figure of every kind, and leaves nothing behind.

What the figures are is not for a test: other work on the machine decides too much of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import fleet
from bench.conversion import CODECS
from bench.report import Row, line
from bench.segments import KIB, SHAPES, Shape, write
from brokers import jars
from kdump.audit.survey.survey import survey
from kdump.format.codecs import Codec
from kdump.format.kernel import headers as _headers
from kdump.storage.logdir import Segment

BENCH = Path(__file__).parents[1] / "bench"
SMALL = ("--size", "1", "--repeat", "1")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_every_kind_is_measured(tmp_path: Path) -> None:
    wanted = ["walk 100b-*", "survey 100b-16k", "deep *-16k*", "workers*", "memory*", "help"]
    wanted += ["reindex", "cut*", "convert*", "explain"]
    run = bench("--plain", *SMALL, "--directory", str(tmp_path), *wanted)
    assert (run.returncode in (0, 1), run.stderr) == (True, "")
    measured = [text[:22].strip() for text in run.stdout.split("\n\n")[1].splitlines()[1:]]
    assert [name for name in measured if name.startswith("walk")] == [
        "walk 100b-16k",
        "walk 100b-1m",
        "walk 100b-one",
    ]
    assert "survey 100b-16k" in measured
    assert len([name for name in measured if name.startswith("deep")]) == 10
    kinds = ("warn", "error", "json", "words", "json words", "known")
    assert measured[-6:] == [f"explain {kind}" for kind in kinds]
    assert measured[-19:-6] == [
        *("workers", "workers deep", "memory", "memory deep", "reindex", "cut", "cut time"),
        *("convert", "convert memory", "convert gzip", "convert snappy", "convert lz4", "help"),
    ]
    assert str(_headers.__file__) in run.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
@pytest.mark.nightly
def test_dump_is_measured_beside_kafkas_tool() -> None:
    assert jars.missing() is None
    run = bench("--plain", *SMALL, "dump 100b-16k")
    assert (run.returncode in (0, 1), run.stderr) == (True, "")
    assert "dump 100b-16k" in run.stdout.splitlines()[-3]
    assert "Kafka" in run.stdout.splitlines()[-3]


@pytest.mark.broker
@pytest.mark.slow
def test_reindex_is_measured_beside_a_brokers_recovery() -> None:
    assert jars.missing() is None
    run = bench("--plain", *SMALL, "reindex recovery")
    assert (run.returncode, run.stderr) == (0, "")
    assert "recovery of 4.3.1" in run.stdout.splitlines()[-3]


@pytest.mark.spark
@pytest.mark.nightly
def test_spark_is_measured_beside_workers(tmp_path: Path) -> None:
    assert fleet.missing() is None
    out = tmp_path / "out"
    out.mkdir()
    run = bench("--plain", *SMALL, "--directory", str(tmp_path), "--tmpfs", str(out), "fleet *")
    assert (run.returncode in (0, 1), run.stderr) == (True, "")
    measured = [text[:22].strip() for text in run.stdout.split("\n\n")[1].splitlines()[1:]]
    assert measured == [
        "fleet verify",
        "fleet cost",
        "fleet tiny",
        "fleet export",
        "fleet export cost",
    ]
    assert (list(tmp_path.iterdir()), list(out.iterdir())) == ([out], [])


@pytest.mark.skipif(_headers.COMPILED, reason="the kernel is compiled")
def test_a_plain_kernel_is_refused() -> None:
    run = bench(*SMALL, "help")
    assert run.returncode == 1
    assert "is not compiled" in run.stderr


LEGACY = [Shape(200, 16 * KIB, codec, magic=1) for codec in CODECS]


@pytest.mark.parametrize(
    "shape", [*SHAPES, Shape(200, 0, magic=1), *LEGACY], ids=lambda shape: shape.name
)
def test_segments_are_sound_and_of_their_shape(tmp_path: Path, shape: Shape) -> None:
    made = write(shape, tmp_path, 64 * KIB, 1000)
    assert made.size == made.path.stat().st_size
    segment = Segment(1000, made.path, None, None, None, None, "")
    found = survey(segment, lambda _: None, mapped=False, sealed=True, deep=True)
    assert (found.batches, found.records) == (made.batches, made.records)
    assert (found.last_offset, found.counts.total()) == (999 + made.records, 0)
    if shape.magic > 1 or shape.codec is Codec.NONE:  # a wrapper does not say where it begins
        assert found.first_offset == 1000
    if shape.batch_bytes == 16 * KIB:
        assert 15 * KIB < made.size / made.batches < 19 * KIB
    assert shape.batch_bytes or made.records == made.batches


def test_segments_are_the_same_every_time(tmp_path: Path) -> None:
    made = []
    for name in "ab":
        (tmp_path / name).mkdir()
        made.append(write(SHAPES[0], tmp_path / name, 100_000).path.read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("row", "end"),
    [
        (Row("a", "", "", 0.5995, least=0.6), ">= 0.6 x  MISSED"),
        (Row("a", "", "", 0.6, least=0.6), ">= 0.6 x  met"),
        (Row("a", "", "", 50.1, "ns", most=50.0), "<= 50 ns  MISSED"),
        (Row("a", "", "", 1.5), "1.5 x"),
    ],
)
def test_a_line_says_whether_its_figure_is_what_was_wanted(row: Row, end: str) -> None:
    assert line(row).endswith(end)
