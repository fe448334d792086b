"""Two log directories of a node, and what a broker would do with them: by its rules, not kdump's.

Imports nothing of kdump.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.fixtures_loader import copy_fixture

MARKER = ".kafka_cleanshutdown"
NAME = "compacted-0"
#: Where it begins: what was before is removed.
FIRST = 466
POINT, MARK, START, CLEANED = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
CHECKPOINTS = (POINT, MARK, START, CLEANED)
_OTHERS = ("codec-lz4-0", "deleted-records-0", "__cluster_metadata-0")
_TO_ID = "q2Y3hBDoQ1mDkd8pO5sTgA"
_SUFFIXED = re.compile(r"\S+-\S+\.\S+-(?:delete|future|stray)")


def write(root: Path, *, clean: tuple[bool, bool] = (True, True), name: str = NAME) -> None:
    """``a`` and ``b`` at ``root``: ``a`` has the partitions; ``clean`` says which has a marker."""
    whole = copy_fixture("4.3.1/clean", root / "a")
    for path in whole.iterdir():
        if path.is_dir() and path.name not in (name, *_OTHERS):
            shutil.rmtree(path)
    for path in (whole / name).iterdir():  # fewer files, fewer calls
        if path.name[0] == "0" and path.name[:20] < f"{FIRST:020}":
            path.unlink()
    if name == NAME:
        (whole / name / "leader-epoch-checkpoint").write_text(f"0\n1\n2 {FIRST}\n")
    line = f"{name.rpartition('-')[0]} 0 470"
    for checkpoint in CHECKPOINTS:
        rows = (whole / checkpoint).read_text().splitlines()[2:]
        kept = [row for row in rows if row.split()[0] in (name[:-2], "codec-lz4")]
        if not any(row.startswith(line[:-3]) for row in kept):
            kept.append(line)
        (whole / checkpoint).write_text("\n".join(["0", str(len(kept)), *kept, ""]))
    (root / "b").mkdir()
    meta = (whole / "meta.properties").read_text()
    (root / "b" / "meta.properties").write_text(
        re.sub(r"directory\.id=\S+", f"directory.id={_TO_ID}", meta)
    )
    (root / "b" / POINT).write_text("0\n1\nother 3 7\n")
    for directory, wanted in zip(("a", "b"), clean, strict=True):
        marker = root / directory / MARKER
        if wanted:
            marker.write_text('{"version":0,"brokerEpoch":12}')
        else:
            marker.unlink(missing_ok=True)
    for number, path in enumerate(sorted(root.rglob("*"))):
        moment = 1_700_000_000_123_456_789 + number * 1_000_000_007
        os.utime(path, ns=(moment, moment))


def lines(checkpoint: Path) -> dict[str, int]:
    """The offsets in a checkpoint, by ``<topic>-<partition>``."""
    if not checkpoint.exists() or not checkpoint.stat().st_size:
        return {}
    version, count, *rows = checkpoint.read_text().splitlines()
    assert (version, int(count)) == ("0", len(rows)), checkpoint
    return {f"{topic}-{number}": int(offset) for topic, number, offset in map(str.split, rows)}


@dataclass(frozen=True)
class Start:
    """What a start finds of a partition: where it is loaded from, and with which lines.

    ``directories`` are those with the name; with two a broker does not start. ``believed``: the log
    is loaded without recovery.
    """

    directories: tuple[str, ...]
    offsets: Mapping[str, int | None]
    cleaned: tuple[int, ...]
    believed: bool
    files: Mapping[str, tuple[bytes, int]]


def start(root: Path, name: str = NAME) -> Start:
    """What a broker with both log directories would find of a partition."""
    found = []
    for directory in ("a", "b"):
        names = [path.name for path in sorted((root / directory).iterdir()) if path.is_dir()]
        found += [directory for each in names if _loaded(each) and each == name]
    offsets: dict[str, int | None] = {}
    believed, files = False, {}
    if len(found) == 1:
        home = root / found[0]
        offsets = {each: lines(home / each).get(name) for each in (POINT, MARK, START)}
        believed = (home / MARKER).exists()
        files = contents(home / name)
    each = (lines(root / directory / CLEANED).get(name) for directory in ("a", "b"))
    cleaned = tuple(offset for offset in each if offset is not None)
    return Start(tuple(found), offsets, cleaned, believed, files)


def contents(partition: Path) -> dict[str, tuple[bytes, int]]:
    """The files of a partition, each with its time; no directory in it is looked into."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(partition.iterdir())
        if path.is_file()
    }


def _loaded(name: str) -> bool:
    """Whether ``LogManager.loadLogs`` loads a directory; a name that is none stops the start."""
    if name == "remote-log-index-cache":
        return False
    stem = name
    if name.endswith(("-delete", "-future", "-stray")):
        assert _SUFFIXED.fullmatch(name), f"a broker does not start: {name}"
        stem = name.rpartition(".")[0]
    topic, _, number = stem.rpartition("-")
    assert topic and re.fullmatch(r"[+-]?\d+", number), f"a broker does not start: {name}"
    return topic != "__cluster_metadata"
