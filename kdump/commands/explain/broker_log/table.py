"""The table of all messages, and the search for the message of an entry."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar

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


_WORD: Final = re.compile(rb"\w{3,}")
_DIGITS: Final = b"0123456789"
#: How many values are remembered, and for texts of how many bytes.
_KEPT: Final = 4_096
_KEPT_BYTES: Final = 1_024
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def without_digits(text: str) -> bytes:
    """Return ``text`` without digits, as what lines that differ in numbers have in common."""
    return text.encode(errors="replace").translate(None, _DIGITS)


class _Memory(dict[_Key, _Value]):
    """Values that are kept until there are too many of them."""

    def keep(self, key: _Key, value: _Value) -> _Value:
        """Keep and return ``value``."""
        if len(self) >= _KEPT:
            self.clear()
        self[key] = value
        return value


def _rank(row: BrokerMessage) -> int:
    """Return the rank of ``row`` among the rows that match an entry; the lowest explains it."""
    return 4 * (not row.decides) + 2 * (row.kind is Subject.CONSEQUENCE) + row.outer


class _Table:
    """Rows by their words. A long log has many lines: a search tries few rows.

    Rows of ``last`` are tried where no other row matches. Lines repeat, and what was found out for
    one is remembered for those with the same letters, and then for those with the same words of
    the table: the names of topics differ.
    """

    def __init__(self, rows: tuple[BrokerMessage, ...], last: tuple[BrokerMessage, ...]) -> None:
        self.rows: Final = (*rows, *last)
        self.ranks: Final = tuple(map(_rank, self.rows))
        self._first_last = len(rows)
        self._literals = tuple(tuple(map(without_digits, row.literals)) for row in self.rows)
        self._words = tuple(frozenset(map(str.encode, row.words)) for row in self.rows)
        self._vocabulary = frozenset(chain.from_iterable(self._words))
        counts = Counter(chain.from_iterable(self._words))
        # Each row by its rarest word.
        self._numbers: dict[bytes, list[int]] = {}
        self._wordless: list[int] = []
        for number, words in enumerate(self._words):
            word = min(sorted(words), key=counts.__getitem__, default=b"")
            numbers = self._numbers.setdefault(word, []) if word else self._wordless
            numbers.append(number)
        self._by_words = _Memory[frozenset[bytes], list[tuple[int, bytes]]]()
        self._by_letters = _Memory[bytes, list[int]]()

    def search(self, text: str) -> list[tuple[int, re.Match[str]]]:
        """Return the numbers of the rows that match ``text``, in the order of the table."""
        letters = without_digits(text)
        likely = self._by_letters.get(letters)
        if likely is None:
            likely = self._likely(letters)
            if len(letters) <= _KEPT_BYTES:
                self._by_letters.keep(letters, likely)
        found: list[tuple[int, re.Match[str]]] = []
        for number in likely:
            if found and number >= self._first_last:
                break
            match = self.rows[number].match(text)
            if match is not None:
                found.append((number, match))
        return found

    def _likely(self, letters: bytes) -> list[int]:
        """Return the rows whose literals are all in a text, whatever its digits."""
        words = self._vocabulary.intersection(_WORD.findall(letters))
        possible = self._by_words.get(words)
        if possible is None:
            possible = self._by_words.keep(words, self._possible(words))
        literals = self._literals
        return [
            number
            for number, longest in possible
            if longest in letters and all(map(letters.__contains__, literals[number]))
        ]

    def _possible(self, words: frozenset[bytes]) -> list[tuple[int, bytes]]:
        """Return the rows of which ``words`` has every word, each with its longest literal."""
        found = list(self._wordless)
        for word in words & self._numbers.keys():
            found += [number for number in self._numbers[word] if self._words[number] <= words]
        return [(number, self._literals[number][0]) for number in sorted(found)]


_TABLE: Final = _Table(MESSAGES, _quoted())
#: The codes that an entry leads to, by the row that explains it and all rows that match it.
_CODES: Final = _Memory[tuple[int, tuple[int, ...]], tuple[FindingCode, ...]]()
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
    if len(found) == 1:
        ((number, match),) = found
        row = _TABLE.rows[number]
        return Recognition(row, locate(text, (match,)), row.codes)
    best, first = min(found, key=_preference)
    numbers = tuple(number for number, _ in found)
    codes = _CODES.get((best, numbers))
    if codes is None:
        codes = _CODES.keep((best, numbers), _codes(best, numbers))
    matches = (first, *(match for number, match in found if number != best))
    return Recognition(_TABLE.rows[best], locate(text, matches), codes)


def _preference(found: tuple[int, re.Match[str]]) -> tuple[int, int]:
    number, match = found
    return _TABLE.ranks[number], match.start()


def mentions_disks(text: str) -> bool:
    """Return whether an unknown ``text`` mentions log directories, damage, offsets, or I/O."""
    lower = text.lower()
    return any(map(lower.__contains__, _DISK_WORDS)) or _SEGMENT.search(text) is not None


def _codes(best: int, numbers: tuple[int, ...]) -> tuple[FindingCode, ...]:
    """Return the codes of ``best``, narrowed to those that the entry's other messages share."""
    narrowed = _TABLE.rows[best].codes
    for number in numbers:
        both = tuple(code for code in narrowed if code in _TABLE.rows[number].codes)
        narrowed = both or narrowed
    return narrowed
