"""A JVM that ends with its session.

It is started here rather than by pyspark, which would lose it where a signal comes meanwhile, and
give it our standard error. pyspark finds it by the variables that it has for that.

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
from kdump.fleet.session.environment import variables

_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"
_POLL_SECONDS: Final = 0.05
_END_SECONDS: Final = 20.0


class SparkFailed(KdumpError):
    """Spark could not be started, or not be reached."""


@contextmanager
def running(settings: Mapping[str, str], log: Path) -> Iterator[None]:
    """Start a JVM that pyspark takes; what it and its children write goes into ``log``.

    Nothing is started where ``spark-submit`` has started us, and a JVM. Raises SparkFailed.
    """
    if _PORT in os.environ:
        yield
        return
    told = log.with_name("gateway")
    try:
        process = _begun(settings, log, told)
    except OSError as error:
        raise SparkFailed(f"Spark could not be started: {error}") from error
    try:
        while not told.exists():
            if process.poll() is not None:
                raise SparkFailed(f"Spark could not be started: it ended with {process.returncode}")
            time.sleep(_POLL_SECONDS)
        port, secret = _parse(told.read_bytes())
        with variables({_PORT: str(port), _SECRET: secret}):
            yield
    finally:
        _forget()
        _end(process)


def _begun(settings: Mapping[str, str], log: Path, told: Path) -> subprocess.Popen[bytes]:
    """The JVM, which writes to ``told`` how to reach it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            _command(settings),
            # It ends where this is closed, also when we are killed.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": os.fspath(told),
            },
            process_group=0,  # Ctrl-C is for us
        )


def _command(settings: Mapping[str, str]) -> list[str]:
    options = (("--conf", f"{name}={value}") for name, value in settings.items())
    return [
        os.fspath(Path(_find_spark_home(), "bin", "spark-submit")),
        *(part for option in options for part in option),
        *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
    ]


def _parse(told: bytes) -> tuple[int, str]:
    """The port and the secret, as Java's DataOutputStream writes them."""
    port, size = struct.unpack_from(">ii", told)
    return port, told[8 : 8 + size].decode()


def _forget() -> None:
    """Have pyspark forget its JVM, so that another one may be started."""
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
        # Whatever keeps it, or interrupts us: it must not outlive us.
        process.kill()
        process.wait()
