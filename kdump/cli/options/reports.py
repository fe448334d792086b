"""The options of reports with findings."""

from __future__ import annotations

import click

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

quiet_option = click.option("--quiet", is_flag=True, help="Print nothing if the exit code is 0.")
