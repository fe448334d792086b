"""The check of the Java version that Spark starts with.

Spec: Spark's ``bin/spark-class``, which takes ``JAVA_HOME``, else the first java on the path.
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
#: ``"17.0.2"``, and before Java 9 ``"1.8.0_402"``.
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 30


def check_java() -> None:
    """Raise UsageError unless there is Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    java = os.fspath(Path(home, "bin", "java")) if home else shutil.which("java")
    expected = f"expected Java {_LEAST} or newer for Spark"
    if java is None:
        raise UsageError(f"{expected}, found no java on the path and no JAVA_HOME")
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{expected}, found that {java} does not run: {error}") from error
    match = _VERSION.search(output)
    if match is None:
        raise UsageError(f"{expected}, found {java}, which does not print its version")
    if int(match[1]) < _LEAST:
        raise UsageError(f"{expected}, found {match[1]} at {java}; JAVA_HOME chooses another")
