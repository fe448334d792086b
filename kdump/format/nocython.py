"""Stands in for Cython's ``cython`` where that is not installed: decorators that do nothing.

The kernel's annotations are never evaluated, so only what its decorators call is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

compiled = False
int = uint = longlong = ulonglong = None

_Function = TypeVar("_Function")


def _keep(function: _Function) -> _Function:
    return function


def _with_argument(_: object = None, **__: object) -> Callable[[_Function], _Function]:
    return _keep


def declare(_: object, value: _Function) -> _Function:
    """Return the value itself: it needs no C type here."""
    return value


cfunc = inline = _keep
exceptval = _with_argument
