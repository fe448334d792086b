"""``kdump explain``: finding codes and lines of a server.log.

Spec: the tables in ``kdump.audit.codes`` and ``kdump.commands.explain.broker_log``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from kdump.ui.command import Command
from kdump.ui.options.reports import format_option
from kdump.ui.progress import Mode, Progress, progress_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from kdump.audit.finding_code import FindingCode

_LABEL: Final = 9
_PROGRESS_BYTES: Final = 1 << 20
#: A word that has the form of a finding code.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")


class _Explain(Command):
    """A command whose help lists the finding codes; their table is imported only for that."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kdump.audit.codes import CODES

        with formatter.section("Codes"):
            formatter.write(_wrap(", ".join(CODES), "  ", "  ") + "\n")
        super().format_epilog(ctx, formatter)


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from kdump.audit.codes import CODES

    return [name for name in CODES if name.startswith(incomplete)]


@click.command(
    cls=_Explain,
    short_help="Explain an exception, a line of a log, or a finding.",
    epilog="Exit codes: 0 explained; 2 no code of that name, or nothing to explain; 5 kdump "
    "cannot explain a line that may concern disks, or any line.",
)
@click.option("--list", "listing", is_flag=True, help="List all codes with their severity.")
@format_option("Text for people, or JSON Lines for scripts.")
@progress_option
@click.argument(
    "words", nargs=-1, metavar="[CODE]... | [LINE] | [FILE] | [-]", shell_complete=_complete
)
def explain(words: tuple[str, ...], listing: bool, form: str, progress: Mode) -> int:
    """Explain finding codes or the lines of a broker's log, and what to do about them.

    Instead of codes, give a quoted line from the log of a broker or client. Or give a whole log,
    with its stack traces, as a file or on standard input (kdump explain < server.log).

    Of a log, kdump reads the lines at WARN and above, and some lines about recovery. It groups
    lines that report the same problem at the same place, and explains what has happened. It
    extracts path, partition and offset. It separates corruption from its consequences, and from
    problems that do not concern disks.
    """
    from kdump.audit.codes import CODES

    if listing and words:
        raise click.UsageError("Give codes, a log or --list, and only one of these.")
    if listing:
        if form == "json":
            return _print_codes(list(CODES.values()), form)
        width = max(map(len, CODES))
        for code in CODES.values():
            click.echo(f"{code.name:{width}}  {code.severity.value}")
        return 0
    if words and all(word in CODES for word in words):
        return _print_codes([CODES[word] for word in dict.fromkeys(words)], form)
    return _explain_log(words, form, progress)


def _explain_log(words: tuple[str, ...], form: str, progress: Mode) -> int:
    """Explain standard input, the file that ``words`` names, or ``words`` as a line of a log."""
    import sys
    from pathlib import Path

    if words in ((), ("-",)):
        if not words and sys.stdin.isatty():
            raise click.UsageError("Give codes, a log or --list, and only one of these.")
        # Between the lines that someone types nothing is shown.
        typed = sys.stdin.isatty()
        return _print_report(sys.stdin.buffer, form, None, "none" if typed else progress)
    path = Path(words[0]) if len(words) == 1 else None
    if path is not None and _is_readable(path):
        with path.open("rb") as stream:
            return _print_report(stream, form, path, progress)
    if len(words) == 1 and _NAME.fullmatch(words[0]):
        raise _unknown_code(words[0])
    from io import BytesIO

    return _print_report(BytesIO(" ".join(words).encode(errors="replace")), form, None, "none")


def _is_readable(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a line of a log may not be a valid path
        return False


def _unknown_code(name: str) -> click.UsageError:
    from difflib import get_close_matches

    from kdump.audit.codes import CODES

    close = get_close_matches(name.lower(), CODES, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else "See kdump explain --list."
    return click.UsageError(
        f"Expected a finding code, a line of a log or a file, found {name}. {hint}"
    )


def _print_report(stream: BinaryIO, form: str, source: Path | None, progress: Mode) -> int:
    from kdump.commands.explain.broker_log.entries import read_entries
    from kdump.commands.explain.broker_log.report import group_entries
    from kdump.commands.explain.text import exit_code, json_lines, text_lines

    with Progress(progress) as meter:
        report = group_entries(read_entries(_lines(stream, meter)))
    for row in json_lines(report, source) if form == "json" else text_lines(report):
        click.echo(row)
    return exit_code(report)


def _lines(stream: BinaryIO, meter: Progress) -> Iterator[bytes]:
    """Yield the lines of ``stream``, the longest in parts; ``meter`` counts their bytes."""
    from kdump.commands.explain.broker_log.entries import LINE_BYTES

    meter.expect(_left_bytes(stream), kernel=False)
    read = 0
    while raw := stream.readline(LINE_BYTES):
        yield raw
        read += len(raw)
        if read >= _PROGRESS_BYTES:
            meter.advance(read)
            read = 0
    meter.advance(read)


def _left_bytes(stream: BinaryIO) -> int | None:
    """Return the size of what is left to read; None if it is not known, as of a pipe."""
    import os
    import stat

    try:
        status = os.fstat(stream.fileno())
        return status.st_size - stream.tell() if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None


def _print_codes(codes: list[FindingCode], form: str) -> int:
    if form == "text":
        click.echo("\n\n".join(_code_text(code) for code in codes))
        return 0
    from kdump.commands.explain.broker_log.table import messages_of
    from kdump.ui.jsonl import header, line

    click.echo(line("header", header("explain", [])))
    for code in codes:
        fields: dict[str, object] = {
            "name": code.name,
            "severity": code.severity.value,
            "meaning": code.meaning,
            "broker": code.broker,
            "advice": code.advice,
            "messages": list(messages_of(code)),
        }
        click.echo(line("code", fields))
    click.echo(line("summary", {"exit": 0, "codes": len(codes)}))
    return 0


def _code_text(code: FindingCode) -> str:
    from kdump.commands.explain.broker_log.table import messages_of

    rows = [("meaning", code.meaning), ("broker", code.broker), ("do", code.advice)]
    rows += [("logs", message.replace("{}", "…")) for message in messages_of(code)]
    lines = [f"{code.name}: {code.severity.value}"]
    for label, text in rows:
        lines.append(_wrap(text, f"  {label:{_LABEL}}", " " * (_LABEL + 2)))
    return "\n".join(lines)


def _wrap(text: str, first_indent: str, indent: str) -> str:
    from textwrap import fill

    # Names and messages are not broken at hyphens, so that a search finds them.
    return fill(
        text, 80, initial_indent=first_indent, subsequent_indent=indent, break_on_hyphens=False
    )
