"""The options that select records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.ui.options.group import Decorator, option_group
from kdump.ui.units import LARGEST_LONG

if TYPE_CHECKING:
    from kdump.storage.selection import Selection


def filter_options(*, until: str = "", key: str = "", limit: str) -> Decorator:
    """Return a decorator that adds the options which select records, as ``selection``.

    ``until`` and ``key`` are appended to the help of the options of these names. ``limit`` is the
    help of ``--limit``.
    """
    return option_group(
        "selection",
        _select,
        click.option(
            "--offsets",
            metavar="A..B",
            help="Only offsets A to B, both included; A.., ..B and A alone are ranges too. "
            "Segments of a directory outside the range are not opened. A segment is read "
            "from the batch to which its index leads if that batch is valid, else from its "
            "start.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Only from TIME on: ISO, such as 2026-11-21T10:00Z (UTC without a zone), or "
            "digits, milliseconds since 1970. A batch is skipped by its largest timestamp.",
        ),
        click.option("--until", metavar="TIME", help=f"Only before TIME.{until}"),
        click.option("--key", metavar="TEXT", help=f"Only records with exactly this key{key}."),
        click.option(
            "--key-base64",
            metavar="BASE64",
            help="Like --key, for a key as JSON prints it in key_base64.",
        ),
        click.option(
            "--producer-id",
            type=click.IntRange(min=0, max=LARGEST_LONG),
            metavar="ID",
            help="Only batches of this producer, its transaction markers included.",
        ),
        click.option(
            "--limit", type=click.IntRange(min=1, max=LARGEST_LONG), metavar="N", help=limit
        ),
    )


def _select(**options: Any) -> Selection:
    from kdump.ui.options.selection import select

    return select(**options)
