"""The table of all messages, and the search for the one that matches an entry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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

#: The first that matches counts, but that one with ``outer`` yields to one without.
MESSAGES: Final = (
    *directories.ROWS, *small_files.ROWS, *segments.ROWS, *indexes.ROWS, *metadata.ROWS,
    *serving.ROWS, *replicas.ROWS, *elsewhere.ROWS
)  # fmt: skip


def _messages_of_codes() -> tuple[Message, ...]:
    """Messages as finding codes have them, for what has no row of its own; the longest first."""
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
#: A word that a text has whole wherever it has what is around it.
_WHOLE_WORD: Final = re.compile(r"(?<=\W)\w{4,}(?=\W)")


def _by_word() -> dict[str, list[int]]:
    """Return the numbers of rows by a word of each that few rows have; without such a word by ""."""
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


@dataclass(frozen=True, slots=True)
class Location:
    """Where in a log directory a message says that something is; None for what it leaves open."""

    path: str | None = None
    partition: str | None = None
    offset: int | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Recognized:
    """The message that explains an entry, where it is about, and the codes that lead to it."""

    message: Message
    location: Location
    codes: tuple[FindingCode, ...]


def recognize(text: str) -> Recognized | None:
    """Find the message that explains ``text``, a line and what is below it; None without one."""
    found = [(row, match) for row in _candidates(text) if (match := row.match(text)) is not None]
    if not found:
        found = [(row, match) for row in _OF_CODES if (match := row.match(text))]
    if not found:
        return None
    inner = [pair for pair in found if not pair[0].outer]
    best, _ = min(
        inner or found, key=lambda pair: (pair[0].kind is Kind.CONSEQUENCE, pair[1].start())
    )
    return Recognized(best, _location(text, best, found), _codes(best, [row for row, _ in found]))


def _candidates(text: str) -> Iterator[Message]:
    """Yield the rows whose word is in ``text``, in their order: a long log has many lines."""
    words = _BY_WORD.keys() & _WORD.findall(text)
    found = {number for word in words for number in _BY_WORD[word]}
    return (MESSAGES[number] for number in sorted(found.union(_BY_WORD[""])))


def looks_like_disks(text: str) -> bool:
    """Return whether an unknown ``text`` speaks of log directories or of input and output."""
    return _DISK_WORDS.search(text) is not None


def _codes(best: Message, rows: list[Message]) -> tuple[FindingCode, ...]:
    """Those of ``best``, or of them those that the other messages of the entry lead to as well."""
    wanted = best.codes
    for row in rows:
        both = tuple(code for code in wanted if code in row.codes)
        wanted = both or wanted
    return wanted


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
    of_log = _LOG.search(text)
    log = of_log[1] if of_log else None
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
    # No offset has more digits; a log may hold any number of them.
    return int(text) if text is not None and len(text) <= 20 else None
