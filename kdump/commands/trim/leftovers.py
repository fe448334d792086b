"""The plan of a trim that removes what no log of a stopped broker needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kdump.audit.run.spread import Spread
from kdump.audit.sizes.leftovers import ABOUT, MAY_GO, LeftoverFiles, leftovers_of, other_entries
from kdump.audit.sizes.tasks import measure_targets
from kdump.audit.targets.scope import Scope, directories_of
from kdump.audit.targets.target import Target
from kdump.commands.trim.plan import TrimmedLeftovers, TrimPlan, why_unfinished
from kdump.errors import SourceError
from kdump.repair.removal import UnusedFiles
from kdump.repair.transaction.fingerprint import stamp_of
from kdump.repair.transaction.lock import check_stopped
from kdump.repair.transaction.plan import log_directory_of
from kdump.storage.paths import AnyPath, as_local
from kdump.storage.repair_record import FOLDERS
from kdump.storage.source import source_error, status_of


def plan_leftovers(
    targets: Sequence[Target],
    scope: Scope,
    spread: Spread,
    *,
    arguments: tuple[str, ...],
    assume_stopped: bool,
    selected: bool,
) -> TrimPlan:
    """Return what no log needs of the partitions ``targets``, and beside them.

    With ``selected`` topics, what else is in log directories stays. Raise Refused beside a running
    broker.
    """
    plan = _Leftovers()
    readable = []
    for target in targets:
        if target.error is not None:
            plan.errors.append(target.error)
            continue
        if not target.stopped or target.directory is None:
            check_stopped(as_local(target.path), assume_stopped=assume_stopped)
        readable.append(target)
    for target, found in measure_targets(readable, scope.context, spread):
        if isinstance(found, SourceError):
            plan.errors.append(found)
            continue
        plan.errors += found.errors
        beside = list(leftovers_of(found, scope.context))
        whole = [left for left in beside if left.kind in MAY_GO and not left.names]
        for left in whole:  # what lies in it goes with it
            size = sum(each.bytes for each in beside)
            plan.add(replace(left, bytes=size), log_directory_of(target))
        for left in () if whole else beside:
            plan.add(left, log_directory_of(target))
    for facts in () if selected else directories_of(scope.roots):
        place = as_local(facts.directory.path)
        check_stopped(place, assume_stopped=assume_stopped)
        for left, tree in other_entries([facts]):
            plan.errors += tree.errors
            plan.add(left, place)
    leftovers = sorted(plan.leftovers, key=lambda each: str(each.gone.path))
    return TrimPlan(
        arguments,
        (),
        tuple(sorted(plan.kept, key=str)),
        tuple(plan.errors),
        leftovers=tuple(leftovers),
    )


class _Leftovers:
    """What goes, what stays for which reason, and what could not be read."""

    def __init__(self) -> None:
        self.leftovers: list[TrimmedLeftovers] = []
        self.kept: list[tuple[AnyPath, str]] = []
        self.errors: list[SourceError] = []

    def add(self, left: LeftoverFiles, log_directory: Path | None) -> None:
        """Add leftovers of a log directory."""
        if not left.bytes:
            return
        try:
            reason = _why_kept(left, log_directory)
            if reason is None and log_directory is not None:
                unused = _unused(left, log_directory)
                self.leftovers.append(TrimmedLeftovers(left.kind, unused, left.bytes))
            else:
                self.kept.append((left.path, reason or "it lies in no log directory"))
        except SourceError as error:
            self.errors.append(error)


def _why_kept(left: LeftoverFiles, log_directory: Path | None) -> str | None:
    """Return why leftovers stay, None if they may go. Raise SourceError."""
    if left.kind not in MAY_GO:
        return ABOUT[left.kind]
    path = as_local(left.path)
    if path.is_symlink():
        return "it is a symbolic link"
    if log_directory is None:
        return "it lies in no log directory"
    names = left.names or tuple(_names(path))
    odd = [name for name in names if name != FOLDERS and not _is_file(path / name)]
    if odd:
        return f"{odd[0]} in it is no regular file"
    return why_unfinished(path)


def _unused(left: LeftoverFiles, log_directory: Path) -> UnusedFiles:
    """Raise SourceError."""
    path = as_local(left.path)
    status = status_of(path)
    stamps = {}
    for name in left.names or _names(path):
        stamp = stamp_of(path / name)
        if stamp is not None:
            stamps[name] = stamp
    identity = status.st_dev, status.st_ino
    return UnusedFiles(path, log_directory, identity, stamps, whole=not left.names)


def _names(path: Path) -> Iterator[str]:
    """Yield the names in a directory. Raise SourceError."""
    try:
        yield from sorted(each.name for each in path.iterdir())
    except OSError as error:
        raise source_error(path, error) from error


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
