"""The service among the examples, run by systemd with the executable of a release."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from release.booting import boot
from support.fixtures_loader import copy_fixture

pytestmark = [pytest.mark.nightly, pytest.mark.root]

SERVICE = Path(__file__).parents[2] / "packaging/examples/kafka-kdump-scrub.service"
TEXTFILES = "var/lib/prometheus/node-exporter"
#: In place of a broker: it has a log open for writing.
BROKER = """
[Unit]
DefaultDependencies=no
[Service]
Type=exec
User=kafka
ExecStart=/bin/sh -c 'exec 3>>/var/lib/kafka/groups-0/00000000000000000000.log; exec sleep 1000'
"""
TARGET = """
[Unit]
Requires=broker.service
Wants=kafka-kdump-scrub.service
"""
#: What else the service tries: to see the broker, and to write where it must not.
MORE = """
[Unit]
DefaultDependencies=no
After=broker.service
[Service]
ExecStart=/bin/sh -c '/usr/bin/kafka-kdump verify --format json --progress none /var/lib/kafka >/var/lib/kdump/report'
ExecStart=-/bin/sh -c 'echo x >>/var/lib/kafka/meta.properties'
ExecStart=-/bin/sh -c 'echo x >/etc/written'
ExecStopPost=+/bin/sh -c 'echo "$SERVICE_RESULT" >/ended.new; mv /ended.new /ended'
"""  # noqa: E501


@pytest.fixture
def system(dist: Path, tmp_path: Path) -> Path:
    """The root directory of a Debian with systemd, the package, a user and a log directory."""
    tmp_path.chmod(0o755)
    top = tmp_path / "root"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=systemd", "bookworm", top],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for wanted in (top / "usr/lib/systemd/system").glob("*.wants"):
        shutil.rmtree(wanted)  # of all that a machine needs, nothing is needed here
    (package,) = dist.glob("*_amd64.deb")
    shutil.copy(package, top / "kdump.deb")
    for command in (["dpkg", "-i", "/kdump.deb"], ["useradd", "--system", "kafka"]):
        subprocess.run(["chroot", top, *command], check=True, stdout=subprocess.DEVNULL)
    line = next(one for one in (top / "etc/passwd").read_text().splitlines() if "kafka" in one)
    user, group = map(int, line.split(":")[2:4])
    logs = copy_fixture("4.3.1/clean", top / "var/lib/kafka")
    (top / TEXTFILES).mkdir(parents=True)
    for path in (logs, *logs.rglob("*"), top / TEXTFILES):
        os.chown(path, user, group)
    (top / "etc/kafka").mkdir()
    (top / "etc/kafka/server.properties").write_text("log.dirs=/var/lib/kafka\n")
    units = top / "etc/systemd/system"
    shutil.copy(SERVICE, units)
    (units / f"{SERVICE.name}.d").mkdir()
    (units / f"{SERVICE.name}.d/more.conf").write_text(MORE)
    (units / "broker.service").write_text(BROKER)
    (units / "night.target").write_text(TARGET)
    return top


def test_the_service_reads_beside_a_broker_and_writes_its_two_directories_alone(
    system: Path,
) -> None:
    logs = system / "var/lib/kafka"
    before = contents(logs)
    said = boot(system, "night.target", system / "ended")
    assert (system / "ended").read_text() == "success\n", said
    report = (system / "var/lib/kdump/report").read_text().splitlines()
    (live,) = json.loads(report[0])["liveness"]
    assert live["state"] == "live"
    assert live["reason"].endswith(f"groups-0/{0:020}.log open for writing")
    assert contents(logs) == before
    assert not (system / "etc/written").exists()
    assert {path.name for path in (system / "var/lib/kdump").iterdir()} >= {"scrub.db", "report"}
    (metrics,) = (system / TEXTFILES).iterdir()
    assert (metrics.name, metrics.stat().st_mode & 0o777) == ("kdump.prom", 0o644)
    assert 'kdump_scrub_last_run_exit_code{log_dir="/var/lib/kafka"} 0' in metrics.read_text()


def contents(top: Path) -> dict[Path, str]:
    files = [path for path in top.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path: sha256(path.read_bytes()).hexdigest() for path in files}
