"""The report of a repair as text or JSON Lines.

The lines are a promise to scripts. Plans and receipts go to standard output, what went wrong to
standard error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import click

from kdump.audit.codes import Severity
from kdump.audit.commands import undoing
from kdump.audit.targets.scope import Scope
from kdump.audit.verdicts.next_start import next_start
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.ui import jsonl
from kdump.cli.ui.paragraphs import labelled
from kdump.cli.ui.units import count_text
from kdump.cli.views.forecast_json import forecast_fields
from kdump.cli.views.forecast_text import effect_text
from kdump.cli.views.repair.text import (
    backup_lines,
    backup_text,
    commanded,
    error_lines,
    loss_lines,
    nothing_lines,
    pending_lines,
    plan_lines,
    receipt_lines,
    steps_lines,
    undo_lines,
)
from kdump.format.lines.text import printable
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Plan, encode
from kdump.storage.repair_record import RepairRecord

_PROBLEMS = frozenset({Severity.ERROR, Severity.WARNING, Severity.INCOMPLETE})


class Report(Protocol):
    """What a repair tells of."""

    def plan(self, plan: Plan, *, applying: bool) -> None:
        """Tell a plan, also one of nothing; ``applying``: it is carried out next, if it may be."""

    def pending(self, one: RepairRecord, plan: Plan) -> None:
        """Tell of a repair that was interrupted."""

    def receipt(self, plan: Plan, receipt: Mapping[str, Any], checked: Verdict | None) -> None:
        """Tell what was done, and what a quick look has shown afterwards."""

    def failed(self, error: Exception) -> None:
        """Tell what went wrong, or was refused."""

    def finish(self, exit_code: int) -> None:
        """Tell how it ended."""


def report(
    form: Literal["text", "json"],
    command: str,
    scope: Scope,
    confirmed: Collection[str],
    *,
    assume_stopped: bool,
) -> Report:
    """The report in one of the two forms; what it is of is told at once.

    Plans whose ids are ``confirmed`` have been read: people do not get them a second time.
    """
    if form == "json":
        return _Json(command, scope)
    return _Text(confirmed, assume_stopped=assume_stopped)


class _Text:
    """For people. Partitions with nothing to be said of are counted, and told at the end."""

    def __init__(self, confirmed: Collection[str], *, assume_stopped: bool) -> None:
        self._confirmed = confirmed
        self._assume_stopped = assume_stopped
        self._counts: Counter[str] = Counter()
        self._nothing: list[Plan] = []

    def plan(self, plan: Plan, *, applying: bool) -> None:
        if not plan.steps and not plan.notes:
            self._nothing.append(plan)
            return
        kind = ("losing" if plan.lossy else "lossless") if plan.steps else "noted"
        self._counts[kind] += 1
        if applying and plan.id in self._confirmed:
            return
        idle = nothing_lines(plan.partition, plan.notes)
        known = plan_lines(plan, applying=applying, assume_stopped=self._assume_stopped)
        for line in known if plan.steps else idle:
            click.echo(line)

    def pending(self, one: RepairRecord, plan: Plan) -> None:
        self._counts["pending"] += 1
        for line in pending_lines(one, plan):
            click.echo(line)

    def receipt(self, plan: Plan, receipt: Mapping[str, Any], checked: Verdict | None) -> None:
        self._counts["done"] += 1
        found = () if checked is None else _checked_lines(checked)
        for line in receipt_lines(plan, receipt, found):
            click.echo(line)

    def failed(self, error: Exception) -> None:
        self._counts["failed"] += 1
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int) -> None:
        """Tell of partitions that were not told of, and of several what came of all."""
        counts = self._counts
        partitions = counts.total() - counts["done"] - counts["failed"] + len(self._nothing)
        if max(partitions, counts["failed"]) > 1:
            click.echo(labelled("result", "; ".join(self._sums())))
            return
        for plan in self._nothing:
            for line in nothing_lines(plan.partition, plan.notes):
                click.echo(line)

    def _sums(self) -> Iterator[str]:
        """How many partitions came to what."""
        counts = self._counts
        if plans := counts["losing"] + counts["lossless"]:
            losing = f", {counts['losing']:,} of them lossy" if counts["losing"] else ""
            yield count_text(plans, "plan") + losing
        kinds = {"done": "done", "pending": "interrupted", "failed": "refused or failed"}
        for kind, words in kinds.items():
            if counts[kind]:
                yield f"{counts[kind]:,} {words}"
        if idle := len(self._nothing) + counts["noted"]:
            yield f"nothing to do in {count_text(idle, 'partition')}"


class _Json:
    """For scripts."""

    def __init__(self, command: str, scope: Scope) -> None:
        self._plans = self._receipts = self._failed = 0
        paths = [root.path for root in scope.roots]
        click.echo(jsonl.line("header", jsonl.header(command, paths)))

    def plan(self, plan: Plan, *, applying: bool) -> None:
        self._plans += 1
        click.echo(jsonl.line("plan", _plan_fields(plan)))

    def pending(self, one: RepairRecord, plan: Plan) -> None:
        click.echo(jsonl.line("pending", {**_plan_fields(plan), "state": one.state.value}))

    def receipt(self, plan: Plan, receipt: Mapping[str, Any], checked: Verdict | None) -> None:
        self._receipts += 1
        start = None if checked is None else next_start(checked)
        fields = {
            **receipt,
            **_path_field(plan.partition),
            "problems": None if checked is None else _problems(checked),
            "next_start": None if start is None else forecast_fields(start),
        }
        click.echo(jsonl.line("receipt", fields))

    def failed(self, error: Exception) -> None:
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
    """What ``undo`` tells of backups; ``count`` is how many it told of."""

    def __init__(self, form: Literal["text", "json"], scope: Scope) -> None:
        self.count = 0
        self._listed = False
        self._json = form == "json"
        if self._json:
            paths = [root.path for root in scope.roots]
            click.echo(jsonl.line("header", jsonl.header("undo", paths)))

    def kept(
        self, one: RepairRecord, partition: Path, *, whole: bool, refused: Exception | None = None
    ) -> None:
        """Tell of one backup; ``whole``: with its plan. ``refused``: why an undo would refuse."""
        self.count += 1
        if self._json:
            plan = _plan_fields(Folder(partition, one.id).plan()) if whole else None
            why = None if refused is None else str(refused)
            shown = {} if plan is None else {"plan": plan, "undo_refused": why}
            click.echo(jsonl.line("backup", _backup_fields(one, partition) | shown))
            return
        for line in backup_lines(one, partition):
            click.echo(line)
        self._listed |= not whole
        for line in self._whole(one, partition, refused) if whole else ():
            click.echo(line)

    def _whole(
        self, one: RepairRecord, partition: Path, refused: Exception | None
    ) -> Iterator[str]:
        plan = Folder(partition, one.id).plan()
        yield from loss_lines(plan.loss, lost=plan.lossy)
        yield from steps_lines(plan)
        undo = undoing(partition, one.id)
        yield from commanded("free", (*undo[:-1], "--discard"))
        if refused is None:
            yield from commanded("undo", undo)
        else:
            yield labelled("undo", f"refused: {printable(str(refused))}")

    def undoing(self, plan: Plan) -> None:
        """Tell what is taken back next."""
        if self._json:
            click.echo(jsonl.line("plan", {**_plan_fields(plan), "undo": True}))
            return
        for line in undo_lines(plan):
            click.echo(line)

    def changed(self, one: RepairRecord, partition: Path, *, discarded: bool) -> None:
        """Tell that a repair was taken back, or its backup removed."""
        self.count += 1
        what = "discarded" if discarded else "undone"
        if self._json:
            click.echo(jsonl.line(what, _backup_fields(one, partition)))
        else:
            click.echo(f"{what.upper()} {printable(one.id)}  {backup_text(one, partition)}")

    def failed(self, error: Exception) -> None:
        """Tell what went wrong, or was refused."""
        for line in error_lines(error):
            click.echo(line, err=True)

    def finish(self, exit_code: int) -> None:
        """Tell how it ended."""
        if self._json:
            click.echo(jsonl.line("summary", {"exit": exit_code, "backups": self.count}))
        elif not self.count and exit_code == 0:
            click.echo("no backup of a repair here")
        elif self._listed:
            text = (
                "kdump undo PARTITION --plan ID shows a repair; with --apply it undoes the "
                "repair, with "
            )
            click.echo(labelled("next", f"{text}--discard it removes the backup"))


def _backup_fields(one: RepairRecord, partition: Path) -> dict[str, object]:
    return {
        "id": one.id,
        "command": one.command,
        **_path_field(partition),
        "state": one.state.value,
        "begun_ns": one.begun_ns,
        "bytes": one.size_bytes,
    }


def _plan_fields(plan: Plan) -> dict[str, Any]:
    fields = encode(plan)
    del fields["schema"], fields["log_directory"], fields["partition"], fields["files"]
    space = {"new_bytes": plan.new_bytes, "tail_bytes": plan.tail_bytes}
    where = _path_field(plan.partition)
    return {"id": plan.id, **where, **fields, "lossy": plan.lossy, "space": space}


def _path_field(partition: Path) -> dict[str, Any]:
    return {
        f"partition{name.removeprefix('path')}": value
        for name, value in jsonl.path_field(partition).items()
    }


def _checked_lines(verdict: Verdict) -> Iterator[str]:
    """What a quick look has found, and what the next start does."""
    found = Counter[str]()
    for one in verdict.findings:
        if one.code.severity in _PROBLEMS:
            found[one.code.name] += 1 + one.repeats
    names = f": {', '.join(sorted(found))}" if found else ""
    yield labelled("checked", f"{count_text(found.total(), 'problem')} in a quick check{names}")
    start = next_start(verdict)
    if start is not None:
        yield labelled("next start", effect_text(start))


def _problems(verdict: Verdict) -> int:
    return sum(1 + one.repeats for one in verdict.findings if one.code.severity in _PROBLEMS)
