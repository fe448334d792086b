"""The plan of moves and their end: text, or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from kdump.audit.commands import Remedy, reassign_command, undo_command
from kdump.commands.move.plan import MovePlan, PlannedMove
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable
from kdump.repair.relocation.move import Move
from kdump.storage.names import CLEAN_MARKER
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.paragraphs import paragraph, wrap
from kdump.ui.repairs.text import command_lines
from kdump.ui.table import FIELDS, Column, ReportTable
from kdump.ui.units import short_size_text, size_text

#: The file that a printed command names.
_FILE: Final = "move.json"

Emit = Callable[[str], None]


def _backup(planned: PlannedMove) -> str | None:
    return str(planned.move.kept) if planned.move.copied else None


_MOVES: Final = ReportTable[PlannedMove](
    "move",
    (
        Column("PARTITION", None, lambda planned: planned.move.name),
        Column(None, FIELDS, lambda planned: jsonl.path_field(planned.move.departed)),
        Column("ID", "id", lambda planned: planned.move.id),
        Column(None, "to", lambda planned: str(planned.move.arrived)),
        Column("SIZE", "bytes", lambda planned: planned.move.bytes, short_size_text),
        Column("FILES", "files", lambda planned: len(planned.move.files)),
        Column(None, "copied", lambda planned: planned.move.copied),
        Column(None, "backup", _backup),
        Column(None, "begun", lambda planned: planned.begun is not None),
        Column(None, "takes_marker", lambda planned: planned.takes_marker),
        Column(None, "directory_id", lambda planned: planned.source_id),
        Column(None, "to_directory_id", lambda planned: planned.target_id),
    ),
)


def print_plan(emit: Emit, plan: MovePlan, apply: Remedy | None) -> None:
    """Print what is moved and how; ``apply`` is the command that carries it out, if shown."""
    if plan.reassignment is not None and plan.moves:
        for line in _reassignment_lines(plan):
            emit(line)
        return
    for path in plan.there:
        emit(printable(f"{path.name} is in {plan.target} already"))
    if not plan.moves:
        emit("nothing to do")
        return
    what = shell_text(("kdump", "move", "--to", operand(plan.target)))
    for line in wrap(printable(f"PLAN {what}: no record is lost; nothing is changed yet"), 0):
        emit(line)
    for line in _MOVES.text(plan.moves, wide=True):
        emit(line)
    sources = dict.fromkeys(str(planned.move.source) for planned in plan.moves)
    emit(paragraph("from", printable(", ".join(sources))))
    if any(planned.begun is not None for planned in plan.moves):
        emit(paragraph("INTERRUPTED", "a move has begun already: --apply finishes it"))
    for label, text in _notes(plan):
        emit(paragraph(label, printable(text)))
    if apply is not None:
        for line in command_lines("apply", apply):
            emit(line)


def _notes(plan: MovePlan) -> Iterator[tuple[str, str]]:
    if plan.copied:
        yield (
            "how",
            "the log directories are on two file systems: all files are copied and compared. Then "
            "the old directory stays as a backup, under a name that brokers skip",
        )
        free = "" if plan.space is None else f" of {size_text(plan.space.free_bytes)} that are free"
        yield (
            "space",
            f"{size_text(plan.needed_bytes)}{free} are needed in {plan.target}. The old place is "
            "free after kdump undo --discard",
        )
    else:
        yield "how", "one file system has both log directories: the directory is renamed"
    if any(planned.takes_marker for planned in plan.moves):
        yield (
            "recovery",
            f"the logs need recovery, so {plan.target}/{CLEAN_MARKER} goes for good: the next "
            "startup recovers the ends of all logs there",
        )
    yield (
        "startup",
        "needs both directories in log.dirs. In KRaft, the broker finds the partition in another "
        f"directory than the cluster knows{_ids(plan)}, and tells the controller",
    )


def _ids(plan: MovePlan) -> str:
    ids = {planned.source_id for planned in plan.moves} - {None}
    target = plan.moves[0].target_id
    if not ids or target is None:
        return ""
    return f" ({target}, not {', '.join(sorted(filter(None, ids)))})"


def _reassignment_lines(plan: MovePlan) -> Iterator[str]:
    """Yield what a running broker takes instead."""
    text = f"The broker is running ({plan.live}): it moves the partitions itself."
    yield from wrap(printable(text), 0)
    yield from wrap(f"Save this as {_FILE}, then start the move, and ask whether it is done:", 0)
    yield json.dumps(plan.reassignment)
    for action in ("--execute", "--verify"):
        yield f"  {shell_text(reassign_command(_FILE, action))}"


def print_done(emit: Emit, move: Move) -> None:
    """Print that a move is done, and how its backup is freed."""
    emit(printable(f"DONE {move.id}  {move.name} is in {move.target}"))
    undo = undo_command(move.arrived, move.id)
    if move.copied:
        for line in command_lines("free", (*undo[:-1], "--discard")):
            emit(line)
    for line in command_lines("undo", undo):
        emit(line)


def print_next(emit: Emit, places: Iterable[Path]) -> None:
    """Print the command that says whether a broker starts now."""
    for line in command_lines("next", ("kdump", "next-start", *map(operand, places))):
        emit(line)


def emit_plan(emit: Emit, plan: MovePlan, asked: Iterable[AnyPath]) -> None:
    """Emit the header, a line for each partition, and what a running broker takes instead."""
    emit(jsonl.line("header", jsonl.header("move", asked)))
    for planned in plan.moves:
        emit(_MOVES.json(planned))
    if plan.reassignment is not None:
        emit(jsonl.line("reassignment", {"reason": plan.live, "json": dict(plan.reassignment)}))


def emit_done(emit: Emit, move: Move) -> None:
    """Emit that a move is done."""
    emit(jsonl.line("done", {**jsonl.path_field(move.arrived), "id": move.id}))


def emit_summary(emit: Emit, plan: MovePlan, exit_code: int, *, done: int) -> None:
    """Emit the sums; ``done`` partitions were moved."""
    fields: dict[str, object] = {
        "exit": exit_code,
        "partitions": len(plan.moves),
        "done": done,
        "bytes": plan.bytes,
        "needed_bytes": plan.needed_bytes,
        "free_bytes": None if plan.space is None else plan.space.free_bytes,
    }
    emit(jsonl.line("summary", fields))
