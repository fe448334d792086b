"""The options for states: their place, and the age from which everything is read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kdump.errors import UsageError
from kdump.ui.options.group import Decorator, option_group
from kdump.ui.options.targets import LogPath
from kdump.ui.options.values import read_duration
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.storage.paths import AnyPath

#: The age without ``--max-age``.
DEFAULT_AGE: Final = "30d"


def state_option() -> Decorator:
    """Return a decorator that adds ``--state`` for a scrub."""
    return click.option(
        "--state",
        "state_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Remember in this file what was read. Default: /var/lib/kdump/scrub.db, or "
        "kdump/scrub.db in $XDG_STATE_HOME (~/.local/state) if that cannot be written.",
    )


def max_age_option(*, default: str | None, more: str = "") -> Decorator:
    """Return a decorator that adds ``--max-age``; ``more`` follows its help."""
    return click.option(
        "--max-age",
        "max_age_s",
        metavar="TIME",
        callback=read_duration,
        default=default,
        show_default=True,
        help=f"Read each segment again after this time, such as 30d or 12h.{more}",
    )


@frozen
class MemoryOptions:
    """What a run of ``verify`` leaves out because it was read before; None without the option.

    ``changed``: of what a scrub has read, only the ends are checked. ``state`` is the file of the
    scrub, or the directory that runs on Spark remember in.
    """

    changed: bool
    state: AnyPath | None
    max_age_s: int | None

    def check(self, *, spark: bool, quick: bool) -> None:
        """Raise UsageError for options that do not go together."""
        given = "--state" if self.state is not None else "--max-age"
        if self.state is None and self.max_age_s is None:
            return
        if spark and quick:
            raise UsageError(f"{given}: expected no --quick, which reads ends of logs each time")
        if spark and self.state is None:
            raise UsageError("--max-age: expected --state with it, found none")
        if not spark and self.max_age_s is not None:
            raise UsageError("--max-age: expected a run on Spark; without Spark use kdump scrub")
        if not spark and not self.changed:
            raise UsageError(
                "--state: expected --changed-since-last or a run on Spark with it, found neither: "
                "without Spark kdump scrub remembers what it reads"
            )

    @property
    def age_s(self) -> int:
        """The age in seconds from which segments are read again."""
        from kdump.ui.units import parse_duration

        return parse_duration(DEFAULT_AGE) if self.max_age_s is None else self.max_age_s


memory_options = option_group(
    "memory",
    MemoryOptions,
    click.option(
        "--changed-since-last",
        "changed",
        is_flag=True,
        help="Of segments that kdump scrub has read, and that have not changed since, check only "
        "the ends. Not with --quick, --deep or Spark.",
    ),
    click.option(
        "--state",
        metavar="PATH",
        type=LogPath(),
        help="With --changed-since-last, the file of kdump scrub (default as there). On Spark, a "
        "directory or an address such as s3://BUCKET/PREFIX: keep what was found in sealed "
        "segments there, and read them only if they are new, changed, corrupt, or were read "
        "longer than --max-age ago. Not with --quick.",
    ),
    max_age_option(default=None, more=f" Default: {DEFAULT_AGE}. With --state on Spark."),
)
