"""Structured lines of a log, such as JSON, as lines of Kafka's own layout.

Spec: JsonLayout and JsonTemplateLayout of Log4j 2 with their templates for ECS, Graylog and
Logstash, the JSON layouts of Log4j 1 and Logback, and the log files of Docker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from kdump.values import frozen

#: The beginning of a JSON object, behind the name of a container, if there is one.
_OBJECT: Final = re.compile(rb"(?:[\w.\-/ ]{0,100}\| ?)?\s{0,8}(?=\{\s{0,8}\")")
#: A string of an object that was cut off.
_STRING: Final = re.compile(r'"([\w.@\-]{1,60})"\s{0,4}:\s{0,4}"((?:[^"\\]|\\.){0,16000})')

_MESSAGES: Final = ("message", "msg", "short_message", "log")
_LEVELS: Final = ("level", "log.level", "severity", "levelname", "level_name", "loglevel")
_TIMES: Final = ("@timestamp", "timestamp", "time", "ts", "datetime", "date")
_LOGGERS: Final = ("logger", "loggerName", "logger_name", "log.logger", "_logger", "category")
#: The ends of names of fields that hold an exception: its class, its message, its trace.
_CLASSES: Final = ("exception_class", "exception.class", "error.type", "name", "class", "type")
_REASONS: Final = ("exception_message", "error.message", "message", "localizedMessage")
_TRACES: Final = (
    "stacktrace", "stack_trace", "error.stack_trace", "extendedStackTrace", "full_message",
    "exception.stacktrace", "thrown", "throwable", "exception", "trace",
)  # fmt: skip
_TYPES: Final = ("error.type", "exception_class", "exception.class")
_THROWN: Final = ("exception", "thrown", "error", "throwable", "throw", "cause")
_LEVEL_NAME: Final = re.compile(r"TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL")
_DEPTH: Final = 6
#: Fields whose own fields count too.
_NESTED: Final = ("log", "event", "error", "exception")
_KEPT_LAYOUTS: Final = 64
#: Levels as values of an object, to pass over ordinary lines without decoding them.
_QUIET: Final = re.compile(
    rb'"(?:(?:log\.?)?level(?:_?name)?|severity)"\s{0,4}:\s{0,4}"(?:INFO|DEBUG|TRACE)"',
    re.IGNORECASE,
)
_LOUD: Final = re.compile(rb'"(?:WARN|WARNING|ERROR|FATAL)"', re.IGNORECASE)


def is_quiet(raw: bytes) -> bool:
    """Return whether the only level in a line of JSON is below WARN."""
    return _QUIET.search(raw) is not None and _LOUD.search(raw) is None


def plain_lines(raw: bytes) -> list[bytes] | None:
    """Return a line of JSON as lines of Kafka's own layout; None for any other line.

    The lines are a head with time, level, message and logger, and then the exceptions.
    """
    start = _OBJECT.match(raw)
    if start is None:
        return None
    text = raw[start.end() :].decode(errors="replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _strings(text)
    if not isinstance(found, dict):
        return None
    flat: dict[str, object] = found
    for key in _NESTED:
        inner = found.get(key)
        if isinstance(inner, dict):
            flat = flat | {f"{key}.{name}": value for name, value in inner.items()}
    names = _names_of(tuple(flat))
    message = _first(flat, names.messages)
    if message is None:
        return None
    level = (_first(flat, names.levels) or "").upper()
    if not _LEVEL_NAME.fullmatch(level):
        # Docker keeps each line as it was written.
        return message.encode(errors="replace").splitlines() or None
    head = f"[{_first(flat, names.times) or ''}] {level} {message}"
    logger = _first(flat, names.loggers)
    lines = [f"{head} ({logger})" if logger else head]
    if names.exceptions:
        lines += dict.fromkeys(_exceptions(flat, _DEPTH))
    return "\n".join(lines).encode(errors="replace").splitlines()


@frozen
class _Names:
    """Which fields of an object hold what. ``exceptions`` is whether any may hold one."""

    messages: tuple[str, ...]
    levels: tuple[str, ...]
    times: tuple[str, ...]
    loggers: tuple[str, ...]
    exceptions: bool


@lru_cache(_KEPT_LAYOUTS)
def _names_of(fields: tuple[str, ...]) -> _Names:
    """Return what the ``fields`` of an object hold: those of a log are the same in most lines."""
    present = set(fields)
    messages, levels, times, loggers = (
        tuple(filter(present.__contains__, names))
        for names in (_MESSAGES, _LEVELS, _TIMES, _LOGGERS)
    )
    thrown = any(name in _THROWN or name.endswith((*_TRACES, *_TYPES)) for name in fields)
    return _Names(messages, levels, times, loggers, thrown)


def _first(fields: dict[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str):
            return value
    return None


def _exceptions(fields: dict[str, object], depth: int) -> Iterator[str]:
    """Yield the exceptions in ``fields``: class and message, then the trace."""
    for key, value in fields.items():
        if isinstance(value, dict) and key in _THROWN and depth > 0:
            inner = {str(name): part for name, part in value.items()}
            name, reason = _first(inner, _CLASSES), _first(inner, _REASONS)
            if name or reason:
                yield f"{name or 'Exception'}: {reason or ''}"
            yield from _exceptions(inner, depth - 1)
        elif isinstance(value, str) and key.endswith(_TRACES):
            yield value
    name = _first(fields, _TYPES)
    if name is not None:
        reason = _first(fields, ("error.message", "exception_message", "exception.message"))
        yield f"{name}: {reason or ''}"


def _strings(text: str) -> dict[str, str]:
    """Return the strings of an object that is cut off; the first of equal names counts."""
    found: dict[str, str] = {}
    for name, value in _STRING.findall(text):
        found.setdefault(name, value.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"'))
    return found
