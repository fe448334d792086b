"""Stands in for Spark: what executors would do is done here, by this process.

Starting Spark takes longer than a hundred runs of a command. URLs are checked as ever.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from types import ModuleType
from typing import Any

from kdump.fleet.job import spread
from kdump.fleet.session import session
from kdump.fleet.verify import verify

_MODULES = (spread, verify)


@dataclass(frozen=True, slots=True)
class StandIn:
    """In the place of a session."""

    cores: int = 2
    remote: bool = False


def stand_in(put: Callable[[ModuleType, str, object], None] = setattr) -> None:
    """Do so from now on in this process; ``put`` sets attributes of modules."""
    put(session, "open_session", _opened)
    for module in _MODULES:
        if hasattr(module, "Stream"):
            put(module, "Stream", _Stream)


@contextmanager
def _opened(cluster: session.Cluster) -> Iterator[StandIn]:
    session._check(cluster)
    yield StandIn()


class _Stream:
    """In the place of a stream."""

    def __init__(
        self,
        _: StandIn,
        work: Callable[[Any], Any],
        careful: Callable[[Any], Any] | None = None,
    ) -> None:
        self._work = pickle.loads(pickle.dumps(work))
        self._further: list[spread.StreamEntry[Any, Any]] = []

    def add(self, entry: spread.StreamEntry[Any, Any]) -> None:
        self._further.append(entry)

    def run(
        self,
        source: Iterable[spread.StreamEntry[Any, Any]],
        total_cost: int,
        on_progress: Callable[[float], None] | None = None,
    ) -> Generator[tuple[Any, Any], None, None]:
        for entry in chain(
            source, iter(lambda: self._further.pop() if self._further else None, None)
        ):
            found = self._work(pickle.loads(pickle.dumps(entry.task)))
            yield entry.key, pickle.loads(pickle.dumps(found))
        if on_progress is not None:
            on_progress(1.0)

    def _added(self) -> Iterator[spread.StreamEntry[Any, Any]]:
        while self._further:
            yield self._further.pop()
