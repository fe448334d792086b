"""Measures verify and export on Spark, two tasks at a time, beside two workers of this process.

Sessions are started before anything is timed, and each figure is the median of its times.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bench import directory as log_directory
from bench.commands import write_partition
from bench.conversion import output_in
from bench.report import Row
from bench.segments import KIB
from bench.timing import median
from kdump.audit.run.verify import verify
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection
from kdump.audit.verdicts.next_start import Conclusion
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import UsageError
from kdump.fleet.session.java import check_java
from kdump.storage import selection

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

_CORES = 2
_VERIFY_TIMES = 0.8
_TINY_PARTITIONS = 60
_TINY_SEGMENTS = 100
_TINY_BYTES = 4 * KIB
_TINY_SECONDS = 1.5
_EXPORTED_PARTITIONS = 2
_EXPORT_MILLIONS = 2.0
#: Of these numbers of partitions the cost per byte is compared.
_PARTITIONS = (1, 2, 4, 8)
_SEGMENTS = 2
_COST_TIMES = 1.25


def missing() -> str | None:
    """Why nothing can be measured here, None if it can."""
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            return f"{name} is not installed"
    try:
        check_java()
    except UsageError as error:
        return str(error)
    return None


def measure_verify(directory: Path, size_bytes: int, repeat: int) -> Row:
    """The largest log directory, beside two workers of this process."""
    *_, largest = _log_directories(directory, size_bytes)
    with _session() as session:
        ours, theirs = median(repeat, partial(_on_spark, session, largest), partial(_here, largest))
    size = f"{_size([largest]) / 1e9:.2f} GB"
    return Row(
        "fleet verify",
        f"{ours:.2f} s",
        f"two workers {theirs:.2f} s, {size}",
        theirs / ours,
        least=_VERIFY_TIMES,
    )


def measure_cost(directory: Path, size_bytes: int, repeat: int) -> Row:
    """What a byte costs to be verified, of one to eight partitions."""
    paths = _log_directories(directory, size_bytes)
    with _session() as session:
        took = median(repeat, *(partial(_on_spark, session, path) for path in paths))
    return _cost("fleet cost", paths, took)


def measure_export_cost(directory: Path, tmpfs: Path, size_bytes: int, repeat: int) -> Row:
    """What a byte costs to be exported, of one to eight partitions."""
    paths = _log_directories(directory, size_bytes)
    with _session() as session, output_in(tmpfs) as output:
        to = output / "records"
        took = median(repeat, *(partial(_export, session, [path], to) for path in paths))
    return _cost("fleet export cost", paths, took)


def _cost(name: str, paths: Sequence[Path], took: Sequence[float]) -> Row:
    """The dearest byte beside the cheapest one."""
    sizes = [_size([path]) / 1e9 for path in paths]
    costs = [seconds / size for seconds, size in zip(took, sizes, strict=True)]
    return Row(
        name,
        " ".join(f"{cost:.3f}" for cost in costs),
        f"s/GB from {sizes[0]:.2g} to {sizes[-1]:.2g} GB",
        max(costs) / min(costs),
        most=_COST_TIMES,
    )


def measure_tiny(directory: Path, repeat: int) -> Row:
    """Thousands of small segments: what all jobs take together, from the listing on."""
    count = _TINY_PARTITIONS * _TINY_SEGMENTS
    log_directory.make(directory, _TINY_PARTITIONS, _TINY_SEGMENTS, _TINY_BYTES)
    with _session() as session:
        ours, theirs = median(
            repeat, partial(_on_spark, session, directory), partial(_here, directory)
        )
    return Row(
        "fleet tiny",
        f"{ours:.2f} s",
        f"two workers {theirs:.2f} s, {count:,} segments",
        ours,
        "s",
        most=_TINY_SECONDS,
    )


def measure_export(directory: Path, tmpfs: Path, size_bytes: int, repeat: int) -> Row:
    """Records of 100 bytes into Parquet, in a file system in memory."""
    partitions = _partitions(directory, _EXPORTED_PARTITIONS, size_bytes)
    records: list[int] = []
    with _session() as session, output_in(tmpfs) as output:
        (took,) = median(
            repeat, lambda: records.append(_export(session, partitions, output / f"{len(records)}"))
        )
    return Row(
        "fleet export",
        f"{took:.2f} s",
        f"{_size(partitions) / 1e9:.2f} GB, {records[0] / 1e6:.1f} M records",
        statistics.median(records) / took / 1e6,
        "M/s",
        least=_EXPORT_MILLIONS,
    )


@contextmanager
def _session() -> Iterator[Session]:
    from kdump.fleet.session.session import Cluster, open_session

    with open_session(Cluster(master=f"local[{_CORES}]")) as session:
        yield session


def _on_spark(session: Session, path: Path) -> None:
    from kdump.fleet.verify import listing
    from kdump.fleet.verify import verify as fleet

    listed = listing.list_paths(session, [path], None, TopicSelection())
    scope = listed.scope
    verdict = fleet.verify(
        session,
        listed.pairs,
        deep=False,
        context=scope.context,
        conclude=Conclusion(frozenset()),
    )
    _expect(verdict, _size([path]))


def _here(path: Path) -> None:
    scope = list_scope([path], None, TopicSelection())
    conclude = Conclusion(frozenset())
    targets, context = scope.targets, scope.context
    verdicts = verify(targets, deep=False, jobs=_CORES, context=context, conclude=conclude)
    _expect(verdicts, _size([path]))


def _expect(verdicts: Iterable[Verdict], size_bytes: int) -> None:
    covered_bytes = sum(one.covered.size for one in verdicts)
    if covered_bytes != size_bytes:
        raise RuntimeError(f"expected that {size_bytes} bytes were read, found {covered_bytes}")


def _export(session: Session, paths: Sequence[Path], to: Path) -> int:
    """How many records are in the files of a new directory, which is taken away again."""
    from kdump.commands.export import export as fleet
    from kdump.commands.export.output import FileFormat
    from kdump.fleet.job.spread import spread
    from kdump.fleet.verify.listing import list_paths
    from kdump.output.destination import create_destination

    listed = list_paths(session, paths, None, TopicSelection())
    order = fleet.Order(FileFormat.PARQUET, selection.Selection())
    sizes = listed.sizes()
    with create_destination(to) as destination:
        manifest = fleet.export(listed.open(), order, destination, partial(spread, session), sizes)
    shutil.rmtree(to)
    return manifest.records


def _log_directories(directory: Path, size_bytes: int) -> list[Path]:
    """Log directories with so many of the same partitions each."""
    stock = directory / "stock"
    stock.mkdir()
    partitions = _partitions(stock, max(_PARTITIONS), size_bytes)
    made = []
    for count in _PARTITIONS:
        made.append(directory / f"data-{count}")
        made[-1].mkdir()
        log_directory.mark(made[-1])
        for partition in partitions[:count]:
            shutil.copytree(partition, made[-1] / partition.name, copy_function=os.link)
    return made


def _partitions(directory: Path, count: int, size_bytes: int) -> list[Path]:
    """So many partitions of segments of ``size_bytes``."""
    numbers = range(count)
    return [write_partition(directory, _SEGMENTS, size_bytes, number) for number in numbers]


def _size(paths: Iterable[Path]) -> int:
    """The bytes of all logs below ``paths``."""
    return sum(log.stat().st_size for path in paths for log in path.glob("**/*.log"))
