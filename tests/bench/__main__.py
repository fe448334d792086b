"""Measures kdump beside its limits and Kafka's own tool: ``python tests/bench``.

Run it with the interpreter of an environment that has kdump installed, and by its path: with ``-m``
the checkout's uncompiled source would be measured. Ends with 1 if a figure was missed.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import (
    commands,
    conversion,
    copies,
    directory,
    exports,
    fleet,
    groups,
    logs,
    reading,
    repairs,
    scrubs,
)
from bench.report import Row, heading, line
from bench.segments import MIB, SHAPES, Made, Shape, write
from brokers.jars import missing
from kdump.format.codecs import Codec
from kdump.format.kernel import headers as _headers

#: The size of a log: explain takes longer for a byte than what reads segments.
_LOG_BYTES = 32 * MIB


def main(arguments: list[str]) -> int:
    """Measure what is asked for, print it, and return the exit code."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that segments are removed
    if not _headers.COMPILED and not options.plain:
        sys.exit(f"{_headers.__file__} is not compiled: --plain measures it all the same")
    no_java, no_spark = missing(), fleet.missing()
    print(f"kernel: {_headers.__file__}")
    print(f"segments: {options.size} MiB, in the page cache; {os.cpu_count()} CPUs")
    print("walk, survey, deep: best processor time, each with a new map; others: on the wall")
    print("fleet: the median, once Spark has started; others: the best time")
    print(
        f"dump: whole processes, the start of the JVM too; Kafka's is the tool of {commands.KAFKA}"
    )
    if no_java is not None:
        print(f"dump and a broker's recovery are left out: {no_java}")
    if no_spark is not None:
        print(f"what runs on Spark is left out: {no_spark}")
    print(f"\n{heading()}", flush=True)
    missed = 0
    for row in _rows(options, java=no_java is None, spark=no_spark is None):
        missed += not row.met
        print(line(row), flush=True)
    print(f"\n{missed} missed" if missed else "\nall met")
    return 1 if missed else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tests/bench", description="Measures kdump beside its limits and Kafka's tool."
    )
    parser.add_argument("--size", type=int, default=512, help="MiB a segment (default: 512)")
    parser.add_argument("--repeat", type=int, default=5, help="times each is run (default: 5)")
    parser.add_argument(
        "--directory", type=Path, help="where to make segments (default: temporary)"
    )
    parser.add_argument(
        "--tmpfs",
        type=Path,
        default=Path("/dev/shm"),
        help="a file system in memory, for what conversions and exports write (default: /dev/shm)",
    )
    parser.add_argument("--plain", action="store_true", help="measure a kernel not compiled too")
    parser.add_argument(
        "only", nargs="*", default=["*"], help="what to measure, such as 'walk*' (default: all)"
    )
    return parser.parse_args(arguments)


def _rows(options: argparse.Namespace, *, java: bool, spark: bool) -> Iterator[Row]:
    """Measures, each segment made for what is asked of it, and removed behind that."""

    def wanted(name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in options.only)

    size = options.size * MIB
    for shape in SHAPES:
        of_segment = {
            name: measure
            for name, measure in _of_segment(shape, options.repeat, java=java).items()
            if wanted(f"{name} {shape.name}")
        }
        if of_segment:
            with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-") as own:
                made = write(shape, Path(own), size)
                for measure in of_segment.values():
                    yield measure(made)
    of_directories: dict[str, Callable[[Path], Row]] = {
        **_of_directory(size, options.repeat, java=java),
        **_of_conversion(options.tmpfs, size, options.repeat),
        **_of_export(options.tmpfs, size, options.repeat),
        **(_of_fleet(options.tmpfs, size, options.repeat) if spark else {}),
        **_of_groups(size, options.repeat, java=java),
        "compare": partial(copies.measure_compare, size_bytes=size, repeat=options.repeat),
        "help": lambda _: commands.measure_help(),
    }
    for name, of_directory in of_directories.items():
        if wanted(name):
            with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-") as own:
                yield of_directory(Path(own))
    of_several: dict[str, Callable[[Path], Iterator[Row]]] = {
        "compare manifests": partial(copies.measure_manifests, repeat=options.repeat),
        **_of_scrub(java=java),
        "explain": partial(
            logs.measure_explain, size_bytes=min(size, _LOG_BYTES), repeat=options.repeat
        ),
    }
    for name, rows in of_several.items():
        if wanted(name):
            with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-") as own:
                yield from rows(Path(own))


def _of_scrub(*, java: bool) -> dict[str, Callable[[Path], Iterator[Row]]]:
    """What is measured of scrubs, several figures at once."""
    latency = {"scrub latency": scrubs.measure_latency} if java else {}
    return {
        "scrub second": scrubs.measure_second_run,
        "scrub start": scrubs.measure_start,
        **latency,
    }


def _of_segment(shape: Shape, repeat: int, *, java: bool) -> dict[str, Callable[[Made], Row]]:
    """What is measured on a segment of ``shape``; a walk does not look at what is compressed."""
    deep = partial(reading.measure_deep, repeat=repeat)
    if shape.codec is not Codec.NONE:
        return {"deep": deep}
    walk = partial(reading.measure_walk, repeat=repeat)
    survey = partial(reading.measure_survey, repeat=repeat)
    dump = {"dump": commands.measure_dump} if java else {}
    return {"walk": walk, "survey": survey, "deep": deep, **dump}


def _of_directory(size_bytes: int, repeat: int, *, java: bool) -> dict[str, Callable[[Path], Row]]:
    """What is measured on a directory of its own."""
    recovery = {"reindex recovery": partial(repairs.measure_recovery, size_bytes=size_bytes)}
    return {
        "workers": partial(
            commands.measure_workers, size_bytes=size_bytes, repeat=repeat, deep=False
        ),
        "workers deep": partial(
            commands.measure_workers, size_bytes=size_bytes, repeat=repeat, deep=True
        ),
        "memory": partial(commands.measure_memory, size_bytes=size_bytes, deep=False),
        "memory deep": partial(commands.measure_memory, size_bytes=size_bytes, deep=True),
        "directory quick": directory.measure_quick,
        "directory share": directory.measure_quick_share,
        "directory": directory.measure_default,
        "directory memory": directory.measure_memory,
        "reindex": partial(repairs.measure_reindex, size_bytes=size_bytes, repeat=repeat),
        **(recovery if java else {}),
        "cut": partial(repairs.measure_cut, size_bytes=size_bytes, repeat=repeat),
        "cut time": partial(repairs.measure_cut_time, size_bytes=size_bytes, repeat=repeat),
    }


def _of_conversion(tmpfs: Path, size_bytes: int, repeat: int) -> dict[str, Callable[[Path], Row]]:
    """What is measured of conversions, each on a directory of its own."""
    messages, memory = conversion.measure_messages, conversion.measure_memory
    measured: dict[str, Callable[[Path], Row]] = {
        "convert": partial(messages, tmpfs=tmpfs, size_bytes=size_bytes, repeat=repeat),
        "convert memory": partial(memory, tmpfs=tmpfs, size_bytes=size_bytes),
    }
    for codec in conversion.CODECS:
        measured[f"convert {codec.label}"] = partial(
            conversion.measure_wrappers,
            tmpfs=tmpfs,
            size_bytes=size_bytes,
            repeat=repeat,
            codec=codec,
        )
    return measured


def _of_export(tmpfs: Path, size_bytes: int, repeat: int) -> dict[str, Callable[[Path], Row]]:
    """What is exported by workers; Parquet where pyarrow is installed."""
    lines, parquet = exports.measure_lines, exports.measure_parquet
    measured: dict[str, Callable[[Path], Row]] = {
        "export jsonl": partial(lines, tmpfs=tmpfs, size_bytes=size_bytes, repeat=repeat)
    }
    if find_spec("pyarrow") is not None:
        measured["export parquet"] = partial(
            parquet, tmpfs=tmpfs, size_bytes=size_bytes, repeat=repeat
        )
    return measured


def _of_groups(size_bytes: int, repeat: int, *, java: bool) -> dict[str, Callable[[Path], Row]]:
    """What is measured of ``groups``."""
    kafka = {"groups kafka": partial(groups.measure_kafka, size_bytes=size_bytes)}
    return {
        "groups": partial(groups.measure_groups, size_bytes=size_bytes, repeat=repeat),
        "groups memory": partial(groups.measure_memory, size_bytes=size_bytes),
        **(kafka if java else {}),
    }


def _of_fleet(tmpfs: Path, size_bytes: int, repeat: int) -> dict[str, Callable[[Path], Row]]:
    """What is measured on Spark."""
    export, export_cost = fleet.measure_export, fleet.measure_export_cost
    return {
        "fleet verify": partial(fleet.measure_verify, size_bytes=size_bytes, repeat=repeat),
        "fleet cost": partial(fleet.measure_cost, size_bytes=size_bytes, repeat=repeat),
        "fleet tiny": partial(fleet.measure_tiny, repeat=repeat),
        "fleet export": partial(export, tmpfs=tmpfs, size_bytes=size_bytes, repeat=repeat),
        "fleet export cost": partial(
            export_cost, tmpfs=tmpfs, size_bytes=size_bytes, repeat=repeat
        ),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
