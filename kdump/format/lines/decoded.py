"""Records of internal topics as the decoders of Kafka's dump tool print them.

Spec: ``CoordinatorRecordMessageParser`` and ``ClusterMetadataLogMessageParser`` of
``DumpLogSegments`` 4.4.0. Of a record that these cannot read they print the message of an exception
after ``skipping.``; here that is the reason.
"""

from __future__ import annotations

from decimal import Decimal
from math import isinf, isnan
from typing import Any

from kdump.errors import DecodeError
from kdump.format.batch import Record
from kdump.format.lines.text import json_text, printable
from kdump.format.messages.forms import key_form, metadata_form, remote_form, value_form
from kdump.format.messages.payloads import (
    REMOTE_LOG_TOPIC,
    FramedTopic,
    PayloadDecoder,
    UnknownTypeError,
    decoder_of,
)


def decoded_texts(decoder: PayloadDecoder, record: Record) -> tuple[str | None, str | None]:
    """Return the texts of the key and of the value of a record, None for what is not printed."""
    framed = isinstance(decoder, FramedTopic)
    remote = decoder is decoder_of(REMOTE_LOG_TOPIC)
    try:
        key, value = decoder.decode(record.key, record.value)
        if remote and value is not None:
            return None, printable(remote_form(value))
    except DecodeError as error:
        if framed:
            where = f"offset {record.offset}" if remote else str(record.offset)
            return None, f"Error at {where}, skipping. {printable(str(error))}"
        return _error_text(error, record.offset), None
    if key is None:
        return None, None if value is None else _java_json(metadata_form(value))
    deleted = "<DELETE>" if value is None else json_text(value_form(value))
    return json_text(key_form(key)), deleted


def _error_text(error: DecodeError, offset: int) -> str:
    if isinstance(error, UnknownTypeError):
        return f"Unknown record type {error.type_id} at offset {offset}, skipping."
    return f"Error at offset {offset}, skipping. {printable(str(error))}"


def _java_json(value: Any) -> str:
    """Return ``value`` as JSON whose floating point numbers are written as by Java."""
    if isinstance(value, dict):
        members = (f"{json_text(name)}:{_java_json(item)}" for name, item in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_java_json, value))}]"
    return java_double(value) if isinstance(value, float) else json_text(value)


def java_double(number: float) -> str:
    """Return a number as ``Double.toString`` of Java 19 and later writes it, and Jackson in JSON.

    Java writes an exponent below 0.001 and from 10,000,000 on.
    """
    if isnan(number):
        return '"NaN"'
    if isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *others = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(others)}"
