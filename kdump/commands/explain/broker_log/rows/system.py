"""Errors of the operating system: full or failed file systems, Windows, limits.

Spec: the texts of errno in Linux and the JDK's file system providers.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import broker_rights, read_errors
from kdump.audit.startup import room
from kdump.commands.explain.broker_log.message import BrokerMessage, FollowUp, Subject, answer_alike

ROWS: Final = (
    # Windows, whose exceptions read as if rights were missing.
    *answer_alike(
        "The broker runs on Windows, which refuses to rename or delete a file that is open or "
        "mapped, and to open a directory. The log directory went offline, or the node did not "
        "start. Permissions are not the cause, and the files are valid.",
        "Run the broker on Linux, in a container or in WSL 2: Kafka does not support Windows. "
        "Until then, start the broker again.",
        (
            "sun.nio.fs.Windows{}",
            "AccessDeniedException: {drive}",
            "FileSystemException: {drive}",
            "FileAlreadyExistsException: {drive}",
            "Failed to rename log directory from {drive}",
            "because it is being used by another process",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "Kubernetes kills the container of the broker, because its probe fails. If the broker is "
        "in log recovery, it does not answer yet, and the next start begins recovery again.",
        "kdump next-start --scan DIRECTORY says how long recovery takes, and what it removes. Set "
        "failureThreshold times periodSeconds of a startupProbe above that time, then let the "
        "broker recover.",
        (
            "iveness probe failed",
            "tartup probe failed",
            "failed liveness probe",
            "failed startup probe",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "On NFS, a client keeps a file that is deleted while it is open, as a file whose name "
        "begins with .nfs. The broker then cannot delete the directory. The log directory went "
        "offline.",
        "Restart the broker: it deletes the directory once it has the file closed. Move the log "
        "directory to a local disk or a block device: NFS does not keep what a broker relies on.",
        ("FileSystemException: {path}/.nfs{}: Device or resource busy", "/.nfs"),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "A network file system without a lock service refused to lock .lock. The log directory is "
        "offline.",
        "Mount the file system with locks (NFS 4, or rpc.statd for NFS 3), or move the log "
        "directory to a local disk. Do not delete .lock.",
        ("No locks available",),
    ),
    *answer_alike(
        "The file system is full. The log directory that the broker was writing to went offline.",
        "Free space, then restart the broker. Do not delete a .log by hand: kdump space DIRECTORY "
        "shows what takes the space, and what may go; kdump next-start DIRECTORY says whether "
        "startup finds enough space.",
        (
            "FileSystemException: {path}: No space left on device",
            "java.io.FileNotFoundException: {path} (No space left on device)",
        ),
        (room.DISK_FULL, room.DISK_SHORT, room.DISK_LOW),
        step=FollowUp.SPACE,
        quoted=("No space left on device",),
    ),
    *answer_alike(
        "The broker's user has used up its disk quota. The log directory went offline.",
        "Free space or raise the quota. Then restart the broker.",
        ("FileSystemException: {path}: Disk quota exceeded", "Disk quota exceeded"),
        step=FollowUp.SPACE,
    ),
    *answer_alike(
        "The disk failed during a read or write. The log directory went offline.",
        "Check the system log. Copy the readable data before you use the disk again.",
        (
            "FileSystemException: {path}: Input/output error",
            "java.io.FileNotFoundException: {path} (Input/output error)",
            "Input/output error",
        ),
        (read_errors.UNREADABLE,),
    ),
    *answer_alike(
        "The file system is mounted read-only, as after an error. The log directory went offline.",
        "Check the system log. Check the file system before you mount it for writing.",
        (
            "FileSystemException: {path}: Read-only file system",
            "java.io.FileNotFoundException: {path} (Read-only file system)",
            "Read-only file system",
        ),
        (read_errors.UNREADABLE,),
    ),
    *answer_alike(
        "The file system is corrupt. The log directory went offline.",
        "Unmount the file system and run its own check. Then verify the log directory before a "
        "broker starts.",
        (
            "FileSystemException: {path}: Structure needs cleaning",
            "java.io.FileNotFoundException: {path} (Structure needs cleaning)",
            "Structure needs cleaning",
        ),
        (read_errors.UNREADABLE,),
    ),
    *answer_alike(
        "A network file system lost the file. The log directory went offline.",
        "Mount the file system again. Verify the log directory before a broker starts, and move it "
        "to a local disk or a block device.",
        (
            "FileSystemException: {path}: Stale file handle",
            "java.io.FileNotFoundException: {path} (Stale file handle)",
            "Stale file handle",
        ),
        (read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "Too many open files",
        "The limit of open files was reached. A log directory may have gone offline as a result.",
        "Raise the limit (LimitNOFILE, ulimit -n), then restart the broker. The disk is not at "
        "fault.",
        kind=Subject.ELSEWHERE,
    ),
    BrokerMessage(
        "Map failed",
        "The limit of memory-mapped areas was reached. Large numbers of indexes use it up.",
        "Raise vm.max_map_count, then restart the broker. The disk is not at fault.",
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "The Java virtual machine got no memory and ended. If the machine had free memory, the "
        "limit of memory-mapped areas was reached: large numbers of indexes use it up.",
        "Raise vm.max_map_count, or free memory. Then start the broker again; it recovers its logs "
        "first. The disk is not at fault.",
        (
            "failed; error='Cannot allocate memory' (errno=12)",
            "failed; error='Not enough space' (errno=12)",
            "There is insufficient memory for the Java Runtime Environment to continue.",
            "Native memory allocation (mmap) failed to map {} bytes",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "The broker's user may not read or write this file. The file's log directory went offline, "
        "or the node did not start.",
        "Correct the owner and permissions. The usual cause is files that root created or "
        "restored.",
        (
            "java.io.FileNotFoundException: {path} (Permission denied)",
            "Permission denied",
        ),
        (read_errors.UNREADABLE, broker_rights.BROKER_DENIED),
        quoted=("java.nio.file.AccessDeniedException: {path}",),
        unquoted=(read_errors.UNREADABLE,),
    ),
    *answer_alike(
        "The broker itself had renamed the directory of this file, because the topic was deleted "
        "or the replica moved, while another part of it still used the old or new name. If the "
        "line comes from LogDirFailureChannel, the log directory went offline. No file is lost.",
        "If the log directory went offline, restart the broker. Releases from 3.6 on handle most "
        "of these cases: upgrade.",
        ("NoSuchFileException: {moved}", "FileNotFoundException: {moved}"),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "A file that the broker tried to use, or its directory, did not exist. Something else "
        "removed or renamed it, or the file system is not mounted.",
        "Find the cause: a cleanup job, a second broker, or a person. Then verify the log "
        "directory.",
        (
            "java.nio.file.NoSuchFileException: {path}",
            "java.io.FileNotFoundException: {path} (No such file or directory)",
        ),
    ),
)
