"""``kdump groups``: consumer groups and their committed offsets, from the disk of a broker.

Spec: ``GroupCoordinatorShard``; ``ConsumerGroupCommand`` (KIP-379 for CSV).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.reports import format_option, wide_option
from kdump.ui.options.targets import TargetOptions, find_read_scope, path_options
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Show consumer groups, committed offsets and lag.",
    epilog="Exit codes: 0 shown; 2 wrong usage; 4 an offset lies outside of its log, or the logs "
    "of __consumer_offsets are corrupt; 5 something could not be read, which comes before 4; "
    "130, 143 ended by a signal; 141 the reader of the output went away.",
)
@click.option(
    "--group",
    "patterns",
    metavar="GLOB",
    multiple=True,
    help="Show only groups whose id matches this pattern; repeatable. For an id without wildcards, "
    "kdump reads only the partition of the group, if the number of partitions is known.",
)
@format_option(
    "Tables for people; JSON Lines; or lines of group, topic, partition and offset, for "
    "kafka-consumer-groups.sh --reset-offsets --from-file.",
    "csv",
)
@wide_option
@jobs_option()
@progress_option
@path_options
def groups(
    targets: TargetOptions,
    patterns: tuple[str, ...],
    form: Literal["text", "json", "csv"],
    wide: bool,
    jobs: int | None,
    progress: Mode,
) -> int:
    """Show the groups in the partitions of __consumer_offsets at PATH, as coordinators load them.

    PATH is a log directory or a partition of __consumer_offsets; several PATHs may be the log
    directories of all brokers. If there are several replicas of a partition, kdump takes the one
    with the highest leader epoch and end offset. A group has its kind, its state and its members.
    Each partition has the committed offset, the metadata and the time of the commit, and the time
    from which the coordinator may remove it (offsets.retention.minutes of --config, otherwise 7
    days). If the log of that partition is in the same log directories, kdump shows its start, its
    end and the lag. It marks offsets outside of the log: the consumer then resets its position
    according to its auto.offset.reset. The log start offset of a topic with remote storage is known
    only from the checkpoint of its log directory.

    Like brokers, kdump does not count offsets of open transactions. The report holds the metadata
    that clients wrote with a commit. groups changes nothing, and can run while a broker is running.
    """
    from kdump.commands.groups.consumption import absent_offsets, find_offsets, report_groups
    from kdump.commands.groups.report import CsvGroups, JsonGroups, TextGroups
    from kdump.format.lines.text import printable
    from kdump.ui.progress import Progress

    scope = find_read_scope(targets)
    partitions = find_offsets(scope, patterns)

    def warn(text: str) -> None:
        click.echo(f"kdump: {printable(text)}", err=True)

    report: TextGroups | JsonGroups | CsvGroups
    if form == "json":
        report = JsonGroups(click.echo, [root.path for root in scope.roots])
    else:
        report = CsvGroups(click.echo, warn) if form == "csv" else TextGroups(click.echo, wide=wide)
    for absent in absent_offsets(scope, patterns):
        report.add(absent)
    with Progress(progress) as meter:
        meter.expect(sum(partition.size for partition in partitions))
        jobs = reading_jobs(jobs, scope.targets)
        found = report_groups(scope, partitions, patterns, jobs=jobs, on_progress=meter.advance)
        for partition in found:
            with meter.paused():
                report.add(partition)
    return report.finish()
