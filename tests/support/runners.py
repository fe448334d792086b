"""Who carries a verification out: workers, tasks one by one, or executors.

What executors would do is done by this process.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from kdump.audit.run.target_tasks import (
    SegmentResult,
    TargetResult,
    TargetTask,
    VerdictTask,
    run_task,
    segment_tasks,
)
from kdump.audit.run.verification import Verification
from kdump.audit.targets.context import Context
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict, keep_all

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

RUNNERS = ["workers", "targets", "pieces", pytest.param("executors", marks=pytest.mark.spark)]


def by(runner: str, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Have ``module`` verify by ``runner``; ``pieces``: each segment is a task of its own."""
    if runner == "executors":
        pytest.importorskip("pyspark")
        from support import matrix_spark

        matrix_spark.stand_in(monkeypatch.setattr)
    others = {"targets": by_targets, "pieces": _in_pieces, "executors": _by_executors}
    if runner in others:
        monkeypatch.setattr(f"{module}.verify", others[runner])


def _done(task: Any) -> Any:
    """The result of a task; both travel."""
    found = run_task(pickle.loads(pickle.dumps(task)), conclude=keep_all)
    return pickle.loads(pickle.dumps(found))


def _listed(targets: Sequence[Target]) -> Iterator[tuple[Target, Inventory]]:
    for target in [target.with_listing() for target in targets]:
        yield target, Inventory.of(target)


def by_targets(
    targets: Sequence[Target],
    *,
    deep: bool,
    jobs: int,
    rebuild: bool = False,
    context: Context | None = None,
) -> Iterator[Verdict]:
    """Verify in this process: to fork it for a small directory takes most of the time."""
    verification = Verification(context, deep, rebuild)
    for target, inventory in [*_listed(targets)]:
        found = _done(TargetTask(target.without_listing(), inventory, verification))
        assert isinstance(found, TargetResult)
        yield found.conclusion


def _in_pieces(
    targets: Sequence[Target], *, deep: bool, jobs: int, context: Context | None = None
) -> Iterator[Verdict]:
    verification = Verification(context, deep)
    for target, _ in [*_listed(targets)]:
        results = [_done(task) for task in segment_tasks(target, verification)]
        assert all(isinstance(result, SegmentResult) for result in results)
        evidence = tuple(result.evidence for result in results)
        yield _done(VerdictTask(target, evidence, (), verification))


def _by_executors(
    targets: Sequence[Target], *, deep: bool, jobs: int, context: Context | None = None
) -> Generator[Verdict, None, None]:
    from kdump.fleet.verify.verify import conclusions
    from support.matrix_spark import StandIn

    session = cast("Session", StandIn(jobs))
    return conclusions(session, [*_listed(targets)], Verification(context, deep), conclude=keep_all)
