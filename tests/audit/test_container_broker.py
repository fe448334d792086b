"""A broker in a container: kdump in a sibling sees its lock, and never calls it stopped."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from brokers.broker import CONTAINED, Broker
from brokers.workload import create, write
from kdump.ui import exits

pytestmark = [pytest.mark.broker, pytest.mark.root]

RUN = "from kdump.cli.main import main; raise SystemExit(main())"


def sibling(directory: Path, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kdump in a container of its own that has ``directory`` mounted at ``place``."""
    place.mkdir(exist_ok=True)
    script = f'mount --bind "{directory}" "{place}" && exec "$0" -P -c "$@"'
    command = [*CONTAINED, "sh", "-c", script, sys.executable, RUN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_broker_in_another_container_is_live_by_its_lock(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "mounted"
    with Broker("4.3.1", data, contained=True) as broker:
        create(broker)
        write(broker, 1)
        partition = next(data.glob("codec-zstd-0")).name
        ran = sibling(data, place, "verify", str(place))
        text = " ".join(ran.stdout.split())
        assert ran.returncode == exits.OK, ran
        assert ".lock is locked by a process in another container" in text
        assert "broker stopped" not in text
        ran = sibling(data, place, "reindex", "--apply", str(place / partition))
        assert ran.returncode == exits.REFUSED, ran
        assert "locked by a process in another container: stop it first" in ran.stderr
        # With the partition alone in sight nothing shows the broker, and kdump says so.
        bare = tmp_path / partition
        ran = sibling(data / partition, bare, "verify", str(bare))
        text = " ".join(ran.stdout.split())
        assert ran.returncode == exits.OK, ran
        assert "processes outside of this container are hidden" in text
        assert "broker stopped" not in text
        ran = sibling(data / partition, bare, "reindex", "--apply", str(bare))
        assert ran.returncode in (exits.OK, exits.REFUSED), ran
        assert (data / partition / ".kdump").exists() is False
        # As an ephemeral container that shares the processes of the broker's: its process is seen.
        java = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().strip()
        script = 'mount -t proc proc /proc && exec "$0" -P -c "$@"'
        shared = ["nsenter", f"--target={java}", "--pid", "unshare", "--mount", "sh", "-c", script]
        command = [*shared, sys.executable, RUN, "verify", f"/proc/1/root{data}"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ran.returncode == exits.OK, ran
        assert ".lock is locked by process 1 (java)" in " ".join(ran.stdout.split())
        broker.kill()
    deadline = time.monotonic() + 60
    while "broker stopped" not in (ran := sibling(data, place, "verify", str(place))).stdout:
        assert time.monotonic() < deadline, ran  # until the kernel has ended the process
        time.sleep(0.5)
    said = " ".join(ran.stdout.split())
    assert "as far as kdump sees: processes outside of this container are hidden" in said
