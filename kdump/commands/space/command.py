"""``kdump space``: what takes the space of log directories, and what retention frees.

Spec: ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.rate import rate_option, reading_rate
from kdump.ui.options.reports import format_option, wide_option
from kdump.ui.options.targets import TargetOptions, find_read_scope, note_manifests, target_options
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
    help="Print the ways to free this much beyond what is due, such as 20GB, the least harm first, "
    "with the files and commands for the tools of Kafka.",
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
    since deleting them frees nothing, and so do extents that files of 1 MiB or more share on XFS
    and btrfs (reflinks). Removed files that a process still has open are named with it: only its
    end frees their space. Snapshots of a volume, and quotas, cannot be seen. In manifests and
    object stores, sizes are those of files, what lies in directories inside partitions is left out,
    and the free space is unknown, as is the growth of objects; --free and --sample need log
    directories of this machine. Retention decides by segments: it deletes a segment once its newest
    record is too old, so that a segment with one timestamp in the future holds all later ones. The
    configs of topics come from the metadata log; without it, nothing counts as due. Without
    --config, a topic that sets no retention is taken to have the default of Kafka, 7 days.

    Of compacted topics, kdump says which partition the cleaner takes next, and what keeps it from
    the others: the dirty ratio, a compaction lag, the active segment, the high watermark, an open
    transaction, a move, or log.cleaner.enable. Dirty bytes are those that the broker compares with
    min.cleanable.dirty.ratio. How much cleaning frees is unknown: the keys decide. Tombstones go in
    a cleaning that comes delete.retention.ms after the first one that has reached them.

    At the rates of the last day and the last week, kdump forecasts when the file system is full.
    It takes into account what retention will delete in that time. Compacted topics count as not
    growing.

    With --free, kdump prints numbered ways to free so much beyond what is due, each by itself.
    Without a loss of records: of a stopped broker, what no log needs, and a move to another log
    directory that --config names, on a file system that still has more room afterwards. While the
    broker runs, the same move as the JSON file for kafka-reassign-partitions.sh, and such a file by
    which this node gives up replicas: only where all others are in sync by the metadata log, whose
    age is said, and at least two and min.insync.replicas of them are left.

    With a loss on all replicas: the file for kafka-delete-records.sh while the broker runs, the
    oldest segments of all topics with retention first, each partition up to the base of a segment;
    and commands that set a shorter retention, and set it back. Neither takes records that are
    younger than an hour, after the high watermark, or of topics that are compacted, internal or
    have remote storage. Brokers delete segments at their next check, and free the space a minute
    later (file.delete.delay.ms).

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

    scope = find_read_scope(targets, manifests=True)
    note_manifests(scope)
    needs = "--sample" if sampled else None if free is None else "--free"
    for root in scope.roots:
        if needs is not None and not isinstance(root.path, Path):
            place = root.manifest.file if root.manifest is not None else root.path
            raise click.UsageError(
                f"{needs}: expected log directories of this machine, found {place}"
            )
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
