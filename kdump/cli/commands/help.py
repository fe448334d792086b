"""``kdump help``: the manual, as it was installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from textwrap import wrap

import click


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from kdump.cli.ui.manual import guides

    names = [*_group(context).list_commands(context), *guides()]
    return [name for name in names if name.startswith(incomplete)]


@click.command(
    "help",
    short_help="Show the manual page of a command, or a guide.",
    epilog="Exit codes: 0 shown; 2 no page of that name; 141 the reader of the output went away.",
)
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=_complete)
@click.pass_context
def help_page(context: click.Context, topic: str | None) -> int:
    """Show the manual page of a command, or a guide.

    TOPIC is the name of a command or a guide, such as verify or incident. Without it, kdump lists
    both. On a terminal, man shows the page if it is installed. Otherwise kdump prints the help of
    the command or the guide as text.
    """
    from kdump.cli.ui.manual import show_by_man

    if topic is None:
        click.echo(_contents(context))
        return 0
    name = topic.removeprefix("kdump-")
    page, text = _page(context, name)
    if not sys.stdout.isatty():
        click.echo(text)
    elif page is None or not show_by_man(page):
        click.echo_via_pager("\n".join(_narrowed(text, shutil.get_terminal_size().columns)))
    return 0


def _group(context: click.Context) -> click.Group:
    """Return ``kdump``, the group of all commands."""
    group = context.find_root().command
    assert isinstance(group, click.Group)
    return group


def _contents(context: click.Context) -> str:
    """Return the help of ``kdump``, with the guides."""
    from kdump.cli.ui.manual import about, guides

    root = context.find_root()
    formatter = root.make_formatter()
    installed = guides()
    if installed:
        with formatter.section("Guides"):
            formatter.write_dl([(name, about(guide)) for name, guide in installed.items()])
    return f"{root.get_help()}\n\n{formatter.getvalue()}".rstrip()


def _page(context: click.Context, name: str) -> tuple[str | None, str]:
    """Return a page for man, None if it is not installed, and its text. Raise UsageError."""
    from kdump.cli.ui.manual import guides, page_called, text_of

    group, installed = _group(context), guides()
    if name in installed:
        return page_called(f"kdump-{name}.7"), text_of(installed[name])
    command = group if name == "kdump" else group.get_command(context, name)
    if command is None:
        names = ", ".join((*group.list_commands(context), *installed))
        raise click.UsageError(
            f"No page called {name}. There are {names}. kdump explain CODE explains a finding."
        )
    root = context.find_root()
    if command is group:
        return page_called("kdump.1"), root.get_help()
    own = click.Context(command, info_name=command.name, parent=root)
    return page_called(f"kdump-{command.name}.1"), own.get_help()


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
