"""Writes the manual pages from the commands' own help: ``python man/generate.py [DIRECTORY]``.

Spec: man(7), for groff and mandoc. The text is that of ``--help``; the finding codes are those of
``kdump.audit.codes``. It must never say anything of a command that its help does not say.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import click

from kdump.audit.codes import CODES
from kdump.cli.main import cli
from kdump.cli.views.dump.differences import DIFFERENCES

HERE = Path(__file__).parent
VERSION = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]

_EXIT_CODES = "Exit codes: "
_EXIT_CODE = re.compile(r"(\d+(?:, \d+)*) (.*)")


def pages() -> dict[str, str]:
    """The text of each page by file name: kdump(1), and one for each command."""
    top = click.Context(cli, info_name="kdump", **cli.context_settings)
    subs = {name: cli.get_command(top, name) for name in cli.list_commands(top)}
    commands = {name: command for name, command in subs.items() if command is not None}
    titles = ["kdump", *(f"kdump-{name}" for name in commands)]
    texts = {"kdump": _page("kdump", top, titles, _commands(commands))}
    for name, command in commands.items():
        context = click.Context(command, info_name=name, parent=top)
        more = _MORE.get(name, lambda: iter(()))()
        texts[f"kdump-{name}"] = _page(f"kdump-{name}", context, titles, more)
    return {f"{title}.1": text for title, text in texts.items()}


def _page(title: str, context: click.Context, titles: list[str], more: Iterator[str]) -> str:
    command = context.command
    first, *paragraphs = _paragraphs(command.help or "")
    lines = [
        '.\\" Written by man/generate.py from the help of the commands.',
        f'.TH {_text(title.upper())} 1 "" "kdump {VERSION}" "kdump manual"',
        ".nh",  # no word broken in two: commands are copied from here
        ".ad l",
        ".SH NAME",
        f"{_text(title)} \\- {_text(_name_line(first))}",
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_prose(first),
        *_further(paragraphs),
        *_parameters(context),
        *more,
        *_epilog(command.epilog or ""),
        ".SH SEE ALSO",
        ",\n".join(f".BR {_text(other)} (1)" for other in titles if other != title),
    ]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[str]:
    return inspect.cleandoc(text).split("\f")[0].strip().split("\n\n")


def _name_line(paragraph: str) -> str:
    sentence = " ".join(paragraph.split()).split(". ")[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def _further(paragraphs: list[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield ".PP"
        yield from _prose(paragraph)


def _prose(paragraph: str) -> Iterator[str]:
    if paragraph.startswith("\b\n"):  # Click's mark for lines to be left as they are
        yield ".nf"
        yield from map(_text, paragraph.splitlines()[1:])
        yield ".fi"
    else:
        yield from _wrapped(paragraph)


def _parameters(context: click.Context) -> Iterator[str]:
    records = [
        parameter.get_help_record(context) for parameter in context.command.get_params(context)
    ]
    yield ".SH OPTIONS"
    for names, help_text in filter(None, records):
        if help_text:  # an argument without is in the synopsis
            yield from _item(names, help_text)


def _commands(commands: dict[str, click.Command]) -> Iterator[str]:
    yield ".SH COMMANDS"
    for name, command in commands.items():
        yield from _item(name, command.get_short_help_str(limit=200))


def _finding_codes() -> Iterator[str]:
    yield ".SH FINDING CODES"
    for code in CODES.values():
        yield from _item(f"{code.name} ({code.severity.value})", code.meaning)
        messages = (message.replace("{}", "…") for message in code.messages)
        rows = [("Broker", code.broker), ("Do", code.advice), *(("Logs", row) for row in messages)]
        for label, text in rows:
            yield ".br"
            yield from _wrapped(f"{label}: {text}")


def _differences() -> Iterator[str]:
    yield ".SH DIFFERENCES FROM KAFKA'S TOOL"
    for name, text in DIFFERENCES.items():
        yield from _item(name, text)


#: What the pages of some commands have beside their help's options.
_MORE = {"dump": _differences, "explain": _finding_codes}


def _epilog(epilog: str) -> Iterator[str]:
    for paragraph in _paragraphs(epilog):
        if paragraph.startswith(_EXIT_CODES):
            yield ".SH EXIT STATUS"
            yield from _exit_codes(" ".join(paragraph.split()))
        else:
            yield from _further([paragraph])


def _exit_codes(sentence: str) -> Iterator[str]:
    for item in sentence.removeprefix(_EXIT_CODES).removesuffix(".").split("; "):
        match = _EXIT_CODE.fullmatch(item)
        if match is None:
            raise ValueError(f"expected 'CODE[, CODE] MEANING' in an epilog, found {item!r}")
        yield from _item(match[1], match[2])


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_text(term)}"
    yield from _wrapped(text)


def _wrapped(text: str) -> Iterator[str]:
    """``text`` in lines that leave room for their escapes; roff joins them again."""
    yield from map(_text, wrap(text, 72, break_long_words=False, break_on_hyphens=False))


def _text(text: str) -> str:
    """``text`` as roff takes it: nothing in it is a request or an escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    escaped = re.sub(r"[^\x20-\x7e]", lambda found: f"\\[u{ord(found[0]):04X}]", escaped)
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def main(directory: Path) -> None:
    """Write the pages to ``directory``."""
    for name, text in pages().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
