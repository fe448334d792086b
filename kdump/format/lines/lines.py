"""Batches and records as JSON lines, or as the text that Kafka's own dump tool prints.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.3.1 (KOD 8), with unsafe characters escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final, Protocol

from kdump.errors import DecodeError
from kdump.format import _lines
from kdump.format.batch import BatchTable, Record, RecordBatch, RecordRun, RecordTable, sequence_at
from kdump.format.control import ControlType, control_json, decode_control
from kdump.format.lines.forms import NOTHING, Form, java, json_batch, json_behind_record, text_batch
from kdump.format.lines.text import java_text, json_bytes, json_text, printable

_BUFFER_BYTES: Final = 1 << 20
#: How many forms are kept: a log needs a few, but a forged one may need ever new ones.
_FORMS: Final = 64

#: Lines; a view is valid until the next piece.
Pieces = Iterator[bytes | memoryview]
#: How the records of a batch, and those of its like behind it, become lines. The first way writes
#: plain ones from a row on, and returns the batch and the row reached and the bytes written. The
#: second makes the line of any other, given its row among those of the batch.
_Ways = tuple[Callable[[int], tuple[int, int, int]], Callable[[int], bytes]]


class LineFormat(Protocol):
    """How batches and records become lines, many to a piece."""

    def batches(self, table: BatchTable) -> Pieces:
        """One line a batch."""

    def records(self, table: RecordTable) -> Pieces:
        """One line a record."""

    def run(self, run: RecordRun) -> Pieces:
        """One line a record, in text behind one for their batch."""


class JsonLines:
    """JSON objects, one a line: every header field of a batch; every field of a record.

    A byte field that is valid UTF-8 is a string under its own name, else (or with
    ``force_base64``) base64 under that name with ``_base64`` behind it. Null stays null. A
    ``source_file`` is named in each line.
    """

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        *,
        force_base64: bool,
        source_file: str | None = None,
    ) -> None:
        where: dict[str, object] = {"topic": topic, "partition": partition}
        if source_file is not None:
            where["source_file"] = source_file
        self._before_record = json_text({"type": "record", **where})[:-1].encode() + b","
        before_batch = json_text({"type": "batch", **where})[:-1]
        self._batch_form = lru_cache(_FORMS)(partial(json_batch, before_batch))
        self._behind_record = lru_cache(_FORMS)(json_behind_record)
        self._force_base64 = force_base64
        self._out = bytearray(_BUFFER_BYTES)

    def batch(self, batch: RecordBatch) -> bytes:
        """One object with every field of the header; null for what an old one does not say."""
        return self._batch_form(batch.magic, batch.attributes).line(batch)

    def batches(self, table: BatchTable) -> Pieces:
        """One object a batch, as ``batch`` has it."""
        return _batches(table, self._batch_form, self._out)

    def records(self, table: RecordTable) -> Pieces:
        """One object a record."""
        return self.run(RecordRun.of(table))

    def run(self, run: RecordRun) -> Pieces:
        """One object a record."""

        def ways(batch: int) -> _Ways:
            table = run.table(batch)
            header = table.batch
            behind = self._behind_record(header.magic, header.attributes, table.magic)
            pieces = [
                self._before_record + b'"offset":',
                b',"timestamp":',
                f',"timestamp_type":"{table.timestamp_type.value}","key":'.encode(),
                b',"value":',
                b',"headers":[],"sequence":',
            ]
            tail = behind.line(header)

            def plain(row: int) -> tuple[int, int, int]:
                if self._force_base64:
                    return batch, row, 0
                reached: tuple[int, int, int] = _lines.json_lines(
                    run.batches.rows,
                    run.starts,
                    run.rows,
                    run.block,
                    batch,
                    row,
                    table.magic != 0,
                    pieces,
                    behind.text,
                    behind.marks,
                    self._out,
                )
                return reached

            return plain, lambda row: self._record(table[row], table, tail)

        return _run(run, self._out, ways)

    def _record(self, record: Record, table: RecordTable, tail: bytes) -> bytes:
        batch = table.batch
        fields = json_text(
            {
                "offset": record.offset,
                "timestamp": record.timestamp if table.magic else None,
                "timestamp_type": table.timestamp_type.value,
                **self._bytes("key", record.key),
                **self._bytes("value", record.value),
                "headers": [
                    {**self._bytes("key", key), **self._bytes("value", value)}
                    for key, value in record.headers
                ],
                "sequence": sequence_at(batch.base_sequence, record.offset - batch.base_offset),
            }
        )
        return self._before_record + fields[1:-1].encode() + tail

    def _bytes(self, name: str, value: bytes | None) -> dict[str, str | None]:
        return json_bytes(name, value, force_base64=self._force_base64)


class TextLines:
    """The lines of Kafka's own dump tool; ``data`` adds keys and values."""

    def __init__(self, *, data: bool) -> None:
        self._data = data
        self._batch_form = lru_cache(_FORMS)(partial(text_batch, valid=True))
        self._out = bytearray(_BUFFER_BYTES)

    def batch(self, batch: RecordBatch, *, valid: bool = True) -> bytes:
        """One line with the header; ``valid`` is what it says of the checksum."""
        return text_batch(batch.magic, batch.attributes, valid=valid).line(batch)

    def batches(self, table: BatchTable) -> Pieces:
        """One line a batch, as ``batch`` has it."""
        return _batches(table, self._batch_form, self._out)

    def records(self, table: RecordTable) -> Pieces:
        """One line a record."""
        return self._run(RecordRun.of(table), lambda *_: NOTHING)

    def run(self, run: RecordRun) -> Pieces:
        """The lines of each batch: its own, and one a record."""
        return self._run(run, self._batch_form)

    def _run(self, run: RecordRun, batch_form: Callable[[int, int], Form]) -> Pieces:
        def ways(batch: int) -> _Ways:
            table = run.table(batch)
            header = table.batch
            above = batch_form(header.magic, header.attributes)
            legacy = header.magic < 2
            pieces = [
                b"| offset: ",
                f" {header.timestamp_type.value}: ".encode(),
                b" keySize: ",
                b" valueSize: ",
                b" isValid: true crc: " if legacy else b" sequence: ",
                b"" if legacy else b" headerKeys: []",
                b" key: ",
                b" payload: ",
            ]

            def plain(row: int) -> tuple[int, int, int]:
                if header.is_control:
                    return batch, row, 0
                reached: tuple[int, int, int] = _lines.text_lines(
                    run.batches.rows,
                    run.starts,
                    run.rows,
                    run.block,
                    batch,
                    row,
                    self._data,
                    pieces,
                    above.text,
                    above.marks,
                    self._out,
                )
                return reached

            def special(row: int) -> bytes:
                return (b"" if row else above.line(header)) + self._record(table, row)

            return plain, special

        return _run(run, self._out, ways)

    def _record(self, table: RecordTable, row: int) -> bytes:
        batch, record = table.batch, table[row]
        line = (
            f"| offset: {record.offset} {batch.timestamp_type.value}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
        )
        if batch.magic < 2:
            crc, matches = table.message_crc(row)
            line += f"isValid: {java(matches)} crc: {crc}"
        else:
            sequence = sequence_at(batch.base_sequence, record.offset - batch.base_offset)
            header_keys = ",".join(_shown(key) for key, _ in record.headers)
            line += f"sequence: {sequence} headerKeys: [{header_keys}]"
        if batch.is_control:
            line += f" {_control(record)}"
        elif self._data:
            if record.key is not None:
                line += f" key: {_shown(record.key)}"
            if record.value is not None:
                line += f" payload: {_shown(record.value)}"
        return f"{line}\n".encode()


_QUORUM_LABELS: Final = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def _control(record: Record) -> str:
    """What a control record says, behind its sizes in the line."""
    try:
        control = decode_control(record.key, record.value)
    except DecodeError as error:
        return f"unreadable: {printable(str(error))}"
    kind = control.type
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {control.coordinator_epoch}"
    if kind is None or control.fields is None:
        name = "UNKNOWN" if kind is None else kind.name
        return f"controlType: {name}({control.type_id})"
    return f"{_QUORUM_LABELS[kind]} {json_text(control_json(control))}"


def _batches(table: BatchTable, form: Callable[[int, int], Form], out: bytearray) -> Pieces:
    """One line a batch, those of neighbours with the same form at once."""
    view = memoryview(out)
    row = 0
    while row < len(table):
        batch = table[row]
        words = form(batch.magic, batch.attributes)
        reached, used = _lines.batch_lines(table.rows, row, words.text, words.marks, out)
        if reached > row:
            yield view[:used]
            row = reached
        else:
            yield words.line(batch)
            row += 1


def _run(run: RecordRun, out: bytearray, ways: Callable[[int], _Ways]) -> Pieces:
    """Lines of ``run``: batches of plain records through ``out``, other records one by one."""
    view = memoryview(out)
    batch, row = 0, 0
    while batch < len(run):
        here, start, stop = batch, *run.starts[batch : batch + 2]
        plain, special = ways(here)
        while batch == here:
            batch, reached, used = plain(row)
            if used:
                yield view[:used]
            elif batch == here:
                if row < stop:
                    yield special(row - start)
                    reached += 1
                if reached == stop:
                    batch += 1
            row = reached


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _shown(value: bytes) -> str:
    """Bytes as text, made safe to print."""
    return printable(java_text(value))
