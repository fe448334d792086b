"""What the report says of the ways to free bytes: numbered, the least harm first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kdump.audit.commands import (
    Remedy,
    delete_records_command,
    leftovers_command,
    move_command,
    reassign_command,
    trim_command,
)
from kdump.audit.sizes.leftovers import MAY_GO
from kdump.commands.space.delete_records import DeletedOffsets
from kdump.commands.space.reassignment import Reassigned, Reassignment
from kdump.commands.space.shorter import ShorterRetention
from kdump.commands.space.space import SpaceReport
from kdump.commands.space.ways import Wish
from kdump.format.lines.text import printable, time_text
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.paragraphs import command_line, paragraph
from kdump.ui.units import count_text, duration_text, short_age_text, size_text
from kdump.values import frozen

_MOVES_FILE: Final = "move.json"
_REPLICAS_FILE: Final = "reassign.json"
_RECORDS_FILE: Final = "delete-records.json"


@frozen
class _Way:
    """A way: what it does, and the lines below that, to be pasted.

    ``bytes`` are those that it frees, None if a plan says that.
    """

    text: str
    bytes: int | None
    lines: tuple[str, ...]


def wish_lines(
    report: SpaceReport, wish: Wish, paths: Sequence[AnyPath], now_ms: int
) -> Iterator[str]:
    """Yield what frees the bytes that are wished for in the log directories at ``paths``."""
    due = f"{size_text(wish.due_bytes)} of {size_text(wish.bytes)}"
    if not wish.wanted:
        yield paragraph("frees", f"{due}: what is due is enough")
        return
    ways = list(_ways(report, wish, paths, now_ms))
    if not ways:
        text = "no segment is old enough, or may be deleted"
        yield paragraph("frees", f"{due}: {text}")
        return
    yield paragraph(
        "frees",
        f"{due} are due. Each of these ways is for the other {size_text(wish.wanted)} by itself; "
        "the least harm comes first:",
    )
    for number, way in enumerate(ways, 1):
        size = "" if way.bytes is None else f"{size_text(way.bytes)}: "
        yield paragraph(f"way {number}", printable(f"{size}{way.text}"))
        yield from way.lines


def _ways(report: SpaceReport, wish: Wish, paths: Sequence[AnyPath], now_ms: int) -> Iterator[_Way]:
    gone = sum(left.bytes for left in report.leftovers if left.kind in MAY_GO)
    if wish.stopped and gone:
        text = "leftovers that no log needs. No record is lost:"
        yield _Way(text, gone, (command_line(leftovers_command(paths)),))
    if wish.moved is not None and wish.stopped:
        yield from map(_stopped_move, wish.moved.targets.items())
    elif wish.moved is not None:
        yield _running_move(wish.moved)
    if wish.given_up is not None:
        yield _given_up(wish.given_up, now_ms)
    if wish.deleted is not None:
        yield _deleted(wish.deleted)
    if wish.shorter:
        yield _shorter(wish.shorter, wish.shorter_bytes)
    if wish.stopped:
        text = (
            "if the broker does not start for lack of space, this plans which of the oldest "
            "segments of this node alone to remove:"
        )
        yield _Way(text, None, (command_line(trim_command(paths, wish.bytes)),))


def _stopped_move(pair: tuple[str, Sequence[Reassigned]]) -> _Way:
    target, partitions = pair
    text = (
        f"{count_text(len(partitions), 'partition')} to {target}, where more room is. No record is "
        "lost. The space is free once the backups are discarded:"
    )
    command = move_command(target, (each.path for each in partitions))
    return _Way(text, sum(each.bytes for each in partitions), (command_line(command),))


def _running_move(moved: Reassignment) -> _Way:
    text = (
        f"{count_text(len(moved.partitions), 'partition')} to {', '.join(moved.targets)}, where "
        f"more room is, while the broker is running. No record is lost. Save the line as "
        f"{_MOVES_FILE}:"
    )
    return _Way(text, moved.bytes, _file_lines(moved.json, *_reassign_commands(_MOVES_FILE)))


def _given_up(given_up: Reassignment, now_ms: int) -> _Way:
    fewest = min(len(each.replicas) for each in given_up.partitions)
    least = sum(each.only_least for each in given_up.partitions)
    known = "of unknown age"
    if given_up.known_ms is not None:
        age_ms = max(now_ms - given_up.known_ms, 0)
        known = f"that was written {duration_text(age_ms / 1000)} ago"
    parts = [
        f"this node gives up {count_text(len(given_up.partitions), 'replica')}, all others of "
        f"which are in sync by a metadata log {known}. No record is lost. At least {fewest} "
        "replicas are left of each"
    ]
    if least:
        parts.append(f"of {least:,} of them no more than min.insync.replicas")
    text = f"{', '.join(parts)}. The tool prints the file that brings them back. Save the line as "
    lines = _file_lines(given_up.json, *_reassign_commands(_REPLICAS_FILE))
    return _Way(f"{text}{_REPLICAS_FILE}:", given_up.bytes, lines)


def _deleted(deleted: DeletedOffsets) -> _Way:
    text = (
        f"records up to {time_text(deleted.newest_ms)} of "
        f"{count_text(len(deleted.before), 'partition')} ({deleted.offsets:,} offsets) are "
        "deleted ON ALL REPLICAS, and nothing brings them back. Segments go at the next check. "
        f"Save the line as {_RECORDS_FILE}:"
    )
    lines = _file_lines(deleted.json, delete_records_command(_RECORDS_FILE))
    return _Way(text, deleted.bytes, lines)


def _shorter(shorter: Sequence[ShorterRetention], size: int) -> _Way:
    offsets = sum(each.offsets for each in shorter)
    age = short_age_text(shorter[0].retention_ms // 1000)
    text = (
        f"records older than {age} of {count_text(len(shorter), 'topic')} ({offsets:,} offsets "
        "here), ON ALL REPLICAS of all partitions. Set this retention, wait for a check, and set "
        "it back:"
    )
    lines = []
    for each in shorter:
        lines.append(paragraph("", printable(f"{each.topic}: {size_text(each.bytes)}")))
        lines += map(command_line, (each.command, each.restore))
    return _Way(text, size, tuple(lines))


def _reassign_commands(file: str) -> tuple[Remedy, ...]:
    return tuple(reassign_command(file, action) for action in ("--execute", "--verify"))


def _file_lines(content: dict[str, Any], *commands: Remedy) -> tuple[str, ...]:
    """Return the content of a file as one line, and the commands that take the file."""
    return json.dumps(content), *map(command_line, commands)


def wish_fields(wish: Wish) -> Iterator[str]:
    """Yield the ways as JSON Lines, in their order, but for those by ``trim``."""
    for target, group in wish.moved.targets.items() if wish.stopped and wish.moved else ():
        fields: dict[str, object] = {
            "target": target,
            "bytes": sum(each.bytes for each in group),
            "command": list(move_command(target, (each.path for each in group))),
        }
        yield jsonl.line("move", fields)
    for kind, found in (("move", wish.moved), ("give-up", wish.given_up)):
        if found is not None and not wish.stopped:
            yield jsonl.line(
                "reassignment",
                {
                    "kind": kind,
                    "bytes": found.bytes,
                    "partitions": len(found.partitions),
                    "metadata_ms": found.known_ms,
                    "json": found.json,
                },
            )
    if wish.deleted is not None:
        yield jsonl.line(
            "delete_records",
            {
                "bytes": wish.deleted.bytes,
                "segments": wish.deleted.segments,
                "offsets": wish.deleted.offsets,
                "newest_ms": wish.deleted.newest_ms,
                "json": wish.deleted.json,
            },
        )
    for each in wish.shorter:
        yield jsonl.line(
            "shorter_retention",
            {
                "topic": each.topic,
                "retention_ms": each.retention_ms,
                "bytes": each.bytes,
                "segments": each.segments,
                "offsets": each.offsets,
                "command": list(each.command),
                "restore": list(each.restore),
            },
        )
