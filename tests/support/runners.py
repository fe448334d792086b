"""Who carries a verification out: workers, or executors, whose tasks this process does."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, cast

import pytest

from kdump.audit.run.verification import Verification
from kdump.audit.targets.context import Context
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict, keep_all

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

RUNNERS = [
    "workers",
    pytest.param("executors", marks=pytest.mark.spark),
    pytest.param("pieces", marks=pytest.mark.spark),
]


def by(runner: str, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Have ``module`` verify by ``runner``; ``pieces``: each segment is a task of its own."""
    if runner == "workers":
        return
    pytest.importorskip("pyspark")
    from support import matrix_spark

    matrix_spark.stand_in(monkeypatch.setattr)
    monkeypatch.setattr(f"{module}.verify", by_executors)
    if runner == "pieces":
        monkeypatch.setattr("kdump.fleet.verify.verify.max_task_bytes", lambda *_: 0)


def by_executors(
    targets: Sequence[Target], *, deep: bool, jobs: int, context: Context | None = None
) -> Generator[Verdict, None, None]:
    """In the place of ``verify``."""
    from kdump.fleet.verify.verify import conclusions
    from support.matrix_spark import StandIn

    listed = [target.with_listing() for target in targets]
    pairs = [(target, Inventory.of(target)) for target in listed]
    session = cast("Session", StandIn(jobs))
    return conclusions(session, pairs, Verification(context, deep), conclude=keep_all)
