"""A session of Spark, started here or reached over Connect.

Spark's own output goes to a file. A Spark that is started here listens only on the loopback
interface, and writes all its files into one folder, which is removed at the end.

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
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kdump.errors import UsageError
from kdump.fleet.session.environment import set_variables
from kdump.fleet.session.java import check_java
from kdump.fleet.session.jvm import SparkFailed, start_jvm
from kdump.values import frozen

_LOCAL: Final = re.compile(r"local(\[(?P<cores>\*|[1-9]\d*)(?P<failures>,[1-9]\d*)?\])?")
_STANDALONE: Final = re.compile(r"spark://(?P<addresses>[^/\s,]+:\d+(,[^/\s,]+:\d+)*)")
_OTHERS: Final = re.compile(r"local-cluster\[\d+,\d+,\d+\]|k8s://\S+|yarn")
#: The number of failures of a task that end the job; without it ``local[N]`` never retries.
_FAILURES: Final = 4
_CONNECT_PORT: Final = 15002
_REACH_SECONDS: Final = 10.0
#: Otherwise the client retries its first call for ten minutes.
_REACH_TRIES: Final = 1
_LOOPBACK: Final = "127.0.0.1"
_PREFIX: Final = "kdump-spark-"
_LOG: Final = "spark.log"
#: The length limit of a socket's path, less the 43 bytes that Spark adds to the folder.
_SOCKET_BYTES: Final = 107 - 43
#: Variables of a shell that uses Connect or another master; they would override the options.
_OTHER_SESSIONS: Final = ("MASTER", "SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED")
#: Variables that pyspark sets for the workers of a session, and does not unset.
_SET_BY_PYSPARK: Final = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: Python does the work: an optimizing JVM would only take processors from it.
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


@frozen
class Cluster:
    """The URL of a master or of a Connect server; exactly one of both is set.

    ``remote`` may also be a local master: then both sides of Connect are started here.
    """

    master: str | None = None
    remote: str | None = None

    @property
    def local_master(self) -> str | None:
        """The master of a session that runs on this machine alone, None for any other session."""
        url = self.master or self.remote or ""
        return url if url.startswith("local") else None


@frozen
class Session:
    """A running session; ``cores`` is the number of tasks that run at a time, as far as known.

    ``remote``: the session uses Connect. ``log`` is the file of Spark's own output, None if it is
    on another machine.
    """

    spark: SparkSession
    cores: int
    remote: bool
    log: Path | None


def open_session(
    cluster: Cluster, *, settings: Mapping[str, str] | None = None
) -> AbstractContextManager[Session]:
    """Return what starts Spark or connects to it when it is entered, and ends the session.

    ``settings`` override the settings of kdump. If the session ends with SparkFailed, Spark's log
    is kept, and the error names it. Raise UsageError at once for a malformed URL, and without Java
    17 or newer if Spark is to be started here. Raise SparkFailed, at once if no master listens.
    """
    _check(cluster)
    return _open_session(cluster, settings or {})


@contextmanager
def _open_session(cluster: Cluster, settings: Mapping[str, str]) -> Iterator[Session]:
    with _start_session(cluster, settings) as session:
        # pyspark's objects live as long as the session; a scan of them takes 0.1 s.
        gc.freeze()
        try:
            yield session
        finally:
            gc.unfreeze()


@contextmanager
def _start_session(cluster: Cluster, settings: Mapping[str, str]) -> Iterator[Session]:
    with ExitStack() as stack:
        folder = stack.enter_context(_spark_folder())
        log = folder / _LOG
        stack.enter_context(set_variables(_environment(folder, cluster.local_master)))
        if cluster.remote is not None and cluster.local_master is None:
            spark = stack.enter_context(_connect(cluster.remote))
            yield Session(spark, _partition_count(spark), remote=True, log=None)
            return
        master = with_failures(cluster.local_master or cluster.master or "")
        all_settings = _settings(master, folder, log, settings)
        if cluster.remote is None:
            spark = stack.enter_context(_start_classic(all_settings, log))
            yield Session(spark, _core_count(spark, master), remote=False, log=log)
            return
        port, token = _free_port(), uuid4().hex
        server = stack.enter_context(
            _start_classic({**_server_settings(port, token), **all_settings}, log)
        )
        spark = stack.enter_context(_connect(f"sc://localhost:{port}/;token={token}"))
        yield Session(spark, _core_count(server, master), remote=True, log=log)


def with_failures(master: str) -> str:
    """Return ``master``, with a maximum number of failures if it is local and has none."""
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
        if parts.scheme != "sc" or not parts.hostname or not _has_valid_port(cluster.remote):
            raise UsageError(f"--remote {url}: expected sc://HOST:PORT, or local[N]")
        return
    standalone = _STANDALONE.fullmatch(url)
    if not (local or standalone or _OTHERS.fullmatch(url)):
        raise UsageError(f"--master {url}: expected local[N], spark://HOST:PORT, yarn or k8s://...")
    if SparkContext._active_spark_context is not None:
        raise UsageError("expected no session of Spark in this process, found a running session")
    check_java()
    if standalone is not None:
        _check_reachable(standalone["addresses"])


def _has_valid_port(url: str) -> bool:
    """Return whether the port of ``url`` is valid; no port is valid."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _check_reachable(addresses: str) -> None:
    """Raise SparkFailed unless some master listens; Spark itself retries for a minute."""
    errors = []
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except (OSError, OverflowError) as error:
            errors.append(f"expected Spark's master at {address}, found none: {error}")
        else:
            return
    raise SparkFailed("; ".join(errors))


# --- folder, environment and settings


@contextmanager
def _spark_folder() -> Iterator[Path]:
    """Yield a folder for all files of Spark, and remove it; after SparkFailed keep the log."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        try:
            yield Path(name)
        except SparkFailed as failed:
            log = Path(name, _LOG)
            if not log.exists() or not log.stat().st_size:
                raise
            with (
                log.open("rb") as source,
                tempfile.NamedTemporaryFile(prefix=_PREFIX, suffix=".log", delete=False) as target,
            ):
                shutil.copyfileobj(source, target)
            raise SparkFailed(f"{failed}; Spark's log is in {target.name}") from failed


def _environment(folder: Path, local_master: str | None) -> dict[str, str | None]:
    """Return the environment variables for Spark; None unsets a variable."""
    values: dict[str, str | None] = dict.fromkeys(_OTHER_SESSIONS + _SET_BY_PYSPARK)
    values |= {"GRPC_VERBOSITY": "NONE", "GLOG_minloglevel": "3"}
    if local_master is None:
        return values
    # An own directory, so that no default of the machine opens other interfaces.
    values |= {"SPARK_LOCAL_IP": _LOOPBACK, "SPARK_CONF_DIR": os.fspath(folder)}
    if _LOCAL.fullmatch(local_master):
        values |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        # Workers import this kdump, also if the working directory holds another one.
        values["PYTHONSAFEPATH"] = "1"
    return values


def _settings(master: str, folder: Path, log: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of kdump, overridden by ``overrides``; Java gets the options of both."""
    configuration = folder / "log4j2.properties"
    with configuration.open("w") as file:
        file.write(_LOG4J.format(log=log))
    java = f'"-Dlog4j2.configurationFile=file:{configuration}" "-Djava.io.tmpdir={folder}"'
    socket_fits = len(os.fsencode(folder)) <= _SOCKET_BYTES
    defaults = {
        "spark.master": master,
        "spark.app.name": "kdump",
        "spark.api.mode": "classic",
        # Memory limits the results of a fleet, not a fixed size.
        "spark.driver.maxResultSize": "0",
        # With Arrow's own pool, page faults for each batch take a tenth of an export's time.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
        # Adaptive planning changes nothing in the jobs of kdump.
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        # The driver keeps finished jobs for the pages of the web interface, which is off.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.fspath(folder / "warehouse"),
        "spark.python.unix.domain.socket.enabled": str(socket_fits).lower(),
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.local.dir": os.fspath(folder),
            "spark.python.unix.domain.socket.dir": os.fspath(folder),
        }
        java = f"{_LOCAL_JAVA} {java}"
    options = f"{java} {overrides.get(_JAVA_OPTIONS, '')}".strip()
    return {**defaults, **overrides, _JAVA_OPTIONS: options}


def _server_settings(port: int, token: str) -> dict[str, str]:
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
    }


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        return int(listener.getsockname()[1])


# --- start and end


@contextmanager
def _start_classic(settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """Start a classic session with a JVM of its own, and end both."""
    with start_jvm(settings, log):
        try:
            with _restore_handler():
                conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
                spark = SparkSession.builder.config(conf=conf).getOrCreate()
        except (PySparkException, Py4JError, OSError) as error:
            raise SparkFailed(f"Spark could not be started: {_first_line(error)}") from error
        try:
            yield spark
        finally:
            # The JVM may have ended already.
            with suppress(PySparkException, Py4JError, OSError):
                spark.stop()


@contextmanager
def _restore_handler() -> Iterator[None]:
    """Restore the handler of SIGINT, which Spark replaces with one that cancels jobs."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _connect(url: str) -> Iterator[SparkSession]:
    """Open a session over Connect, and end it; the server continues."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    parts = urlsplit(url)
    address = parts.hostname or "", parts.port or _CONNECT_PORT
    try:
        socket.create_connection(address, _REACH_SECONDS).close()
        spark = ConnectSession.builder.remote(url).create()
        policies = spark.client.get_retry_policies()
        spark.client.set_retry_policies([DefaultPolicy(max_retries=_REACH_TRIES)])
        try:
            with warnings.catch_warnings(action="ignore"):
                spark.conf.set("spark.sql.session.timeZone", "UTC")
        except PySparkException:
            # Otherwise pyspark calls the server again when the process exits.
            atexit.unregister(spark.client._on_exit)
            raise
        spark.client.set_retry_policies(policies)
    except (OSError, PySparkException) as error:
        raise SparkFailed(
            f"expected a Spark Connect server at {address[0]}:{address[1]}, found none: "
            f"{_first_line(error)}"
        ) from error
    try:
        yield cast("SparkSession", spark)
    finally:
        with suppress(PySparkException, OSError):
            spark.stop()


def _core_count(spark: SparkSession, master: str) -> int:
    """Return the number of tasks that run at a time."""
    if _LOCAL.fullmatch(master) is None:
        _partition_count(spark)  # waits for executors
    return spark.sparkContext.defaultParallelism


def _partition_count(spark: SparkSession) -> int:
    """Return the number of partitions of a range: one for each core, in any kind of session."""
    try:
        return spark.range(1 << 12).selectExpr("spark_partition_id()").distinct().count()
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"Spark did nothing: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return the message without the stack trace; py4j puts it after a line of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    messages = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter(messages or lines), type(error).__name__)
