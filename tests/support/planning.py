"""Plans repairs as the commands do, in this process, and stops them on their way."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.run.verify import verify
from kdump.audit.targets.context import Context
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.convert.plan import plan_convert
from kdump.errors import Unfinished
from kdump.repair.dropping.plan import plan_drop
from kdump.repair.fields.plan import FieldsPlan, plan_fields
from kdump.repair.healing.plan import HealPlan, plan_heal
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.side_files.plan import plan_reindex
from kdump.repair.transaction import disk
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.fingerprint import read_fingerprint
from kdump.repair.transaction.plan import Plan
from kdump.repair.transaction.undo import newest_repair, undo
from kdump.repair.truncation.plan import plan_truncate
from kdump.storage.logdir import read_partition
from kdump.storage.paths import AnyPath, typed_text
from kdump.ui.options.targets import TargetOptions, find_scope
from support.crashing.seam import Around, Call, Watched
from support.crashing.subjects import CHECKPOINTS
from support.crashing.trees import Node, take


def truncation(partition: Path, at: int | None = None) -> Plan:
    """What ``truncate-to-valid`` plans for a partition."""
    verdict, _ = _verified(partition, rebuild=False)
    arguments = () if at is None else ("--at", str(at))
    return plan_truncate(verdict, at=at, arguments=arguments)


def reindexing(partition: Path, *, every: bool = False) -> Plan:
    """What ``reindex`` plans for a partition."""
    verdict, context = _verified(partition, rebuild=True)
    arguments = ("--all",) if every else ()
    return plan_reindex(
        verdict,
        every=every,
        settings=context.settings(verdict.target),
        node=context.node(verdict.target),
        arguments=arguments,
    )


def dropping(partition: Path) -> Plan:
    """What ``repair --only-copy`` plans for a partition with corrupt batches amid valid ones."""
    verdict, context = _verified(partition, rebuild=True)
    return plan_drop(verdict, settings=context.settings(verdict.target), report=lambda _: None)


def setting_fields(partition: Path, *replicas: AnyPath) -> FieldsPlan:
    """What ``repair`` plans for a partition with fields of which one value is left."""
    verdict, context = _verified(partition, rebuild=True)
    settings, node = context.settings(verdict.target), context.node(verdict.target)
    return plan_fields(verdict, replicas, settings=settings, node=node, report=lambda _: None)


def conversion(partition: Path, rules: Rules | None = None, *, jobs: int = 1) -> Plan:
    """What ``convert-v0-v2`` plans for a partition."""
    verdict, context = _verified(partition, rebuild=False)
    chosen, settings = rules or Rules(), context.settings(verdict.target)
    return plan_convert(
        verdict, chosen, settings=settings, arguments=(), jobs=jobs, report=lambda _: None
    )


def healing(partition: Path, *copies: AnyPath) -> HealPlan:
    """What ``heal`` plans for a partition."""
    verdict, context = _verified(partition, rebuild=True)
    words = tuple(word for copy in copies for word in ("--from", typed_text(copy)))
    settings, node = context.settings(verdict.target), context.node(verdict.target)
    return plan_heal(
        verdict, copies, settings=settings, node=node, arguments=words, report=lambda _: None
    )


def _verified(partition: Path, *, rebuild: bool) -> tuple[Verdict, Context]:
    config = partition.parent.parent / "server.properties"
    scope = find_scope(TargetOptions([partition], config))
    targets = [replace(target, stopped=True) for target in scope.targets]
    (verdict,) = verify(targets, deep=False, jobs=1, context=scope.context, rebuild=rebuild)
    return verdict, scope.context


def left(top: Path) -> dict[str, Node]:
    """What stands below ``top``, but for locks, which stay once they were made."""
    return {path: node for path, node in take(top).items() if not path.endswith(".lock")}


@contextmanager
def failing_at(
    method: str, place: int = 0, error: int | BaseException = errno.EIO
) -> Iterator[None]:
    """Of the calls of one kind the one at ``place`` fails, and no other."""
    count = 0

    def around(call: Call, make: Callable[..., Any]) -> Any:
        nonlocal count
        if call.method == method:
            count += 1
            if count == place + 1:
                if isinstance(error, int):
                    raise OSError(error, os.strerror(error), *call.paths[:1])
                raise error
        return make(*call.arguments)

    with calling(around):
        yield


@contextmanager
def calling(around: Around) -> Iterator[None]:
    """All calls that change something go through ``around``."""
    before = disk.SYSTEM
    disk.SYSTEM = Watched(around)
    try:
        yield
    finally:
        disk.SYSTEM = before


def interrupt(plan: Plan, method: str = "truncate", place: int = 0) -> None:
    """Begin to carry out a plan, and fail at a call behind which it is pending."""
    with failing_at(method, place), pytest.raises(Unfinished):
        apply(plan)


def by_hand(partition: Path, *steps: Any, above: bool = True) -> Plan:
    """A plan of these steps for the partition as it is."""
    files, identity = read_fingerprint(read_partition(partition))
    directory = partition.parent if above else None
    return Plan("reindex", (), partition, identity, directory, steps, files)


def undone(partition: Path, plan: Plan) -> Plan:
    one = newest_repair(partition)
    assert one is not None
    assert one.id == plan.id
    return undo(one, partition, plan.log_directory, assume_stopped=False)


def restored(top: Path, before: dict[str, Node], *rewritten: str) -> bool:
    """Whether all is as before: bytes, owners, modes, attributes, and times but of checkpoints."""
    now = left(top)
    assert now.keys() == before.keys()
    timeless = {*CHECKPOINTS, *rewritten}
    wrong = {
        path
        for path, node in now.items()
        if (node != before[path] if path not in timeless else node.lasting != before[path].lasting)
    }
    assert not wrong
    return True


def give(path: Path, like: Path) -> None:
    """Give what is at ``path`` to the owner of another."""
    status = like.stat()
    os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)


def copied(source: str, target: str) -> None:
    shutil.copy2(source, target)
    os.chown(target, os.stat(source).st_uid, os.stat(source).st_gid)
