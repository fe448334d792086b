"""``kdump compare``: the copies of partitions on several brokers.

Spec: KIP-101, KIP-279, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.rate import rate_option, reading_rate
from kdump.ui.options.reports import format_option, wide_option
from kdump.ui.options.spark import (
    SparkOptions,
    refuse_worker_options,
    spark_options,
    spark_session,
)
from kdump.ui.options.targets import (
    TargetOptions,
    find_read_scope,
    named_paths,
    note_manifests,
    say_unreadable,
    target_options,
)
from kdump.ui.progress import progress_option
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.audit.commands import Remedy
    from kdump.audit.targets.scope import Scope
    from kdump.copies.comparison import Comparison
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Compare the replicas of partitions on several brokers.",
    epilog="Exit codes: 0 the replicas are equal, or some lag; 2 wrong usage; 4 replicas differ, "
    "or one is corrupt; 5 something could not be read, which comes before 4; "
    "130, 143 ended by a signal; 141 the reader of the output went away.",
)
@click.option("--all", "everything", is_flag=True, help="Show equal partitions too.")
@format_option(
    "Text for people, or JSON Lines of all partitions; html is the text as one file, with "
    "pictures.",
    "html",
)
@wide_option
@jobs_option()
@rate_option("Default: 50MB while a broker runs, else none. On Spark only none.")
@progress_option
@spark_options
@target_options
def compare(
    targets: TargetOptions,
    everything: bool,
    form: Literal["text", "json", "html"],
    wide: bool,
    jobs: int | None,
    limit_rate: int | None,
    progress: Mode,
    spark: SparkOptions,
) -> int:
    """Compare the replicas of partitions at PATH, and show what others truncate for each leader.

    PATH is a log directory or a partition, on this machine or in an object store, or a manifest.
    Several PATHs are the disks of several brokers, or backups of one broker. Logs of the same topic
    and partition are replicas. If their topic ids differ, the topic was deleted and created again,
    and they are not compared with each other.

    For each replica, kdump shows the last leader epoch, the start and end offsets after the next
    startup, the high watermark and the corruption. CHOICE is the order in which an unclean election
    should prefer the replicas: by the last leader epoch, then by the end offset. ISR comes from the
    newest metadata log at PATH. kdump shows the first offset at which two replicas differ, by their
    leader epochs and by their batches, and the offsets that one replica alone holds. For each
    replica as the leader, it shows the offset to which each follower truncates its log. It compares
    the records of compacted topics at the offsets that both replicas still hold.

    On Spark, executors read the replicas; only epochs, offsets and digests travel.

    A shorter replica that is the beginning of a longer one lags; that is no difference. compare
    changes nothing, and can run while a broker is running: the end offsets then soon change.
    """
    from kdump.commands.compare.report import JsonComparisons, TextComparisons
    from kdump.ui.progress import Progress

    report: TextComparisons | JsonComparisons
    with (
        Progress(progress) as meter,
        _find_copies(targets, spark, jobs=jobs, limit_rate=limit_rate) as copies,
    ):
        if form == "json":
            report = JsonComparisons(click.echo, [root.path for root in copies.scope.roots])
        else:
            text = TextComparisons
            if form == "html":
                from kdump.commands.compare.html import HtmlComparisons

                text = HtmlComparisons
            report = text(click.echo, _again(targets), everything=everything, wide=wide)
        meter.expect(copies.size)
        try:
            with closing(copies.compare(meter.advance)) as found:
                for comparison in found:
                    with meter.paused():
                        report.add(comparison)
        except BaseException:  # a signal, or what could not be read: say what is known so far
            with meter.paused():
                report.finish(interrupted=True)
            raise
    return report.finish()


def _again(targets: TargetOptions) -> Remedy:
    """Return the command that compares the same copies once more."""
    from kdump.format.lines.shell import operand

    return "kdump", "compare", *targets.words, *map(operand, targets.paths)


@frozen
class _Copies:
    """The copies at the paths: the bytes of their logs, and what compares them.

    ``compare`` gets what counts of bytes that were read are reported to.
    """

    scope: Scope
    size: int
    compare: Callable[[Callable[[int], None]], Generator[Comparison, None, None]]


@contextmanager
def _find_copies(
    targets: TargetOptions, spark: SparkOptions, *, jobs: int | None, limit_rate: int | None
) -> Iterator[_Copies]:
    """Find the copies at the paths, here or on Spark."""
    if not spark.given:
        yield _copies_here(targets, jobs, limit_rate)
        return
    refuse_worker_options(jobs, limit_rate)
    paths, settings = named_paths(targets)
    with spark_session(spark, paths) as session:
        from kdump.copies.reading import CopyStages, group_copies, identities
        from kdump.fleet.job.spread import run_single
        from kdump.fleet.verify.groups import GroupsOnSpark
        from kdump.fleet.verify.listing import list_paths

        listing = list_paths(session, paths, settings, targets.topic_selection, manifests=True)
        scope = say_unreadable(listing.scope)
        note_manifests(scope)
        groups = group_copies(scope, partial(run_single, session, identities))
        compared = {number for group in groups for number in group.numbers}
        size = sum(target.size for number, target in enumerate(scope.targets) if number in compared)
        run = GroupsOnSpark(session, listing)
        yield _Copies(scope, size, partial(run, CopyStages.of(scope), groups))


def _copies_here(targets: TargetOptions, jobs: int | None, limit_rate: int | None) -> _Copies:
    from kdump.audit.run.groups import GroupWorkers
    from kdump.copies.reading import CopyStages, group_copies
    from kdump.storage.throttle import Pace

    scope = find_read_scope(targets, manifests=True)
    note_manifests(scope)
    groups = group_copies(scope)
    rate = reading_rate(limit_rate, scope.targets)
    found = scope.targets
    run = GroupWorkers(
        found,
        scope.context,
        reading_jobs(jobs, found),
        Pace(rate) if rate else None,
    )
    size = sum(found[number].with_listing().size for group in groups for number in group.numbers)
    return _Copies(scope, size, partial(run, CopyStages.of(scope), groups))
