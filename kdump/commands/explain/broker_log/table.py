"""The table of all messages, and the search for the message of an entry."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Final

from kdump.audit.finding_code import FindingCode
from kdump.commands.explain.broker_log.location import Location, locate
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject
from kdump.commands.explain.broker_log.rows import (
    clients,
    coordinators,
    directories,
    elsewhere,
    fetch_errors,
    findings,
    indexes,
    metadata,
    older_logs,
    older_replicas,
    quorum,
    refusals,
    replicas,
    segments,
    serving,
    small_files,
    system,
)
from kdump.values import frozen

#: All rows. The first match counts, but a row without ``outer`` takes precedence.
MESSAGES: Final = (
    *system.ROWS, *directories.ROWS, *small_files.ROWS, *segments.ROWS, *indexes.ROWS,
    *metadata.ROWS, *quorum.ROWS, *serving.ROWS, *replicas.ROWS, *coordinators.ROWS,
    *fetch_errors.ROWS, *older_logs.ROWS, *older_replicas.ROWS, *clients.ROWS, *elsewhere.ROWS,
    *refusals.ROWS,
)  # fmt: skip

_FIELD: Final = re.compile(r"\{\w+\}")


def messages_of(code: FindingCode) -> tuple[str, ...]:
    """Return the messages that the entry of ``code`` quotes, with ``{}`` where they vary."""
    rows = (row for row in (*MESSAGES, *findings.ROWS) if row.is_quoted_by(code))
    return tuple(dict.fromkeys(_FIELD.sub("{}", row.pattern) for row in rows))


def _quoted() -> tuple[BrokerMessage, ...]:
    """Return the rows for lines that no other row matches, the longest first.

    Those that entries quote are among them: a path or an offset may be left out of a line.
    """
    loose = (replace(row, pattern=_FIELD.sub("{}", row.pattern)) for row in MESSAGES if row.quoted)
    rows = (*findings.ROWS, *loose)
    return tuple(sorted(rows, key=lambda row: -len(row.pattern.replace("{}", ""))))


_WORD: Final = re.compile(rb"\w{4,}")
_DIGITS: Final = b"0123456789"
#: How many lines, each of how many bytes, a table remembers.
_KEPT_LINES: Final = 4_096
_KEPT_BYTES: Final = 1_024


def without_digits(text: str) -> bytes:
    """Return ``text`` without digits, as what lines that differ in numbers have in common."""
    return text.encode(errors="replace").translate(None, _DIGITS)


class _Table:
    """Rows by the rarest word of each. A long log has many lines: a search tries few rows.

    Rows of ``last`` are tried where no other row matches.
    """

    def __init__(self, rows: tuple[BrokerMessage, ...], last: tuple[BrokerMessage, ...]) -> None:
        self._rows = (*rows, *last)
        self._first_last = len(rows)
        self._literals = tuple(tuple(map(without_digits, row.literals)) for row in self._rows)
        counts = Counter(chain.from_iterable(row.words for row in self._rows))
        self._numbers: dict[bytes, list[int]] = {}
        self._wordless: list[int] = []
        for number, row in enumerate(self._rows):
            word = min(sorted(row.words), key=counts.__getitem__, default="")
            numbers = self._numbers.setdefault(word.encode(), []) if word else self._wordless
            numbers.append(number)
        # Lines repeat with other numbers, and those with the same letters match the same rows.
        self._likely: dict[bytes, list[int]] = {}

    def search(self, text: str) -> list[tuple[BrokerMessage, re.Match[str]]]:
        """Return the rows that match ``text``, in the order of the table."""
        letters = without_digits(text)
        likely = self._likely.get(letters)
        if likely is None:
            likely = self._search(letters)
            if len(letters) <= _KEPT_BYTES:
                if len(self._likely) >= _KEPT_LINES:
                    self._likely.clear()
                self._likely[letters] = likely
        found: list[tuple[BrokerMessage, re.Match[str]]] = []
        for number in likely:
            if found and number >= self._first_last:
                break
            row = self._rows[number]
            match = row.match(text)
            if match is not None:
                found.append((row, match))
        return found

    def _search(self, letters: bytes) -> list[int]:
        """Return the rows whose literals are all in a text, whatever its digits."""
        numbers, literals = self._numbers, self._literals
        found = [number for number in self._wordless if literals[number][0] in letters]
        for word in numbers.keys() & _WORD.findall(letters):
            found += [number for number in numbers[word] if literals[number][0] in letters]
        return sorted(
            number for number in found if all(literal in letters for literal in literals[number])
        )


_TABLE: Final = _Table(MESSAGES, _quoted())
#: Parts of words, in lower case, of texts that may concern disks: what a log directory holds, what
#: a batch consists of, what is done with both, and how it fails; and the packages that read them.
_DISK_WORDS: Final = (
    "logdir", "log dir", "segment", "checkpoint", "snapshot", "index", "meta.properties",
    "partition.metadata", "quorum-state", "directory", "directories", "stray", "logmanager",
    "record", "batch", "message set", "messageset", "magic", "crc", "checksum", "varint", "offset",
    "epoch", "watermark", "tombstone", "codec", "compress", "gzip", "snappy", "lz4", "zstd",
    "replay", "truncat", "recover", "corrupt", "malformed", "underflow", "unexpected eof",
    "decod", "message size", "key size", "negative size", "invalid message", "bad message",
    " in dir ", "ioexception", "storageexception", "i/o error", "input/output", "disk",
    "kafka.log.", "storage.internals", "kafka.raft",
)  # fmt: skip
_SEGMENT: Final = re.compile(r"/\d{20}\.")


@frozen
class Recognition:
    """The message that explains an entry, its location, and the codes that lead to it."""

    message: BrokerMessage
    location: Location
    codes: tuple[FindingCode, ...]


def recognize(text: str) -> Recognition | None:
    """Return the message that explains ``text``, a line with its trace; None without one."""
    found = _TABLE.search(text)
    if not found:
        return None
    best, _ = min(found, key=_preference)
    rows = [row for row, _ in found]
    matches = [match for _, match in sorted(found, key=lambda pair: pair[0] is not best)]
    return Recognition(best, locate(text, matches), _codes(best, rows))


def _preference(pair: tuple[BrokerMessage, re.Match[str]]) -> tuple[bool, bool, bool, int]:
    row, match = pair
    return not row.decides, row.kind is Subject.CONSEQUENCE, row.outer, match.start()


def mentions_disks(text: str) -> bool:
    """Return whether an unknown ``text`` mentions log directories, damage, offsets, or I/O."""
    lower = text.lower()
    return any(map(lower.__contains__, _DISK_WORDS)) or _SEGMENT.search(text) is not None


def _codes(best: BrokerMessage, rows: list[BrokerMessage]) -> tuple[FindingCode, ...]:
    """Return the codes of ``best``, narrowed to those that the entry's other messages share."""
    narrowed = best.codes
    for row in rows:
        both = tuple(code for code in narrowed if code in row.codes)
        narrowed = both or narrowed
    return narrowed
