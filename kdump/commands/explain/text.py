"""The report of ``explain`` on a server.log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kdump.commands.explain.broker_log.message import FollowUp, Subject
from kdump.commands.explain.broker_log.report import EntryGroup, LogReport
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable
from kdump.storage.paths import AnyPath
from kdump.ui.exits import Ending
from kdump.ui.jsonl import header, line
from kdump.ui.paragraphs import paragraph

_ABOUT: Final = {
    Subject.DISK: "data on a disk",
    Subject.CONSEQUENCE: "a consequence",
    Subject.NOTE: "normal operation; no problem by itself",
    Subject.ELSEWHERE: "not a disk problem",
}


def exit_code(report: LogReport) -> int:
    """Return 5 if kdump knows no line, or does not know a line that may concern disks; else 0."""
    about_disks = any(group.disks for group in report.unknown)
    return Ending(unread=about_disks or _all_unknown(report)).exit_code


def _all_unknown(report: LogReport) -> bool:
    return bool(report.groups) and len(report.unknown) == len(report.groups)


def text_lines(report: LogReport) -> Iterator[str]:
    """Yield the groups as paragraphs, and a last line that counts them."""
    for group in report.groups:
        yield from _group_lines(group)
        yield ""
    yield paragraph("result", _result(report))


def json_lines(report: LogReport, source: AnyPath | None) -> Iterator[str]:
    """Yield a header, a line for each group, and a summary."""
    yield line("header", header("explain", [source] if source else []))
    for group in report.groups:
        known, location = group.known, group.location
        command = _command(group)
        fields: dict[str, object] = {
            "line": group.first.line,
            "last_line": group.last_line,
            "count": group.count,
            "level": group.first.level or None,
            "time": group.first.time or None,
            "last_time": group.last_time or None,
            "logger": group.first.logger or None,
            "message": group.first.message,
            "about": known.message.kind.value if known else "unknown",
            "may_be_disks": known.message.kind is Subject.DISK if known else group.disks,
            "happened": known.message.happened if known else None,
            "advice": known.message.advice if known else None,
            "codes": [code.name for code in known.codes] if known else [],
            "path": location.path,
            "partition": location.partition,
            "position": location.position,
            "first_offset": group.first_offset,
            "last_offset": group.last_offset,
            "follows_line": group.follows,
            "remedy": list(command) if command else None,
        }
        yield line("message", fields)
    counts = {kind.value: report.count(kind) for kind in Subject}
    yield line(
        "summary",
        {
            "exit": exit_code(report),
            "entries": report.entries,
            "groups": len(report.groups),
            **counts,
            "unknown": len(report.unknown),
            "unlisted": report.unlisted,
        },
    )


def _group_lines(group: EntryGroup) -> Iterator[str]:
    first, known = group.first, group.known
    heading = " ".join(part for part in (first.level, first.time) if part)
    times = f", {group.count:,} times up to line {group.last_line}" if group.count > 1 else ""
    yield printable(f"line {first.line}{times}{': ' + heading if heading else ''}")
    yield paragraph("  logged", printable(first.message) or "(no text)")
    if known is None:
        yield from _unknown(group)
        return
    about = _ABOUT[known.message.kind]
    if known.message.kind is Subject.CONSEQUENCE:
        about += (
            f" of line {group.follows}"
            if group.follows
            else " of an earlier line that is not in this log"
        )
    yield paragraph("  about", about)
    where = _where(group)
    if where:
        yield paragraph("  where", printable(where))
    yield paragraph("  happened", known.message.happened)
    if known.codes:
        yield paragraph("  findings", ", ".join(code.name for code in known.codes))
    yield paragraph("  do", known.message.advice)
    command = _command(group)
    if command:
        yield f"{'  next':12}{shell_text(command)}"


def _unknown(group: EntryGroup) -> Iterator[str]:
    if group.disks:
        yield paragraph("  about", "unknown to kdump; it may concern disks")
        yield paragraph(
            "  do",
            "Run kdump verify on the log directory, and kdump next-start if the broker does not "
            "start. Both check the disk, whatever the broker has logged.",
        )
    else:
        yield paragraph("  about", "unknown to kdump; it does not seem to concern disks")
        yield paragraph(
            "  do", "If you suspect corruption nevertheless, run kdump verify on the log directory."
        )


def _where(group: EntryGroup) -> str:
    location = group.location
    offsets = {group.first_offset, group.last_offset} - {None}
    listed = location.path in location.directories
    parts = [
        ", ".join(location.directories) if listed else location.path,
        location.partition and f"partition {location.partition}",
        offsets and "offset " + "..".join(str(offset) for offset in sorted(offsets, key=int)),  # type: ignore[arg-type]
        None if location.position is None else f"position {location.position}",
    ]
    return ", ".join(str(part) for part in parts if part)


def _command(group: EntryGroup) -> tuple[str, ...] | None:
    """Return the command that checks the place in a message; None without a printable path."""
    path, known = group.location.path, group.known
    if known is None or known.message.kind is not Subject.DISK:
        return None
    directories = group.location.directories
    if path is None or not path.startswith("/") or not directories:
        return None
    if not "".join((path, *directories)).isprintable():
        return None
    if known.message.step is FollowUp.START:
        return ("kdump", "next-start", *dict.fromkeys(directories))
    if known.message.step is FollowUp.SPACE:
        return ("kdump", "space", *directories[:1])
    target = Path(path)
    partition = group.location.partition
    if partition is not None and partition in target.parts:
        return ("kdump", "verify", str(Path(*target.parts[: target.parts.index(partition) + 1])))
    return ("kdump", "verify", *directories[:1])


def _result(report: LogReport) -> str:
    if not report.groups:
        return "no line at WARN or above, and nothing about log directories"
    counts = (
        (report.count(Subject.DISK), "about disks"),
        (report.count(Subject.CONSEQUENCE), "consequences"),
        (report.count(Subject.NOTE), "normal"),
        (report.count(Subject.ELSEWHERE), "not disk problems"),
        (len(report.unknown), "unknown"),
    )
    listed = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    more = f"; {report.unlisted:,} lines of further kinds not listed" if report.unlisted else ""
    return f"lines explained: {report.entries:,}; by cause and place: {listed}{more}"
