"""A cluster of Spark on this machine whose executors have nothing of the driver's but its paths.

They are other JVMs in other working directories, and their Python is a packed environment without
pyspark, as one is shipped to a real cluster.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

import kdump
from kdump.fleet.session.session import Cluster, Session, open_session
from support.object_stores import free_port

MASTER = "local-cluster[2,1,1024]"
#: What a task imports beside kdump: the packages that it requires, and those of the extra.
PACKAGES = (
    *("click", "rich", "crc32c", "isal", "lz4", "cramjam", "snappy", "xxhash", "zstandard"),
    *("pyarrow", "pyarrow.libs", "pandas", "pandas.libs", "numpy", "numpy.libs"),
    *("dateutil", "pytz", "tzdata", "six.py", "backports"),
    *("botocore", "jmespath", "urllib3"),
)


def pack(archive: Path) -> None:
    """Make an archive of an environment with the kdump under test; nothing is fetched."""
    site = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    # Compressed: of others Java alone would take no modes over.
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        python = Path(sys.executable).resolve()
        tar.add(python, "bin/python")
        configuration = archive.with_name("pyvenv.cfg")
        configuration.write_text(f"home = {python.parent}\n")
        tar.add(configuration, "pyvenv.cfg")
        tar.add(Path(kdump.__file__).parent, f"{site}/kdump")
        for path in packages():
            tar.add(path, f"{site}/{path.name}")


def packages() -> Iterator[Path]:
    """What a task imports beside kdump, as it is installed here."""
    installed = Path(pyspark.__file__).parent.parent
    # Some ask for their own version when they are imported.
    versions = (path.name for path in installed.glob("*.dist-info"))
    yield from filter(Path.exists, (installed / name for name in (*PACKAGES, *versions)))


@contextmanager
def cluster(
    top: Path, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str] | None = None
) -> Iterator[Session]:
    """Start the cluster with its files in ``top``."""
    archive, home = top / "environment.tar.gz", top / "spark"
    pack(archive)
    home.mkdir()
    # Executors work in a directory of SPARK_HOME, which is not to be written to.
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    wanted = {"spark.archives": f"{archive}#environment", **(settings or {})}
    with open_session(Cluster(master=MASTER), settings=wanted) as session:
        yield session


@contextmanager
def standalone(top: Path, python: Path, hosts: Sequence[str] = ("127.0.0.1",)) -> Iterator[str]:
    """Run a master, and a worker of two cores on each host; yields the URL. Files go into ``top``.

    ``hosts`` are addresses of this machine, the first of them the master's. Executors find
    ``python`` as python3, and nothing of the environment that the tests run in.
    """
    (top / "bin").mkdir()
    (top / "bin" / "python3").symlink_to(python)
    spark, port = Path(pyspark.__file__).parent, free_port()
    url = f"spark://{hosts[0]}:{port}"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    } | {
        "PATH": f"{top / 'bin'}:{os.environ['PATH']}",
        "SPARK_HOME": str(spark),
    }
    of_worker = ("--cores", "2", "--memory", "2g", "--work-dir", str(top / "work"), url)
    parts = [
        ("master.Master", hosts[0], ("--port", str(port))),
        *(("worker.Worker", host, of_worker) for host in hosts),
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, host, arguments in parts:
            with (top / f"{name}-{host}.log").open("wb") as log:
                command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
                where = ["--host", host, "--webui-port", "0"]
                started.append(
                    subprocess.Popen(
                        [*command, *where, *arguments],
                        cwd=top,
                        env=environment | {"SPARK_LOCAL_IP": host},
                        stdout=log,
                        stderr=log,
                    )
                )
            await_port(port, started[-1])
        yield url
    finally:
        for process in reversed(started):
            process.terminate()  # a worker ends its executors
            process.wait()


def await_port(port: int, process: subprocess.Popen[Any]) -> None:
    """Wait until somebody listens; ``process`` must not end meanwhile."""
    while not _listens(port):
        assert process.poll() is None
        time.sleep(0.1)


@contextmanager
def connect_server(top: Path) -> Iterator[str]:
    """Run a Connect server of two tasks at a time, with its files in ``top``; yields its URL."""
    port = free_port()
    settings = {
        "spark.master": "local[2,4]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(top),
        "spark.sql.warehouse.dir": str(top / "warehouse"),
    }
    options = [part for one in settings.items() for part in ("--conf", "=".join(one))]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with (top / "server.log").open("wb") as log:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        process = subprocess.Popen(
            [submit, "--class", name, *options, "spark-internal"],
            cwd=top,
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=log,
        )
    try:
        while not _listens(port):
            assert process.poll() is None, (top / "server.log").read_text()
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
