"""The files of one segment of a converted partition.

Spec: ``MemoryRecords.buildRetainedRecordsInto`` of 4.0 and later (KAFKA-13093, KIP-724); KOD 4.2
and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

from xxhash import xxh3_128

from kdump.audit.facts.small_files import PartitionFacts
from kdump.errors import Refused, SourceError
from kdump.format import _kernel
from kdump.format._encode import kind_end
from kdump.format.batch import BatchTable
from kdump.format.checkpoint import EpochEntry
from kdump.repair.convert.notes import epochs_note, split_note
from kdump.repair.convert.receipt import ConvertedLog, NewLog
from kdump.repair.newdir.appearance import Building
from kdump.repair.newdir.output import (
    copy_file,
    files_of,
    index_room,
    pieces,
    put_indexes,
    survey_of,
)
from kdump.repair.rewrite.conversion import Conversion, Part, Rules
from kdump.repair.rewrite.preconditions import damaged, not_convertible
from kdump.repair.rewrite.read_back import ReadBack
from kdump.repair.rewrite.write_and_read import Written, shared, telling, write_and_read
from kdump.repair.transaction.disk import Attributes
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.names import FileKind, format_file_name
from kdump.storage.source import Identity
from kdump.storage.walk import Damage, walk
from kdump.storage.workers import Report

_LEADER_EPOCH: Final = _kernel.BATCH_FIELDS.index("leader_epoch")


@dataclass(frozen=True, slots=True)
class Old:
    """A segment as it is to be read.

    ``sealed`` is as for ``open_source``; ``next_base`` is the base offset of the segment behind it,
    None for the last. To one that is ``growing`` a broker may just be writing. ``legacy``: its log
    of ``size`` bytes holds batches of magic 0 or 1, or without a leader epoch. ``newest_epoch`` is
    the highest leader epoch of batches in it, -1 for none; ``epochs`` are for those without.
    """

    segment: Segment
    sealed: bool
    next_base: int | None
    growing: bool
    legacy: bool = False
    size: int = 0
    newest_epoch: int = -1
    epochs: tuple[EpochEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class New:
    """What was written of a segment: ``files`` by name, with size and SHA-256.

    ``log`` is None for one that was copied as it is.
    """

    log: ConvertedLog | None
    files: dict[str, tuple[int, str]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """What became of the log with ``identity``; ``contents`` are sizes and XXH3 of its parts."""

    identity: Identity
    legacy: int
    stamped: int
    copied: int
    parts: tuple[Part, ...]
    contents: tuple[tuple[int, str], ...]


def inspect(old: Old) -> Old:
    """The same with what its log holds. Raises SourceError."""
    path, base_offset = old.segment.log, old.segment.base_offset
    with open_source(path, mapped=False, sealed=old.sealed) as source:
        legacy, newest = False, -1
        for table in walk(source, base_offset):
            row = 0
            while not isinstance(table, Damage) and row < len(table):
                stop = kind_end(table.rows, row)
                epochs = table.part(row, stop).rows[_LEADER_EPOCH :: BatchTable.WIDTH]
                legacy = legacy or table[row].magic < 2 or min(epochs) < 0
                newest, row = max(newest, epochs[-1]), stop
        return replace(old, legacy=legacy, size=source.size, newest_epoch=newest)


class SegmentWriter:
    """Writes segments of a partition to ``made``, by ``rules``; each is one of so many ``tasks``.

    With one task and several ``jobs`` a log is read back while it is written.
    """

    def __init__(
        self, made: Building, facts: PartitionFacts, rules: Rules, *, jobs: int, tasks: int
    ) -> None:
        self._made, self._facts, self._rules = made, facts, rules
        self._jobs, self._tasks = jobs, tasks
        self._settings = facts.settings

    def write(self, old: Old, report: Callable[[int], None]) -> New:
        """Write all files of a segment but its producer snapshot.

        ``report`` is called with counts of bytes of the old log that were read. Raises Refused for
        one that is damaged, SourceError, OSError.
        """
        like = self._made.attributes(old.segment.log)
        log, bases = None, [old.segment.base_offset]
        if old.legacy:
            log, bases, notes = self._convert(old, like, report)
        else:
            notes = self._copy(old, like, report)
        names = [name for base in bases for name in files_of(base)]
        names += self._transactions(old.segment, bases)
        return New(log, {name: self._made.files[name] for name in names}, tuple(notes))

    def _convert(
        self, old: Old, like: Attributes, report: Callable[[int], None]
    ) -> tuple[ConvertedLog, list[int], list[str]]:
        log = old.segment.log
        made, read = write_and_read(
            partial(self._write, old, like),
            log,
            self._settings,
            index_room(self._settings),
            share=shared(self._jobs, self._tasks, old.size),
            report=report,
            close_descriptors=(self._made.lock,),
        )
        notes: list[str] = []
        parts = []
        for part, content, back in zip(made.parts, made.contents, read, strict=True):
            new, said = self._prove(old, part, content, back, like)
            parts.append(new)
            notes += said
        new_bases = [part.base_offset for part in made.parts]
        if len(parts) > 1:
            notes.append(split_note(log.name, new_bases))
        if made.stamped:
            notes.append(epochs_note(made.stamped))
        converted = ConvertedLog(
            log.name, made.identity, made.legacy, made.stamped, made.copied, tuple(parts)
        )
        return converted, new_bases, notes

    def _write(self, old: Old, like: Attributes, report: Report, written: Written) -> _Made:
        """Write the new logs of an old one."""
        log = old.segment.log
        with open_source(log, mapped=False, sealed=old.sealed) as source:
            conversion = Conversion(
                source,
                log,
                old.segment.base_offset,
                self._rules,
                report,
                epochs=old.epochs,
                growing=old.growing,
            )
            contents = []
            for number, group in groupby(conversion.pieces(), key=itemgetter(0)):
                base_offset = conversion.parts[number].base_offset
                if number and old.next_base is not None and base_offset >= old.next_base:
                    raise not_convertible(
                        log,
                        f"expected offsets below {old.next_base}, where the next log begins, found "
                        f"{base_offset}",
                    )
                name = files_of(base_offset)[0]
                told = partial(written, self._made.path / name, base_offset)
                data = telling(map(itemgetter(1), group), told)
                digest = xxh3_128()  # SHA-256, which takes ten times as long, when it is read back
                size = self._made.write(name, data, digest.update, like, source.identity.mtime_ns)
                contents.append((size, digest.hexdigest()))
            return _Made(
                source.identity,
                conversion.legacy,
                conversion.stamped,
                conversion.copied,
                conversion.parts,
                tuple(contents),
            )

    def _prove(
        self, old: Old, part: Part, content: tuple[int, str], back: ReadBack, like: Attributes
    ) -> tuple[NewLog, list[str]]:
        """Compare a new log, as it was read back, with what was written; write its indexes."""
        made, base_offset = self._made, part.base_offset
        name = files_of(base_offset)[0]
        written = part.size, part.batches, part.records, part.digest, *content
        read = back.size, back.batches, back.records, back.digest, back.size, back.xxh3
        if written != read:
            raise Refused(
                f"{old.segment.log}: expected to read back what was written, {part.records:,} "
                f"records with digest {part.digest}, found {back.records:,} records with digest "
                f"{back.digest}: check memory, controller and disk"
            )
        made.files[name] = back.size, back.sha256
        notes = put_indexes(made, base_offset, back.rebuilt, like, self._settings)
        new = NewLog(name, part.size, part.batches, part.records, part.digest, back.digest)
        return new, notes

    def _copy(self, old: Old, like: Attributes, report: Callable[[int], None]) -> list[str]:
        log, base_offset = old.segment.log, old.segment.base_offset
        with open_source(log, mapped=False, sealed=old.sealed) as source:
            mtime_ns = source.identity.mtime_ns
            self._made.put(log.name, pieces(source, report), like, mtime_ns)
        found = survey_of(self._made, log.name, base_offset, self._settings)
        if found.damages:
            raise damaged(log, found.gaps[0].damage)
        return put_indexes(self._made, base_offset, found.rebuilt, like, self._settings)

    def _transactions(self, segment: Segment, bases: Sequence[int]) -> list[str]:
        """Write the transaction index, each entry beside the log that holds its end; its names."""
        if segment.txn_index is None:
            return []
        if len(bases) == 1:
            copy_file(self._made, segment.txn_index)
            return [segment.txn_index.name]
        found = self._facts.txn_indexes[segment.base_offset]
        if found.value is None:
            raise found.error or SourceError(found.path, f"{found.path}: could not be read")
        like = self._made.attributes(segment.txn_index)
        names = []
        for base_offset, index in zip(bases, found.value.split(bases), strict=True):
            if index.entries:
                names.append(format_file_name(FileKind.TXN_INDEX, base_offset))
                self._made.put(names[-1], [index.encode()], like)
        return names
