"""What was not replayed, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.metadata.replay import MetadataState
from kdump.storage.paths import AnyPath
from kdump.ui.exits import Ending
from kdump.values import frozen


@frozen
class Unreplayed:
    """Something that was not replayed.

    ``kind`` is ``record``, ``gap``, ``damage``, ``unreadable`` or ``snapshot``. ``offset`` is where
    it is, or begins; ``last_offset`` ends a gap. ``record`` is the type of a record in words.
    """

    kind: str
    path: AnyPath
    offset: int
    reason: str
    record: str | None = None
    last_offset: int | None = None


def problems(state: MetadataState) -> Iterator[Unreplayed]:
    """Yield what was not replayed of a metadata log."""
    for snapshot in state.unusable:
        kind = "unreadable" if snapshot.unread else "snapshot"
        yield Unreplayed(kind, snapshot.path, snapshot.end_offset, snapshot.fault or "")
    for first, end in state.gaps:
        yield Unreplayed(
            "gap", state.path, first, "offsets that are not there", last_offset=end - 1
        )
    for note in state.notes:
        yield Unreplayed("record", note.path, note.offset, note.reason, note.record)
    if state.stop is not None:
        kind = "unreadable" if state.stop.unread else "damage"
        yield Unreplayed(kind, state.path, state.stop.offset, state.stop.reason)


def ending(found: Iterable[Unreplayed]) -> Ending:
    """Return the ending of a command that found these."""
    kinds = {problem.kind for problem in found}
    return Ending(unread="unreadable" in kinds, problems=bool(kinds))


def problem_text(problem: Unreplayed) -> str:
    """Return a problem as a line."""
    where, reason = f"{problem.path}", problem.reason
    match problem.kind:
        case "record":
            return f"not replayed: {where}: {problem.record} at offset {problem.offset}: {reason}"
        case "gap":
            return f"damage: {where}: offsets {problem.offset}..{problem.last_offset} are missing"
        case "damage":
            return (
                f"damage: {where}: {reason} at offset {problem.offset}: records after it do not "
                "count"
            )
        case "snapshot":
            return f"damage: {where}: {reason}: this snapshot is skipped"
    return f"incomplete: {reason}"
