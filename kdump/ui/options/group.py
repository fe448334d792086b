"""option_group(): several options as one argument of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option_group(argument: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Return a decorator that adds ``options`` to a command.

    The command gets their values as one argument of this name: what ``make`` returns for them.
    """

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        names: list[str] = []

        @wraps(command)
        def with_value(**values: Any) -> Any:
            group = {name: values.pop(name) for name in names}
            return command(**values, **{argument: make(**group)})

        # Click keeps the parameters of a command on its function, those added last at the end.
        before = len(getattr(with_value, "__click_params__", ()))
        for option in reversed(options):
            option(with_value)
        added = with_value.__click_params__[before:]  # type: ignore[attr-defined]
        names.extend(dict.fromkeys(parameter.name for parameter in added))
        return with_value

    return add_options
