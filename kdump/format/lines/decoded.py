"""Records of internal topics as the decoders of Kafka's dump tool print them.

Spec: ``CoordinatorRecordMessageParser`` and ``ClusterMetadataLogMessageParser`` of
``DumpLogSegments`` 4.3.1. Of a record that these cannot read they print the message of an exception
after ``skipping.``; here that is the reason.
"""

from __future__ import annotations

from kdump.errors import DecodeError
from kdump.format.batch import Record
from kdump.format.lines.text import json_text, printable
from kdump.format.messages.forms import key_form, metadata_form, value_form
from kdump.format.messages.payloads import MetadataTopic, PayloadDecoder, UnknownTypeError


def decoded_texts(decoder: PayloadDecoder, record: Record) -> tuple[str | None, str | None]:
    """Return the texts of the key and of the value of a record, None for what is not printed."""
    metadata = isinstance(decoder, MetadataTopic)
    try:
        key, value = decoder.decode(record.key, record.value)
    except DecodeError as error:
        text = _error_text(error, record.offset, metadata=metadata)
        return (None, text) if metadata else (text, None)
    if key is None:
        return None, None if value is None else json_text(metadata_form(value))
    deleted = "<DELETE>" if value is None else json_text(value_form(value))
    return json_text(key_form(key)), deleted


def _error_text(error: DecodeError, offset: int, *, metadata: bool) -> str:
    if isinstance(error, UnknownTypeError) and not metadata:
        return f"Unknown record type {error.type_id} at offset {offset}, skipping."
    where = str(offset) if metadata else f"offset {offset}"
    return f"Error at {where}, skipping. {printable(str(error))}"
