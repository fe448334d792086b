"""The text checkpoints: the four offset checkpoints and ``leader-epoch-checkpoint``.

Spec: ``CheckpointFile``, ``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``. Entries are in
file order and include duplicates, of which the last counts.

    0                   version
    2                   number of entries
    topic 0 1234        topic partition offset; or epoch and start offset
    topic 1 99
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

from kdump.errors import DecodeError
from kdump.values import frozen

VERSION = 0

_INT_BITS = 32
_LONG_BITS = 64
_NUMBER = re.compile(r"[+-]?\d{1,40}")  # as Integer.parseInt, which takes digits of any script
_LINE_END = re.compile(r"\r\n|\r|\n")
_SPACES = re.compile(r"[ \t\n\v\f\r]+")  # Java's \s


class MalformedCheckpointError(DecodeError):
    """The structure of the file is wrong: a broker takes the whole log directory offline."""


class CheckpointNumberError(DecodeError):
    """A number of an entry is malformed.

    A broker then reads an offset checkpoint as empty; with a leader epoch checkpoint it does not
    start.
    """


@frozen
class OffsetEntry:
    """A line of an offset checkpoint; the name of the file gives the meaning of the offset."""

    topic: str
    partition: int
    offset: int


@frozen
class EpochEntry:
    """A line of ``leader-epoch-checkpoint``: the first offset written under an epoch."""

    epoch: int
    start_offset: int


_Entry = TypeVar("_Entry")


def epochs_rise(entries: Sequence[EpochEntry]) -> bool:
    """Return whether epochs and start offsets rise from line to line, and none is negative."""
    return all(entry.epoch >= 0 <= entry.start_offset for entry in entries) and all(
        before.epoch < after.epoch and before.start_offset < after.start_offset
        for before, after in pairwise(entries)
    )


def decode_offsets(data: bytes) -> tuple[OffsetEntry, ...]:
    """Return the lines of an offset checkpoint; an empty file has none.

    Raises MalformedCheckpointError, CheckpointNumberError.
    """
    return _decode(data, 3, lambda f: OffsetEntry(f[0], _int(f[1]), _long(f[2])))


def decode_readable_offsets(data: bytes) -> tuple[OffsetEntry, ...]:
    """Return the readable lines of an offset checkpoint; skip all others.

    A last line without a line end is skipped, as digits of it may be lost.
    """
    return _decode_readable(data, lambda t, p, o: OffsetEntry(t, _int(p), _long(o)))


def decode_epochs(data: bytes) -> tuple[EpochEntry, ...]:
    """Return the lines of ``leader-epoch-checkpoint``; an empty file has none.

    Raises MalformedCheckpointError, CheckpointNumberError.
    """
    return _decode(data, 2, lambda f: EpochEntry(_int(f[0]), _long(f[1])))


def decode_readable_epochs(data: bytes) -> tuple[EpochEntry, ...]:
    """Return the readable lines of ``leader-epoch-checkpoint``; skip all others.

    A last line without a line end is skipped, as digits of it may be lost.
    """
    return _decode_readable(data, lambda epoch, start: EpochEntry(_int(epoch), _long(start)))


def encode_offsets(entries: Iterable[OffsetEntry]) -> bytes:
    """Return an offset checkpoint as Kafka writes it."""
    return _encode(f"{entry.topic} {entry.partition} {entry.offset}" for entry in entries)


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Return a ``leader-epoch-checkpoint`` as Kafka writes it."""
    return _encode(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def _encode(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(lines)), *lines]).encode()


def _decode(
    data: bytes, field_count: int, entry: Callable[[list[str]], _Entry]
) -> tuple[_Entry, ...]:
    lines = _lines(data)
    if not lines:
        return ()
    version = _heading(lines, 0)
    if version != VERSION:
        raise MalformedCheckpointError(
            f"checkpoint line 1: expected version {VERSION}, found {version}"
        )
    if len(lines) == 1:
        return ()
    count = _heading(lines, 1)
    if count < 0:
        raise CheckpointNumberError(f"checkpoint line 2: expected a count, found {count}")
    entries: list[_Entry] = []
    for number, line in enumerate(lines[2:], 3):
        fields = _split(line)
        if len(fields) != field_count:
            raise MalformedCheckpointError(
                f"checkpoint line {number}: expected {field_count} fields, found {len(fields)}"
            )
        try:
            entries.append(entry(fields))
        except ValueError as error:
            raise CheckpointNumberError(f"checkpoint line {number}: {error}") from error
    if len(entries) != count:
        raise MalformedCheckpointError(
            f"checkpoint line 2: expected {count} entries, found {len(entries)}"
        )
    return tuple(entries)


def _decode_readable(data: bytes, entry: Callable[..., _Entry]) -> tuple[_Entry, ...]:
    entries: list[_Entry] = []
    for line in data.split(b"\n")[:-1]:
        # TypeError: another number of fields.
        with suppress(ValueError, TypeError):
            entries.append(entry(*_split(line.decode("utf-8").removesuffix("\r"))))
    return tuple(entries)


def _lines(data: bytes) -> list[str]:
    try:
        lines = _LINE_END.split(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedCheckpointError(
            f"checkpoint: expected UTF-8, found byte {data[error.start]:#04x} at {error.start}"
        ) from error
    # As in BufferedReader.readLine, no empty line follows the last line end.
    return lines if lines[-1] else lines[:-1]


def _split(line: str) -> list[str]:
    fields = _SPACES.split(line)
    while len(fields) > 1 and not fields[-1]:  # Java's split drops empty fields at the end
        fields.pop()
    return fields


def _heading(lines: list[str], index: int) -> int:
    try:
        return _int(lines[index])
    except ValueError as error:
        raise MalformedCheckpointError(f"checkpoint line {index + 1}: {error}") from error


def _int(text: str) -> int:
    return _parse(text, _INT_BITS)


def _long(text: str) -> int:
    return _parse(text, _LONG_BITS)


def _parse(text: str, bits: int) -> int:
    bound = 1 << bits - 1
    if _NUMBER.fullmatch(text) and -bound <= int(text) < bound:
        return int(text)
    raise ValueError(f"expected a number of {bits} bits, found {text[:40]!r}")
