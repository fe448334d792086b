"""Converted logs written into the folder of a repair, and read back there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter

from kdump.audit.facts.small_files import TopicSettings
from kdump.errors import Refused
from kdump.format.checkpoint import EpochEntry
from kdump.format.codecs import Codec
from kdump.repair.rewrite.conversion import Conversion, Rules
from kdump.repair.rewrite.log_workers import run_on_logs
from kdump.repair.rewrite.read_back import ReadBack
from kdump.repair.rewrite.write_and_read import (
    OnWrite,
    report_writes,
    use_two_processes,
    write_and_read,
)
from kdump.repair.transaction import disk
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import ConvertedPart, Plan, Put
from kdump.repair.transaction.preparation import Preparation
from kdump.storage.access import open_source
from kdump.storage.names import parse_file_name
from kdump.storage.workers import Report
from kdump.values import frozen


@frozen
class _Task:
    """The new logs of one old log, each with its recipe, in order."""

    log: str
    puts: tuple[tuple[Put, ConvertedPart], ...]


def stage_converted(
    preparation: Preparation, *, jobs: int, report: Report, lock: int | None
) -> Mapping[str, str]:
    """Write all converted logs of a plan; return the digest of the read-back records of each.

    Workers close their copy of the descriptor ``lock``. ``report`` is called with counts of bytes
    that were read. Raises Refused, SourceError.
    """
    plan, close_descriptors = preparation.plan, () if lock is None else (lock,)
    tasks = list(_tasks(plan))

    def work(task: _Task, on_progress: Report) -> dict[str, str]:
        share = use_two_processes(jobs, len(tasks), plan.files[task.log].size)
        try:
            return _stage(
                preparation, task, on_progress, share=share, close_descriptors=close_descriptors
            )
        except OSError as error:  # a worker cannot return it
            raise Refused(f"{plan.partition}: nothing was changed: {error}") from error

    staged = run_on_logs(
        work,
        tasks,
        lambda task: plan.partition / task.log,
        jobs=jobs,
        report=report,
        close_descriptors=close_descriptors,
    )
    return {name: digest for digests in staged for name, digest in digests.items()}


def _tasks(plan: Plan) -> Iterator[_Task]:
    by_log: dict[str, list[tuple[Put, ConvertedPart]]] = defaultdict(list)
    for put, recipe in plan.conversions:
        by_log[recipe.log].append((put, recipe))
    for log, puts in by_log.items():
        yield _Task(log, tuple(sorted(puts, key=lambda pair: pair[1].part)))


def _stage(
    preparation: Preparation,
    task: _Task,
    report: Report,
    *,
    share: bool,
    close_descriptors: Iterable[int],
) -> dict[str, str]:
    """Write the new logs of one old log, and read them back."""
    _, found = write_and_read(
        partial(_write, preparation, task),
        preparation.plan.partition / task.log,
        TopicSettings(),
        room=0,
        share=share,
        report=report,
        close_descriptors=close_descriptors,
    )
    digests = {}
    for (put, recipe), back in zip(task.puts, found, strict=True):
        report(back.size)
        _check(put, recipe, preparation.folder, back)
        digests[put.name] = back.digest
    return digests


def _write(preparation: Preparation, task: _Task, report: Report, on_write: OnWrite) -> None:
    """Write the new logs of one old log. Raises Refused if they differ from the plan."""
    plan, folder = preparation.plan, preparation.folder
    log, recipe = plan.partition / task.log, task.puts[0][1]
    codec = None if recipe.codec is None else Codec[recipe.codec.upper()]
    rules = Rules(codec, recipe.batch_bytes)
    epochs = [EpochEntry(epoch, offset) for epoch, offset in recipe.epochs]
    with open_source(log, mapped=False, sealed=True) as source:
        conversion = Conversion(source, log, _base_offset(task.log), rules, report, epochs=epochs)
        for number, pieces in groupby(conversion.pieces(), key=itemgetter(0)):
            if number == len(task.puts):
                raise _differs(plan, task.log)
            put = task.puts[number][0]
            path = folder.staging_path(put.name)
            on_size = partial(on_write, path, _base_offset(put.name))
            content = report_writes(map(itemgetter(1), pieces), on_size)
            like, mtime_ns = preparation.attributes_of(put), put.time_ns(preparation.begun_ns)
            disk.write_file(path, content, like, mtime_ns)
    read = [(part.size, part.records, part.digest) for part in conversion.parts]
    if read != [(put.size, recipe.records, recipe.digest) for put, recipe in task.puts]:
        raise _differs(plan, task.log)


def _base_offset(log: str) -> int:
    base_offset = parse_file_name(log).base_offset
    if base_offset is None:
        raise ValueError(f"expected the log of a segment, found {log}")
    return base_offset


def _check(put: Put, recipe: ConvertedPart, folder: Folder, back: ReadBack) -> None:
    """Raise Refused unless the read-back log matches the plan."""
    path = folder.staging_path(put.name)
    if (back.size, back.sha256) != (put.size, put.sha256):
        raise Refused(
            f"{path}: expected the {put.size} planned bytes to be read back, found other bytes "
            f"({back.size}): nothing was changed; check memory, controller and disk"
        )
    if (back.records, back.digest) != (recipe.records, recipe.digest):
        raise Refused(
            f"{path}: expected the {recipe.records} records of {recipe.log} to be read back, "
            f"found other records ({back.records}): nothing was changed; check memory, controller "
            "and disk"
        )


def _differs(plan: Plan, log: str) -> Refused:
    return Refused(
        f"{plan.partition / log}: expected the result to match the plan, found that it does not: "
        "nothing was changed; plan again"
    )
