"""Gets the jars of a Kafka release through Maven and keeps them in a cache.

Spec: the coordinates published on Maven Central under ``org.apache.kafka``; one dependency on
``kafka_<scala>`` brings the broker, its clients and the codecs.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OLDEST_JAVA = 17
"""Kafka 4 brokers run on Java 17 and later; the older releases used here run on it too."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A Maven artifact."""

    group: str
    artifact: str
    version: str
    classifier: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """What a Kafka release is built from: its Scala version, and jars beside the broker's own."""

    scala: str
    beside: tuple[Coordinate, ...]


def _kafka(artifact: str, version: str) -> Coordinate:
    return Coordinate("org.apache.kafka", artifact, version)


_RELOAD4J = (Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36"),)
# slf4j-impl, not slf4j2-impl: Kafka ships slf4j-api 1.7.
_LOG4J2 = tuple(
    Coordinate("org.apache.logging.log4j", artifact, "2.25.4")
    for artifact in ("log4j-slf4j-impl", "log4j-core", "log4j-1.2-api")
)

_LOG4J = (
    Coordinate("org.slf4j", "slf4j-log4j12", "1.7.25"),
    Coordinate("log4j", "log4j", "1.2.17"),
)
# Part of Java until Java 10, and needed by the older brokers.
_JAXB = Coordinate("javax.xml.bind", "jaxb-api", "2.3.1")
# For the programs of java/; later brokers bring it along.
_JACKSON = Coordinate("com.fasterxml.jackson.core", "jackson-databind", "2.10.5.1")

ZOOKEEPER_RELEASES = {
    "0.8.2.2": Release("2.11", (_JACKSON,)),
    "0.10.2.2": Release("2.11", (_JAXB, _JACKSON)),
    "1.1.1": Release("2.12", _LOG4J),
    "2.8.2": Release("2.13", _LOG4J),
}
"""The releases that need a ZooKeeper, which comes with their jars; oldest first."""

RELEASES = {
    "3.9.1": Release("2.13", (*_RELOAD4J, _kafka("kafka-tools", "3.9.1"))),
    "4.3.1": Release("2.13", (*_LOG4J2, _kafka("kafka-tools", "4.3.1"))),
    "4.4.0": Release("2.13", (*_LOG4J2, _kafka("kafka-tools", "4.4.0"))),
}
"""The releases that tests run on KRaft, and whose loader and dump tool the oracle runs."""

USUAL = "4.3.1"
"""The release that most tests run on. ``KDUMP_NEWEST`` puts another one in its place."""
IS_REPLACED: Final = "KDUMP_NEWEST" in os.environ
"""Whether it is: tests that compare all releases, and name them themselves, do not run then."""

BETWEEN = {
    version: Release("2.13", (*_LOG4J2, _kafka("kafka-tools", version)))
    for version in ("4.0.0", "4.1.2", "4.2.2")
}
"""Releases on KRaft of which tests read what a broker writes, and nothing more."""

# Kafka's own storage for its tests of tiered topics, in a directory.
_TIERED = Coordinate("org.apache.kafka", "kafka-storage", "4.3.1", "test")

# Spark 4.3 reads with it too.
_CONNECTOR = Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")
_OF_CONNECTOR = (
    "spark-sql-kafka",
    "spark-token-provider-kafka",
    "kafka-clients",
    "commons-pool2",
    "snappy-java",
)

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kdump.tests</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""

_DEPENDENCY = """\
    <dependency>
      <groupId>{0.group}</groupId>
      <artifactId>{0.artifact}</artifactId>
      <version>{0.version}</version>{1}
    </dependency>"""

_CLASSIFIER = """
      <classifier>{0.classifier}</classifier>"""


class JarsError(Exception):
    """Maven could not bring the jars of a release; the text ends with what Maven said."""


def cache() -> Path:
    """The directory of everything that Java tests keep between runs (``KDUMP_JARS`` overrides)."""
    chosen = os.environ.get("KDUMP_JARS")
    return Path(chosen) if chosen else Path.home() / ".cache" / "kdump-tests" / "jars"


def java() -> Path | None:
    """The ``java`` command, or None where there is none."""
    found = shutil.which("java")
    return Path(found) if found else None


@functools.cache
def missing() -> str | None:
    """Why tests that need Java or Maven cannot run here, or None if they can."""
    command = java()
    if command is None:
        return "no java command on PATH"
    for tool in ("javac", "mvn"):
        if shutil.which(tool) is None:
            return f"no {tool} command on PATH"
    shown = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', shown.stderr)
    if version is None:
        return f"{command} -version shows no version: {shown.stderr.strip()!r}"
    if int(version[1]) < OLDEST_JAVA:
        return f"{command} is Java {version[1]}, needed is {OLDEST_JAVA} or later"
    return None


def meant(version: str) -> str:
    """The release that runs where ``version`` is asked for (``KDUMP_NEWEST`` for ``USUAL``)."""
    return os.environ.get("KDUMP_NEWEST", USUAL) if version == USUAL else version


def classpath(version: str) -> str:
    """The Java class path of a broker of ``version``, with its tools and a binding for its logs.

    The first call for a release downloads (15 to 55 MB); later ones touch no network. Raises
    KeyError for a version in no table of releases and JarsError if Maven fails.
    """
    version = meant(version)
    release = (ZOOKEEPER_RELEASES | RELEASES | BETWEEN)[version]
    wanted = (_kafka(f"kafka_{release.scala}", version), *release.beside)
    return f"{_directory(version, wanted)}/*"


def spark_connector() -> list[Path]:
    """The jars of Spark's Kafka source, without those that Spark itself brings.

    With another release of Snappy: where musl is installed too, that of Spark 4.3 loads its library
    for musl. Raises JarsError if Maven fails.
    """
    found = sorted(_directory(f"spark-{_CONNECTOR.version}", (_CONNECTOR,)).iterdir())
    return [jar for jar in found if jar.name.startswith(_OF_CONNECTOR)]


def tiered_storage() -> Path:
    """The jar of ``LocalTieredStorage`` of 4.3.1, the last that is published. Raises JarsError."""
    (jar,) = _directory("tiered-4.3.1", (_TIERED,)).glob("*-test.jar")
    return jar


def published(repository: Path) -> list[str]:
    """All releases of the broker that are published, oldest first; asks the registry each time.

    Maven keeps what it gets in ``repository``, an empty directory. Raises JarsError if it fails.
    """
    wanted = Coordinate("org.apache.kafka", "kafka_2.13", "[4.0.0,)")
    with tempfile.TemporaryDirectory() as building:
        pom = Path(building) / "pom.xml"
        pom.write_text(_POM.format(dependencies=_dependency(wanted)))
        options = [f"-Dmaven.repo.local={repository}", "-DexcludeTransitive=true"]
        _maven(pom, "the list of releases", ["dependency:list", *options])
    (listed,) = repository.glob("org/apache/kafka/kafka_2.13/maven-metadata-*.xml")
    found = re.findall(r"<version>(\d+(?:\.\d+)+)</version>", listed.read_text())
    return sorted(found, key=numbers)


def numbers(version: str) -> tuple[int, ...]:
    """A release as numbers, by which releases are sorted."""
    return tuple(map(int, version.split(".")))


def config_command(version: str) -> str:
    """The class of ``kafka-configs.sh`` where ``version`` is asked for; it moved with 4.4."""
    moved = numbers(meant(version)) >= (4, 4)
    return "org.apache.kafka.tools.ConfigCommand" if moved else "kafka.admin.ConfigCommand"


def publish(built: Path, directory: Path) -> None:
    """Give a finished directory its final name in the cache; yields to one that is there first."""
    try:
        built.rename(directory)
    except OSError:
        # Another process was faster; what it made is the same.
        if not directory.is_dir():
            raise
        shutil.rmtree(built)


def _directory(name: str, wanted: Iterable[Coordinate]) -> Path:
    """The directory with the jars of ``wanted``, which are downloaded if need be."""
    pom = _POM.format(dependencies="\n".join(map(_dependency, wanted)))
    # The name carries the pom's digest, so that a changed table never meets an old directory.
    digest = hashlib.sha256(pom.encode()).hexdigest()[:8]
    directory = cache() / f"{name}-{digest}"
    if not directory.is_dir():
        _download(pom, directory)
    return directory


def _dependency(wanted: Coordinate) -> str:
    classifier = _CLASSIFIER.format(wanted) if wanted.classifier else ""
    return _DEPENDENCY.format(wanted, classifier)


def _download(pom: str, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".building-") as building:
        pom_path = Path(building) / "pom.xml"
        pom_path.write_text(pom)
        libs = Path(building) / "libs"
        goal = [
            "dependency:copy-dependencies",
            f"-DoutputDirectory={libs}",
            "-DincludeScope=runtime",
        ]
        _maven(pom_path, directory.name, goal)
        publish(libs, directory)


def _maven(pom: Path, what: str, goal: Iterable[str]) -> None:
    """Run a goal of Maven. Raises JarsError."""
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", pom, *goal],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise JarsError(f"mvn ended with {done.returncode} for {what}:\n{done.stdout}")
