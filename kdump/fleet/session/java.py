"""The check of the Java version that Spark starts with.

Spec: Spark's ``bin/spark-class``: ``JAVA_HOME`` first, else the first on the path.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kdump.errors import UsageError

_LEAST: Final = 17
#: ``"17.0.2"``, and ``"1.8.0_402"`` of old
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 30


def check_java() -> None:
    """Raise UsageError unless there is Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    java = os.fspath(Path(home, "bin", "java")) if home else shutil.which("java")
    wanted = f"expected Java {_LEAST} or newer for Spark"
    if java is None:
        raise UsageError(f"{wanted}, found no java on the path and no JAVA_HOME")
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{wanted}, found that {java} does not run: {error}") from error
    match = _VERSION.search(told)
    if match is None:
        raise UsageError(f"{wanted}, found {java}, which does not print its version")
    if int(match[1]) < _LEAST:
        raise UsageError(f"{wanted}, found {match[1]} at {java}; JAVA_HOME chooses another")
