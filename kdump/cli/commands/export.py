"""``kdump export``: records to Parquet or JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kdump.cli.options.filters import filter_options
from kdump.cli.options.spark import SparkOptions, spark_options
from kdump.cli.options.targets import LogPath, TargetOptions, target_options
from kdump.cli.ui.exits import INCOMPLETE, OK, PROBLEMS
from kdump.cli.ui.progress import Mode, progress_option

if TYPE_CHECKING:
    from kdump.fleet.export.manifest import Manifest, PartitionEntry
    from kdump.storage.selection import Selection

_DEFAULT_MASTER = "local[*]"


@click.command(
    short_help="Write records to Parquet or JSON Lines, on all cores or on many hosts.",
    epilog="Exit codes: 0 exported; 2 wrong usage; 4 damage was found, and the records around it "
    "are exported; 5 something could not be read, which comes before 4; 130, 143 ended by "
    "a signal, and the directory is removed; 141 the reader of the output went away.",
)
@click.option(
    "--to",
    required=True,
    metavar="DIR",
    type=LogPath(),
    help="Write into this directory, which must not exist yet, or below an address such as "
    "s3://BUCKET/PREFIX, which must be empty. Executors must see it too.",
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
    help="Leave out what consumers with isolation.level=read_committed do not get: records of "
    "aborted transactions, markers, and everything from the first open transaction on. If "
    "the marker of a transaction is lost and nothing shows its outcome, its records are left "
    "out, and it is reported (transaction-end-lost).",
)
@click.option(
    "--dedupe-replicas",
    is_flag=True,
    help="If PATHs hold several copies of a partition, take each offset once: from a sound copy "
    "if another is damaged, and from the highest leader epoch if copies differ.",
)
@filter_options(limit="End after N records in the whole run. Tasks then run one at a time.")
@click.option("--quiet", is_flag=True, help="Print nothing if the exit code is 0.")
@progress_option
@spark_options
@target_options
def export(
    targets: TargetOptions,
    to: Path,
    form: str,
    read_committed: bool,
    dedupe_replicas: bool,
    selection: Selection,
    quiet: bool,
    progress: Mode,
    spark: SparkOptions,
) -> int:
    """Write the records of the logs in PATH into files below a new directory.

    DIR gets a directory topic=NAME for each topic, and _manifest.json. The manifest names the files
    that belong to the export, with digests, and with counts and offsets for each partition. Sound
    records around damage are exported, and the damage is reported. Metadata snapshots are left out,
    because they repeat records of the log. Of a log directory, partitions whose names end in
    -delete, -stray or -future are left out. They are exported if PATH names them. Records below the
    log start offset are left out too, because a broker does not serve them. A segment that PATH
    names is exported whole.

    As root, kdump writes with the rights of the owner of the directory that DIR is made in, and the
    files belong to that owner. Without --master or --remote, all cores of this machine work.
    """
    from kdump.cli.options.spark import spark_session
    from kdump.cli.options.targets import named_paths
    from kdump.cli.ui.progress import Progress
    from kdump.fleet.export.destination import check_outside, create_destination

    paths, settings = named_paths(targets)
    if not spark.given:
        spark = replace(spark, master=_DEFAULT_MASTER)
    check_outside(to.absolute(), paths)
    with (
        # Outermost, so that files of tasks that still run are removed after the tasks have ended.
        create_destination(to.absolute()) as destination,
        Progress("none" if quiet and progress == "auto" else progress) as meter,
        spark_session(spark, [*paths, to]) as session,
    ):
        from kdump.fleet.export.export import Order
        from kdump.fleet.export.export import export as run
        from kdump.fleet.export.task import Form
        from kdump.fleet.job.spread import spread
        from kdump.fleet.verify.listing import list_paths

        served = replace(targets.topic_selection, served=True)
        listing = list_paths(session, paths, settings, served)
        order = Order(
            Form.PARQUET if form == "parquet" else Form.JSONL,
            selection,
            read_committed,
            dedupe_replicas,
        )
        meter.expect(listing.total_bytes)
        manifest = run(
            listing.open(),
            order,
            destination,
            partial(spread, session),
            listing.sizes(),
            context=listing.scope.context,
            on_progress=meter.advance,
        )
    return _report(manifest, quiet=quiet)


def _report(manifest: Manifest, *, quiet: bool) -> int:
    """Print what was exported and what was not, and return the exit code."""
    from kdump.cli.ui.units import count_text, size_text
    from kdump.format.lines.text import printable

    incomplete = any(not trouble.damaged for trouble in manifest.troubles)
    code = INCOMPLETE if incomplete else PROBLEMS if manifest.troubles else OK
    if code == OK and quiet:
        return code
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
    records = count_text(manifest.records, "record")
    files = count_text(len(manifest.files), "file")
    partitions = count_text(len(manifest.partitions), "partition")
    click.echo(f"Exported {records} of {partitions} into {files}.")
    return code


def _decisions(entry: PartitionEntry) -> Iterator[str]:
    """Yield the choices of the export in a partition that a reader may want to check."""
    from kdump.audit.codes import TRANSACTION_END_LOST

    if entry.log_start is not None:
        yield (
            f"records below the log start offset {entry.log_start} are left out, because a broker "
            "does not serve them"
        )
    for conflict in entry.conflicts:
        epochs = ", ".join(map(str, conflict.epochs))
        yield (
            f"copies differ at offsets {conflict.first} to {conflict.last}: leader epochs "
            f"{epochs}, of which the last was taken"
        )
    for stretch in entry.overtaken:
        yield (
            f"offsets {stretch.first} to {stretch.last} are of leader epoch "
            f"{stretch.epoch}, after offsets of a higher epoch: only a copy that had not yet "
            "truncated its log holds them"
        )
    stable = "the log end offset" if entry.end is None else entry.end
    for producer, first in entry.undecided:
        yield (
            f"{TRANSACTION_END_LOST.name}: the transaction of producer {producer} from offset "
            f"{first} on is left out, because its marker may be lost; the last stable offset is "
            f"{stable}"
        )
