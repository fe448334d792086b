"""Runs the Java programs beside it with the clients of a Kafka release.

Spec: the sources in ``java/``, and for older releases those that stand in for them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from brokers.classes import compiled
from brokers.jars import classpath, java, meant, tiered_storage

HERE = Path(__file__).parent
TIMEOUT_S = 300

# What lives for seconds takes most of them to start: the quick compiler and plain collector win.
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_SOURCES = HERE / "java"
# Where the clients of a release differ from the newest, sources of the same name stand in.
_STAND_INS = {
    "0.8.2.2": ("0.8",),
    "0.10.2.2": ("0.10", "1.1"),
    "1.1.1": ("1.1",),
    "3.9.1": ("3.9",),
    "4.4.0": ("4.4",),
}


class ProgramError(Exception):
    """A Java program failed; the text ends with what it wrote to standard error."""


def java_command(
    version: str, log_level: str, *flags: str, classes: Path | str | None = None
) -> list[str]:
    """How to start a JVM of Kafka ``version`` that logs to standard error from ``log_level`` on.

    ``classes`` is a directory or a jar that goes before the release's own jars, or several.
    """
    program = java()
    if program is None:
        raise ProgramError("no java command on PATH")
    # Each release reads the one of the two that its logging library knows.
    logging = (
        f"-Dlog4j.configuration=file:{HERE}/log4j.properties",
        f"-Dlog4j2.configurationFile={HERE}/log4j2.properties",
        f"-Dkdump.level={log_level}",
    )
    path = classpath(version) if classes is None else f"{classes}:{classpath(version)}"
    return [str(program), *flags, *logging, "-cp", path]


def tiered_storage_of(version: str) -> str:
    """The class path of ``LocalTieredStorage``: that of 4.3.1, and what later releases have moved.

    Raises JarsError if Maven fails.
    """
    moved = _SOURCES / meant(version)[:3] / "tiered"
    jar = tiered_storage()
    if not moved.is_dir():
        return str(jar)
    return f"{jar}:{compiled('tiered', version, 'LogContext', [moved])}"


def command(version: str, program: str, *arguments: str) -> list[str]:
    """How to run ``java/<program>.java``, which is compiled if need be."""
    folders = [*(_SOURCES / folder for folder in _STAND_INS.get(meant(version), ())), _SOURCES]
    classes = compiled(program.lower(), version, program, folders)
    started = java_command(version, "ERROR", *QUICK, "-Xmx256m", classes=classes)
    return [*started, program, *arguments]


def run(version: str, program: str, *arguments: str, stdin: str = "") -> str:
    """Run ``java/<program>.java``; its standard output. Raises ProgramError if it fails."""
    try:
        done = subprocess.run(
            command(version, program, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise ProgramError(f"{program} {arguments} took over {TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise ProgramError(f"{program} {arguments} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def consume(
    version: str, bootstrap: str, isolation: str, partitions: Iterable[str], directory: Path
) -> None:
    """Read partitions whole into ``<directory>/<topic>-<partition>.<isolation>.jsonl``.

    ``isolation`` is ``read_uncommitted`` or ``read_committed``; the lines are described in
    ``java/Lines.java``. Raises ProgramError if the end of a partition is not reached.
    """
    run(version, "Consume", bootstrap, isolation, str(directory), *partitions)


#: The offset that a time leads to, that record's own time, and its leader epoch if it has one.
Answer = tuple[int, int, int | None] | None


def offsets_for_times(
    version: str, bootstrap: str, wanted: Mapping[str, Iterable[int]]
) -> dict[str, list[Answer]]:
    """What a consumer is told for these times, in milliseconds, of each partition."""
    asked = json.dumps({name: list(times) for name, times in wanted.items()})
    told = json.loads(run(version, "Times", bootstrap, stdin=asked))
    return {
        name: [None if answer is None else tuple(answer) for answer in told.get(name, ())]
        for name in wanted
    }
