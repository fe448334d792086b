"""The option for the number of processes."""

from __future__ import annotations

from typing import Final

import click

from kdump.cli.options.group import Decorator

_MOST_JOBS: Final = 1024
_READING: Final = (
    "1 beside a running broker, else as many as this process may use CPUs. Not on Spark"
)


def jobs_option(default: str = _READING) -> Decorator:
    """Return a decorator that adds ``--jobs``; ``default`` says in its help what holds without.

    Without an argument that is what holds for the commands that also read beside brokers.
    """
    return click.option(
        "--jobs",
        type=click.IntRange(min=1, max=_MOST_JOBS),
        metavar="N",
        help=f"Read with N processes at a time. Default: {default}.",
    )
