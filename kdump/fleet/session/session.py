"""A session of Spark, started here or reached over Connect.

Spark's own noise goes into a file, nothing of it listens on another interface than the loopback
where it was started here, and what it writes on the way stands in one folder, which goes with it.

Spec: ``SparkSubmit``, ``SparkConnectPlugin``.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kdump.errors import UsageError
from kdump.fleet.session.environment import variables
from kdump.fleet.session.java import check_java
from kdump.fleet.session.jvm import SparkFailed, running

_LOCAL: Final = re.compile(r"local(\[(?P<cores>\*|[1-9]\d*)(?P<failures>,[1-9]\d*)?\])?")
_STANDALONE: Final = re.compile(r"spark://(?P<places>[^/\s,]+:\d+(,[^/\s,]+:\d+)*)")
_OTHERS: Final = re.compile(r"local-cluster\[\d+,\d+,\d+\]|k8s://\S+|yarn")
#: How often a task may fail: ``local[N]`` alone never tries again.
_FAILURES: Final = 4
_CONNECT_PORT: Final = 15002
_REACH_SECONDS: Final = 10.0
#: The client would otherwise try its first call again for ten minutes.
_REACH_TRIES: Final = 1
_LOOPBACK: Final = "127.0.0.1"
_PREFIX: Final = "kdump-spark-"
_LOG: Final = "spark.log"
#: The name of a socket must fit into so many bytes, and Spark adds 43 to the folder's.
_SOCKET_BYTES: Final = 107 - 43
#: Of a shell that has used Connect, or another master: our session is the one that is asked for.
_OTHER_SESSIONS: Final = ("MASTER", "SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED")
#: pyspark sets them for the workers of a session, and leaves them behind.
_SET_BY_PYSPARK: Final = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: Python does the work: a JVM beside it that compiles with care takes its processors.
_LOCAL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOG4J: Final = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}}{{UTC}}Z %p %c: %m%n
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where Spark runs: by the URL of a master, or of a Connect server; just one of them.

    ``remote`` may be a local master too: then both sides of Connect are started here.
    """

    master: str | None = None
    remote: str | None = None

    @property
    def here(self) -> str | None:
        """The master of a session that has all its parts on this machine, None for any other."""
        url = self.master or self.remote or ""
        return url if url.startswith("local") else None


@dataclass(frozen=True, slots=True)
class Session:
    """A running session; ``cores`` is how many tasks run at a time, as far as known.

    ``remote``: it is one of Connect. ``log`` is where Spark's own words go, None where they are
    kept elsewhere.
    """

    spark: SparkSession
    cores: int
    remote: bool
    log: Path | None


@contextmanager
def opened(cluster: Cluster, *, settings: Mapping[str, str] | None = None) -> Iterator[Session]:
    """Start Spark, or connect to it, and end that again; ``settings`` go before our own.

    Spark's log is kept, and named on the way out, only where the session ends by a SparkFailed.
    Raises UsageError for a URL that is none, and without Java 17 or newer where Spark is started
    here; SparkFailed.
    """
    _check(cluster)
    with _session(cluster, settings or {}) as session:
        # What pyspark has made lives as long: to look through it takes a tenth of a second.
        gc.freeze()
        try:
            yield session
        finally:
            gc.unfreeze()


@contextmanager
def _session(cluster: Cluster, wanted: Mapping[str, str]) -> Iterator[Session]:
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        log = folder / _LOG
        stack.enter_context(variables(_environment(folder, cluster.here)))
        if cluster.remote is not None and cluster.here is None:
            spark = stack.enter_context(_client(cluster.remote))
            yield Session(spark, _parts(spark), remote=True, log=None)
            return
        master = with_failures(cluster.here or cluster.master or "")
        ours = _settings(master, folder, log, wanted)
        if cluster.remote is None:
            spark = stack.enter_context(_started(ours, log))
            yield Session(spark, _cores(spark, master), remote=False, log=log)
            return
        port, token = _free_port(), uuid4().hex
        server = stack.enter_context(_started({**_served(port, token), **ours}, log))
        spark = stack.enter_context(_client(f"sc://localhost:{port}/;token={token}"))
        yield Session(spark, _cores(server, master), remote=True, log=log)


def with_failures(master: str) -> str:
    """The master with a number of failures that a task may have, if it is local and has none."""
    match = _LOCAL.fullmatch(master)
    if match is None or match["failures"]:
        return master
    return f"local[{match['cores'] or 1},{_FAILURES}]"


def _check(cluster: Cluster) -> None:
    if (cluster.master is None) == (cluster.remote is None):
        raise UsageError("expected either a master or a Connect server to run on")
    url = cluster.remote if cluster.master is None else cluster.master
    assert url is not None
    local = _LOCAL.fullmatch(url) is not None
    if cluster.remote is not None and not local:
        parts = urlsplit(cluster.remote)
        if parts.scheme != "sc" or not parts.hostname or not _has_port(cluster.remote):
            raise UsageError(f"--remote {url}: expected sc://HOST:PORT, or local[N]")
        return
    standalone = _STANDALONE.fullmatch(url)
    if not (local or standalone or _OTHERS.fullmatch(url)):
        raise UsageError(f"--master {url}: expected local[N], spark://HOST:PORT, yarn or k8s://...")
    if SparkContext._active_spark_context is not None:
        raise UsageError("expected no session of Spark in this process, found a running session")
    check_java()
    if standalone is not None:
        _reach(standalone["places"])


def _has_port(url: str) -> bool:
    """Whether the port is one, or there is none."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _reach(places: str) -> None:
    """Raise SparkFailed unless some master listens; Spark itself would try for a minute."""
    errors = []
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except (OSError, OverflowError) as error:
            errors.append(f"expected Spark's master at {place}, found none: {error}")
        else:
            return
    raise SparkFailed("; ".join(errors))


# --- what stands around it


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for all that Spark writes; what its log says is kept if it failed."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        try:
            yield Path(name)
        except SparkFailed as failed:
            log = Path(name, _LOG)
            if not log.exists() or not log.stat().st_size:
                raise
            with (
                log.open("rb") as said,
                tempfile.NamedTemporaryFile(prefix=_PREFIX, suffix=".log", delete=False) as kept,
            ):
                shutil.copyfileobj(said, kept)
            raise SparkFailed(f"{failed}; Spark's log is in {kept.name}") from failed


def _environment(folder: Path, here: str | None) -> dict[str, str | None]:
    """The variables that Spark goes by."""
    wanted: dict[str, str | None] = dict.fromkeys(_OTHER_SESSIONS + _SET_BY_PYSPARK)
    wanted |= {"GRPC_VERBOSITY": "NONE", "GLOG_minloglevel": "3"}
    if here is None:
        return wanted
    # A directory of ours, so that no defaults of the machine open other interfaces.
    wanted |= {"SPARK_LOCAL_IP": _LOOPBACK, "SPARK_CONF_DIR": os.fspath(folder)}
    if _LOCAL.fullmatch(here):
        wanted |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        # Workers are of our kdump, though another one lies in the working directory.
        wanted["PYTHONSAFEPATH"] = "1"
    return wanted


def _settings(master: str, folder: Path, log: Path, wanted: Mapping[str, str]) -> dict[str, str]:
    """Ours under those that are ``wanted``, but that Java gets the options of both."""
    configuration = folder / "log4j2.properties"
    with configuration.open("w") as file:
        file.write(_LOG4J.format(log=log))
    java = f'"-Dlog4j2.configurationFile=file:{configuration}" "-Djava.io.tmpdir={folder}"'
    fits = len(os.fsencode(folder)) <= _SOCKET_BYTES
    found = {
        "spark.master": master,
        "spark.app.name": "kdump",
        "spark.api.mode": "classic",
        # What executors have found of a fleet is bound by the memory that there is, not by a size.
        "spark.driver.maxResultSize": "0",
        # Arrow's own has the memory of each batch paged in anew: a tenth of an export's time.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
        # Our jobs have nothing that could be planned anew.
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.fspath(folder / "warehouse"),
        "spark.python.unix.domain.socket.enabled": str(fits).lower(),
    }
    if master.startswith("local"):
        found |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.local.dir": os.fspath(folder),
            "spark.python.unix.domain.socket.dir": os.fspath(folder),
        }
        java = f"{_LOCAL_JAVA} {java}"
    options = f"{java} {wanted.get(_JAVA_OPTIONS, '')}".strip()
    return {**found, **wanted, _JAVA_OPTIONS: options}


def _served(port: int, token: str) -> dict[str, str]:
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((_LOOPBACK, 0))
        return int(one.getsockname()[1])


# --- start and end


@contextmanager
def _started(settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """A classic session with a JVM of its own, which ends with it."""
    with running(settings, log):
        try:
            with _handlers_kept():
                conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
                spark = SparkSession.builder.config(conf=conf).getOrCreate()
        except (PySparkException, Py4JError, OSError) as error:
            raise SparkFailed(f"Spark could not be started: {_first_line(error)}") from error
        try:
            yield spark
        finally:
            # A JVM that is gone already cannot be told to stop.
            with suppress(PySparkException, Py4JError, OSError):
                spark.stop()


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back the handler of SIGINT: Spark's own would cancel jobs, and ours is forgotten."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _client(url: str) -> Iterator[SparkSession]:
    """A session over Connect, which ends without the server."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    parts = urlsplit(url)
    place = parts.hostname or "", parts.port or _CONNECT_PORT
    try:
        socket.create_connection(place, _REACH_SECONDS).close()
        spark = ConnectSession.builder.remote(url).create()
        policies = spark.client.get_retry_policies()
        spark.client.set_retry_policies([DefaultPolicy(max_retries=_REACH_TRIES)])
        try:
            with warnings.catch_warnings(action="ignore"):
                spark.conf.set("spark.sql.session.timeZone", "UTC")
        except PySparkException:
            # It would be asked once more at the end of the process.
            atexit.unregister(spark.client._on_exit)
            raise
        spark.client.set_retry_policies(policies)
    except (OSError, PySparkException) as error:
        raise SparkFailed(
            f"expected a Spark Connect server at {place[0]}:{place[1]}, found none: "
            f"{_first_line(error)}"
        ) from error
    try:
        yield cast("SparkSession", spark)
    finally:
        with suppress(PySparkException, OSError):
            spark.stop()


def _cores(spark: SparkSession, master: str) -> int:
    """How many tasks run at a time."""
    if _LOCAL.fullmatch(master) is None:
        _parts(spark)  # executors have come when this has
    return spark.sparkContext.defaultParallelism


def _parts(spark: SparkSession) -> int:
    """How many parts a range has, which is one a core on any kind of session."""
    try:
        return spark.range(1 << 12).selectExpr("spark_partition_id()").distinct().count()
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"Spark did nothing: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """What is wrong, without the stack; py4j says it behind a line of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter(said or lines), type(error).__name__)
