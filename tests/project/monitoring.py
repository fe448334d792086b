"""A Prometheus on loopback that reads, through node_exporter, what a test put into a directory."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

_START_SECONDS = 60


@dataclass(frozen=True)
class Prometheus:
    """A server, by its port."""

    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        """What /api/v1 answers, its ``data``."""
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(address, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values that an expression has now."""
        found = self.ask("query", query=expression)
        assert found["resultType"] == "vector"
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]


@contextmanager
def prometheus(textfiles: Path, rules: Path, directory: Path, awaited: str) -> Iterator[Prometheus]:
    """A server that evaluates ``rules`` too; it has come far when ``awaited`` has a value."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        exporter_port, port = one.getsockname()[1], other.getsockname()[1]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "node",
                "static_configs": [{"targets": [f"127.0.0.1:{exporter_port}"]}],
                "relabel_configs": [{"target_label": "instance", "replacement": "broker7"}],
            }
        ],
    }
    directory.mkdir()
    (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    exporter = [
        "prometheus-node-exporter",
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={textfiles}",
        f"--web.listen-address=127.0.0.1:{exporter_port}",
    ]
    server = [
        "prometheus",
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with ExitStack() as stack, (directory / "said").open("wb") as said:
        started = []
        for command in (exporter, server):
            process = subprocess.Popen(command, stdout=said, stderr=said, cwd=directory)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process)
        here = Prometheus(port)
        deadline = time.monotonic() + _START_SECONDS
        while not _has(here, awaited):
            ended = any(process.poll() is not None for process in started)
            assert not ended and time.monotonic() < deadline, (directory / "said").read_text()
            time.sleep(0.2)
        yield here


def _has(server: Prometheus, awaited: str) -> bool:
    try:
        return bool(server.query(awaited))
    except (URLError, ConnectionError):  # not there yet, or still starting
        return False
