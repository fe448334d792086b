"""The value of an option that is a size in bytes."""

from __future__ import annotations

import click


def read_size(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the bytes of a size such as "20GB", None without the option."""
    from kdump.ui.units import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error
