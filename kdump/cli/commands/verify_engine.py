"""Where ``verify`` runs: the worker pool or the Spark session, behind one interface.

Both engines return the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from kdump.audit.findings import Finding
from kdump.audit.run.prescan import Small, quick_pass
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.run.verify import beside_broker, verify
from kdump.audit.targets.scope import Scope
from kdump.audit.verdicts.next_start import Conclusion
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.options.jobs import reading_jobs
from kdump.cli.options.spark import SparkOptions, spark_session
from kdump.cli.options.targets import TargetOptions, find_scope, named_paths
from kdump.cli.ui.progress import Progress
from kdump.cli.views.verify.summary import Depth
from kdump.errors import UsageError
from kdump.storage.throttle import LIVE_RATE, Pace
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session
    from kdump.fleet.verify.listing import Listing


@frozen
class Request:
    """The options of the command line; None without the option."""

    targets: TargetOptions
    depth: Depth
    jobs: int | None
    limit_rate: int | None
    spark: SparkOptions


class Engine(Protocol):
    """Lists partitions when it is created, and then verifies them.

    ``jobs`` tasks run at a time. Together they read at most ``limit_rate`` bytes a second, 0 for no
    limit, to which ``pace`` keeps. ``total_bytes`` is the size of the logs, as far as it is known.
    """

    scope: Scope
    jobs: int
    limit_rate: int
    pace: Pace | None
    total_bytes: int

    def directories(self) -> tuple[Finding, ...]:
        """Check the log directories themselves."""

    def verify(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        """Yield the verdict of every target, in order; ``preview`` gets that of the quick pass."""


@contextmanager
def start_engine(request: Request, meter: Progress) -> Iterator[Engine]:
    """Yield the engine for ``request``, which reports progress to ``meter``. Raise UsageError."""
    if not request.spark.given:
        yield _Local(request, meter)
        return
    if request.jobs is not None:
        raise UsageError("--jobs: expected --master 'local[N]' for N tasks at a time, found both")
    if request.limit_rate:
        raise UsageError("--limit-rate: expected no limit on Spark, because hosts share no rate")
    paths, settings = named_paths(request.targets)
    with spark_session(request.spark, paths) as session:
        from kdump.fleet.verify.listing import list_paths

        listing = list_paths(session, paths, settings, request.targets.topic_selection)
        yield _Fleet(request.depth, listing, meter, session)


class _Local:
    def __init__(self, request: Request, meter: Progress) -> None:
        self._depth = request.depth
        self._meter = meter
        self.scope = find_scope(request.targets)
        live = beside_broker(self.scope.targets)
        self.jobs = reading_jobs(request.jobs, self.scope.targets)
        self.limit_rate = request.limit_rate or 0
        if request.limit_rate is None and live:
            self.limit_rate = LIVE_RATE
        self.pace = Pace(self.limit_rate) if self.limit_rate else None
        self.total_bytes = 0

    def directories(self) -> tuple[Finding, ...]:
        return reconcile_directories(self.scope.context)

    def verify(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        def glance(verdict: Verdict) -> Verdict:
            last = self._depth == "quick" or not verdict.quick
            return conclude(verdict) if last else verdict.preview()

        targets, context = self.scope.targets, self.scope.context
        small = Small.RECORDS if self._depth == "deep" else Small.HEADERS
        if self._depth == "quick" or self.pace is not None:
            small = Small.ENDS
        verdict_by_number: dict[int, Verdict] = {}
        self._meter.expect(len(targets), "partitions")
        verdicts = quick_pass(targets, context, jobs=self.jobs, small=small, conclude=glance)
        with closing(verdicts):
            for number, verdict in enumerate(verdicts):
                preview(verdict)
                self._meter.advance(1)
                self.total_bytes += verdict.covered.size
                if self._depth == "quick":
                    yield verdict
                elif not verdict.quick:
                    verdict_by_number[number] = verdict
        if self._depth == "quick":
            return
        read_bytes = sum(verdict.covered.size for verdict in verdict_by_number.values())
        self._meter.expect(self.total_bytes - read_bytes)
        yield from verify(
            targets,
            deep=self._depth == "deep",
            jobs=self.jobs,
            context=context,
            known=verdict_by_number,
            conclude=conclude,
            pace=self.pace,
            on_progress=self._meter.advance,
        )


class _Fleet:
    def __init__(self, depth: Depth, listing: Listing, meter: Progress, session: Session) -> None:
        self._depth = depth
        self._listing = listing
        self._meter = meter
        self._session = session
        self.scope = listing.scope
        self.jobs = session.cores
        self.limit_rate = 0
        self.pace: Pace | None = None
        self.total_bytes = listing.total_bytes

    def directories(self) -> tuple[Finding, ...]:
        return self._listing.findings

    def verify(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        from kdump.fleet.verify.verify import quick_pass, verify

        targets, inventories = self.scope.targets, self._listing.inventories
        context = self.scope.context
        if self._depth == "quick":
            self._meter.expect(len(targets), "partitions")
            verdicts = quick_pass(
                self._session,
                targets,
                inventories,
                context,
                conclude=conclude,
                on_progress=self._meter.advance,
            )
            for verdict in verdicts:
                preview(verdict)
                yield verdict
            return
        self._meter.expect(self.total_bytes)
        yield from verify(
            self._session,
            targets,
            inventories,
            deep=self._depth == "deep",
            context=context,
            conclude=conclude,
            on_progress=self._meter.advance,
        )
