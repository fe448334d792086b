"""The course of every repair command: plan, report, consent, apply, exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import click

from kdump.ui.exits import NOTHING_READ, Ending
from kdump.ui.options.group import Decorator, option_group
from kdump.ui.options.jobs import jobs_option
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import repair_target_options
from kdump.ui.progress import progress_option
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Target
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.repair.transaction.plan import Plan
    from kdump.ui.progress import Mode, Progress
    from kdump.ui.repairs.report import RepairReport

    #: Makes the plan for a partition. Its second argument takes counts of bytes as they are read.
    Planner = Callable[[Verdict, Callable[[int], None]], Plan]

EXIT_CODES = (
    "Exit codes: 0 nothing to do, or done; 2 wrong usage; 4 there is a plan, which --apply "
    "carries out; 5 something could not be read, or a repair was interrupted: the last line on "
    "standard error is then the command that continues it; 6 refused, nothing changed; 130, 143 "
    "ended by a signal; 141 the reader of the output went away."
)


assume_stopped_option = click.option(
    "--assume-stopped",
    is_flag=True,
    help="Continue although kdump cannot show that no broker runs, for example on a network file "
    "system, or in a container that has the partition without its log directory.",
)


@frozen
class RepairOptions:
    """The command and its options, as far as all repairs have them.

    ``arguments`` are the options of this command that a plan depends on, as they are typed.
    """

    command: str
    arguments: tuple[str, ...]
    apply: bool
    confirm: tuple[str, ...]
    assume_stopped: bool
    full_proof: bool
    form: Literal["text", "json"]
    progress: Mode
    jobs: int | None

    def with_arguments(self, *options: tuple[str, object]) -> RepairOptions:
        """Return the choice with the options of its command that a plan depends on, by name."""
        words: list[str] = []
        for name, value in options:
            if value is True:
                words.append(name)
            elif value is not None and value is not False:
                words += [name, str(value)]
        return replace(self, arguments=tuple(words))

    @property
    def processes(self) -> int:
        """The number of processes that may read at a time."""
        from kdump.storage.workers import default_jobs

        return self.jobs or default_jobs()


def repair_options(name: str) -> Decorator:
    """Return a decorator that adds what all repairs take, as ``targets`` and ``choice``.

    ``name`` is that of the command.
    """
    group = option_group(
        "choice",
        partial(RepairOptions, name, ()),
        click.option(
            "--apply",
            is_flag=True,
            help="Carry out the plan, or continue an interrupted repair; without it nothing is "
            "changed.",
        ),
        click.option(
            "--confirm",
            metavar="ID",
            multiple=True,
            help="With --apply: agree to the plan with this id, which loses records. Without it, "
            "the terminal asks for the id. Repeatable.",
        ),
        assume_stopped_option,
        click.option(
            "--full-proof",
            is_flag=True,
            help="Put the SHA-256 of all files of the partition into the receipt, including whole "
            "logs, which are read once more for it.",
        ),
        format_option(
            "Print for people, or JSON Lines: a header, a line for each plan and each "
            "receipt, a summary."
        ),
        progress_option,
        jobs_option("the number of usable CPUs"),
    )

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        return repair_target_options(group(command))

    return add_options


def repair(
    scope: Scope,
    choice: RepairOptions,
    planner: Planner,
    *,
    rebuild: bool = False,
    passes: int = 1,
    ends: Mapping[str, Ending] = MappingProxyType({}),
) -> int:
    """Plan a repair of every partition of ``scope``, and apply it if so chosen.

    Return the exit code of the run.

    ``rebuild``: the planner needs rebuilt indexes. ``passes``: how many times each log is read.
    ``ends`` has the endings of plans after which something stays damaged, by their ids.
    """
    from kdump.ui.progress import Progress
    from kdump.ui.repairs.report import start_report

    targets = partitions(scope)
    output = start_report(
        choice.form, choice.command, scope, choice.confirm, assume_stopped=choice.assume_stopped
    )
    ending = Ending()
    with Progress(choice.progress) as meter:
        run = _Run(
            scope,
            targets,
            choice,
            planner,
            output,
            meter,
            rebuild=rebuild,
            passes=passes,
            ends=ends,
        )
        with closing(run.endings()) as endings:
            for part in endings:
                ending |= part
                if ending.stopped_by is not None:
                    break
    output.finish(ending.exit_code)
    if run.resume is not None:
        click.echo(run.resume, err=True)
    return ending.exit_code


class _Run:
    """A run of a repair over partitions.

    ``resume`` is the command that continues an interrupted repair, None if there is none.
    """

    def __init__(
        self,
        scope: Scope,
        targets: Sequence[Target],
        choice: RepairOptions,
        planner: Planner,
        output: RepairReport,
        meter: Progress,
        *,
        rebuild: bool,
        passes: int,
        ends: Mapping[str, Ending],
    ) -> None:
        self.resume: str | None = None
        self._scope, self._targets = scope, targets
        self._choice, self._planner = choice, planner
        self._output, self._meter = output, meter
        self._rebuild, self._passes, self._ends = rebuild, passes, ends

    def endings(self) -> Generator[Ending, None, None]:
        """Repair each partition, and yield its ending. Interrupted repairs come first."""
        from kdump.errors import KdumpError

        fresh: list[Target] = []
        for target in self._targets:
            try:
                resumed = self._resume(target)
            except KdumpError as error:
                resumed = self._report_error(error)
            if resumed is None:
                fresh.append(target)
            else:
                yield resumed
        self._meter.expect(self._passes * sum(target.size for target in fresh))
        for verdict in self._verify(fresh):
            # Logs that need no further pass, or are refused, count as if they had been read again.
            counted = self._meter.done + (self._passes - 1) * verdict.target.size
            try:
                ending = self._repair(verdict) | Ending(unread=_is_unread(verdict))
            except KdumpError as error:
                ending = self._report_error(error)
            self._meter.advance(max(counted - self._meter.done, 0))
            yield ending

    def _resume(self, target: Target) -> Ending | None:
        """Continue a repair of ``target`` that was interrupted, or print the command that does.

        Return the ending, None if no repair was interrupted. Raise Refused, SourceError.
        """
        from kdump.errors import Refused
        from kdump.format.lines.shell import shell_text
        from kdump.repair.transaction.apply import resume
        from kdump.repair.transaction.folder import Folder
        from kdump.repair.transaction.lock import check_stopped, finish_or_undo, interrupted_repair
        from kdump.repair.transaction.plan import finish_command, log_directory_of, with_paths
        from kdump.storage.paths import as_local
        from kdump.storage.repair_record import RepairState

        if target.error is not None:
            raise target.error
        path = as_local(target.path)
        if not target.stopped or target.directory is None:
            check_stopped(path, assume_stopped=self._choice.assume_stopped)
        record = interrupted_repair(path)
        if record is None:
            return None
        if record.state is RepairState.UNDOING or record.command != self._choice.command:
            raise Refused(
                f"{target.path}: expected no interrupted repair, found {record.id}: "
                f"{finish_or_undo(record, path)}"
            )
        folder = Folder(path, record.id)
        plan = with_paths(folder.plan(), path, log_directory_of(target))
        with self._meter.paused():
            self._output.interruption(record, plan)
        if not self._choice.apply:
            self.resume = shell_text(finish_command(plan))
            return NOTHING_READ
        with self._meter.paused():
            _consent(plan, self._choice, resuming=True)
        receipt = resume(
            folder,
            log_directory_of(target),
            assume_stopped=self._choice.assume_stopped,
            full_proof=self._choice.full_proof,
        )
        self._report_receipt(plan, receipt, target)
        return Ending()

    def _verify(self, targets: Sequence[Target]) -> Iterator[Verdict]:
        """Yield the verdict of each partition.

        With --apply each is verified just before it is repaired, else all in one run.
        """
        from kdump.audit.run.verify import verify

        stopped = [replace(target, stopped=True) for target in targets]
        parts = [[target] for target in stopped] if self._choice.apply else [stopped]
        for part in parts:
            found = verify(
                part,
                deep=False,
                jobs=self._choice.processes,
                context=self._scope.context,
                rebuild=self._rebuild,
                on_progress=self._meter.advance,
            )
            with closing(found):
                yield from found

    def _repair(self, verdict: Verdict) -> Ending:
        from kdump.errors import Refused
        from kdump.repair.transaction.apply import apply

        plan = self._planner(verdict, self._meter.advance)
        if plan.missing_files:
            raise Refused(
                f"{plan.partition}: expected {plan.missing_files[0]}, found no such file: the "
                "directory has changed since it was read. Nothing was changed; run the command "
                "again"
            )
        with self._meter.paused():
            self._output.plan(plan, applying=self._choice.apply)
        end = self._ends.get(plan.id, Ending())
        if not plan.steps:
            return end
        if not self._choice.apply:
            return end | Ending(problems=True)
        with self._meter.paused():
            _consent(plan, self._choice)
        receipt = apply(
            plan,
            jobs=self._choice.processes,
            report=self._meter.advance,
            assume_stopped=self._choice.assume_stopped,
            full_proof=self._choice.full_proof,
        )
        self._report_receipt(plan, receipt, verdict.target)
        return end

    def _report_receipt(self, plan: Plan, receipt: Mapping[str, Any], target: Target) -> None:
        checked = None
        try:
            checked = self._recheck(target)
        finally:  # an error or a signal in the check takes nothing back
            with self._meter.paused():
                self._output.receipt(plan, receipt, checked)

    def _recheck(self, target: Target) -> Verdict | None:
        """Return the verdict of a quick pass over the repaired partition."""
        from kdump.audit.run.prescan import quick_pass
        from kdump.ui.options.targets import TargetOptions, find_scope

        now = find_scope(TargetOptions([target.path]))
        with closing(quick_pass(now.targets, now.context, jobs=1)) as verdicts:
            return next(verdicts, None)

    def _report_error(self, error: Exception) -> Ending:
        from kdump.errors import Unfinished
        from kdump.format.lines.shell import shell_text

        with self._meter.paused():
            self._output.error(error)
        if isinstance(error, Unfinished):
            self.resume = shell_text(error.resume)
        return Ending.of(error)


def partitions(scope: Scope) -> list[Target]:
    """Return the listed partitions of ``scope``. Raise UsageError for a single file."""
    from kdump.errors import UsageError

    found = []
    for root, part in zip(scope.roots, scope.parts, strict=True):
        for target in part:
            listed = target.with_listing()
            if listed.partition is None and listed.error is None:
                raise UsageError(
                    f"{root.path}: expected a partition directory or a log directory, found a "
                    "file: give the directory that holds it"
                )
            found.append(listed)
    return found


def _is_unread(verdict: Verdict) -> bool:
    """Return whether part of a partition could not be read."""
    from kdump.audit.checks.read_errors import DENIED, UNREADABLE, VANISHED

    unread = {UNREADABLE, DENIED, VANISHED}
    return any(finding.code in unread for finding in verdict.findings)


def _consent(plan: Plan, choice: RepairOptions, *, resuming: bool = False) -> None:
    """Raise Refused unless the user agrees to the loss; ``resuming``: steps are done already."""
    from kdump.ui.repairs.text import consent_text

    if plan.lossy:
        more = " more" if resuming else ""
        consent(str(plan.partition), plan.id, consent_text(plan), choice.confirm, more=more)


def consent(
    place: str, plan_id: str, question: str, confirmed: Sequence[str], *, more: str = ""
) -> None:
    """Raise Refused unless the user agrees to a plan: with --confirm, or on the terminal.

    ``place`` is what loses records; ``more`` says after "nothing" that something was changed.
    """
    from kdump.errors import Refused

    if plan_id in confirmed:
        return
    if confirmed:
        given = ", ".join(confirmed)
        raise Refused(f"{place}: expected --confirm {plan_id}, found {given}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(
            f"{place}: the plan loses records: expected --confirm {plan_id}, or a "
            "terminal to ask on, found neither"
        )
    try:
        word = click.prompt(question, default="", show_default=False, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from abort
        word = ""
    if word.strip() != plan_id:
        raise Refused(f"{place}: declined, nothing{more} was changed")
