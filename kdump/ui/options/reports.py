"""The options of reports: their form, and those of reports with findings."""

from __future__ import annotations

import click

from kdump.ui.options.group import Decorator


def format_option(help_text: str, *more: str) -> Decorator:
    """Return a decorator that adds ``--format`` as ``form``: text, json, or one of ``more``."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json", *more]),
        default="text",
        show_default=True,
        help=help_text,
    )


wide_option = click.option(
    "--wide",
    is_flag=True,
    help="In text: tables of more than 80 columns as tables, not as records.",
)

fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Exit with 4 if a finding has at least this severity.",
)

info_option = click.option(
    "--info",
    is_flag=True,
    help="List notes in text too: oddities of normal operation. JSON always has them.",
)

quiet_option = click.option(
    "--quiet", "-q", is_flag=True, help="Print nothing if the exit code is 0."
)
