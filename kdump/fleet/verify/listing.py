"""The listing stages, which executors run where the disks are.

One task a path opens it and lists its partitions; then one more, to which all log directories are
brought, sorts these by their nodes. For a path alone the first one does both.

A path that no executor could open keeps its place, with the error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.settings import log_directories
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.scope import Scope, check_patterns, directories_of
from kdump.audit.targets.target import Root, Selection, Target, assign, open_roots, without_repeats
from kdump.errors import SourceError
from kdump.fleet.job.job import JobFailed
from kdump.fleet.job.spread import Lost, spread
from kdump.fleet.verify.inventory import Inventory
from kdump.storage.workers import Died

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Listed:
    """``scope`` with the size of every partition, and an inventory of each group, in order.

    ``findings`` are those at the top of log directories.
    """

    scope: Scope
    inventories: tuple[Inventory, ...]
    findings: tuple[Finding, ...]

    @property
    def total_bytes(self) -> int:
        """The bytes of all logs."""
        return sum(target.size for target in self.scope.targets)

    def open(self) -> list[Target]:
        """All groups as they were listed."""
        return [
            inventory.open(target)
            for target, inventory in zip(self.scope.targets, self.inventories, strict=True)
        ]

    def sizes(self) -> dict[Path, int]:
        """The bytes of each log."""
        return {
            inventory.folder / name: size
            for inventory in self.inventories
            for name, size in inventory.logs.items()
        }


def find(
    session: Session,
    paths: Sequence[Path],
    settings: Configs | None,
    selection: Selection,
) -> Listed:
    """List what there is to judge at ``paths``, as ``open_roots`` and ``read_context`` do.

    Raises UsageError, and JobFailed where nothing is known about the directories together.
    """
    now_ms = time.time_ns() // 1_000_000
    if len(paths) == 1:
        alone = partial(_alone, selection=selection, settings=settings, now_ms=now_ms)
        ((_, both),) = spread(session, alone, paths, [0])
        if not isinstance(both, Died | Lost):
            part, around = both
            return _together([part], around, selection)
    listed = partial(_listed, selection=selection, settings=settings)
    found = dict(spread(session, listed, paths, [0] * len(paths)))
    parts = [_part(path, found[number]) for number, path in enumerate(paths)]
    named = _Named(tuple(paths), directories_of(part.root for part in parts))
    around = _one(session, partial(_around, settings=settings, now_ms=now_ms), named)
    return _together(parts, around, selection)


@dataclass(frozen=True, slots=True)
class _Part:
    """A path, what there is to judge in it, and an inventory of each."""

    root: Root
    targets: tuple[Target, ...]
    inventories: tuple[Inventory, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    """Paths, and the log directories that these are or stand in."""

    paths: tuple[Path, ...]
    directories: tuple[DirectoryFacts, ...]


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around paths, of which those count that have ``numbers``.

    Others lead to directories that were named before. ``findings`` are as in ``Listed``.
    """

    numbers: tuple[int, ...]
    context: Context
    findings: tuple[Finding, ...]


def _listed(path: Path, selection: Selection, settings: Configs | None) -> _Part:
    (root,) = open_roots([path], log_directories(settings) if settings else ())
    return _taken_stock(root, [target.with_listing() for target in assign(root, selection)])


def _taken_stock(root: Root, listed: Iterable[Target]) -> _Part:
    both = [(replace(one.without_listing(), size=one.size), Inventory.of(one)) for one in listed]
    return _Part(root, tuple(target for target, _ in both), tuple(taken for _, taken in both))


def _around(named: _Named, settings: Configs | None, now_ms: int) -> _Around:
    numbers = tuple(number for number, _ in without_repeats(enumerate(named.paths), itemgetter(1)))
    context = read_context(named.directories, settings, now_ms)
    return _Around(numbers, context, reconcile_directories(context))


def _alone(
    path: Path, selection: Selection, settings: Configs | None, now_ms: int
) -> tuple[_Part, _Around]:
    part = _listed(path, selection, settings)
    named = _Named((path,), directories_of([part.root]))
    return part, _around(named, settings, now_ms)


def _part(path: Path, found: _Part | Died | Lost) -> _Part:
    """What an executor has listed, or the path with the reason why none has."""
    if isinstance(found, _Part):
        return found
    error = SourceError(path, f"{path}: expected a listing of an executor, found {_text(found)}")
    root = Root(path, error, None)
    return _taken_stock(root, assign(root))


def _together(parts: Sequence[_Part], around: _Around, selection: Selection) -> Listed:
    parts = [parts[number] for number in around.numbers]
    roots = tuple(part.root for part in parts)
    check_patterns(roots, selection)
    scope = Scope(roots, tuple(part.targets for part in parts), around.context)
    inventories = tuple(taken for part in parts for taken in part.inventories)
    return Listed(scope, inventories, around.findings)


def _one(session: Session, work: Callable[[T], R], task: T) -> R:
    ((_, found),) = spread(session, work, [task], [0])
    if isinstance(found, Died | Lost):
        raise JobFailed(f"expected a result of an executor, found {_text(found)}")
    return found


def _text(found: Died | Lost) -> str:
    return found.text if isinstance(found, Lost) else f"a process that {found.label} killed"
