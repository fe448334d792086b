"""The symptoms of kdump-incident(7) on real nodes: the lines that they log, and the cures.

Spec: ``MetaPropertiesEnsemble``, ``KafkaRaftClient`` (KIP-853), ``LogManager.lockLogDirs``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker, format_directory, killed_start, refused_start
from brokers.controllers import DIRECTORY_IDS, NODES, Controllers
from brokers.programs import QUICK, java_command
from brokers.server import free_ports
from brokers.settings import joining
from project.test_symptoms import quoted
from support.commands import kdump
from support.fixtures_loader import consumed, copy_fixture
from support.served import READ, read_all, records
from support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

VERSION = "4.3.1"
SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
OTHER_ID = "kdumpOtherClusterIdent"
NEW_ID = "kdumpNewDirectoryIdenA"
SECONDS = 60


def constant(line: str) -> str:
    """The longest part of a quoted line that does not vary."""
    varying = r"\[.*?\] |\(.*|/\S+|\S*\d\S*|Expected \S+, but read \S+"
    return max(re.split(varying, line), key=len).strip()


def logged(lines: list[str], line: str) -> bool:
    return any(constant(line) in each for each in lines)


def change(path: Path, name: str, value: str) -> None:
    """Write the value of a property."""
    path.write_text(re.sub(rf"(?m)^{name}=.*$", f"{name}={value}", path.read_text()))


def test_a_directory_with_the_id_of_another_cluster(tmp_path: Path) -> None:
    data, other = copy_fixture("4.3.1/clean", tmp_path / "data"), tmp_path / "other"
    other.mkdir()
    meta = other / "meta.properties"
    shutil.copy(data / "meta.properties", meta)
    cluster = re.search(r"cluster\.id=(.*)", meta.read_text())
    assert cluster is not None
    change(meta, "cluster.id", OTHER_ID)
    change(meta, "directory.id", "kdumpOtherDirectoryIdA")
    settings = {**SETTINGS, "log.dirs": f"{data},{other}"}
    lines = refused_start(VERSION, data, settings)
    assert logged(lines, quoted("The cluster id differs")[0])
    change(meta, "cluster.id", cluster[1])
    with Broker(VERSION, data, settings):
        pass
    assert not [*data.glob("*-stray"), *other.glob("*-stray")]


def test_a_node_with_the_id_of_another_cluster(tmp_path: Path) -> None:
    with (
        Broker(VERSION, tmp_path / "1", SETTINGS) as first,
        Broker(VERSION, tmp_path / "2", SETTINGS, joins=first) as second,
    ):
        second.stop()
        meta = tmp_path / "2" / "meta.properties"
        (cluster,) = re.findall(r"(?m)^cluster\.id=(.*)$", meta.read_text())
        change(meta, "cluster.id", OTHER_ID)
        client, _ = free_ports()
        settings = {
            **SETTINGS,
            **joining(client, first.controller),
            "initial.broker.registration.timeout.ms": "5000",  # after which it exits
        }
        lines = refused_start(VERSION, tmp_path / "2", settings)
        for wrong in quoted("The cluster id differs")[1:]:
            assert logged(lines, wrong)
        change(meta, "cluster.id", cluster)
        second.start()


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    """A quorum with dynamic voters, which has had a leader, and a copy of its disks in ``base``."""
    with Controllers(VERSION, tmp_path / "data", dynamic=True) as made:
        made.format()
        assert made.start() == {}
        assert made.wait()
        time.sleep(1)  # until all have fetched
        made.kill()
        shutil.copytree(tmp_path / "data", tmp_path / "base")
        made.replace(tmp_path / "base")
        yield made


def test_a_controller_whose_file_was_written_again(
    controllers: Controllers, tmp_path: Path
) -> None:
    node = 3
    meta = controllers.directory(node) / "meta.properties"
    change(meta, "directory.id", NEW_ID)
    ran = kdump("quorum", *map(controllers.directory, NODES), searching=False)
    assert DIRECTORY_IDS[node] in {
        voter["directory_id"] for set_ in ran.of("voters") for voter in set_["voters"]
    }
    assert [copy["directory_id"] for copy in ran.of("copy")][node - 1] == NEW_ID
    assert controllers.start() == {}
    (leader, *_) = controllers.wait()
    told, _ = quoted("The voter key of a controller differs")
    until(lambda: logged(controllers.log_lines(leader.node), told), SECONDS)
    assert logged(controllers.log_lines(node), "doesn't match the local key")
    controllers.kill()

    controllers.replace(tmp_path / "base")
    change(meta, "directory.id", NEW_ID)
    change(meta, "directory.id", DIRECTORY_IDS[node])
    assert controllers.start([1, node]) == {}  # 2 is down: without the vote of 3 nobody leads
    assert controllers.wait(SECONDS)
    for each in (1, node):
        assert not logged(controllers.log_lines(each), told)
        assert not logged(controllers.log_lines(each), "doesn't match the local key")


def test_a_controller_with_a_blank_disk_is_a_voter_again(controllers: Controllers) -> None:
    node = 3
    shutil.rmtree(controllers.directory(node))
    config = controllers.config(node)
    format_directory(VERSION, controllers.directory(node), config, "--no-initial-controllers")
    assert controllers.start([other for other in NODES if other != node]) == {}
    (leader, *_) = controllers.wait(SECONDS)
    assert controllers.start([node]) == {}
    told, _ = quoted("The voter key of a controller differs")
    until(lambda: logged(controllers.log_lines(leader.node), told), SECONDS)
    where = ("--bootstrap-controller", controllers.addresses[leader.node])
    old = ("--controller-id", str(node), "--controller-directory-id", DIRECTORY_IDS[node])
    metadata_quorum(*where, "remove-controller", *old)
    metadata_quorum(*where, "--command-config", str(config), "add-controller")
    controllers.stop()
    ran = kdump("quorum", *map(controllers.directory, NODES), searching=False)
    (new,) = re.findall(
        r"(?m)^directory\.id=(.*)$", (controllers.directory(node) / "meta.properties").read_text()
    )
    *_, last = (set_["voters"] for set_ in ran.of("voters") if set_["copy"] == leader.node)
    assert {voter["node_id"]: voter["directory_id"] for voter in last} == {
        **DIRECTORY_IDS,
        node: new,
    }


def test_one_controller_of_three_elects_nobody(controllers: Controllers) -> None:
    lines = quoted("The quorum has no leader")
    (summary,) = kdump("quorum", *map(controllers.directory, NODES), searching=False).of("summary")
    first = summary["can_lead"][0]
    assert controllers.start([first]) == {}
    until(lambda: all(logged(controllers.log_lines(first), line) for line in lines), SECONDS)
    assert controllers.elected() == []
    assert controllers.start([node for node in NODES if node != first]) == {}
    assert controllers.wait(SECONDS)


def metadata_quorum(*arguments: str) -> None:
    """Run ``kafka-metadata-quorum.sh``."""
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    command = [*java_command(VERSION, "INFO", *QUICK), tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broker_that_its_probe_kills_in_recovery(tmp_path: Path) -> None:
    """The next start begins recovery again, and it loses nothing once it is let be."""
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    line = quoted("Recovery takes hours")[0]
    before = records(consumed("4.3.1/killed")["codec-zstd-0", READ])
    killed_start(VERSION, data, SETTINGS, constant(line))
    ran = kdump("next-start", "--scan", data)
    (start,) = next(ran.of("summary"))["next_starts"]
    assert ran.code == 0
    assert start["reads_bytes"] > 0
    assert start["lost"]["sound"] == 0
    with Broker(VERSION, data, SETTINGS) as again:
        found = read_all(again, ("codec-zstd-0",), tmp_path / "read")["codec-zstd-0"]
        assert logged(again.log_lines(), line)
    assert found == before


def test_a_consumer_without_committed_offsets(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    with Broker(VERSION, data, SETTINGS) as broker:
        where = ("--bootstrap-server", broker.bootstrap, "--topic", "groups", "--group", "unknown")
        command = [*java_command(VERSION, "INFO", *QUICK), tool, *where, "--timeout-ms", "5000"]
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS
        ).stderr
    for line in quoted("Groups have lost their offsets"):
        assert logged(said.split("\n"), line), said


NO_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
static int call(const char *name, int fd, int command, void *argument) {
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK) {
        errno = ENOLCK;
        return -1;
    }
    return ((int (*)(int, int, ...)) dlsym(RTLD_NEXT, name))(fd, command, argument);
}
#define REPLACED(name) int name(int fd, int command, ...) { \\
    va_list rest; va_start(rest, command); void *argument = va_arg(rest, void *); va_end(rest); \\
    return call(#name, fd, command, argument); }
REPLACED(fcntl)
REPLACED(fcntl64)
"""


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS 3 without rpc.statd: a library refuses each lock. Then it is mounted with locks."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    library = tmp_path / "nolocks.so"
    compiler = ("cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl")
    subprocess.run(compiler, input=NO_LOCKS, text=True, check=True)
    (data / ".lock").touch()
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        lines = refused_start(VERSION, data, SETTINGS)
        command = [str(Path(sys.executable).parent / "kdump"), "verify", "--quick", str(data)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert logged(lines, quoted("The log directory is on NFS")[0])
    assert "its lock cannot be tested: No locks available" in " ".join(said.split())
    assert kdump("next-start", "--scan", data).code == 0
    with Broker(VERSION, data, SETTINGS):
        pass
    assert kdump("verify", data).code == 0
