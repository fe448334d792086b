"""The listing stages, which executors run where the disks are.

One task for each path opens it and lists its partitions. One more task gets all log directories and
groups them by their nodes. For a single path the first task does both.

A path that no executor could open stays in the list, with the error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.settings import log_directories
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.run.spread import LostTask, failure_text
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.listing import time_of
from kdump.audit.targets.scope import Scope, check_patterns, directories_of
from kdump.audit.targets.target import (
    Root,
    Target,
    TopicSelection,
    assign,
    open_roots,
    without_repeats,
)
from kdump.audit.verdicts.packs import Packs
from kdump.errors import SourceError
from kdump.fleet.job.spread import run_single, spread
from kdump.fleet.verify.packed import pack_root
from kdump.fleet.verify.packed_targets import PackedColumn, PackedTargets
from kdump.storage.manifests.path import paths_in
from kdump.storage.paths import AnyPath
from kdump.storage.workers import WorkerDied
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

#: The cost of listing a path, in bytes read: it may be a log directory of thousands of partitions.
_PATH_BYTES: Final = 4 << 20


@frozen
class FleetListing:
    """The scope, whose targets have the sizes of partitions, and the targets of each path, packed.

    ``findings`` are those at the top of log directories.
    """

    scope: Scope
    packed: tuple[PackedTargets, ...]
    findings: tuple[Finding, ...]

    @property
    def pairs(self) -> Sequence[tuple[Target, Inventory]]:
        """The targets of the scope with their inventories, unpacked when they are asked for."""
        return PackedColumn(self.packed, lambda pair: pair)

    @property
    def total_bytes(self) -> int:
        """The size of all logs in bytes."""
        return sum(part.size for part in self.packed)

    def open(self) -> list[Target]:
        """Return all targets as they were listed."""
        return [inventory.open(target) for target, inventory in self.pairs]

    def sizes(self) -> dict[AnyPath, int]:
        """Return the size of each log in bytes, by its path."""
        return {
            inventory.folder / name: size
            for _, inventory in self.pairs
            for name, size in inventory.logs.items()
        }


def list_paths(
    session: Session,
    paths: Sequence[AnyPath],
    settings: Configs | None,
    selection: TopicSelection,
    *,
    manifests: bool = False,
) -> FleetListing:
    """Return the targets at ``paths`` and their context, like ``list_scope``.

    With ``manifests``, the paths that a manifest has are in the place of its file. Raise
    UsageError, SourceError for a damaged manifest, and JobFailed if no executor could read the
    directories together.
    """
    order = _Order(settings, selection, manifests, time.time_ns())
    sizes = [_PATH_BYTES] * len(paths)
    if len(paths) == 1:
        ((_, result),) = spread(session, partial(_list_single, order=order), paths, sizes)
        if not isinstance(result, WorkerDied | LostTask):
            return _combine(*result, selection)
    results = dict(spread(session, partial(_list_path, order=order), paths, sizes))
    parts = [part for number, path in enumerate(paths) for part in _parts_of(path, results[number])]
    surroundings = run_single(session, _read_surroundings, _surroundings_task(parts, order))
    return _combine(parts, surroundings, selection)


@frozen
class _Order:
    """What is asked of a listing; ``now_ns`` is the time of the driver."""

    settings: Configs | None
    selection: TopicSelection
    manifests: bool
    now_ns: int


@frozen
class _Part:
    """A path and its targets."""

    root: Root
    packed: PackedTargets


@frozen
class _SurroundingsTask:
    """Paths, the log directories that they are or lie in, and the arguments of ``read_context``."""

    paths: tuple[AnyPath, ...]
    directories: tuple[DirectoryFacts, ...]
    settings: Configs | None
    now_ms: int


@frozen
class _Surroundings:
    """The context of paths; ``numbers`` are the indices of the paths to use.

    The other paths lead to directories of earlier paths. ``siblings`` are the paths of the log
    directories of each node: the driver has the directories, so ``context`` has none. ``findings``
    are as in ``FleetListing``.
    """

    numbers: tuple[int, ...]
    context: Context
    siblings: tuple[tuple[AnyPath, ...], ...]
    findings: tuple[Finding, ...]


def _list_path(path: AnyPath, order: _Order) -> tuple[_Part, ...]:
    inner = paths_in(path) if order.manifests else (path,)
    roots = open_roots(inner, log_directories(order.settings) if order.settings else ())
    return tuple(
        _Part(
            root,
            PackedTargets.of(target.with_listing() for target in assign(root, order.selection)),
        )
        for root in map(pack_root, roots)
    )


def _surroundings_task(parts: Iterable[_Part], order: _Order) -> _SurroundingsTask:
    roots = [part.root for part in parts]
    return _SurroundingsTask(
        tuple(root.path for root in roots),
        directories_of(roots),
        order.settings,
        time_of(roots, order.now_ns),
    )


def _read_surroundings(task: _SurroundingsTask) -> _Surroundings:
    numbers = tuple(number for number, _ in without_repeats(enumerate(task.paths), itemgetter(1)))
    context = read_context(task.directories, task.settings, task.now_ms)
    siblings = tuple(tuple(facts.directory.path for facts in group) for group in context.siblings)
    findings = reconcile_directories(context)
    return _Surroundings(numbers, replace(context, siblings=()), siblings, findings)


def _list_single(path: AnyPath, order: _Order) -> tuple[tuple[_Part, ...], _Surroundings]:
    parts = _list_path(path, order)
    return parts, _read_surroundings(_surroundings_task(parts, order))


def _parts_of(
    path: AnyPath, result: tuple[_Part, ...] | WorkerDied | LostTask
) -> tuple[_Part, ...]:
    """Return the listing of an executor, or the path with the error if there is none."""
    if not isinstance(result, WorkerDied | LostTask):
        return result
    error = SourceError(
        path, f"{path}: expected a listing of an executor, found {failure_text(result)}"
    )
    root = Root(path, error, None)
    return (_Part(root, PackedTargets.of(assign(root))),)


def _combine(
    parts: Sequence[_Part], surroundings: _Surroundings, selection: TopicSelection
) -> FleetListing:
    directories = directories_of(part.root for part in parts)
    known = {facts.directory.path: facts for facts in directories}
    siblings = tuple(tuple(map(known.__getitem__, group)) for group in surroundings.siblings)
    parts = [parts[number] for number in surroundings.numbers]
    roots = tuple(part.root for part in parts)
    check_patterns(roots, selection)
    place = Packs()
    packed = tuple(part.packed.moved_to(place) for part in parts)
    targets = tuple(PackedColumn((part,), itemgetter(0)) for part in packed)
    context = replace(surroundings.context, siblings=siblings)
    return FleetListing(Scope(roots, targets, context), packed, surroundings.findings)
