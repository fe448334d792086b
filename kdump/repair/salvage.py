"""salvage(): a new partition directory with every sound batch of a damaged one.

Spec: ``LogSegment``, ``LogLoader``; KOD 2, 5. The batches are copied byte for byte with their
offsets, the files beside them made anew. It must never change the partition that it reads, nor
write inside a log directory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit.context import Context
from kdump.audit.facts import PartitionFacts, read_partition_facts
from kdump.audit.findings import Finding
from kdump.audit.gathering import gather
from kdump.audit.groups import Group
from kdump.audit.looking import violations
from kdump.audit.outcomes import Violation
from kdump.audit.replay import Replay, replay
from kdump.audit.survey import Survey, survey
from kdump.audit.verify import verify
from kdump.errors import Refused, SourceError
from kdump.repair.building import Building, building
from kdump.repair.companions import companions, copied
from kdump.repair.folder import Begun, Folder
from kdump.repair.holes import holes
from kdump.repair.picking import Picked, pick, without
from kdump.repair.plan import Plan
from kdump.repair.producers import start_of
from kdump.repair.salvaged import Salvaged, encode
from kdump.repair.salvaged_logs import NewLog, log_name, new_logs, old_position
from kdump.repair.stretches import Left, Why
from kdump.storage.logdir import Partition, Segment, is_log_directory, read_partition
from kdump.storage.names import (
    DirectoryName,
    FileKind,
    format_directory_name,
    format_file_name,
)
from kdump.storage.source import WINDOW_BYTES, open_source
from kdump.storage.walk import Reason

#: The longest name of a directory that a broker makes: it cuts the topic to stay within.
_LONGEST_NAME: Final = 255
#: What is left free beside what is written: for the receipt, snapshots and directories.
_SPARE_BYTES: Final = 1 << 20
_FILE_BYTES: Final = 16 << 10  # of the small files of a segment, whole blocks
#: A batch of one record and its entries in both indexes, at the most one in so many bytes.
_INDEX_PART: Final = 64


def target_of(partition: Partition, output: Path) -> Path:
    """Where a partition is salvaged to; raises Refused where that cannot be."""
    name = partition.name
    if name is None:
        raise Refused(
            f"{partition.path}: expected a directory called <topic>-<partition>, found another "
            "name: copy or link it under its name"
        )
    for directory in _around(output):
        if is_log_directory(directory):
            raise Refused(
                f"{output}: expected a place outside of log directories, found that "
                f"{directory} is one: a broker would load, or stop at, what is made there"
            )
        if _same(directory, partition.path):
            raise Refused(f"{output}: expected a place outside of what is read, found one inside")
    if not output.exists() and not output.parent.is_dir():
        raise Refused(f"{output.parent}: expected a directory, found none")
    if output.exists() and not output.is_dir():
        raise Refused(f"{output}: expected a directory, found something else")
    target = output / format_directory_name(name.topic, name.partition)
    if os.path.lexists(target):
        raise Refused(f"{target}: expected nothing there, found something: nothing is overwritten")
    return target


def salvage(
    group: Group,
    context: Context,
    output: Path,
    *,
    hunted: bool,
    report: Callable[[int], None] = lambda _: None,
) -> Salvaged:
    """Write every sound batch of a partition to a new directory in ``output``.

    ``hunted``: also those found by hunting behind damage. ``report`` is called with counts of bytes
    that were read. Raises Refused, SourceError, OSError; each leaves nothing behind.
    """
    started, begun_ns = time.monotonic(), time.time_ns()
    facts = gather(group, context)
    if facts is None or facts.partition.name is None:
        raise Refused(f"{group.path}: expected a partition directory called <topic>-<partition>")
    partition, target = facts.partition, target_of(facts.partition, output)
    status = partition.path.stat()
    whole = facts.settings.compacted is False
    segments, notes = _segments(partition)
    picked = pick(segments, hunted=hunted, whole=whole, report=report)
    _check_space(picked, facts, output)
    with building(target, partition.path) as made:
        work = _Work(made, facts)
        picked, surveys, replayed = work.write(picked)
        notes += [*_name_notes(partition), *work.notes, *_notes(facts, picked, replayed)]
        findings = _verified(made.path)
        plan = Plan(
            "salvage",
            (os.fspath(partition.path), *(("--hunted",) if hunted else ())),
            target,
            _identity(made.path),
            None,
            (),
            {},
            log_start=surveys[0].segment.base_offset,
            log_end=(None, replayed.end_offset),
            notes=tuple(notes),
        )
        salvaged = Salvaged(
            plan.id,
            partition.path,
            target,
            (status.st_dev, status.st_ino),
            picked,
            new_logs(picked),
            replayed.end_offset,
            tuple(holes(picked, whole=whole)),
            dict(made.files),
            replayed.open,
            tuple(notes),
            findings,
            begun_ns,
            round(time.monotonic() - started, 3),
        )
        folder = Folder(made.path, plan.id)
        folder.make(plan, made.like)
        folder.begin(Begun(begun_ns, {}, None))
        folder.finish(
            {
                "source": os.fspath(salvaged.partition),
                "target": os.fspath(salvaged.target),
                **encode(salvaged),
            }
        )
    return salvaged


class _Work:
    """The files of one salvage, as they are written."""

    def __init__(self, made: Building, facts: PartitionFacts) -> None:
        self.notes: list[str] = []
        self._made, self._facts = made, facts
        self._settings = facts.settings
        self._written: dict[str, NewLog] = {}
        self._surveys: dict[str, Survey] = {}

    def write(self, picked: Picked) -> tuple[Picked, tuple[Survey, ...], Replay]:
        """Write all files; returns what was picked in the end, and what the new logs come to."""
        for path in copied(self._facts):
            self._made.put(path.name, _pieces(path), self._made.attributes(path))
        while True:
            logs = new_logs(picked)
            self._write_logs(picked, logs)
            surveys = tuple(self._surveys[log_name(log)] for log in logs)
            replayed = self._replay(surveys)
            refused = self._refused(surveys, replayed)
            if not refused:
                break
            picked = _without(picked, logs, refused)
        for name, content in companions(replayed, self._facts):
            self._made.put(name, [content])
        start = start_of(self._facts, surveys)
        if isinstance(start, str):
            self.notes.append(f"producers before the first batch are not known: {start}")
        return picked, surveys, replayed

    def _replay(self, surveys: Sequence[Survey]) -> Replay:
        start = start_of(self._facts, surveys)
        return replay(
            surveys,
            () if isinstance(start, str) else start,
            compacted=self._settings.compacted,
        )

    def _write_logs(self, picked: Picked, logs: Sequence[NewLog]) -> None:
        """Write what is not there yet as it has to be."""
        wanted = {log_name(log): log for log in logs}
        for name in set(self._written) - set(wanted):
            for each in _files_of(self._written.pop(name)):
                self._made.remove(each)
        for name, log in wanted.items():
            if self._written.get(name) != log:
                self._write_log(picked, log)
                self._written[name] = log

    def _write_log(self, picked: Picked, log: NewLog) -> None:
        origin, identity = picked.segments[log.number].log, picked.identities[log.number]
        like = self._made.attributes(origin)
        mtime_ns = None if identity is None else identity.mtime_ns
        name, index, times = _files_of(log)
        self._made.put(name, log.pieces(picked), like, mtime_ns)
        segment = Segment(log.base_offset, self._made.path / name, None, None, None, None, "")
        room = 2 * self._settings.segment_index_bytes
        found = survey(
            segment,
            lambda _: None,
            mapped=False,
            sealed=False,
            deep=False,
            settings=self._settings,
            rebuild_room=room,
        )
        for unread in found.unread:
            raise SourceError(unread.path, unread.text)
        rebuilt = found.rebuilt
        if rebuilt is None or rebuilt.index.content is None or rebuilt.time_index.content is None:
            raise SourceError(origin, f"{origin}: its indexes are too large to be built")
        if rebuilt.full:
            self.notes.append(
                f"{name} needs more index entries than {self._settings.segment_index_bytes} bytes "
                "have room for: its indexes end before its end"
            )
        self._made.put(index, [rebuilt.index.content], like)
        self._made.put(times, [rebuilt.time_index.content], like)
        self._surveys[name] = replace(found, rebuilt=None)

    def _refused(self, surveys: Sequence[Survey], replayed: Replay) -> tuple[Violation, ...]:
        """The batches that a broker stops at which replays the new logs."""
        partition = replace(read_partition(self._made.path), name=self._facts.partition.name)
        facts = read_partition_facts(partition, None, self._settings, stopped=True)
        return violations(facts, surveys, replayed)


def _without(picked: Picked, logs: Sequence[NewLog], refused: Sequence[Violation]) -> Picked:
    for log in logs:
        positions = {
            old_position(log, one.position) for one in refused if one.base_offset == log.base_offset
        }
        if positions:
            picked = without(picked, log.number, sorted(positions))
    return picked


def _files_of(log: NewLog) -> tuple[str, str, str]:
    kinds = FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX
    log_name, index, times = (format_file_name(kind, log.base_offset) for kind in kinds)
    return log_name, index, times


def _segments(partition: Partition) -> tuple[tuple[Segment, ...], list[str]]:
    """The segments to be read, one for each base offset, and what is to be said about them.

    What a broker had deleted, or was about to swap in, stands in where nothing else does.
    """
    chosen = {segment.base_offset: segment for segment in partition.segments}
    notes = []
    for suffix, what in (
        (".deleted", "which a broker had deleted, is taken too"),
        (".swap", "which a broker had not swapped in yet, is taken too"),
    ):
        for segment in partition.transient:
            if segment.suffix == suffix and segment.base_offset not in chosen:
                chosen[segment.base_offset] = segment
                notes.append(f"{segment.log.name}, {what}")
    used = {segment.log for segment in chosen.values()}
    others = [segment.log.name for segment in partition.transient if segment.log not in used]
    others += [e.name.name for e in partition.entries if e.name.kind is FileKind.LOG]
    if others:
        notes.append(f"not read: {', '.join(sorted(others))}")
    if not chosen:
        raise Refused(f"{partition.path}: expected a segment's log in it, found none")
    return tuple(chosen[base] for base in sorted(chosen)), notes


def _name_notes(partition: Partition) -> Iterator[str]:
    if partition.name is not None and partition.name.suffix:
        yield f"the directory was called {partition.path.name}"
        if len(partition.path.name.encode()) >= _LONGEST_NAME:
            yield (
                "a broker cuts long topics short in such names: the topic may be longer than "
                f"{partition.name.topic}; the topic id in partition.metadata tells it"
            )


def _notes(facts: PartitionFacts, picked: Picked, replayed: Replay) -> Iterator[str]:
    if not facts.stopped:
        yield "a broker may be writing there: what it wrote meanwhile may be missing"
    hunted = [left for left in picked.left if left.why is Why.HUNTED]
    if hunted:
        sure = sum(left.batches for left in hunted if _ends_its_log(left, picked))
        yield (
            f"{sum(left.batches for left in hunted)} batches behind damage were found by hunting, "
            "and may be values of records that hold batches themselves: --hunted takes them. So "
            f"many go on to the end of their log, so that they are surely no values: {sure}"
        )
    if replayed.open:
        yield (
            f"{len(replayed.open)} transactions have no end: consumers of committed records stop "
            f"at offset {replayed.open[0].first_offset} until they are aborted "
            "(kafka-transactions.sh)"
        )
    first = replayed.segments[0].survey.segment.base_offset
    if facts.log_start is not None and facts.log_start > first:
        yield (
            f"the log start offset was {facts.log_start}, which stands in a checkpoint of the log "
            f"directory: records from {first} on that were deleted are in the result again"
        )
    for log in new_logs(picked):
        origin = picked.segments[log.number]
        if log.base_offset != origin.base_offset:
            yield (
                f"{origin.log.name} is now {log_name(log)}: the segment before it reaches beyond "
                "its base offset"
            )
    if facts.metadata is None or facts.metadata.error is not None:
        why = "is missing" if facts.metadata is None else f"is unusable ({facts.metadata.error})"
        yield f"partition.metadata {why}: a broker takes any topic id there"


def _ends_its_log(left: Left, picked: Picked) -> bool:
    """Whether nothing but room follows; behind a value the rest of its record would."""
    return not any(
        one.log == left.log and one.start >= left.stop
        for one in picked.pieces
        if not (isinstance(one, Left) and one.why is Reason.PREALLOCATED)
    )


def _check_space(picked: Picked, facts: PartitionFacts, output: Path) -> None:
    taken = sum(stretch.stop - stretch.start for stretch in picked.stretches)
    logs = len(picked.segments)
    producers = max((len(r.value) for r in facts.snapshots.values() if r.value), default=0)
    needed = taken + min(taken // _INDEX_PART, 2 * logs * facts.settings.segment_index_bytes)
    needed += (logs + 1) * (_FILE_BYTES + 46 * producers) + _SPARE_BYTES
    space = os.statvfs(output if output.exists() else output.parent)
    free = space.f_bavail * space.f_frsize
    if free < needed:
        raise Refused(f"{output}: expected {needed} free bytes, found {free}")


def _pieces(path: Path) -> Iterator[bytes]:
    with open_source(path, mapped=False) as source:
        for position in range(0, source.size, WINDOW_BYTES):
            yield bytes(source.window(position, WINDOW_BYTES)[:WINDOW_BYTES])


def _verified(path: Path) -> tuple[Finding, ...]:
    """What verify says of the new directory, which stands in no log directory."""
    partition = replace(read_partition(path), name=_final_name(path))
    group = Group(path, partition.segments, None, True, 0, partition=partition)
    context = Context(time.time_ns() // 1_000_000)
    with closing(verify([group], deep=False, jobs=1, context=context)) as judged:
        return tuple(finding for one in judged for finding in one.findings)


def _final_name(path: Path) -> DirectoryName:
    topic, _, number = path.name.removeprefix(".kdump.").removesuffix(".tmp").rpartition("-")
    return DirectoryName(topic, int(number))


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _around(path: Path) -> Iterator[Path]:
    """The directory ``path`` and all above it, by its spelling and by where that leads."""
    spelled = Path(os.path.normpath(Path.cwd() / path))
    yield from (spelled, *spelled.parents)
    real = Path(os.path.realpath(path))
    yield from (real, *real.parents)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
