"""Whether a broker uses a path: live, stopped or unknown, with the reason.

Spec: LogManager.lockLogDirs, org.apache.kafka.server.util.FileLock. A broker holds a POSIX record
lock on ``.lock`` at the top of each of its log directories, has the logs of its partitions open for
writing, and maps their indexes for writing. This module checks all three. It takes no lock, and
does not create ``.lock``. The answer may be outdated a moment later: code that changes files takes
the lock. A process that only reads is not a broker: it is named, and does not change the answer.

Closing any descriptor of a file releases the POSIX locks that the process holds on it. kdump holds
none: its repairs use an open-file-description lock. A lock that
this process holds counts like any other, unless ``lock_held`` is given.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from enum import Enum
from pathlib import Path

from kdump.errors import SourceError, VanishedError
from kdump.storage.logdir import enclosing_log_directory, is_log_directory
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.names import LOCK
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath, as_local
from kdump.storage.source import open_regular, status_of
from kdump.values import frozen

_PROC = Path("/proc")
_PF_KTHREAD = 0x00200000
_PID_OF_DESCRIPTION_LOCKS = -1
_PID_OF_ANOTHER_NAMESPACE = 0
#: PROC_PID_INIT_INO: the target of ``/proc/self/ns/pid`` outside of all containers.
_FIRST_PROCESS_NAMESPACE = "pid:[4026531836]"
#: A shared map of a file in ``/proc/PID/maps``: its range, whether it is writable, and the path.
#: Code and libraries are mapped privately: writes to such a map change no file.
_SHARED_MAP = re.compile(
    r"^([0-9a-f]+-[0-9a-f]+) [r-]([w-])[x-]s \S+ \S+ \d+ +(/.*)$", re.MULTILINE
)

#: What the kernel appends to the path of an open file that was removed.
_DELETED = " (deleted)"

# f_type of statfs: on these, a process on another machine may have files open, invisible here.
_NETWORK_FILE_SYSTEMS = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB",
    0x00C36400: "Ceph",
    0x65735546: "FUSE",
    0x01021997: "9P",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x0BD00BD0: "Lustre",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0x20030528: "OrangeFS",
}


class BrokerState(Enum):
    """Whether a broker uses a path. UNKNOWN counts as LIVE unless ``--assume-stopped`` is given."""

    LIVE = "live"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@frozen
class Process:
    """A process: its id, and the name that the kernel has for it."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


@frozen
class Use:
    """A process that has a file open or mapped.

    ``file`` is the path as that process sees it. ``writes`` says whether the process is able to
    change the file, None if that cannot be read. ``file_id`` is the device and inode of the file,
    None if they cannot be read. ``unlinked_bytes`` is what a file takes on disk that has no name
    any more: it is freed once no process has it open. None for a file with a name, or if the file
    cannot be asked.
    """

    process: Process
    file: str
    writes: bool | None
    mapped: bool = False
    file_id: tuple[int, int] | None = None
    unlinked_bytes: int | None = None

    def __str__(self) -> str:
        how = "mapped" if self.mapped else "open"
        return f"{self.process} has {self.file} {how}"


@frozen
class Liveness:
    """The state of a path, and the reason for it.

    ``pid`` is the id of the broker's process, None without one or if it is in another container.
    ``uninspected`` are processes whose open files this process may not see; they do not make a path
    UNKNOWN. ``readers`` have files of the path open for reading only.
    """

    state: BrokerState
    reason: str
    pid: int | None = None
    uninspected: tuple[Process, ...] = ()
    readers: tuple[Process, ...] = ()


def liveness(path: AnyPath, *, lock_held: bool = False) -> Liveness:
    """Return whether a broker uses ``path``: a log directory, or a path in one.

    For a path in a log directory, all of that directory is checked. ``lock_held``: this process
    holds the lock, so that only open files count. Raises SourceError if the status of ``path``
    cannot be read.
    """
    if isinstance(path, ManifestPath):
        return _stored_liveness(path)
    if isinstance(path, RemotePath):
        return Liveness(BrokerState.STOPPED, "brokers use no log directory in an object store")
    targets = {_key(path)}
    log_directory = enclosing_log_directory(path)
    doubts: list[str] = []
    if log_directory is not None:
        targets.add(_key(log_directory))
        targets.update(_linked_partitions(as_local(log_directory)))
        if not lock_held:
            lock = _lock_state(log_directory / LOCK)
            if lock.state is BrokerState.LIVE:
                return lock
            if lock.state is BrokerState.UNKNOWN:
                doubts.append(lock.reason)
    # A free lock does not show that no broker runs: after somebody has removed .lock, a second
    # process gets the lock of a new file.
    uninspected: list[Process] = []
    readers: dict[Process, None] = {}
    if (_PROC / "self/fd").is_dir():
        for use in _open_files(targets, uninspected):
            if use.writes:
                return Liveness(BrokerState.LIVE, f"{use} for writing", use.process.pid)
            if use.writes is None:
                doubts.append(f"{use}, but kdump cannot determine whether for writing")
            readers[use.process] = None
    else:
        doubts.append("there is no /proc here that shows which processes have files of it open")
    hidden = _hidden_processes()
    # A lock is seen from any container, open files are not.
    if hidden is not None and log_directory is None:
        doubts.append(
            f"{hidden}, and there is no log directory around {path}, whose lock would show a "
            "broker: mount the log directory"
        )
    network = _network_file_system(path)
    if network is not None:
        doubts.append(
            f"{path} is on {network}, where kdump does not see processes of other machines"
        )
    found = tuple(uninspected), tuple(readers)
    if doubts:
        return Liveness(BrokerState.UNKNOWN, "; ".join(doubts), None, *found)
    reason = "no process has files of it open for writing"
    if log_directory is not None:
        lock_name = LOCK if log_directory == path else str(log_directory / LOCK)
        reason = f"{lock_name} is not locked and {reason}"
    if hidden is not None:
        reason += f", as far as kdump sees: {hidden}"
    return Liveness(BrokerState.STOPPED, reason, None, *found)


def _stored_liveness(path: ManifestPath) -> Liveness:
    """Return the liveness of the named path that ``path`` is or is in, as it was then."""
    manifest = path.manifest()
    when = f"when the manifest was made, {manifest.head.time}"
    inner = path.inner
    for root in manifest.contents.roots:
        if inner == root.path or inner.startswith(root.path + b"/") or not root.path:
            return Liveness(BrokerState(root.state), f"{when}, {root.reason}")
    return Liveness(BrokerState.UNKNOWN, f"{when}, this was not asked")


def running_directories() -> dict[Process, tuple[Path, ...]]:
    """Return the log directories that brokers on this host have locked, by process.

    Where the path of a process leads elsewhere from here, as that of a container does, it is one
    below ``/proc/PID/root``. Processes whose files this process may not see are left out.
    """
    found: dict[Process, set[Path]] = {}
    for entry in _processes() if (_PROC / "self/fd").is_dir() else ():
        try:
            descriptors = list((entry / "fd").iterdir())
        except OSError:  # it has ended, or this process may not see them
            continue
        for descriptor in descriptors:
            link = _link(descriptor)
            if link is None or not link.endswith(f"/{LOCK}"):
                continue
            seen = (Path(link), Path(f"{entry}/root{link}"))
            lock = next((path for path in seen if _file_id(path) == _file_id(descriptor)), None)
            if lock is None or not is_log_directory(lock.parent):
                continue
            # Another kdump that repairs holds a lock without a process.
            if _lock_state(lock).pid == int(entry.name):
                found.setdefault(_process(int(entry.name)), set()).add(lock.parent)
    return {process: tuple(sorted(directories)) for process, directories in found.items()}


def uses(files: Iterable[AnyPath]) -> Iterator[Use]:
    """Yield the processes that have one of ``files`` open or mapped. Raises SourceError."""
    wanted = {_key(file) for file in files}
    if not (_PROC / "self/fd").is_dir():
        return iter(())
    return (use for use in _open_files(wanted, []) if use.file_id in wanted)


def is_surely_unused(file: Path) -> bool:
    """Return whether no process has the regular file at ``file`` open or mapped.

    The kernel answers for all processes at once, those of other containers too: it grants a write
    lease only on a file that nobody else has open. False if the file is in use, or if its file
    system, or the rights of this process, allow no lease.

    Spec: ``fcntl(2)``, F_SETLEASE.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor, _ = open_regular(file)
    except SourceError:
        return False
    try:
        # Whoever opens the file before the lease is given back waits for that, and the kernel sends
        # a signal: by default SIGIO, which ends a process, while SIGURG does nothing.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@frozen
class UnlinkedFiles:
    """Files in log directories that have no name any more, and that a process still has open.

    ``size_bytes`` are their bytes on disk, ``unread`` counts those whose size cannot be read.
    ``first`` is the former path of one of them.
    """

    process: Process
    files: int
    size_bytes: int
    unread: int
    first: str


def unlinked_files(
    directories: Iterable[AnyPath],
) -> tuple[tuple[UnlinkedFiles, ...], tuple[Process, ...]]:
    """Return the files without a name in directories, by process, each file once.

    Also return the processes that this process may not inspect. Raises SourceError.
    """
    targets = {_key(path) for path in directories if isinstance(path, Path)}
    if not targets or not (_PROC / "self/fd").is_dir():
        return (), ()
    uninspected: list[Process] = []
    seen: set[object] = set()
    found: dict[Process, list[Use]] = {}
    for use in _open_files(targets, uninspected):
        if not use.file.endswith(_DELETED) or (
            use.file_id is not None and use.unlinked_bytes is None
        ):
            continue
        identity = use.file_id or (use.process, use.file)
        if identity not in seen and use.unlinked_bytes != 0:
            seen.add(identity)
            found.setdefault(use.process, []).append(use)
    return (
        tuple(
            UnlinkedFiles(
                process,
                len(uses),
                sum(use.unlinked_bytes or 0 for use in uses),
                sum(use.unlinked_bytes is None for use in uses),
                min(use.file for use in uses).removesuffix(_DELETED),
            )
            for process, uses in found.items()
        ),
        tuple(uninspected),
    )


def _processes() -> Iterator[Path]:
    """Yield the directory in /proc of each process that is visible there."""
    return (entry for entry in _PROC.iterdir() if entry.name.isdecimal())


def _hidden_processes() -> str | None:
    """Return which processes are not visible in /proc, None if all are."""
    try:
        namespace = os.readlink(_PROC / "self/ns/pid")  # noqa: PTH115 - no path
    except OSError:
        namespace = _FIRST_PROCESS_NAMESPACE  # without namespaces there are no containers
    if namespace != _FIRST_PROCESS_NAMESPACE:
        return "processes outside of this container are hidden"
    if not (_PROC / "1").is_dir():
        return "processes of other users are hidden"
    return None


def _lock_state(lock: AnyPath) -> Liveness:
    """Return the state by the lock on ``.lock`` alone: STOPPED if a broker would be granted it."""
    try:
        descriptor, _ = open_regular(as_local(lock))
    except VanishedError:  # since 3.8 a broker removes it when it stops
        return Liveness(BrokerState.STOPPED, f"there is no {lock}")
    except SourceError as error:
        return Liveness(BrokerState.UNKNOWN, str(error))
    try:
        pid = _conflicting_pid(descriptor)
    except OSError as error:
        return Liveness(BrokerState.UNKNOWN, f"{lock}: its lock cannot be tested: {error.strerror}")
    finally:
        os.close(descriptor)
    if pid is None:
        return Liveness(BrokerState.STOPPED, f"{lock} is not locked")
    if pid == _PID_OF_DESCRIPTION_LOCKS:
        return Liveness(BrokerState.LIVE, f"{lock} is locked by another kdump")
    if pid == _PID_OF_ANOTHER_NAMESPACE:
        return Liveness(BrokerState.LIVE, f"{lock} is locked by a process in another container")
    return Liveness(BrokerState.LIVE, f"{lock} is locked by {_process(pid)}", pid)


def _conflicting_pid(descriptor: int) -> int | None:
    """Return the process whose lock conflicts with that of a broker, None if there is no conflict.

    A broker locks the whole file, whatever its size, exclusively. F_GETLK takes no lock, and works
    on a descriptor for reading.
    """
    if sys.platform == "darwin":  # off_t start, off_t length, pid_t, short type, short whence
        question = struct.pack("@qqihh", 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
        _, _, pid, kind, _ = struct.unpack("@qqihh", answer)
    else:  # 64-bit Linux: short type, short whence, off_t start, off_t length, pid_t
        question = struct.pack("@hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
        kind, _, _, _, pid = struct.unpack("@hhqqi0q", answer)
    return None if kind == fcntl.F_UNLCK else int(pid)


def _open_files(targets: set[tuple[int, int]], uninspected: list[Process]) -> Iterator[Use]:
    """Yield the uses of ``targets`` by other processes: files open or mapped.

    A target is the device and inode of a file, or of a directory, which stands for all files below
    it. Processes that this process may not inspect are added to ``uninspected``.
    """
    own = os.getpid()
    for entry in _processes():
        if int(entry.name) == own:
            continue
        descriptors: list[Path] = []
        maps: dict[str, tuple[str, bool]] = {}
        try:
            descriptors = list((entry / "fd").iterdir())
            maps = _shared_maps(entry)
        except PermissionError:
            if not _is_kernel_thread(entry):
                uninspected.append(_process(int(entry.name)))
        except OSError:  # the process has ended
            continue
        inside = _Inside(f"{entry}/root", targets)
        for descriptor in descriptors:
            link = _link(descriptor)
            if link is not None and inside(link, descriptor):
                yield Use(
                    _process(int(entry.name)),
                    link,
                    _opened_for_writing(entry / "fdinfo" / descriptor.name),
                    file_id=_file_id(descriptor),
                    unlinked_bytes=_unlinked_bytes(link, descriptor),
                )
        for link, (address_range, writes) in maps.items():
            file = entry / "map_files" / address_range
            if inside(link, file):
                yield Use(
                    _process(int(entry.name)),
                    link,
                    writes,
                    mapped=True,
                    file_id=_file_id(file),
                    unlinked_bytes=_unlinked_bytes(link, file),
                )


def _shared_maps(entry: Path) -> dict[str, tuple[str, bool]]:
    """Return the shared maps of a process: by path, the address range and whether it is writable.

    A path with several maps gets a writable one, if there is one.
    """
    maps: dict[str, tuple[str, bool]] = {}
    text = (entry / "maps").read_text(errors="surrogateescape")
    for address_range, write, link in _SHARED_MAP.findall(text):
        writes = write == "w"
        if writes or link not in maps:
            maps[link] = address_range, writes
    return maps


def _linked_partitions(log_directory: Path) -> Iterator[tuple[int, int]]:
    """Yield the keys of directories elsewhere that links in a log directory lead to."""
    with suppress(OSError), os.scandir(log_directory) as entries:
        for entry in entries:
            with suppress(OSError, SourceError):
                if entry.is_symlink() and entry.is_dir():
                    yield _key(Path(entry.path))


def _link(descriptor: Path) -> str | None:
    try:
        link = os.readlink(descriptor)  # noqa: PTH115 - a Path would lose the kernel's spelling
    except OSError:  # closed since
        return None
    return link if link.startswith("/") else None  # a socket or a pipe


def _opened_for_writing(info: Path) -> bool | None:
    """Return whether a file is open for writing, by ``fdinfo``; None if that cannot be read."""
    try:
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        return int(fields["flags"], 8) & os.O_ACCMODE != os.O_RDONLY
    except (FileNotFoundError, ProcessLookupError):  # the file was closed, or the process ended
        return False
    except (OSError, KeyError, ValueError):
        return None


def _is_directory(file: AnyPath) -> bool:
    try:
        return file.is_dir()
    except OSError:  # only root may follow a link in map_files, and no directory is mapped
        return False


@frozen
class _Inside:
    """A test whether a file that a process has open is one of ``targets`` or lies below one.

    Directories are compared by device and inode, because a directory may have other paths in other
    containers. ``below`` caches the answer for each directory. The directory also identifies a file
    that is unlinked.
    """

    root: str
    targets: set[tuple[int, int]]
    below: dict[str, bool] = field(default_factory=dict)

    def __call__(self, link: str, file: AnyPath) -> bool:
        if not self._is_below(_parent(link)) and not _is_target(file, self.targets):
            return False
        return not _is_directory(file)  # the current directory of a shell, for example

    def _is_below(self, directory: str) -> bool:
        checked: list[str] = []
        answer = self.below.get(directory)
        while answer is None:
            checked.append(directory)
            # The path is below the root of the process's container, or, for a chroot, below ours.
            if _is_target(f"{self.root}{directory}", self.targets) or _is_target(
                directory, self.targets
            ):
                answer = True
            elif directory == "/":
                answer = False
            else:
                directory = _parent(directory)
                answer = self.below.get(directory)
        self.below.update(dict.fromkeys(checked, answer))
        return answer


def _parent(path: str) -> str:
    """Return the parent of an absolute path. A ``Path`` would be slow for thousands of files."""
    return path.rpartition("/")[0] or "/"


def _unlinked_bytes(link: str, file: Path) -> int | None:
    """Return the bytes of an open file that has no name, None if it has one or is not readable."""
    if not link.endswith(_DELETED):
        return None
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_blocks * 512 if not status.st_nlink else None


def _file_id(file: AnyPath) -> tuple[int, int] | None:
    try:
        return _key(file)
    except SourceError:  # closed since, or this process may not follow the link
        return None


def _is_target(path: AnyPath | str, targets: set[tuple[int, int]]) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116 - a string is quicker
    except (OSError, ValueError):  # removed, or this process may not search its directory
        return False
    return (status.st_dev, status.st_ino) in targets


def _key(path: AnyPath) -> tuple[int, int]:
    status = status_of(path)
    return status.st_dev, status.st_ino


def _process(pid: int) -> Process:
    try:
        name = (_PROC / str(pid) / "comm").read_text(errors="surrogateescape").rstrip("\n")
    except OSError:
        name = "ended"
    return Process(pid, name)


def _is_kernel_thread(entry: Path) -> bool:
    """Return whether a process is a kernel thread, which has no files, or has ended."""
    try:
        # The name, in brackets, may hold any characters; flags are the seventh field after it.
        fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return True
    return bool(int(fields[6]) & _PF_KTHREAD)


def _network_file_system(path: AnyPath) -> str | None:
    """Return the kind of network file system that ``path`` is on, None if it is on none."""
    if sys.platform != "linux":
        return None
    # statfs has f_type as its first word; os.statvfs leaves it out.
    buffer = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).statfs(os.fsencode(path), buffer) != 0:
        return None
    return _NETWORK_FILE_SYSTEMS.get(buffer[0] & 0xFFFFFFFF)
