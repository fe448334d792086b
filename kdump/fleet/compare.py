"""compare_copies() as stages of Spark: copies are read, then those of each partition compared.

Executors read the copies path by path, as a manifest is opened once then, and send what is small of
each: epochs, offsets and digests. Of logs whose digests differ, a task of the second stage reads
the headers once more. A missing result of an executor is said of its partition.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from kdump.audit.facts.cluster import Replicas
from kdump.audit.targets.scope import Scope
from kdump.audit.verdicts.verdict import Verdict
from kdump.copies.comparison import Comparison, NodeDirectory, compare
from kdump.copies.copy import Copy, copy_of
from kdump.copies.reading import CopyGroup, group_copies, identities, whole_directories
from kdump.fleet.job.packing import log_cost
from kdump.fleet.job.spread import LostTask, failure_text, run_single, spread
from kdump.fleet.verify.listing import FleetListing
from kdump.fleet.verify.task import Depth
from kdump.fleet.verify.verify import conclusions
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import use_idle_io
from kdump.storage.workers import WorkerDied, in_order
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session


def compare_copies(
    session: Session,
    groups: Sequence[CopyGroup],
    listing: FleetListing,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Comparison, None, None]:
    """Yield the comparison of each group of targets in ``listing``, in order.

    ``on_progress`` is as for ``conclusions``.
    """
    scope = listing.scope
    chosen = frozenset(chain.from_iterable(group.numbers for group in groups))
    listed = {number: pair for number, pair in enumerate(listing.pairs) if number in chosen}
    packed = conclusions(
        session,
        [target for target, _ in listed.values()],
        [inventory for _, inventory in listed.values()],
        Depth(deep=False, digest=True),
        context=scope.context,
        conclude=partial(pack_copy, node_ids=scope.context.node_ids),
        on_progress=on_progress,
    )
    copies = dict(zip(listed, packed, strict=True))
    directories = tuple(whole_directories(scope))
    tasks = [
        CompareTask(
            tuple(copies[number].pickled for number in group.numbers),
            group.topic_id,
            group.replicas,
            directories,
        )
        for group in groups
    ]
    costs = [_cost([copies[number] for number in group.numbers]) for group in groups]
    results = spread(session, compare_partition, tasks, costs)
    yield from in_order((number, _comparison(tasks[number], found)) for number, found in results)


def find_groups(session: Session, scope: Scope) -> list[CopyGroup]:
    """Return the copies of each partition in a scope; an executor sees which paths are the same.

    Raise UsageError as ``group_copies`` does, and JobFailed.
    """
    return group_copies(scope, partial(run_single, session, identities))


@frozen
class PackedCopy:
    """A copy, pickled, which the driver only passes on.

    ``logs`` are the digests of its logs, with what it costs to read each.
    """

    pickled: bytes
    logs: frozenset[tuple[bytes | None, int]]


def pack_copy(verdict: Verdict, node_ids: Mapping[AnyPath, int | None]) -> PackedCopy:
    """Return the copy that a verdict is on; ``node_ids`` is as for ``copy_of``."""
    copy = copy_of(verdict, node_ids)
    logs = ((segment.digest, log_cost(segment.log, segment.size)) for segment in copy.segments)
    return PackedCopy(pickle.dumps(copy), frozenset(logs))


@frozen
class CompareTask:
    """The pickled copies of a partition; the rest is as for ``compare``."""

    copies: tuple[bytes, ...]
    topic_id: str | None
    replicas: Replicas | None
    directories: tuple[NodeDirectory, ...]

    def compare(self, unreadable: str | None = None) -> Comparison:
        """Compare the copies."""
        copies: list[Copy] = [pickle.loads(copy) for copy in self.copies]
        if unreadable is None and any(copy.live for copy in copies):
            use_idle_io()
        return compare(
            copies, self.topic_id, self.replicas, self.directories, unreadable=unreadable
        )


def compare_partition(task: CompareTask) -> Comparison:
    """Compare the copies of a partition on an executor."""
    return task.compare()


def _comparison(task: CompareTask, found: Comparison | WorkerDied | LostTask) -> Comparison:
    """Return what an executor has found, or without that what the copies alone say."""
    if not isinstance(found, WorkerDied | LostTask):
        return found
    return task.compare(
        f"the logs of the copies: expected a comparison of an executor, found {failure_text(found)}"
    )


def _cost(copies: Sequence[PackedCopy]) -> int:
    """Return the cost of reading the logs whose digests differ."""
    same = frozenset.intersection(*(copy.logs for copy in copies))
    return sum(cost for copy in copies for _, cost in copy.logs - same)
