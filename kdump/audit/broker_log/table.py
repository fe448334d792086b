"""The table of all messages, and the search for the message of an entry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from kdump.audit.broker_log import (
    directories,
    elsewhere,
    indexes,
    metadata,
    replicas,
    segments,
    serving,
    small_files,
)
from kdump.audit.broker_log.message import Kind, Message
from kdump.audit.codes import CODES, FindingCode
from kdump.values import frozen

#: All rows. The first match counts, but a row without ``outer`` takes precedence.
MESSAGES: Final = (
    *directories.ROWS, *small_files.ROWS, *segments.ROWS, *indexes.ROWS, *metadata.ROWS,
    *serving.ROWS, *replicas.ROWS, *elsewhere.ROWS
)  # fmt: skip


def _messages_of_codes() -> tuple[Message, ...]:
    """Return the messages of finding codes, for entries without a row; the longest first."""
    leads: dict[str, list[FindingCode]] = {}
    for code in CODES.values():
        for text in code.messages:
            leads.setdefault(text, []).append(code)
    return tuple(
        Message(text, Kind.DISK, leads[text][0].meaning, leads[text][0].advice, tuple(leads[text]))
        for text in sorted(leads, key=lambda text: -len(text.replace("{}", "")))
    )


_OF_CODES: Final = _messages_of_codes()

_WORD: Final = re.compile(r"\w+")
#: A word between two characters of a literal that are not part of words. Every text that contains
#: the literal contains it as a whole word.
_WHOLE_WORD: Final = re.compile(r"(?<=\W)\w{4,}(?=\W)")


def _by_word() -> dict[str, list[int]]:
    """Return the numbers of rows by the rarest word of each; by "" without a word."""
    words = [set(_WHOLE_WORD.findall(row.literal)) for row in MESSAGES]
    rows = Counter(chain.from_iterable(words))
    numbers: dict[str, list[int]] = {"": []}
    for number, found in enumerate(words):
        word = min(sorted(found), key=rows.__getitem__, default="")
        numbers.setdefault(word, []).append(number)
    return numbers


_BY_WORD: Final = _by_word()

_PREFIX: Final = re.compile(
    r"\[(?:\w[^\]\n]*?partition=|LeaderEpochCache |Partition )([\w.\-]+-\d+)(?:, dir=([^\]\n]+))?"
)
_FILE: Final = re.compile(r"(/[^\s,'\"()\[\]]+/(?:[\w.\-]+-\d+)/\d{20}\.[\w.]+)")
_LOG: Final = re.compile(r"\bLog\(dir=(/[^,\n]+), topic")
_OF_PARTITION: Final = re.compile(r"[\w.\-]+-\d+(?:\.[0-9a-f]{32}-(?:stray|delete|future))?")

_DISK_WORDS: Final = re.compile(
    r"(?i)log ?dir|segment|checkpoint|snapshot|corrupt|index file|/\d{20}\.|IOException|\bdisk\b|"
    r"kafka\.log\.|storage\.internals|kafka\.raft|LogManager|meta\.properties|truncat"
)


@frozen
class Location:
    """The location in a log directory that a message names; None for missing parts."""

    path: str | None = None
    partition: str | None = None
    offset: int | None = None
    position: int | None = None


@frozen
class Recognition:
    """The message that explains an entry, its location, and the codes that lead to it."""

    message: Message
    location: Location
    codes: tuple[FindingCode, ...]


def recognize(text: str) -> Recognition | None:
    """Return the message that explains ``text``, a line with its trace; None without one."""
    found = [(row, match) for row in _candidates(text) if (match := row.match(text)) is not None]
    if not found:
        found = [(row, match) for row in _OF_CODES if (match := row.match(text))]
    if not found:
        return None
    inner = [pair for pair in found if not pair[0].outer]
    best, _ = min(
        inner or found, key=lambda pair: (pair[0].kind is Kind.CONSEQUENCE, pair[1].start())
    )
    return Recognition(best, _location(text, best, found), _codes(best, [row for row, _ in found]))


def _candidates(text: str) -> Iterator[Message]:
    """Return the rows whose word is in ``text``, in the order of the table.

    A long log has many lines: the search tries only these rows.
    """
    words = _BY_WORD.keys() & _WORD.findall(text)
    found = {number for word in words for number in _BY_WORD[word]}
    return (MESSAGES[number] for number in sorted(found.union(_BY_WORD[""])))


def mentions_disks(text: str) -> bool:
    """Return whether an unknown ``text`` mentions log directories, or input and output."""
    return _DISK_WORDS.search(text) is not None


def _codes(best: Message, rows: list[Message]) -> tuple[FindingCode, ...]:
    """Return the codes of ``best``, narrowed to those that the entry's other messages share."""
    narrowed = best.codes
    for row in rows:
        both = tuple(code for code in narrowed if code in row.codes)
        narrowed = both or narrowed
    return narrowed


def _location(text: str, best: Message, found: list[tuple[Message, re.Match[str]]]) -> Location:
    fields: dict[str, str] = {}
    for _, match in sorted(found, key=lambda pair: pair[0] is not best):
        for name, value in match.groupdict().items():
            if value:
                fields.setdefault(name, value)
    prefix = _PREFIX.search(text)
    if prefix is not None:
        fields.setdefault("partition", prefix[1])
        if prefix[2]:
            fields.setdefault("path", f"{prefix[2]}/{prefix[1]}")
    log_match = _LOG.search(text)
    log = log_match[1] if log_match else None
    path = fields.get("path")
    if path is None or not path.startswith("/"):
        file = _FILE.search(text)
        path = file[1] if file else log
    partition = fields.get("partition")
    for candidate in (path, log):
        if candidate is not None and partition is None:
            names = [name for name in candidate.split("/")[-2:] if _OF_PARTITION.fullmatch(name)]
            partition = names[-1] if names else None
    return Location(path, partition, _number(fields.get("offset")), _number(fields.get("position")))


def _number(text: str | None) -> int | None:
    # An offset has at most 20 digits, but a log may contain longer numbers.
    return int(text) if text is not None and len(text) <= 20 else None
