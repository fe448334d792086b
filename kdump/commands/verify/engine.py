"""Where ``verify`` runs: in workers of this process or on Spark; both return the same findings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from kdump.fleet.verify.listing import FleetListing
    from kdump.history.evidence.directory import FleetState
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


@dataclass(slots=True)
class Engine:
    """Verifies the partitions of ``scope``; workers carry out its passes, or Spark.

    ``jobs`` tasks run at a time. Together they read at most ``limit_rate`` bytes a second, 0 for no
    limit, to which ``pace`` keeps. ``total_bytes`` is the size of the logs, as far as it is known.
    ``listed``: it is known from the start. Otherwise the quick pass finds it, which then also comes
    before the full pass, and leaves in ``known`` the verdicts that the full pass need not make.
    ``directories`` checks the log directories themselves.
    """

    depth: Depth
    meter: Progress
    scope: Scope
    directories: Callable[[], tuple[Finding, ...]]
    quick_pass: Callable[..., Generator[Verdict, None, None]]
    full_pass: Callable[..., Generator[Verdict, None, None]]
    jobs: int
    known: dict[int, Verdict] = field(default_factory=dict)
    listed: bool = False
    total_bytes: int = 0
    limit_rate: int = 0
    pace: Pace | None = None
    unchanged: Unchanged | None = None

    @property
    def left_out(self) -> LeftOut | None:
        """The segments of which only the ends were read; None if all are read."""
        unchanged = self.unchanged
        return None if unchanged is None else LeftOut(unchanged.segments, unchanged.log_bytes)

    def verify(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        """Yield the verdict of every target, in order; ``preview`` gets that of the quick pass."""

        def glance(verdict: Verdict) -> Verdict:
            return verdict.preview() if verdict.quick else conclude(verdict)

        quick, counting = self.depth == "quick", not self.listed
        if quick or counting:
            self.meter.expect(self.scope.count, "partitions")
            with closing(self.quick_pass(conclude=conclude if quick else glance)) as verdicts:
                for number, verdict in enumerate(verdicts):
                    preview(verdict)
                    if counting:
                        self.meter.advance(1)
                        self.total_bytes += verdict.covered.size
                    if quick:
                        yield verdict
                    elif not verdict.quick:
                        self.known[number] = verdict
        if not quick:
            read_bytes = sum(verdict.covered.size for verdict in self.known.values())
            self.meter.expect(self.total_bytes - read_bytes)
            yield from self.full_pass(conclude=conclude, on_progress=self.meter.advance)


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
            yield _in_workers(request, meter, scope)
            return
        from kdump.commands.verify.unchanged import Unchanged
        from kdump.history.state_file import read_state
        from kdump.output.files import reading_rights

        with read_state(request.scrub_state, reading_rights(request.scrub_state)) as state:
            yield _in_workers(request, meter, scope, Unchanged(state, scope))
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
        from kdump.history.evidence.directory import open_state

        state = open_state(request.state, paths, request.max_age_s, version())
    with starting as session:
        from kdump.fleet.verify.listing import list_paths

        listing = list_paths(session, paths, settings, request.targets.topic_selection)
        yield _on_spark(request, meter, listing, session, state)


def _in_workers(
    request: VerifyRequest, meter: Progress, scope: Scope, unchanged: Unchanged | None = None
) -> Engine:
    targets, context, depth = scope.targets, scope.context, request.depth
    jobs = reading_jobs(request.jobs, targets)
    limit_rate = reading_rate(request.limit_rate, targets)
    pace = Pace(limit_rate) if limit_rate else None
    small = Small.RECORDS if depth == "deep" else Small.HEADERS
    if depth == "quick" or pace is not None or unchanged is not None:
        small = Small.ENDS
    # Fills up in the quick pass, before the full pass begins.
    known: dict[int, Verdict] = {}
    shared: dict[str, Any] = {"jobs": jobs, "statistics": request.statistics}
    return Engine(
        depth,
        meter,
        scope,
        partial(reconcile_directories, context),
        partial(quick_pass, targets, context, small=small, **shared),
        partial(
            verify,
            targets,
            deep=depth == "deep",
            context=context,
            known=known,
            pace=pace,
            left_out=unchanged or leave_out_nothing,
            **shared,
        ),
        jobs,
        known,
        limit_rate=limit_rate,
        pace=pace,
        unchanged=unchanged,
    )


def _on_spark(
    request: VerifyRequest,
    meter: Progress,
    listing: FleetListing,
    session: Session,
    state: FleetState | None,
) -> Engine:
    from kdump.fleet.verify.verify import quick_pass, verify

    scope = listing.scope
    given = session, listing.pairs
    shared: dict[str, Any] = {"context": scope.context, "statistics": request.statistics}
    return Engine(
        request.depth,
        meter,
        scope,
        lambda: listing.findings,
        partial(quick_pass, *given, on_progress=meter.advance, **shared),
        partial(
            verify,
            *given,
            deep=request.depth == "deep",
            state=None if state is None else state.of(scope.roots),
            **shared,
        ),
        session.cores,
        listed=True,
        total_bytes=listing.total_bytes,
    )
