"""Measures ``convert-v0-v2 --output``: the speed for messages and wrappers, and the memory.

Times are of whole processes, on the wall: for messages of one, on one core; for wrappers of two,
where one writes and the other reads back meanwhile, beside libraries on one core. The original is
in the page cache and the result goes to a file system in memory, so that no disk is measured.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench import limits
from bench.commands import kdump, most_pss_mb
from bench.report import Row
from bench.segments import KIB, Made, Shape, write
from bench.timing import best, process
from kdump.format.codecs import Codec

#: What wrappers of magic 1 are compressed with.
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

_VALUE_BYTES = 200
_MESSAGES_MB = 150.0
_WRAPPERS_TIMES = 0.6
_PSS_MB = 200.0


def measure_messages(directory: Path, tmpfs: Path, size_bytes: int, repeat: int) -> Row:
    """Messages that are not compressed, in bytes of the original by the second."""
    made = _messages(directory, size_bytes)
    with output_in(tmpfs) as output:
        _, took = best(repeat, partial(_clear, output), process(_command(made, output)))
    return Row(
        "convert",
        f"{took:.2f} s",
        f"{made.size >> 20} MiB, {took / made.records * 1e9:.0f} ns a message",
        made.size / took / 1e6,
        "MB/s",
        least=_MESSAGES_MB,
    )


def measure_wrappers(
    directory: Path, tmpfs: Path, size_bytes: int, repeat: int, *, codec: Codec
) -> Row:
    """Wrappers, beside the libraries that decompress and compress the same.

    They do so once, on one core. kdump decompresses twice: what it has compressed is read back, on
    a core of its own if there is one.
    """
    made = _partition(directory, Shape(_VALUE_BYTES, 16 * KIB, codec, magic=1), size_bytes)
    found = limits.find_pieces(made.path, codec)
    alone = partial(limits.decompress_and_compress, made.path, codec, found)
    with output_in(tmpfs) as output:
        _, ours, limit = best(
            repeat, partial(_clear, output), process(_command(made, output, jobs=2)), alone
        )
    return Row(
        f"convert {codec.label}",
        f"{ours / made.records * 1e9:.0f} ns, 2 cores",
        f"{codec.label} both ways {limit / made.records * 1e9:.0f} ns, 1 core",
        limit / ours,
        least=_WRAPPERS_TIMES,
    )


def measure_memory(directory: Path, tmpfs: Path, size_bytes: int) -> Row:
    """The largest sum of PSS while a file of twice the size is converted."""
    made = _messages(directory, 2 * size_bytes)
    with output_in(tmpfs) as output:
        most = most_pss_mb(_command(made, output, jobs=2))
    return Row(
        "convert memory",
        f"{most:.0f} MB",
        f"a file of {made.size >> 20} MiB",
        most,
        "MB",
        most=_PSS_MB,
    )


@contextmanager
def output_in(tmpfs: Path) -> Iterator[Path]:
    """A directory for results, which goes with them."""
    with tempfile.TemporaryDirectory(dir=tmpfs, prefix="bench-") as own:
        yield Path(own)


def _command(made: Made, output: Path, jobs: int = 1) -> list[str]:
    options = ("--jobs", str(jobs), "--progress", "none", "--output", output)
    return kdump("convert-v0-v2", *options, made.path.parent)


def _messages(directory: Path, size_bytes: int) -> Made:
    return _partition(directory, Shape(_VALUE_BYTES, 0, magic=1), size_bytes)


def _partition(directory: Path, shape: Shape, size_bytes: int) -> Made:
    partition = directory / "bench-0"
    partition.mkdir()
    return write(shape, partition, size_bytes)


def _clear(output: Path) -> None:
    for partition in output.iterdir():
        shutil.rmtree(partition)
