"""The values of options that are sizes and durations."""

from __future__ import annotations

from collections.abc import Callable

import click


def read_size(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the bytes of a size such as "20GB", None without the option."""
    from kdump.ui.units import parse_size

    return _read(parse_size, parameter, text)


def read_duration(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the seconds of a duration such as "30d", None without the option."""
    from kdump.ui.units import parse_duration

    return _read(parse_duration, parameter, text)


def _read(parse: Callable[[str], int], parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error
