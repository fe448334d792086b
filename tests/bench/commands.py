"""Measures the kdump command as its user runs it: dump, start, workers and memory.

Times are those on the wall, from the start of a process to its end.

Spec: Kafka's dump tool with the options of the JVM that ``kafka-run-class.sh`` gives it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.report import Row
from bench.segments import KIB, Made, Shape, write
from bench.timing import best, process
from brokers.programs import java_command
from kdump.audit.run.verify import verify
from kdump.audit.targets.target import assign, open_roots
from kdump.storage import workers

KAFKA = "4.3.1"
PROCESS_REPEATS = 2

JVM = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_DUMP = {100: 8.0, KIB: 3.0}
_WORKERS_TIMES = 1.6
_PSS_MB = 150.0
_HELP_MS = 100.0
_START_REPEATS = 10
_SEGMENTS = 4
_SPINS = 3_000_000


def kdump(*arguments: str | Path) -> list[str]:
    """The installed command with ``arguments``."""
    return [str(Path(sysconfig.get_path("scripts"), "kdump")), *map(str, arguments)]


def measure_dump(made: Made) -> Row:
    """``dump --data``, beside Kafka's tool; one batch alone tells what both take to start."""
    directory = made.path.parent / "one-batch"
    directory.mkdir()
    tiny = write(made.shape, directory, 1)
    tool = java_command(KAFKA, "ERROR", *JVM)
    tool += ["org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files"]
    sides = [
        process([*command, str(log.path)])
        for log in (made, tiny)
        for command in (kdump("dump", "--data"), tool)
    ]
    ours, theirs, our_start, their_start = best(PROCESS_REPEATS, *sides)
    started = (theirs - their_start) / max(ours - our_start, 1e-3)
    return Row(
        f"dump {made.shape.name}",
        f"{ours:.2f} s",
        f"Kafka {theirs:.2f} s ({started:.1f} x without start)",
        theirs / ours,
        least=_DUMP[made.shape.value_bytes] if made.shape.batch_bytes else None,
    )


def measure_workers(directory: Path, size_bytes: int, repeat: int, *, deep: bool) -> Row:
    """Two workers beside one, over four segments of a partition.

    A loop that reads nothing, in the same pool, tells what the machine has to give just now.
    """
    partition = write_partition(directory, _SEGMENTS, size_bytes)
    targets = [target for root in open_roots([partition]) for target in assign(root)]

    def run(jobs: int) -> None:
        for verdict in verify(targets, deep=deep, jobs=jobs):
            if len(verdict.surveys) != _SEGMENTS:
                raise RuntimeError(f"expected {_SEGMENTS} surveys, found {verdict}")

    def spin(jobs: int) -> None:
        for _ in workers.run(_count, [_SPINS] * _SEGMENTS, jobs):
            pass

    one, two, spun_one, spun_two = best(
        repeat, lambda: run(1), lambda: run(2), lambda: spin(1), lambda: spin(2)
    )
    return Row(
        f"workers{' deep' if deep else ''}",
        f"two {two:.2f} s",
        f"one {one:.2f} s (an idle loop: {spun_one / spun_two:.2f} x)",
        one / two,
        least=_WORKERS_TIMES,
    )


def measure_memory(directory: Path, size_bytes: int, *, deep: bool) -> Row:
    """The largest sum of PSS of a verify with two workers, each at a file of twice the size."""
    partition = write_partition(directory, 2, 2 * size_bytes)
    options = ["--deep"] if deep else []
    most = most_pss_mb(kdump("verify", "--quiet", "--jobs", "2", *options, partition))
    return Row(
        f"memory{' deep' if deep else ''}",
        f"{most:.0f} MB",
        f"2 files of {2 * size_bytes >> 20} MiB",
        most,
        "MB",
        most=_PSS_MB,
    )


def most_pss_mb(command: Sequence[str], code: int = 0) -> float:
    """The largest sum of PSS, in MB, of a process and its children until it ends with ``code``."""
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            most = max(most, _pss_kib(running.pid))
    if running.returncode != code:
        raise RuntimeError(f"expected {command} to end with {code}, found {running.returncode}")
    return most * KIB / 1e6


def measure_help() -> Row:
    """``kdump --help``, beside the bare interpreter."""
    bare: Sequence[str] = (sys.executable, "-c", "pass")
    ours, theirs = best(_START_REPEATS, process(kdump("--help")), process(bare))
    return Row(
        "help",
        f"{ours * 1e3:.0f} ms",
        f"interpreter {theirs * 1e3:.0f} ms",
        (ours - theirs) * 1e3,
        "ms",
        most=_HELP_MS,
    )


def write_partition(directory: Path, segments: int, size_bytes: int, number: int = 0) -> Path:
    """A partition of so many neighbouring segments of 100-byte records."""
    partition = directory / f"bench-{number}"
    partition.mkdir()
    base_offset = 0
    for _ in range(segments):
        base_offset += write(Shape(100, 16 * KIB), partition, size_bytes, base_offset).records
    return partition


def _count(spins: int, report: workers.Report) -> None:
    for _ in range(spins):
        pass
    report(0)


def _pss_kib(pid: int) -> int:
    """The PSS of a process and its children; what has ended meanwhile counts nothing."""
    total = 0
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (str(pid), *children):
            with suppress(OSError):
                for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
    return total
