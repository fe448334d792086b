"""Measures ``kdump export`` without Spark: whole processes, two workers, into memory."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.commands import kdump, write_partition
from bench.conversion import output_in
from bench.report import Row
from bench.timing import median, process

_JOBS = 2
_SEGMENTS = 2
_PARTITIONS = 2
_LINES_TIMES = 1.5
_MILLIONS = 2.5


def measure_lines(directory: Path, tmpfs: Path, size_bytes: int, repeat: int) -> Row:
    """JSON Lines, beside a dump of the same records in one process, read by nobody."""
    partition = write_partition(directory, _SEGMENTS, size_bytes)
    dump = kdump("dump", "--format", "json", "--records", partition)
    with output_in(tmpfs) as output:
        export = _Export([partition], output, "jsonl")
        ours, theirs = median(repeat, export, process(dump))
    return Row(
        "export jsonl", f"{ours:.2f} s", f"dump {theirs:.2f} s", ours / theirs, most=_LINES_TIMES
    )


def measure_parquet(directory: Path, tmpfs: Path, size_bytes: int, repeat: int) -> Row:
    """Records of 100 bytes into Parquet."""
    partitions = [write_partition(directory, _SEGMENTS, size_bytes, n) for n in range(_PARTITIONS)]
    with output_in(tmpfs) as output:
        export = _Export(partitions, output, "parquet")
        (took,) = median(repeat, export)
    millions = export.records / 1e6
    return Row(
        "export parquet",
        f"{took:.2f} s",
        f"{millions:.1f} M records",
        millions / took,
        "M/s",
        least=_MILLIONS,
    )


class _Export:
    """Runs an export again and again, each time into the same directory."""

    def __init__(self, paths: Sequence[Path], output: Path, form: str) -> None:
        self.records = 0
        self._to = output / "records"
        options = ("--jobs", str(_JOBS), "--progress", "none", "--format", form, "--to", self._to)
        self._command = kdump("export", *options, *paths)

    def __call__(self) -> None:
        shutil.rmtree(self._to, ignore_errors=True)
        subprocess.run(self._command, check=True, stdout=subprocess.DEVNULL)
        self.records = json.loads((self._to / "_manifest.json").read_text())["records"]
