"""The order of the steps of a conversion in place.

If an .index is missing, a start rebuilds all files beside the log of its segment. A start trusts an
.index that belongs to another log. So the .index is removed first and put last.

Spec: ``LogLoader.loadSegmentFiles``, ``TransactionIndex``; KOD 2, 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.survey.rebuilt_indexes import RebuiltIndexes
from kdump.errors import Refused
from kdump.format.index import TransactionIndex
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.rewrite.measure import ConversionMeasure, MeasuredPart
from kdump.repair.transaction.plan import ConvertedPart, Put, RebuiltIndex, Remove, Stamp, Step
from kdump.storage.names import FileKind, format_file_name

_SECOND_NS: Final = 1_000_000_000


class ConvertSteps:
    """The steps of a conversion by ``rules``; ``files`` are the files in the directory."""

    def __init__(
        self,
        facts: PartitionFacts,
        rules: Rules,
        settings: TopicSettings,
        files: Mapping[str, Stamp],
    ) -> None:
        self._facts, self._rules, self._settings, self._files = facts, rules, settings, files

    def of(self, measurement: ConversionMeasure) -> Iterator[Step]:
        """Yield the steps of one log. Raises Refused if its indexes cannot be made."""
        log, parts = measurement.path.name, measurement.parts
        names = [
            log,
            *(format_file_name(FileKind.LOG, part.part.base_offset) for part in parts[1:]),
        ]
        for index in (_beside(name, ".index") for name in names):
            if index in self._files:
                yield Remove(index)
        aborts = self._transactions(parts) if len(parts) > 1 else ()
        # The last new log first: until the first one is put, the old log still holds all records.
        for number in range(len(parts) - 1, -1, -1):
            yield self._log(measurement, names[number], number)
            if aborts:
                yield from self._aborts(names[number], aborts[number])
            yield from self._indexes(names[number], parts[number].rebuilt)

    def _log(self, measurement: ConversionMeasure, name: str, number: int) -> Put:
        old, new = measurement.path.name, measurement.parts[number]
        part, codec, before = new.part, self._rules.codec, self._files[old]
        epochs = tuple((entry.epoch, entry.start_offset) for entry in measurement.epochs)
        label = None if codec is None else codec.label
        # Retention uses the modification time of logs whose records have no timestamp. A new log of
        # the same size gets another time, which shows whether it is in place.
        later_ns = _SECOND_NS if name == old and part.size == before.size else 0
        return Put(
            name,
            part.size,
            new.sha256,
            name == old,
            ConvertedPart(
                old, label, self._rules.batch_bytes, number, part.records, part.digest, epochs
            ),
            mtime_ns=before.mtime_ns + later_ns,
        )

    def _indexes(self, log: str, rebuilt: RebuiltIndexes) -> Iterator[Put]:
        for extension, file in ((".timeindex", rebuilt.time_index), (".index", rebuilt.index)):
            name, recipe = _beside(log, extension), None
            if not rebuilt.full:
                recipe = RebuiltIndex(log, extension, self._settings.index_interval_bytes)
            elif file.content is None:
                raise Refused(
                    f"{self._facts.partition.path / log}: expected indexes that fit into "
                    f"segment.index.bytes, which is {self._settings.segment_index_bytes}, found "
                    "more entries: raise segment.index.bytes"
                )
            replaces = name in self._files and extension != ".index"
            yield Put(name, file.size, file.sha256, replaces, recipe, file.content)

    def _transactions(self, parts: Sequence[MeasuredPart]) -> Sequence[TransactionIndex]:
        """Return the transaction index of each part."""
        bases = [part.part.base_offset for part in parts]
        found = self._facts.txn_indexes.get(bases[0])
        if found is None:
            return [TransactionIndex(())] * len(parts)
        if found.value is None:
            raise Refused(
                f"{found.path}: expected a transaction index, found another file: rebuild it with "
                "kdump reindex first"
            )
        return found.value.split(bases)

    def _aborts(self, log: str, aborts: TransactionIndex) -> Iterator[Put]:
        name, content = _beside(log, ".txnindex"), aborts.encode()
        if content or name in self._files:
            yield Put.of(name, content, replaces=name in self._files)


def _beside(log: str, extension: str) -> str:
    return log.removesuffix(".log") + extension
