"""An S3 server of moto's on loopback, in a process of its own, and trees of files put into it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """``client`` is boto3's."""

    port: int
    client: Any
    process: subprocess.Popen[bytes]

    def bucket(self, name: str) -> Bucket:
        """Make a bucket."""
        self.client.create_bucket(Bucket=name)
        return Bucket(self, name)


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server."""

    server: Server
    name: str

    def address(self, key: str, port: int | None = None) -> str:
        """The address of an object or a prefix, as one types it."""
        endpoint = f"127.0.0.1:{port or self.server.port}"
        return f"s3://{self.name}/{key}?" + urlencode(
            {"endpoint_override": endpoint, "scheme": "http", "region": "us-east-1"}
        )

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self.server.client.put_object(Bucket=self.name, Key=key, Body=data)

    def upload(self, directory: Path, prefix: str) -> str:
        """Write every file below ``directory``; returns the address of the prefix."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(directory)}", path.read_bytes())
        return self.address(prefix)


@contextmanager
def served() -> Iterator[Server]:
    """Run a server; its keys are in the environment meanwhile."""
    import boto3

    keys = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
    before = {name: os.environ.get(name) for name in keys}
    os.environ.update(keys)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        client = boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1"
        )
        yield Server(port, client, process)
    finally:
        process.terminate()
        process.wait()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"moto did not start: {process.poll()}")
