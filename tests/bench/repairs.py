"""Measures repairs: building indexes anew, and cutting a torn tail off.

Times are those on the wall: of whole processes for ``reindex`` and ``verify``, of ``apply`` alone
for a cut, of which planning has read everything before.

Spec: a broker's recovery is that of ``LogLoader``, asked of the oracle, whose JVM is warm by then.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from bench.commands import KAFKA, PROCESS_REPEATS, kdump
from bench.report import Row
from bench.segments import KIB, MIB, Made, Shape, write
from bench.timing import best, process
from brokers.oracle import Loaded, Oracle
from kdump.audit.run.verify import verify
from kdump.audit.targets.context import read_context
from kdump.audit.targets.target import assign, open_roots
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.plan import Plan
from kdump.repair.transaction.undo import newest_repair, undo
from kdump.repair.truncation.plan import plan_truncate
from kdump.storage.repair_record import FOLDERS

_REINDEX_TIMES = 1.3
_CUT_TIMES = 1.5
_CUT_MS = 500.0
#: How much of the last batch is missing.
_TORN_BYTES = 100
#: The sound parts of the two logs that are cut.
_SHARES = (0.125, 2.0)
_RECOVERY_SECONDS = 600.0


def measure_reindex(directory: Path, size_bytes: int, repeat: int) -> Row:
    """``reindex --apply`` of a segment without indexes, beside the ``verify`` of it."""
    made = _partition(directory, 2 * size_bytes)
    ours, limit = _reindexed(made, repeat, process(kdump("verify", made.path.parent)))
    against = f"verify of {made.size >> 20} MiB {limit:.2f} s"
    return Row("reindex", f"{ours:.2f} s", against, ours / limit, most=_REINDEX_TIMES)


def measure_recovery(directory: Path, size_bytes: int) -> Row:
    """The same beside a broker's own recovery of it, which rebuilds the indexes too."""
    made = _partition(directory, 2 * size_bytes)
    small = _partition(directory / "warm", MIB)
    with Oracle(KAFKA, _RECOVERY_SECONDS) as oracle:

        def recover(partition: Path) -> None:
            loaded = oracle.load(partition)
            if not isinstance(loaded, Loaded):
                raise RuntimeError(f"expected {partition} to be loaded, found {loaded}")

        recover(small.path.parent)
        ours, theirs = _reindexed(made, PROCESS_REPEATS, lambda: recover(made.path.parent))
    against = f"recovery of {KAFKA} {theirs:.2f} s"
    return Row("reindex recovery", f"{ours:.2f} s", against, theirs / ours)


def measure_cut(directory: Path, size_bytes: int, repeat: int) -> Row:
    """A torn tail cut off a large log, beside the same of a small one."""
    (small, _), (large, size) = _cuts(directory, size_bytes, repeat)
    against = f"a sixteenth of {size >> 20} MiB {small * 1e3:.1f} ms"
    return Row("cut", f"{large * 1e3:.1f} ms", against, large / small, most=_CUT_TIMES)


def measure_cut_time(directory: Path, size_bytes: int, repeat: int) -> Row:
    """A torn tail cut off a large log."""
    _, (took, size) = _cuts(directory, size_bytes, repeat)
    spent, against = f"{took * 1e3:.1f} ms", f"{size >> 20} MiB"
    return Row("cut time", spent, against, took * 1e3, "ms", most=_CUT_MS)


def _reindexed(made: Made, repeat: int, other: Callable[[], object]) -> tuple[float, float]:
    """How long ``reindex`` took, each time without indexes, and how long ``other``."""
    partition = made.path.parent

    def forget() -> None:
        shutil.rmtree(partition / FOLDERS, ignore_errors=True)
        for suffix in (".index", ".timeindex"):
            made.path.with_suffix(suffix).unlink(missing_ok=True)

    reindex = process(kdump("reindex", "--apply", partition))
    _, ours, theirs = best(repeat, forget, reindex, other)
    return ours, theirs


def _cuts(directory: Path, size_bytes: int, repeat: int) -> list[tuple[float, int]]:
    """Of both logs how long ``apply`` took for the cut, and their sizes."""
    plans = [_torn(directory / f"{share}", int(share * size_bytes)) for share in _SHARES]

    def back(plan: Plan) -> None:
        one = newest_repair(plan.partition)
        if one is None:
            raise RuntimeError(f"expected a backup in {plan.partition}, found none")
        undo(one, plan.partition, None, assume_stopped=True)

    small, large = plans
    took = best(
        repeat,
        lambda: apply(small, assume_stopped=True),
        lambda: apply(large, assume_stopped=True),
        lambda: back(small),
        lambda: back(large),
    )
    sizes = (sum(one.size for one in plan.files.values()) for plan in plans)
    return list(zip(took, sizes, strict=False))


def _torn(directory: Path, size_bytes: int) -> Plan:
    """The plan of a cut of a log whose last batch is torn."""
    made = _partition(directory, size_bytes)
    with made.path.open("r+b") as file:
        file.truncate(made.size - _TORN_BYTES)
    roots = list(open_roots([made.path.parent]))
    targets = [target for root in roots for target in assign(root)]
    (verdict,) = verify(targets, deep=False, jobs=1, context=read_context((), None, 0))
    plan = plan_truncate(verdict, at=None, arguments=())
    if len(plan.cuts) != 1:
        raise RuntimeError(f"expected one cut of {made.path}, found {plan.steps}")
    return plan


def _partition(directory: Path, size_bytes: int) -> Made:
    """A partition of one segment of 100-byte records."""
    partition = directory / "bench-0"
    partition.mkdir(parents=True)
    return write(Shape(100, 16 * KIB), partition, size_bytes)
