"""``kdump move``: partition directories moved between log directories of a node.

Spec: ``LogManager.loadLogs``, ``ReplicaManager.alterReplicaLogDirs``; KIP-113.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import SomePath
from kdump.ui.progress import progress_option
from kdump.ui.repairs.repairing import EXIT_CODES, assume_stopped_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.audit.commands import Remedy
    from kdump.commands.move.plan import MovePlan, PlannedMove
    from kdump.ui.exits import Ending
    from kdump.ui.progress import Mode, Progress


@click.command(
    cls=Command,
    short_help="Move partitions to another log directory of the node.",
    epilog=EXIT_CODES,
)
@click.argument("paths", nargs=-1, required=True, metavar="PARTITION...", type=SomePath())
@click.option(
    "--to",
    "target",
    required=True,
    metavar="LOGDIR",
    type=SomePath(),
    help="The log directory that gets the partitions.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Look also at the log directories that this server.properties names, and at its "
    "cordoned.log.dirs.",
)
@click.option(
    "--apply",
    "applying",
    is_flag=True,
    help="Carry out the plan, or finish an interrupted move; without it nothing is changed.",
)
@assume_stopped_option
@format_option("Print for people, or JSON Lines.")
@progress_option
def move(
    paths: tuple[Path, ...],
    target: Path,
    config: Path | None,
    applying: bool,
    assume_stopped: bool,
    form: Literal["text", "json"],
    progress: Mode,
) -> int:
    """Move partition directories to another log directory of the same stopped node.

    No record is lost: all files arrive as they are, with their times, and so do the lines of the
    checkpoint files. On one file system the directory is renamed. Else it is copied, and the copy
    is compared with it. The old directory then stays as a backup, under a name that brokers skip:
    kdump undo reverts the move as long as no broker has started, and with --discard it frees the
    space.

    A broker may start at any moment. It finds the partition in one of the log directories, or in
    both: then it does not start ("Duplicate log directories"), and the same command finishes an
    interrupted move. The last line on standard error is then that command.

    Both log directories have to stay in log.dirs for the next startup, at which a KRaft broker
    tells the controller where the partition is now. The metadata log does not move. While the
    broker is running, the plan is the file for kafka-reassign-partitions.sh.
    """
    from kdump.audit.facts.settings import read_config
    from kdump.commands.move.plan import plan_moves

    configs = None if config is None else read_config(config)
    plan = plan_moves(paths, target, configs, assume_stopped=assume_stopped)
    return _Run(plan, paths, form, assume_stopped=assume_stopped).finish(progress, applying)


class _Run:
    """A plan that is shown, or carried out."""

    def __init__(
        self,
        plan: MovePlan,
        paths: Sequence[Path],
        form: Literal["text", "json"],
        *,
        assume_stopped: bool,
    ) -> None:
        self._plan, self._paths, self._json = plan, paths, form == "json"
        self._assume_stopped = assume_stopped
        self._done = 0

    def finish(self, progress: Mode, applying: bool) -> int:
        """Return the exit code of the command."""
        from kdump.commands.move.report import emit_plan, emit_summary, print_next, print_plan
        from kdump.ui.exits import Ending
        from kdump.ui.progress import Progress

        plan = self._plan
        if self._json:
            emit_plan(click.echo, plan, self._paths)
        else:
            print_plan(click.echo, plan, None if applying else self._command())
        ending = Ending(problems=bool(plan.moves) and not applying)
        if applying and plan.moves:
            with Progress(progress) as meter:
                ending = self._carry_out(meter)
        if self._json:
            emit_summary(click.echo, plan, ending.exit_code, done=self._done)
        elif self._done and ending == Ending():
            places = (plan.target, *(planned.move.source for planned in plan.moves))
            print_next(click.echo, dict.fromkeys(places))
        return ending.exit_code

    def _command(self) -> Remedy:
        from kdump.format.lines.shell import operand

        assume = ("--assume-stopped",) if self._assume_stopped else ()
        to, paths = operand(self._plan.target), map(operand, self._paths)
        return ("kdump", "move", "--to", to, *paths, "--apply", *assume)

    def _carry_out(self, meter: Progress) -> Ending:
        from kdump.errors import KdumpError, Refused, Unfinished
        from kdump.format.lines.shell import shell_text
        from kdump.format.lines.text import printable
        from kdump.ui.exits import Ending

        meter.expect(sum(2 * each.move.bytes for each in self._plan.moves if each.move.copied))
        try:
            if self._plan.live is not None:
                raise Refused(
                    f"{self._plan.target}: expected a stopped broker, found a running broker: "
                    f"{self._plan.live}: stop it first"
                )
            for planned in self._plan.moves:
                self._move(planned, meter)
        except KdumpError as error:
            with meter.paused():
                click.echo(f"kdump: {printable(str(error))}", err=True)
                if isinstance(error, Unfinished):
                    click.echo(shell_text(error.resume), err=True)
            return Ending.of(error)
        return Ending()

    def _move(self, planned: PlannedMove, meter: Progress) -> None:
        from kdump.commands.move.report import emit_done, print_done
        from kdump.repair.relocation.carry import carry_out, resume

        if planned.begun is None:
            carry_out(planned.move, meter.advance, assume_stopped=self._assume_stopped)
        else:
            resume(planned.move, assume_stopped=self._assume_stopped)
        self._done += 1
        with meter.paused():
            (emit_done if self._json else print_done)(click.echo, planned.move)
