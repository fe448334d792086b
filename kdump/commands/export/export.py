"""export(): the stages of an export.

If the export of a log depends on the other logs of its partition, a first stage reads all logs and
plans. Tasks write files into a folder that readers ignore. The driver has exactly one result of
each task, after any number of attempts, and gives these files their final names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from math import ceil
from typing import Any, Final

from kdump.audit.facts.coordinator import TopicPartition
from kdump.audit.facts.remote_storage import ranges_text
from kdump.audit.run.spread import Spread
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, without_nested
from kdump.commands.export.files import FileLayout, Ledger, file_name
from kdump.commands.export.manifest import FileEntry, Manifest, PartitionEntry, partition_entry
from kdump.commands.export.output import FileFormat
from kdump.commands.export.parts import ExportPart, ExportRequest, make_parts, plan
from kdump.commands.export.starts import log_starts, lost_before, remote_only
from kdump.commands.export.task import (
    ExportResult,
    ExportTask,
    Share,
    Trouble,
    export_logs,
    missing_result,
    unmap,
)
from kdump.errors import DecodeError
from kdump.output.destination import Destination
from kdump.storage.logdir import is_metadata_log
from kdump.storage.paths import AnyPath
from kdump.storage.selection import HIGHEST, LOWEST, Selection
from kdump.storage.workers import progress_counter
from kdump.tables.committed.ranges import Ranges, join, subtract
from kdump.tables.corruption import FUTURE, REMOTE
from kdump.tables.logs import utf8
from kdump.values import frozen

#: The bytes of logs whose records go into one file, by default.
FILE_BYTES: Final = 256 << 20
#: The digits of the number in a file's name, at least; all files of an export have as many.
_DIGITS: Final = 5
#: Where records are that are not lost and that no export reads.
_UNREAD: Final = {REMOTE: "in remote storage", FUTURE: "in a -future log"}


@frozen
class Order:
    """The format, the selection and the options of an export.

    A file holds the records of at most ``file_bytes`` of logs, or of one batch that is larger. With
    ``hourly``, each hour has its own files.
    """

    form: FileFormat
    selection: Selection
    read_committed: bool = False
    dedupe_replicas: bool = False
    below_log_start: bool = False
    file_bytes: int = FILE_BYTES
    hourly: bool = False


def export(
    targets: Iterable[Target],
    order: Order,
    destination: Destination,
    spread: Spread,
    sizes: Mapping[AnyPath, int],
    *,
    context: Context | None = None,
    gone: Iterable[Target] = (),
    on_progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Export the records of ``targets``, which are listed; ``sizes`` are the bytes of their logs.

    ``context`` describes their nodes, ``gone`` are partitions that these should have. A log that
    several targets hold is exported once.
    ``on_progress`` gets counts of bytes of logs that were exported since its last call.

    Raise UsageError, SourceError; the creator of ``destination`` then removes it.
    """
    distinct = without_nested(targets)
    troubles = [
        Trouble(utf8(str(target.path)), None, None, str(target.error), damaged=False)
        for target in distinct
        if target.error is not None
    ]
    starts: Sequence[int | None] = [None] * len(distinct)
    if not order.below_log_start:
        troubles.extend(_unread_checkpoints(distinct))
        starts = log_starts(distinct, spread)
    context = context or Context(now_ms=0)
    remote = remote_only(distinct, context, order.selection, spread)
    troubles.extend(_unread_remote(distinct, remote))
    for target, (first, last) in lost_before(distinct, context, order.selection, spread):
        reason = f"offsets {first}..{last} are missing, {_place(target, first, last)}"
        troubles.append(Trouble(utf8(str(target.path)), None, None, reason, damaged=True))
    troubles.extend(_gone(gone, context, order.selection))
    choice = ExportRequest(order.selection, order.read_committed, order.dedupe_replicas)
    parts = make_parts(distinct, starts, choice, sizes, context)
    if choice.committed or choice.merged:
        plan(parts, choice, spread, troubles)
    tasks = list(_tasks(parts, order, destination))
    results: list[tuple[ExportTask, ExportResult]] = []
    done = dict(_run_tasks(tasks, order.selection.limit, spread, on_progress))
    for number, result in sorted(done.items()):
        if isinstance(result, ExportResult):
            results.append((tasks[number], result))
            troubles.extend(result.troubles)
        else:
            troubles.extend(missing_result(share.log, result) for share in tasks[number].shares)
    troubles.extend(_missing(parts, results))
    files = tuple(_take_files(results, destination))
    entries = tuple(_entries(parts, files, results, remote))
    # Logs of a partition that is deleted during the export have the same trouble.
    manifest = Manifest(files, entries, tuple(dict.fromkeys(troubles)))
    destination.finish(manifest.encode())
    return manifest


def _place(target: Target, first: int, last: int) -> str:
    """Return where missing offsets lie in a log."""
    bases = [segment.base_offset for segment in target.segments]
    if not bases or last < bases[0]:
        is_end = not bases and target.partition is not None and is_metadata_log(target.partition)
        return "at the end of the log" if is_end else "before the first segment"
    return "between two segments" if first < bases[-1] else "at the end of the log"


def _unread_checkpoints(targets: Iterable[Target]) -> Iterator[Trouble]:
    """Yield a trouble for each checkpoint of log start offsets that is there and tells none."""
    reads = {
        target.directory.log_starts.path: target.directory.log_starts
        for target in targets
        if target.directory and target.directory.log_starts and target.partition
    }
    for path, read in reads.items():
        if read.error is not None:
            reason = f"the log start offsets are unknown: {read.error}"
            damaged = isinstance(read.error, DecodeError)
            yield Trouble(utf8(str(path)), None, None, reason, damaged)


def _unread_remote(
    targets: Iterable[Target], remote: Mapping[TopicPartition, Ranges]
) -> Iterator[Trouble]:
    """Yield a trouble for the first directory of each partition with offsets in remote storage."""
    left = dict(remote)
    for target in targets:
        name = None if target.partition is None else target.partition.name
        ranges = None if name is None else left.pop((name.topic, name.partition), None)
        if ranges is not None:
            reason = f"offsets {ranges_text(ranges)} are in remote storage, not read"
            yield Trouble(utf8(str(target.path)), None, None, reason, damaged=False)


def _gone(targets: Iterable[Target], context: Context, selection: Selection) -> Iterator[Trouble]:
    """Yield a trouble for each partition whose directory is gone, unless nothing is selected."""
    for target in targets:
        # Most exports have none, and importing what tells its offsets takes 100 ms.
        from kdump.tables.absent import absent_ranges, within

        for found in within(absent_ranges(target, context), selection):
            text = f"offset {found.first_offset} and later"
            if found.last_offset is not None:
                text = f"offsets {found.first_offset}..{found.last_offset}"
            unread = _UNREAD.get(found.reason)
            lacks = "are missing" if unread is None else f"are {unread}, not read"
            reason = f"{text} {lacks}: {found.detail}"
            yield Trouble(utf8(str(target.path)), None, None, reason, damaged=unread is None)


def _missing(
    parts: Sequence[ExportPart], results: Sequence[tuple[ExportTask, ExportResult]]
) -> Iterator[Trouble]:
    """Yield a trouble for each log that lacks offsets, unless another replica has them."""
    missing = {
        share.log.path: ranges
        for task, result in results
        for share, ranges in zip(task.shares, result.missing, strict=True)
    }
    for part in parts:
        # The ranges that are taken from a replica go over the offsets that it lacks.
        held = join(
            pair
            for share in (part.shares if part.merged else ())
            for pair in subtract(share.ranges or (), missing.get(share.log.path, ()))
        )
        for share in part.shares:
            ranges = subtract(missing.get(share.log.path, ()), held)
            if ranges:
                reason = f"offsets {ranges_text(ranges)} are missing"
                path = share.log.origin.source_file
                yield Trouble(path, None, None, reason, damaged=True)


def _tasks(
    parts: Sequence[ExportPart], order: Order, destination: Destination
) -> Iterator[ExportTask]:
    """Yield tasks: logs of one topic that go into one file, or a larger log.

    The partitions of a topic follow each other, from whatever brokers they are.
    """

    def make_task(shares: Sequence[Share], weight: int) -> ExportTask:
        # A log that is not larger than a file has one, and shares it.
        pieces = max(ceil(weight / order.file_bytes), 1)
        layout = FileLayout(pieces, ceil(weight / pieces), order.hourly)
        to, rights = destination.folder, destination.rights
        return ExportTask(tuple(shares), to, rights, order.form, order.selection, layout)

    for _, topic_parts in groupby(parts, key=lambda part: part.topic):
        shares: list[Share] = []
        weight = 0
        for share in chain.from_iterable(part.shares for part in topic_parts):
            if shares and weight + share.weight > order.file_bytes:
                yield make_task(shares, weight)
                shares, weight = [], 0
            shares.append(share)
            weight += share.weight
        if shares:
            yield make_task(shares, weight)


def _run_tasks(
    tasks: Sequence[ExportTask],
    limit: int | None,
    spread: Spread,
    on_progress: Callable[[int], None] | None,
) -> Iterator[tuple[int, Any]]:
    """Yield task numbers with results; with a limit run tasks one by one until it is reached."""
    sizes = [sum(share.log.size for share in task.shares) for task in tasks]
    if limit is None:
        report = None if on_progress is None else progress_counter(sum(sizes), on_progress)
        yield from spread(export_logs, tasks, sizes, careful=unmap, on_progress=report)
        return
    for number, task in enumerate(tasks):
        if limit <= 0:
            return
        limited = replace(task, selection=replace(task.selection, limit=limit))
        for _, result in spread(export_logs, [limited], [sizes[number]], careful=unmap):
            if isinstance(result, ExportResult):
                limit -= sum(log.records for file in result.files for log in file.logs)
            yield number, result


def _take_files(
    results: Sequence[tuple[ExportTask, ExportResult]], destination: Destination
) -> Iterator[FileEntry]:
    """Give the files of all tasks their names, numbered in the order of the tasks."""
    digits = max(len(str(sum(len(result.files) for _, result in results))), _DIGITS)
    number = 0
    for task, result in results:
        topic = task.shares[0].log.origin.topic
        for made in result.files:
            name = file_name(topic, made.hour, f"{number:0{digits}d}", task.form.value)
            destination.take(made.file.path, name)
            yield FileEntry(name, made.file.bytes, made.file.sha256, made.logs)
            number += 1


def _of_part(part: ExportPart, remote: Mapping[TopicPartition, Ranges]) -> Ranges:
    if part.topic is None or part.partition is None:
        return ()
    return remote.get((part.topic, part.partition), ())


def _compacted(part: ExportPart, unsure: Collection[AnyPath]) -> bool | None:
    """Return whether logs may be compacted, None if that is unknown, or batches differ from it."""
    if None in part.compacted or any(share.log.path in unsure for share in part.shares):
        return None
    return any(part.compacted)


def _entries(
    parts: Sequence[ExportPart],
    files: Sequence[FileEntry],
    results: Sequence[tuple[ExportTask, ExportResult]],
    remote: Mapping[TopicPartition, Ranges],
) -> Iterator[PartitionEntry]:
    """Yield what the export has of each part, and of ``remote`` without a part."""
    files_by_log: dict[str, list[tuple[FileEntry, Ledger]]] = defaultdict(list)
    for file in files:
        for ledger in file.logs:
            files_by_log[ledger.path].append((file, ledger))
    below = {
        share.log.path: count
        for task, result in results
        for share, count in zip(task.shares, result.below_log_start, strict=True)
    }
    deleted = {
        share.log.path: offsets
        for task, result in results
        for share, offsets in zip(task.shares, result.deleted, strict=False)
        if offsets is not None
    }
    unsure = {
        share.log.path
        for task, result in results
        for share, is_unsure in zip(task.shares, result.unsure, strict=True)
        if is_unsure
    }
    for part in parts:
        found = [
            pair
            for share in part.shares
            for pair in files_by_log.get(share.log.origin.source_file, ())
        ]
        part_files = {file.path: file for file, _ in found}
        entry = partition_entry(
            part.topic, part.partition, part_files.values(), [ledger for _, ledger in found]
        )
        count = sum(below.get(share.log.path, 0) for share in part.shares)
        entry = replace(
            entry,
            log_start=part.log_start,
            below_log_start=count,
            remote=_of_part(part, remote),
            deleted=join(
                deleted[share.log.path] for share in part.shares if share.log.path in deleted
            ),
            compacted=_compacted(part, unsure),
        )
        committed = part.committed
        if committed is not None:
            end = None if committed.end == HIGHEST else committed.end
            entry = replace(entry, end=end, undecided=committed.undecided)
        if part.merged is not None:
            merged = part.merged
            start = LOWEST if part.log_start is None else part.log_start
            entry = replace(
                entry,
                conflicts=tuple(each for each in merged.conflicts if each.last >= start),
                overtaken=tuple(each for each in merged.overtaken if each.last >= start),
            )
        yield entry
    exported = {(part.topic, part.partition) for part in parts}
    for (topic, partition), ranges in sorted(remote.items()):
        if (topic, partition) not in exported:
            yield replace(partition_entry(topic, partition, (), ()), remote=ranges)
