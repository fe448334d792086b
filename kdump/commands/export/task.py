"""One task: reads some logs of a topic, and writes their records into files.

The files of one attempt get their final names. Another attempt leaves at most files that readers
ignore.

Beside a running broker, the cleaner replaces logs that are listed: the records of their offsets are
then in the logs that took their place. Retention removes logs, and nothing takes their place.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from kdump.commands.export.files import FileLayout, TaskFile, TaskFiles
from kdump.commands.export.output import FileFormat
from kdump.errors import SourceError, VanishedError
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.kernel import ranges as _ranges
from kdump.format.records import RecordReader
from kdump.output.destination import write_error
from kdump.storage.access import open_source
from kdump.storage.logdir import read_partition
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights
from kdump.storage.selection import HIGHEST, LOWEST, Selection
from kdump.storage.source import Source
from kdump.tables.committed.batches import CommittedFilter
from kdump.tables.committed.ranges import Ranges, join, overlap, packed
from kdump.tables.corruption import LIMIT, MISSING, CorruptRange
from kdump.tables.logs import Log, utf8
from kdump.tables.selected import SelectedRecords
from kdump.values import frozen

#: How often logs are looked for that a running broker replaces.
_ATTEMPTS: Final = 5


@frozen
class Share:
    """A log, and what of it is exported.

    ``start`` is the log start offset of the partition if records may lie below it: these are
    counted, and not exported. ``ranges`` are the offsets to export, None for all; ``committed``
    selects the batches.
    """

    log: Log
    start: int | None = None
    ranges: Ranges | None = None
    committed: CommittedFilter | None = None

    @property
    def weight(self) -> int:
        """The bytes that count for the size of files: none if no record of it is exported."""
        return 0 if self.ranges == () or self.hides(self.log.following) else self.log.size

    def hides(self, end: int | None) -> bool:
        """Return whether all offsets below ``end`` are below the log start offset.

        ``end`` is None for the end of the last log.
        """
        return self.start is not None and end is not None and end <= self.start


@frozen
class ExportTask:
    """``shares`` of one topic; their files are created in the directory ``to`` with ``rights``.

    ``mapped`` allows maps of logs that no broker is writing.
    """

    shares: tuple[Share, ...]
    to: AnyPath
    rights: Rights | None
    form: FileFormat
    selection: Selection
    layout: FileLayout
    mapped: bool = True


def unmap(task: ExportTask) -> ExportTask:
    """Return ``task`` for a second attempt: the first may have died of a log that was truncated."""
    return replace(task, mapped=False)


@frozen
class Trouble:
    """A part of a log that could not be exported: ``size`` bytes from ``position`` on.

    ``damaged``: the bytes were read and are damaged. Otherwise they could not be read.
    """

    path: str
    position: int | None
    size: int | None
    reason: str
    damaged: bool


def missing_result(log: Log, result: object) -> Trouble:
    """Return the trouble of a log whose task has the ``result`` of a death, or none."""
    why = getattr(result, "text", None) or getattr(result, "label", "no result")
    reason = f"expected a result of the task, found {why}"
    return Trouble(log.origin.source_file, None, None, reason, damaged=False)


@frozen
class ExportResult:
    """The result of a task.

    ``below_log_start`` has for each share the number of records that were left out because they
    are below the log start offset. ``missing`` are the offsets that each share lacks without
    corruption, and ``unsure`` says of which it may lack more. ``deleted`` are the offsets of each
    share whose log a running broker has deleted since it was listed, None for others.
    """

    files: tuple[TaskFile, ...]
    troubles: tuple[Trouble, ...]
    below_log_start: tuple[int, ...]
    missing: tuple[Ranges, ...]
    unsure: tuple[bool, ...]
    deleted: tuple[tuple[int, int] | None, ...] = ()


def export_logs(task: ExportTask) -> ExportResult:
    """Export the logs of ``task``. Raise SourceError if a file cannot be written."""
    files = TaskFiles(task.to, task.rights, task.form, task.layout)
    try:
        reader = RecordReader()
        exports = [
            _LogExport(share, task.selection, files, reader, task.mapped and share.log.stopped)
            for share in task.shares
        ]
        for each in exports:
            each.run()
        written = files.close()
    except OSError as error:  # from writing; reading raises SourceError
        files.discard()
        raise write_error(task.to, error) from error
    except BaseException:  # Ctrl-C too: no partial file stays
        files.discard()
        raise
    troubles = tuple(trouble for each in exports for trouble in each.troubles)
    return ExportResult(
        written,
        troubles,
        tuple(each.below_log_start for each in exports),
        tuple(join(each.missing) for each in exports),
        tuple(each.unsure for each in exports),
        tuple(each.deleted for each in exports),
    )


def _find_logs(log: Log) -> list[Log]:
    """Return the logs that now hold the offsets of ``log``. Raise SourceError."""
    segments = read_partition(log.path.parent).segments
    following = HIGHEST if log.following is None else log.following
    ends = [*(segment.base_offset for segment in segments[1:]), HIGHEST]
    return [
        replace(
            log,
            path=segment.log,
            base_offset=segment.base_offset,
            index=segment.index,
            sealed=segment is not segments[-1],
            following=None if end == HIGHEST else end,
        )
        for segment, end in zip(segments, ends, strict=False)
        if segment.base_offset < following and end > log.base_offset
    ]


@dataclass(slots=True)
class _LogExport:
    """Exports one log into the files of a task."""

    share: Share
    selection: Selection
    files: TaskFiles
    reader: RecordReader
    mapped: bool
    troubles: list[Trouble] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    unsure: bool = False
    below_log_start: int = 0
    deleted: tuple[int, int] | None = None

    def run(self) -> None:
        log = self.share.log
        logs = [log]
        attempts = 1 if log.stopped else _ATTEMPTS
        try:
            while not self._open(logs, again=attempts > 1):
                attempts -= 1
                logs = _find_logs(log)
            if not logs:
                following = HIGHEST if log.following is None else log.following
                self.deleted = log.base_offset, following - 1
        except SourceError as error:
            if not self.share.hides(log.following):
                where = utf8(str(error.path))
                self.troubles.append(Trouble(where, None, None, str(error), damaged=False))

    def _open(self, logs: Sequence[Log], *, again: bool) -> bool:
        """Export ``logs``. Return False, if ``again``, if one of them has vanished."""
        with ExitStack() as opened:
            try:
                sources = [
                    opened.enter_context(
                        open_source(log.path, mapped=self.mapped, sealed=log.sealed)
                    )
                    for log in logs
                ]
            except VanishedError:
                if again:
                    return False
                raise
            for log, source in zip(logs, sources, strict=True):
                self._export(log, source)
        return True

    def _export(self, log: Log, source: Source) -> None:
        share, limit = self.share, self.selection.limit
        taken = ((LOWEST, HIGHEST),) if share.ranges is None else share.ranges
        if log is not share.log or (not log.stopped and source.size != log.size):
            # The log that took its place may hold the offsets of the logs beside it too.
            following = HIGHEST if share.log.following is None else share.log.following - 1
            taken = overlap(taken, ((share.log.base_offset, following),))
        start = LOWEST if share.start is None else share.start
        served = packed(overlap(taken, ((start, HIGHEST),)))
        hidden = overlap(taken, ((LOWEST, start - 1),)) if start > LOWEST else ()
        everything = packed(((LOWEST, HIGHEST),))
        complete = served == everything and share.committed is None and limit is None
        self.files.start(share.log.origin, source.size)
        for run in self._runs(log, source):
            left = None if limit is None else limit - self.files.records
            if left is not None and left <= 0:
                break
            if hidden:
                self.below_log_start += _count_records(run, share.committed, hidden)
            selected = run
            if not complete:
                selected = _select_records(run, share.committed, served, left)
            if len(selected.rows):
                self.files.add(selected)

    def _runs(self, log: Log, source: Source) -> Iterator[RecordRun]:
        """Yield the selected records, also those below the log start offset, and note troubles."""
        committed = self.share.committed
        keep = None if committed is None else committed.batches
        selected = SelectedRecords(log, source, self._add_range)
        try:
            yield from selected.runs(self.reader, keep)
        except SourceError:
            selected.continuity.interrupt()
            raise
        finally:
            self.unsure |= selected.continuity.unsure

    def _add_range(self, found: CorruptRange) -> None:
        """Note offsets that cannot be exported, unless they are below the log start offset."""
        last = found.last_offset
        if self.share.hides(None if last is None else last + 1):
            return
        if found.reason == MISSING and last is not None:
            first = found.first_offset
            self.missing.append((max(first, self.share.start or first), last))
            return
        reason, damaged = found.detail or found.reason, found.reason != LIMIT
        path = found.path or ""
        self.troubles.append(Trouble(path, found.position, found.size, reason, damaged))


def _count_records(run: RecordRun, committed: CommittedFilter | None, ranges: Ranges) -> int:
    """Return the number of records of ``run`` in ``ranges`` and below the last stable offset."""
    low, _ = _ranges.offset_bounds(run.rows)
    if low > ranges[-1][1]:
        return 0
    copy = RecordRun(
        run.batches,
        run.block,
        memoryview(bytearray(run.rows)).cast("q"),
        memoryview(array("q", run.starts)),
        run.magic,
    )
    return len(_select_records(copy, committed, packed(ranges), None).rows) // RecordTable.WIDTH


def _select_records(
    run: RecordRun, committed: CommittedFilter | None, ranges: array[int], left: int | None
) -> RecordRun:
    """Return the records of ``run`` in ``ranges`` and below the end, at most ``left`` of them.

    They are moved together in the rows of ``run``.
    """
    batches = memoryview(bytearray(run.batches.rows)).cast("q")
    end = HIGHEST if committed is None else committed.end
    most = HIGHEST if left is None else left
    count = _ranges.keep_in_ranges(run.rows, run.starts, batches, end, ranges, most)
    return RecordRun(
        BatchTable(batches, hunted=run.batches.hunted).first(count),
        run.block,
        run.rows[: run.starts[count] * RecordTable.WIDTH],
        run.starts[: count + 1],
        run.magic,
    )
