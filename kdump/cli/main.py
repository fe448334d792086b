"""The ``kdump`` command: finds the sub-command, runs it, maps exceptions to exit codes.

Commands are imported only when asked for, so that ``kdump --help`` is quick.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from types import FrameType
from typing import Any, Final, NoReturn

import click

from kdump.errors import KdumpError
from kdump.program import program
from kdump.ui.command import paragraphs
from kdump.ui.exits import (
    BUG,
    CLOSED_PIPE,
    INTERRUPTED,
    OK,
    TERMINATED,
    USAGE,
    Ending,
)

#: The groups of ``--help``, with what their commands do to a disk. Where each command is, stands
#: behind its name as ``module:attribute``.
_GROUPS: Final = {
    "Check: only reads; the broker may be running": {
        "verify": "kdump.commands.verify.command:verify",
        "next-start": "kdump.commands.next_start.command:next_start",
        "scrub": "kdump.commands.scrub.command:scrub",
        "explain": "kdump.commands.explain.command:explain",
        "dump": "kdump.commands.dump.command:dump",
        "space": "kdump.commands.space.command:space",
    },
    "Repair: prints a plan; only --apply changes logs, once the broker is stopped": {
        "repair": "kdump.commands.repair.command:repair",
        "reindex": "kdump.commands.reindex.command:reindex",
        "truncate-to-valid": "kdump.commands.truncate.command:truncate_to_valid",
        "heal": "kdump.commands.heal.command:heal",
        "salvage": "kdump.commands.salvage.command:salvage",
        "trim": "kdump.commands.trim.command:trim",
        "move": "kdump.commands.move.command:move",
        "undo": "kdump.commands.undo.command:undo",
        "convert-v0-v2": "kdump.commands.convert.command:convert_v0_v2",
    },
    "Cluster, replicas, records: only reads logs; the brokers may be running": {
        "groups": "kdump.commands.groups.command:groups",
        "transactions": "kdump.commands.transactions.command:transactions",
        "metadata": "kdump.commands.metadata.command:metadata",
        "quorum": "kdump.commands.quorum.command:quorum",
        "compare": "kdump.commands.compare.command:compare",
        "manifest": "kdump.commands.manifest.command:manifest",
        "export": "kdump.commands.export.command:export",
        "check": "kdump.commands.check.command:check",
    },
}
#: It is not listed with the others: the last line of ``--help`` says what it is for.
_HELP: Final[dict[str, str]] = {
    "help": "kdump.commands.help.command:help_page",
}
_COMMANDS: Final = _HELP | {
    name: place for group in _GROUPS.values() for name, place in group.items()
}
#: What people want to know first, and what tells them.
_QUESTIONS: Final = {
    "Is my data corrupt? Is anything lost?": "kdump verify DIRECTORY",
    "After a crash: will the broker start?": "kdump next-start --scan DIRECTORY",
    "The disk is full: what holds space?": "kdump space DIRECTORY",
}
#: Other names of commands, which are not listed.
_ALIASES: Final = {"convert": "convert-v0-v2"}
_VERSION: Final = "version"
#: Errors of a system that has run out of a resource. Any other OSError that arrives here is a bug,
#: because those about the files that are read have become findings or SourceErrors.
_EXHAUSTED: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
    }
)


class _ClosedPipe(Exception):
    """The reader of standard output went away; Click would end the process on BrokenPipeError."""


@contextmanager
def _converting_broken_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ClosedPipe from error


class _Commands(click.Group):
    """A group that imports a command when it is invoked."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with _converting_broken_pipes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _converting_broken_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_help(self, ctx: click.Context) -> str:
        """Return what ``--help`` prints: one screen of a terminal."""
        formatter = ctx.make_formatter()
        formatter.write_usage(program(), "[-h] [-V] COMMAND [OPTIONS] [PATH...]")
        formatter.write_text(paragraphs(self.help)[0])
        formatter.write_paragraph()
        with formatter.indentation():
            asked = [each for each in _QUESTIONS.items() if each[1].split()[1] in _COMMANDS]
            formatter.write_dl(asked, col_max=40)
        formatter.write_paragraph()
        width = max(map(len, _COMMANDS))
        for title, group in _GROUPS.items():
            formatter.write_text(title)
            with formatter.indentation():
                for name in group:
                    command = self.get_command(ctx, name)
                    if command is not None:
                        about = command.get_short_help_str(80)
                        formatter.write_dl([(name.ljust(width), about)])
        if _HELP:
            about = "kdump help lists guides and exit codes; kdump help verify shows a page."
            formatter.write_text(about)
        return formatter.getvalue().rstrip("\n")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word == _VERSION:
            _print_version(ctx)
        known = word in _COMMANDS or word in _ALIASES or word.startswith("-")
        if not known and not ctx.resilient_parsing:
            from kdump.cli.synonyms import unknown_command_text

            ctx.fail(unknown_command_text(word, _COMMANDS))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


def _print_version(context: click.Context) -> None:
    """Print the version, and end the command."""
    from kdump.ui.kernel import kernel_name
    from kdump.ui.version import FORECAST, READ, version

    click.echo(f"kdump {version()} (kernel {kernel_name()})")
    click.echo(f"reads files of Kafka {READ}, forecasts startups of {FORECAST}")
    context.exit()


def _version_option(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        _print_version(context)


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 clean, or done; 1 a bug in kdump; 2 wrong usage; 4 problems found, or a "
    "repair planned but not applied; 5 not everything could be read, or a repair was "
    "interrupted; 6 refused, nothing changed; 130, 143 ended by a signal; 141 the reader of the "
    "output went away.",
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version_option,
    help="Print the version, and whether the inner loops of kdump run compiled.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Fsck for Kafka log directories: finds corrupt and lost records, and repairs.

    Reading is safe at any time, also while a broker is running. The commands that repair show a
    plan, and change nothing without --apply. They need Linux and a stopped broker, and undo reverts
    them. salvage writes a new directory at once, and changes nothing in place.

    With eval "$(_KDUMP_COMPLETE=bash_source kdump)" in .bashrc, bash completes commands, options,
    paths and codes; zsh_source and fish_source do it for zsh and fish.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``argv`` (default: the process's own) and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # A locale may lack characters of a file name.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _flush(_run(argv))
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_: int, __: FrameType | None) -> NoReturn:
    # An exception, so that workers are ended and reaped on the way out.
    raise SystemExit(TERMINATED)


def _run(argv: Sequence[str] | None) -> int:
    try:
        code = cli.main(args=argv, prog_name=program(), standalone_mode=False)
        return OK if code is None else int(code)
    except click.Abort as abort:
        declined = not isinstance(abort.__cause__, KeyboardInterrupt)
        return Ending(refused=True).exit_code if declined else INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except click.ClickException as error:
        _print_usage_error(error)
        return USAGE
    except KdumpError as error:
        _print_error(str(error))
        return Ending.of(error).exit_code
    except _ClosedPipe:
        return CLOSED_PIPE
    except SystemExit as ended:
        return int(ended.code or OK)
    except OSError as error:
        if error.errno not in _EXHAUSTED:
            return _report_bug()
        _print_error(f"cannot continue: {error}")
        return Ending(unread=True).exit_code
    except Exception as error:  # noqa: BLE001  the last resort: any exception here is a bug
        # Before Python 3.12 an interrupt amid the definition of a class becomes a RuntimeError.
        interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        return INTERRUPTED if interrupted else _report_bug()


def _flush(code: int) -> int:
    """Flush standard output; return ``code``, or the exit code of an error in the flush."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # Otherwise the interpreter flushes the rest at exit, and prints a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return CLOSED_PIPE
        _print_error(f"standard output cannot be written: {error.strerror}")
        return Ending(unread=True).exit_code
    return code


def _report_bug() -> int:
    traceback.print_exc()
    _print_error("this is a bug in kdump: please report it with the lines above")
    return BUG


def _print_usage_error(error: click.ClickException) -> None:
    from kdump.format.lines.text import printable

    # Older releases of Click repeat an unknown option as it was typed.
    buffer = StringIO()
    error.show(buffer)
    click.echo("\n".join(map(printable, buffer.getvalue().split("\n"))), nl=False, err=True)


def _print_error(message: str) -> None:
    from kdump.format.lines.text import printable

    click.echo(f"kdump: {printable(message)}", err=True)
