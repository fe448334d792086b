"""salvage(): the new partition directory, from reading to receipt.

Batches are copied byte for byte with their offsets. The files beside the logs are rebuilt. If the
marker of a transaction is missing, a new marker is written.

Spec: ``LogSegment``, ``LogLoader``; KOD 2, 5.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit.checks.repair_records import note_listed_gaps
from kdump.audit.checks.transactions import TRANSACTION_END_LOST
from kdump.audit.facts.small_files import PartitionFacts, read_partition_facts
from kdump.audit.replay.fates import LostEnd, evidence_of
from kdump.audit.replay.replay import Replay, replay
from kdump.audit.run.gather import gather
from kdump.audit.startup.inputs import violations
from kdump.audit.startup.outcome import RejectedBatch
from kdump.audit.survey.compaction import missing_means_lost
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.commands.salvage.backup import Backup
from kdump.commands.salvage.logs import SalvagedLog, log_name, new_logs, old_position
from kdump.commands.salvage.lost_markers import findings_of, replacement_markers, transaction_ends
from kdump.commands.salvage.marker import NewMarker
from kdump.commands.salvage.merging import MergedLog
from kdump.commands.salvage.offset_gaps import OffsetGap, batch_gaps, missing_segments, offset_gaps
from kdump.commands.salvage.receipt import Salvaged, encode
from kdump.commands.salvage.selection import PieceSelection, leave_out, select_pieces
from kdump.commands.salvage.stretches import Left, Why, open_log
from kdump.commands.salvage.topic_id import topic_id_for
from kdump.errors import Refused
from kdump.format.snapshot import ProducerEntry
from kdump.repair.content.companions import companions, readable_files
from kdump.repair.content.producers import start_of
from kdump.repair.healing.alignment import BatchRun
from kdump.repair.healing.draft import Draft
from kdump.repair.healing.healing import clipped
from kdump.repair.newdir.building import Building, build_directory
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
    verify_result,
)
from kdump.repair.transaction.directories import read_as_owner
from kdump.repair.transaction.plan import log_directory_of
from kdump.storage.logdir import Partition, Segment, read_partition
from kdump.storage.names import PARTITION_METADATA, FileKind
from kdump.storage.paths import as_local
from kdump.storage.source import status_of
from kdump.storage.walk import Reason

#: Free space for the receipt, snapshots and directories, beside the logs and indexes.
_SPARE_BYTES: Final = 1 << 20
_FILE_BYTES: Final = 16 << 10  # the small files of a segment, in whole blocks
#: A log has at least so many bytes for each byte of its indexes.
_INDEX_PART: Final = 64


def salvage(
    target: Target,
    context: Context,
    output: Path,
    *,
    hunted: bool,
    backup: Backup | None = None,
    topic_id: str | None = None,
    merged: MergedLog | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> Salvaged:
    """Write every sound batch of a partition to a new directory in ``output``.

    ``hunted``: include batches that a search after damage has found. ``backup``: read the logs of
    this backup, not those of the partition. ``topic_id`` overrides the topic id in the files.
    ``merged``: read the logs that several copies give together; ``target`` is its target.
    ``report`` is called with counts of bytes that were read. Raises Refused, SourceError, OSError;
    none of them leaves files behind. Raises Unfinished if the new directory is complete, and its
    sync failed.
    """
    if target.partition is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    with read_as_owner(as_local(target.path)):
        return _salvage(
            target,
            context,
            output,
            hunted=hunted,
            backup=backup,
            topic_id=topic_id,
            merged=merged,
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
    merged: MergedLog | None,
    report: Callable[[int], None],
) -> Salvaged:
    started, begun_ns = time.monotonic(), time.time_ns()
    if backup is not None:
        target = replace(target, partition=backup.partition, segments=backup.partition.segments)
    facts = gather(target, context)
    if facts is None or facts.partition.name is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    partition, destination = facts.partition, destination_of(facts.partition, output)
    identified = topic_id_for(facts, context.node(target), topic_id)
    status = status_of(partition.path)
    segments, notes = _segments(partition)
    starts = None if backup is None else backup.starts
    compacted = facts.settings.compacted
    selection = select_pieces(
        segments,
        hunted=hunted,
        compacted=compacted,
        starts=starts,
        opener=open_log if merged is None else merged.open,
        is_confirmed=None if merged is None else merged.is_confirmed,
        report=report,
    )
    if merged is not None:
        errors = dict.fromkeys((*merged.errors, *selection.errors))
        selection = replace(selection, errors=tuple(errors))
    _check_space(selection, facts, output)
    with build_directory(destination, as_local(partition.path)) as building:
        writer = _Writer(building, facts)
        selection, surveys, replayed = writer.write(selection)
        if identified.content is not None:
            building.put(PARTITION_METADATA, [identified.content])
        ends = transaction_ends(writer.ends, selection.markers, replayed)
        notes += [*name_notes(partition), *identified.notes, *writer.notes]
        notes += () if merged is None else merged.notes
        notes += _notes(facts, selection, replayed)
        source = as_local(partition.path) if backup is None else backup.path
        arguments = (
            os.fspath(source),
            *(() if merged is None else map(str, merged.copies[1:])),
            *(("--hunted",) if hunted else ()),
            *(() if topic_id is None else ("--topic-id", topic_id)),
        )
        start, end = surveys[0].segment.base_offset, replayed.end_offset
        plan = plan_of(building, "salvage", arguments, destination, start, end, notes)
        missing = tuple(offset_gaps(selection, whole=compacted is False))
        listed = {(gap.first, gap.last) for gap in missing if gap.last is not None}
        verdict = verify_result(building, facts.settings)
        # Those about transactions come from ``ends``.
        findings = (
            finding for finding in verdict.findings if finding.code is not TRANSACTION_END_LOST
        )
        salvaged = Salvaged(
            plan.id,
            source,
            destination,
            (status.st_dev, status.st_ino),
            dict(building.files),
            tuple(notes),
            (
                *note_listed_gaps(listed, findings, verdict.surveys),
                *findings_of(ends, replayed),
            ),
            begun_ns,
            round(time.monotonic() - started, 3),
            selection,
            new_logs(selection),
            end,
            missing,
            replayed.open,
            ends,
            # The logs of a backup do not replace the partition.
            log_directory_of(target) if backup is None else None,
            () if merged is None else tuple(_runs_in(selection, merged)),
            () if merged is None else merged.copies,
        )
        leave_receipt(building, plan, salvaged, encode(salvaged))
    return salvaged


class _Writer:
    """Writes the files of one salvage."""

    def __init__(self, building: Building, facts: PartitionFacts) -> None:
        self.notes: list[str] = []
        self.ends: tuple[LostEnd, ...] = ()
        self._building, self._facts = building, facts
        self._settings = facts.settings
        self._written: dict[str, SalvagedLog] = {}
        self._surveys: dict[str, Survey] = {}

    def write(self, selection: PieceSelection) -> tuple[PieceSelection, tuple[Survey, ...], Replay]:
        """Write all files; return the final selection, and surveys and replay of the new logs."""
        for path in readable_files(self._facts):
            copy_file(self._building, path)
        while True:
            logs = new_logs(selection)
            self._write_logs(selection, logs)
            surveys = tuple(self._surveys[log_name(log)] for log in logs)
            replayed = self._replay(surveys)
            refused = self._refused(surveys, replayed)
            if refused:
                # The refused batches may be new markers, so all markers are decided again.
                selection = replace(_without(selection, logs, refused), markers=())
                continue
            ends, markers = self._lost_ends(selection, surveys)
            if not markers:
                self.ends = (*(marker.end for marker in selection.markers), *ends)
                break
            written = sorted((*selection.markers, *markers), key=lambda marker: marker.offset)
            selection = replace(selection, markers=tuple(written))
        for name, content in companions(replayed, self._facts):
            self._building.put(name, [content])
        start = start_of(self._facts, surveys)
        if isinstance(start, str):
            self.notes.append(f"producers before the first batch are unknown: {start}")
        return selection, surveys, replayed

    def _missing(
        self, selection: PieceSelection, surveys: Sequence[Survey]
    ) -> tuple[OffsetGap, ...]:
        """Return the gaps where a marker may be missing; ``surveys`` are of the new logs."""
        whole = missing_means_lost(
            self._settings.compacted,
            gaps=batch_gaps(selection),
            cleaned=any(survey.cleaned for survey in surveys),
        )
        return tuple(offset_gaps(selection, whole=whole))

    def _replay(self, surveys: Sequence[Survey]) -> Replay:
        return replay(surveys, self._start(surveys), compacted=self._settings.compacted)

    def _start(self, surveys: Sequence[Survey]) -> tuple[ProducerEntry, ...]:
        start = start_of(self._facts, surveys)
        return () if isinstance(start, str) else start

    def _lost_ends(
        self, selection: PieceSelection, surveys: Sequence[Survey]
    ) -> tuple[tuple[LostEnd, ...], tuple[NewMarker, ...]]:
        """Return the transactions without a marker, and the markers to write for them."""
        missing = self._missing(selection, surveys)
        evidence = evidence_of(
            self._facts, selection.segments, missing_segments(selection, missing)
        )
        return replacement_markers(selection, missing, surveys, self._start(surveys), evidence)

    def _write_logs(self, selection: PieceSelection, logs: Sequence[SalvagedLog]) -> None:
        """Write the logs that are missing or differ; remove the logs that are not in ``logs``."""
        by_name = {log_name(log): log for log in logs}
        for name in set(self._written) - set(by_name):
            for file_name in files_of(self._written.pop(name).base_offset):
                self._building.remove(file_name)
        for name, log in by_name.items():
            if self._written.get(name) != log:
                self._write_log(selection, log)
                self._written[name] = log

    def _write_log(self, selection: PieceSelection, log: SalvagedLog) -> None:
        origin, identity = selection.segments[log.number].log, selection.identities[log.number]
        # A log that the preferred copy lacks gets the attributes of the directory's files.
        existing = (segment.log for segment in selection.segments if segment.log.exists())
        like = self._building.attributes(as_local(origin if origin.exists() else next(existing)))
        mtime_ns = None if identity is None else identity.mtime_ns
        name, base_offset = log_name(log), log.base_offset
        self._building.put(name, log.pieces(selection), like, mtime_ns)
        survey = survey_of(self._building, name, base_offset, self._settings)
        self.notes += put_indexes(self._building, base_offset, survey.rebuilt, like, self._settings)
        self._surveys[name] = replace(survey, rebuilt=None)

    def _refused(self, surveys: Sequence[Survey], replayed: Replay) -> tuple[RejectedBatch, ...]:
        """Return the batches at which a broker stops when it replays the new logs."""
        partition = replace(read_partition(self._building.path), name=self._facts.partition.name)
        facts = read_partition_facts(partition, None, self._settings, stopped=True)
        return violations(facts, surveys, replayed)


def _without(
    selection: PieceSelection, logs: Sequence[SalvagedLog], refused: Sequence[RejectedBatch]
) -> PieceSelection:
    for log in logs:
        positions = {
            old_position(log, violation.position)
            for violation in refused
            if violation.base_offset == log.base_offset
        }
        if positions:
            selection = leave_out(selection, log.number, sorted(positions))
    return selection


def _runs_in(selection: PieceSelection, merged: MergedLog) -> Iterator[tuple[Draft, BatchRun]]:
    """Yield the batches of other copies that are taken, with the log that they are in."""
    for draft, run in merged.runs:
        for stretch in selection.stretches:
            if selection.segments[stretch.log] == draft.segment:
                yield from ((draft, part) for part in clipped(run, stretch.start, stretch.stop))


def _segments(partition: Partition) -> tuple[tuple[Segment, ...], list[str]]:
    """Return the segments to read, one for each base offset, and notes on them.

    A segment that a broker has marked as deleted, or has not swapped in, is read only if no other
    segment has its base offset.
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
    not_read = [segment.log.name for segment in partition.transient if segment.log not in used]
    not_read += [entry.name.name for entry in partition.entries if entry.name.kind is FileKind.LOG]
    if not_read:
        notes.append(f"not read: {', '.join(sorted(not_read))}")
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
            "batches that a search found after corruption: "
            f"{sum(left.batches for left in hunted)}. "
            "They may be values of records that hold batches; --hunted takes them. Those in parts "
            f"that reach the end of their log are no values: {sure}"
        )
    if replayed.open:
        yield (
            f"transactions without an end: {len(replayed.open)}. Consumers with read_committed "
            f"stop at offset {replayed.open[0].first_offset} until all of them have ended; "
            "kafka-transactions.sh aborts one that hangs"
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
            "their offsets again. If another replica is in sync, start its broker instead"
        )


def _ends_its_log(left: Left, selection: PieceSelection) -> bool:
    """Return whether only preallocated zeros follow: then the piece is not part of a value.

    After a value, the rest of its record would follow.
    """
    return not any(
        piece.log == left.log and piece.start >= left.stop
        for piece in selection.pieces
        if not (isinstance(piece, Left) and piece.why is Reason.PREALLOCATED)
    )


def _check_space(selection: PieceSelection, facts: PartitionFacts, output: Path) -> None:
    taken = sum(stretch.stop - stretch.start for stretch in selection.stretches)
    logs = len(selection.segments)
    producers = max((len(read.value) for read in facts.snapshots.values() if read.value), default=0)
    needed = taken + min(taken // _INDEX_PART, 2 * logs * facts.settings.segment_index_bytes)
    needed += (logs + 1) * (_FILE_BYTES + 46 * producers) + _SPARE_BYTES
    check_space(output, needed)
