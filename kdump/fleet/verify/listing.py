"""The listing stages, which executors run where the disks are.

One task for each path opens it and lists its partitions. One more task gets all log directories and
groups them by their nodes. For a single path the first task does both.

A path that no executor could open stays in the list, with the error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.settings import log_directories
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.scope import Scope, check_patterns, directories_of
from kdump.audit.targets.target import (
    Root,
    Target,
    TopicSelection,
    assign,
    open_roots,
    without_repeats,
)
from kdump.errors import SourceError
from kdump.fleet.job.job import JobFailed
from kdump.fleet.job.spread import LostTask, spread
from kdump.fleet.verify.inventory import Inventory
from kdump.storage.objects.address import AnyPath
from kdump.storage.workers import WorkerDied
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

T = TypeVar("T")
R = TypeVar("R")


@frozen
class Listing:
    """The scope with the sizes of partitions, and the inventory of each target, in order.

    ``findings`` are those at the top of log directories.
    """

    scope: Scope
    inventories: tuple[Inventory, ...]
    findings: tuple[Finding, ...]

    @property
    def total_bytes(self) -> int:
        """The size of all logs in bytes."""
        return sum(target.size for target in self.scope.targets)

    def open(self) -> list[Target]:
        """Return all targets as they were listed."""
        return [
            inventory.open(target)
            for target, inventory in zip(self.scope.targets, self.inventories, strict=True)
        ]

    def sizes(self) -> dict[AnyPath, int]:
        """Return the size of each log in bytes, by its path."""
        return {
            inventory.folder / name: size
            for inventory in self.inventories
            for name, size in inventory.logs.items()
        }


def list_paths(
    session: Session,
    paths: Sequence[AnyPath],
    settings: Configs | None,
    selection: TopicSelection,
) -> Listing:
    """Return the targets at ``paths`` and their context, like ``open_roots`` and ``read_context``.

    Raise UsageError, and JobFailed if no executor could read the directories together.
    """
    now_ms = time.time_ns() // 1_000_000
    if len(paths) == 1:
        list_single = partial(_list_single, selection=selection, settings=settings, now_ms=now_ms)
        ((_, result),) = spread(session, list_single, paths, [0])
        if not isinstance(result, WorkerDied | LostTask):
            part, surroundings = result
            return _combine([part], surroundings, selection)
    list_path = partial(_list_path, selection=selection, settings=settings)
    results = dict(spread(session, list_path, paths, [0] * len(paths)))
    parts = [_part_of_result(path, results[number]) for number, path in enumerate(paths)]
    path_directories = _PathDirectories(tuple(paths), directories_of(part.root for part in parts))
    surroundings = _run_task(
        session, partial(_read_surroundings, settings=settings, now_ms=now_ms), path_directories
    )
    return _combine(parts, surroundings, selection)


@frozen
class _Part:
    """A path, its targets, and the inventory of each."""

    root: Root
    targets: tuple[Target, ...]
    inventories: tuple[Inventory, ...]


@frozen
class _PathDirectories:
    """Paths, and the log directories that they are or lie in."""

    paths: tuple[AnyPath, ...]
    directories: tuple[DirectoryFacts, ...]


@frozen
class _Surroundings:
    """The context of paths; ``numbers`` are the indices of the paths to use.

    The other paths lead to directories of earlier paths. ``findings`` are as in ``Listing``.
    """

    numbers: tuple[int, ...]
    context: Context
    findings: tuple[Finding, ...]


def _list_path(path: AnyPath, selection: TopicSelection, settings: Configs | None) -> _Part:
    (root,) = open_roots([path], log_directories(settings) if settings else ())
    return _make_part(root, [target.with_listing() for target in assign(root, selection)])


def _make_part(root: Root, listed: Iterable[Target]) -> _Part:
    pairs = [
        (replace(target.without_listing(), size=target.size), Inventory.of(target))
        for target in listed
    ]
    return _Part(
        root, tuple(target for target, _ in pairs), tuple(inventory for _, inventory in pairs)
    )


def _read_surroundings(
    path_directories: _PathDirectories, settings: Configs | None, now_ms: int
) -> _Surroundings:
    numbers = tuple(
        number for number, _ in without_repeats(enumerate(path_directories.paths), itemgetter(1))
    )
    context = read_context(path_directories.directories, settings, now_ms)
    return _Surroundings(numbers, context, reconcile_directories(context))


def _list_single(
    path: AnyPath, selection: TopicSelection, settings: Configs | None, now_ms: int
) -> tuple[_Part, _Surroundings]:
    part = _list_path(path, selection, settings)
    path_directories = _PathDirectories((path,), directories_of([part.root]))
    return part, _read_surroundings(path_directories, settings, now_ms)


def _part_of_result(path: AnyPath, result: _Part | WorkerDied | LostTask) -> _Part:
    """Return the listing of an executor, or the path with the error if there is none."""
    if isinstance(result, _Part):
        return result
    error = SourceError(
        path, f"{path}: expected a listing of an executor, found {_failure_text(result)}"
    )
    root = Root(path, error, None)
    return _make_part(root, assign(root))


def _combine(
    parts: Sequence[_Part], surroundings: _Surroundings, selection: TopicSelection
) -> Listing:
    parts = [parts[number] for number in surroundings.numbers]
    roots = tuple(part.root for part in parts)
    check_patterns(roots, selection)
    scope = Scope(roots, tuple(part.targets for part in parts), surroundings.context)
    inventories = tuple(inventory for part in parts for inventory in part.inventories)
    return Listing(scope, inventories, surroundings.findings)


def _run_task(session: Session, work: Callable[[T], R], task: T) -> R:
    ((_, result),) = spread(session, work, [task], [0])
    if isinstance(result, WorkerDied | LostTask):
        raise JobFailed(f"expected a result of an executor, found {_failure_text(result)}")
    return result


def _failure_text(result: WorkerDied | LostTask) -> str:
    return result.text if isinstance(result, LostTask) else f"a process that {result.label} killed"
