"""Corrupt ranges of a query: an error, or rows below ``badRecordsPath``.

A row is written before any record behind its range is returned. A file is named by its content, so
that a task that runs again writes the same files. Nothing is written into a log directory.

Spec: ``ParseMode`` of Spark 4.3; ``badRecordsPath`` as on Databricks.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kdump.fleet.source.columns import corrupt_rows
from kdump.fleet.source.options import Options
from kdump.history.evidence.files import write_file
from kdump.output.files import check_outside, make_directory, writing_rights
from kdump.storage.objects.remote_path import RemotePath, as_path
from kdump.storage.paths import as_local
from kdump.storage.rights import Rights
from kdump.tables.corruption import REMOTE, CorruptRange

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger(__name__)
_WAY_OUT: Final = (
    "with the option mode PERMISSIVE or DROPMALFORMED it is passed over, and badRecordsPath names "
    "a directory that gets a row for it"
)
_FROM_HERE: Final = "startingOffsets from the first offset here on reads without it; "
_OPTION: Final = "option badRecordsPath"
#: The ranges of a file: more are written at once.
_ROWS: Final = 1000


class BadRecords:
    """What a task or the driver does with ranges that it cannot read: it is called with each.

    With the mode FAILFAST the first one is the DecodeError or LimitError that it raises. ``rows``
    adds the rows that the mode PERMISSIVE has for a schema with a column for them.
    """

    def __init__(self, options: Options) -> None:
        #: Whether offsets that are gone are passed over.
        self.lenient = options.lenient
        self._strict, self._permissive = options.strict, options.mode == "permissive"
        self._directory = None if options.bad_records is None else as_path(options.bad_records)
        self._rights: Rights | None = None
        self._read = [as_path(path) for path in options.paths]
        self._new: list[CorruptRange] = []
        self._shown: list[CorruptRange] = []

    def prepare(self) -> None:
        """Make the directory. Raise UsageError in a log directory, StateError, Refused."""
        if self._directory is not None and not isinstance(self._directory, RemotePath):
            local = as_local(self._directory)
            rows = local / "rows.json"
            check_outside(_OPTION, rows, self._read)
            make_directory(local, None)
            self._rights = writing_rights(_OPTION, rows, self._read)

    def __call__(self, found: CorruptRange) -> None:
        """Raise the error, or pass over the range."""
        if self._strict:
            raise found.error((_FROM_HERE if found.reason == REMOTE else "") + _WAY_OUT)
        self.pass_over(found)

    def pass_over(self, found: CorruptRange) -> None:
        """Remember a range, whatever the mode is."""
        _LOG.warning("%s; it is passed over", found)
        self._new.append(found)
        if self._permissive:
            self._shown.append(found)
        if len(self._new) >= _ROWS:
            self.write()

    def rows(
        self, records: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield ``records``, and the rows of ranges. Raise StateError if a file is not written."""
        for batch in records:
            self.write()
            yield from shown_rows(self.take_shown(), schema)
            yield batch
        self.write()
        yield from shown_rows(self.take_shown(), schema)

    def write(self) -> None:
        """Write the rows of the new ranges."""
        found, self._new = self._new, []
        if found and self._directory is not None:
            text = "".join(json.dumps(each.fields) + "\n" for each in found)
            self.prepare()
            name = hashlib.sha256(text.encode()).hexdigest()[:32]
            write_file(self._directory / f"{name}.json", text.encode(), self._rights)

    def take_shown(self) -> tuple[CorruptRange, ...]:
        """Return the ranges that have rows with the mode PERMISSIVE, since the last call."""
        found, self._shown = self._shown, []
        return tuple(found)


def shown_rows(found: Sequence[CorruptRange], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges, none for a schema without a column for them."""
    if found and (batch := corrupt_rows(found, schema)) is not None:
        yield batch
