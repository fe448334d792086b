"""Stands in for Spark: what executors would do is done here, by this process.

Starting Spark takes longer than a hundred runs of a command. URLs are checked as ever.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kdump.fleet import compare
from kdump.fleet.job import spread
from kdump.fleet.session import session
from kdump.fleet.verify import listing, verify

_MODULES = (compare, listing, spread, verify)


@dataclass(frozen=True, slots=True)
class StandIn:
    """In the place of a session."""

    cores: int = 2
    remote: bool = False


def stand_in(put: Callable[[ModuleType, str, object], None] = setattr) -> None:
    """Do so from now on in this process; ``put`` sets attributes of modules."""
    put(session, "open_session", _opened)
    for module in _MODULES:
        if hasattr(module, "spread"):
            put(module, "spread", _spread)


@contextmanager
def _opened(cluster: session.Cluster) -> Iterator[StandIn]:
    session._check(cluster)
    yield StandIn()


def _spread(
    _: StandIn,
    work: Callable[[Any], Any],
    tasks: Sequence[Any],
    sizes: Sequence[int],
    *,
    careful: Callable[[Any], Any] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, Any]]:
    assert len(tasks) == len(sizes)
    travelled = pickle.loads(pickle.dumps(work))
    for number, task in enumerate(pickle.loads(pickle.dumps(list(tasks)))):
        yield number, pickle.loads(pickle.dumps(travelled(task)))
    if on_progress is not None:
        on_progress(1.0)
