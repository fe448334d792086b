"""Sessions of Spark: what they leave alone, what they listen on, and what becomes of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.java_processes import SECONDS, descendants, gone
from fleet.spark_cluster import connect_server
from kdump.errors import UsageError
from kdump.fleet.session.java import check_java
from kdump.fleet.session.jvm import SparkFailed
from kdump.fleet.session.session import Cluster, open_session, with_failures
from support.object_stores import free_port

#: Opens a session, does a job with Python workers, and says so; then waits to be ended, if asked.
PROGRAM = """
import os, sys, time
from kdump.fleet.session.session import Cluster, open_session

def pids(batches):
    import kdump, pyarrow, sys
    print("noise of a worker", file=sys.stderr, flush=True)
    for batch in batches:
        yield pyarrow.record_batch([[os.getpid()] * len(batch)], names=["pid"])

where, how = sys.argv[1:]
with open_session(Cluster(**{how: where})) as session:
    zone = session.spark.conf.get("spark.sql.session.timeZone")
    found = session.spark.range(100).mapInArrow(pids, "pid long").collect()
    count = len({row.pid for row in found} - {os.getpid()})
    print(session.cores, session.remote, zone, count, flush=True)
    sys.stdin.readline()
print("ended", flush=True)
"""

pytestmark = pytest.mark.spark


class Program:
    """The program above, with a temporary directory of its own.

    What lies in the working directory, and has kdump's name, must never be taken for it.
    """

    def __init__(self, top: Path, where: str, how: str) -> None:
        self.temporary = top / "tmp"
        self.temporary.mkdir()
        self.other = top / "kdump.py"
        self.other.write_text("raise ImportError('another kdump')")
        ours = {name: os.environ[name] for name in os.environ.keys() - {"PYTHONSAFEPATH"}}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, where, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=top,
            env=ours | {"TMPDIR": str(self.temporary)},
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def children(self) -> set[int]:
        """All processes that descend from it, the JVM and its workers among them."""
        return descendants(self.process.pid)

    def end(self) -> tuple[str, str]:
        """Let it go on to its end; what it has said by then."""
        return self.process.communicate("\n", timeout=SECONDS)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[[str, str], Program]]:
    started = []

    def start(where: str, how: str) -> Program:
        started.append(Program(tmp_path, where, how))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def listening(pids: set[int]) -> dict[str, int]:
    """The addresses that processes listen on, in hex as /proc has them, by port."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                link = os.readlink(descriptor)
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                found[f"{address}:{port}"] = int(port, 16)
    return found


#: 127.0.0.1, and the same as IPv6 maps it
LOOPBACK = ("0100007F:", "0000000000000000FFFF00000100007F:")


@pytest.mark.parametrize("how", ["master", pytest.param("remote", marks=pytest.mark.nightly)])
def test_a_session_is_quiet_and_listens_on_the_loopback_alone(
    program: Callable[[str, str], Program], how: str
) -> None:
    one = program("local[2]", how)
    assert one.said.split() == ["2", str(how == "remote"), "UTC", "2"]
    children = one.children()
    assert children
    addresses = listening({one.process.pid, *children})
    assert addresses, "py4j listens at least"
    assert all(address.startswith(LOOPBACK) for address in addresses), addresses
    assert one.end() == ("ended\n", "")
    assert one.process.returncode == 0
    assert gone(children)
    assert list(one.temporary.iterdir()) == []
    assert set(one.temporary.parent.iterdir()) == {one.temporary, one.other}


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_a_signal_ends(
    program: Callable[[str, str], Program], number: signal.Signals
) -> None:
    one = program("local[2]", "master")
    children = one.children()
    one.process.send_signal(number)
    one.process.communicate(timeout=SECONDS)
    assert one.process.returncode == -number
    assert gone(children)


@pytest.mark.parametrize(
    ("number", "code", "sign"),
    [
        pytest.param(signal.SIGINT, 130, "*/spark.log", id="before Java answers"),
        pytest.param(signal.SIGTERM, 143, "*/gateway", id="before there is a session"),
    ],
)
def test_a_signal_ends_a_command_whose_spark_only_starts(
    tmp_path: Path, number: signal.Signals, code: int, sign: str
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    main = "from kdump.cli.main import main; raise SystemExit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", main, "verify", "--master", "local[1]", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        while not (children := descendants(process.pid)) or not any(temporary.glob(sign)):
            assert process.poll() is None
            time.sleep(0.05)
        # As a terminal does it, to the whole group.
        os.killpg(process.pid, number)
        output, errors = process.communicate(timeout=SECONDS)
        # Click ends the line where a terminal has shown ^C.
        assert (output, errors.strip()) == (b"", b"")
    finally:
        process.kill()
    assert process.returncode == code
    assert gone(children)
    assert list(temporary.iterdir()) == []


@pytest.mark.nightly
def test_sessions_follow_each_other_and_keep_the_environment() -> None:
    before, handler = dict(os.environ), signal.getsignal(signal.SIGINT)
    for cluster in (Cluster(master="local[1]"), Cluster(remote="local[1]")):
        with open_session(cluster) as session:
            assert session.spark.range(7).count() == 7
            assert session.spark.conf.get("spark.master") == "local[1,4]"
            assert signal.getsignal(signal.SIGINT) is handler
    assert dict(os.environ) == before
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(
    ("master", "ours"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://a:7077", "spark://a:7077"),
    ],
)
def test_local_tasks_may_fail(master: str, ours: str) -> None:
    assert with_failures(master) == ours


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(),
        Cluster(master="local[2]", remote="sc://here"),
        Cluster(master="nonsense"),
        Cluster(master=""),
        Cluster(master="local[two]"),
        Cluster(master="local[0]"),
        Cluster(master="spark://here"),
        Cluster(remote="http://here"),
        Cluster(remote="sc://"),
        Cluster(remote="sc://here:port"),
        Cluster(remote="local-cluster[1,1,1024]"),
    ],
)
def test_what_is_no_cluster_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="expected"), open_session(cluster):
        pass


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    port = free_port()
    with (
        pytest.raises(SparkFailed, match=f"Spark Connect server at 127.0.0.1:{port}"),
        open_session(Cluster(remote=f"sc://127.0.0.1:{port}")),
    ):
        pass


@pytest.mark.parametrize("url", ["spark://127.0.0.1:{}", "spark://127.0.0.1:{0},127.0.0.1:{0}"])
def test_a_master_that_is_not_there_is_told_at_once(url: str) -> None:
    port = free_port()
    with (
        pytest.raises(SparkFailed, match=f"expected Spark's master at 127.0.0.1:{port}"),
        open_session(Cluster(master=url.format(port))),
    ):
        pass


@pytest.mark.nightly
def test_a_connect_server_that_runs_elsewhere(tmp_path: Path) -> None:
    with connect_server(tmp_path) as url, open_session(Cluster(remote=url)) as session:
        assert (session.cores, session.remote, session.log) == (2, True, None)
        assert session.spark.range(7).count() == 7
        assert session.spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.nightly
def test_an_error_amid_a_session_stays_what_it_is() -> None:
    with pytest.raises(BrokenPipeError), open_session(Cluster(master="local[1]")):
        raise BrokenPipeError


def test_a_start_that_fails_keeps_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    wrong = {"spark.driver.memory": "1"}
    with (
        pytest.raises(SparkFailed, match="could not be started") as failed,
        open_session(Cluster(master="local[1]"), settings=wrong),
    ):
        pass
    (kept,) = tmp_path.iterdir()
    assert str(kept) in str(failed.value)
    assert "heap" in kept.read_text()


def fake_java(top: Path, says: str) -> Path:
    java = top / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return top


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ('openjdk version "1.8.0_402"', "found 8 at"),
        ('openjdk version "11.0.22" 2024-01-16', "found 11 at"),
        ("what?", "does not print its version"),
    ],
)
def test_an_old_java_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, told: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, says)))
    with pytest.raises(UsageError, match=f"expected Java 17 or newer .*{told}"):
        check_java()


def test_no_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="found no java"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="does not run"):
        check_java()


@pytest.mark.parametrize("says", ['openjdk version "17.0.2"', 'java version "21" 2023-09-19'])
def test_a_new_java_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, says)))
    check_java()
