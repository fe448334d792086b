"""salvage(): the new partition directory, from reading to receipt.

Spec: ``LogSegment``, ``LogLoader``; KOD 2, 5. The batches are copied byte for byte with their
offsets, and the files beside them made anew. Where the marker of a transaction is missing, another
is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit.checks.repair_records import note_listed_gaps
from kdump.audit.facts.small_files import PartitionFacts, read_partition_facts
from kdump.audit.replay.fates import FateEvidence, LostEnd, evidence_of
from kdump.audit.replay.replay import Replay, replay
from kdump.audit.run.gather import gather
from kdump.audit.startup.inputs import violations
from kdump.audit.startup.outcome import Violation
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.errors import Refused
from kdump.format.snapshot import ProducerEntry
from kdump.repair.content.companions import companions, copied
from kdump.repair.content.producers import start_of
from kdump.repair.newdir.appearance import Building, building
from kdump.repair.newdir.output import (
    check_space,
    copy_file,
    destination_of,
    files_of,
    leave_receipt,
    name_notes,
    plan_of,
    put_indexes,
    source_notes,
    survey_of,
    verified,
)
from kdump.repair.salvage.backup import Backup
from kdump.repair.salvage.logs import NewLog, log_name, new_logs, old_position
from kdump.repair.salvage.lost_markers import findings_of, replacements, results
from kdump.repair.salvage.marker import NewMarker
from kdump.repair.salvage.offset_gaps import offset_gaps
from kdump.repair.salvage.receipt import Salvaged, encode
from kdump.repair.salvage.selection import PieceSelection, select_pieces, without
from kdump.repair.salvage.stretches import Left, Why
from kdump.repair.salvage.topic_id import topic_id_for
from kdump.repair.transaction.directories import read_as_owner
from kdump.storage.logdir import Partition, Segment, read_partition
from kdump.storage.names import PARTITION_METADATA, FileKind
from kdump.storage.source import status_of
from kdump.storage.walk import Reason

#: What is left free beside what is written: for the receipt, snapshots and directories.
_SPARE_BYTES: Final = 1 << 20
_FILE_BYTES: Final = 16 << 10  # of the small files of a segment, whole blocks
#: A batch of one record and its entries in both indexes, at the most one in so many bytes.
_INDEX_PART: Final = 64


def salvage(
    target: Target,
    context: Context,
    output: Path,
    *,
    hunted: bool,
    backup: Backup | None = None,
    topic_id: str | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> Salvaged:
    """Write every sound batch of a partition to a new directory in ``output``.

    ``hunted``: also those found by hunting behind damage. ``backup``: those of the logs in it, not
    those of the partition. ``topic_id`` goes before the one that files have. ``report`` is called
    with counts of bytes that were read. Raises Refused, SourceError, OSError; each leaves nothing
    behind.
    """
    if target.partition is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    with read_as_owner(target.path):
        return _salvage(
            target,
            context,
            output,
            hunted=hunted,
            backup=backup,
            topic_id=topic_id,
            report=report,
        )


def _salvage(
    target: Target,
    context: Context,
    output: Path,
    *,
    hunted: bool,
    backup: Backup | None,
    topic_id: str | None,
    report: Callable[[int], None],
) -> Salvaged:
    started, begun_ns = time.monotonic(), time.time_ns()
    directory = target.directory
    if backup is not None:
        target = replace(target, partition=backup.partition, segments=backup.partition.segments)
    facts = gather(target, context)
    if facts is None or facts.partition.name is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    partition, destination = facts.partition, destination_of(facts.partition, output)
    identified = topic_id_for(facts, context.node(target), topic_id)
    status = status_of(partition.path)
    whole = facts.settings.compacted is False
    segments, notes = _segments(partition)
    starts = None if backup is None else backup.starts
    selection = select_pieces(segments, hunted=hunted, whole=whole, starts=starts, report=report)
    _check_space(selection, facts, output)
    with building(destination, partition.path) as made:
        work = _Work(made, facts)
        selection, surveys, replayed = work.write(selection)
        if identified.content is not None:
            made.put(PARTITION_METADATA, [identified.content])
        ends = results(work.ends, selection.markers, replayed)
        notes += [*name_notes(partition), *identified.notes, *work.notes]
        notes += _notes(facts, selection, replayed)
        source = partition.path if backup is None else backup.path
        arguments = (
            os.fspath(source),
            *(("--hunted",) if hunted else ()),
            *(() if topic_id is None else ("--topic-id", topic_id)),
        )
        start, end = surveys[0].segment.base_offset, replayed.end_offset
        plan = plan_of(made, "salvage", arguments, destination, start, end, notes)
        missing = tuple(offset_gaps(selection, whole=whole))
        listed = [(gap.first, gap.last) for gap in missing if gap.last is not None]
        found = verified(made, facts.settings)
        salvaged = Salvaged(
            plan.id,
            source,
            destination,
            (status.st_dev, status.st_ino),
            dict(made.files),
            tuple(notes),
            (*note_listed_gaps(listed, found.findings), *findings_of(ends, replayed)),
            begun_ns,
            round(time.monotonic() - started, 3),
            selection,
            new_logs(selection),
            end,
            missing,
            replayed.open,
            ends,
            # What a backup holds does not replace the partition.
            directory.directory.path if directory is not None and backup is None else None,
        )
        leave_receipt(made, plan, salvaged, encode(salvaged))
    return salvaged


class _Work:
    """The files of one salvage, as they are written."""

    def __init__(self, made: Building, facts: PartitionFacts) -> None:
        self.notes: list[str] = []
        self.ends: tuple[LostEnd, ...] = ()
        self._made, self._facts = made, facts
        self._settings = facts.settings
        self._written: dict[str, NewLog] = {}
        self._surveys: dict[str, Survey] = {}

    def write(self, selection: PieceSelection) -> tuple[PieceSelection, tuple[Survey, ...], Replay]:
        """Write all files; returns what was picked in the end, and what the new logs come to."""
        for path in copied(self._facts):
            copy_file(self._made, path)
        evidence = evidence_of(self._facts, selection.segments)
        while True:
            logs = new_logs(selection)
            self._write_logs(selection, logs)
            surveys = tuple(self._surveys[log_name(log)] for log in logs)
            replayed = self._replay(surveys)
            refused = self._refused(surveys, replayed)
            if refused:
                # What goes with them may be a marker too.
                selection = replace(_without(selection, logs, refused), markers=())
                continue
            ends, markers = self._lost(selection, surveys, evidence)
            if not markers:
                self.ends = (*(marker.end for marker in selection.markers), *ends)
                break
            written = sorted((*selection.markers, *markers), key=lambda marker: marker.offset)
            selection = replace(selection, markers=tuple(written))
        for name, content in companions(replayed, self._facts):
            self._made.put(name, [content])
        start = start_of(self._facts, surveys)
        if isinstance(start, str):
            self.notes.append(f"producers before the first batch are unknown: {start}")
        return selection, surveys, replayed

    def _replay(self, surveys: Sequence[Survey]) -> Replay:
        return replay(surveys, self._start(surveys), compacted=self._settings.compacted)

    def _start(self, surveys: Sequence[Survey]) -> tuple[ProducerEntry, ...]:
        start = start_of(self._facts, surveys)
        return () if isinstance(start, str) else start

    def _lost(
        self, selection: PieceSelection, surveys: Sequence[Survey], evidence: FateEvidence
    ) -> tuple[tuple[LostEnd, ...], tuple[NewMarker, ...]]:
        """The transactions without their marker, and those that can be written for them."""
        missing = tuple(offset_gaps(selection, whole=self._settings.compacted is False))
        return replacements(selection, missing, surveys, self._start(surveys), evidence)

    def _write_logs(self, selection: PieceSelection, logs: Sequence[NewLog]) -> None:
        """Write what is not there yet as it has to be."""
        wanted = {log_name(log): log for log in logs}
        for name in set(self._written) - set(wanted):
            for each in files_of(self._written.pop(name).base_offset):
                self._made.remove(each)
        for name, log in wanted.items():
            if self._written.get(name) != log:
                self._write_log(selection, log)
                self._written[name] = log

    def _write_log(self, selection: PieceSelection, log: NewLog) -> None:
        origin, identity = selection.segments[log.number].log, selection.identities[log.number]
        like = self._made.attributes(origin)
        mtime_ns = None if identity is None else identity.mtime_ns
        name, base_offset = log_name(log), log.base_offset
        self._made.put(name, log.pieces(selection), like, mtime_ns)
        found = survey_of(self._made, name, base_offset, self._settings)
        self.notes += put_indexes(self._made, base_offset, found.rebuilt, like, self._settings)
        self._surveys[name] = replace(found, rebuilt=None)

    def _refused(self, surveys: Sequence[Survey], replayed: Replay) -> tuple[Violation, ...]:
        """The batches that a broker stops at which replays the new logs."""
        partition = replace(read_partition(self._made.path), name=self._facts.partition.name)
        facts = read_partition_facts(partition, None, self._settings, stopped=True)
        return violations(facts, surveys, replayed)


def _without(
    selection: PieceSelection, logs: Sequence[NewLog], refused: Sequence[Violation]
) -> PieceSelection:
    for log in logs:
        positions = {
            old_position(log, one.position) for one in refused if one.base_offset == log.base_offset
        }
        if positions:
            selection = without(selection, log.number, sorted(positions))
    return selection


def _segments(partition: Partition) -> tuple[tuple[Segment, ...], list[str]]:
    """The segments to be read, one for each base offset, and what is to be said about them.

    What a broker had deleted, or was about to swap in, stands in where nothing else does.
    """
    chosen = {segment.base_offset: segment for segment in partition.segments}
    notes = []
    for suffix, what in (
        (".deleted", "which a broker had marked as deleted, is taken too"),
        (".swap", "which a broker had not yet swapped in, is taken too"),
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
        raise Refused(f"{partition.path}: expected at least 1 segment, found no log of a segment")
    return tuple(chosen[base] for base in sorted(chosen)), notes


def _notes(facts: PartitionFacts, selection: PieceSelection, replayed: Replay) -> Iterator[str]:
    first = replayed.segments[0].survey.segment.base_offset
    yield from source_notes(facts, first)
    hunted = [left for left in selection.left if left.why is Why.HUNTED]
    if hunted:
        sure = sum(left.batches for left in hunted if _ends_its_log(left, selection))
        yield (
            f"{sum(left.batches for left in hunted)} batches were found by a search after "
            "damage, and may be values of records that hold batches themselves: --hunted takes "
            f"them. Of these, {sure} lie in parts that reach the end of their log, and are surely "
            "no values"
        )
    if replayed.open:
        yield (
            f"{len(replayed.open)} transactions have no end. Consumers with read_committed stop "
            f"at offset {replayed.open[0].first_offset} until these transactions are aborted "
            "(kafka-transactions.sh)"
        )
    for log in new_logs(selection):
        origin = selection.segments[log.number]
        if log.base_offset != origin.base_offset:
            yield (
                f"{origin.log.name} is now {log_name(log)}, because the segment before it reaches "
                "beyond its base offset"
            )
    mark = facts.high_watermark
    if mark is not None and replayed.end_offset < mark:
        yield (
            f"the result ends at {replayed.end_offset}, BELOW the high watermark {mark}. "
            "Consumers may have read records that are missing at its end, and new records get "
            "their offsets again. If another replica is in sync, start that replica instead"
        )


def _ends_its_log(left: Left, selection: PieceSelection) -> bool:
    """Whether nothing but room follows; behind a value the rest of its record would."""
    return not any(
        one.log == left.log and one.start >= left.stop
        for one in selection.pieces
        if not (isinstance(one, Left) and one.why is Reason.PREALLOCATED)
    )


def _check_space(selection: PieceSelection, facts: PartitionFacts, output: Path) -> None:
    taken = sum(stretch.stop - stretch.start for stretch in selection.stretches)
    logs = len(selection.segments)
    producers = max((len(r.value) for r in facts.snapshots.values() if r.value), default=0)
    needed = taken + min(taken // _INDEX_PART, 2 * logs * facts.settings.segment_index_bytes)
    needed += (logs + 1) * (_FILE_BYTES + 46 * producers) + _SPARE_BYTES
    check_space(output, needed)
