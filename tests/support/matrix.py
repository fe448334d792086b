"""Draws commands, kinds of PATH and options at random, by seed, and runs them in forked children.

The world is a tree with every kind of PATH, relative to which all arguments are. Options are drawn
from the commands' own parameters. Runs that may write get a copy of what they are about.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from unicodedata import category

import click

from kdump.cli.main import cli
from support.crashing.places import in_memory
from support.crashing.running import Run, run
from support.crashing.seam import killed_before
from support.crashing.subjects import (
    ALONE,
    CONVERT,
    LINKED,
    LOSSY,
    MOVED,
    REINDEX,
    REINDEX_DAMAGED,
    TORN,
    UNCLEAN,
    Subject,
)
from support.fixtures_loader import copy_fixture
from support.forge import batch, record, write_partition
from support.object_stores import Bucket
from support.stand_in import stand_in

#: What is imported on the way, from where nobody else may be allowed to read.
for _module in (
    "concurrent.futures.thread",
    "difflib",
    "encodings.utf_16_be",
    "encodings.utf_16_le",
    "textwrap",
):
    import_module(_module)
try:
    from support import matrix_spark
except ModuleNotFoundError:  # Spark is an extra
    matrix_spark = None  # type: ignore[assignment]

NOBODY: Final = 65534
#: Of these the last three are interruptions, which none of the runs has.
CODES: Final = frozenset({0, 2, 4, 5, 6})
_LOG: Final = f"{0:020}.log"
_SUBJECTS: Final = {
    "lossy": LOSSY,
    "unclean": UNCLEAN,
    "torn": TORN,
    "reindex": REINDEX,
    "reindex-damaged": REINDEX_DAMAGED,
    "linked": LINKED,
    "alone": ALONE,
    "moved": MOVED,
    "convert": CONVERT,
}
#: Real brokers' log directories, of which these partitions stay.
_FIXTURES: Final = {
    "kraft": (
        "4.3.1/clean",
        (
            "__cluster_metadata-0",
            "__consumer_offsets-1",
            "__transaction_state-0",
            "transactions-0",
            "compacted-0",
        ),
    ),
    "kraft-unclean": ("4.3.1/killed", ("__cluster_metadata-0", "transactions-0", "codec-zstd-0")),
    "zookeeper": ("2.8.2/killed", ("formats-0", "transfers-1", "preallocated-0")),
    "old": ("0.10.2.2/clean", ("codec-gzip-0", "magic-0-0", "groups-0")),
}
_SUFFIXES: Final = ("delete", "stray", "future")
_MAIN: Final = "orders-0"
#: What the configurations name.
_CONFIGURED: Final = ("kraft", "node", "odd", "zookeeper")


@dataclass(frozen=True, slots=True)
class Kind:
    """Paths of one kind, from the world on; ``argv`` is how one of them is typed."""

    name: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class World:
    """``kinds`` are those of PATH, ``configs`` files for ``--config``, ``plans`` ids of repairs."""

    top: Path
    kinds: tuple[Kind, ...]
    configs: tuple[str, ...]
    plans: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A run before it is made: ``homes`` are the trees of the world that it is about.

    ``writes``: it is made in a copy of these, and ``applies``: it may change them.
    """

    argv: tuple[str, ...]
    homes: tuple[str, ...]
    writes: bool
    applies: bool
    nobody: bool
    searching: bool

    def __str__(self) -> str:
        who = " (as nobody)" if self.nobody else ""
        return f"kdump {shlex.join(self.argv)}{who}"


# --- the world


@contextmanager
def world() -> Iterator[World]:
    """Make it, in memory, with a process that stands in for a broker."""
    with in_memory() as top:
        top.chmod(0o755)
        for name, subject in _SUBJECTS.items():
            _subject(top / name, subject)
        for name, (fixture, partitions) in _FIXTURES.items():
            _fixture(top / name / "data", fixture, partitions)
        _repairs(top)
        _suffixes(top / "suffixes" / "data")
        _node(top / "node")
        _odd(top / "odd")
        _closed(top / "closed")
        _hostile(top / "names")
        configs = _configs(top)
        _subject(top / "live", LOSSY)
        plans = tuple(path.name for path in sorted(top.glob("*/data/*/.kdump/*")))
        with _broker(top / "live" / "data"):
            yield World(top, tuple(_kinds(top)), configs, plans)


def _subject(root: Path, subject: Subject) -> None:
    root.mkdir()
    subject.write(root)


def _fixture(data: Path, fixture: str, partitions: Sequence[str]) -> None:
    copy_fixture(fixture, data)
    for path in data.iterdir():
        if path.is_dir() and path.name not in partitions:
            shutil.rmtree(path)


def _repairs(top: Path) -> None:
    """One that was carried out, one that was killed, and an undo that was killed."""
    for name in ("repaired", "pending", "undoing"):
        _subject(top / name, REINDEX)
        argv = REINDEX.argv(top / name, "--apply", "--assume-stopped")
        ended = run(argv, killed_before(40) if name == "pending" else None)
        assert ended.code == (-signal.SIGKILL if name == "pending" else 0), str(ended)
    undo = REINDEX.undo(top / "undoing", "--apply", "--assume-stopped")
    assert run(undo, killed_before(10)).code == -signal.SIGKILL


def _suffixes(data: Path) -> None:
    copy_fixture("4.3.1/clean", data)
    for path in sorted(data.iterdir()):
        if path.is_dir() and path.name not in ("__cluster_metadata-0", "transfers-0"):
            shutil.rmtree(path)
    for suffix in _SUFFIXES:
        shutil.copytree(data / "transfers-0", data / f"transfers-1.{32 * 'a'}-{suffix}")


def _node(root: Path) -> None:
    for number in (1, 2):
        data = root / f"data{number}"
        write_partition(data, "orders", number, {0: [batch(0, [record(b"v")])]}, interval=4096)
        (data / "meta.properties").write_text(
            f"version=1\nnode.id=1\ncluster.id={'A' * 22}\ndirectory.id={'A' * 20}{number}g\n"
        )


def _odd(odd: Path) -> None:
    """What is no log, or not what its name says."""
    odd.mkdir()
    rng = random.Random(0)
    for name in ("empty", "empty-0", "kept"):
        (odd / name).mkdir()
    (odd / "README.txt").write_text("not a segment\n")
    (odd / "picture").mkdir()
    (odd / "picture" / _LOG).write_bytes(b"\x89PNG\r\n\x1a\n" + rng.randbytes(5000))
    for name, size in (("garbage-0", 1000), ("blank-0", 0), ("zeros-0", -1000)):
        (odd / name).mkdir()
        for file in (
            *(f"{base:020}.{end}" for base in (0, 7) for end in ("log", "index", "timeindex")),
            f"{7:020}.txnindex",
            f"{7:020}.snapshot",
            f"{9:020}.log.swap",
            f"{9:020}.index.cleaned",
            f"{11:020}.log.deleted",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "quorum-state",
            f"{5:020}-{1:010}.checkpoint",
        ):
            (odd / name / file).write_bytes(rng.randbytes(size) if size >= 0 else bytes(-size))
    data = odd / "garbage"
    shutil.copytree(odd / "garbage-0", data / "garbage-0")
    for file in (
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "bootstrap.checkpoint",
        ".kafka_cleanshutdown",
    ):
        (data / file).write_bytes(rng.randbytes(300))
    (odd / "fifos-0").mkdir()
    for file in (_LOG, f"{0:020}.index", "leader-epoch-checkpoint", f"{5:020}.snapshot"):
        os.mkfifo(odd / "fifos-0" / file)
    (odd / "directories-0").mkdir()
    for file in (_LOG, f"{0:020}.index", "leader-epoch-checkpoint", f"{5:020}.snapshot"):
        (odd / "directories-0" / file).mkdir()
    (odd / "links-0").mkdir()
    (odd / "links-0" / _LOG).symlink_to(f"../../kraft/data/transactions-0/{_LOG}")
    (odd / "links-0" / f"{0:020}.index").symlink_to("nowhere")
    (odd / "links-0" / ".kdump").symlink_to("/proc")
    (odd / "link").symlink_to("../kraft/data")
    (odd / "link-0").symlink_to("../kraft/data/transactions-0")
    (odd / "dangling").symlink_to("nowhere")
    (odd / "dangling-0").symlink_to("nowhere")
    (odd / "circle").symlink_to("circle")
    (odd / "lost").mkdir()
    (odd / "lost" / "lost+found").mkdir()
    (odd / "socket").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(odd / "socket" / _LOG))
    plain = odd / "locked"
    write_partition(plain, "orders", 0, {0: [batch(0, [record(b"v")])]}, interval=4096)
    (plain / "meta.properties").write_text("version=0\nbroker.id=1\n")
    os.mkfifo(plain / ".lock")


def _closed(closed: Path) -> None:
    """What root alone, or, where nobody is root, nobody at all may read."""
    for name in ("file", "partition", "unlisted", "unsearched", "lock", "directory"):
        data = closed / name
        write_partition(data, "orders", 0, {0: [batch(0, [record(b"v")])]}, interval=4096)
        (data / "meta.properties").write_text("version=0\nbroker.id=1\n")
        (data / ".lock").touch()
        data.chmod(0o755)
    (closed / "file" / _MAIN / _LOG).chmod(0)
    (closed / "file" / "meta.properties").chmod(0)
    (closed / "partition" / _MAIN).chmod(0o700 if os.geteuid() == 0 else 0)
    (closed / "unlisted" / _MAIN).chmod(0o711 if os.geteuid() == 0 else 0o311)
    (closed / "unsearched").chmod(0o744 if os.geteuid() == 0 else 0o644)
    (closed / "lock" / ".lock").chmod(0)
    (closed / "directory").chmod(0o700 if os.geteuid() == 0 else 0)


def _hostile(names: Path) -> None:
    """Names that a shell, a terminal or a parser of options takes for something else."""
    names.mkdir()
    for name in (b"-dash-0", b"new\nline-0", b"\xff\xfe-0", b"a b-0", b"--help-0", b"\x1b[31m-0"):
        write_partition(
            names / "data", "orders", 0, {0: [batch(0, [record(b"v")])[:-1]]}, interval=4096
        )
        os.rename(os.fsencode(names / "data" / _MAIN), os.fsencode(names) + b"/" + name)
    shutil.rmtree(names / "data")


def _configs(top: Path) -> tuple[str, ...]:
    (top / "configs").mkdir()
    texts = {
        "good": "log.dirs=kraft/data",
        "two": "log.dirs=node/data1,node/data2\nprocess.roles=broker",
        "gone": "log.dirs=odd/gone",
        "some-gone": "log.dirs=zookeeper/data,odd/gone\nzookeeper.connect=a:1",
        "blank": "log.dirs=odd/empty,odd/empty-0,odd/lost",
        "file": "log.dirs=odd/README.txt",
        "relative": "log.dir=odd/gone\nmetadata.log.dir=kraft/data",
        "nul": r"log.dirs=/a\u0000b",
        "half": r"log.dirs=/a\ud800",
        "long": f"log.dirs=/{'x' * 300}",
        "numbers": f"log.index.interval.bytes={10**30}\nlog.retention.ms=-{10**18}\n"
        f"transaction.max.timeout.ms=x\nlog.index.size.max.bytes=-5\nlog.retention.hours={2**62}",
        "policy": "log.cleanup.policy=compact,delete,x\nlog.index.interval.bytes=1",
        "nothing": "",
        "bad": r"log.dirs=\u12",
    }
    for name, text in texts.items():
        (top / "configs" / name).write_text(text + "\n")
    (top / "configs" / "garbage").write_bytes(random.Random(1).randbytes(2000))
    return (*(f"configs/{name}" for name in (*texts, "garbage", "none")), "odd/fifos-0", "odd")


@contextmanager
def _broker(data: Path) -> Iterator[None]:
    """A process that holds the lock of a log directory, and has its files open for writing."""
    with stand_in(data, data / _MAIN / f"{200:020}.log"):
        yield


def _kinds(top: Path) -> Iterator[Kind]:
    def found(*patterns: str) -> tuple[str, ...]:
        paths = sorted({path for pattern in patterns for path in top.glob(pattern)})
        return tuple(os.fspath(path.relative_to(top)) for path in paths)

    def under(*homes: str) -> tuple[str, ...]:
        return tuple(f"{home}/data" for home in homes)

    data = "*/data/*-0"
    files = {
        "segment": "*.log",
        "index": "*.index",
        "time index": "*.timeindex",
        "transaction index": "*.txnindex",
        "snapshot": "*.snapshot",
        "epochs": "leader-epoch-checkpoint",
        "metadata snapshot": "*.checkpoint",
        "partition.metadata": "partition.metadata",
    }
    for name, pattern in files.items():
        yield Kind(name, found(f"{data}/{pattern}", f"odd/*-0/{pattern}"))
    yield Kind("checkpoint", found("*/data/*-checkpoint", "odd/garbage/*-checkpoint"))
    yield Kind("top file", found("*/data/*.properties", "*/data/.*", "*/data/bootstrap*"))
    yield Kind("partition", found(data))
    yield Kind("partition in no log directory", ("alone/data/orders-0", *found("odd/*-0")))
    yield Kind("clean", under("lossy", "reindex", "reindex-damaged", "linked", "moved", "kraft"))
    yield Kind("unclean", under("unclean", "torn", "kraft-unclean"))
    yield Kind("with ZooKeeper", under("zookeeper", "old", "convert"))
    yield Kind("live", ("live/data", "live/data/orders-0", f"live/data/orders-0/{_LOG}"))
    yield Kind("two of a node", ("node/data1", "node/data2"))
    for suffix in _SUFFIXES:
        yield Kind(f"-{suffix}", found(f"suffixes/data/*-{suffix}"))
    yield Kind("with suffixes", under("suffixes"))
    repairs = under("repaired", "pending", "undoing")
    yield Kind("repair", (*repairs, *(f"{path}/orders-0" for path in repairs)))
    yield Kind("folder of a repair", found("*/data/*/.kdump", "*/data/*/.kdump/*"))
    yield Kind("empty", ("odd/empty", "odd/empty-0", "odd/lost"))
    yield Kind("missing", ("odd/gone", "kraft/data/gone-0", f"odd/gone-0/{_LOG}", "odd/gone-0"))
    yield Kind("no permission", found("closed/*", "closed/*/orders-0", "closed/*/orders-0/*.log"))
    yield Kind("something else", found("odd/*", "odd/*/*"))
    yield Kind("link", found("odd/link*", "odd/dangling*", "odd/circle", "moved/data/*"))
    yield Kind("hostile name", found("names/*"))
    yield Kind("above", (".", "..", "/", "kraft", "node", "kraft/data/..", "kraft/data/."))
    yield Kind("device", ("/dev/null", "/dev/zero", "/proc/self", "/proc/self/mem", "/dev/fd/0"))
    yield Kind("no path", ("", 300 * "x", "a" * 5000, "kraft/data/" + 256 * "y"))
    yield Kind(
        "address",
        (
            "s3://",
            "s3://bucket?what=1",
            "s3://user:secret@bucket/x",
            "foo://bucket/x",
            "http://a/b",
            "://",
            "gs:///x",
        ),
    )


def addressed(world: World, bucket: Bucket) -> World:
    """The same with addresses in an object store for PATHs, whatever kind is drawn."""
    copies = ("kraft/data", "lossy/data", "alone/data/orders-0")
    paths = [bucket.upload(world.top / copy, copy) for copy in copies]
    log = f"lossy/data/{_MAIN}/{_LOG}"
    paths += [
        bucket.address(key)
        for key in (log, log.replace(".log", ".index"), f"lossy/data/{_MAIN}", "kraft", "gone")
    ]
    paths.append(bucket.address("kraft/data", port=1))
    paths.append(paths[0].replace(bucket.name, "nobucket"))
    return replace(world, kinds=(Kind("partition", tuple(paths)),))


# --- drawing


def commands() -> Mapping[str, click.Command]:
    """All of kdump's commands by name."""
    assert isinstance(cli, click.Group)
    context = click.Context(cli)
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def draw(rng: random.Random, world: World) -> Drawn:
    """Draw a command, paths and options."""
    name, command = rng.choice(list(commands().items()))
    paths = _paths(rng, world, 0.3 if name in _READ_FILES else 0.7)
    if name == "compare" and rng.random() < 0.8:
        paths += _copies_of(rng, world, paths)
    argv = [name]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and rng.random() < _likely(name, parameter):
            argv += _option(rng, parameter, world, paths)
    if name == "explain":
        paths = [rng.choice(_WORDS) for _ in paths[: rng.choice((1, 1, 3))]]
    if any(path.startswith("-") for path in paths) or rng.random() < 0.1:
        argv.append("--")
    argv += paths
    homes = {word.removeprefix("--from=").partition("/")[0] for word in argv}
    if any(word.startswith("--config") for word in argv):
        homes.update(_CONFIGURED)
    inside = tuple(sorted(homes.intersection(os.listdir(world.top))))
    applies = "--apply" in argv or "--discard" in argv
    writes = applies or any(word.startswith(("--output", "--to", "--state")) for word in argv)
    writes |= name == "scrub"
    closed = "closed" in inside
    return Drawn(
        tuple(argv),
        inside,
        writes,
        applies,
        nobody=os.geteuid() == 0 and rng.random() < (0.9 if closed else 0.05),
        searching="live" in inside or rng.random() < 0.1,
    )


#: Commands that take single files too.
_READ_FILES: Final = frozenset({"dump", "export", "next-start", "verify"})
#: What those kinds are that every command takes.
_WHOLE: Final = frozenset(
    {
        "partition",
        "partition in no log directory",
        "clean",
        "unclean",
        "with ZooKeeper",
        "live",
        "repair",
        "two of a node",
    }
)
_LIKELY: Final = {
    "--status": 0.05,
    "--apply": 0.4,
    "--format": 0.5,
    "--master": 0.04,
    "--remote": 0.02,
    "--from": 0.95,
}


def _paths(rng: random.Random, world: World, whole: float) -> list[str]:
    count = rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 2, 3))
    plain = [kind for kind in world.kinds if kind.name in _WHOLE]
    kinds = (rng.choice(plain if rng.random() < whole else world.kinds) for _ in range(count))
    return [rng.choice(kind.paths) for kind in kinds]


def _copies_of(rng: random.Random, world: World, paths: Sequence[str]) -> list[str]:
    """Paths of what may be copies: partitions of the same name, or log directories."""
    names = {path.rpartition("/")[2] for path in paths}
    copies = [
        path for kind in world.kinds for path in kind.paths if path.rpartition("/")[2] in names
    ]
    return [rng.choice(copies or paths) for _ in range(rng.choice((1, 1, 2)))] if paths else []


def _likely(command: str, option: click.Option) -> float:
    if command == "scrub" and option.opts[0] == "--state":
        return 1  # without it the state is in a directory of the system
    return 0.97 if option.required else _LIKELY.get(option.opts[0], 0.12)


def _option(
    rng: random.Random, option: click.Option, world: World, paths: Sequence[str]
) -> list[str]:
    name = rng.choice([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return [name]
    value = _value(rng, option, world, paths)
    return [f"{name}={value}"] if rng.random() < 0.3 and name.startswith("--") else [name, value]


def _value(rng: random.Random, option: click.Option, world: World, paths: Sequence[str]) -> str:
    """A value that the option takes, or, now and then, one that it does not."""
    name, kind = option.opts[0], option.type
    wrong = rng.random() < 0.1
    if wrong and rng.random() < 0.5:
        return rng.choice(_ODD_VALUES)
    if isinstance(kind, click.Choice):
        return str(rng.choice(list(kind.choices)))
    if isinstance(kind, click.IntRange):
        limits = [each for each in (kind.min, kind.max) if each is not None and name != "--jobs"]
        return str(rng.choice((-1, 2**31, 2**63) if wrong else (*limits, 1, 2, 50, 152, 4096)))
    if name == "--config":
        return rng.choice(world.configs)
    if name == "--from":
        return rng.choice(_copies_of(rng, world, paths) or ["odd/gone"])
    if name in ("--output", "--to"):
        inside = [f"{path}/out" for path in paths if "/data" in path]
        odd = ["/dev/null", 300 * "x", "odd/circle", "odd/README.txt/x", *inside]
        return rng.choice(odd if wrong else ["out", "out", "out/deep", "configs", "./-out"])
    if name in ("--plan", "--confirm"):
        return rng.choice(world.plans)
    return rng.choice((_WRONG if wrong else _RIGHT).get(name, ["x"]))


_RIGHT: Final[Mapping[str, Sequence[str]]] = {
    "--topic": ["*", "orders", "t*"],
    "--group": ["*", "classic", "t*"],
    "--transactional-id": ["*", "one", "t*"],
    "--exclude": ["orders", "t*", "[!"],
    "--file-size": ["1MiB", "256MiB", "2GB"],
    "--topic-name": ["__consumer_offsets", "__cluster_metadata"],
    "--limit-rate": ["none", "0", "50MB", "200kB/s", "20MiB"],
    "--state": ["scrub.db", "./x", "configs/state"],
    "--prometheus": ["metrics", "configs/metrics"],
    "--max-age": ["0s", "30d", "12h"],
    "--max-duration": ["0s", "1s", "3h"],
    "--offsets": ["0..", "..50", "5..7", "152"],
    "--diff": ["0", "152", "kraft/data", "kraft-unclean/data/__cluster_metadata-0", "lossy/data"],
    "--since": ["0", "2026-11-21T10:00Z", "2023-01-01", "2026-11-21 10:00+14:00"],
    "--until": ["1", "2026-11-21T10:00Z", "2099-01-01"],
    "--key": ["key", "", "größe", "\udcff"],
    "--key-base64": ["a2V5", ""],
    "--master": ["local[2]", "local", "spark://h:1", "yarn"],
    "--remote": ["local[2]"],
}
_WRONG: Final[Mapping[str, Sequence[str]]] = {
    "--topic": ["[", "x", ""],
    "--exclude": ["*", ""],
    "--file-size": ["0", "1023KiB", "-1"],
    "--limit-rate": ["0.1", "-1"],
    "--state": ["configs/bad", "configs/garbage", "configs", "/dev/null", "kraft/data/x", "no/x"],
    "--prometheus": ["configs", "/dev/null/x", "kraft/data/x", "no/x"],
    "--max-age": ["1", "-1d", "0.5h", "9999999999d"],
    "--max-duration": ["3 h", "d"],
    "--offsets": ["7..5", "..", f"0..{2**63}"],
    "--diff": [str(2**63), 300 * "9", "odd/gone", "odd/garbage-0", "closed/partition", "a\nb"],
    "--since": ["9" * 30, "0001-01-01T00:00+14:00"],
    "--until": ["0", "9999-12-31T23:59:59-14:00"],
    "--key-base64": ["!", "a"],
    "--master": ["local[0]", "local[*"],
    "--remote": ["http://h"],
}
_ODD_VALUES: Final = ("", "-", "--", "\x1b[0m", "\udcff", "a\nb", "0x10", "１", "1e3", " 1", "nan")
_WORDS: Final = (
    "torn-tail",
    "batch-crc-mismatch",
    "Corruption found in segment 100, truncating to offset 115",
    "kafka",
    "",
    "\x1b[0m",
    "\udcff",
    "a\nb",
    "{}",
    "x" * 100_000,
)


# --- running


def made(drawn: Drawn, world: World) -> Iterator[str]:
    """Make the run, and yield what is wrong with how it went."""
    place = world.top
    if drawn.writes:
        place = Path(tempfile.mkdtemp(prefix="run-", dir=world.top.parent))
        place.chmod(0o777)
        sources = [world.top / home for home in {*drawn.homes, "configs"}]
        subprocess.run(["cp", "-a", "--sparse=always", "--", *sources, place], check=True)
    try:
        before = _state(place, drawn.homes)
        ended = run(drawn.argv, prepare=_prepared(drawn, place), searching=drawn.searching)
        after = _state(place, drawn.homes)
        if before != after and not drawn.applies:
            changed = sorted(path for path, _ in before.items() ^ after.items())
            yield f"changed {changed[:5]}"
        yield from _wrong(drawn, ended)
    finally:
        if drawn.writes:
            shutil.rmtree(place)


def _prepared(drawn: Drawn, place: Path) -> Callable[[], None]:
    def prepare() -> None:
        os.chdir(place)
        os.umask(0o022)
        if matrix_spark is not None:
            matrix_spark.stand_in()
        if drawn.nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    return prepare


def _state(top: Path, homes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """What is below ``homes``; where a file's content changes, its time of change does."""
    found: dict[str, tuple[int, ...]] = {}

    def note(path: str) -> None:
        was = os.lstat(path)
        kind, times = (was.st_mode, was.st_nlink), (was.st_mtime_ns, was.st_ctime_ns)
        found[path] = (*kind, was.st_uid, was.st_gid, was.st_ino, was.st_size, *times)

    for home in homes:
        if home == "configs":
            continue
        note(os.fspath(top / home))
        for folder, directories, files in os.walk(top / home):
            for name in (*directories, *files):
                note(os.path.join(folder, name))
    return found


def _wrong(drawn: Drawn, ended: Run) -> Iterator[str]:
    if ended.code not in CODES:
        yield f"exit {ended.code}"
    if "Traceback" in ended.err or "bug in kdump" in ended.err:
        yield "a traceback"
    texts = [ended.out]
    if "bar" not in drawn.argv and "--progress=bar" not in drawn.argv:
        texts.append(ended.err)
    raw = {char for text in texts for char in text if category(char) in _RAW} - {"\n"}
    if raw:
        yield f"raw characters: {raw}"
    if ended.out and ended.err.startswith("Usage:") and not _in_json(drawn.argv):
        yield f"output with wrong usage: {ended.out[:200]!r}"
    if ended.code != 0 and not ended.out and not ended.err:
        yield "no word"
    if _in_json(drawn.argv):
        yield from _wrong_json(ended.out)


_RAW: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def _in_json(argv: Sequence[str]) -> bool:
    # None of the other values of options is spelled so.
    return "json" in argv or "--format=json" in argv


def _wrong_json(out: str) -> Iterator[str]:
    if out and not out.endswith("\n"):
        yield "the last line of JSON has no end"
    types = []
    for line in out.splitlines():
        try:
            found: Any = json.loads(line)
        except ValueError as error:
            yield f"no JSON: {line[:200]!r}: {error}"
            return
        if not isinstance(found, dict) or "type" not in found:
            yield f"no line of JSON with a type: {line[:200]!r}"
            return
        types.append(found["type"])
    if types and (types[0], types[-1]) != ("header", "summary"):
        yield f"JSON that begins with {types[0]} and ends with {types[-1]}"
