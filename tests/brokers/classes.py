"""Compiles Java programs against the jars of a Kafka release, once for each state of the sources.

Spec: ``javac``, which finds what a program uses on its source path.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from brokers.jars import OLDEST_JAVA, cache, classpath, publish


class CompileError(Exception):
    """The Java compiler refused a program; the text ends with what it said."""


def compiled(name: str, version: str, program: str, folders: Sequence[Path]) -> Path:
    """The directory of the classes of ``program`` and what it uses, kept beside the jars.

    ``name`` begins the directory's. Sources are taken from the first of ``folders`` that has them.
    Raises CompileError.
    """
    path = classpath(version)
    digest = hashlib.sha256(path.encode())
    for folder in folders:
        for source in sorted(folder.glob("*.java")):
            digest.update(source.read_bytes())
    directory = cache() / f"{name}-{version}-{digest.hexdigest()[:8]}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".building-") as building:
            classes = Path(building) / "classes"
            _compile(program, folders, path, classes)
            publish(classes, directory)
    return directory


def _compile(program: str, folders: Sequence[Path], path: str, classes: Path) -> None:
    found = [folder / f"{program}.java" for folder in folders]
    source = next(path for path in found if path.exists())
    options = ["--release", str(OLDEST_JAVA), "-nowarn", "-implicit:class", "-encoding", "UTF-8"]
    paths = ["-cp", path, "-sourcepath", ":".join(map(str, folders)), "-d", str(classes)]
    done = subprocess.run(
        ["javac", *options, *paths, source], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CompileError(f"javac ended with {done.returncode} for {source}:\n{done.stderr}")
