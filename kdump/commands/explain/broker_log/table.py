"""The table of all messages, and the search for the message of an entry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Final

from kdump.audit.finding_code import FindingCode
from kdump.commands.explain.broker_log.location import Location, locate
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject
from kdump.commands.explain.broker_log.rows import (
    clients,
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
    *metadata.ROWS, *quorum.ROWS, *serving.ROWS, *replicas.ROWS, *fetch_errors.ROWS,
    *older_logs.ROWS, *older_replicas.ROWS, *clients.ROWS, *elsewhere.ROWS, *refusals.ROWS,
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


class _Table:
    """Rows by the rarest word of each. A long log has many lines: a search tries few rows."""

    def __init__(self, rows: Iterable[BrokerMessage]) -> None:
        self._rows = tuple(rows)
        counts = Counter(chain.from_iterable(row.words for row in self._rows))
        self._numbers: dict[str, list[int]] = {"": []}
        for number, row in enumerate(self._rows):
            word = min(sorted(row.words), key=counts.__getitem__, default="")
            self._numbers.setdefault(word, []).append(number)

    def search(self, text: str, words: set[str]) -> list[tuple[BrokerMessage, re.Match[str]]]:
        """Return the rows that match ``text``, which has these words, in the order of the table."""
        found = list(self._numbers[""])
        for word in words & self._numbers.keys():
            found += self._numbers[word]
        likely = [row for row in map(self._rows.__getitem__, sorted(found)) if row.literal in text]
        return [(row, match) for row in likely if (match := row.match(text)) is not None]


_TABLE: Final = _Table(MESSAGES)
_QUOTED: Final = _Table(_quoted())
_WORD: Final = re.compile(r"\w{4,}")

#: Parts of words, in lower case, of texts that may concern disks: what a log directory holds, what
#: a batch consists of, what is done with both, and how it fails; and the packages that read them.
_DISK_WORDS: Final = (
    "logdir", "log dir", "segment", "checkpoint", "snapshot", "index", "meta.properties",
    "partition.metadata", "quorum-state", "directory", "directories", "stray", "logmanager",
    "record", "batch", "message set", "messageset", "magic", "crc", "checksum", "varint", "offset",
    "epoch", "watermark", "tombstone", "codec", "compress", "gzip", "snappy", "lz4", "zstd",
    "replay", "truncat", "recover", "corrupt", "malformed", "underflow", "unexpected eof",
    "decod", "message size", "key size", "negative size", "invalid message", "bad message",
    " in dir ", "ioexception", "i/o error", "input/output", "disk", "kafka.log.",
    "storage.internals", "kafka.raft",
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
    words = set(_WORD.findall(text))
    found = _TABLE.search(text, words) or _QUOTED.search(text, words)
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
