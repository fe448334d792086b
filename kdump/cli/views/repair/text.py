"""Plans, receipts and backups as text.

A command stands on one line, however long, so that it can be pasted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kdump.audit.commands import salvaging, undoing
from kdump.audit.survey.recovery import Span
from kdump.cli.ui.paragraphs import LABEL, WIDTH, labelled, wrapped
from kdump.cli.ui.units import count_text, period_text, size_text
from kdump.cli.views.repair.logs import Conversion
from kdump.cli.views.repair.steps import offset_text, step_texts
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable, time_text
from kdump.repair.transaction.interruption import Interruption
from kdump.repair.transaction.plan import Loss, Plan, finish_command
from kdump.storage.repair_record import FOLDERS, RepairRecord, RepairState

_STATES = {
    RepairState.PREPARED: "nothing was changed; the next repair removes it",
    RepairState.PENDING: "INTERRUPTED: finish it or undo it",
    RepairState.UNDOING: "its undo was INTERRUPTED: finish the undo",
    RepairState.DONE: "done",
}


def plan_lines(
    plan: Plan, *, applying: bool = False, assume_stopped: bool = False
) -> Iterator[str]:
    """Yield a plan that has steps: what it loses, what comes of it, what it does and needs.

    ``applying`` says that it is carried out at once, so that nobody has to be told how;
    ``assume_stopped``, that it cannot be without that option.
    """
    yield from wrapped(f"PLAN {plan.id}  {_what(plan)}: nothing is changed yet", 0)
    yield from loss_lines(plan.loss, lost=_cuts(plan))
    if plan.loss.sound:
        yield from commanded("instead", salvaging(plan.partition))
    yield labelled("result", _result(plan))
    for note in plan.notes:
        yield labelled("note", printable(note))
    yield from steps_lines(plan)
    yield labelled("save", _saved(plan))
    yield labelled("space", _space(plan))
    if not applying:
        yield from commanded("apply", apply_command(plan, assume_stopped=assume_stopped))


def apply_command(plan: Plan, *, assume_stopped: bool = False) -> tuple[str, ...]:
    """The command that carries out a plan."""
    confirm = ("--confirm", plan.id) if plan.lossy else ()
    return (
        "kdump",
        plan.command,
        *plan.arguments,
        operand(plan.partition),
        "--apply",
        *confirm,
        *(["--assume-stopped"] if assume_stopped else []),
    )


def nothing_lines(partition: Path, notes: Iterable[str]) -> Iterator[str]:
    """Yield that there is nothing to do in a partition, and what else there is to be said."""
    yield from wrapped(f"{partition_name(partition)}: nothing to do", 0)
    for note in notes:
        yield labelled("note", printable(note))


def loss_lines(loss: Loss, *, lost: bool) -> Iterator[str]:
    """Yield what is lost, if it is told at all."""
    if not loss:
        if lost:
            yield labelled("loss", f"no record; {size_text(loss.size)} without records are cut off")
        return
    text = f"{_records(loss)}: {_count(loss.sound)} SOUND + {_count(loss.unreadable)} unreadable"
    parts = [text, size_text(loss.size)]
    both = loss.sound + loss.unreadable
    if both.first_offset is not None:
        last = "" if both.last_offset is None else both.last_offset
        parts.append(f"offsets {both.first_offset}..{last}")
    if both.first_timestamp is not None and both.last_timestamp is not None:
        parts.append(period_text(both.first_timestamp, both.last_timestamp))
    if loss.producers:
        parts.append(f"of {count_text(loss.producers, 'producer')}")
    if loss.committed:
        parts.append(count_text(loss.committed, "ended transaction"))
    if loss.opened:
        parts.append(f"{count_text(loss.opened, 'transaction')} left OPEN")
    if loss.below_high_watermark:
        parts.append("BELOW the high watermark")
    yield labelled("LOSS", "; ".join(parts))


def error_lines(error: Exception) -> Iterator[str]:
    """Yield what went wrong, or was refused; of an interruption also how far the work has come."""
    yield f"kdump: {printable(str(error))}"
    if isinstance(error, Interruption):
        for label, plan in (("done", error.done), ("left", error.left)):
            for number, text in enumerate(() if plan is None else step_texts(plan)):
                yield labelled("" if number else label, text)


def steps_lines(plan: Plan) -> Iterator[str]:
    """Yield the steps, numbered."""
    for number, text in enumerate(step_texts(plan), 1):
        yield labelled("steps" if number == 1 else "", f"{number} {text}")


def consent_text(plan: Plan) -> str:
    """What somebody is asked who is to agree to a loss."""
    lost = f"{_records(plan.loss)} of {partition_name(plan.partition)}"
    sound = f" ({_count(plan.loss.sound)} SOUND)" if plan.loss.sound else ""
    return f"This loses {lost}{sound}. Type {plan.id} to continue"


def receipt_lines(plan: Plan, receipt: Mapping[str, Any], checked: Iterable[str]) -> Iterator[str]:
    """Yield what was done, the lines of what a look at it has ``checked``, and the way back."""
    folder = f"{partition_name(plan.partition)}/{FOLDERS}/{plan.id}"
    done = f"DONE {plan.id}  {_what(plan)}: {receipt['begun']}, {receipt['seconds']} s"
    yield from wrapped(done, 0)
    if plan.lossy:
        yield labelled("lost", f"{_records(plan.loss)}; what was cut off is in {folder}")
    proof = "SHA-256 of what was written and moved"
    if logs := receipt.get("converted"):
        conversion = Conversion.told(logs)
        yield labelled("converted", f"{conversion.logs}, {conversion.sizes}")
        yield labelled("read back", f"{conversion.count}: the same as before")
        proof += ", digests of the records before and after"
    yield from checked
    yield labelled("proof", f"{folder}/receipt.json: {proof}")
    yield labelled("free", f"the backup takes {size_text(_backup_bytes(plan))}; to remove it:")
    undo = undoing(plan.partition, plan.id)
    yield from commanded("", (*undo[:-1], "--discard"))
    yield labelled("undo", "until a broker runs on it:")
    yield from commanded("", undo)


def undo_lines(plan: Plan) -> Iterator[str]:
    """Yield what is taken back: the steps of a repair, the last one first."""
    yield from wrapped(f"UNDO {plan.id}  {_what(plan)}: undoes the steps, the last step first", 0)
    yield from steps_lines(plan)


def pending_lines(one: RepairRecord, plan: Plan) -> Iterator[str]:
    """Yield that a repair was interrupted, what it does, and both ways on from there."""
    partition, command = plan.partition, one.command or ""
    name = partition_name(partition)
    text = (
        f"PENDING {printable(one.id)}  {printable(command)} {name}: interrupted between its steps"
    )
    yield from wrapped(text, 0)
    yield from loss_lines(plan.loss, lost=plan.lossy)
    yield from steps_lines(plan)
    yield from commanded("finish", finish_command(plan))
    yield from commanded("undo", ("kdump", "undo", operand(partition), "--apply"))


def backup_lines(one: RepairRecord, partition: Path) -> Iterator[str]:
    """Yield one backup as a list of them has it."""
    begun = "" if one.begun_ns is None else f"  {_second(one.begun_ns)}"
    yield from wrapped(
        f"{printable(one.id)}{begun}  {backup_text(one, partition)}: {_STATES[one.state]}; "
        f"{size_text(one.size_bytes)}",
        0,
    )


def backup_text(one: RepairRecord, partition: Path) -> str:
    """Which repair of which partition has left a backup."""
    command = "unreadable plan of" if one.command is None else printable(one.command)
    return f"{command} {partition_name(partition)}"


def commanded(label: str, argv: tuple[str, ...]) -> Iterator[str]:
    """Yield a command behind its label; below it, where it would not fit beside it."""
    text = shell_text(argv)
    if LABEL + len(text) <= WIDTH:
        yield f"{label:{LABEL}}{text}"
        return
    if label:
        yield label
    yield f"  {text}"


def partition_name(partition: Path) -> str:
    """What a partition is called in the text: its directory, also where that is spelled ``.``."""
    return printable(partition.name or partition.absolute().name)


def _what(plan: Plan) -> str:
    return f"{printable(plan.command)} {partition_name(plan.partition)}"


def _second(time_ns: int) -> str:
    return time_text(time_ns // 10**9 * 1000).replace(".000Z", "Z")


def _result(plan: Plan) -> str:
    before, after = plan.log_end
    conversion = Conversion.of(plan, plan.steps)
    if conversion.new:
        parts = [
            f"{conversion.logs} of magic 2 with the same "
            f"{count_text(conversion.records, 'record')}, {conversion.sizes}"
        ]
    else:
        parts = ["" if _cuts(plan) else "logs stay as they are"]
    if before != after:
        parts.append(f"log end offset {offset_text(before)} -> {offset_text(after)}")
    elif after is not None:
        parts.append(f"log end offset stays {after}")
    if before != after and plan.log_start is not None:
        parts.append(f"log start {plan.log_start}")
    return "; ".join(filter(None, parts))


def _cuts(plan: Plan) -> bool:
    converted = {put.name for put, _ in plan.conversions}
    return any(name.endswith(".log") for name in plan.changed_files - converted)


def _saved(plan: Plan) -> str:
    whole = len(plan.moved_files)
    parts = [f"tail {size_text(plan.tail_bytes)}"] if plan.cuts else []
    if whole:
        size = sum(plan.files[name].size for name in plan.moved_files)
        parts.append(f"{count_text(whole, 'whole file')}, {size_text(size)}, not copied")
    if plan.rewrites:
        parts.append(count_text(len(plan.rewrites), "checkpoint file"))
    if not parts:
        return "nothing: no file is changed or taken away"
    return f"{partition_name(plan.partition)}/{FOLDERS}/{plan.id}/: {'; '.join(parts)}"


def _backup_bytes(plan: Plan) -> int:
    checkpoints = sum(step.before_size for step in plan.rewrites)
    return plan.tail_bytes + checkpoints + sum(plan.files[name].size for name in plan.moved_files)


def _space(plan: Plan) -> str:
    space, (device, inode) = os.statvfs(plan.partition), plan.identity
    needs = size_text(plan.new_bytes + plan.tail_bytes)
    if plan.tail_bytes:
        needs += f" ({size_text(plan.new_bytes)} where the tail can be cloned)"
    free = size_text(space.f_bavail * space.f_frsize)
    where = f"device {os.major(device):x}:{os.minor(device):x}, directory inode {inode}"
    return f"needs {needs}, free {free}; {where}"


def _records(loss: Loss) -> str:
    both = loss.sound + loss.unreadable
    return f"{'at least ' if both.unbounded else ''}{count_text(both.count, 'record')}"


def _count(span: Span) -> str:
    return f"{span.count:,}{' or more' if span.unbounded else ''}"
