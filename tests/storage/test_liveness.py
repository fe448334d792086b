from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import SourceError, VanishedError
from kdump.storage import liveness as module
from kdump.storage.liveness import (
    BrokerState,
    Process,
    is_surely_unused,
    liveness,
    running_directories,
    unlinked_files,
)
from support.descriptors import none_left_open
from support.stand_in import child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

BASE = "00000000000000000000.log"


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    partition = root / "orders-0"
    partition.mkdir(parents=True)
    (root / "meta.properties").touch()
    (root / ".lock").touch()
    (partition / BASE).write_bytes(b"batches")
    return root


@pytest.fixture(autouse=True)
def all_are_searched(
    every_process: Callable[[], Iterator[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_processes", every_process)


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Iterator[None]:
    with none_left_open():
        yield


POSIX_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""
DESCRIPTION_LOCK = """
import fcntl, struct, sys
file = open(sys.argv[1], "r+")
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("@hhqqi0q", fcntl.F_WRLCK, 0, 0, 0, 0))
"""
OPEN = 'import sys; file = open(sys.argv[1], "r+")'
READ = "import sys; file = open(sys.argv[1])"
#: As a broker has its indexes: mapped, the descriptor closed. Python's own would stay open.
MAP = """
import ctypes, os, sys
path, flags, protection = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = os.open(path, os.O_RDWR)
size = ctypes.c_size_t(os.fstat(file).st_size)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
assert libc.mmap(None, size, protection, flags, file, ctypes.c_long(0)) != ctypes.c_void_p(-1).value
os.close(file)
"""


def test_a_free_lock_and_no_open_file_mean_stopped(log_directory: Path) -> None:
    for path in (log_directory, log_directory / "orders-0", log_directory / "orders-0" / BASE):
        answer = liveness(path)
        assert (answer.state, answer.pid) == (BrokerState.STOPPED, None)
        lock = ".lock" if path == log_directory else f"{log_directory}/.lock"
        assert (
            answer.reason == f"{lock} is not locked and no process has files of it open for writing"
        )


def test_a_broker_of_today_leaves_no_lock_file(log_directory: Path) -> None:
    (log_directory / ".lock").unlink()
    assert liveness(log_directory).state is BrokerState.STOPPED
    assert not (log_directory / ".lock").exists()


@pytest.mark.parametrize("inside", [".", "orders-0", f"orders-0/{BASE}", "meta.properties"])
def test_a_brokers_lock_means_live(log_directory: Path, inside: str) -> None:
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        answer = liveness(log_directory / inside)
    assert (answer.state, answer.pid) == (BrokerState.LIVE, pid)
    assert f".lock is locked by process {pid} (python" in answer.reason
    assert liveness(log_directory).state is BrokerState.STOPPED


def test_the_lock_of_another_kdump_has_no_process(log_directory: Path) -> None:
    with child(DESCRIPTION_LOCK, log_directory / ".lock"):
        answer = liveness(log_directory)
    assert (answer.state, answer.pid) == (BrokerState.LIVE, None)
    assert "another kdump" in answer.reason


def test_a_lock_from_another_container_has_no_process(log_directory: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kdump.storage.liveness import liveness;"
        "answer = liveness(Path(sys.argv[1])); print(answer.state.value, answer.pid, answer.reason)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with child(POSIX_LOCK, log_directory / ".lock"):
        result = subprocess.run(
            ["unshare", "--pid", "--fork", sys.executable, "-c", code, str(log_directory)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    if "unshare failed" in result.stderr:
        pytest.skip("may not make a process namespace")
    assert result.stdout.startswith("live None"), result
    assert "in another container" in result.stdout


def test_asking_takes_no_lock_and_changes_nothing(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: set[int] = set()
    plain_fcntl = fcntl.fcntl

    def watch(descriptor: int, command: int, argument: int = 0) -> int:
        commands.add(command)
        return plain_fcntl(descriptor, command, argument)

    before = (log_directory / ".lock").stat()
    monkeypatch.setattr(fcntl, "fcntl", watch)
    assert liveness(log_directory).state is BrokerState.STOPPED
    assert commands == {fcntl.F_GETLK}
    assert (log_directory / ".lock").stat() == before


def test_a_process_with_a_file_open_means_live(log_directory: Path) -> None:
    file = log_directory / "orders-0" / BASE
    with child(OPEN, file) as pid:
        for path in (log_directory, log_directory / "orders-0", file):
            answer = liveness(path)
            assert (answer.state, answer.pid) == (BrokerState.LIVE, pid)
            assert answer.reason.endswith(f"has {file} open for writing")


def test_a_live_broker_is_seen_after_its_lock_file_was_unlinked(log_directory: Path) -> None:
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        (log_directory / ".lock").unlink()
        answer = liveness(log_directory / "orders-0")
        assert (answer.state, answer.pid) == (BrokerState.LIVE, pid)
        assert ".lock (deleted) open" in answer.reason
        (log_directory / ".lock").touch()  # which would now be granted
        assert liveness(log_directory).state is BrokerState.LIVE


def test_an_open_file_of_a_removed_partition_counts(log_directory: Path) -> None:
    with child(OPEN, log_directory / "orders-0" / BASE):
        shutil.rmtree(log_directory / "orders-0")
        answer = liveness(log_directory)
    assert answer.state is BrokerState.LIVE
    assert "(deleted) open" in answer.reason


@pytest.mark.parametrize("inside", [".lock", f"orders-0/{BASE}"])
def test_a_process_that_reads_is_named_and_is_no_broker(log_directory: Path, inside: str) -> None:
    alone = liveness(log_directory)
    with child(READ, log_directory / inside) as pid:
        answer = liveness(log_directory)
        with child(OPEN, log_directory / "orders-0" / BASE) as writer:
            assert liveness(log_directory).pid == writer
    (reader,) = answer.readers
    assert reader.pid == pid
    assert (answer.state, answer.reason, answer.pid) == (BrokerState.STOPPED, alone.reason, None)
    assert alone.readers == ()


def test_an_index_mapped_as_a_broker_does_means_live(log_directory: Path) -> None:
    index = log_directory / "orders-0" / "00000000000000000000.index"
    index.write_bytes(b"entries")
    with child(MAP, index, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as pid:
        for path in (log_directory, index):
            answer = liveness(path)
            assert (answer.state, answer.pid) == (BrokerState.LIVE, pid)
            assert answer.reason.endswith(f"has {index} mapped for writing")
        index.unlink()
        assert liveness(log_directory).pid == pid


def test_maps_that_only_root_may_follow(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user, whose own broker it is, reads what is mapped, and may not open it there."""
    follow = Path.stat

    def refused(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if "map_files" in path.parts:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return follow(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refused)
    mapped = log_directory / "orders-0" / BASE
    with child(MAP, mapped, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as pid:
        answer = liveness(log_directory)
        assert (answer.state, answer.pid) == (BrokerState.LIVE, pid)


@pytest.mark.parametrize(
    ("flags", "protection"),
    [
        (mmap.MAP_PRIVATE, mmap.PROT_READ),  # as kdump maps, which has the file open too
        (mmap.MAP_SHARED, mmap.PROT_READ),
        (mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE),
    ],
)
def test_a_map_that_changes_no_file_is_of_a_reader(
    log_directory: Path, flags: int, protection: int
) -> None:
    with child(MAP, log_directory / "orders-0" / BASE, flags, protection) as pid:
        answer = liveness(log_directory)
    named = [pid] if flags == mmap.MAP_SHARED else []
    assert (answer.state, [reader.pid for reader in answer.readers]) == (BrokerState.STOPPED, named)


def test_where_flags_cannot_be_read_it_is_unknown(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_read = Path.read_text

    def refuse(self: Path, *arguments: Any, **options: Any) -> str:
        if self.parent.name == "fdinfo":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain_read(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    with child(READ, log_directory / "orders-0" / BASE) as pid:
        answer = liveness(log_directory)
    assert (answer.state, answer.pid) == (BrokerState.UNKNOWN, None)
    assert f"process {pid} (" in answer.reason
    assert "cannot determine whether for writing" in answer.reason


def test_who_uses_which_file(log_directory: Path) -> None:
    log, other = log_directory / "orders-0" / BASE, log_directory / "meta.properties"
    with child(READ, log) as pid, child(OPEN, other):
        (use,) = module.uses([log])
    assert (use.process.pid, use.file, use.writes) == (pid, str(log), False)
    assert str(use).endswith(f"has {log} open")


def test_a_shell_that_stands_in_a_directory_does_not_count(log_directory: Path) -> None:
    code = "import os, sys; os.chdir(sys.argv[1]); here = os.open('.', os.O_RDONLY)"
    with child(code, log_directory / "orders-0"):
        assert liveness(log_directory).state is BrokerState.STOPPED


def test_what_this_process_has_open_does_not_count(log_directory: Path) -> None:
    with (log_directory / "orders-0" / BASE).open():
        assert liveness(log_directory).state is BrokerState.STOPPED


def test_outside_any_log_directory_only_open_files_count(tmp_path: Path) -> None:
    partition = tmp_path / "copied" / "orders-0"
    partition.mkdir(parents=True)
    (partition / BASE).touch()
    (tmp_path / "copied" / ".lock").touch()
    with child(POSIX_LOCK, tmp_path / "copied" / ".lock"):
        answer = liveness(partition)
        assert (answer.state, answer.reason) == (
            BrokerState.STOPPED,
            "no process has files of it open for writing",
        )
    with child(OPEN, partition / BASE) as pid:
        assert liveness(partition).pid == pid
        assert liveness(partition / BASE).pid == pid
        (partition / "other").touch()
        assert liveness(partition / "other").state is BrokerState.STOPPED


def test_a_hard_link_to_an_open_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / BASE).touch()
    (tmp_path / "b" / BASE).hardlink_to(tmp_path / "a" / BASE)
    with child(OPEN, tmp_path / "a" / BASE) as pid:
        assert liveness(tmp_path / "b" / BASE).pid == pid


def test_a_partition_that_is_a_link_belongs_to_both_directories(
    log_directory: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(log_directory / "orders-0")
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        assert liveness(link).pid == pid
    elsewhere = tmp_path / "disk2" / "orders-1"
    elsewhere.mkdir(parents=True)
    (elsewhere / BASE).touch()
    (log_directory / "orders-1").symlink_to(elsewhere)
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        assert liveness(log_directory / "orders-1").pid == pid
    (log_directory / "orders-2").symlink_to(tmp_path / "nowhere")
    with child(OPEN, elsewhere / BASE) as pid:
        assert liveness(log_directory / "orders-1").pid == pid
        assert liveness(log_directory).pid == pid


@pytest.mark.parametrize("code", [OPEN, READ, MAP])
def test_a_file_that_a_process_uses_is_not_surely_unused(log_directory: Path, code: str) -> None:
    log = log_directory / "orders-0" / BASE
    assert is_surely_unused(log)
    flags = (str(mmap.MAP_SHARED), str(mmap.PROT_READ)) if code is MAP else ()
    with child(code, log, *flags):
        assert not is_surely_unused(log)
    assert is_surely_unused(log)
    with log.open("rb"):  # whoever reads it, this process too
        assert not is_surely_unused(log)


def test_what_cannot_be_asked_is_not_surely_unused(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_directory / "orders-0" / BASE
    os.mkfifo(log_directory / "fifo")
    for path in (log_directory / "fifo", log_directory / "missing"):
        assert not is_surely_unused(path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "no leases on this file system")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert not is_surely_unused(log)


def test_the_current_directory_is_asked_about(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(log_directory / "orders-0")
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        assert liveness(Path(".")).pid == pid
        assert liveness(Path(BASE)).pid == pid


@pytest.mark.parametrize("kind", ["FIFO", "directory"])
def test_a_lock_that_is_no_file_leaves_it_unknown(log_directory: Path, kind: str) -> None:
    (log_directory / ".lock").unlink()
    if kind == "FIFO":
        os.mkfifo(log_directory / ".lock")
    else:
        (log_directory / ".lock").mkdir()
    answer = liveness(log_directory)
    assert answer.state is BrokerState.UNKNOWN
    assert f"expected a regular file, found a {kind}" in answer.reason


def test_an_unreadable_lock_leaves_it_unknown_unless_a_process_is_found(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_open = os.open

    def refuse(path: Path, flags: int) -> int:
        if path == log_directory / ".lock":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain_open(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    answer = liveness(log_directory)
    assert (answer.state, answer.pid) == (BrokerState.UNKNOWN, None)
    assert "Permission denied" in answer.reason
    monkeypatch.undo()
    with child(OPEN, log_directory / "orders-0" / BASE) as pid:
        monkeypatch.setattr(os, "open", refuse)
        assert liveness(log_directory).pid == pid
        monkeypatch.undo()


def test_a_lock_that_cannot_be_tested_leaves_it_unknown(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_fcntl = fcntl.fcntl

    def refuse(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_GETLK:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        return plain_fcntl(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    answer = liveness(log_directory)
    assert answer.state is BrokerState.UNKNOWN
    assert "cannot be tested: No locks available" in answer.reason


def test_without_proc_it_is_unknown(
    log_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROC", tmp_path / "no-proc")
    answer = liveness(log_directory)
    assert answer.state is BrokerState.UNKNOWN
    assert "no /proc" in answer.reason
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        answer = liveness(log_directory)
    assert (answer.state, answer.reason.endswith("(ended)"), answer.pid) == (
        BrokerState.LIVE,
        True,
        pid,
    )


def test_a_network_file_system_leaves_it_unknown(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = (ctypes.c_long * 64)()
    assert ctypes.CDLL(None).statfs(os.fsencode(log_directory), buffer) == 0
    monkeypatch.setitem(module._NETWORK_FILE_SYSTEMS, buffer[0] & 0xFFFFFFFF, "NFS")
    answer = liveness(log_directory)
    assert answer.state is BrokerState.UNKNOWN
    assert "is on NFS" in answer.reason
    assert module._network_file_system(Path("/proc")) is None
    assert module._network_file_system(log_directory / "gone") is None


def fake_proc(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A /proc with a kernel thread, a process of another user, and one that has ended."""
    (root / "self" / "fd").mkdir(parents=True)
    for pid, name, flags in ((2, "kthread", 0x208040), (70, "java (x) y", 0x400000)):
        (root / str(pid)).mkdir()
        (root / str(pid) / "stat").write_text(f"{pid} ({name}) S 1 1 1 0 -1 {flags} 0 0\n")
        (root / str(pid) / "comm").write_text(f"{name}\n")
    for pid in (71, 72):
        (root / str(pid)).mkdir()
    plain_iterdir = Path.iterdir

    def refuse(self: Path) -> Iterator[Path]:
        if self.parent.parent == root and self.name == "fd" and self.parent.name != "72":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain_iterdir(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    monkeypatch.setattr(module, "_PROC", root)


def test_processes_that_may_not_be_inspected_are_named(
    log_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_proc(tmp_path / "proc", monkeypatch)
    answer = liveness(log_directory)
    assert answer.state is BrokerState.STOPPED
    assert answer.uninspected == (Process(70, "java (x) y"),)
    assert str(answer.uninspected[0]) == "process 70 (java (x) y)"
    assert "processes of other users are hidden" in answer.reason  # this one shows no process 1


def test_a_bare_partition_is_stopped_only_where_all_processes_are_seen(
    log_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its log directory, whose lock would show a broker, is not in sight."""
    bare = tmp_path / "copied" / "orders-0"
    bare.mkdir(parents=True)
    (bare / BASE).touch()
    monkeypatch.setattr(module, "_FIRST_PROCESS_NAMESPACE", os.readlink("/proc/self/ns/pid"))
    assert liveness(bare).state is BrokerState.STOPPED
    monkeypatch.setattr(module, "_FIRST_PROCESS_NAMESPACE", "pid:[1]")
    answer = liveness(bare)
    assert answer.state is BrokerState.UNKNOWN
    assert (
        "processes outside of this container are hidden, and there is no log directory"
        in answer.reason
    )
    answer = liveness(log_directory / "orders-0")  # its lock is seen
    assert answer.state is BrokerState.STOPPED
    assert "as far as kdump sees: processes outside of this container are" in answer.reason
    fake_proc(tmp_path / "proc", monkeypatch)  # shows no process 1
    answer = liveness(bare)
    assert answer.state is BrokerState.UNKNOWN
    assert "processes of other users are hidden, and there is no log directory" in answer.reason
    (tmp_path / "proc" / "1").mkdir()
    answer = liveness(bare)
    assert (answer.state, answer.uninspected) == (BrokerState.STOPPED, (Process(70, "java (x) y"),))


def test_a_descriptor_that_is_closed_during_the_search_is_skipped(
    log_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptors = tmp_path / "proc" / "9" / "fd"
    descriptors.mkdir(parents=True)
    (tmp_path / "proc" / "self" / "fd").mkdir(parents=True)
    (tmp_path / "proc" / "1").mkdir()
    (descriptors / "0").touch()  # no link: reading it as one fails
    (descriptors / "1").symlink_to("socket:[1]")
    (descriptors / "2").symlink_to("/nowhere/at/all")
    monkeypatch.setattr(module, "_PROC", tmp_path / "proc")
    answer = liveness(log_directory)
    assert (answer.state, answer.uninspected) == (BrokerState.STOPPED, ())


@contextmanager
def in_a_container(directory: Path, mounted: Path, code: str) -> Iterator[int]:
    """A process that runs ``code`` and waits where ``directory`` has another path; its id."""
    mounted.mkdir()
    wait = f"{code}\nprint(flush=True)\ninput()"
    script = f"mount --bind {directory} {mounted} && exec {sys.executable} -c '{wait}'"
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"\n":
            pytest.skip("may not make a mount namespace")
        yield process.pid
    finally:
        process.communicate(b"\n")


def test_a_broker_in_another_mount_namespace_is_seen(log_directory: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    code = f'file = open("{inside}/orders-0/{BASE}", "r+")'
    with in_a_container(log_directory, inside, code) as pid:
        answer = liveness(log_directory)
    assert (answer.state, answer.pid) == (BrokerState.LIVE, pid)
    assert f"{inside}/orders-0/{BASE} open" in answer.reason


def test_a_path_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VanishedError):
        liveness(tmp_path / "gone")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(SourceError):
        liveness(tmp_path / "circle")


def test_the_lock_structure_has_the_size_that_the_kernel_reads() -> None:
    assert struct.calcsize("@hhqqi0q") == 32


# --- where brokers have their log directories


def of_process(pid: int) -> tuple[Path, ...]:
    """The log directories of a process: brokers of other tests may be running."""
    return next((found for each, found in running_directories().items() if each.pid == pid), ())


def test_the_directories_that_a_broker_has_locked_are_found(log_directory: Path) -> None:
    second = log_directory.with_name("second")
    shutil.copytree(log_directory, second)
    script = POSIX_LOCK.replace("file", "first") + POSIX_LOCK.replace("argv[1]", "argv[2]")
    with child(script, log_directory / ".lock", second / ".lock") as pid:
        assert of_process(pid) == (log_directory, second)
    assert of_process(pid) == ()


@pytest.mark.parametrize("script", [OPEN, READ, DESCRIPTION_LOCK])
def test_a_process_that_locks_nothing_has_no_log_directory(
    script: str, log_directory: Path
) -> None:
    with child(script, log_directory / ".lock") as pid:
        assert of_process(pid) == ()


def test_a_lock_elsewhere_or_gone_is_no_log_directory(log_directory: Path, tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with child(POSIX_LOCK, tmp_path / ".lock") as pid:
        assert of_process(pid) == ()
    with child(POSIX_LOCK, log_directory / ".lock") as pid:
        (log_directory / ".lock").unlink()
        assert of_process(pid) == ()


def test_a_directory_of_a_container_is_named_below_its_root(
    log_directory: Path, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    code = f'import fcntl\nfile = open("{inside}/.lock", "r+")\nfcntl.lockf(file, fcntl.LOCK_EX)'
    with in_a_container(log_directory, inside, code) as pid:
        found = of_process(pid)
        assert found == (Path(f"/proc/{pid}/root{inside}"),)
        assert (found[0] / "orders-0" / BASE).read_bytes() == b"batches"


# --- files that were removed


def test_removed_files_that_are_open_are_counted_once(log_directory: Path) -> None:
    first, second = log_directory / "orders-0" / BASE, log_directory / "orders-0" / "0.index"
    first.write_bytes(bytes(3 * 4096))
    second.write_bytes(bytes(4096))
    both = 'import sys; files = [open(path, "r+") for path in sys.argv[1:] for _ in range(2)]'
    with child(both, first, second) as pid:
        assert unlinked_files([log_directory])[0] == ()
        first.unlink()
        (found,), _ = unlinked_files([log_directory])
        assert (found.process.pid, found.files, found.unread) == (pid, 1, 0)
        assert (found.size_bytes, found.first) == (3 * 4096, str(first))
        shutil.rmtree(log_directory / "orders-0")  # the directory of a file tells it no more
        (found,), _ = unlinked_files([log_directory])
        assert (found.files, found.size_bytes) == (2, 4 * 4096)
        assert unlinked_files([log_directory.parent / "data"])[0] == (found,)
    assert unlinked_files([log_directory])[0] == ()


def test_a_removed_file_with_another_name_is_not_free_to_come(log_directory: Path) -> None:
    log = log_directory / "orders-0" / BASE
    os.link(log, log_directory / "orders-0" / "snapshot")
    with child(OPEN, log):
        log.unlink()
        assert unlinked_files([log_directory])[0] == ()


def test_a_removed_index_that_is_mapped_is_counted(log_directory: Path) -> None:
    index = log_directory / "orders-0" / "0.index"
    index.write_bytes(b"x" * 4096)
    with child(MAP, index, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE):
        index.unlink()
        (found,), _ = unlinked_files([log_directory])
    # Only root may ask for the size of a map.
    assert (found.files, found.size_bytes + found.unread * 4096) == (1, 4096)


def test_no_directories_have_no_removed_files(log_directory: Path) -> None:
    assert unlinked_files([]) == ((), ())
    with pytest.raises(SourceError):
        unlinked_files([log_directory / "none"])
