"""``kdump compare``: the copies of partitions on several brokers.

Spec: KIP-101, KIP-279, KIP-966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from kdump.cli.options.jobs import jobs_option, reading_jobs
from kdump.cli.options.rate import rate_option, reading_rate
from kdump.cli.options.reports import format_option
from kdump.cli.options.targets import (
    TargetOptions,
    find_read_scope,
    note_manifests,
    target_options,
)
from kdump.cli.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.cli.ui.progress import Mode


@click.command(
    short_help="Compare the copies of partitions on several brokers.",
    epilog="Exit codes: 0 the copies are equal, or some lag behind; 2 wrong usage; 4 copies "
    "differ, or one is damaged; 5 something could not be read, which comes before 4; "
    "130, 143 ended by a signal; 141 the reader of the output went away.",
)
@click.option("--all", "everything", is_flag=True, help="Show partitions with equal copies too.")
@format_option("Text for people, or JSON Lines of all partitions.")
@jobs_option()
@rate_option("Default: 50MB beside a running broker, else none.")
@progress_option
@target_options
def compare(
    targets: TargetOptions,
    everything: bool,
    form: Literal["text", "json"],
    jobs: int | None,
    limit_rate: int | None,
    progress: Mode,
) -> int:
    """Compare the copies of partitions at PATH, and show what each leader would cut from others.

    PATH is a log directory or a partition, of this machine or in an object store, or a manifest;
    several are the disks of several brokers, or backups of one. Copies are those of one topic and
    partition; if their topic ids differ, the topic was deleted and created again, and they are not
    compared with each other.

    Each copy has its last leader epoch, its start and end after the next start, its high watermark
    and its damage. CHOICE is the order in which an unclean election should prefer the copies: by
    the last leader epoch, then by the end. ISR comes from the newest metadata log at PATH. kdump
    shows the first offset at which two copies differ, by their leader epochs and by their batches,
    which copy alone holds which offsets, and the offset to which each follower truncates its log,
    for each copy as the leader. The records of compacted topics are compared at the offsets that
    both copies still hold.

    A shorter copy that is the beginning of the longer one lags; that is no difference. It changes
    nothing, and can run beside a broker: of live copies the ends are those of the moment.
    """
    from kdump.cli.ui.progress import Progress
    from kdump.cli.views.compare.json_lines import JsonComparisons
    from kdump.cli.views.compare.text import TextComparisons
    from kdump.copies.reading import compare_copies, group_copies
    from kdump.storage.throttle import Pace

    scope = find_read_scope(targets, manifests=True)
    note_manifests(scope)
    groups = group_copies(scope)
    report: TextComparisons | JsonComparisons
    if form == "json":
        report = JsonComparisons(click.echo, [root.path for root in scope.roots])
    else:
        report = TextComparisons(click.echo, everything=everything)
    rate = reading_rate(limit_rate, scope.targets)
    with Progress(progress) as meter:
        meter.expect(sum(target.with_listing().size for group in groups for target in group))
        found = compare_copies(
            groups,
            scope,
            jobs=reading_jobs(jobs, scope.targets),
            pace=Pace(rate) if rate else None,
            on_progress=meter.advance,
        )
        for comparison in found:
            with meter.paused():
                report.add(comparison)
    return report.finish()
