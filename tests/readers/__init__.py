"""Runs other projects' readers of records, each in a process of its own.

Spec: the record parser of kafka-python, which reads bytes, and the consumer of librdkafka, which
reads from a broker. A parser may loop or crash on what it does not expect, and librdkafka starts
threads: neither belongs in a test process, which forks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TIMEOUT_S = 120

JsonObject = dict[str, Any]
"""A record as ``kdump dump --format json --records --base64`` names its fields, or an error."""


class ReaderError(Exception):
    """A reader failed; the text ends with what it wrote to standard error."""


def kafka_python(paths: Iterable[Path]) -> list[JsonObject]:
    """What kafka-python's parser finds in each ``.log`` file, in order.

    A record has a ``file`` beside the fields of a consumer and ``control``. The last object of a
    file may have an ``error`` instead. Raises ReaderError.
    """
    return list(_run("from_files.py", [], {"paths": [os.fspath(path) for path in paths]}))


def librdkafka(bootstrap: str, partitions: Iterable[tuple[str, int]]) -> list[JsonObject]:
    """What librdkafka consumes of each (topic, partition), from the beginning to the end.

    A record has ``topic`` and ``partition`` beside the fields of a consumer; the order holds
    within a partition. Raises ReaderError if an end is not reached.
    """
    return list(_run("from_broker.py", [bootstrap], {"partitions": list(partitions)}))


def _run(script: str, arguments: list[str], request: JsonObject) -> Iterator[JsonObject]:
    """What the script prints, an object a line, when given ``request`` on standard input."""
    try:
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name(script), *arguments],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise ReaderError(f"{script} took over {TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise ReaderError(f"{script} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return map(json.loads, done.stdout.splitlines())
