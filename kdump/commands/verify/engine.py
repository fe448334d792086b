"""Where ``verify`` runs: the worker pool or the Spark session, behind one interface.

Both engines return the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kdump.audit.findings import Finding
from kdump.audit.run.prescan import Small, quick_pass
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.run.verify import leave_out_nothing, verify
from kdump.audit.targets.scope import Scope
from kdump.audit.verdicts.next_start import Conclusion
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import UsageError
from kdump.storage.paths import AnyPath, as_local
from kdump.storage.throttle import Pace
from kdump.ui.options.jobs import reading_jobs
from kdump.ui.options.rate import reading_rate
from kdump.ui.options.spark import SparkOptions, refuse_worker_options, spark_session
from kdump.ui.options.targets import (
    TargetOptions,
    find_scope,
    named_paths,
    note_manifests,
    refuse_manifests,
)
from kdump.ui.progress import Progress
from kdump.ui.verdicts.summary import Depth, LeftOut
from kdump.ui.version import version
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.commands.verify.unchanged import Unchanged
    from kdump.fleet.session.session import Session
    from kdump.fleet.state.directory import FleetState
    from kdump.fleet.verify.listing import FleetListing
    from kdump.ui.options.state import MemoryOptions


@frozen
class VerifyRequest:
    """The options of the command line; None without the option.

    ``scrub_state`` is the state of scrubs, for a run that leaves out what they have read. ``state``
    is that of runs on Spark, with the age in seconds of what is read again. ``statistics`` are for
    tables of runs.
    """

    targets: TargetOptions
    depth: Depth
    jobs: int | None
    limit_rate: int | None
    spark: SparkOptions
    scrub_state: Path | None = None
    state: AnyPath | None = None
    max_age_s: int = 0
    statistics: bool = False


def changed_state(memory: MemoryOptions, *, fits: bool) -> Path | None:
    """Return the state for ``--changed-since-last``, None without it.

    ``fits``: the other options of the run go with it. Raise UsageError.
    """
    from kdump.output.files import default_state

    if not memory.changed:
        return None
    if not fits:
        raise UsageError(
            "--changed-since-last: expected no --quick, --deep and Spark, because scrubs read "
            "headers and checksums of this host's logs"
        )
    return default_state() if memory.state is None else as_local(memory.state)


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

    @property
    def left_out(self) -> LeftOut | None:
        """The segments of which only the ends were read; None if all are read."""

    def directories(self) -> tuple[Finding, ...]:
        """Check the log directories themselves."""

    def verify(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        """Yield the verdict of every target, in order; ``preview`` gets that of the quick pass."""


@contextmanager
def start_engine(request: VerifyRequest, meter: Progress) -> Iterator[Engine]:
    """Yield the engine for ``request``, which reports progress to ``meter``. Raise UsageError."""
    if not request.spark.given:
        plain = request.scrub_state is None
        scope = find_scope(request.targets, stores=plain, manifests=plain)
        if request.depth == "deep":
            refuse_manifests(
                (root.path for root in scope.roots), "it holds no records; verify it without --deep"
            )
        note_manifests(scope)
        if request.scrub_state is None:
            yield _Local(request, meter, scope, None)
            return
        from kdump.commands.verify.unchanged import Unchanged
        from kdump.history.state_file import read_state
        from kdump.output.files import reading_rights

        with read_state(request.scrub_state, reading_rights(request.scrub_state)) as state:
            yield _Local(request, meter, scope, Unchanged(state, scope))
        return
    with _start_fleet(request, meter) as engine:
        yield engine


@contextmanager
def _start_fleet(request: VerifyRequest, meter: Progress) -> Iterator[Engine]:
    refuse_worker_options(request.jobs, request.limit_rate)
    paths, settings = named_paths(request.targets)
    refuse_manifests(paths, "verify it without Spark")
    seen = paths if request.state is None else (*paths, request.state)
    starting = spark_session(request.spark, seen)  # what it refuses leaves no state
    state = None
    if request.state is not None:
        from kdump.fleet.state.directory import open_state

        state = open_state(request.state, paths, request.max_age_s, version())
    with starting as session:
        from kdump.fleet.verify.listing import list_paths

        listing = list_paths(session, paths, settings, request.targets.topic_selection)
        yield _Fleet(request, listing, meter, session, state)


class _Local:
    def __init__(
        self, request: VerifyRequest, meter: Progress, scope: Scope, unchanged: Unchanged | None
    ) -> None:
        self._depth = request.depth
        self._statistics = request.statistics
        self._meter = meter
        self._unchanged = unchanged
        self.scope = scope
        self.jobs = reading_jobs(request.jobs, self.scope.targets)
        self.limit_rate = reading_rate(request.limit_rate, self.scope.targets)
        self.pace = Pace(self.limit_rate) if self.limit_rate else None
        self.total_bytes = 0

    @property
    def left_out(self) -> LeftOut | None:
        unchanged = self._unchanged
        return None if unchanged is None else LeftOut(unchanged.segments, unchanged.log_bytes)

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
        if self._depth == "quick" or self.pace is not None or self._unchanged is not None:
            small = Small.ENDS
        verdict_by_number: dict[int, Verdict] = {}
        self._meter.expect(len(targets), "partitions")
        verdicts = quick_pass(
            targets,
            context,
            jobs=self.jobs,
            small=small,
            statistics=self._statistics,
            conclude=glance,
        )
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
            statistics=self._statistics,
            context=context,
            known=verdict_by_number,
            conclude=conclude,
            pace=self.pace,
            on_progress=self._meter.advance,
            left_out=self._unchanged or leave_out_nothing,
        )


class _Fleet:
    def __init__(
        self,
        request: VerifyRequest,
        listing: FleetListing,
        meter: Progress,
        session: Session,
        state: FleetState | None,
    ) -> None:
        self._depth = request.depth
        self._statistics = request.statistics
        self._listing = listing
        self._meter = meter
        self._session = session
        self._state = None if state is None else state.of(listing.scope.roots)
        self.scope = listing.scope
        self.jobs = session.cores
        self.limit_rate = 0
        self.pace: Pace | None = None
        self.left_out = None
        self.total_bytes = listing.total_bytes

    def directories(self) -> tuple[Finding, ...]:
        return self._listing.findings

    def verify(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        from kdump.fleet.verify.verify import quick_pass, verify

        targets, inventories = self._listing.targets, self._listing.inventories
        context = self.scope.context
        if self._depth == "quick":
            self._meter.expect(len(targets), "partitions")
            verdicts = quick_pass(
                self._session,
                targets,
                inventories,
                context,
                statistics=self._statistics,
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
            statistics=self._statistics,
            context=context,
            state=self._state,
            conclude=conclude,
            on_progress=self._meter.advance,
        )
