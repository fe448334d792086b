"""Measures walk and deep read in this process, held against what limits them.

Times are those of the processor, because both sides keep one busy and wait for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import limits
from bench.report import Row
from bench.segments import KIB, MIB, Made
from bench.timing import best
from kdump.audit.survey.survey import survey
from kdump.format.codecs import Codec
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.walk import walk

_WALK = {16 * KIB: 0.60, MIB: 0.85}
_DEEP = {Codec.LZ4: 0.55, Codec.ZSTD: 0.70, Codec.SNAPPY: 0.70, Codec.GZIP: 0.70}
_SURVEY = 1.10
_BATCH_NS = 250.0
_RECORD_NS = 50.0


def measure_walk(made: Made, repeat: int) -> Row:
    """The walk, checksums and all, beside one checksum over the mapped file."""
    shape = made.shape
    kdump, limit = _timed(repeat, partial(_walk, made.path), partial(limits.checksum, made.path))
    name, batch_ns = f"walk {shape.name}", kdump / made.batches * 1e9
    spent, against = f"{batch_ns:.0f} ns a batch", f"crc32c {_rate(made.size, limit)}"
    if not shape.batch_bytes:
        # Of a record of 1 KiB the checksum alone takes a good part of that.
        most = _BATCH_NS if shape.value_bytes < KIB else None
        return Row(name, spent, against, batch_ns, "ns", most=most)
    return Row(name, spent, against, limit / kdump, least=_WALK[shape.batch_bytes])


def measure_survey(made: Made, repeat: int) -> Row:
    """What ``verify`` does with a segment, beside the bare walk that it begins with."""
    kdump, limit = _timed(repeat, partial(_survey, made, deep=False), partial(_walk, made.path))
    against = f"walk {limit / made.batches * 1e9:.0f} ns"
    spent = f"{kdump / made.batches * 1e9:.0f} ns a batch"
    return Row(f"survey {made.shape.name}", spent, against, kdump / limit, most=_SURVEY)


def measure_deep(made: Made, repeat: int) -> Row:
    """A survey of every record, beside checksums and decompression alone."""
    shape = made.shape
    if shape.codec is Codec.NONE:
        alone, against = partial(limits.checksum, made.path), "crc32c"
    else:
        found = limits.find_pieces(made.path, shape.codec)
        alone = partial(limits.checksum_and_decompress, made.path, shape.codec, found)
        against = f"crc32c + {shape.codec.label}"
    kdump, limit = _timed(repeat, partial(_survey, made, deep=True), alone)
    record_ns = kdump / made.records * 1e9
    name, spent = f"deep {shape.name}", f"{record_ns:.1f} ns a record"
    against = f"{against} {limit / made.records * 1e9:.1f} ns"
    if shape.codec is not Codec.NONE:
        return Row(name, spent, against, limit / kdump, least=_DEEP[shape.codec])
    if shape.value_bytes < KIB and shape.batch_bytes:
        return Row(name, spent, against, record_ns, "ns", most=_RECORD_NS)
    return Row(name, spent, against, limit / kdump)


def _timed(repeat: int, *sides: Callable[[], object]) -> list[float]:
    return best(repeat, *sides, clock=time.process_time)


def _walk(path: Path) -> None:
    with open_source(path, mapped=True) as source:
        for _ in walk(source, 0):
            pass


def _survey(made: Made, *, deep: bool) -> None:
    segment = Segment(0, made.path, None, None, None, None, "")
    found = survey(segment, lambda _: None, mapped=True, sealed=True, deep=deep)
    if found.records != made.records or found.counts:
        raise RuntimeError(f"expected {made.records} good records in {made.path}, found {found}")


def _rate(count_bytes: int, seconds: float) -> str:
    return f"{count_bytes / seconds / 1e9:.1f} GB/s"
