"""Boots systemd in a root directory: with namespaces and a control group of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
import time
from pathlib import Path

_SECONDS = 120
#: Runs as the first process of the namespaces: root directory, unit.
_SCRIPT = r"""
set -eu
root=$1 unit=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"  # or systemd would set the kernel's parameters
mount -o remount,ro,bind "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
for name in null zero full random urandom tty ptmx console; do
  touch "$root/dev/$name"
  from=/dev/$name
  [ "$name" != console ] || from=$(readlink /proc/self/fd/2)
  mount --bind "$from" "$root/dev/$name"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s /proc/self/fd "$root/dev/fd"
cd "$root"
mkdir -p host
pivot_root . host
umount -l /host
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
  --unit="$unit" --log-target=console --show-status=false
"""


def boot(root: Path, unit: str, awaited: Path) -> str:
    """What systemd says until there is the file ``awaited``; nothing of it runs on afterwards."""
    (hierarchy,) = [
        line.split()[1]
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[2] == "cgroup2"
    ][:1]
    group = Path(hierarchy, f"kdump-test-{os.getpid()}")
    group.mkdir()
    # In the group before there is a namespace of groups, whose root it becomes.
    enter = 'echo $$ >"$0/cgroup.procs"; exec unshare -mpnuiC --fork --kill-child sh -c "$@"'
    master, slave = pty.openpty()
    said: list[bytes] = []
    reader = threading.Thread(target=_read, args=(master, said), daemon=True)
    reader.start()
    process = subprocess.Popen(
        ["sh", "-c", enter, group, _SCRIPT, "sh", root, unit],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        deadline = time.monotonic() + _SECONDS
        while not awaited.exists():
            text = b"".join(said).decode(errors="replace")
            assert process.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
        reader.join(timeout=10)
        _remove(group)
    return b"".join(said).decode(errors="replace")


def _read(master: int, said: list[bytes]) -> None:
    try:
        while data := os.read(master, 65536):
            said.append(data)
    except OSError:  # the last process that had the other end has ended
        os.close(master)


def _remove(group: Path) -> None:
    """Remove a control group whose processes have been killed."""
    for directory, _, _ in os.walk(group, topdown=False):
        for _ in range(100):
            try:
                os.rmdir(directory)
            except OSError:  # one has not ended yet
                time.sleep(0.1)
            else:
                break
