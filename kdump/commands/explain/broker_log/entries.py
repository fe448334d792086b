"""Lines of a log as entries: level, text and stack trace.

Spec: the layout ``[%d] %p %m (%c)%n`` of Kafka's own logging configuration. Text before the time,
such as the prefix of a container's log or of the system log, is skipped. The time may be missing.
Lines of JSON are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kdump.commands.explain.broker_log.layouts import is_quiet, plain_lines

#: The largest number of bytes of a line, and of characters of an entry. The rest is dropped.
LINE_BYTES: Final = 16_384
_ENTRY_CHARACTERS: Final = 32_768

_LEVELS: Final = rb"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)"
_TIME: Final = rb"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)(?:Z|[+-]\d\d:?\d\d)?\]?"
_HEAD: Final = re.compile(
    rb"(?:.{0,120}?%s.{0,80}?\b(%s)\b|\W{0,3}(%s)\b)[\]:]?\s+" % (_TIME, _LEVELS, _LEVELS)
)
#: A line of ordinary running in Kafka's own layout: most lines of a log.
_ORDINARY: Final = re.compile(
    rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3}\]? (?:INFO|DEBUG|TRACE) "
)
#: A line that continues an entry: a frame of a stack trace, indented or not, or an exception and
#: its message.
_BELOW: Final = re.compile(
    rb"\s|Caused by: |cause: |Suppressed: |\w+(?:\.[\w$]+)+(?:: |$)|\r?$|at [\w.$/@]+\("
    rb"|\.\.\. \d+ more"
)
#: A frame of a stack trace. Only frames that show which file the broker read are used.
_FRAME: Final = re.compile(rb"(?:.{0,120}\|)?\s*(?:at [\w.$/@]+[(.$]|\.\.\. \d+ more)")
_INDENTED_FRAME: Final = b"\tat "
_FILE_FRAME: Final = re.compile(
    rb"PartitionMetadata|LeaderEpochCheckpointFile|OffsetCheckpoint|offsetFromFile|"
    rb"parseTopicPartitionName|sun\.nio\.fs\.Windows"
)
#: A line that continues the text of the line above, which was wrapped.
_WRAPPED: Final = re.compile(
    rb"cause: |[ \t]+(?!at |Caused by: |Suppressed: |\.\.\. |[\w$]+(?:\.[\w$]+)+(?:: |\s*$))\S"
)
_LOGGER: Final = re.compile(r" \(((?:[\w$]+\.)*[\w$]+)\)(?=\s|$)")

#: The messages at INFO about log directories that reports include. They begin with letters that
#: are rare in a log, which makes the search fast.
_NOTED: Final = re.compile(
    rb"Found stray log dir|Found log file \S+ from interrupted swap|Recovering unflushed segment|"
    rb"Recovering file \S+ by renaming|Skipping recovery of|Attempting recovery for all logs|"
    rb"Caught segment overflow error|Deleting segments as part of log (?:recovery|truncation)|"
    rb"Truncating to offset|The topicId does not exist in|Error while loading logs in|"
    rb"Fetch (?:offset|position) .{0,300}? is out of range for|pacted but has not been|"
    rb"ue to log start offset|which typically implies a leader change|Election (?:has )?timed out|"
    rb"Voter key for VOTE|sent a voter key|returned error INCONSISTENT_CLUSTER_ID|"
    rb"Found no committed offset for|Resetting offset for partition"
)


#: A line that may be JSON: its first brace comes before any bracket of Kafka's own layout.
_MAYBE_JSON: Final = re.compile(rb"[^\[{]{0,120}\{\s{0,8}\"")


@dataclass(slots=True)
class LogEntry:
    """One logged entry: ``text`` is the message, and the exceptions of the trace below it.

    ``line`` counts from 1. ``level`` and ``time`` are empty if the line has none.
    """

    line: int
    level: str
    time: str
    message: str
    logger: str
    text: str


def read_entries(lines: Iterable[bytes]) -> Iterator[LogEntry]:
    """Yield the entries that may concern disks or problems, and skip the others.

    The entries are those at WARN and above, some at INFO, and lines without a level.
    """
    current: LogEntry | None = None
    skipping = False  # whether these lines belong to a skipped entry
    for number, raw in _numbered(lines):
        if raw.startswith(_INDENTED_FRAME) and (skipping or current is not None):
            if current is not None and _FILE_FRAME.search(raw):
                _extend(current, raw)
            continue
        if _ORDINARY.match(raw) and _NOTED.search(raw) is None:
            if current is not None:
                yield current
            current, skipping = None, True
            continue
        head = _HEAD.match(raw)
        if head is None:
            if current is None and not skipping:
                if raw.strip():
                    current = _begin(number, "", "", raw)
            elif current is not None:
                if current.level or _BELOW.match(raw):
                    _extend(current, raw)
                else:
                    yield current
                    current = _begin(number, "", "", raw)
            continue
        if current is not None:
            yield current
        level = head[2] or head[3]
        skipping = level in _QUIET and _NOTED.search(raw) is None
        current = (
            None
            if skipping
            else _begin(number, level.decode(), (head[1] or b"").decode(), raw[head.end() :])
        )
    if current is not None:
        yield current


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers; those of a structured line have the same number."""
    for number, raw in enumerate(lines, 1):
        if b"{" not in raw or not _MAYBE_JSON.match(raw):
            yield number, raw
            continue
        if is_quiet(raw) and _NOTED.search(raw) is None:
            yield number, _ORDINARY_LINE
            continue
        plain = plain_lines(raw)
        if plain is None:
            yield number, raw
        else:
            yield from ((number, line) for line in plain)


_QUIET: Final = frozenset({b"INFO", b"DEBUG", b"TRACE"})
#: What stands for a structured line of ordinary running, which is not decoded.
_ORDINARY_LINE: Final = b"INFO -"


def _begin(line: int, level: str, time: str, rest: bytes) -> LogEntry:
    text = rest.decode(errors="replace").strip()
    logger = _LOGGER.search(text)
    if logger is None:
        return LogEntry(line, level, time, text, "", text)
    if not level:
        *_, logger = _LOGGER.finditer(text)
    return LogEntry(line, level, time, text[: logger.start()], logger[1], text)


def _extend(entry: LogEntry, raw: bytes) -> None:
    if _FRAME.match(raw) and not _FILE_FRAME.search(raw):
        return
    if len(entry.text) < _ENTRY_CHARACTERS:
        joint = " " if _WRAPPED.match(raw) else "\n"
        entry.text += joint + raw.decode(errors="replace").strip()
