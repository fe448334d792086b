"""``kdump space``: what takes the space of log directories, and what retention frees.

Spec: ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.rate import rate_option, reading_rate
from kdump.ui.options.reports import format_option, wide_option
from kdump.ui.options.targets import TargetOptions, find_read_scope, target_options
from kdump.ui.options.values import read_size
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Show what takes the space, and what retention frees.",
    epilog="Exit codes: 0 shown; 2 wrong usage; 5 something could not be read; 130, 143 ended by a "
    "signal; 141 the reader of the output went away.",
)
@click.option(
    "--free",
    metavar="SIZE",
    callback=read_size,
    help="Print commands of Kafka that set a shorter retention, and free this much, such as 20GB. "
    "The oldest records of all topics go first, on all replicas.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(["bytes", "name", "due", "growth", "age"]),
    default="bytes",
    show_default=True,
    help="The order of topics: the largest first, by name, those with the most bytes that are due, "
    "those that grew most in the last day, or those with the oldest record first.",
)
@click.option(
    "--sample",
    "sampled",
    is_flag=True,
    help="Read 4 MiB of each topic, spread over its logs, and show its compression type with the "
    "ratio (TYPE), and what zstd would make of its logs, as an estimate (AS ZSTD).",
)
@rate_option("Only with --sample. Default: 50MB while a broker runs, else none.")
@format_option("Tables for people, or JSON Lines.")
@wide_option
@jobs_option()
@progress_option
@target_options
def space(
    targets: TargetOptions,
    free: int | None,
    order: str,
    sampled: bool,
    limit_rate: int | None,
    form: Literal["text", "json"],
    wide: bool,
    jobs: int | None,
    progress: Mode,
) -> int:
    """Show what takes the space of the log directories at PATH, and what retention frees.

    kdump lists topics by size, with what came in the last day (A DAY), the age of the first record,
    what retention deletes at the next check of a broker (DUE), and what holds the rest: the age of
    the records, timestamps in the future, the high watermark, a segment that is not yet in remote
    storage, or no retention at all. It lists what belongs to no log, and whether that may go.

    Sizes are the bytes that the file system has allocated. Files with other hard links count as 0,
    since deleting them frees nothing. Removed files that a process still has open are named with
    it: only its end frees their space. Extents that files share (reflinks), and snapshots of a
    volume, cannot be seen. Retention decides by segments: it deletes a segment once its
    newest record is too old, so that a segment with one timestamp in the future holds all later
    ones. The configs of topics come from the metadata log; without it, nothing counts as due.
    Without --config, a topic that sets no retention is taken to have the default of Kafka, 7 days.

    Of compacted topics, kdump says which partition the cleaner takes next, and what keeps it from
    the others: the dirty ratio, a compaction lag, the active segment, the high watermark, an open
    transaction, a move, or log.cleaner.enable. Dirty bytes are those that the broker compares with
    min.cleanable.dirty.ratio. How much cleaning frees is unknown: the keys decide. Tombstones go in
    a cleaning that comes delete.retention.ms after the first one that has reached them.

    At the rates of the last day and the last week, kdump forecasts when the file system is full.
    It takes into account what retention will delete in that time. Compacted topics count as not
    growing.

    With --free, kdump prints the retention that frees so much beyond what is due. It takes the
    oldest records of all topics with retention, or of those that --topic selects, and none that is
    younger than an hour. Topics that are compacted or have remote storage, and internal topics, are
    left as they are. Each command has one that restores the configs of the topic. The broker has to
    run: it deletes segments at its next check, and so do all other brokers with replicas.

    With --sample, kdump reads batches at 32 places that are spread over the logs of each topic, 128
    KiB or one batch at each, past the page cache; topics of less than 4 MiB as a whole. It
    decompresses them, and compresses each anew with zstd at level 3, which is the default of
    compression.zstd.level. AS ZSTD is what the logs would take then, ± twice the standard error. In
    tests, the logs of a topic whose content changes from segment to segment were compressed anew as
    a whole: the estimates were at most 5 % off, and 19 of 20 within that error. A broker with
    compression.type=zstd compresses what is written from then on: what is there stays as it is.
    Batches of message formats v0 and v1 count with the size that they have. What cleaning would
    free is not estimated.

    kdump reads names, sizes and small files, and the last entry of the time index of each segment;
    of compacted topics, a producer snapshot, and up to 16 MiB of the active segment if a
    transaction was open as it began. It changes nothing, and can run while a broker is running.
    """
    from kdump.audit.run.spread import Workers
    from kdump.commands.space.report import emit_space, print_space
    from kdump.commands.space.space import Sampling, find_space
    from kdump.storage.throttle import Pace
    from kdump.ui.progress import Progress

    if limit_rate is not None and not sampled:
        raise click.UsageError("--limit-rate: expected --sample beside it")

    scope = find_read_scope(targets, stores=False)
    spread = Workers(reading_jobs(jobs, scope.targets))
    sampling = None
    if sampled:
        rate = reading_rate(limit_rate, scope.targets)
        sampling = Sampling(Pace(rate) if rate else None)
    with Progress(progress) as meter:
        meter.expect(scope.count, "partitions")
        selected = bool(targets.topics or targets.excluded)
        report = find_space(
            scope,
            spread,
            meter.advance,
            selected=selected,
            free=free,
            order=order,
            sampling=sampling,
        )
    now_ms = scope.context.now_ms
    if form == "json":
        return emit_space(click.echo, report, [root.path for root in scope.roots], now_ms)
    return print_space(click.echo, report, now_ms, wide=wide, config=targets.config is not None)
