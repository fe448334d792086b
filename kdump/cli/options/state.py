"""The option for the state of scrubs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kdump.cli.options.group import Decorator

_PLACE: Final = (
    "Default: /var/lib/kdump/scrub.db, or kdump/scrub.db in $XDG_STATE_HOME (~/.local/state) if "
    "that cannot be written."
)


def state_option(text: str) -> Decorator:
    """Return a decorator that adds ``--state``; ``text`` says what the file is for."""
    return click.option(
        "--state",
        "state_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"{text} {_PLACE}",
    )
