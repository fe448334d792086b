"""The evidence of sealed segments as rows, and files of Parquet with them.

A row is a segment. What it is compared with has columns of its own: any program that reads Parquet
can say what was read, and when. The survey is one column, for kdump alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.header_digest import DIGEST_FORM
from kdump.audit.survey.survey import Survey
from kdump.errors import DecodeError
from kdump.history.evidence.encoding import decode_survey, encode_survey, survey_form
from kdump.history.records import FileState, SegmentReading, SegmentRecord, decode_findings, signed
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity
from kdump.values import frozen

_FILE: Final = (("inode", pa.int64()), ("size", pa.int64()), ("mtime_ns", pa.int64()))
#: A file with other columns is no state: what it has is read again.
COLUMNS: Final = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("log", pa.struct(_FILE)),
        ("index", pa.struct(_FILE)),
        ("time_index", pa.struct(_FILE)),
        ("settings", pa.string()),
        ("deep", pa.bool_()),
        ("version", pa.string()),
        ("form", pa.string()),
        ("seen_ms", pa.int64()),
        ("read_ms", pa.int64()),
        ("batches", pa.int64()),
        ("digest", pa.binary()),
        ("digest_ms", pa.int64()),
        ("digest_form", pa.int32()),
        ("ctime_ns", pa.int64()),
        ("earlier", pa.binary()),
        ("findings", pa.string()),
        ("survey", pa.binary()),
    ]
)
_NULLABLE: Final = frozenset({"index", "time_index", "earlier"})


@frozen
class SegmentFiles:
    """The state of the files of a segment that a survey reads; None for an index without a file."""

    log: FileState
    index: FileState | None
    time_index: FileState | None

    @classmethod
    def of(cls, segment: Segment, log: Identity) -> SegmentFiles:
        """Return the present state of the files; ``log`` is that of the log. Raises OSError."""
        index, time_index = (
            None if path is None else FileState.of(Identity.of(path.stat()))
            for path in (segment.index, segment.time_index)
        )
        return cls(FileState.of(log), index, time_index)


@frozen
class EvidenceRow:
    """The evidence of one sealed segment.

    ``record`` is as a scrub has it; its ``file`` is the log. ``index`` and ``time_index`` are as in
    ``SegmentFiles``. ``settings`` are those of the topic that a survey depends on. ``form`` is the
    one of ``survey``, the encoded survey, which is ``deep`` or not.
    """

    record: SegmentRecord
    index: FileState | None
    time_index: FileState | None
    settings: str
    deep: bool
    form: str
    survey: bytes

    @classmethod
    def of(
        cls, record: SegmentRecord, files: SegmentFiles, settings: str, survey: Survey
    ) -> EvidenceRow:
        """Return the row of a segment that was read."""
        return cls(
            record,
            files.index,
            files.time_index,
            settings,
            survey.deep,
            survey_form(),
            encode_survey(survey),
        )

    @property
    def reading(self) -> SegmentReading:
        """The reading of the segment."""
        assert self.record.reading is not None
        return self.record.reading

    def shows(self, files: SegmentFiles, settings: str, *, deep: bool, version: str) -> bool:
        """Return whether the survey is what this release would find again in the same ``files``.

        ``deep`` and ``settings`` are those of the run.
        """
        return (
            files == SegmentFiles(self.record.file, self.index, self.time_index)
            and settings == self.settings
            and (self.deep or not deep)
            and (self.form, self.reading.version) == (survey_form(), version)
            and self.reading.digest_form == DIGEST_FORM
        )

    def open(self, folder: AnyPath) -> Survey:
        """Return the survey, with the paths of files in ``folder``. Raises DecodeError."""
        survey = decode_survey(self.survey, folder)
        known = survey.header_digest, survey.size, survey.deep, survey.statistics is None
        if known != (self.reading.digest, self.record.file.size, self.deep, False):
            raise DecodeError("expected the survey of the segment of its row, found another one")
        return survey


def settings_text(settings: TopicSettings) -> str:
    """Return the settings that a survey depends on."""
    return json.dumps(
        [settings.compacted, settings.index_interval_bytes, settings.segment_index_bytes]
    )


def encode_rows(rows: Iterable[EvidenceRow]) -> bytes:
    """Return a file of Parquet with ``rows``. Pages have checksums."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist([_values(row) for row in rows], schema=COLUMNS)
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decode_rows(data: bytes) -> list[EvidenceRow]:
    """Return the rows of a file. Raises DecodeError for anything that ``encode_rows`` cannot write.

    The surveys are decoded when they are used.
    """
    try:
        with pq.ParquetFile(
            pa.BufferReader(data),
            page_checksum_verification=True,
            pre_buffer=False,
            arrow_extensions_enabled=False,
        ) as file:
            schema = file.schema_arrow.remove_metadata()
            if not schema.equals(COLUMNS):
                raise DecodeError("expected the columns of a state, found others")
            # Threads do not survive a fork, and a second attempt at a task runs in a child.
            values = file.read(use_threads=False).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DecodeError(f"expected a file of Parquet, found: {error}") from error
    return list(_rows(values))


def _values(row: EvidenceRow) -> dict[str, object]:
    record, reading = row.record, row.reading
    return {
        "base_offset": record.base_offset,
        "log": _file_values(record.file),
        "index": _file_values(row.index),
        "time_index": _file_values(row.time_index),
        "settings": row.settings,
        "deep": row.deep,
        "version": reading.version,
        "form": row.form,
        "seen_ms": record.seen_ms,
        "read_ms": reading.read_ms,
        "batches": reading.batches,
        "digest": reading.digest,
        "digest_ms": reading.digest_ms,
        "digest_form": reading.digest_form,
        "ctime_ns": reading.ctime_ns,
        "earlier": reading.earlier,
        "findings": reading.findings,
        "survey": row.survey,
    }


def _file_values(file: FileState | None) -> dict[str, int] | None:
    return None if file is None else asdict(file)


def _rows(values: Iterable[dict[str, Any]]) -> Iterator[EvidenceRow]:
    for row in values:
        if any(row[name] is None for name in row.keys() - _NULLABLE):
            raise DecodeError("expected a value in each column of a state, found none")
        log, index, time_index = (_file(row[name]) for name in ("log", "index", "time_index"))
        assert log is not None
        decode_findings(row["findings"], Path())
        reading = SegmentReading(
            row["read_ms"],
            row["batches"],
            row["digest"],
            row["digest_ms"],
            row["digest_form"],
            row["ctime_ns"],
            row["version"],
            row["earlier"],
            row["findings"],
        )
        record = SegmentRecord(
            row["base_offset"], row["seen_ms"], log, True, log.size, reading=reading
        )
        yield EvidenceRow(
            record,
            index,
            time_index,
            row["settings"],
            row["deep"],
            row["form"],
            row["survey"],
        )


def _file(values: dict[str, Any] | None) -> FileState | None:
    if values is None:
        return None
    if None in values.values():
        raise DecodeError("expected the state of a file in a state, found none")
    return FileState(**values)


def base_of(segment: Segment) -> int:
    """Return the base offset of a segment as rows have it."""
    return signed(segment.base_offset)
