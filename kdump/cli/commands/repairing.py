"""The course of every repair command: plan, report, consent, apply."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kdump.cli.options.targets import selecting
from kdump.cli.ui.exits import INCOMPLETE, INTERRUPTED, OK, PROBLEMS, REFUSED, TERMINATED, USAGE
from kdump.cli.ui.progress import showing_progress
from kdump.cli.ui.units import MOST_JOBS

if TYPE_CHECKING:
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Target
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.cli.ui.progress import Mode, Progress
    from kdump.cli.views.repair.report import Report
    from kdump.repair.transaction.plan import Plan

    #: Makes the plan for a partition, and is told to whom to report counts of bytes that it reads.
    Planner = Callable[[Verdict, Callable[[int], None]], Plan]

#: Which of several exit codes counts, the first one first.
_PRECEDENCE = (INTERRUPTED, TERMINATED, INCOMPLETE, REFUSED, USAGE, PROBLEMS, OK)
EXIT_CODES = (
    "Exit codes: 0 nothing to do, or done; 2 wrong usage; 4 there is a plan, which --apply "
    "carries out; 5 something could not be read, or a repair was interrupted: the last line on "
    "standard error is then the command that continues it; 6 refused, nothing changed; 130, 143 "
    "ended by a signal; 141 the reader of the output went away."
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody chose, the same for all repairs.

    ``arguments`` are the options of the command at hand that a plan depends on.
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

    @property
    def processes(self) -> int:
        """How many processes may read at a time."""
        from kdump.storage.workers import default_jobs

        return self.jobs or default_jobs()


def repairing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that all repairs have."""
    for option in (
        click.option(
            "--jobs",
            type=click.IntRange(min=1, max=MOST_JOBS),
            metavar="N",
            help="Read with N processes at a time. Default: as many as this process may use CPUs.",
        ),
        showing_progress,
        click.option(
            "--format",
            "form",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Print for people, or JSON Lines: a header, a line for each plan and each "
            "receipt, a summary.",
        ),
        click.option(
            "--full-proof",
            is_flag=True,
            help="Put the SHA-256 of all files of the partition into the receipt, including whole "
            "logs, which are read once more for it.",
        ),
        click.option(
            "--assume-stopped",
            is_flag=True,
            help="Continue although kdump cannot show that no broker runs, for example on a "
            "network file system, or in a container that has the partition without its log "
            "directory.",
        ),
        click.option(
            "--confirm",
            metavar="ID",
            multiple=True,
            help="With --apply: agree to the plan with this id, which loses records. Without it, "
            "the terminal asks for the id. Repeatable.",
        ),
        click.option(
            "--apply",
            is_flag=True,
            help="Carry out the plan, or continue an interrupted repair. Without it nothing is "
            "changed.",
        ),
        selecting,
    ):
        command = option(command)
    return command


def repair(
    scope: Scope,
    choice: Choice,
    planner: Planner,
    *,
    rebuild: bool = False,
    passes: int = 1,
) -> int:
    """Plan, and if so chosen apply, a repair of every partition of ``scope``.

    ``rebuild`` says that the planner needs indexes built anew, ``passes`` how often logs are read
    in all.
    """
    from kdump.cli.ui.progress import Progress
    from kdump.cli.views.repair.report import report

    targets = partitions(scope)
    told = report(
        choice.form, choice.command, scope, choice.confirm, assume_stopped=choice.assume_stopped
    )
    codes = {OK}
    with Progress(choice.progress) as shown:
        run = _Run(scope, targets, choice, planner, told, shown, rebuild=rebuild, passes=passes)
        with closing(run.codes()) as found:
            for code in found:
                codes.add(code)
                if is_signal(code):
                    break
    exit_code = first_of(codes)
    told.finish(exit_code)
    if run.resume is not None:
        click.echo(run.resume, err=True)
    return exit_code


class _Run:
    """One run of a repair over partitions; ``resume`` is the command that goes on, if need be."""

    def __init__(
        self,
        scope: Scope,
        targets: Sequence[Target],
        choice: Choice,
        planner: Planner,
        told: Report,
        shown: Progress,
        *,
        rebuild: bool,
        passes: int,
    ) -> None:
        self.resume: str | None = None
        self._scope, self._targets = scope, targets
        self._choice, self._planner = choice, planner
        self._told, self._shown = told, shown
        self._rebuild, self._passes = rebuild, passes

    def codes(self) -> Generator[int, None, None]:
        """Do it all; yields the exit code of each partition."""
        from kdump.errors import KdumpError

        fresh: list[Target] = []
        for target in self._targets:
            try:
                code = self._unfinished(target)
            except KdumpError as error:
                code = self._failed(error)
            if code is None:
                fresh.append(target)
            else:
                yield code
        self._shown.expect(self._passes * sum(target.size for target in fresh))
        for verdict in self._judged(fresh):
            # Logs that need no other pass, or are refused, count as if they had got it.
            counted = self._shown.done + (self._passes - 1) * verdict.target.size
            try:
                code = first_of({self._one(verdict), _read_code(verdict)})
            except KdumpError as error:
                code = self._failed(error)
            self._shown.advance(max(counted - self._shown.done, 0))
            yield code

    def _unfinished(self, target: Target) -> int | None:
        """What to do of a repair that was interrupted there; None if there was none."""
        from kdump.errors import Refused
        from kdump.format.lines.shell import shell_text
        from kdump.repair.transaction.apply import resume
        from kdump.repair.transaction.folder import Folder
        from kdump.repair.transaction.lock import check_stopped, finish_or_undo, interrupted_repair
        from kdump.repair.transaction.plan import finish_command, with_paths
        from kdump.storage.repair_record import RepairState

        if target.error is not None:
            raise target.error
        if not target.stopped or target.directory is None:
            check_stopped(target.path, assume_stopped=self._choice.assume_stopped)
        one = interrupted_repair(target.path)
        if one is None:
            return None
        if one.state is RepairState.UNDOING or one.command != self._choice.command:
            raise Refused(
                f"{target.path}: expected no interrupted repair, found {one.id}: "
                f"{finish_or_undo(one, target.path)}"
            )
        folder = Folder(target.path, one.id)
        plan = with_paths(folder.plan(), target.path, _above(target))
        with self._shown.paused():
            self._told.pending(one, plan)
        if not self._choice.apply:
            self.resume = shell_text(finish_command(plan))
            return INCOMPLETE
        with self._shown.paused():
            _consent(plan, self._choice)
        receipt = resume(
            folder,
            _above(target),
            assume_stopped=self._choice.assume_stopped,
            full_proof=self._choice.full_proof,
        )
        self._tell_receipt(plan, receipt, target)
        return OK

    def _judged(self, targets: Sequence[Target]) -> Iterator[Verdict]:
        """Everything about each partition; one by one where each is repaired at once."""
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
                on_progress=self._shown.advance,
            )
            with closing(found):
                yield from found

    def _one(self, verdict: Verdict) -> int:
        from kdump.errors import Refused
        from kdump.repair.transaction.apply import apply

        plan = self._planner(verdict, self._shown.advance)
        if plan.missing_files:
            raise Refused(
                f"{plan.partition}: expected {plan.missing_files[0]}, found no such file: the "
                "directory has changed since it was read. Nothing was changed; run the command "
                "again"
            )
        with self._shown.paused():
            self._told.plan(plan, applying=self._choice.apply)
        if not plan.steps:
            return OK
        if not self._choice.apply:
            return PROBLEMS
        with self._shown.paused():
            _consent(plan, self._choice)
        receipt = apply(
            plan,
            jobs=self._choice.processes,
            report=self._shown.advance,
            assume_stopped=self._choice.assume_stopped,
            full_proof=self._choice.full_proof,
        )
        self._tell_receipt(plan, receipt, verdict.target)
        return OK

    def _tell_receipt(self, plan: Plan, receipt: Mapping[str, Any], target: Target) -> None:
        checked = self._checked(target)
        with self._shown.paused():
            self._told.receipt(plan, receipt, checked)

    def _checked(self, target: Target) -> Verdict | None:
        """A quick look at what the repair has left."""
        from kdump.audit.run.prescan import quick_pass
        from kdump.cli.options.targets import find_scope

        now = find_scope([target.path], None, (), ())
        with closing(quick_pass(now.targets, now.context, jobs=1)) as looked:
            return next(looked, None)

    def _failed(self, error: Exception) -> int:
        from kdump.errors import Unfinished
        from kdump.format.lines.shell import shell_text

        with self._shown.paused():
            self._told.failed(error)
        if isinstance(error, Unfinished):
            self.resume = shell_text(error.resume)
        return code_of(error)


def partitions(scope: Scope) -> list[Target]:
    """The partitions that were named, listed. Raises UsageError for a file of one."""
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


def code_of(error: Exception) -> int:
    """The exit code of a repair, or an undo, that ended with ``error``."""
    from kdump.errors import Refused, Unfinished, UsageError

    if isinstance(error, Unfinished):
        if isinstance(error.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        return TERMINATED if isinstance(error.__cause__, SystemExit) else INCOMPLETE
    if isinstance(error, UsageError):
        return USAGE
    return REFUSED if isinstance(error, Refused) else INCOMPLETE


def is_signal(code: int) -> bool:
    """Whether a signal asked for an end: then nothing more is begun."""
    return code in (INTERRUPTED, TERMINATED)


def first_of(codes: Iterable[int]) -> int:
    """Which of several exit codes counts."""
    return min(codes, key=_PRECEDENCE.index)


def _read_code(verdict: Verdict) -> int:
    """INCOMPLETE if some of a partition could not be read."""
    from kdump.audit import codes

    unread = {codes.UNREADABLE, codes.DENIED, codes.VANISHED}
    return INCOMPLETE if any(one.code in unread for one in verdict.findings) else OK


def _above(target: Target) -> Path | None:
    return None if target.directory is None else target.directory.directory.path


def _consent(plan: Plan, choice: Choice) -> None:
    """Raise Refused unless somebody agreed to lose what just this plan loses."""
    from kdump.cli.views.repair.text import consent_text
    from kdump.errors import Refused

    if not plan.lossy or plan.id in choice.confirm:
        return
    if choice.confirm:
        given = ", ".join(choice.confirm)
        raise Refused(f"{plan.partition}: expected --confirm {plan.id}, found {given}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(
            f"{plan.partition}: the plan loses records: expected --confirm {plan.id}, or a "
            "terminal to ask on, found neither"
        )
    try:
        word = click.prompt(consent_text(plan), default="", show_default=False, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from abort
        word = ""
    if word.strip() != plan.id:
        raise Refused(f"{plan.partition}: declined, nothing was changed")


def given(options: Iterable[tuple[str, object]]) -> tuple[str, ...]:
    """The options that were given, as they are typed: a flag alone, others with their value."""
    told: list[str] = []
    for name, value in options:
        if value is True:
            told.append(name)
        elif value is not None and value is not False:
            told += [name, str(value)]
    return tuple(told)
