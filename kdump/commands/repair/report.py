"""The plan of a repair and its end: text, or JSON Lines.

The text has a line for each kind of cure, whatever the number of partitions.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import click

from kdump.audit.commands import Remedy
from kdump.audit.survey.recovery import Span
from kdump.audit.verdicts.cures import CureKind
from kdump.commands.repair.plan import LeftPartition, PlannedCure, RepairPlan
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable
from kdump.repair.transaction.plan import Plan
from kdump.storage.paths import AnyPath
from kdump.storage.repair_journal import RepairJournal
from kdump.ui import jsonl
from kdump.ui.paragraphs import paragraph, wrap
from kdump.ui.repairs.report import journal_fields, partition_field, plan_fields
from kdump.ui.repairs.text import (
    command_lines,
    error_lines,
    plan_lines,
    undo_journal_command,
)
from kdump.ui.units import count_text, size_text

#: The partitions that a line names, and the lines of partitions that are left.
_NAMED: Final = 3
_MOST_LEFT: Final = 4
_DIGITS: Final = re.compile(r"\d+")
_WHAT: Final = {
    CureKind.REBUILD: "indexes and small files are rebuilt",
    CureKind.FIELD: "wrong fields outside of checksums get the value that the log leaves them",
    CureKind.TAIL: "the unreadable end of the log is removed",
    CureKind.REPLICA: "a replica gives what is corrupt or missing",
    CureKind.REFETCH: "all is moved aside, and the broker fetches it from its leader",
    CureKind.DROP: "corrupt batches are dropped, and the valid ones stay",
    CureKind.AS_BROKER: "the log is truncated where log recovery truncates it",
}


class RunReport(Protocol):
    """The report of one run."""

    def planned(self, kind: CureKind, plan: Plan) -> None:
        """Print the plan of one partition."""

    def plan(self, plan: RepairPlan, apply: Remedy | None) -> None:
        """Print a whole plan; ``apply`` is the command that carries it out, if shown."""

    def interruption(self, journals: Sequence[RepairJournal], finish: Remedy) -> None:
        """Print an interrupted repair, and the command that finishes it."""

    def cured(self, plan: Plan, receipt: Mapping[str, Any]) -> None:
        """Print that a plan of a partition was carried out."""

    def left(self, partition: LeftPartition) -> None:
        """Print that a partition stays as it is, or something of it does."""

    def error(self, error: Exception) -> None:
        """Print an error or a refusal."""

    def finish(self, exit_code: int, journals: Sequence[RepairJournal]) -> None:
        """Print the end; ``journals`` are those of a repair that was carried out."""


def start_report(
    form: Literal["text", "json"],
    paths: Sequence[AnyPath],
    confirmed: Collection[str],
    *,
    spelled_out: bool,
) -> RunReport:
    """Return the report of a run, after printing its header if ``form`` is JSON.

    ``spelled_out``: the text has the plan of every partition. It leaves out a plan that is
    ``confirmed``.
    """
    return _Json(paths) if form == "json" else _Text(confirmed, spelled_out=spelled_out)


class _Text:
    """The report as text; ``spelled_out``: with the plan of every partition.

    It leaves out a plan whose id is ``confirmed``: the user has read it.
    """

    def __init__(self, confirmed: Collection[str], *, spelled_out: bool) -> None:
        self._confirmed, self._spelled_out = confirmed, spelled_out
        self._cured = set[Path]()
        self._left: list[LeftPartition] = []

    def planned(self, kind: CureKind, plan: Plan) -> None:
        for line in plan_lines(plan, applying=True) if self._spelled_out else ():
            click.echo(line)

    def plan(self, plan: RepairPlan, apply: Remedy | None) -> None:
        if plan.id in self._confirmed:
            self._left += plan.untouched
            return
        for line in _plan_lines(plan, apply, every=self._spelled_out):
            click.echo(line)

    def interruption(self, journals: Sequence[RepairJournal], finish: Remedy) -> None:
        begun = sum(bool(cure.applied) for journal in journals for cure in journal.cures)
        every = sum(len(journal.cures) for journal in journals)
        text = f"PENDING {journals[0].id}  repair: interrupted, begun in {begun} of {every} "
        click.echo("\n".join(wrap(f"{text}partitions", 0)))
        for line in command_lines("finish", finish):
            click.echo(line)
        for journal in journals:
            for line in command_lines("undo", undo_journal_command(journal)):
                click.echo(line)

    def cured(self, plan: Plan, receipt: Mapping[str, Any]) -> None:
        self._cured.add(plan.partition)

    def left(self, partition: LeftPartition) -> None:
        self._left.append(partition)

    def error(self, error: Exception) -> None:
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int, journals: Sequence[RepairJournal]) -> None:
        if not journals:
            return
        done = f"{count_text(len(self._cured), 'partition')} repaired"
        click.echo("\n".join(wrap(f"DONE {journals[0].id}  {done}", 0)))
        for label, text in _left_lines(self._left, every=self._spelled_out):
            click.echo(paragraph(label, text))
        for journal in journals:
            for line in command_lines("undo", undo_journal_command(journal)):
                click.echo(line)
        roots = [operand(journal.path.parent) for journal in journals]
        for line in command_lines("check", ("kdump", "verify", *roots)):
            click.echo(line)


class _Json:
    """The report as JSON Lines."""

    def __init__(self, paths: Sequence[AnyPath]) -> None:
        self._plans = self._receipts = self._left = 0
        self._id: str | None = None
        click.echo(jsonl.line("header", jsonl.header("repair", paths)))

    def planned(self, kind: CureKind, plan: Plan) -> None:
        self._plans += 1
        fields = {"cure": kind.value, "plan": plan.id, "lossy": plan.lossy}
        click.echo(jsonl.line("cure", partition_field(plan.partition) | fields))
        click.echo(jsonl.line("plan", plan_fields(plan)))

    def plan(self, plan: RepairPlan, apply: Remedy | None) -> None:
        self._id = plan.id
        # What a cure leaves is known when it is done.
        for left in plan.untouched if apply is None else plan.left:
            self.left(left)

    def interruption(self, journals: Sequence[RepairJournal], finish: Remedy) -> None:
        self._id = journals[0].id
        for journal in journals:
            click.echo(jsonl.line("journal", journal_fields(journal)))

    def cured(self, plan: Plan, receipt: Mapping[str, Any]) -> None:
        self._receipts += 1
        checked = {"problems": None, "next_start": None}
        fields = {**receipt, **partition_field(plan.partition), **checked}
        click.echo(jsonl.line("receipt", fields))

    def left(self, partition: LeftPartition) -> None:
        self._left += 1
        fields = {
            "reason": partition.reason,
            "options": list(partition.options),
            "remedy": partition.command,
        }
        click.echo(jsonl.line("left", partition_field(partition.path) | fields))

    def error(self, error: Exception) -> None:
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int, journals: Sequence[RepairJournal]) -> None:
        fields: dict[str, object] = {
            "exit": exit_code,
            "id": self._id,
            "plans": self._plans,
            "receipts": self._receipts,
            "left": self._left,
        }
        click.echo(jsonl.line("summary", fields))


def _plan_lines(plan: RepairPlan, apply: Remedy | None, *, every: bool) -> Iterator[str]:
    if plan.cures:
        what = shell_text(("kdump", "repair", *plan.arguments))
        yield from wrap(printable(f"PLAN {plan.id}  {what}: nothing is changed yet"), 0)
        yield paragraph("LOSS" if plan.losing else "loss", _loss_text(plan))
        fetched = _of(plan, CureKind.REFETCH)
        if fetched:
            yield paragraph("fetched", _fetched_text(plan, len(fetched)))
        for number, kind in enumerate(kind for kind in CureKind if _of(plan, kind)):
            cures = _of(plan, kind)
            names = _names_text([cure.path for cure in cures])
            size = count_text(len(cures), "partition")
            text = f"{kind.value}, {size}: {_WHAT[kind]}: {names}"
            yield paragraph("" if number else "cures", text)
        if fetched:
            more = f" ({count_text(len(fetched) - 1, 'other')}: --all)" if fetched[1:] else ""
            text = f"{printable(fetched[0].path.name)}: {fetched[0].notes[0]}{more}"
            yield paragraph("in sync", text)
            yield paragraph("note", fetched[0].notes[-1])
        most = sorted(plan.losing, key=lambda cure: -_lost(cure))[:_NAMED]
        for number, cure in enumerate(most):
            lost = cure.loss.sound + cure.loss.unreadable
            text = f"{printable(cure.path.name)}: {_count_text(lost)}"
            yield paragraph("" if number else "loses most", text)
    else:
        whole = count_text(plan.whole, "partition")
        yield from wrap(f"nothing to do in {whole}" if not plan.left else "no cure applies", 0)
    for label, text in _left_lines(plan.left, every=every):
        yield paragraph(label, text)
    if plan.cures:
        yield paragraph("save", "in .kdump of each partition; kdump undo takes all of it back")
        for directory in dict.fromkeys(cure.log_directory for cure in plan.cures):
            yield paragraph("space", _space_text(plan, directory))
    if apply is not None and plan.cures:
        yield from command_lines("apply", apply)


def _of(plan: RepairPlan, kind: CureKind) -> list[PlannedCure]:
    return [cure for cure in plan.cures if cure.kind is kind]


def _lost(cure: PlannedCure) -> int:
    return cure.loss.sound.count + cure.loss.unreadable.count


def _loss_text(plan: RepairPlan) -> str:
    sound, unreadable = plan.sound, plan.unreadable
    losing = plan.losing
    if not losing:
        return "no record"
    parts = f"{_count_text(sound)} VALID + {_count_text(unreadable)} unreadable"
    partitions = count_text(len(losing), "partition")
    below = any(cure.loss.below_high_watermark for cure in losing)
    mark = "; some are BELOW the high watermark" if below else ""
    return f"{parts} of {partitions}{mark}"


def _fetched_text(plan: RepairPlan, partitions: int) -> str:
    """Return what is moved aside, and how far the newest of the given metadata logs goes."""
    size = count_text(partitions, "partition")
    text = f"{_count_text(plan.refetched)} valid records of {size} are moved aside"
    if plan.metadata is None:
        return text
    return f"{text}. The newest metadata log of --metadata is {plan.metadata.age_text}"


def _count_text(span: Span) -> str:
    return f"{span.count:,} or more" if span.unbounded else f"{span.count:,}"


def _names_text(paths: Sequence[AnyPath]) -> str:
    names = ", ".join(printable(path.name) for path in paths[:_NAMED])
    more = len(paths) - _NAMED
    return f"{names} and {count_text(more, 'other')}" if more > 0 else names


def _left_lines(left: Sequence[LeftPartition], *, every: bool) -> Iterator[tuple[str, str]]:
    """Yield a line for each reason, with the partitions, and what helps.

    ``every``: yield one for each partition. Of many partitions, reasons that differ in numbers
    alone have one line, with those of the first partition, and commands have no operands.
    """
    few = every or len(left) <= _NAMED
    by_reason: dict[tuple[object, ...], list[LeftPartition]] = defaultdict(list)
    for partition in left:
        ways, reason = _ways(partition, whole=few), _reason(partition)
        key = (partition.path, reason) if every else (reason if few else _DIGITS.sub("", reason),)
        by_reason[*key, ways].append(partition)
    groups = list(by_reason.values())
    if not few:
        groups.sort(key=lambda partitions: -len(partitions))
    shown = groups if every else groups[:_MOST_LEFT]
    for number, partitions in enumerate(shown):
        names = _names_text([partition.path for partition in partitions])
        ways = _ways(partitions[0], whole=few)
        helps = f" ({' or '.join(ways)})" if ways else ""
        yield "" if number else "LEFT", printable(f"{names}: {_reason(partitions[0])}{helps}")
    others = sum(map(len, groups[len(shown) :]))
    if others:
        yield "", f"{count_text(others, 'more partition')} (--all)"


def _reason(partition: LeftPartition) -> str:
    """Return the reason, without the path of the partition, which the line names."""
    reason = partition.reason.removeprefix(f"{partition.path}: ")
    return reason.removeprefix(f"{partition.path}/")


def _ways(partition: LeftPartition, *, whole: bool) -> tuple[str, ...]:
    """Return the options and the command that help; ``whole``: with what follows their names."""
    options = partition.options if whole else [each.split()[0] for each in partition.options]
    command = partition.command
    if command is None:
        return tuple(options)
    return *options, shell_text(command if whole else command[:2])


def _space_text(plan: RepairPlan, directory: Path) -> str:
    cures = [cure for cure in plan.cures if cure.log_directory == directory]
    needed = sum(cure.new_bytes + cure.tail_bytes for cure in cures)
    return f"needs {size_text(needed)}, free {size_text(free_bytes(directory))}: {directory}"


def free_bytes(directory: Path) -> int:
    """Return the free bytes of the file system of a directory, for an ordinary user."""
    space = os.statvfs(directory)
    return space.f_bavail * space.f_frsize
