"""``kdump export``: records to Parquet or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kdump.ui.command import Command
from kdump.ui.exits import Ending
from kdump.ui.options.filters import filter_options
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.reports import quiet_option
from kdump.ui.options.spark import SparkOptions, spark_options, spark_session
from kdump.ui.options.targets import (
    LogPath,
    TargetOptions,
    refuse_emptied,
    refuse_wrong_paths,
    target_options,
)
from kdump.ui.progress import Mode, progress_option
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.audit.facts.cluster import Configs
    from kdump.audit.run.spread import Spread
    from kdump.audit.targets.context import Context
    from kdump.audit.targets.target import Target, TopicSelection
    from kdump.commands.export.manifest import Manifest, PartitionEntry
    from kdump.storage.paths import AnyPath
    from kdump.storage.selection import Selection


_LEAST_FILE_BYTES: Final = 1 << 20


def _file_bytes(_: click.Context, parameter: click.Parameter, text: str) -> int:
    from kdump.ui.units import parse_size

    try:
        size = parse_size(text)
        if size < _LEAST_FILE_BYTES:
            raise ValueError(f"expected a size of 1MiB or more, found {text!r}")
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error
    return size


@click.command(
    cls=Command,
    short_help="Write records to a new directory, as Parquet or JSON.",
    epilog="Exit codes: 0 exported; 2 wrong usage; 4 corruption was found, and the records around "
    "it are exported, or offsets are missing; 5 something could not be read, which comes before 4; "
    "6 refused: other users can redirect the path of --to, or another export writes there; 130, "
    "143 ended by a signal, and the directory is removed; 141 the reader of the output went away.",
)
@click.option(
    "--to",
    required=True,
    metavar="DIR",
    type=LogPath(),
    help="Write into this directory, which must not exist yet, or below an address such as "
    "s3://BUCKET/PREFIX, which must be empty. The rest of an export that was killed is "
    "removed. On Spark, executors must see it too.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "jsonl"]),
    default="parquet",
    show_default=True,
    help="Parquet with zstd, or JSON Lines with zstd: the lines of dump --format json --records.",
)
@click.option(
    "--read-committed",
    is_flag=True,
    help="Leave out records that consumers with isolation.level=read_committed do not get. These "
    "are aborted transactions, markers, and all from the first open transaction on. A transaction "
    "whose marker is lost, and whose outcome nothing shows, is left out and reported "
    "(transaction-end-lost).",
)
@click.option(
    "--dedupe-replicas",
    is_flag=True,
    help="If PATHs hold several replicas of a partition, take each offset once: from a valid one "
    "if another is corrupt, from the highest leader epoch if they differ.",
)
@click.option(
    "--below-log-start",
    is_flag=True,
    help="Also export deleted records: those below the log start offset that are still on disk. "
    "Retention or kafka-delete-records.sh deleted them.",
)
@click.option(
    "--file-size",
    "file_bytes",
    metavar="SIZE",
    default="256MiB",
    show_default=True,
    callback=_file_bytes,
    help="Write roughly this many bytes of logs into a file, 1MiB or more, counted as on the "
    "brokers' disks. The file may be larger, or smaller if it compresses better. Small logs of a "
    "topic share a file, also from several PATHs; a larger log is divided between batches.",
)
@click.option(
    "--partition-by",
    type=click.Choice(["topic", "hour"]),
    default="topic",
    show_default=True,
    help="Make a directory for each topic; with hour, also one in it for each date and hour of "
    "record timestamps, in UTC.",
)
@filter_options(limit="End after N records in the whole run. Files are then written one at a time.")
@jobs_option()
@quiet_option
@progress_option
@spark_options
@target_options
def export(
    targets: TargetOptions,
    to: Path,
    form: str,
    read_committed: bool,
    dedupe_replicas: bool,
    below_log_start: bool,
    file_bytes: int,
    partition_by: str,
    selection: Selection,
    jobs: int | None,
    quiet: bool,
    progress: Mode,
    spark: SparkOptions,
) -> int:
    """Write the records of the logs in PATH into files below a new directory.

    DIR gets a directory topic=NAME for each topic, and _manifest.json. The manifest names the files
    of the export, with digests, and with counts and offsets for each log in a file and each
    partition; kdump check compares the files with it. Valid records around corruption are exported,
    and the corruption is reported. So are missing offsets, if the topic's configs are known and it
    was never compacted, first segments that no retention has deleted, and partitions of a stopped
    broker whose directories are gone. Metadata snapshots are left out, because they repeat records
    of the log. In a log directory, partitions whose names end in -delete, -stray or -future are
    left out. They are exported if PATH names them.

    Records below the log start offset are counted and left out, because a broker does not serve
    them. The checkpoint of the log directory has these offsets; without a checkpoint it is the
    first offset on disk. If PATHs have several replicas of a partition, the highest log start
    offset counts for all, because a follower may delete records later than the leader. While a
    broker is running, the first leader epoch counts too, because it moves before the checkpoint
    does. A segment that PATH names is exported whole.

    Records that are only in remote storage are not read. kdump names them, also in the manifest,
    and the exit code is 5. --offsets can leave them out.

    As root, kdump writes with the rights of the owner of the directory that DIR is made in, and the
    files belong to that owner. Parquet and object stores need the extra parquet. Only --master and
    --remote need Spark, and with it Java.
    """
    from kdump.commands.export.export import Order
    from kdump.commands.export.export import export as run
    from kdump.commands.export.output import FileFormat
    from kdump.errors import UsageError
    from kdump.output.destination import check_outside, create_destination
    from kdump.ui.options.targets import named_paths, refuse_manifests
    from kdump.ui.progress import Progress

    if spark.given and jobs is not None:
        raise UsageError("expected --jobs without Spark, whose master has the number of tasks")
    if form == "parquet" and find_spec("pyarrow") is None:
        raise UsageError(
            "expected the extra parquet: pip install 'kafka-kdump[parquet]', or --format jsonl"
        )
    paths, settings = named_paths(targets)
    refuse_manifests(paths)
    check_outside(to.absolute(), paths)
    served = replace(targets.topic_selection, served=True)
    with (
        # Outermost, so that files of tasks that still run are removed after the tasks have ended.
        create_destination(to.absolute()) as destination,
        Progress("none" if quiet and progress == "auto" else progress) as meter,
        _open_source(paths, settings, served, jobs=jobs, spark=spark, to=to) as source,
    ):
        if destination.replaces:
            meter.note(f"{to}: the rest of an export that was killed was removed")
        meter.expect(sum(source.sizes.values()))
        manifest = run(
            source.targets,
            Order(
                FileFormat.PARQUET if form == "parquet" else FileFormat.JSONL,
                selection,
                read_committed,
                dedupe_replicas,
                below_log_start,
                file_bytes,
                hourly=partition_by == "hour",
            ),
            destination,
            source.spread,
            source.sizes,
            context=source.context,
            gone=source.gone,
            on_progress=meter.advance,
        )
    return _report(manifest, quiet=quiet)


@frozen
class _Source:
    """Listed partitions with the bytes of their logs, and where their records are read.

    ``gone`` are those of which no directory is left.
    """

    targets: Sequence[Target]
    sizes: Mapping[AnyPath, int]
    context: Context
    spread: Spread
    gone: Sequence[Target]


@contextmanager
def _open_source(
    paths: Sequence[AnyPath],
    settings: Configs | None,
    selection: TopicSelection,
    *,
    jobs: int | None,
    spark: SparkOptions,
    to: AnyPath,
) -> Iterator[_Source]:
    """List the partitions at ``paths``, here or on Spark."""
    from kdump.audit.run.gone_partitions import gone_partitions

    if spark.given:
        with spark_session(spark, [*paths, to]) as session:
            from kdump.fleet.job.spread import spread
            from kdump.fleet.verify.listing import list_paths

            listing = list_paths(session, paths, settings, selection)
            refuse_wrong_paths(listing.scope.roots)
            refuse_emptied(listing.scope.roots)
            roots, context = listing.scope.roots, listing.scope.context
            gone = gone_partitions(roots, context, selection)
            yield _Source(listing.open(), listing.sizes(), context, partial(spread, session), gone)
        return
    from kdump.audit.run.spread import Workers
    from kdump.audit.targets.listing import list_scope
    from kdump.audit.targets.target import log_bytes

    scope = list_scope(paths, settings, selection)
    refuse_wrong_paths(scope.roots)
    refuse_emptied(scope.roots)
    targets = [target.with_listing() for target in scope.targets]
    sizes = {segment.log: log_bytes(segment) for target in targets for segment in target.segments}
    workers = Workers(reading_jobs(jobs, targets))
    gone = gone_partitions(scope.roots, scope.context, selection)
    yield _Source(targets, sizes, scope.context, workers, gone)


def _report(manifest: Manifest, *, quiet: bool) -> int:
    """Print what was exported and what was not, and return the exit code."""
    from kdump.format.lines.text import printable
    from kdump.ui.units import count_text, size_text

    incomplete = any(not trouble.damaged for trouble in manifest.troubles)
    ending = Ending(unread=incomplete, problems=bool(manifest.troubles))
    if quiet and not manifest.troubles:
        return ending.exit_code
    for trouble in manifest.troubles:
        where = "" if trouble.position is None else f" at position {trouble.position}"
        size = "" if trouble.size is None else f", {size_text(trouble.size)}"
        kind = "damage" if trouble.damaged else "incomplete"
        click.echo(printable(f"{kind}: {trouble.path}{where}{size}: {trouble.reason}"))
    for entry in manifest.partitions:
        name = (
            "a directory of no topic" if entry.topic is None else f"{entry.topic}-{entry.partition}"
        )
        for line in _decisions(entry):
            click.echo(printable(f"{name}: {line}"))
    unknown = sum(entry.compacted is None for entry in manifest.partitions)
    if unknown:
        several = count_text(unknown, "partition")
        click.echo(
            f"Not all missing offsets can be seen in {several}: unknown configs, or batches "
            "that hide them."
        )
    records = count_text(manifest.records, "record")
    files = count_text(len(manifest.files), "file")
    partitions = count_text(len(manifest.partitions), "partition")
    click.echo(f"Exported {records} of {partitions} into {files}.")
    return ending.exit_code


def _decisions(entry: PartitionEntry) -> Iterator[str]:
    """Yield the choices of the export in a partition that a reader may want to check."""
    from kdump.audit.checks.transactions import TRANSACTION_END_LOST
    from kdump.audit.facts.remote_storage import ranges_text
    from kdump.ui.units import count_text

    if entry.below_log_start:
        count = count_text(entry.below_log_start, "record")
        yield (
            f"{count} below the log start offset {entry.log_start}, which no broker serves: left "
            "out (--below-log-start exports them)"
        )
    if entry.deleted:
        yield (
            f"the broker deleted offsets {ranges_text(entry.deleted)} during the export: they are "
            "left out"
        )
    for conflict in entry.conflicts:
        epochs = ", ".join(map(str, conflict.epochs))
        yield (
            f"replicas differ at offsets {conflict.first} to {conflict.last}: leader epochs "
            f"{epochs}; the last was taken"
        )
    for stretch in entry.overtaken:
        yield (
            f"offsets {stretch.first} to {stretch.last} are of leader epoch "
            f"{stretch.epoch}, after offsets of a higher epoch: only a replica that had not yet "
            "truncated its log holds them"
        )
    stable = "the log end offset" if entry.end is None else entry.end
    for producer, first in entry.undecided:
        yield (
            f"{TRANSACTION_END_LOST.name}: the transaction of producer {producer} from offset "
            f"{first} on is left out, because its marker may be lost; the last stable offset is "
            f"{stable}"
        )
