"""Finds the fixtures that real brokers left, and makes whole copies of them.

``fixtures/SHA256SUMS`` lists every stored file. ``fixtures/FULL_SIZES`` lists those that had a tail
of zeros, which is not stored, with the size that the broker left.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "fixtures"
README = ROOT / "README.md"
SUMS = ROOT / "SHA256SUMS"
FULL_SIZES = ROOT / "FULL_SIZES"
#: What is about the fixtures, and none of them.
LISTS = (README, SUMS, FULL_SIZES)


@dataclass(frozen=True, slots=True)
class Stored:
    """A file's path below ``fixtures/``, its sizes in bytes, and the digest of what is stored."""

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
#: The fixtures of three brokers.
REPLICAS = ("4.3.1/replicas", "4.4.0/replicas")
#: The fixture of a broker with remote storage.
TIERED = ("4.3.1/tiered",)
#: Messages of magic 0, and 4.3 after a kill and of three brokers.
_FEW = ("0.8.2.2/clean", "4.3.1/killed", "4.3.1/replicas")
#: Messages of magic 1, and the first release with batches.
_MORE = ("0.10.2.2/killed", "1.1.1/clean")


def few_first(names: Iterable[str] = FIXTURES) -> tuple[object, ...]:
    """Fixtures as the parameters of tests that take long.

    A few of them run always, a few more are ``slow``, the others ``nightly``.
    """
    return tuple(pytest.param(name, marks=long_marks(name)) for name in names)


def long_marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Those of a test that takes long and reads the fixture ``name``."""
    marks = dict.fromkeys(_FEW, ()) | dict.fromkeys(_MORE, (pytest.mark.slow,))
    return marks.get(name, (pytest.mark.nightly,))


@cache
def listing() -> dict[str, Stored]:
    """The listed files by path."""
    full = full_sizes()
    rows = {}
    for path, digest in _lines(SUMS):
        stored_bytes = (ROOT / path).stat().st_size
        rows[path] = Stored(path, full.get(path, stored_bytes), stored_bytes, digest)
    return rows


def full_sizes() -> dict[str, int]:
    """The full sizes, in bytes, of the files that are stored without their tail of zeros."""
    return {path: int(size) for path, size in _lines(FULL_SIZES)}


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a list: a path each, and what stands before it."""
    for line in path.read_text().splitlines():
        value, name = line.split("  ", 1)
        yield name, value


def copy_fixture(name: str, target: Path) -> Path:
    """Copy the log directory ``name`` to ``target``, as large as the broker left it.

    ``target`` is made if it is not there. What grows is sparse. Returns ``target``.
    """
    prefix = f"brokers/{name}/"
    shutil.copytree(ROOT / prefix, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for path, size in full_sizes().items():
        if path.startswith(prefix):
            os.truncate(target / path.removeprefix(prefix), size)
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
