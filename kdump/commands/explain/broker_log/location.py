"""The place that a logged entry names: path, log directory, partition, offset and position."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kdump.values import frozen

_PREFIX: Final = re.compile(
    r"\[(?:\w[^\]\n]*?partition=|LeaderEpochCache |Partition )([\w.\-]+-\d+)(?:, dir=([^\]\n]+))?"
)
#: It begins with a character, not with what stands before it: such a search skips to the next one.
_FILE: Final = re.compile(r"(/(?<![\w.\-/]/)[^\s,'\"()\[\]]+/(?:[\w.\-]+-\d+)/\d{20}\.[\w.]*\w)")
_EXCEPTION_FILE: Final = re.compile(r"(?:FileSystem|FileNotFound)Exception: (/[^\n:(]+?)(?:: | \()")
_NAMED: Final = re.compile(
    r" in (?:log )?dir (/[^\n,)\]]*?)(?=\.?\s\((?:[\w$]+\.)+[\w$]+\)(?:\s|$))"
    r"| in (?:log )?dir (/[^\s,)\]]+)"
)
#: What every text has that names a location by itself.
_MAY_NAME: Final = re.compile(r"[/\\]|partition=|\[LeaderEpochCache |\[Partition ")
#: What separates log directories in a list of them.
_BETWEEN: Final = re.compile(r",\s?(?=/)")
#: The rest of a path that was taken to end at a space.
_REST: Final = re.compile(
    r"(?:\s(?!I/O|(?:due|in|with|to|from|has|because|at|and|or|of)\s)[^\s/()\[\]{}<>'\",:;]+){1,3}/"
)
_LOG: Final = re.compile(r"\b(?:Unified)?Log\(dir=(/[^,\n]+), topic")
_WINDOWS: Final = re.compile(
    r"(?:\b[A-Za-z]:|\.)\\[^\n:*?\"<>|]*?"
    r"(?= -> ?|: |\n|$| due to | to [A-Z]:| have |\.(?:\s|$)| \(|\)|,)"
)
_EXCEPTION: Final = re.compile(r"(?:Exception|Error): ")
#: A path of Windows after the name of an exception may lack the drive.
_NO_DRIVE: Final = re.compile(r"\\\w[^\n:*?\"<>|]*?(?= -> ?|: |\n|$)")
#: The name of a partition's directory, and of a file or directory in it.
_OF_PARTITION: Final = re.compile(r"[\w.\-]+-\d+(?:\.[0-9a-f]{32}-(?:stray|delete|future))?")
_IN_PARTITION: Final = re.compile(
    r"\d{20}[.\-]|leader-epoch-checkpoint|partition\.metadata|quorum-state|remote-log|\.kdump"
)
#: What a log directory holds beside partitions.
_IN_DIRECTORY: Final = re.compile(r".*-checkpoint|lost\+found|remote-log-index-cache|.*\.\w+|\..+")
_ELSEWHERE: Final = re.compile(r"\[([\w.\-]+),(\d+)\]|.*topic=u?'([\w.\-]+)', partition=(\d+)")


@frozen
class Location:
    """The location in a log directory that a message names; None for missing parts.

    ``directories`` are the log directories of the location, as far as the message tells them. If
    there are several without a partition, ``path`` is the first.
    """

    path: str | None = None
    partition: str | None = None
    offset: int | None = None
    position: int | None = None
    directories: tuple[str, ...] = ()


_NOWHERE: Final = Location()


def locate(text: str, matches: Iterable[re.Match[str]]) -> Location:
    """Return the location in ``text``; fields of earlier ``matches`` of it take precedence."""
    fields: dict[str, str] = {}
    for match in matches:
        if match.re.groups:
            found = {name: value for name, value in match.groupdict().items() if value}
            fields = found | fields if fields else found  # earlier fields take precedence
    if not fields and not _MAY_NAME.search(text):
        return _NOWHERE
    get = fields.get
    partition = _partition(fields)
    directory = get("dir")
    if directory is None and " dir /" in text:
        named = _NAMED.search(text)
        if named is not None:
            directory = fields["dir"] = named[1] or named[2]
    several: tuple[str, ...] = ()
    if directory is not None and "," in directory:
        several = tuple(_BETWEEN.split(directory))
        fields["dir"] = directory = several[0]
    path = (get("entry") or get("path") or "").strip("()") or None
    prefix = _PREFIX.search(text) if _has_prefix(text) else None
    if prefix is not None:
        partition = partition or prefix[1]
        if prefix[2] and directory is None:
            path = path or f"{prefix[2]}/{prefix[1]}"
    if "\\" in text and not _is_absolute(path) and not _is_absolute(directory):
        path = _windows_path(text) or path
    log = _LOG.search(text) if "Log(dir=/" in text else None
    if path is None or not _is_absolute(path):
        file = _file(text)
        place = file[1] if file else log[1] if log else None
        path = place or (path if "\\" in (path or "") else directory) or path
    own = None if path is None else _partition_of(path, directory)
    if partition is None or (own is not None and own.startswith(f"{partition}.")):
        partition = own or (_partition_of(log[1]) if log else None)
    if len(several) < 2:
        known = path is not None or directory is not None or "second" in fields
        several = _directories(fields, path, partition, text) if known else ()
    return Location(path, partition, _number(get("offset")), _number(get("position")), several)


def _has_prefix(text: str) -> bool:
    """Return whether ``text`` may have what ``_PREFIX`` finds."""
    return "partition=" in text or "[LeaderEpochCache " in text or "[Partition " in text


def _file(text: str) -> re.Match[str] | None:
    """Return the first file of a partition in ``text``, or else that of an exception."""
    # Most lines name no file. Without a slash that can begin a path, no expression is tried.
    if "/" not in text:
        return None
    found = _FILE.search(text)
    return found or (_EXCEPTION_FILE.search(text) if "Exception: /" in text else None)


def _is_absolute(path: str | None) -> bool:
    return path is not None and path.startswith("/")


def _windows_path(text: str) -> str | None:
    """Return the first path of Windows in an exception of ``text``, or else in its first line."""
    for exception in _EXCEPTION.finditer(text):
        found = _WINDOWS.match(text, exception.end()) or _NO_DRIVE.match(text, exception.end())
        if found is not None:
            return found[0].strip()
    found = _WINDOWS.search(text)
    return found[0].strip() if found else None


def _partition(fields: dict[str, str]) -> str | None:
    """Return the partition that the fields of messages name, in the form of brokers since 1.0."""
    if "topic" in fields and "number" in fields:
        return f"{fields['topic']}-{fields['number']}"
    name = fields.get("partition")
    other = _ELSEWHERE.fullmatch(name.removesuffix(")")) if name else None
    return f"{other[1] or other[3]}-{other[2] or other[4]}" if other else name


def _partition_of(path: str | None, directory: str | None = None) -> str | None:
    """Return the partition that ``path`` is, or is in; the names of log directories are none."""
    if path is None or path == directory:
        return None
    above, _, name = path.replace("\\", "/").rpartition("/")
    if _OF_PARTITION.fullmatch(name):
        return name
    if _IN_PARTITION.match(name):
        name = above.rpartition("/")[2]
        return name if _OF_PARTITION.fullmatch(name) else None
    return None


def _directories(
    fields: dict[str, str], path: str | None, partition: str | None, text: str
) -> tuple[str, ...]:
    """Return the log directories of ``path``, and of another copy that the message names.

    There is none if ``text`` shows that a path goes on behind a space.
    """
    for named in (fields.get("dir") or path, fields.get("second")):
        if named is not None:
            end = text.rfind(named) + len(named)
            if text[end : end + 1].isspace() and _REST.match(text, end):
                return ()
    if fields.get("dir"):
        return (fields["dir"],)
    if path is None or not _is_absolute(path):
        return ()
    second = fields.get("second")
    if second is not None:
        return (_parent(path), _parent(second))
    parts = path.split("/")
    for inside in (partition, "remote-log-index-cache"):
        if inside in parts:
            return ("/".join(parts[: parts.index(inside)]) or "/",)
    if fields.get("entry") or _IN_DIRECTORY.fullmatch(parts[-1]):
        return (_parent(path),)
    return (path,)


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0] or "/"


def _number(text: str | None) -> int | None:
    # An offset has at most 20 digits, but a log may contain longer numbers.
    return int(text) if text is not None and len(text) <= 20 else None
