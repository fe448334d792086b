"""The evidence of one partition in a task: what need not be read again, and what is new.

A segment is read again by the rules of a scrub: if it is new, has changed, was damaged, or was read
too long ago. A survey counts if the log and the indexes have not changed since, nor the settings of
the topic, and if it is as deep as this run and of this release of kdump.

A file has the rows of some segments: the task of a segment then reads one file, however many
segments its partition has, and what is new replaces few of them. The task of a segment adds a file
with its row; that of a partition, or of its verdict, puts small files together. So a run that is
killed loses what its tasks were reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.run.gather import gather
from kdump.audit.run.verification import SurveyTask
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.remembered import NOTHING_REMEMBERED, Remembered
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import DecodeError, SourceError, StateError, VanishedError
from kdump.history.changes import NewReading, compare, steady_since
from kdump.history.evidence.directory import DirectoryState, check_visible
from kdump.history.evidence.files import (
    list_files,
    may_hold,
    new_name,
    read_file,
    remove_files,
    write_file,
)
from kdump.history.evidence.rows import (
    EvidenceRow,
    SegmentFiles,
    base_of,
    decode_rows,
    encode_rows,
    settings_text,
)
from kdump.history.records import SegmentRecord, encode_findings, signed
from kdump.storage.names import FileKind, parse_file_name
from kdump.storage.objects.listings import listed_status
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity
from kdump.values import frozen

Read = Callable[[SurveyTask], Survey]

#: A file with so many rows, or so many bytes of surveys, is full.
_FULL_ROWS: Final = 64
_FULL_BYTES: Final = 16 << 20
#: The files of a segment that a survey reads.
_SURVEYED: Final = (FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX)


@frozen
class DirectoryMemory:
    """The evidence of the partitions of a log directory, for the tasks that read them."""

    state: DirectoryState

    def open(self, target: Target, context: Context, base: int | None) -> PartitionMemory:
        """Read the evidence of a partition, or of its segment with the base offset ``base``."""
        return PartitionMemory(self.state, target, context, base)


class PartitionMemory:
    """The evidence of the sealed segments of ``target``, and what this task adds.

    With ``base`` only files are read that may have the segment with this base offset. ``findings``
    are those on changes that no broker makes. ``unusable`` and ``unwritten`` say what went wrong
    with the files of the state.
    """

    def __init__(
        self, state: DirectoryState, target: Target, context: Context, base: int | None = None
    ) -> None:
        self.findings: list[Finding] = []
        self.unusable = self.unwritten = NOTHING_REMEMBERED
        self._state = state
        self._target = target
        self._context = context
        self._folder = state.partition(target)
        self._files: dict[AnyPath, list[EvidenceRow]] = {}
        self._rows: dict[int, EvidenceRow] = {}
        self._new: dict[int, EvidenceRow] = {}
        try:
            paths = list_files(self._folder, state.rights)
        except StateError as error:
            self._refuse(error)
            return
        for path in paths:
            if base is None or may_hold(path, base):
                with suppress(VanishedError):  # another run has replaced it
                    self._load(path)

    def _load(self, path: AnyPath) -> None:
        try:
            rows = decode_rows(read_file(path, self._state.rights))
        except VanishedError:
            raise
        except (DecodeError, SourceError) as error:
            self._refuse(error if isinstance(error, SourceError) else f"{path}: {error}")
            rows = []
        self._files[path] = rows
        for row in rows:
            base = row.record.base_offset
            if base not in self._rows or self._rows[base].reading.read_ms <= row.reading.read_ms:
                self._rows[base] = row

    def _refuse(self, error: object) -> None:
        self.unusable += Remembered(unusable=1, text=str(error))

    def survey(self, task: SurveyTask, read: Read) -> Survey:
        """Return the survey of the segment of ``task``, which is read only if that is due."""
        segment, settings = task.segment, settings_text(task.settings)
        if not task.sealed:
            return read(task)
        try:
            _list_around(segment.log)
            identity = Identity.of(segment.log.stat())
            files = SegmentFiles.of(segment, identity)
        except OSError:  # the survey says so
            return read(task)
        before = self._rows.get(base_of(segment))
        found = None if before is None else self._recall(before, task, identity, files, settings)
        if found is None:
            found = read(task)
            with suppress(OSError, SourceError):  # it is read again in the next run
                self._add(before, task, files, settings, found, read)
        return found

    def _recall(
        self,
        row: EvidenceRow,
        task: SurveyTask,
        identity: Identity,
        files: SegmentFiles,
        settings: str,
    ) -> Survey | None:
        """Return the survey in ``row``, None if the segment has to be read."""
        state, segment = self._state, task.segment
        if row.record.is_due(state.now_ms, state.max_age_s):
            return None
        if not row.shows(files, settings, deep=task.deep, version=state.version):
            return None
        try:
            survey = row.open(segment.log.parent)
        except DecodeError as error:
            self._refuse(f"{self._folder}: {error}")
            return None
        return replace(survey, segment=segment, identity=identity, read_ms=row.reading.read_ms)

    def _add(
        self,
        before: EvidenceRow | None,
        task: SurveyTask,
        files: SegmentFiles,
        settings: str,
        found: Survey,
        read: Read,
    ) -> None:
        """Add the evidence of a segment that was read. Raises OSError, SourceError."""
        state, base = self._state, base_of(task.segment)
        ctime_ns = steady_since(found, sealed=True)
        if ctime_ns is None or found.identity is None or found.unread:
            return
        if SegmentFiles.of(task.segment, found.identity) != files:
            return
        known = SegmentRecord(base, state.now_ms, files.log, True, files.log.size)
        new = NewReading(self._target, found, ctime_ns, state.now_ms, state.version, sealed=True)
        compared = compare(
            known if before is None else before.record,
            new,
            self._facts,
            lambda: read(replace(task, mapped=False)),
        )
        if compared.finding is not None:
            self.findings.append(compared.finding)
        if compared.record is not None:
            self._new[base] = EvidenceRow.of(compared.record, files, settings, found)

    def _facts(self) -> PartitionFacts:
        target = self._target.with_listing()
        facts = gather(target, self._context)
        if facts is None:
            assert target.error is not None
            raise target.error
        return facts

    def append(self) -> None:
        """Write what is new into a file of its own."""
        if self._new:
            self._write(list(self._new.values()))

    def conclude(self, verdict: Verdict) -> Verdict:
        """Write the evidence of the partition, as far as it is not in files yet.

        Return the verdict with the findings on changes, and with what went wrong.
        """
        verdict = replace(verdict, findings=(*verdict.findings, *self.findings))
        target = verdict.target
        # Without segments a mount may be missing.
        if target.error is None and target.partition is not None and target.segments:
            self._consolidate(dict(self._present(verdict)))
        trouble = self.unusable + self.unwritten
        covered = replace(verdict.covered, remembered=verdict.covered.remembered + trouble)
        return replace(verdict, covered=covered)

    def _present(self, verdict: Verdict) -> Iterator[tuple[int, EvidenceRow]]:
        """Yield the rows of the segments that exist, with their findings by the verdict."""
        target, findings = verdict.target, _by_base(verdict)
        for segment in target.segments:
            base = base_of(segment)
            row = self._new.get(base) or self._rows.get(base)
            if row is not None and target.is_sealed(segment):
                text = encode_findings(findings.get(base, ()))
                yield base, _with_findings(row, text)

    def _consolidate(self, rows: dict[int, EvidenceRow]) -> None:
        """Have files with ``rows`` and no others; full files stay if all of their rows do."""
        replaced: list[AnyPath] = []
        for path, known in self._files.items():
            if _is_full(known) and all(_is_in(rows, row) for row in known):
                for row in known:
                    del rows[row.record.base_offset]
            else:
                replaced.append(path)
        packs = list(_packs(rows))
        written = [row for path in replaced for row in self._files[path]]
        same = len(written) == len(rows) and all(_is_in(rows, row) for row in written)
        if same and len(packs) == len(replaced):
            return
        if all(self._write(pack) for pack in packs):
            try:
                remove_files(replaced, self._state.rights)
            except StateError as error:
                self._miss(error)

    def _write(self, rows: Sequence[EvidenceRow]) -> bool:
        """Write ``rows`` into a new file; return whether that succeeded."""
        name = new_name(rows[0].record.base_offset, rows[-1].record.base_offset)
        try:
            check_visible(self._state)
            write_file(self._folder / name, encode_rows(rows), self._state.rights)
        except StateError as error:
            self._miss(error)
            return False
        return True

    def _miss(self, error: StateError) -> None:
        self.unwritten += Remembered(unwritten=1, text=str(error))


def _is_in(rows: Mapping[int, EvidenceRow], row: EvidenceRow) -> bool:
    return rows.get(row.record.base_offset) == row


def _is_full(rows: Sequence[EvidenceRow]) -> bool:
    size = sum(len(row.survey) for row in rows)
    return len(rows) >= _FULL_ROWS or size >= _FULL_BYTES


def _packs(rows: Mapping[int, EvidenceRow]) -> Iterator[list[EvidenceRow]]:
    """Yield the rows of each new file, by base offset; all files but the last are full."""
    pack: list[EvidenceRow] = []
    for base in sorted(rows):
        pack.append(rows[base])
        if _is_full(pack):
            yield pack
            pack = []
    if pack:
        yield pack


def _list_around(log: AnyPath) -> None:
    """List the directory of an object, if no listing has it: that is one request for all files."""
    if isinstance(log, RemotePath) and listed_status(log) is None:
        log.parent.entries()


def _by_base(verdict: Verdict) -> dict[int, list[Finding]]:
    """Return the findings on what a survey reads, by the base offset in the file's name."""
    found: dict[int, list[Finding]] = {}
    for finding in verdict.findings:
        name = parse_file_name(finding.path.name)
        if name.kind in _SURVEYED and name.base_offset is not None and not name.suffix:
            found.setdefault(signed(name.base_offset), []).append(finding)
    return found


def _with_findings(row: EvidenceRow, text: str) -> EvidenceRow:
    if row.reading.findings == text:
        return row
    return replace(row, record=replace(row.record, reading=replace(row.reading, findings=text)))
