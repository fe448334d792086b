"""``kdump explain``: what a finding code or a line of a broker's log means.

Spec: the table in ``kdump.audit.codes``. It must never read anything but its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from kdump.audit.codes import FindingCode

_LABEL: Final = 9


class _Explain(click.Command):
    """A command whose help lists the finding codes, which are looked up only then."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kdump.audit.codes import CODES

        with formatter.section("Codes"):
            formatter.write(_wrapped(", ".join(CODES), "  ", "  ") + "\n")
        super().format_epilog(ctx, formatter)


def _complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from kdump.audit.codes import CODES

    return [name for name in CODES if name.startswith(begun)]


@click.command(
    cls=_Explain,
    short_help="Explain finding codes, or a line of a log.",
    epilog="Exit codes: 0 explained; 2 neither a code nor a known line of a log.",
)
@click.option("--list", "listing", is_flag=True, help="List all codes with their severity.")
@click.argument("words", nargs=-1, metavar="[CODE]... | [LINE]", shell_complete=_complete)
def explain(words: tuple[str, ...], listing: bool) -> int:
    """Say what finding codes mean: the severity, what a broker does, and what to do.

    Instead of codes it takes a line from a broker's or client's log, quoted, and explains the codes
    that lead to it.
    """
    from kdump.audit.codes import CODES

    if listing == bool(words):
        raise click.UsageError("Give either codes, or one line of a log, or --list.")
    if listing:
        width = max(map(len, CODES))
        for code in CODES.values():
            click.echo(f"{code.name:{width}}  {code.severity.value}")
        return 0
    found = _found(words)
    click.echo("\n\n".join(_explained(code) for code in found))
    return 0


def _found(words: tuple[str, ...]) -> list[FindingCode]:
    """The codes that ``words`` name, or whose line of a log they are."""
    from difflib import get_close_matches

    from kdump.audit.codes import CODES
    from kdump.format.text import printable

    if all(word in CODES for word in words):
        return [CODES[word] for word in dict.fromkeys(words)]
    line = " ".join(words)
    logged = [code for code in CODES.values() if code.logged_as(line)]
    if logged:
        return logged
    unknown = next(word for word in words if word not in CODES)
    close = get_close_matches(unknown.lower(), CODES, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else "See kdump explain --list."
    raise click.UsageError(
        f"Expected finding codes or a line of a broker's log, found {printable(line)!r}. {hint}"
    )


def _explained(code: FindingCode) -> str:
    rows = [("meaning", code.meaning), ("broker", code.broker), ("do", code.advice)]
    rows += [("logs", message.replace("{}", "…")) for message in code.messages]
    lines = [f"{code.name}: {code.severity.value}"]
    for label, text in rows:
        lines.append(_wrapped(text, f"  {label:{_LABEL}}", " " * (_LABEL + 2)))
    return "\n".join(lines)


def _wrapped(text: str, first_indent: str, indent: str) -> str:
    from textwrap import fill

    # Names and messages that are to be looked for must not be torn at their hyphens.
    return fill(
        text, 80, initial_indent=first_indent, subsequent_indent=indent, break_on_hyphens=False
    )
