"""The files of one segment of a converted partition.

Spec: ``MemoryRecords.buildRetainedRecordsInto`` of 4.0 and later (KAFKA-13093, KIP-724); KOD 4.2
and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

from xxhash import xxh3_128

from kdump.audit.facts.small_files import PartitionFacts
from kdump.commands.convert.notes import epochs_note, split_note
from kdump.commands.convert.receipt import ConvertedLog, NewLog
from kdump.errors import Refused, SourceError
from kdump.format.batch import BatchTable
from kdump.format.checkpoint import EpochEntry
from kdump.format.kernel import headers as _headers
from kdump.format.kernel.encode import kind_end
from kdump.repair.newdir.building import Building
from kdump.repair.newdir.output import (
    copy_file,
    files_of,
    index_room,
    put_indexes,
    read_pieces,
    survey_of,
)
from kdump.repair.rewrite.conversion import Conversion, NewPart, Rules
from kdump.repair.rewrite.preconditions import damaged_log, unconvertible_log
from kdump.repair.rewrite.read_back import ReadBack
from kdump.repair.rewrite.write_and_read import (
    OnWrite,
    report_writes,
    use_two_processes,
    write_and_read,
)
from kdump.repair.transaction.disk import Attributes
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.paths import as_local
from kdump.storage.source import Identity
from kdump.storage.walk import Damage, walk
from kdump.storage.workers import Report
from kdump.values import frozen

_LEADER_EPOCH: Final = _headers.BATCH_FIELDS.index("leader_epoch")


@frozen
class SourceSegment:
    """A segment to convert or to copy.

    ``sealed`` is as for ``open_source``. ``next_base`` is the base offset of the next segment, None
    for the last. ``growing``: a broker may be writing to it. ``legacy``: its log of ``size`` bytes
    holds batches of magic 0 or 1, or batches without a leader epoch. ``newest_epoch`` is the
    highest leader epoch of its batches, -1 for none. ``epochs`` are for the batches without one.
    """

    segment: Segment
    sealed: bool
    next_base: int | None
    growing: bool
    legacy: bool = False
    size: int = 0
    newest_epoch: int = -1
    epochs: tuple[EpochEntry, ...] = ()


@frozen
class WrittenSegment:
    """The files of a new segment: ``files`` has their size and SHA-256 by name.

    ``log`` is None for a segment whose log was copied.
    """

    log: ConvertedLog | None
    files: dict[str, tuple[int, str]]
    notes: tuple[str, ...]


@frozen
class _ConvertedContent:
    """The conversion of the log with ``identity``; ``contents`` has size and XXH3 of each part."""

    identity: Identity
    legacy: int
    stamped: int
    copied: int
    parts: tuple[NewPart, ...]
    contents: tuple[tuple[int, str], ...]


def inspect(origin: SourceSegment) -> SourceSegment:
    """Read the log of a segment; return the segment with what it shows. Raises SourceError.

    The last segment is read up to its first old batch: no other segment takes epochs from it.
    """
    path, base_offset = origin.segment.log, origin.segment.base_offset
    with open_source(path, mapped=False, sealed=origin.sealed) as source:
        legacy, newest = False, -1
        for table in walk(source, base_offset):
            row = 0
            while not isinstance(table, Damage) and row < len(table):
                stop = kind_end(table.rows, row)
                epochs = table.part(row, stop).rows[_LEADER_EPOCH :: BatchTable.WIDTH]
                legacy = legacy or table[row].magic < 2 or min(epochs) < 0
                newest, row = max(newest, epochs[-1]), stop
            if legacy and origin.next_base is None:
                break
        return replace(origin, legacy=legacy, size=source.size, newest_epoch=newest)


class SegmentWriter:
    """Writes segments of a partition to ``building`` by ``rules``; there are ``tasks`` segments.

    With one task and several ``jobs`` a log is read back while it is written.
    """

    def __init__(
        self, building: Building, facts: PartitionFacts, rules: Rules, *, jobs: int, tasks: int
    ) -> None:
        self._building, self._facts, self._rules = building, facts, rules
        self._jobs, self._tasks = jobs, tasks
        self._settings = facts.settings

    def write(self, origin: SourceSegment, report: Callable[[int], None]) -> WrittenSegment:
        """Write all files of a segment except its producer snapshot.

        ``report`` is called with counts of bytes of the old log that were read. Raises Refused if
        the log is damaged; SourceError, OSError.
        """
        like = self._building.attributes(as_local(origin.segment.log))
        log, bases = None, [origin.segment.base_offset]
        if origin.legacy:
            log, bases, notes = self._convert(origin, like, report)
        else:
            notes = self._copy(origin, like, report)
        names = [name for base in bases for name in files_of(base)]
        names += self._transactions(origin.segment, bases)
        return WrittenSegment(
            log, {name: self._building.files[name] for name in names}, tuple(notes)
        )

    def _convert(
        self, origin: SourceSegment, like: Attributes, report: Callable[[int], None]
    ) -> tuple[ConvertedLog, list[int], list[str]]:
        log = origin.segment.log
        converted, read_backs = write_and_read(
            partial(self._write, origin, like),
            log,
            self._settings,
            index_room(self._settings),
            share=use_two_processes(self._jobs, self._tasks, origin.size),
            report=report,
            close_descriptors=(self._building.lock,),
        )
        notes: list[str] = []
        parts = []
        for part, content, back in zip(
            converted.parts, converted.contents, read_backs, strict=True
        ):
            new_log, index_notes = self._prove(origin, part, content, back, like)
            parts.append(new_log)
            notes += index_notes
        new_bases = [part.base_offset for part in converted.parts]
        if len(parts) > 1:
            notes.append(split_note(log.name, new_bases))
        if converted.stamped:
            notes.append(epochs_note(converted.stamped))
        converted_log = ConvertedLog(
            log.name,
            converted.identity,
            converted.legacy,
            converted.stamped,
            converted.copied,
            tuple(parts),
        )
        return converted_log, new_bases, notes

    def _write(
        self, origin: SourceSegment, like: Attributes, report: Report, on_write: OnWrite
    ) -> _ConvertedContent:
        """Write the new logs of an old one."""
        log = origin.segment.log
        with open_source(log, mapped=False, sealed=origin.sealed) as source:
            conversion = Conversion(
                source,
                log,
                origin.segment.base_offset,
                self._rules,
                report,
                epochs=origin.epochs,
                growing=origin.growing,
            )
            contents = []
            for number, numbered in groupby(conversion.pieces(), key=itemgetter(0)):
                base_offset = conversion.parts[number].base_offset
                if number and origin.next_base is not None and base_offset >= origin.next_base:
                    raise unconvertible_log(
                        log,
                        f"expected offsets below {origin.next_base}, where the next log begins, "
                        f"found {base_offset}",
                    )
                name = files_of(base_offset)[0]
                on_size = partial(on_write, self._building.path / name, base_offset)
                data = report_writes(map(itemgetter(1), numbered), on_size)
                digest = xxh3_128()  # the reader computes SHA-256, which takes ten times as long
                size = self._building.write(
                    name, data, digest.update, like, source.identity.mtime_ns
                )
                contents.append((size, digest.hexdigest()))
            return _ConvertedContent(
                source.identity,
                conversion.legacy,
                conversion.stamped,
                conversion.copied,
                conversion.parts,
                tuple(contents),
            )

    def _prove(
        self,
        origin: SourceSegment,
        part: NewPart,
        content: tuple[int, str],
        back: ReadBack,
        like: Attributes,
    ) -> tuple[NewLog, list[str]]:
        """Compare the read-back of a new log with the written log; write its indexes.

        Returns the new log and the notes on its indexes. Raises Refused.
        """
        building, base_offset = self._building, part.base_offset
        name = files_of(base_offset)[0]
        written = part.size, part.batches, part.records, part.digest, *content
        read = back.size, back.batches, back.records, back.digest, back.size, back.xxh3
        if written != read:
            raise Refused(
                f"{origin.segment.log}: expected to read back what was written, {part.records:,} "
                f"records with digest {part.digest}, found {back.records:,} records with digest "
                f"{back.digest}: check memory, controller and disk"
            )
        building.files[name] = back.size, back.sha256
        notes = put_indexes(building, base_offset, back.rebuilt, like, self._settings)
        new_log = NewLog(name, part.size, part.batches, part.records, part.digest, back.digest)
        return new_log, notes

    def _copy(
        self, origin: SourceSegment, like: Attributes, report: Callable[[int], None]
    ) -> list[str]:
        log, base_offset = origin.segment.log, origin.segment.base_offset
        with open_source(log, mapped=False, sealed=origin.sealed) as source:
            mtime_ns = source.identity.mtime_ns
            self._building.put(log.name, read_pieces(source, report), like, mtime_ns)
        found = survey_of(self._building, log.name, base_offset, self._settings)
        if found.damages:
            raise damaged_log(log, found.gaps[0].damage)
        return put_indexes(self._building, base_offset, found.rebuilt, like, self._settings)

    def _transactions(self, segment: Segment, bases: Sequence[int]) -> list[str]:
        """Write the transaction indexes, each entry beside the log that holds its end.

        Returns the names of the files.
        """
        if segment.txn_index is None:
            return []
        if len(bases) == 1:
            copy_file(self._building, as_local(segment.txn_index))
            return [segment.txn_index.name]
        found = self._facts.txn_indexes[segment.base_offset]
        if found.value is None:
            raise found.error or SourceError(found.path, f"{found.path}: could not be read")
        like = self._building.attributes(as_local(segment.txn_index))
        names = []
        for base_offset, index in zip(bases, found.value.split(bases), strict=True):
            if index.entries:
                names.append(format_file_name(FileKind.TXN_INDEX, base_offset))
                self._building.put(names[-1], [index.encode()], like)
        return names
