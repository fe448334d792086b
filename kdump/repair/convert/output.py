"""convert_to(): the conversion of a partition to a new directory.

Logs that hold nothing of the kind are copied byte for byte, and so are the files beside them;
indexes are made anew.

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
from kdump.errors import Refused
from kdump.format.codecs import Codec
from kdump.repair.content.epochs import old_epochs
from kdump.repair.convert.notes import DELETED_NOTE, readers_note
from kdump.repair.convert.plan import COMMAND
from kdump.repair.convert.receipt import ConvertedCopy, encode
from kdump.repair.convert.segments import New, Old, SegmentWriter, inspect
from kdump.repair.newdir.appearance import building
from kdump.repair.newdir.output import (
    check_space,
    copy_file,
    destination_of,
    leave_receipt,
    name_notes,
    plan_of,
    source_notes,
    verified,
)
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.rewrite.each_log import each_log
from kdump.repair.rewrite.preconditions import refuse_damaged
from kdump.repair.transaction.directories import read_as_owner
from kdump.repair.transaction.fingerprint import refuse_swaps
from kdump.repair.transaction.lock import unfinished, ways_on
from kdump.storage.logdir import EntryType, Partition
from kdump.storage.names import FileKind
from kdump.storage.source import status_of

#: What is left free beside what is written: for indexes, the receipt and directories.
_SPARE_BYTES: Final = 1 << 20
#: What is copied as it is, beside producer snapshots and transaction indexes of segments.
_COPIED: Final = frozenset(
    {
        FileKind.SNAPSHOT,
        FileKind.METADATA_SNAPSHOT,
        FileKind.LEADER_EPOCHS,
        FileKind.PARTITION_METADATA,
        FileKind.QUORUM_STATE,
    }
)
#: How many files that are left out are named.
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
    """Write a partition to a new directory in ``output``, all its records in magic 2.

    With several ``jobs`` segments are read in so many forked workers. ``report`` is called with
    counts of bytes that were read. Where nothing is of magic 0 or 1, nothing is written. Raises
    Refused, SourceError, OSError; each leaves nothing behind.
    """
    if target.error is not None:
        raise target.error
    if target.partition is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    with read_as_owner(target.path):
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
    one = unfinished(partition.path)
    if one is not None:
        raise Refused(
            f"{partition.path}: expected no interrupted repair, found {one.id}: "
            f"{ways_on(one, partition.path)}"
        )
    status = status_of(partition.path)
    nothing = ConvertedCopy(
        id="",
        partition=partition.path,
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
    olds = each_log(
        lambda old, _: inspect(old), _segments(target), _log_of, jobs=jobs, report=report
    )
    olds = list(_with_epochs(olds, facts))
    legacy = any(old.legacy for old in olds)
    if not legacy or name.suffix == "delete":
        report(sum(old.size for old in olds))
        return replace(nothing, notes=(DELETED_NOTE,) if legacy else ())
    refuse_swaps(partition)
    copied, left = _companions(partition)
    _check_space(output, olds, copied, rules)
    with building(destination, partition.path) as made:
        for path in copied:
            copy_file(made, path)
        writer = SegmentWriter(made, facts, rules, jobs=jobs, tasks=len(olds))
        news = _written(writer, olds, jobs, report, destination, made.lock)
        for new in news:
            made.files.update(new.files)
        first = olds[0].segment.base_offset
        notes = [
            *name_notes(partition),
            *(note for new in news for note in new.notes),
            *source_notes(facts, first),
            *_notes(rules, left),
        ]
        verdict = verified(made, facts.settings, jobs)
        refuse_damaged(verdict.surveys, partition.path)
        end = None if verdict.replay is None else verdict.replay.end_offset
        arguments = (os.fspath(partition.path), *_options(rules))
        plan = plan_of(made, COMMAND, arguments, destination, first, end, notes)
        copy = replace(
            nothing,
            id=plan.id,
            files=dict(made.files),
            notes=tuple(notes),
            findings=verdict.findings,
            seconds=round(time.monotonic() - started, 3),
            logs=tuple(new.log for new in news if new.log is not None),
            untouched=tuple(old.segment.log.name for old in olds if not old.legacy),
            log_start=first,
            log_end=end,
        )
        leave_receipt(made, plan, copy, encode(copy))
    return copy


def _written(
    writer: SegmentWriter,
    olds: Sequence[Old],
    jobs: int,
    report: Callable[[int], None],
    destination: Path,
    lock: int,
) -> list[New]:
    """What the writer has made of every segment; workers do not keep ``lock`` open."""

    def write(old: Old, told: Callable[[int], None]) -> New:
        try:
            return writer.write(old, told)
        except OSError as error:  # which a worker could not hand over
            raise Refused(f"{destination}: nothing was written: {error}") from error

    return each_log(write, olds, _log_of, jobs=jobs, report=report, close_descriptors=(lock,))


def _segments(target: Target) -> list[Old]:
    """The segments in order, none of them looked at yet."""
    following = [segment.base_offset for segment in target.segments[1:]]
    return [
        Old(
            segment,
            target.is_sealed(segment),
            next_base,
            growing=not (target.stopped or target.is_sealed(segment)),
        )
        for segment, next_base in zip_longest(target.segments, following)
    ]


def _with_epochs(olds: Iterable[Old], facts: PartitionFacts) -> Iterator[Old]:
    """The same segments with the leader epochs of their old messages."""
    known = () if facts.epochs is None else facts.epochs.value or ()
    newest = -1
    for old in olds:
        epochs = old_epochs(known, newest, old.segment.base_offset, old.next_base)
        yield replace(old, epochs=epochs)
        newest = max(newest, old.newest_epoch)


def _log_of(old: Old) -> Path:
    return old.segment.log


def _companions(partition: Partition) -> tuple[list[Path], list[str]]:
    """The files beside the logs that are copied, and the names of all that is left out."""
    copied = [one.snapshot for one in partition.segments if one.snapshot is not None]
    left = [one.log.name for one in partition.transient]
    for entry in partition.entries:
        name = entry.name
        plain = entry.type is EntryType.FILE and not name.suffix and name.canonical
        if plain and name.kind in _COPIED:
            copied.append(entry.path)
        elif name.kind is not FileKind.KDUMP:
            left.append(name.name)
    return copied, sorted(left)


def _check_space(output: Path, olds: Iterable[Old], copied: Iterable[Path], rules: Rules) -> None:
    """Raise Refused unless there is as much of it as the old files take.

    What is going to be compressed does not count: it may become small.
    """
    smaller = rules.codec not in (None, Codec.NONE)
    needed = sum(path.stat().st_size for path in copied) + _SPARE_BYTES
    needed += sum(old.size for old in olds if not (smaller and old.legacy))
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
