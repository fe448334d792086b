"""Batches and records to lines: JSON without loss, and text as Kafka's own dump tool prints it.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.3.1 (KOD 8), with unsafe characters escaped.
It must never print: it gives bytes, lines ended by a newline, to whoever writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from kdump.errors import DecodeError
from kdump.format import _lines
from kdump.format.batch import Record, RecordBatch, RecordTable, sequence_at
from kdump.format.codecs import Codec
from kdump.format.control import ControlType, control_json, decode_control
from kdump.format.legacy import is_wrapper
from kdump.format.text import java_text, json_bytes, json_text, printable

_BUFFER_BYTES: Final = 1 << 20


class LineFormat(Protocol):
    """How batches and records become lines."""

    def batch(self, batch: RecordBatch) -> bytes:
        """One line for a batch."""

    def records(self, table: RecordTable) -> Iterator[bytes | memoryview]:
        """One line a record, many to a piece; a piece is valid until the next."""


def codec_label(codec_id: int) -> str:
    """The codec's name, or its number where that is no codec."""
    try:
        return Codec(codec_id).label
    except ValueError:
        return f"unknown({codec_id})"


class JsonLines:
    """JSON objects, one a line: every header field of a batch; every field of a record.

    A byte field that is valid UTF-8 is a string under its own name, else (or with
    ``force_base64``) base64 under that name with ``_base64`` behind it. Null stays null.
    """

    def __init__(self, topic: str | None, partition: int | None, *, force_base64: bool) -> None:
        self._where = {"topic": topic, "partition": partition}
        self._force_base64 = force_base64
        self._out = bytearray(_BUFFER_BYTES)

    def batch(self, batch: RecordBatch) -> bytes:
        """One object with every field of the header; null for what an old one does not say."""
        wrapper = is_wrapper(batch)
        return _line(
            {
                "type": "batch",
                **self._where,
                "position": batch.position,
                "size": batch.size,
                "base_offset": None if wrapper else batch.base_offset,
                "last_offset": batch.last_offset,
                "count": None if wrapper else batch.count,
                "magic": batch.magic,
                "crc": batch.crc,
                "attributes": batch.attributes,
                "codec": codec_label(batch.codec_id),
                "timestamp_type": batch.timestamp_type.value,
                "base_timestamp": batch.base_timestamp if batch.magic else None,
                "max_timestamp": batch.max_timestamp if batch.magic else None,
                "leader_epoch": batch.leader_epoch,
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "base_sequence": batch.base_sequence,
                "last_sequence": batch.last_sequence,
                "transactional": batch.is_transactional,
                "control": batch.is_control,
                "delete_horizon_ms": batch.delete_horizon_ms,
            }
        )

    def records(self, table: RecordTable) -> Iterator[bytes | memoryview]:
        """One object a record."""
        batch = table.batch
        head, tail = self._around(table)

        def special(row: int) -> bytes:
            return self._record(table[row], table, head, tail)

        if self._force_base64:
            yield from map(special, range(len(table)))
            return
        pieces = [
            head + b'"offset":',
            b',"timestamp":',
            f',"timestamp_type":"{table.timestamp_type.value}","key":'.encode(),
            b',"value":',
            b',"headers":[],"sequence":',
            b"," + tail,
        ]

        def plain(first: int) -> tuple[int, int]:
            reached: tuple[int, int] = _lines.json_lines(
                table.rows,
                table.block,
                first,
                batch.base_offset,
                batch.base_sequence,
                table.magic != 0,
                pieces,
                self._out,
            )
            return reached

        yield from _bulk(table, self._out, plain, special)

    def _around(self, table: RecordTable) -> tuple[bytes, bytes]:
        """What is the same in all records of ``table``: the fields before and behind their own."""
        batch = table.batch
        head = json_text({"type": "record", **self._where})
        tail = json_text(
            {
                "position": batch.position,
                "magic": table.magic,
                "codec": codec_label(batch.codec_id),
                "leader_epoch": batch.leader_epoch,
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "transactional": batch.is_transactional,
                "control": batch.is_control,
            }
        )
        return f"{head[:-1]},".encode(), f"{tail[1:]}\n".encode()

    def _record(self, record: Record, table: RecordTable, head: bytes, tail: bytes) -> bytes:
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
        return head + fields[1:-1].encode() + b"," + tail

    def _bytes(self, name: str, value: bytes | None) -> dict[str, str | None]:
        return json_bytes(name, value, force_base64=self._force_base64)


class TextLines:
    """The lines of Kafka's own dump tool; ``data`` adds keys and values."""

    def __init__(self, *, data: bool) -> None:
        self._data = data
        self._out = bytearray(_BUFFER_BYTES)

    def batch(self, batch: RecordBatch, *, valid: bool = True) -> bytes:
        """One line with the header; ``valid`` is what it says of the checksum."""
        if batch.magic > 1:
            horizon = batch.delete_horizon_ms
            own = (
                f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} "
                f"count: {batch.count} baseSequence: {batch.base_sequence} "
                f"lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
                f"producerEpoch: {batch.producer_epoch} "
                f"partitionLeaderEpoch: {batch.leader_epoch} "
                f"isTransactional: {_java(batch.is_transactional)} "
                f"isControl: {_java(batch.is_control)} deleteHorizonMs: "
                + ("OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]")
            )
        else:
            own = f"offset: {batch.last_offset}"
        return (
            f"{own} position: {batch.position} "
            f"{batch.timestamp_type.value}: {batch.max_timestamp} size: {batch.size} "
            f"magic: {batch.magic} compresscodec: {codec_label(batch.codec_id)} crc: {batch.crc} "
            f"isvalid: {_java(valid)}\n"
        ).encode()

    def records(self, table: RecordTable) -> Iterator[bytes | memoryview]:
        """One line a record."""
        batch = table.batch
        if batch.is_control:
            yield from (self._record(table, row) for row in range(len(table)))
            return
        legacy = batch.magic < 2
        pieces = [
            b"| offset: ",
            f" {batch.timestamp_type.value}: ".encode(),
            b" keySize: ",
            b" valueSize: ",
            b" isValid: true crc: " if legacy else b" sequence: ",
            b"" if legacy else b" headerKeys: []",
            b" key: ",
            b" payload: ",
        ]

        def plain(first: int) -> tuple[int, int]:
            reached: tuple[int, int] = _lines.text_lines(
                table.rows,
                table.block,
                first,
                batch.base_offset,
                batch.base_sequence,
                pieces,
                self._data,
                legacy,
                self._out,
            )
            return reached

        yield from _bulk(table, self._out, plain, lambda row: self._record(table, row))

    def _record(self, table: RecordTable, row: int) -> bytes:
        batch, record = table.batch, table[row]
        line = (
            f"| offset: {record.offset} {batch.timestamp_type.value}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
        )
        if batch.magic < 2:
            crc, matches = table.message_crc(row)
            line += f"isValid: {_java(matches)} crc: {crc}"
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


def _bulk(
    table: RecordTable,
    out: bytearray,
    plain: Callable[[int], tuple[int, int]],
    special: Callable[[int], bytes],
) -> Iterator[bytes | memoryview]:
    """Lines of ``table``: runs of plain records through ``out``, the others one by one."""
    view = memoryview(out)
    row, n = 0, len(table)
    while row < n:
        reached, used = plain(row)
        if used:
            yield view[:used]
        if reached == row:
            yield special(row)
            reached += 1
        row = reached


def _line(fields: dict[str, object]) -> bytes:
    return f"{json_text(fields)}\n".encode()


def _java(value: bool) -> str:
    return "true" if value else "false"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _shown(value: bytes) -> str:
    """Bytes as text, made safe to print."""
    return printable(java_text(value))
