"""A JVM that ends with its session.

kdump starts it instead of pyspark. pyspark would lose it if a signal arrives during the start, and
would give it kdump's standard error. pyspark finds the JVM by environment variables.

Spec: ``launch_gateway`` of pyspark, ``PythonGatewayServer``.
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from kdump.errors import KdumpError
from kdump.fleet.session.environment import set_variables

_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"
_POLL_SECONDS: Final = 0.05
_END_SECONDS: Final = 20.0


class SparkFailed(KdumpError):
    """Spark could not be started or reached."""


@contextmanager
def start_jvm(settings: Mapping[str, str], log: Path) -> Iterator[None]:
    """Start a JVM for pyspark, and end it after the block.

    The output of the JVM and its children goes to ``log``. Nothing is started if ``spark-submit``
    has started this process, because then there is a JVM. Raise SparkFailed.
    """
    if _PORT in os.environ:
        yield
        return
    gateway_file = log.with_name("gateway")
    try:
        process = _launch(settings, log, gateway_file)
    except OSError as error:
        raise SparkFailed(f"Spark could not be started: {error}") from error
    try:
        while not gateway_file.exists():
            if process.poll() is not None:
                raise SparkFailed(f"Spark could not be started: it ended with {process.returncode}")
            time.sleep(_POLL_SECONDS)
        port, secret = _parse_gateway(gateway_file.read_bytes())
        with set_variables({_PORT: str(port), _SECRET: secret}):
            yield
    finally:
        _reset_pyspark()
        _end(process)


def _launch(settings: Mapping[str, str], log: Path, gateway_file: Path) -> subprocess.Popen[bytes]:
    """Start the JVM, which writes its port and secret to ``gateway_file``."""
    with log.open("ab") as output:
        return subprocess.Popen(
            _command(settings),
            # The JVM ends when this pipe is closed, also if this process is killed.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": os.fspath(gateway_file),
            },
            process_group=0,  # Ctrl-C goes only to this process
        )


def _command(settings: Mapping[str, str]) -> list[str]:
    options = (("--conf", f"{name}={value}") for name, value in settings.items())
    return [
        os.fspath(Path(_find_spark_home(), "bin", "spark-submit")),
        *(part for option in options for part in option),
        *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
    ]


def _parse_gateway(data: bytes) -> tuple[int, str]:
    """Return the port and the secret, as Java's DataOutputStream writes them."""
    port, size = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + size].decode()


def _reset_pyspark() -> None:
    """Remove the JVM from pyspark's state, so that another one can be started."""
    context = cast("Any", SparkContext)
    gateway = context._gateway
    context._gateway = context._jvm = context._active_spark_context = None
    if gateway is not None:
        with suppress(Py4JError, OSError):
            gateway.shutdown()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # Also after a timeout or an interrupt, so that no JVM is left.
        process.kill()
        process.wait()
