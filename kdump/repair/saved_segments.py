"""Segments saved on another file system before they are removed, and brought back from there.

A backup is a directory ``PARTITION.ID`` of the user's choice. ``saved.json`` in it comes last:
without it, nothing was removed. Segments come back from the newest on, the log of each after its
indexes, so that at each moment no log is missing between others; leader epochs come after that.

Spec: ``LogLoader.load``, which deletes indexes without a log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from kdump.audit.commands import saved_undo_command
from kdump.audit.facts.small_files import read_small, read_topic_id
from kdump.errors import DecodeError, KdumpError, Refused, Unfinished, VanishedError
from kdump.format.checkpoint import decode_epochs, encode_epochs
from kdump.format.properties import decode_meta_properties
from kdump.repair.content.epochs import load_epochs
from kdump.repair.removal import OldSegments
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import Directory, open_as_owner, open_directory
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.fingerprint import stamp_of
from kdump.repair.transaction.interruption import cause_text
from kdump.repair.transaction.lock import (
    check_stopped,
    finish_or_undo,
    hold_lock,
    interrupted_repair,
)
from kdump.repair.transaction.plan import Stamp, changed_since
from kdump.repair.transaction.preparation import file_digest
from kdump.repair.transaction.shared_files import line_of
from kdump.storage.access import read_end
from kdump.storage.logdir import read_partition
from kdump.storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    FileKind,
    parse_file_name,
)
from kdump.storage.repair_record import RepairRecord, RepairState
from kdump.storage.source import source_error, status_of
from kdump.values import frozen

_SCHEMA: Final = 1
_RECORD: Final = "saved.json"
_MOST_BYTES: Final = 64 << 20
_SPARE_BYTES: Final = 1 << 20
_STAGED: Final = ".part"


@frozen
class SavedFile:
    """A file in a backup: its stamp in the partition, and its SHA-256."""

    stamp: Stamp
    sha256: str


@frozen
class SavedSegments:
    """The backup at ``path`` of the oldest segments of a partition, made for the plan ``id``.

    ``segments`` have the names of their files, the log first; they ascend and reach up to
    ``log_start``. ``log_start_line`` is the partition's line in the checkpoint when they were
    saved. ``topic_id`` is None if the partition has none. ``node`` has the cluster id and the node
    id, each None if unknown: replicas of several nodes may be saved in one directory. ``saved_ns``
    is the time in ns.
    """

    path: Path
    id: str
    topic_id: str | None
    node: tuple[str | None, int | None]
    segments: tuple[tuple[str, ...], ...]
    files: Mapping[str, SavedFile]
    log_start: int
    log_start_line: int | None
    saved_ns: int

    @property
    def record(self) -> RepairRecord:
        """What a list of backups says of it."""
        size = sum(file.stamp.size for file in self.files.values())
        return RepairRecord(self.id, self.path, "trim", RepairState.DONE, self.saved_ns, size)

    @property
    def first_offset(self) -> int:
        """The base offset of its first segment."""
        return _base(self.segments[0][0])


def check_backup_directory(directory: Path, old: OldSegments, needed_bytes: int) -> None:
    """Raise Refused unless segments can be saved in ``directory``, elsewhere; SourceError."""
    there, here = status_of(directory), status_of(old.path)
    if there.st_dev == here.st_dev:
        raise Refused(
            f"{directory}: expected a directory on another file system than {old.path}, found the "
            "same: a backup there frees nothing"
        )
    _check_owners((directory, there.st_uid), (old.path, here.st_uid))
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if free < needed_bytes + _SPARE_BYTES:
        raise Refused(
            f"{directory}: expected {needed_bytes + _SPARE_BYTES} free bytes, found {free}"
        )


def save_segments(old: OldSegments, directory: Path, plan_id: str, *, assume_stopped: bool) -> Path:
    """Save segments that are to go in a new directory in ``directory``; return its path.

    Nothing is written to the file system of the partition. Raises Refused, SourceError.
    """
    check_stopped(old.path, assume_stopped=assume_stopped)
    folder = directory / f"{old.path.name}.{plan_id}"
    with (
        open_directory(directory) as there,
        open_as_owner(old.path, old.identity) as here,
    ):
        _check_owners(_owned(there), _owned(here))
        try:
            disk.make_directory(folder, Attributes.of(directory))
            _save_all(old, folder, plan_id)
        except BaseException as error:
            with suppress(OSError, Refused):
                disk.remove_tree(folder)
            if isinstance(error, OSError):
                raise Refused(f"{folder}: nothing was removed: {error}") from error
            raise
    return folder


def _save_all(old: OldSegments, folder: Path, plan_id: str) -> None:
    files = {
        name: _save(old.path / name, folder / name, stamp) for name, stamp in old.files.items()
    }
    epochs = old.path / LEADER_EPOCH_CHECKPOINT
    stamp = None if old.remote else stamp_of(epochs)
    if stamp is not None:
        files[epochs.name] = _save(epochs, folder / epochs.name, stamp)
    disk.sync_directory(folder)
    _write_record(folder, plan_id, old, files)


def _check_owners(backup: tuple[Path, int], partition: tuple[Path, int]) -> None:
    """Raise Refused unless one user owns both directories, each given with its user."""
    (path, found), (owned, expected) = backup, partition
    if found != expected:
        raise Refused(
            f"{path}: expected user {expected}, who owns {owned}, to own it, found user {found}: "
            "change its owner"
        )


def _owned(directory: Directory) -> tuple[Path, int]:
    return directory.path, directory.rights.uid


def _save(source: Path, path: Path, stamp: Stamp) -> SavedFile:
    """Raises Refused if the file is not as planned, or not as it was after it was read; OSError."""
    disk.copy_file(source, path, stamp.size, Attributes.of(source), stamp.mtime_ns)
    digest = file_digest(source)
    if stamp_of(source) != stamp:
        raise changed_since(source.parent, source.name)
    if file_digest(path) != digest:
        raise Refused(f"{path}: expected the content of {source}, found another one")
    return SavedFile(stamp, digest)


def _write_record(
    folder: Path, plan_id: str, old: OldSegments, files: Mapping[str, SavedFile]
) -> None:
    line = None
    if old.log_directory is not None:
        line = line_of(old.log_directory / LOG_START_CHECKPOINT, old.path)
    fields = {
        "schema": _SCHEMA,
        "id": plan_id,
        "topic_id": read_topic_id(old.path / PARTITION_METADATA),
        "node": list(_node_of(old.log_directory)),
        "segments": [list(segment.files) for segment in old.segments],
        "files": {
            name: [file.stamp.size, file.stamp.mtime_ns, file.sha256]
            for name, file in sorted(files.items())
        },
        "log_start": old.log_start,
        "log_start_line": line,
    }
    beside = folder / f"{_RECORD}.tmp"
    text = json.dumps(fields, indent=1, sort_keys=True)
    owner = Attributes.of(folder)
    disk.write_file(beside, [text.encode() + b"\n"], Attributes(owner.uid, owner.gid, 0o600))
    disk.rename(beside, folder / _RECORD)


def _node_of(log_directory: Path | None) -> tuple[str | None, int | None]:
    """Return the cluster id and the node id of a log directory, each None if unknown."""
    if log_directory is None:
        return None, None
    meta = read_small(log_directory / META_PROPERTIES, decode_meta_properties).value
    return (None, None) if meta is None else (meta.cluster_id, meta.node_id)


def saved_segments(
    directory: Path, partition: Path, log_directory: Path | None
) -> list[SavedSegments]:
    """Return the backups of a partition of a node in ``directory``, the newest segments last.

    Raises Refused for one that cannot be decoded; SourceError.
    """
    try:
        names = sorted(each.name for each in directory.iterdir())
    except OSError as error:
        raise source_error(directory, error) from error
    wanted = read_topic_id(partition / PARTITION_METADATA), _node_of(log_directory)
    found = []
    for name in names:
        folder = directory / name
        if name.rpartition(".")[0] != partition.name:
            continue
        try:
            with open_as_owner(directory):
                # Listing refuses one that another user can write.
                if (_RECORD, False) not in disk.list_directory(folder):
                    continue
                saved = _read_record(folder)
        except OSError as error:
            raise source_error(folder, error) from error
        if (saved.topic_id, saved.node) == wanted:
            found.append(saved)
    return sorted(found, key=lambda saved: (saved.log_start, saved.saved_ns))


def _read_record(folder: Path) -> SavedSegments:
    path = folder / _RECORD
    _, data = read_end(path, _MOST_BYTES)
    try:
        fields: dict[str, Any] = json.loads(data)
        saved = SavedSegments(
            folder,
            str(fields["id"]),
            fields["topic_id"],
            (fields["node"][0], fields["node"][1]),
            tuple(tuple(names) for names in fields["segments"]),
            {
                name: SavedFile(Stamp(int(size), int(mtime_ns)), str(sha256))
                for name, (size, mtime_ns, sha256) in fields["files"].items()
            },
            int(fields["log_start"]),
            fields["log_start_line"],
            path.stat().st_mtime_ns,
        )
        _check_record(fields, saved)
    except (
        AttributeError,
        KeyError,
        IndexError,
        OverflowError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        text = f"{path}: expected the record of a backup, found another file: {error}"
        raise Refused(text) from error
    return saved


def _check_record(fields: Mapping[str, Any], saved: SavedSegments) -> None:
    """Raise ValueError unless names and numbers are those of segments."""
    if fields["schema"] != _SCHEMA or not saved.segments:
        raise ValueError(f"schema {fields['schema']}, {len(saved.segments)} segments")
    line = saved.log_start_line
    if not (line is None or type(line) is int) or not isinstance(saved.topic_id, str | None):
        raise ValueError("wrong types")
    bases = [_base(names[0]) for names in saved.segments]
    if bases != sorted(set(bases)) or bases[-1] >= saved.log_start:
        raise ValueError("the segments do not ascend")
    for names in saved.segments:
        if parse_file_name(names[0]).kind is not FileKind.LOG:
            raise ValueError(f"{names[0]} is no log")
        for name in names:
            if _base(name) != _base(names[0]):
                raise ValueError(f"{name} is of another segment than {names[0]}")
    inside = {name for names in saved.segments for name in names}
    if saved.files.keys() - {LEADER_EPOCH_CHECKPOINT} != inside:
        raise ValueError("the files are not those of the segments")


def _base(name: str) -> int:
    """Return the base offset in the name of a file of a segment. Raise ValueError."""
    parsed = parse_file_name(name)
    if "/" in name or parsed.base_offset is None or parsed.suffix:
        raise ValueError(f"{name} is no file of a segment")
    return parsed.base_offset


def restore_segments(
    saved: SavedSegments, partition: Path, log_directory: Path | None, *, assume_stopped: bool
) -> None:
    """Bring segments back into their partition, and remove the backup.

    Raises Refused if nothing was changed, Unfinished if something was; SourceError.
    """
    directory = saved.path.parent
    with (
        open_as_owner(directory) as there,
        hold_lock(partition, log_directory, assume_stopped=assume_stopped),
        open_as_owner(partition) as here,
    ):
        _check_owners(_owned(there), _owned(here))
        missing = list(_missing(saved, partition, log_directory))
        changed = False
        try:
            for name in missing:
                _bring_back(saved, partition, name)
                changed = True
            _bring_back_epochs(saved, partition)
            changed = True
            # Without the record the rest is not a backup.
            disk.unlink(saved.path / _RECORD)
            disk.remove_tree(saved.path)
        except (KdumpError, OSError, KeyboardInterrupt, SystemExit) as error:
            if not changed and isinstance(error, Refused | OSError):
                raise
            raise Unfinished(
                f"{partition}: the undo was interrupted: {cause_text(error)}",
                saved_undo_command(directory, partition),
            ) from error


def _missing(saved: SavedSegments, partition: Path, log_directory: Path | None) -> Iterator[str]:
    """Yield the names of files to bring back, in their order.

    Raises Refused unless the log goes on where the segments end, and would begin with them.
    """
    record = interrupted_repair(partition)
    if record is not None:
        raise Refused(
            f"{partition}: expected no interrupted repair, found {record.id}: "
            f"{finish_or_undo(record, partition)}"
        )
    stamps = {name: stamp_of(partition / name) for name in saved.files}
    other = [
        name
        for name, stamp in stamps.items()
        if name != LEADER_EPOCH_CHECKPOINT and stamp not in (None, saved.files[name].stamp)
    ]
    if other:
        raise Refused(f"{partition}: expected no other {other[0]} than the saved one, found one")
    logs = {_base(names[0]) for names in saved.segments if stamps[names[0]] is not None}
    bases = [segment.base_offset for segment in read_partition(partition).segments]
    later = [base for base in bases if base not in logs]
    if not later or later[0] != saved.log_start:
        found = str(later[0]) if later else "no log"
        raise Refused(
            f"{partition}: expected the log to go on at offset {saved.log_start}, where the saved "
            f"segments end, found {found}: restore a newer backup first, or take the segments from "
            f"{saved.path}"
        )
    if log_directory is not None:
        line = line_of(log_directory / LOG_START_CHECKPOINT, partition)
        if line is not None and line > saved.first_offset and line != saved.log_start_line:
            raise Refused(
                f"{partition}: expected a log start offset up to {saved.first_offset}, found "
                f"{line}: a broker has raised it, and would delete the segments again"
            )
    needed = sum(saved.files[name].stamp.size for name in saved.files if stamps[name] is None)
    space = os.statvfs(partition)
    if space.f_bavail * space.f_frsize < needed + _SPARE_BYTES:
        raise Refused(
            f"{partition}: expected {needed + _SPARE_BYTES} free bytes, found "
            f"{space.f_bavail * space.f_frsize}"
        )
    _epochs(saved, partition)
    for names in reversed(saved.segments):
        for name in reversed(names):
            if stamps[name] is None:
                # Its content is compared once it is copied; some file systems keep other times.
                found_file = stamp_of(saved.path / name)
                if found_file is None or found_file.size != saved.files[name].stamp.size:
                    raise Refused(f"{saved.path / name}: expected the saved file, found another")
                yield name


def _bring_back(saved: SavedSegments, partition: Path, name: str) -> None:
    source, beside, file = saved.path / name, partition / f"{name}{_STAGED}", saved.files[name]
    try:
        disk.copy_file(source, beside, file.stamp.size, Attributes.of(source), file.stamp.mtime_ns)
        if file_digest(beside) != file.sha256:
            raise Refused(f"{source}: expected SHA-256 {file.sha256}, found another content")
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            disk.unlink(beside)
        raise
    disk.rename(beside, partition / name)


def _bring_back_epochs(saved: SavedSegments, partition: Path) -> None:
    """Let the leader epochs begin with the segments, and go on as they do now."""
    epochs = _epochs(saved, partition)
    if epochs is None:
        return
    content, is_saved = epochs
    path, source = partition / LEADER_EPOCH_CHECKPOINT, saved.path / LEADER_EPOCH_CHECKPOINT
    beside = partition / f"{path.name}.tmp"
    mtime_ns = saved.files[path.name].stamp.mtime_ns if is_saved else None
    disk.write_file(beside, [content], Attributes.of(source), mtime_ns)
    disk.rename(beside, path)


def _epochs(saved: SavedSegments, partition: Path) -> tuple[bytes, bool] | None:
    """Return the leader epochs after the undo, and whether they are the saved ones.

    None if none were saved. Raises Refused unless both files can be decoded; SourceError.
    """
    file = saved.files.get(LEADER_EPOCH_CHECKPOINT)
    if file is None:
        return None
    path, source = partition / LEADER_EPOCH_CHECKPOINT, saved.path / LEADER_EPOCH_CHECKPOINT
    _, before = read_end(source, _MOST_BYTES)
    if sha256(before).hexdigest() != file.sha256:
        raise Refused(f"{source}: expected SHA-256 {file.sha256}, found another content")
    try:
        _, now = read_end(path, _MOST_BYTES)
    except VanishedError:
        now = encode_epochs(())
    entries = []
    for name, data in ((source, before), (path, now)):
        try:
            entries.append(load_epochs(decode_epochs(data)))
        except DecodeError as error:
            raise Refused(f"{name}: expected leader epochs, found another file: {error}") from error
    below = [entry for entry in entries[0] if entry.start_offset < saved.log_start]
    content = encode_epochs(tuple(load_epochs([*below, *entries[1]])))
    return content, content == before
