"""Move: the move of one partition directory to another log directory, as plain values.

Where one file system has both log directories, the directory is renamed. Else a copy is made under
a name that brokers skip, gets the name of the partition, and then the old directory is set aside.

Spec: ``LogManager.loadLogs``, ``LogManager.replaceCurrentWithFutureLog``.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final

from kdump.errors import Refused
from kdump.format.lines.shell import operand
from kdump.repair.transaction.lock import same_file
from kdump.repair.transaction.plan import Stamp
from kdump.repair.transaction.shared_files import line_of
from kdump.storage.names import (
    CLEAN_MARKER,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    format_aside_name,
    is_aside_name,
    is_aside_of,
)
from kdump.storage.paths import as_local
from kdump.storage.repair_record import (
    MOVE,
    RepairState,
    is_absolute_path,
    is_file_name,
    repair_records,
)
from kdump.storage.source import source_error, status_of
from kdump.values import frozen

#: The checkpoints of which a broker reads only those of the log directory that has the log.
LOADED_CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
)
#: A cleaner reads this of all log directories, and ends if two of them have a line for a partition.
CHECKPOINTS: Final = (*LOADED_CHECKPOINTS, CLEANER_CHECKPOINT)
_SCHEMA: Final = 1
_ID_LENGTH: Final = 8


@frozen
class CheckpointLine:
    """The offsets of the partition in a checkpoint of both log directories; None without a line.

    ``is_new``: the log directory that it moves to does not have the file.
    """

    checkpoint: str
    source: int | None
    target: int | None
    is_new: bool


@dataclass(frozen=True)
class Move:
    """The move of the partition directory ``name`` from ``source`` to ``target``.

    ``identity`` is the device and inode of the directory. ``files`` has the stamps of all files by
    their paths in it. ``copied``: the log directories are on two file systems. ``is_clean``:
    ``source`` has a clean shutdown file.
    """

    name: str
    source: Path
    target: Path
    identity: tuple[int, int]
    files: Mapping[str, Stamp]
    lines: tuple[CheckpointLine, ...]
    copied: bool
    is_clean: bool = True

    @property
    def departed(self) -> Path:
        """The directory that a broker has loaded before the move."""
        return self.source / self.name

    @property
    def arrived(self) -> Path:
        """The directory that a broker loads after the move."""
        return self.target / self.name

    @property
    def kept(self) -> Path:
        """The directory that is set aside where it was, as a backup."""
        return self.source / format_aside_name(self.id, self.name)

    @property
    def staged(self) -> Path:
        """The copy, before it gets its name."""
        return self.target / format_aside_name(self.id, self.name)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(stamp.size for stamp in self.files.values())

    @property
    def cleaned(self) -> CheckpointLine:
        """The line of the log cleaner."""
        return next(line for line in self.lines if line.checkpoint == CLEANER_CHECKPOINT)

    @property
    def loaded(self) -> tuple[CheckpointLine, ...]:
        """The lines that a broker reads as it loads the log."""
        return tuple(line for line in self.lines if line.checkpoint != CLEANER_CHECKPOINT)

    @cached_property
    def id(self) -> str:
        """Its name: a digest of all that it was planned for, whatever the paths are called."""
        lines = [[line.source, line.target] for line in self.lines]  # an earlier move makes files
        fields = {**encode(self), "source": "", "target": "", "lines": lines}
        del fields["is_clean"]  # absent in the ids of earlier releases
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    @property
    def command(self) -> tuple[str, ...]:
        """The command that carries it out, or finishes it."""
        return (
            "kdump",
            MOVE,
            "--to",
            operand(self.target),
            operand(self.departed),
            "--apply",
        )


def encode(move: Move) -> dict[str, Any]:
    """Return the JSON fields of a move."""
    return {
        "schema": _SCHEMA,
        "command": MOVE,
        "name": move.name,
        "source": str(move.source),
        "target": str(move.target),
        "identity": list(move.identity),
        "files": {name: [stamp.size, stamp.mtime_ns] for name, stamp in sorted(move.files.items())},
        "lines": {line.checkpoint: [line.source, line.target, line.is_new] for line in move.lines},
        "copied": move.copied,
        "is_clean": move.is_clean,
    }


def decode(fields: Mapping[str, Any]) -> Move:
    """Return the move whose JSON fields are ``fields``.

    Raises AttributeError, KeyError, TypeError, ValueError if they do not describe a move.
    """
    if (fields["schema"], fields["command"]) != (_SCHEMA, MOVE):
        raise ValueError(f"expected a move, found {fields['command']}")
    if not is_file_name(fields["name"]):
        raise ValueError(f"expected the name of a directory, found {fields['name']!r}")
    for place in (fields["source"], fields["target"]):
        if not is_absolute_path(place):
            raise ValueError(f"expected an absolute path, found {place!r}")
    device, inode = fields["identity"]
    numbers = [device, inode, *chain.from_iterable(fields["files"].values())]
    lines = [fields["lines"][name][:2] for name in CHECKPOINTS]
    numbers += [offset for offset in chain.from_iterable(lines) if offset is not None]
    if not all(type(number) is int for number in numbers):
        raise ValueError("expected whole numbers")
    return Move(
        fields["name"],
        Path(fields["source"]),
        Path(fields["target"]),
        (device, inode),
        {name: Stamp(*stamp) for name, stamp in fields["files"].items()},
        tuple(CheckpointLine(name, *fields["lines"][name]) for name in CHECKPOINTS),
        bool(fields["copied"]),
        bool(fields.get("is_clean", True)),
    )


def at_home(move: Move, home: Path) -> Move:
    """Return the move with the present path of the log directory that ``home`` is in."""
    if same_file(move.source, home.parent):  # a later move has brought a copy back there
        return replace(move, source=home.parent, target=home.parent if move.copied else move.target)
    return replace(move, target=home.parent)


def read_move(path: Path, target: Path) -> Move:
    """Return the move of the partition directory at ``path`` to the log directory ``target``.

    Raises Refused for a link in it, and for a checkpoint that cannot be decoded; SourceError.
    """
    source, status = path.parent, status_of(path)
    lines = tuple(
        CheckpointLine(
            name,
            line_of(source / name, path),
            line_of(target / name, path),
            not (target / name).exists(),
        )
        for name in CHECKPOINTS
    )
    return Move(
        path.name,
        source,
        target,
        (status.st_dev, status.st_ino),
        read_files(path, prepared(path)),
        lines,
        copied=not shares_mount(source, target),
        is_clean=(source / CLEAN_MARKER).exists(),
    )


def takes_marker(source: Path, target: Path) -> bool:
    """Return whether the clean shutdown file of ``target`` would hide that a log needs recovery."""
    return not (source / CLEAN_MARKER).exists() and (target / CLEAN_MARKER).exists()


def shares_mount(source: Path, target: Path) -> bool:
    """Return whether a directory of one can be renamed into the other. Raises SourceError.

    Two mounts of one file system have one device, and no rename goes from one to the other.
    """
    if status_of(source).st_dev != status_of(target).st_dev:
        return False
    one, other = map(_mount, (source, target))
    return one is not None and one == other


def _mount(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return next((line.split()[1] for line in text.splitlines() if line.startswith("mnt_id:")), None)


def prepared(partition: Path) -> list[Path]:
    """Return the folders of repairs that have changed nothing: the next repair removes them."""
    return [
        as_local(record.path)
        for record in repair_records(partition)
        if record.state is RepairState.PREPARED
    ]


def read_files(partition: Path, without: Collection[Path] = ()) -> dict[str, Stamp]:
    """Return the stamps of all files below a partition directory, by their paths in it.

    What is below ``without`` is left out. Raises Refused for a link and for what is neither a file
    nor a directory; SourceError.
    """
    try:
        return dict(_files(partition, without))
    except OSError as error:
        raise source_error(partition, error) from error


def _files(partition: Path, without: Collection[Path]) -> Iterator[tuple[str, Stamp]]:
    inner = [(partition, "")]
    while inner:
        directory, above = inner.pop()
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            status, path = entry.stat(follow_symlinks=False), directory / entry.name
            if stat.S_ISDIR(status.st_mode):
                if path not in without:
                    inner.append((path, f"{above}{entry.name}/"))
            elif stat.S_ISREG(status.st_mode):
                yield f"{above}{entry.name}", Stamp(status.st_size, status.st_mtime_ns)
            else:
                what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "another kind of file"
                raise Refused(f"{path}: expected a file or a directory, found {what}: move it away")


def read_directories(partition: Path) -> list[str]:
    """Return the paths of all directories below a partition directory in it, sorted.

    Raises OSError.
    """
    inner, found = [""], []
    while inner:
        above = inner.pop()
        with os.scandir(partition / above) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(f"{above}{entry.name}/")
                    found.append(f"{above}{entry.name}")
    return sorted(found)


def aside_names(target: Path, name: str) -> list[Path]:
    """Return the directories that moves of a partition have set aside in a log directory."""
    with os.scandir(target) as entries:
        found = [entry.name for entry in entries if is_aside_name(entry.name)]
    paths = [target / each for each in sorted(found)]
    return [path for path in paths if is_aside_of(path.name, name)]


def aside_id(path: Path) -> str:
    """Return the id of the move that has set the directory at ``path`` aside."""
    return path.name.partition(".kdump-")[2][:_ID_LENGTH]


def has_files(path: Path, without: Path) -> bool:
    """Return whether a file is below ``path``, beside those below ``without``. Raises OSError."""
    directories = [path]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    return True
                if Path(entry.path) != without:
                    directories.append(Path(entry.path))
    return False
