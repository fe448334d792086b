"""``kdump check``: the files of an export against its manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import LogPath
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.commands.check.check import Export, FileDifference
    from kdump.storage.paths import AnyPath
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Check that the files of an export are whole.",
    epilog="Exit codes: 0 all is as the manifest says; 2 wrong usage; 4 a file is missing, "
    "differs, or is not in the manifest, or the export found corruption; 5 something could not "
    "be read, now or by the export, which comes before 4; "
    "130, 143 ended by a signal; 141 the reader of the output went away.",
)
@format_option("Text for people, or JSON Lines of all files.")
@jobs_option("the number of usable CPUs")
@progress_option
@click.argument("manifest", metavar="MANIFEST", type=LogPath())
@click.pass_context
def check(
    context: click.Context,
    manifest: AnyPath,
    form: Literal["text", "json"],
    jobs: int | None,
    progress: Mode,
) -> int:
    """Compare the files of an export with its manifest, and read them.

    MANIFEST is the _manifest.json that kdump export has written, or its directory; both may be in
    an object store. Every file must exist, with the size and the SHA-256 in the manifest. It must
    hold as many records of each log as the manifest says, with the same lowest and highest offsets.
    A file that the manifest lacks is a difference too, if readers of the directory would take it
    for a file of the export. Like readers, check ignores names that begin with _ or a dot. It
    reports again everything that the export could not read: such an export is not complete.

    check reads only the files of the export, not the logs, and changes nothing. It does not read
    the files of kdump manifest, which describe log directories. If MANIFEST is a log directory, a
    partition directory or a segment, kdump verify runs instead, with the same options.
    """
    from kdump.commands.check.check import extra_files, is_log, read_export
    from kdump.commands.check.text import CheckReport, JsonCheck, TextCheck
    from kdump.commands.export.output import FileFormat
    from kdump.errors import UsageError
    from kdump.storage.workers import default_jobs
    from kdump.ui.progress import Progress

    group = context.find_root().command
    verify = group.get_command(context, "verify") if isinstance(group, click.Group) else None
    if verify is not None and is_log(manifest):
        options = {"form": form, "jobs": jobs, "progress": progress}
        code: int = context.invoke(verify, paths=(manifest,), **options)
        return code
    export = read_export(manifest)
    parquet = any(file.path.endswith(FileFormat.PARQUET.value) for file in export.files)
    if parquet and find_spec("pyarrow") is None:
        raise UsageError("expected the extra parquet: pip install 'kafka-kdump[parquet]'")
    report: CheckReport
    report = JsonCheck(click.echo, export) if form == "json" else TextCheck(click.echo, export)
    with Progress(progress) as meter:
        meter.expect(sum(file.bytes for file in export.files))
        compared = _compare(export, jobs or default_jobs(), meter.advance)
        for file, difference in zip(export.files, compared, strict=True):
            with meter.paused():
                report.add(file.path, file, difference)
    for extra in extra_files(export):
        report.add(extra.path, None, extra)
    return report.finish()


def _compare(
    export: Export, jobs: int, on_progress: Callable[[int], None]
) -> Iterator[FileDifference | None]:
    """Yield the first difference of each file, in order; None for a file without one."""
    from kdump.commands.check.check import FileDifference, FileFault, check_file
    from kdump.errors import KdumpError
    from kdump.storage import workers
    from kdump.storage.workers import WorkerDied

    def work(number: int, report: Callable[[int], None]) -> FileDifference | None:
        return check_file(export.path, export.files[number], report)

    tasks = range(len(export.files))
    with closing(workers.run(work, tasks, jobs, on_progress=on_progress)) as results:
        for number, value in enumerate(
            workers.in_order((result.index, result.value) for result in results)
        ):
            match value:
                case WorkerDied():
                    path = export.files[number].path
                    yield FileDifference(
                        FileFault.UNREAD, path, "a result of the worker", value.label
                    )
                case KdumpError():
                    raise value
                case _:
                    yield value
