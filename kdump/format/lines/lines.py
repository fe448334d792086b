"""Batches and records as JSON lines, or as the text that Kafka's own dump tool prints.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.4.0 (KOD 8), with unsafe characters escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final, Protocol

from kdump.errors import DecodeError
from kdump.format.batch import BatchTable, Record, RecordBatch, RecordRun, RecordTable, sequence_at
from kdump.format.control import ControlRecord, ControlType, control_json, decode_control
from kdump.format.kernel import lines as _lines
from kdump.format.lines.decoded import decoded_texts
from kdump.format.lines.forms import (
    EMPTY_FORM,
    LineForm,
    java_boolean,
    json_batch,
    json_batch_of_record,
    text_batch,
)
from kdump.format.lines.text import java_text, json_bytes, json_text, printable
from kdump.format.messages.forms import payload_form
from kdump.format.messages.payloads import decoder_of

_BUFFER_BYTES: Final = 1 << 20
#: How many forms are cached: a log needs a few, but a forged log may need a new one for each batch.
_FORMS: Final = 64

#: Pieces of one or more lines; a view is valid until the next piece.
Pieces = Iterator[bytes | memoryview]
#: The two functions that write the records of a batch. The first writes lines of plain records from
#: a row on, also those of the following batches of the same form; it returns the batch and the row
#: that it reached, and the count of bytes. The second returns the line of any other record, by its
#: row in the batch.
_Writers = tuple[Callable[[int], tuple[int, int, int]], Callable[[int], bytes]]


class LineFormat(Protocol):
    """A format of batches and records as lines. A piece holds many lines."""

    def batches(self, table: BatchTable) -> Pieces:
        """Yield a line for each batch."""

    def records(self, table: RecordTable) -> Pieces:
        """Yield a line for each record."""

    def run(self, run: RecordRun) -> Pieces:
        """Yield a line for each record; in text, the line of their batch comes before them."""


class JsonLines:
    """JSON lines: an object with every header field of a batch, or every field of a record.

    A byte field that is valid UTF-8 is a string under its name. Otherwise, or with
    ``force_base64``, it is base64 under its name with the suffix ``_base64``. Null is null. Each
    line names the ``source_file``, if there is one. With ``decode``, keys and values of an internal
    topic and of control records are messages; ``undecoded`` says beside the bytes why one is not.
    """

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        *,
        force_base64: bool,
        source_file: str | None = None,
        decode: bool = False,
    ) -> None:
        origin: dict[str, object] = {"topic": topic, "partition": partition}
        if source_file is not None:
            origin["source_file"] = source_file
        self._before_record = json_text({"type": "record", **origin})[:-1].encode() + b","
        before_batch = json_text({"type": "batch", **origin})[:-1]
        self._batch_form = lru_cache(_FORMS)(partial(json_batch, before_batch))
        self._after_record = lru_cache(_FORMS)(json_batch_of_record)
        self._force_base64 = force_base64
        self._decode, self._decoder = decode, decoder_of(topic) if decode else None
        self._out = bytearray(_BUFFER_BYTES)

    def batch(self, batch: RecordBatch) -> bytes:
        """Return an object with every header field; those that a legacy header lacks are null."""
        return self._batch_form(batch.magic, batch.attributes).line(batch)

    def batches(self, table: BatchTable) -> Pieces:
        """Yield an object for each batch, as ``batch`` returns it."""
        return _batches(table, self._batch_form, self._out)

    def records(self, table: RecordTable) -> Pieces:
        """Yield an object for each record."""
        return self.run(RecordRun.of(table))

    def run(self, run: RecordRun) -> Pieces:
        """Yield an object for each record."""

        def writers(batch: int) -> _Writers:
            table = run.table(batch)
            header = table.batch
            decoded = self._decode and (header.is_control or self._decoder is not None)
            after = self._after_record(header.magic, header.attributes, table.magic)
            pieces = [
                self._before_record + b'"offset":',
                b',"timestamp":',
                f',"timestamp_type":"{table.timestamp_type.value}","key":'.encode(),
                b',"value":',
                b',"headers":[],"sequence":',
            ]
            tail = after.line(header)

            def write_plain(row: int) -> tuple[int, int, int]:
                if self._force_base64 or decoded:
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
                    after.text,
                    after.marks,
                    self._out,
                )
                return reached

            return write_plain, lambda row: self._record(table[row], table, tail)

        return _run(run, self._out, writers)

    def _record(self, record: Record, table: RecordTable, tail: bytes) -> bytes:
        batch = table.batch
        fields = json_text(
            {
                "offset": record.offset,
                "timestamp": record.timestamp if table.magic else None,
                "timestamp_type": table.timestamp_type.value,
                **self._contents(record, batch),
                "headers": [
                    {**self._bytes("key", key), **self._bytes("value", value)}
                    for key, value in record.headers
                ],
                "sequence": sequence_at(batch.base_sequence, record.offset - batch.base_offset),
            }
        )
        return self._before_record + fields[1:-1].encode() + tail

    def _contents(self, record: Record, batch: RecordBatch) -> dict[str, object]:
        """Return the fields of key and value, decoded if that is asked for."""
        undecoded = {}
        try:
            if self._decode and batch.is_control:
                return _control_fields(decode_control(record.key, record.value))
            if self._decoder is not None:
                key, value = self._decoder.decode(record.key, record.value)
                return {"key": key and payload_form(key), "value": value and payload_form(value)}
        except DecodeError as error:
            undecoded = {"undecoded": str(error)}
        return {**self._bytes("key", record.key), **self._bytes("value", record.value), **undecoded}

    def _bytes(self, name: str, value: bytes | None) -> dict[str, str | None]:
        return json_bytes(name, value, force_base64=self._force_base64)


class TextLines:
    """The lines of Kafka's own dump tool; ``data`` adds keys and values.

    ``topic`` is an internal topic whose keys and values are decoded, as by that tool's decoders.
    """

    def __init__(self, *, data: bool, topic: str | None = None) -> None:
        self._data = data
        self._decoder = decoder_of(topic)
        self._batch_form = lru_cache(_FORMS)(partial(text_batch, valid=True))
        self._out = bytearray(_BUFFER_BYTES)

    def batch(self, batch: RecordBatch, *, valid: bool = True) -> bytes:
        """Return a line with the header; ``valid``: its checksum matches."""
        return text_batch(batch.magic, batch.attributes, valid=valid).line(batch)

    def batches(self, table: BatchTable) -> Pieces:
        """Yield a line for each batch, as ``batch`` returns it."""
        return _batches(table, self._batch_form, self._out)

    def records(self, table: RecordTable) -> Pieces:
        """Yield a line for each record."""
        return self._run(RecordRun.of(table), lambda *_: EMPTY_FORM)

    def run(self, run: RecordRun) -> Pieces:
        """Yield, for each batch, its line and a line for each record."""
        return self._run(run, self._batch_form)

    def _run(self, run: RecordRun, batch_form: Callable[[int, int], LineForm]) -> Pieces:
        def writers(batch: int) -> _Writers:
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

            def write_plain(row: int) -> tuple[int, int, int]:
                if header.is_control or self._decoder is not None:
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

            def write_other(row: int) -> bytes:
                return (b"" if row else above.line(header)) + self._record(table, row)

            return write_plain, write_other

        return _run(run, self._out, writers)

    def _record(self, table: RecordTable, row: int) -> bytes:
        batch, record = table.batch, table[row]
        line = (
            f"| offset: {record.offset} {batch.timestamp_type.value}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
        )
        if batch.magic < 2:
            crc, matches = table.message_crc(row)
            line += f"isValid: {java_boolean(matches)} crc: {crc}"
        else:
            sequence = sequence_at(batch.base_sequence, record.offset - batch.base_offset)
            header_keys = ",".join(_printable_text(key) for key, _ in record.headers)
            line += f"sequence: {sequence} headerKeys: [{header_keys}]"
        if batch.is_control:
            line += f" {_control(record)}"
        elif self._data:
            key, value = self._texts(record)
            if key is not None:
                line += f" key: {key}"
            if value is not None:
                line += f" payload: {value}"
        return f"{line}\n".encode()

    def _texts(self, record: Record) -> tuple[str | None, str | None]:
        """Return the texts of key and value, None for what is not printed."""
        if self._decoder is not None:
            return decoded_texts(self._decoder, record)
        return (
            None if record.key is None else _printable_text(record.key),
            None if record.value is None else _printable_text(record.value),
        )


_QUORUM_LABELS: Final = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def _control(record: Record) -> str:
    """Return the content of a control record, for the end of its line."""
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


def _batches(table: BatchTable, form: Callable[[int, int], LineForm], out: bytearray) -> Pieces:
    """Yield a line for each batch; consecutive batches of the same form are written at once."""
    view = memoryview(out)
    row = 0
    while row < len(table):
        batch = table[row]
        batch_form = form(batch.magic, batch.attributes)
        reached, used = _lines.batch_lines(table.rows, row, batch_form.text, batch_form.marks, out)
        if reached > row:
            yield view[:used]
            row = reached
        else:
            yield batch_form.line(batch)
            row += 1


def _run(run: RecordRun, out: bytearray, writers: Callable[[int], _Writers]) -> Pieces:
    """Yield the lines of ``run``: plain records through ``out``, other records one by one.

    ``writers`` returns the functions that write the batch at an index.
    """
    view = memoryview(out)
    batch, row = 0, 0
    while batch < len(run):
        current, start, stop = batch, *run.starts[batch : batch + 2]
        write_plain, write_other = writers(current)
        while batch == current:
            batch, reached, used = write_plain(row)
            if used:
                yield view[:used]
            elif batch == current:
                if row < stop:
                    yield write_other(row - start)
                    reached += 1
                if reached == stop:
                    batch += 1
            row = reached


def _control_fields(control: ControlRecord) -> dict[str, object]:
    """Return the key and the value of a control record for JSON."""
    name = "UNKNOWN" if control.type is None else control.type.name
    return {
        "key": {"control": name, "type": control.type_id},
        "value": {"version": control.version, "fields": control_json(control)},
    }


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _printable_text(value: bytes) -> str:
    """Return bytes as text that is safe to print."""
    return printable(java_text(value))
