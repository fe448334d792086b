"""The fields of a batch in one line of a dump.

The text of a line depends on the magic and the attributes alone: batches share a form, and compiled
code fills in the numbers.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.4.0 for the text (KOD 8).
"""

from __future__ import annotations

import re
from array import array
from typing import Final

from kdump.format.batch import RecordBatch
from kdump.format.codecs import Codec
from kdump.format.kernel import lines as _lines
from kdump.format.legacy import is_wrapper
from kdump.format.lines.text import json_text

#: A field whose number is filled in, with the quotes that JSON puts around it.
_FIELD: Final = re.compile(r'"?<(\w+)>"?')


class LineForm:
    """The form of a line, or of a part of it, with ``<field>`` for each number of the header.

    ``before`` is text in front of ``line`` without fields. ``text`` is the whole form without its
    fields. ``marks`` has two numbers for each field: its position in ``text``, and its index in
    ``FORM_FIELDS`` of the compiled code.
    """

    __slots__ = ("_parts", "marks", "text")

    def __init__(self, line: str, before: str = "") -> None:
        self._parts = _FIELD.split(line)
        self._parts[0] = before + self._parts[0]
        self.text = b""
        self.marks = array("q")
        for words, field in zip(self._parts[::2], [*self._parts[1::2], ""], strict=True):
            self.text += words.encode()
            if field:
                self.marks.extend((len(self.text), _lines.FORM_FIELDS.index(field)))

    def line(self, batch: RecordBatch) -> bytes:
        """Return the line with the numbers of ``batch``."""
        parts = list(self._parts)
        parts[1::2] = [str(getattr(batch, field)) for field in parts[1::2]]
        return "".join(parts).encode()


#: A form without text.
EMPTY_FORM: Final = LineForm("")


def codec_label(codec_id: int) -> str:
    """Return the name of the codec, or ``unknown`` with its number."""
    try:
        return Codec(codec_id).label
    except ValueError:
        return f"unknown({codec_id})"


def header_of(magic: int, attributes: int) -> RecordBatch:
    """Return a header with this magic and these attributes; its other fields are 0."""
    return RecordBatch(0, 0, 0, 0, 0, magic, 0, attributes, 0, 0, 0, 0, 0, 0)


def text_batch(magic: int, attributes: int, *, valid: bool) -> LineForm:
    """Return the form of a batch's line in Kafka's tool; ``valid``: its checksum matches."""
    batch = header_of(magic, attributes)
    if magic > 1:
        horizon = "Long.empty" if batch.delete_horizon_ms is None else "Long[<base_timestamp>]"
        fields = (
            "baseOffset: <base_offset> lastOffset: <last_offset> count: <count> "
            "baseSequence: <base_sequence> lastSequence: <last_sequence> "
            "producerId: <producer_id> producerEpoch: <producer_epoch> partitionLeaderEpoch: "
            f"<leader_epoch> isTransactional: {java_boolean(batch.is_transactional)} "
            f"isControl: {java_boolean(batch.is_control)} deleteHorizonMs: Optional{horizon}"
        )
    else:
        fields = "offset: <last_offset>"
    return LineForm(
        f"{fields} position: <position> {batch.timestamp_type.value}: <max_timestamp> size: <size> "
        f"magic: {magic} compresscodec: {codec_label(batch.codec_id)} crc: <crc> "
        f"isvalid: {java_boolean(valid)}\n"
    )


def json_batch(before: str, magic: int, attributes: int) -> LineForm:
    """Return the form of all header fields in JSON; those that a legacy header lacks are null.

    ``before`` is the JSON text of the fields in front of them.
    """
    batch = header_of(magic, attributes)
    wrapper = is_wrapper(batch)
    fields = {
        "position": "<position>",
        "size": "<size>",
        "base_offset": None if wrapper else "<base_offset>",
        "last_offset": "<last_offset>",
        "count": None if wrapper else "<count>",
        "magic": magic,
        "crc": "<crc>",
        "attributes": attributes,
        "codec": codec_label(batch.codec_id),
        "timestamp_type": batch.timestamp_type.value,
        "base_timestamp": "<base_timestamp>" if magic else None,
        "max_timestamp": "<max_timestamp>" if magic else None,
        "leader_epoch": "<leader_epoch>",
        "producer_id": "<producer_id>",
        "producer_epoch": "<producer_epoch>",
        "base_sequence": "<base_sequence>",
        "last_sequence": "<last_sequence>",
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "delete_horizon_ms": None if batch.delete_horizon_ms is None else "<base_timestamp>",
    }
    return LineForm(f",{json_text(fields)[1:]}\n", before)


def json_batch_of_record(magic: int, attributes: int, record_magic: int) -> LineForm:
    """Return the form of the batch fields that follow the fields of a record in JSON."""
    batch = header_of(magic, attributes)
    fields = {
        "position": "<position>",
        "magic": record_magic,
        "codec": codec_label(batch.codec_id),
        "leader_epoch": "<leader_epoch>",
        "producer_id": "<producer_id>",
        "producer_epoch": "<producer_epoch>",
        "transactional": batch.is_transactional,
        "control": batch.is_control,
    }
    return LineForm(f",{json_text(fields)[1:]}\n")


def java_boolean(value: bool) -> str:
    """Return a boolean as Java prints it."""
    return "true" if value else "false"
