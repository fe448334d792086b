"""The option for the rate of reading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kdump.ui.options.group import Decorator
from kdump.ui.options.values import read_size

if TYPE_CHECKING:
    from kdump.audit.targets.target import Target


def rate_option(default: str) -> Decorator:
    """Return a decorator that adds ``--limit-rate``; ``default`` says what holds without it.

    Its value is in bytes a second: 0 for no limit, None without the option.
    """
    return click.option(
        "--limit-rate",
        metavar="RATE",
        callback=_rate,
        help="Read at most this many bytes a second, such as 50MB or 20MiB; none or 0 for no "
        f"limit. {default}",
    )


def reading_rate(asked: int | None, targets: Iterable[Target]) -> int:
    """Return the bytes a second at which ``targets`` are read, 0 for no limit.

    It is as ``asked``; without that there is a limit beside a running broker.
    """
    from kdump.audit.run.verify import beside_broker
    from kdump.storage.throttle import LIVE_RATE

    if asked is None:
        return LIVE_RATE if beside_broker(targets) else 0
    return asked


def _rate(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text == "none":
        return 0
    return read_size(context, parameter, text and text.removesuffix("/s"))
