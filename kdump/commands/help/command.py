"""``kdump help``: the manual, as it was installed."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import click

from kdump.ui.command import Command, paragraphs

if TYPE_CHECKING:
    from importlib import metadata

_COMMENT: Final = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE | re.DOTALL)
#: The first line of a guide: ``# kdump-NAME(SECTION): ABOUT``.
_TITLE: Final = re.compile(r"# kdump-\S+\([57]\): (.*)")


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    names = [*_group(context).list_commands(context), *_guides()]
    return [name for name in names if name.startswith(incomplete)]


@click.command(
    "help",
    cls=Command,
    short_help="List guides and exit codes; help verify shows a page.",
    epilog="Exit codes: 0 shown; 2 no page of that name; 141 the reader of the output went away.",
)
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=_complete)
@click.pass_context
def help_page(context: click.Context, topic: str | None) -> int:
    """Show the manual page of a command, or a guide.

    TOPIC is the name of a command or a guide, such as verify or incident. Without it, kdump lists
    both, and the exit codes. On a terminal, man shows the page if it is installed. Otherwise kdump
    prints the page as text. A TOPIC such as verify.json is the JSON Schema of what a command prints
    with --format json: see kdump-json(7).
    """
    if topic is None:
        click.echo(_contents(context))
        return 0
    name = topic.removeprefix("kdump-")
    page, text = _page(context, name)
    if not sys.stdout.isatty() or name.endswith(".json"):
        click.echo(text)
    elif page is None or not _shown_by_man(page):
        click.echo_via_pager("\n".join(_narrowed(text, shutil.get_terminal_size().columns)))
    return 0


def _group(context: click.Context) -> click.Group:
    """Return ``kdump``, the group of all commands."""
    group = context.find_root().command
    assert isinstance(group, click.Group)
    return group


def _contents(context: click.Context) -> str:
    """Return the first screen of ``kdump``, with the guides, and all about the whole."""
    root = context.find_root()
    formatter = root.make_formatter()
    guides = _guides()
    if guides:
        with formatter.section("Guides"):
            formatter.write_dl([(name, _about(guide)) for name, guide in guides.items()])
    group = _group(context)
    for paragraph in (*paragraphs(group.help)[1:], *paragraphs(group.epilog)):
        formatter.write_paragraph()
        formatter.write_text(paragraph)
    return f"{root.get_help()}\n\n{formatter.getvalue()}".rstrip()


def _page(context: click.Context, name: str) -> tuple[str | None, str]:
    """Return a page for man, None if it is not installed, and its text. Raise UsageError."""
    group, guides = _group(context), _guides()
    if name in guides:
        return _installed(f"kdump-{name}.[57]"), _text(guides[name])
    schemas = {file.name: file for file in _files() if file.parent.name == "schemas"}
    if name in schemas:
        return None, schemas[name].read_text().rstrip()
    root = context.find_root()
    if name == "kdump":
        return _installed("kdump.1"), _contents(context)
    command = group.get_command(context, name)
    if not isinstance(command, Command):
        names = ", ".join((*group.list_commands(context), *guides))
        raise click.UsageError(
            f"No page called {name}. There are {names}. kdump explain CODE explains a finding."
        )
    own = click.Context(command, info_name=command.name, parent=root)
    return _installed(f"kdump-{command.name}.1"), command.manual(own)


def _guides() -> dict[str, metadata.PackagePath]:
    """Return the file of each installed guide by its name without ``kdump-``."""
    files = sorted(file for file in _files() if file.match("share/doc/kafka-kdump/kdump-*.md"))
    return {file.stem.removeprefix("kdump-"): file for file in files}


def _text(guide: metadata.PackagePath) -> str:
    return _COMMENT.sub("", guide.read_text()).rstrip()


def _narrowed(text: str, width: int) -> Iterator[str]:
    """Yield lines that fit the terminal, but for those of commands, which are to be copied."""
    example = False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        example ^= fence
        if example or fence or len(line) <= width:
            yield line
        else:
            indent = " " * (len(line) - len(line.lstrip()))
            yield from wrap(
                line,
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )


def _about(guide: metadata.PackagePath) -> str:
    title = _TITLE.match(_text(guide))
    return "" if title is None else title[1]


def _installed(name: str) -> str | None:
    """Return the installed page of the manual whose name matches, None without it."""
    return next((file.read_text() for file in _files() if file.match(f"man?/{name}")), None)


def _files() -> list[metadata.PackagePath]:
    """Return the files of the installation that are there."""
    from importlib import metadata  # sixty modules, which kdump --help does without

    try:
        files = metadata.files("kafka-kdump") or []
    except metadata.PackageNotFoundError:  # a bare source tree
        return []
    manual = (file for file in files if "share" in file.parts)
    return [file for file in manual if file.locate().is_file()]  # type: ignore[attr-defined]


def _shown_by_man(page: str) -> bool:
    """Return whether man has shown ``page``; some releases do not take a page from their input."""
    import subprocess

    man = shutil.which("man")
    if man is None:
        return False
    shown = subprocess.run([man, "-l", "-"], input=page.encode(), stderr=subprocess.DEVNULL)
    return shown.returncode == 0
