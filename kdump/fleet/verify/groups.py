"""Stages over groups of targets on Spark.

Executors read targets path by path, as a manifest is opened once then, and send what the second
stage needs of each. The tasks of that stage are groups.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Generic

from kdump.audit.run.groups import G, R, Stages, T, W
from kdump.audit.run.spread import LostTask, failure_text
from kdump.audit.run.verification import Verification
from kdump.audit.verdicts.verdict import Verdict
from kdump.fleet.job.spread import spread
from kdump.fleet.verify.listing import FleetListing
from kdump.fleet.verify.verify import conclusions
from kdump.storage.throttle import use_idle_io
from kdump.storage.workers import WorkerDied, in_order
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session


@frozen
class GroupsOnSpark:
    """Carries out stages over the targets of a listing, as ``GroupWorkers`` does."""

    session: Session
    listing: FleetListing

    def __call__(
        self,
        stages: Stages[G, T, W, R],
        groups: Sequence[G],
        on_progress: Callable[[int], None] | None = None,
    ) -> Generator[R, None, None]:
        """Yield the result of each group; the driver makes it if no executor has sent it."""
        chosen = frozenset(chain.from_iterable(group.numbers for group in groups))
        listed = {
            number: pair for number, pair in enumerate(self.listing.pairs) if number in chosen
        }
        packed = conclusions(
            self.session,
            list(listed.values()),
            Verification(self.listing.scope.context, digest=True),
            conclude=partial(_pack, stages),
            on_progress=on_progress,
        )
        values = dict(zip(listed, packed, strict=True))
        tasks: list[_GroupTask[G, T]] = [
            _GroupTask(
                group,
                tuple(values[number].pickled for number in group.numbers),
                live=not all(listed[number][0].stopped for number in group.numbers),
            )
            for group in groups
        ]
        costs = [
            stages.cost([values[number].weight for number in group.numbers]) for group in groups
        ]

        def result(number: int, found: R | WorkerDied | LostTask) -> R:
            if not isinstance(found, WorkerDied | LostTask):
                return found
            task = tasks[number]
            return stages.combine(task.group, task.values(), lost=failure_text(found))

        results = spread(self.session, partial(combine_group, stages), tasks, costs)
        yield from in_order((number, result(number, found)) for number, found in results)


@frozen
class _Packed(Generic[W]):
    """A value, pickled, which the driver only passes on, and its weight."""

    pickled: bytes
    weight: W


def _pack(stages: Stages[G, T, W, R], verdict: Verdict) -> _Packed[W]:
    value = stages.conclude(verdict)
    return _Packed(pickle.dumps(value), stages.weight(value))


@frozen
class _GroupTask(Generic[G, T]):
    """A group with its pickled values; ``live``: a broker may be using a target."""

    group: G
    pickled: tuple[bytes, ...]
    live: bool

    def values(self) -> list[T]:
        """Return the values."""
        return [pickle.loads(value) for value in self.pickled]


def combine_group(stages: Stages[G, T, W, R], task: _GroupTask[G, T]) -> R:
    """Return the result of a group on an executor."""
    if task.live:
        use_idle_io()
    return stages.combine(task.group, task.values())
