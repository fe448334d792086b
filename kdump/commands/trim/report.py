"""The plan of a trim and its end: text, or JSON Lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kdump.audit.commands import Remedy, saved_undo_command
from kdump.commands.trim.plan import TrimmedLeftovers, TrimmedPartition, TrimPlan
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable, time_text
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.paragraphs import paragraph, wrap
from kdump.ui.repairs.text import command_lines
from kdump.ui.table import FIELDS, Column, ReportTable
from kdump.ui.units import count_text, short_size_text, size_text

#: The partitions that a report names for one reason.
_NAMED: Final = 3

Emit = Callable[[str], None]


def _second(time_ms: int) -> str:
    return f"{time_text(time_ms)[:19]}Z"


def print_plan(emit: Emit, plan: TrimPlan, apply: Remedy | None) -> None:
    """Print what goes and what stays; ``apply`` is the command that carries it out, if shown."""
    if plan.places:
        what = shell_text(("kdump", "trim", *plan.arguments))
        for line in wrap(printable(f"PLAN {plan.id}  {what}: nothing is changed yet"), 0):
            emit(line)
        emit(paragraph("LOSS", _loss_text(plan)))
        for line in _PARTS.text(plan.parts, wide=True) if plan.parts else ():
            emit(line)
        for line in _LEFTOVERS.text(plan.leftovers, wide=False) if plan.leftovers else ():
            emit(line)
        for text in _about_copies(plan):
            emit(paragraph("replicas", text))
        places = dict.fromkeys(part.gone.log_directory for part in plan.parts)
        for place in filter(None, places):
            shown = shell_text(("kdump", "groups", operand(place)))
            emit(paragraph("groups", f"consumers that have yet to read what goes: {shown}"))
    else:
        what = "leftovers" if plan.arguments == ("--leftovers",) else "segment"
        emit(f"nothing to do: no {what} may go")
    if plan.wanted_bytes is not None and plan.bytes < plan.wanted_bytes:
        short = f"{size_text(plan.bytes)} of {size_text(plan.wanted_bytes)}"
        short += ": nothing more may go, or is older than --keep"
        emit(paragraph("SHORT", short))
    for label, text in _kept(plan):
        emit(paragraph(label, printable(text)))
    for error in plan.errors:
        emit(paragraph("unreadable", printable(str(error))))
    if apply is not None and plan.places:
        for line in command_lines("apply", apply):
            emit(line)


def _loss_text(plan: TrimPlan) -> str:
    if plan.leftovers:
        places = count_text(len(plan.leftovers), "place")
        return (
            f"no log loses an offset; leftovers in {places} go, which frees "
            f"{size_text(plan.bytes)}. There is NO BACKUP"
        )
    saved = "There is NO BACKUP"
    if plan.backup is not None:
        saved = f"{plan.backup} gets a backup, from which kdump undo brings them back"
    gone = (
        f"{count_text(plan.segments, 'segment')} of {count_text(len(plan.parts), 'partition')} go, "
        f"which frees {size_text(plan.bytes)}"
    )
    if not plan.offsets:
        return printable(f"no offset is lost; {gone}. {saved}")
    lost = f"{plan.offsets:,} offsets are lost; {gone}"
    forever = ": nothing brings these records back" if plan.backup is None else ""
    return printable(f"{lost}. {saved}{forever}")


def _copies_text(part: TrimmedPartition) -> str:
    if part.gone.remote:
        return "remote storage"
    if part.copies is None:
        return "unknown"
    return ", ".join(map(str, part.copies.nodes)) or "none"


def _file_names(part: TrimmedPartition) -> list[str]:
    return [name for segment in part.gone.segments for name in segment.files]


_PARTS: Final = ReportTable[TrimmedPartition](
    "trim",
    (
        Column("PARTITION", None, lambda part: part.gone.path.name),
        Column(None, FIELDS, lambda part: jsonl.path_field(part.gone.path)),
        Column("FREES", "bytes", lambda part: part.bytes, short_size_text),
        Column(None, "segments", lambda part: len(part.gone.segments)),
        Column(None, "first_offset", lambda part: part.first_offset),
        Column(None, "last_offset", lambda part: part.last_offset),
        Column("GONE", None, lambda part: f"{part.first_offset}..{part.last_offset}"),
        Column("NEWEST", "newest_ms", lambda part: part.newest_ms, _second),
        Column(None, "files", _file_names),
        Column("ALSO ON", None, _copies_text),
        Column(None, "replicas", lambda part: part.copies and list(part.copies.nodes)),
        Column(None, "in_remote_storage", lambda part: part.gone.remote),
    ),
)


_LEFTOVERS: Final = ReportTable[TrimmedLeftovers](
    "leftovers",
    (
        Column("PLACE", None, lambda left: left.gone.path.name),
        Column(None, FIELDS, lambda left: jsonl.path_field(left.gone.path)),
        Column("WHAT", "kind", lambda left: left.kind.value),
        Column("FREES", "bytes", lambda left: left.bytes, short_size_text),
        Column(None, "files", lambda left: [*map(jsonl.path_value, sorted(left.gone.files))]),
        Column(None, "directory", lambda left: left.gone.whole),
    ),
)


def _about_copies(plan: TrimPlan) -> Iterator[str]:
    """Yield what the other replicas of all partitions do."""
    if any(part.gone.remote for part in plan.parts):
        yield "remote storage has copies of what goes there: consumers go on reading them"
    others = [part.copies for part in plan.parts if not part.gone.remote]
    if any(copies is None or copies.nodes for copies in others):
        yield (
            "ALSO ON nodes: where this node leads after its start, they delete these offsets too; "
            "where another node leads, consumers can read them there"
        )


def _kept(plan: TrimPlan) -> Iterator[tuple[str, str]]:
    by_reason: dict[str, list[AnyPath]] = defaultdict(list)
    for path, reason in plan.kept:
        by_reason[reason].append(path)
    for number, (reason, paths) in enumerate(by_reason.items()):
        names = ", ".join(path.name for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
        yield "" if number else "kept", f"{names}{more}: {reason}"


def print_done(emit: Emit, plan: TrimPlan, uncut: Sequence[Path]) -> None:
    """Print that all of a plan is done; ``uncut`` are partitions with their old leader epochs."""
    where = count_text(plan.segments, "segment")
    if plan.leftovers:
        where = count_text(len(plan.leftovers), "place")
    text = f"DONE {plan.id}  {size_text(plan.bytes)} in {where}"
    for line in wrap(f"{text} are gone. Does a broker start now?", 0):
        emit(line)
    if uncut:
        text = (
            f"of {count_text(len(uncut), 'partition')}, {uncut[0].name} first, the leader epochs "
            "could not be written: until the next start, which cuts them, a check reports that the "
            "first segment is missing"
        )
        emit(paragraph("note", printable(text)))
    if plan.backup is not None:
        for part in plan.parts:
            for line in command_lines("undo", saved_undo_command(plan.backup, part.gone.path)):
                emit(line)
    roots = dict.fromkeys(place.gone.log_directory or place.gone.path for place in plan.places)
    emit(f"  {shell_text(('kdump', 'next-start', *map(operand, roots)))}")


def emit_plan(emit: Emit, plan: TrimPlan, asked: Iterable[AnyPath]) -> None:
    """Emit the header, and a line for each partition."""
    emit(jsonl.line("header", jsonl.header("trim", asked)))
    for part in plan.parts:
        emit(_PARTS.json(part))
    for left in plan.leftovers:
        emit(_LEFTOVERS.json(left))
    for path, reason in plan.kept:
        emit(jsonl.line("kept", {**jsonl.path_field(path), "reason": reason}))
    for error in plan.errors:
        emit(jsonl.line("unreadable", {**jsonl.path_field(error.path), "reason": str(error)}))


def emit_summary(
    emit: Emit, plan: TrimPlan, exit_code: int, *, done: bool, gone_bytes: int
) -> None:
    """Emit the sums; ``done``: all of it was removed, ``gone_bytes``: so much of it was."""
    fields: dict[str, object] = {
        "exit": exit_code,
        "id": plan.id,
        "done": done,
        "partitions": len(plan.parts),
        "segments": plan.segments,
        "leftovers": len(plan.leftovers),
        "offsets": plan.offsets,
        "bytes": plan.bytes,
        "wanted_bytes": plan.wanted_bytes,
        "freed_bytes": gone_bytes,
    }
    emit(jsonl.line("summary", fields))
