"""The worker pool or the Spark session that ``verify`` runs on.

Both engines come to the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kdump.audit.findings import Finding
from kdump.audit.run.prescan import Small, quick_pass
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.run.verify import beside_broker, verify
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Selection
from kdump.audit.verdicts.next_start import Conclusion
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.options.spark import spark_session
from kdump.cli.options.targets import find_scope, named_paths
from kdump.cli.ui.progress import Progress
from kdump.cli.views.verify.summary import Depth
from kdump.errors import UsageError
from kdump.storage.throttle import LIVE_RATE, Pace
from kdump.storage.workers import default_jobs

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session
    from kdump.fleet.verify.listing import Listed


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asked for, as the command line has it; None where nobody said."""

    paths: Sequence[Path]
    config: Path | None
    topics: Sequence[str]
    excluded: Sequence[str]
    depth: Depth
    jobs: int | None
    limit_rate: int | None
    master: str | None
    remote: str | None


class Engine(Protocol):
    """Lists what there is as soon as it is made, and then judges that.

    ``jobs`` tasks are done at a time, which read ``limit_rate`` bytes a second together, 0 for any
    number. ``total_bytes`` is what the logs have, as far as that is known yet.
    """

    scope: Scope
    jobs: int
    limit_rate: int
    total_bytes: int

    def directories(self) -> tuple[Finding, ...]:
        """Judge the log directories themselves."""

    def judge(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        """Judge every group, in order; ``preview`` gets what a first look shows of each."""


@contextmanager
def engine(asked: Asked, shown: Progress) -> Iterator[Engine]:
    """Start the engine that was asked for; progress is ``shown``. Raises UsageError."""
    if asked.master is None and asked.remote is None:
        yield _Here(asked, shown)
        return
    if asked.jobs is not None:
        raise UsageError("--jobs: expected --master 'local[N]' for N tasks at a time, found both")
    if asked.limit_rate:
        raise UsageError("--limit-rate: expected no limit on Spark, because hosts share no rate")
    paths, settings = named_paths(asked.paths, asked.config)
    with spark_session(asked.master, asked.remote, paths) as session:
        from kdump.fleet.verify.listing import find

        selection = Selection(tuple(asked.topics), tuple(asked.excluded))
        listed = find(session, paths, settings, selection)
        yield _Fleet(asked.depth, listed, shown, session)


class _Here:
    def __init__(self, asked: Asked, shown: Progress) -> None:
        self._depth = asked.depth
        self._shown = shown
        self.scope = find_scope(asked.paths, asked.config, asked.topics, asked.excluded)
        live = beside_broker(self.scope.targets)
        self.jobs = asked.jobs or (1 if live else default_jobs())
        self.limit_rate = asked.limit_rate or 0
        if asked.limit_rate is None and live:
            self.limit_rate = LIVE_RATE
        self.total_bytes = 0

    def directories(self) -> tuple[Finding, ...]:
        return reconcile_directories(self.scope.context)

    def judge(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        def glance(one: Verdict) -> Verdict:
            last = self._depth == "quick" or not one.quick
            return conclude(one) if last else one.preview()

        targets, context = self.scope.targets, self.scope.context
        pace = Pace(self.limit_rate) if self.limit_rate else None
        small = Small.RECORDS if self._depth == "deep" else Small.HEADERS
        if self._depth == "quick" or pace is not None:
            small = Small.ENDS
        known: dict[int, Verdict] = {}
        self._shown.expect(len(targets), "partitions")
        looked = quick_pass(targets, context, jobs=self.jobs, small=small, conclude=glance)
        with closing(looked):
            for number, one in enumerate(looked):
                preview(one)
                self._shown.advance(1)
                self.total_bytes += one.covered.size
                if self._depth == "quick":
                    yield one
                elif not one.quick:
                    known[number] = one
        if self._depth == "quick":
            return
        read_bytes = sum(one.covered.size for one in known.values())
        self._shown.expect(self.total_bytes - read_bytes)
        yield from verify(
            targets,
            deep=self._depth == "deep",
            jobs=self.jobs,
            context=context,
            known=known,
            conclude=conclude,
            pace=pace,
            on_progress=self._shown.advance,
        )


class _Fleet:
    def __init__(self, depth: Depth, listed: Listed, shown: Progress, session: Session) -> None:
        self._depth = depth
        self._listed = listed
        self._shown = shown
        self._session = session
        self.scope = listed.scope
        self.jobs = session.cores
        self.limit_rate = 0
        self.total_bytes = listed.total_bytes

    def directories(self) -> tuple[Finding, ...]:
        return self._listed.findings

    def judge(
        self, conclude: Conclusion, preview: Callable[[Verdict], None]
    ) -> Generator[Verdict, None, None]:
        from kdump.fleet.verify.verify import quick_pass, verify

        targets, inventories = self.scope.targets, self._listed.inventories
        context = self.scope.context
        if self._depth == "quick":
            self._shown.expect(len(targets), "partitions")
            looked = quick_pass(
                self._session,
                targets,
                inventories,
                context,
                conclude=conclude,
                on_progress=self._shown.advance,
            )
            for one in looked:
                preview(one)
                yield one
            return
        self._shown.expect(self.total_bytes)
        yield from verify(
            self._session,
            targets,
            inventories,
            deep=self._depth == "deep",
            context=context,
            conclude=conclude,
            on_progress=self._shown.advance,
        )
