"""The options of a run on Spark, and its session."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import click

from kdump.errors import UsageError
from kdump.ui.options.group import option_group
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session
    from kdump.storage.paths import AnyPath

#: The top-level modules that the extra ``spark`` installs.
_EXTRA: Final = {"pyspark", "py4j", "pyarrow", "pandas", "numpy", "grpc", "google"}


@frozen
class SparkOptions:
    """The URL of Spark's master, or of a Connect server; both are None without Spark."""

    master: str | None
    remote: str | None

    @property
    def given(self) -> bool:
        """Whether the work is done on Spark."""
        return self.master is not None or self.remote is not None


spark_options = option_group(
    "spark",
    SparkOptions,
    click.option(
        "--master",
        metavar="URL",
        help="Do the work on Spark: local[N] for N tasks at a time here, or the URL of a "
        "cluster's master, such as spark://host:7077 or yarn. The executors of "
        "a cluster need kdump, and must see each PATH, an absolute path, under the same "
        "name.",
    ),
    click.option(
        "--remote",
        metavar="URL",
        help="Do the work on the Spark Connect server at URL, such as sc://host:15002. Its "
        "executors must see each PATH under the same name. With local[N] Spark runs as with "
        "--master, but over Connect.",
    ),
)


def refuse_worker_options(jobs: int | None, limit_rate: int | None) -> None:
    """Raise UsageError for ``--jobs`` and a ``--limit-rate``, which are for workers of a host."""
    if jobs is not None:
        raise UsageError("--jobs: expected --master 'local[N]' for N tasks at a time, found both")
    if limit_rate:
        raise UsageError("--limit-rate: expected no limit on Spark, because hosts share no rate")


def spark_session(
    options: SparkOptions, paths: Iterable[AnyPath] = ()
) -> AbstractContextManager[Session]:
    """Return what starts Spark or connects to it when it is entered, and ends the session.

    Raise UsageError at once for both options, without the extra ``spark``, for relative paths on
    executors elsewhere, and as ``open_session`` does.
    """
    if options.master is not None and options.remote is not None:
        raise UsageError("expected --master or --remote, found both")
    try:
        from kdump.fleet.session.version import check_version

        check_version()  # an older one lacks modules
        from kdump.fleet.session.session import Cluster, open_session
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise UsageError("expected the extra spark: pip install 'kafka-kdump[spark]'") from error
    cluster = Cluster(master=options.master, remote=options.remote)
    for path in paths if cluster.local_master is None else ():
        # Executors have another working directory.
        if not path.is_absolute() and "://" not in str(path):
            raise UsageError(f"{path}: expected an absolute path, which executors see too")
    return open_session(cluster)
