"""The entries of a log in groups: damage, consequences, other messages.

The memory that this takes is bounded, however long the log is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kdump.commands.explain.broker_log.entries import LogEntry
from kdump.commands.explain.broker_log.location import Location
from kdump.commands.explain.broker_log.message import Subject
from kdump.commands.explain.broker_log.table import (
    Recognition,
    mentions_disks,
    recognize,
    without_digits,
)

#: The largest number of groups in a report. Entries of further groups are only counted.
GROUPS: Final = 1_000
_SHOWN_CHARACTERS: Final = 400


@dataclass(slots=True)
class EntryGroup:
    """Entries of one message about one location; ``known`` is None if no row explains them.

    ``follows`` is the first line of the group that caused this group.
    """

    known: Recognition | None
    first: LogEntry
    location: Location
    disks: bool
    count: int = 1
    last_line: int = 0
    last_time: str = ""
    first_offset: int | None = None
    last_offset: int | None = None
    follows: int | None = None


@dataclass(slots=True)
class LogReport:
    """The groups of a log in the order of their first lines, with the numbers of entries."""

    groups: list[EntryGroup] = field(default_factory=list)
    entries: int = 0
    unlisted: int = 0

    def count(self, kind: Subject) -> int:
        """Return the number of groups of that kind."""
        return sum(1 for group in self.groups if group.known and group.known.message.kind is kind)

    @property
    def unknown(self) -> list[EntryGroup]:
        """The groups that no row explains."""
        return [group for group in self.groups if group.known is None]


def group_entries(entries: Iterable[LogEntry]) -> LogReport:
    """Return ``entries``, explained and grouped by message and location."""
    report = LogReport()
    by_key: dict[tuple[object, ...], EntryGroup] = {}
    for entry in entries:
        report.entries += 1
        known = recognize(entry.text)
        location = known.location if known else Location()
        key = _key(entry, known, location)
        group = by_key.get(key)
        if group is None:
            if len(by_key) >= GROUPS:
                report.unlisted += 1
                continue
            disks = known is None and mentions_disks(f"{entry.text} {entry.logger}")
            # Groups hold only what reports show, so the text is no longer needed.
            entry.message = entry.message[:_SHOWN_CHARACTERS]
            entry.text = ""
            group = by_key[key] = EntryGroup(known, entry, location, disks)
            report.groups.append(group)
            if known and known.message.kind is Subject.CONSEQUENCE:
                group.follows = _cause(report.groups, location)
        else:
            group.count += 1
        group.last_line, group.last_time = entry.line, entry.time
        offset = location.offset
        if offset is not None:
            if group.first_offset is None or offset < group.first_offset:
                group.first_offset = offset
            if group.last_offset is None or offset > group.last_offset:
                group.last_offset = offset
    return report


def _key(entry: LogEntry, known: Recognition | None, location: Location) -> tuple[object, ...]:
    if known is None:
        return (entry.level, without_digits(entry.message)[:200])
    where = None if known.message.everywhere else location.partition or location.path
    return (known.message.answer, where)


def _cause(groups: list[EntryGroup], location: Location) -> int | None:
    """Return the line that causes an entry at ``location``: the last error there, or anywhere."""
    causes = [group for group in groups if group.known and group.known.message.kind is Subject.DISK]
    errors = [cause for cause in causes if cause.first.level != "WARN"] or causes
    if location.path is not None:
        below = location.path.rstrip("/") + "/"
        within = [error for error in errors if f"{error.location.path}/".startswith(below)]
        errors = within or errors
    return max(errors, key=lambda error: error.last_line).first.line if errors else None
