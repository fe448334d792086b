"""``kdump trim``: the oldest segments removed, while the broker is stopped.

Spec: ``UnifiedLog.deleteOldSegments``, ``DeleteRecords``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import TargetOptions, find_read_scope, repair_target_options
from kdump.ui.options.values import read_duration, read_size
from kdump.ui.repairs.repairing import EXIT_CODES, assume_stopped_option

if TYPE_CHECKING:
    from kdump.commands.trim.bound import Choose
    from kdump.commands.trim.plan import TrimPlan
    from kdump.storage.paths import AnyPath
    from kdump.ui.exits import Ending


_OFFSET: Final = re.compile(r"\d{1,19}", re.ASCII)
#: The time that ``--keep`` has by default, in seconds.
_KEEP_S: Final = 3600


@click.command(
    cls=Command,
    short_help="Remove the oldest segments, where the disk is full.",
    epilog=EXIT_CODES,
)
@click.option(
    "--before",
    metavar="OFFSET|TIME",
    help="Remove segments all of whose offsets are below OFFSET (of one partition), or all of "
    "whose records are older than TIME, such as 2026-11-21T10:00:00Z or 30d.",
)
@click.option(
    "--free",
    metavar="SIZE",
    callback=read_size,
    help="Remove segments with the oldest records of all partitions, which free this much, such as "
    "20GB.",
)
@click.option(
    "--keep",
    "keep_s",
    metavar="TIME",
    default="1h",
    show_default=True,
    callback=read_duration,
    help="With --free: keep records that are younger.",
)
@click.option(
    "--by-retention",
    is_flag=True,
    help="Remove what a broker would delete at its first check of retention.",
)
@click.option(
    "--leftovers",
    is_flag=True,
    help="Remove what no log needs: .deleted and .cleaned files, -delete directories, and -stray "
    "and -future directories that by the metadata log are of no use.",
)
@click.option(
    "--high-watermark",
    metavar="OFFSET",
    type=click.IntRange(0, 2**63 - 1),
    help="The high watermark of one partition whose checkpoint has none, such as that of another "
    "replica.",
)
@click.option(
    "--backup",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Save what goes in DIR first, on another file system, so that kdump undo brings it back.",
)
@click.option(
    "--apply",
    "applying",
    is_flag=True,
    help="Carry out the plan; without it nothing is changed.",
)
@click.option(
    "--confirm",
    metavar="ID",
    multiple=True,
    help="With --apply: agree to the plan with this id. Without it, the terminal asks for the id.",
)
@assume_stopped_option
@format_option("Print for people, or JSON Lines.")
@jobs_option()
@repair_target_options
def trim(
    targets: TargetOptions,
    before: str | None,
    free: int | None,
    keep_s: int,
    by_retention: bool,
    leftovers: bool,
    high_watermark: int | None,
    backup: Path | None,
    applying: bool,
    confirm: tuple[str, ...],
    assume_stopped: bool,
    form: Literal["text", "json"],
    jobs: int | None,
) -> int:
    """Remove the oldest segments of stopped partitions, so that a broker has room to start.

    PATH is a partition directory or a log directory. Whole segments go, with their indexes, from
    the oldest on. The active segment stays, and so does all from the high watermark on. Nothing is
    written there before room is free: it works where no byte and no inode is left. There is no
    backup, unless --backup names a directory of another file system. --apply needs the id of the
    plan.

    Partitions whose cleanup.policy does not delete, topics of Kafka itself and the metadata log
    stay as they are, and so does a partition whose policy is unknown, or whose high watermark is,
    if it has other replicas. A topic without a cleanup.policy of its own has that of the broker:
    give its server.properties with --config. With remote storage, only segments that are copied go.
    The plan names what stays, and why.

    With --leftovers no log loses a record. A startup would delete most of what goes then, once it
    has found room. .swap files stay, and so do -stray and -future directories that may be the only
    replica, backups of repairs, and files that kdump does not know.

    A partition may have other replicas. If this node leads after its start, the other replicas
    delete the same offsets. If another node leads, consumers can read them there.

    If the removal is interrupted, a broker can start all the same. The last line on standard error
    is then the command that plans the rest.
    """
    from kdump.audit.run.spread import Workers
    from kdump.audit.targets.target import without_nested
    from kdump.commands.trim.leftovers import plan_leftovers
    from kdump.commands.trim.plan import plan_trim
    from kdump.errors import UsageError
    from kdump.ui.repairs.repairing import partitions

    arguments = _arguments(before, free, keep_s, by_retention=by_retention, leftovers=leftovers)
    scope = find_read_scope(targets, stores=False)
    found = list(without_nested(partitions(scope)))
    now_ms = scope.context.now_ms
    offset = int(before) if before and _OFFSET.fullmatch(before) else None
    for option, value in (("--before", offset), ("--high-watermark", high_watermark)):
        if value is not None and len(found) != 1:
            raise UsageError(f"{option} {value}: expected one partition, found {len(found)}")
    if high_watermark is not None:
        if leftovers:
            raise UsageError("--leftovers: expected no --high-watermark beside it")
        arguments = (*arguments, "--high-watermark", str(high_watermark))
    if backup is not None:
        if leftovers:
            raise UsageError("--leftovers: expected no --backup beside it")
        backup = backup.absolute()
        arguments = (*arguments, "--backup", str(backup))
    spread = Workers(reading_jobs(jobs, found))
    if leftovers:
        plan = plan_leftovers(
            found,
            scope,
            spread,
            arguments=arguments,
            assume_stopped=assume_stopped,
            selected=bool(targets.topics or targets.excluded),
        )
    else:
        plan = plan_trim(
            found,
            scope.context,
            _choice(before, offset, free, now_ms - 1000 * keep_s, now_ms),
            spread,
            arguments=arguments,
            assume_stopped=assume_stopped,
            wanted_bytes=free,
            up_to=offset or 0,
            high_watermark=high_watermark,
            backup=backup,
        )
    run = _Run(plan, tuple(root.path for root in scope.roots), targets.words)
    return run.finish(form, confirm, applying=applying, assume_stopped=assume_stopped)


def _arguments(
    before: str | None, free: int | None, keep_s: int, *, by_retention: bool, leftovers: bool
) -> tuple[str, ...]:
    """Return the options that decide what goes. Raise UsageError unless it is one."""
    from kdump.errors import UsageError

    given: list[tuple[str, ...]] = []
    if before is not None:
        given.append(("--before", before))
    if free is not None:
        keep = () if keep_s == _KEEP_S else ("--keep", f"{keep_s}s")
        given.append(("--free", str(free), *keep))
    if by_retention:
        given.append(("--by-retention",))
    if leftovers:
        given.append(("--leftovers",))
    if len(given) != 1:
        words = " and ".join(words[0] for words in given) or "none"
        raise UsageError(
            f"expected one of --before, --free, --by-retention and --leftovers, found {words}"
        )
    return given[0]


def _choice(
    before: str | None, offset: int | None, free: int | None, keep_ms: int, now_ms: int
) -> Choose:
    """Return the choice of the options; ``keep_ms`` is the time from which records are kept."""
    from kdump.commands.trim.bound import before_offset, before_time, by_retention, freeing

    if free is not None:
        return freeing(free, keep_ms)
    if before is None:
        return by_retention()
    return before_time(_time_ms(before, now_ms)) if offset is None else before_offset(offset)


def _time_ms(text: str, now_ms: int) -> int:
    """Return a time, or the age of a record at the present time, in ms since 1970."""
    from kdump.ui.options.selection import milliseconds
    from kdump.ui.units import parse_duration

    try:
        return now_ms - 1000 * parse_duration(text)
    except ValueError:
        return milliseconds(text, "--before")


class _Run:
    """A plan that is shown, or carried out; ``words`` select partitions of ``paths``."""

    def __init__(self, plan: TrimPlan, paths: tuple[AnyPath, ...], words: tuple[str, ...]) -> None:
        self._plan, self._paths, self._words = plan, paths, words
        self._gone_bytes = 0
        self._uncut: list[Path] | None = None

    def finish(
        self,
        form: Literal["text", "json"],
        confirm: tuple[str, ...],
        *,
        applying: bool,
        assume_stopped: bool,
    ) -> int:
        """Return the exit code of the command."""
        from kdump.commands.trim.report import emit_plan, emit_summary, print_done, print_plan
        from kdump.ui.exits import Ending

        plan = self._plan
        apply = (*self._command(), "--apply", "--confirm", plan.id)
        if assume_stopped:
            apply = (*apply, "--assume-stopped")
        if form == "json":
            emit_plan(click.echo, plan, self._paths)
        else:
            print_plan(click.echo, plan, None if applying else apply)
        ending = Ending(unread=bool(plan.errors), problems=bool(plan.places) and not applying)
        if applying and plan.places:
            ending |= self._carry_out(confirm, assume_stopped=assume_stopped)
        done, code = self._uncut is not None, ending.exit_code
        if form == "json":
            emit_summary(click.echo, plan, code, done=done, gone_bytes=self._gone_bytes)
        elif self._uncut is not None:
            print_done(click.echo, plan, self._uncut)
        return code

    def _carry_out(self, confirm: tuple[str, ...], *, assume_stopped: bool) -> Ending:
        from kdump.commands.trim.apply import carry_out
        from kdump.errors import Refused, Unfinished
        from kdump.format.lines.shell import shell_text
        from kdump.format.lines.text import printable
        from kdump.ui.exits import Ending
        from kdump.ui.repairs.repairing import consent
        from kdump.ui.units import size_text

        plan = self._plan
        what = f"This loses {plan.offsets:,} offsets for good"
        if plan.leftovers:
            what = f"This removes {size_text(plan.bytes)} for good"
        elif plan.backup is not None:
            what = f"This removes {plan.offsets:,} offsets"
        question = f"{what}. Type {plan.id} to continue"
        try:
            consent(str(self._paths[0]), plan.id, question, confirm)
            self._uncut = carry_out(
                plan,
                self._count,
                self._command,
                assume_stopped=assume_stopped,
                backup=plan.backup,
            )
        except (Refused, Unfinished) as error:
            text = str(error)
            if isinstance(error, Unfinished):
                text += f"; {size_text(self._gone_bytes)} of {size_text(plan.bytes)} are free now"
            click.echo(f"kdump: {printable(text)}", err=True)
            if isinstance(error, Unfinished):
                click.echo(shell_text(error.resume), err=True)
            return Ending.of(error)
        return Ending()

    def _count(self, gone_bytes: int) -> None:
        self._gone_bytes += gone_bytes

    def _command(self) -> tuple[str, ...]:
        """Return the command that plans what is left."""
        from kdump.format.lines.shell import operand

        arguments, wanted = self._plan.arguments, self._plan.wanted_bytes
        paths = map(operand, self._paths)
        if wanted is not None and self._gone_bytes >= wanted:
            return ("kdump", "next-start", *paths)
        if wanted is not None:
            arguments = ("--free", str(wanted - self._gone_bytes), *arguments[2:])
        return ("kdump", "trim", *arguments, *self._words, *paths)
