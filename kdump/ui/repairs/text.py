"""Plans, receipts and backups as text.

A command is on one line, however long, so that it can be pasted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kdump.audit.commands import Remedy, salvage_command, undo_command
from kdump.audit.survey.recovery import Span
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable, time_text
from kdump.repair.transaction.interruption import Interruption
from kdump.repair.transaction.plan import Cut, Loss, Plan, finish_command
from kdump.storage.paths import AnyPath
from kdump.storage.repair_journal import RepairJournal
from kdump.storage.repair_record import FOLDERS, RepairRecord, RepairState
from kdump.storage.source import allocated_bytes
from kdump.ui.paragraphs import LABEL, WIDTH, paragraph, wrap
from kdump.ui.repairs.logs import ConversionSums
from kdump.ui.repairs.steps import offset_text, step_texts
from kdump.ui.units import count_text, period_text, size_text

_STATES = {
    RepairState.PREPARED: "nothing was changed; the next repair removes it",
    RepairState.PENDING: "INTERRUPTED: finish it or undo it",
    RepairState.UNDOING: "its undo was INTERRUPTED: finish the undo",
    RepairState.DONE: "done",
}


def plan_lines(
    plan: Plan, *, applying: bool = False, assume_stopped: bool = False
) -> Iterator[str]:
    """Yield a plan that has steps: its loss, result, steps, backup and space.

    ``applying``: the plan is applied at once, so that the command for it is left out.
    ``assume_stopped``: that command needs the option.
    """
    yield from wrap(f"PLAN {plan.id}  {_command_text(plan)}: nothing is changed yet", 0)
    yield from loss_lines(plan.loss, lost=_cuts(plan))
    if plan.loss.sound:
        yield from command_lines("instead", salvage_command(plan.partition))
    yield paragraph("result", _result_text(plan))
    for note in plan.notes:
        yield paragraph("note", printable(note))
    yield from steps_lines(plan)
    yield paragraph("save", _save_text(plan))
    yield paragraph("space", _space_text(plan))
    if not applying:
        yield from command_lines("apply", apply_command(plan, assume_stopped=assume_stopped))


def apply_command(plan: Plan, *, assume_stopped: bool = False) -> tuple[str, ...]:
    """Return the command that applies a plan."""
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


def nothing_lines(partition: AnyPath, notes: Iterable[str]) -> Iterator[str]:
    """Yield that there is nothing to do in a partition, and the notes."""
    yield from wrap(f"{partition_name(partition)}: nothing to do", 0)
    for note in notes:
        yield paragraph("note", printable(note))


def loss_lines(loss: Loss, *, lost: bool) -> Iterator[str]:
    """Yield the loss; without lost records a line only if ``lost``."""
    if not loss:
        if lost:
            yield paragraph(
                "loss", f"no record; {size_text(loss.size)} without records are removed"
            )
        return
    sound, unreadable = _count_text(loss.sound), _count_text(loss.unreadable)
    text = f"{_records_text(loss)}: {sound} VALID + {unreadable} unreadable"
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
    yield paragraph("LOSS", "; ".join(parts))


def error_lines(error: Exception) -> Iterator[str]:
    """Yield an error; of an interruption also the steps that are done and those that are left."""
    yield f"kdump: {printable(str(error))}"
    if isinstance(error, Interruption):
        for label, plan in (("done", error.done), ("left", error.left)):
            for number, text in enumerate(() if plan is None else step_texts(plan)):
                yield paragraph("" if number else label, text)


def steps_lines(plan: Plan) -> Iterator[str]:
    """Yield the steps, numbered."""
    for number, text in enumerate(step_texts(plan), 1):
        yield paragraph("steps" if number == 1 else "", f"{number} {text}")


def consent_text(plan: Plan) -> str:
    """Return the question that asks the user to agree to a loss."""
    lost = f"{_records_text(plan.loss)} of {partition_name(plan.partition)}"
    sound = f" ({_count_text(plan.loss.sound)} VALID)" if plan.loss.sound else ""
    return f"This loses {lost}{sound}. Type {plan.id} to continue"


def receipt_lines(plan: Plan, receipt: Mapping[str, Any], checked: Iterable[str]) -> Iterator[str]:
    """Yield a receipt, with ``checked``, the lines of the quick check, and the way to undo it."""
    folder = f"{partition_name(plan.partition)}/{FOLDERS}/{plan.id}"
    done = f"DONE {plan.id}  {_command_text(plan)}: {receipt['begun']}, {receipt['seconds']} s"
    yield from wrap(done, 0)
    if plan.lossy:
        yield paragraph("lost", f"{_records_text(plan.loss)}; the removed bytes are in {folder}")
    proof = "SHA-256 of all bytes written and moved"
    if logs := receipt.get("converted"):
        conversion = ConversionSums.from_receipt(logs)
        yield paragraph("converted", f"{conversion.logs}, {conversion.sizes}")
        yield paragraph("read back", f"{conversion.count}: the same as before")
        proof += ", digests of the records before and after"
    if taken := receipt.get("taken"):
        yield from _taken_lines(taken)
    yield from checked
    yield paragraph("proof", f"{folder}/receipt.json: {proof}")
    yield paragraph("free", f"the backup takes {size_text(_backup_bytes(plan))}; to remove it:")
    undo = undo_command(plan.partition, plan.id)
    yield from command_lines("", (*undo[:-1], "--discard"))
    yield paragraph("undo", "until a broker runs on it:")
    yield from command_lines("", undo)


def _taken_lines(taken: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield how much each file of a copy gave."""
    sizes = Counter[str]()
    for pieces in taken.values():
        for piece in pieces:
            sizes[piece["from"].rpartition("/")[0]] += piece["bytes"]
    for path, size in sizes.items():
        yield paragraph("taken", f"{size_text(size)} from {printable(path)}")


def undo_lines(plan: Plan, *, interrupted: bool) -> Iterator[str]:
    """Yield the steps of a repair that an undo is about to take back, the last step first.

    ``interrupted``: the repair, or an undo of it, has done some of its steps.
    """
    state = "interrupted between its steps" if interrupted else "nothing is changed yet"
    yield from wrap(f"UNDO {plan.id}  {_command_text(plan)}: {state}", 0)
    yield from steps_lines(plan)
    yield paragraph("undo", "these steps, the last one first")


def refused_line(plan: Plan) -> str:
    """Return the line that follows the steps if an undo is refused."""
    return f"REFUSED {plan.id}  {_command_text(plan)}: this undo changed nothing"


def pending_lines(record: RepairRecord, plan: Plan) -> Iterator[str]:
    """Yield an interrupted repair: its loss, its steps, and the commands that finish or undo it."""
    partition, command = plan.partition, record.command or ""
    name = partition_name(partition)
    text = (
        f"PENDING {printable(record.id)}  {printable(command)} {name}: interrupted between its "
        "steps"
    )
    yield from wrap(text, 0)
    yield from loss_lines(plan.loss, lost=plan.lossy)
    yield from steps_lines(plan)
    yield from command_lines("finish", finish_command(plan))
    yield from command_lines("undo", ("kdump", "undo", operand(partition), "--apply"))


def backup_lines(record: RepairRecord, partition: AnyPath) -> Iterator[str]:
    """Yield the entry of a backup in a list."""
    begun = "" if record.begun_ns is None else f"  {_second(record.begun_ns)}"
    yield from wrap(
        f"{printable(record.id)}{begun}  {backup_text(record, partition)}: "
        f"{_STATES[record.state]}; {size_text(record.size_bytes)}",
        0,
    )


def journal_lines(journal: RepairJournal, selected: Iterable[AnyPath]) -> Iterator[str]:
    """Yield the entry of a repair of a log directory in a list, and the command that undoes it.

    ``selected`` are the partitions of its cures, empty for all.
    """
    state = "done" if journal.done else "INTERRUPTED: finish it or undo it"
    begun = sum(bool(cure.applied) for cure in journal.cures)
    text = f"repair of {count_text(begun, 'partition')}, each listed below: {state}"
    yield from wrap(f"{printable(journal.id)}  {_second(journal.begun_ns)}  {text}", 0)
    yield from command_lines("undo", undo_journal_command(journal, selected))


def backup_text(record: RepairRecord, partition: AnyPath) -> str:
    """Return the command and the partition of a repair."""
    command = "unreadable plan of" if record.command is None else printable(record.command)
    name = partition_name(partition) if record.moved is None else printable(record.moved)
    return f"{command} {name}"


def undo_journal_command(journal: RepairJournal, partitions: Iterable[AnyPath] = ()) -> Remedy:
    """Return the command that takes a repair of a log directory back, or that of ``partitions``."""
    paths = [operand(path) for path in partitions] or [operand(journal.path.parent)]
    return "kdump", "undo", *paths, "--plan", journal.id, "--apply"


def command_lines(label: str, argv: tuple[str, ...]) -> Iterator[str]:
    """Yield a command after its label, or on the next line if both do not fit on one."""
    text = shell_text(argv)
    if LABEL + len(text) <= WIDTH:
        yield f"{label:{LABEL}}{text}"
        return
    if label:
        yield label
    yield f"  {text}"


def partition_name(partition: AnyPath) -> str:
    """Return the name of the directory of a partition, also for the path ``.``."""
    return printable(partition.name or partition.absolute().name)


def _command_text(plan: Plan) -> str:
    return f"{printable(plan.command)} {partition_name(plan.partition)}"


def _second(time_ns: int) -> str:
    return time_text(time_ns // 10**9 * 1000).replace(".000Z", "Z")


def _result_text(plan: Plan) -> str:
    before, after = plan.log_end
    conversion = ConversionSums.from_plan(plan, plan.steps)
    if conversion.new:
        parts = [
            f"{conversion.logs} of message format v2 with the same "
            f"{count_text(conversion.records, 'record')}, {conversion.sizes}"
        ]
    elif plan.assemblies:
        logs = count_text(len(plan.assemblies), "log")
        size = sum(piece.size for _, recipe in plan.assemblies for piece in recipe.taken)
        taken = f"{size_text(size)} from replicas in {logs}"
        parts = [taken if size else f"only the valid batches of {logs}"]
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
    lossless = {put.name for put, _ in (*plan.conversions, *plan.assemblies)}
    return any(name.endswith(".log") for name in plan.changed_files - lossless)


def _save_text(plan: Plan) -> str:
    file_count = len(plan.moved_files)
    parts = [f"tail {size_text(plan.tail_bytes)}"] if plan.cuts else []
    if file_count:
        size = sum(plan.files[name].size for name in plan.moved_files)
        parts.append(f"{count_text(file_count, 'whole file')}, {size_text(size)}, not copied")
    if plan.rewrites:
        parts.append(count_text(len(plan.rewrites), "checkpoint file"))
    if not parts:
        return "nothing: no file is changed or removed"
    return f"{partition_name(plan.partition)}/{FOLDERS}/{plan.id}/: {'; '.join(parts)}"


def _backup_bytes(plan: Plan) -> int:
    checkpoints = sum(step.before_size for step in plan.rewrites)
    return plan.tail_bytes + checkpoints + sum(plan.files[name].size for name in plan.moved_files)


def _space_text(plan: Plan) -> str:
    device, inode = plan.identity
    tail_bytes = sum(_tail_space(plan, cut) for cut in plan.cuts)
    needs = size_text(plan.new_bytes + tail_bytes)
    if tail_bytes:
        needs += f" ({size_text(plan.new_bytes)} where the tail can be cloned)"
    try:
        space = os.statvfs(plan.partition)
        free = size_text(space.f_bavail * space.f_frsize)
    except OSError:  # the directory has gone since it was read: applying the plan reports that
        free = "unknown"
    where = f"device {os.major(device):x}:{os.minor(device):x}, directory inode {inode}"
    return f"needs {needs}, free {free}; {where}"


def _tail_space(plan: Plan, cut: Cut) -> int:
    """Return the bytes that the tail of a cut takes at most: the holes in it take none."""
    size = plan.files[cut.name].size - cut.size
    try:
        return min(size, allocated_bytes((plan.partition / cut.name).stat()))
    except OSError:  # it was cut, or is gone: applying the plan reports that
        return size


def _records_text(loss: Loss) -> str:
    both = loss.sound + loss.unreadable
    return f"{'at least ' if both.unbounded else ''}{count_text(both.count, 'record')}"


def _count_text(span: Span) -> str:
    return f"{span.count:,}{' or more' if span.unbounded else ''}"
