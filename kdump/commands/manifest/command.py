"""``kdump manifest``: log directories without their records, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kdump.ui.command import Command
from kdump.ui.exits import Ending
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.rate import rate_option, reading_rate
from kdump.ui.options.targets import SomePath, TargetOptions, find_read_scope, path_options
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Write into a file what compare needs of another host.",
    epilog="Exit codes: 0 written; 2 wrong usage; 5 something could not be read, which the "
    "manifest says, or the manifest could not be written; 6 refused, because other users can "
    "redirect the path of FILE; 130, 143 ended by a signal, nothing written; 141 the reader of the "
    "output went away.",
)
@click.option(
    "--to",
    "file",
    metavar="FILE",
    type=SomePath(),
    required=True,
    help="Write this file. It may replace another manifest, and no other file.",
)
@click.option(
    "--anonymous",
    is_flag=True,
    help="Replace the names of topics, and leave out all other names and all records, so that the "
    "file may go to others.",
)
@click.option(
    "--key",
    "key_file",
    metavar="FILE",
    type=SomePath(),
    help="With --anonymous, derive names from the secret in this file: the same secret gives the "
    "same names on all brokers. Default: a new secret each time, which is not kept.",
)
@jobs_option()
@rate_option("Default: 50MB while a broker runs, else none.")
@progress_option
@path_options
def manifest(
    targets: TargetOptions,
    file: Path,
    anonymous: bool,
    key_file: Path | None,
    jobs: int | None,
    limit_rate: int | None,
    progress: Mode,
) -> int:
    """Write a manifest of the log directories or partition directories at PATH.

    A manifest has the small files, the header of each batch, all corruption, and digests of the
    logs: roughly 10 bytes for each batch. It has no records but those of __cluster_metadata and
    __transaction_state, which checks of other partitions need: only its owner may read the file.
    verify, next-start and compare take it in the place of a directory, with the same findings.

    manifest reads every byte and compares every checksum. A broker may be running: it keeps its
    page cache and has priority at the disks.
    """
    import time

    from kdump.commands.manifest.key import read_key
    from kdump.commands.manifest.making import ManifestRequest, NamedRoot, make_manifest
    from kdump.commands.manifest.names import Names
    from kdump.commands.manifest.output import new_manifest
    from kdump.commands.manifest.tree import bases_of, log_bytes
    from kdump.errors import UsageError
    from kdump.format.lines.text import printable
    from kdump.storage.logdir import Segment
    from kdump.storage.paths import as_local
    from kdump.storage.throttle import Pace
    from kdump.ui.progress import Progress
    from kdump.ui.units import size_text
    from kdump.ui.version import version

    scope = find_read_scope(targets, stores=False)
    for root in scope.roots:
        if isinstance(root.content, Segment):
            raise UsageError(
                f"{root.path}: expected a log directory or a partition directory, found a segment"
            )
    rate = reading_rate(limit_rate, scope.targets)
    paths = [root.path for root in scope.roots]
    origin, bases = bases_of(paths, anonymous=anonymous)
    request = ManifestRequest(
        origin=origin,
        bases=bases,
        roots=tuple(
            NamedRoot(as_local(root.path), root.liveness) for root in scope.roots if root.liveness
        ),
        made_by=f"kdump {version()}",
        names=Names(read_key(key_file, anonymous=anonymous)),
        jobs=reading_jobs(jobs, scope.targets),
        pace=Pace(rate) if rate else None,
        clock_ns=time.time_ns,
    )
    directories = [base.path for base in bases]
    with (
        Progress(progress) as meter,
        new_manifest(file, directories, anonymous=anonymous) as output,
    ):
        meter.expect(log_bytes(bases, anonymous=anonymous))
        made = make_manifest(request, output, meter.advance)
        size = output.size
    for text in made.unread:
        click.echo(f"kdump: {printable(text)}", err=True)
    click.echo(
        f"{printable(str(file))}: {size_text(size)} for {made.partitions} partitions with "
        f"{made.logs} logs of {size_text(made.log_bytes)}, {made.batches} batches, "
        f"{made.damages} corrupt places"
    )
    return Ending(unread=bool(made.unread)).exit_code
