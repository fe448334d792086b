"""Finds the fixtures that real brokers left, and makes whole copies of them.

Spec: the table of files in ``fixtures/README.md``; a file whose full size is above its stored
size had a tail of zeros, which is not stored.
Must never write below ``fixtures/``, nor import kdump.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent / "fixtures"
README = ROOT / "README.md"

_ROW = re.compile(r"\| `([^`]+)` \| (\d+) \| (\d+) \| `([0-9a-f]{64})` \|")


@dataclass(frozen=True, slots=True)
class Stored:
    """One row of the table: a file's path below ``fixtures/``, its sizes and its digest."""

    path: str
    full_bytes: int
    stored_bytes: int
    sha256: str


def names() -> tuple[str, ...]:
    """The stored log directories, ``<version>/<state>``, oldest release first."""
    found = ROOT.glob("brokers/*/*.topics.json")
    paths = (path.relative_to(ROOT / "brokers").as_posix() for path in found)
    return tuple(sorted((path.removesuffix(".topics.json") for path in paths), key=_age))


def _age(name: str) -> tuple[tuple[int, ...], str]:
    version, state = name.split("/")
    return tuple(map(int, version.split("."))), state


FIXTURES = names()


def listing() -> dict[str, Stored]:
    """The table of ``fixtures/README.md`` by path."""
    rows = (
        Stored(path, int(full), int(stored), digest)
        for path, full, stored, digest in _ROW.findall(README.read_text())
    )
    return {row.path: row for row in rows}


def copy_fixture(name: str, target: Path) -> Path:
    """Copy the log directory ``name`` to ``target``, as large as the broker left it.

    ``target`` is made if it is not there. What grows is sparse. Returns ``target``.
    """
    prefix = f"brokers/{name}/"
    shutil.copytree(ROOT / prefix, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for row in listing().values():
        if row.path.startswith(prefix) and row.full_bytes > row.stored_bytes:
            os.truncate(target / row.path.removeprefix(prefix), row.full_bytes)
    return target


def partitions(name: str) -> list[Path]:
    """The stored partition directories of a fixture, ``__cluster_metadata-0`` too, by name."""
    return sorted(path for path in (ROOT / "brokers" / name).iterdir() if path.is_dir())


def consumed(name: str) -> dict[tuple[str, str], Path]:
    """What a real consumer read: (``<topic>-<partition>``, isolation level) -> JSON Lines file."""
    files = {}
    for path in sorted((ROOT / "consumed" / name).glob("*.jsonl")):
        # A topic's name may hold dots too.
        partition, isolation, _ = path.name.rsplit(".", 2)
        files[partition, isolation] = path
    return files


def topic_configs(name: str) -> dict[str, dict[str, str]]:
    """The settings in force for each topic of a fixture when its broker wrote it."""
    text = (ROOT / "brokers" / f"{name}.topics.json").read_text()
    return {topic: described["config"] for topic, described in json.loads(text).items()}
