"""The report of a repair as text or JSON Lines.

The JSON lines are a promise to scripts. Plans and receipts go to standard output, errors to
standard error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import click

from kdump.audit.commands import saved_undo_command, undo_command
from kdump.audit.finding_code import Severity
from kdump.audit.targets.scope import Scope
from kdump.audit.verdicts.next_start import next_start
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused
from kdump.format.lines.text import printable
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Plan, encode
from kdump.storage.paths import AnyPath
from kdump.storage.repair_journal import RepairJournal
from kdump.storage.repair_record import MOVE, RepairRecord, RepairState
from kdump.ui import jsonl
from kdump.ui.paragraphs import paragraph, wrap
from kdump.ui.repairs.text import (
    backup_lines,
    backup_text,
    command_lines,
    error_lines,
    journal_lines,
    loss_lines,
    nothing_lines,
    pending_lines,
    plan_lines,
    receipt_lines,
    refused_line,
    steps_lines,
    undo_lines,
)
from kdump.ui.units import count_text
from kdump.ui.verdicts.forecast_json import forecast_fields
from kdump.ui.verdicts.forecast_text import effect_text

_PROBLEMS = frozenset({Severity.ERROR, Severity.WARNING, Severity.INCOMPLETE})


class RepairReport(Protocol):
    """The report of a repair, as text or JSON."""

    def plan(self, plan: Plan, *, applying: bool) -> None:
        """Print a plan, also an empty one; ``applying``: the repair goes on to apply it."""

    def interruption(self, record: RepairRecord, plan: Plan) -> None:
        """Print a repair that was interrupted."""

    def receipt(self, plan: Plan, receipt: Mapping[str, Any], checked: Verdict | None) -> None:
        """Print a receipt, and the verdict of the quick pass after it, None if there is none."""

    def error(self, error: Exception) -> None:
        """Print an error or a refusal."""

    def finish(self, exit_code: int) -> None:
        """Print the end of the report."""


def start_report(
    form: Literal["text", "json"],
    command: str,
    scope: Scope,
    confirmed: Collection[str],
    *,
    assume_stopped: bool,
) -> RepairReport:
    """Return the report of a run, after printing its header if ``form`` is JSON.

    The text leaves out plans whose ids are ``confirmed``: the user has read them.
    """
    if form == "json":
        return _Json(command, scope)
    return _Text(confirmed, assume_stopped=assume_stopped)


class _Text:
    """The text report. Partitions with nothing to do are counted, and reported at the end."""

    def __init__(self, confirmed: Collection[str], *, assume_stopped: bool) -> None:
        self._confirmed = confirmed
        self._assume_stopped = assume_stopped
        self._counts: Counter[str] = Counter()
        self._nothing: list[Plan] = []

    def plan(self, plan: Plan, *, applying: bool) -> None:
        if not plan.steps and not plan.notes:
            self._nothing.append(plan)
            return
        kind = ("lossy" if plan.lossy else "lossless") if plan.steps else "noted"
        self._counts[kind] += 1
        if applying and plan.id in self._confirmed:
            return
        idle = nothing_lines(plan.partition, plan.notes)
        known = plan_lines(plan, applying=applying, assume_stopped=self._assume_stopped)
        for line in known if plan.steps else idle:
            click.echo(line)

    def interruption(self, record: RepairRecord, plan: Plan) -> None:
        self._counts["pending"] += 1
        for line in pending_lines(record, plan):
            click.echo(line)

    def receipt(self, plan: Plan, receipt: Mapping[str, Any], checked: Verdict | None) -> None:
        self._counts["done"] += 1
        found = () if checked is None else _checked_lines(checked)
        for line in receipt_lines(plan, receipt, found):
            click.echo(line)

    def error(self, error: Exception) -> None:
        self._counts["failed"] += 1
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int) -> None:
        """Print the sums over several partitions, or that there is nothing to do in one."""
        counts = self._counts
        partitions = counts.total() - counts["done"] - counts["failed"] + len(self._nothing)
        if max(partitions, counts["failed"]) > 1:
            click.echo(paragraph("result", "; ".join(self._sums())))
            return
        if not counts and not self._nothing:
            click.echo("no partition here: nothing to do")
        for plan in self._nothing:
            for line in nothing_lines(plan.partition, plan.notes):
                click.echo(line)

    def _sums(self) -> Iterator[str]:
        """Yield the number of partitions for each result."""
        counts = self._counts
        if plans := counts["lossy"] + counts["lossless"]:
            lossy = f", {counts['lossy']:,} of them lossy" if counts["lossy"] else ""
            yield count_text(plans, "plan") + lossy
        kinds = {"done": "done", "pending": "interrupted", "failed": "refused or failed"}
        for kind, words in kinds.items():
            if counts[kind]:
                yield f"{counts[kind]:,} {words}"
        if idle := len(self._nothing) + counts["noted"]:
            yield f"nothing to do in {count_text(idle, 'partition')}"


class _Json:
    """The JSON report."""

    def __init__(self, command: str, scope: Scope) -> None:
        self._plans = self._receipts = self._failed = 0
        paths = [root.path for root in scope.roots]
        click.echo(jsonl.line("header", jsonl.header(command, paths)))

    def plan(self, plan: Plan, *, applying: bool) -> None:
        self._plans += 1
        click.echo(jsonl.line("plan", plan_fields(plan)))

    def interruption(self, record: RepairRecord, plan: Plan) -> None:
        click.echo(jsonl.line("pending", {**plan_fields(plan), "state": record.state.value}))

    def receipt(self, plan: Plan, receipt: Mapping[str, Any], checked: Verdict | None) -> None:
        self._receipts += 1
        start = None if checked is None else next_start(checked)
        fields = {
            **receipt,
            **partition_field(plan.partition),
            "problems": None if checked is None else _problem_count(checked),
            "next_start": None if start is None else forecast_fields(start),
        }
        click.echo(jsonl.line("receipt", fields))

    def error(self, error: Exception) -> None:
        self._failed += 1
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int) -> None:
        fields: dict[str, object] = {
            "exit": exit_code,
            "plans": self._plans,
            "receipts": self._receipts,
            "failed": self._failed,
        }
        click.echo(jsonl.line("summary", fields))


class BackupReport:
    """The report of ``undo``; ``count`` is the number of backups in it."""

    def __init__(self, form: Literal["text", "json"], scope: Scope) -> None:
        self.count = 0
        self._listed = False
        self._shown: Plan | None = None
        self._json = form == "json"
        if self._json:
            paths = [root.path for root in scope.roots]
            click.echo(jsonl.line("header", jsonl.header("undo", paths)))

    def backup(
        self,
        record: RepairRecord,
        partition: Path,
        *,
        with_plan: bool,
        refused: Exception | None = None,
    ) -> None:
        """Print a backup, ``with_plan`` also its plan; ``refused`` is why an undo would refuse."""
        self.count += 1
        if self._json:
            shown: dict[str, object] = {}
            if with_plan and record.command != MOVE:
                shown["plan"] = plan_fields(Folder(partition, record.id).plan())
            if with_plan:
                shown["undo_refused"] = None if refused is None else str(refused)
            click.echo(jsonl.line("backup", _backup_fields(record, partition) | shown))
            return
        for line in backup_lines(record, partition):
            click.echo(line)
        self._listed |= not with_plan
        for line in self._plan_text_lines(record, partition, refused) if with_plan else ():
            click.echo(line)

    def journal(self, journal: RepairJournal, selected: Sequence[AnyPath]) -> None:
        """Print a repair of a log directory, which has a backup in each partition.

        ``selected`` are the partitions of its cures, empty for all.
        """
        self.count += 1
        if self._json:
            click.echo(jsonl.line("journal", journal_fields(journal)))
            return
        for line in journal_lines(journal, selected):
            click.echo(line)

    def saved(self, record: RepairRecord, partition: Path, directory: Path) -> None:
        """Print a backup of a trim in ``directory``, with the command that brings it back."""
        self.count += 1
        if self._json:
            click.echo(jsonl.line("backup", _backup_fields(record, partition)))
            return
        for line in backup_lines(record, partition):
            click.echo(line)
        for line in command_lines("undo", saved_undo_command(directory, partition)):
            click.echo(line)

    def _plan_text_lines(
        self, record: RepairRecord, partition: Path, refused: Exception | None
    ) -> Iterator[str]:
        if record.command != MOVE:
            plan = Folder(partition, record.id).plan()
            yield from loss_lines(plan.loss, lost=plan.lossy)
            yield from steps_lines(plan)
        undo = undo_command(partition, record.id)
        yield from command_lines("free", (*undo[:-1], "--discard"))
        if refused is None:
            yield from command_lines("undo", undo)
        else:
            yield paragraph("undo", f"refused: {printable(str(refused))}")

    def undo(self, record: RepairRecord, plan: Plan) -> None:
        """Print the repair that is undone next."""
        if self._json:
            click.echo(jsonl.line("plan", {**plan_fields(plan), "undo": True}))
            return
        self._shown = plan
        for line in undo_lines(plan, interrupted=record.state is not RepairState.DONE):
            click.echo(line)

    def change(self, record: RepairRecord, partition: AnyPath, *, discarded: bool) -> None:
        """Print that a repair was undone, or its backup removed."""
        self.count += 1
        self._shown = None
        what = "discarded" if discarded else "undone"
        if self._json:
            click.echo(jsonl.line(what, _backup_fields(record, partition)))
        else:
            click.echo(f"{what.upper()} {printable(record.id)}  {backup_text(record, partition)}")

    def error(self, error: Exception) -> None:
        """Print an error or a refusal."""
        if self._shown is not None and isinstance(error, Refused):
            for line in wrap(refused_line(self._shown), 0):
                click.echo(line)
        self._shown = None
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int) -> None:
        """Print the end of the report."""
        if self._json:
            click.echo(jsonl.line("summary", {"exit": exit_code, "backups": self.count}))
        elif not self.count and exit_code == 0:
            click.echo("no backup of a repair here")
        elif self._listed:
            text = (
                "kdump undo PARTITION --plan ID shows a repair; with --apply it undoes the "
                "repair, with "
            )
            click.echo(paragraph("next", f"{text}--discard it removes the backup"))


def _backup_fields(record: RepairRecord, partition: AnyPath) -> dict[str, object]:
    return {
        "id": record.id,
        "command": record.command,
        **partition_field(partition),
        "state": record.state.value,
        "begun_ns": record.begun_ns,
        "bytes": record.size_bytes,
    }


def journal_fields(journal: RepairJournal) -> dict[str, object]:
    """Return the fields of a repair of a log directory in JSON."""
    return {
        "id": journal.id,
        **jsonl.path_field(journal.path.parent),
        "arguments": list(journal.arguments),
        "begun_ns": journal.begun_ns,
        "done": journal.done,
        "left": [jsonl.path_value(name) for name in journal.left],
        "cures": [
            {
                "name": jsonl.path_value(cure.partition),
                "cure": cure.cure,
                "plan": cure.plan_id,
                "begun": list(cure.applied),
            }
            for cure in journal.cures
        ],
    }


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a plan in JSON."""
    fields = encode(plan)
    del fields["schema"], fields["log_directory"], fields["partition"], fields["files"]
    space = {"new_bytes": plan.new_bytes, "tail_bytes": plan.tail_bytes}
    where = partition_field(plan.partition)
    return {"id": plan.id, **where, **fields, "lossy": plan.lossy, "space": space}


def partition_field(partition: AnyPath) -> dict[str, Any]:
    """Return the path of a partition under its name in JSON."""
    return {
        f"partition{name.removeprefix('path')}": value
        for name, value in jsonl.path_field(partition).items()
    }


def _checked_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what the quick pass has found, and what the next start does."""
    found = Counter[str]()
    for finding in verdict.findings:
        if finding.code.severity in _PROBLEMS:
            found[finding.code.name] += 1 + finding.repeats
    names = f": {', '.join(sorted(found))}" if found else ""
    yield paragraph("checked", f"{count_text(found.total(), 'problem')} in a quick check{names}")
    start = next_start(verdict)
    if start is not None:
        yield paragraph("startup", effect_text(start))


def _problem_count(verdict: Verdict) -> int:
    return sum(
        1 + finding.repeats for finding in verdict.findings if finding.code.severity in _PROBLEMS
    )
