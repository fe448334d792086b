"""The option for the number of processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

from kdump.ui.options.group import Decorator

if TYPE_CHECKING:
    from kdump.audit.targets.target import Target

_MOST_JOBS: Final = 1024
_READING: Final = "1 while a broker runs, else the number of usable CPUs. Not on Spark"


def jobs_option(default: str = _READING) -> Decorator:
    """Return a decorator that adds ``--jobs``; ``default`` says in its help what holds without.

    Without an argument that is what holds for the commands that also read beside brokers.
    """
    return click.option(
        "--jobs",
        "-j",
        type=click.IntRange(min=1, max=_MOST_JOBS),
        metavar="N",
        help=f"Read with N processes at a time. Default: {default}.",
    )


def reading_jobs(asked: int | None, targets: Iterable[Target]) -> int:
    """Return the number of processes that read ``targets``: as ``asked``, else as the help says."""
    from kdump.audit.run.verify import beside_broker
    from kdump.storage.workers import default_jobs

    return asked or (1 if beside_broker(targets) else default_jobs())
