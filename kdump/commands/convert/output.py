"""convert_to(): the conversion of a partition to a new directory.

Logs without old batches are copied byte for byte, with the files beside them. Indexes are rebuilt.

Spec: ``MemoryRecords.filterTo`` of 4.0 and later (KIP-724); KOD 2 and 6.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.run.gather import gather
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.commands.convert.notes import DELETED_NOTE, readers_note
from kdump.commands.convert.plan import COMMAND
from kdump.commands.convert.receipt import ConvertedCopy, encode
from kdump.commands.convert.segments import SegmentWriter, SourceSegment, WrittenSegment, inspect
from kdump.errors import Refused
from kdump.format.codecs import Codec
from kdump.repair.content.epochs import old_epochs
from kdump.repair.newdir.building import build_directory
from kdump.repair.newdir.output import (
    check_space,
    copy_file,
    destination_of,
    leave_receipt,
    name_notes,
    plan_of,
    source_notes,
    verify_result,
)
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.rewrite.log_workers import run_on_logs
from kdump.repair.rewrite.preconditions import refuse_damaged
from kdump.repair.transaction.directories import read_as_owner
from kdump.repair.transaction.fingerprint import refuse_swaps
from kdump.repair.transaction.lock import finish_or_undo, interrupted_repair
from kdump.storage.logdir import EntryType, Partition
from kdump.storage.names import FileKind
from kdump.storage.paths import as_local
from kdump.storage.source import status_of

#: Free space for indexes, the receipt and directories, beside the copied files.
_SPARE_BYTES: Final = 1 << 20
#: Kinds of files that are copied, beside producer snapshots and transaction indexes of segments.
_COPIED: Final = frozenset(
    {
        FileKind.SNAPSHOT,
        FileKind.METADATA_SNAPSHOT,
        FileKind.LEADER_EPOCHS,
        FileKind.PARTITION_METADATA,
        FileKind.QUORUM_STATE,
    }
)
#: File names that a note about left out files lists.
_NAMED: Final = 5
_USUAL: Final = Rules()


def convert_to(
    target: Target,
    context: Context,
    output: Path,
    rules: Rules,
    *,
    jobs: int,
    report: Callable[[int], None] = lambda _: None,
) -> ConvertedCopy:
    """Write a partition to a new directory in ``output``, with all records in magic 2.

    ``jobs`` forked workers read the segments, or this process if that is 1. ``report`` is called
    with counts of bytes that were read. Nothing is written if no log holds old batches. Raises
    Refused, SourceError, OSError; none of them leaves files behind. Raises Unfinished if the new
    directory is complete, and its sync failed.
    """
    if target.error is not None:
        raise target.error
    if target.partition is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    with read_as_owner(as_local(target.path)):
        return _convert_to(target, context, output, rules, jobs, report)


def _convert_to(
    target: Target,
    context: Context,
    output: Path,
    rules: Rules,
    jobs: int,
    report: Callable[[int], None],
) -> ConvertedCopy:
    started, begun_ns = time.monotonic(), time.time_ns()
    facts = gather(target, context)
    name = None if facts is None else facts.partition.name
    if facts is None or name is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    partition, destination = facts.partition, destination_of(facts.partition, output)
    repair = interrupted_repair(partition.path)
    if repair is not None:
        raise Refused(
            f"{partition.path}: expected no interrupted repair, found {repair.id}: "
            f"{finish_or_undo(repair, partition.path)}"
        )
    status = status_of(partition.path)
    empty = ConvertedCopy(
        id="",
        partition=as_local(partition.path),
        destination=destination,
        identity=(status.st_dev, status.st_ino),
        files={},
        notes=(),
        findings=(),
        begun_ns=begun_ns,
        seconds=0.0,
        rules=rules,
        logs=(),
        untouched=(),
        log_start=None,
        log_end=None,
    )
    origins = run_on_logs(
        lambda origin, _: inspect(origin), _segments(target), _log_of, jobs=jobs, report=report
    )
    origins = list(_with_epochs(origins, facts))
    legacy = any(origin.legacy for origin in origins)
    if not legacy or name.suffix == "delete":
        report(sum(origin.size for origin in origins))
        return replace(empty, notes=(DELETED_NOTE,) if legacy else ())
    refuse_swaps(partition)
    copied, left = _companions(partition)
    _check_space(output, origins, copied, rules)
    with build_directory(destination, as_local(partition.path)) as building:
        for path in copied:
            copy_file(building, path)
        writer = SegmentWriter(building, facts, rules, jobs=jobs, tasks=len(origins))
        segments = _write_segments(writer, origins, jobs, report, destination, building.lock)
        for segment in segments:
            building.files.update(segment.files)
        first = origins[0].segment.base_offset
        notes = [
            *name_notes(partition),
            *(note for segment in segments for note in segment.notes),
            *source_notes(facts, first),
            *_notes(rules, left),
        ]
        verdict = verify_result(building, facts.settings, jobs)
        refuse_damaged(verdict.surveys, partition.path)
        end = None if verdict.replay is None else verdict.replay.end_offset
        arguments = (os.fspath(partition.path), *_options(rules))
        plan = plan_of(building, COMMAND, arguments, destination, first, end, notes)
        copy = replace(
            empty,
            id=plan.id,
            files=dict(building.files),
            notes=tuple(notes),
            findings=verdict.findings,
            seconds=round(time.monotonic() - started, 3),
            logs=tuple(segment.log for segment in segments if segment.log is not None),
            untouched=tuple(origin.segment.log.name for origin in origins if not origin.legacy),
            log_start=first,
            log_end=end,
        )
        leave_receipt(building, plan, copy, encode(copy))
    return copy


def _write_segments(
    writer: SegmentWriter,
    origins: Sequence[SourceSegment],
    jobs: int,
    report: Callable[[int], None],
    destination: Path,
    lock: int,
) -> list[WrittenSegment]:
    """Write every segment; workers close their copy of the descriptor ``lock``."""

    def write(origin: SourceSegment, on_progress: Callable[[int], None]) -> WrittenSegment:
        try:
            return writer.write(origin, on_progress)
        except OSError as error:  # a worker cannot return it
            raise Refused(f"{destination}: nothing was written: {error}") from error

    return run_on_logs(write, origins, _log_of, jobs=jobs, report=report, close_descriptors=(lock,))


def _segments(target: Target) -> list[SourceSegment]:
    """Return the segments in order, without the content of their logs."""
    following = [segment.base_offset for segment in target.segments[1:]]
    return [
        SourceSegment(
            segment,
            target.is_sealed(segment),
            next_base,
            growing=not (target.stopped or target.is_sealed(segment)),
        )
        for segment, next_base in zip_longest(target.segments, following)
    ]


def _with_epochs(
    origins: Iterable[SourceSegment], facts: PartitionFacts
) -> Iterator[SourceSegment]:
    """Yield the segments with the leader epochs of their old messages."""
    known = () if facts.epochs is None else facts.epochs.value or ()
    newest = -1
    for origin in origins:
        epochs = old_epochs(known, newest, origin.segment.base_offset, origin.next_base)
        yield replace(origin, epochs=epochs)
        newest = max(newest, origin.newest_epoch)


def _log_of(origin: SourceSegment) -> Path:
    return as_local(origin.segment.log)


def _companions(partition: Partition) -> tuple[list[Path], list[str]]:
    """Return the files beside the logs that are copied, and the names of those that are not."""
    copied = [
        as_local(segment.snapshot) for segment in partition.segments if segment.snapshot is not None
    ]
    left = [segment.log.name for segment in partition.transient]
    for entry in partition.entries:
        name = entry.name
        plain = entry.type is EntryType.FILE and not name.suffix and name.canonical
        if plain and name.kind in _COPIED:
            copied.append(as_local(entry.path))
        elif name.kind is not FileKind.KDUMP:
            left.append(name.name)
    return copied, sorted(left)


def _check_space(
    output: Path, origins: Iterable[SourceSegment], copied: Iterable[Path], rules: Rules
) -> None:
    """Raise Refused unless as many bytes are free as the old files have.

    Logs that will be compressed do not count, because they may become small.
    """
    smaller = rules.codec not in (None, Codec.NONE)
    needed = sum(path.stat().st_size for path in copied) + _SPARE_BYTES
    needed += sum(origin.size for origin in origins if not (smaller and origin.legacy))
    check_space(output, needed)


def _notes(rules: Rules, left: Sequence[str]) -> Iterator[str]:
    yield readers_note(rules)
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        yield f"not copied: {', '.join(left[:_NAMED])}{more}"


def _options(rules: Rules) -> Iterator[str]:
    if rules.batch_bytes != _USUAL.batch_bytes:
        yield from ("--batch-bytes", str(rules.batch_bytes))
    if rules.codec is not None:
        yield from ("--codec", rules.codec.label)
