"""The folder of a repair in its partition: plan, backup, progress, receipt.

``plan.json`` comes first. ``begun.json`` means that everything is saved and that changes may have
been made, ``receipt.json`` that all steps are done, ``undoing`` that they are being undone. Without
``begun.json`` the partition is unchanged, and the folder can be removed.

The files are trusted only if no user but the owner of the partition can have written them.

Brokers ignore directories in a partition, and remove them with its topic.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from kdump.errors import Refused
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import check_own_directory
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.plan import Line, Plan, Rewrite, Stamp, TakeMarker, decode, encode
from kdump.storage.access import read_end
from kdump.storage.names import CLEAN_MARKER
from kdump.storage.repair_record import BEGUN, FOLDERS, PLAN, RECEIPT, UNDOING
from kdump.storage.rights import is_root
from kdump.storage.source import source_error, status_of
from kdump.values import frozen

_OLD: Final = "old"
_NEW: Final = "new"
_TAIL: Final = ".tail"
_LEAVES_MARKER: Final = "leaves_marker"
_MOST_BYTES: Final = 64 << 20
_PRIVATE: Final = 0o600
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
#: The files at the top of the folder; each is written under a temporary name first.
_OWN_FILES: Final = frozenset(
    f"{name}{suffix}" for name in (PLAN, BEGUN, UNDOING, RECEIPT) for suffix in ("", ".tmp")
)


@frozen
class StartRecord:
    """The time of the first change in ns, and the files that were saved before it.

    New files get that modification time. ``tails`` has for each cut log the position from which its
    tail was saved. ``marker`` is the stamp of the clean shutdown marker, None if it is not saved.
    ``digests`` has for each converted log the digest of the records that were read back.
    """

    begun_ns: int
    tails: Mapping[str, int]
    marker: Stamp | None
    digests: Mapping[str, str] = field(default_factory=dict)


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


_Planned = TypeVar("_Planned", bound=_HasId)


class RecordFolder:
    """The folder of one repair or move: how far it has come, in files of JSON."""

    def __init__(self, partition: Path, plan_id: str) -> None:
        self.partition = partition
        self.path = partition / FOLDERS / plan_id

    @property
    def has_begun(self) -> bool:
        """Whether changes may have been made. The partition must be open for changes."""
        return disk.exists(self.path / BEGUN)

    def finish(self, receipt: Mapping[str, Any]) -> None:
        """Write the receipt: all steps are done."""
        self.write(RECEIPT, receipt)

    def undo(self, fields: Mapping[str, Any] | None = None) -> None:
        """Record that the steps are being undone, with what has to be known to the end."""
        if not (self.path / UNDOING).exists():
            self.write(UNDOING, fields or {})

    def check(self) -> None:
        """Raise Refused unless its directories are no links, and no other user can write them."""
        uid = status_of(self.partition).st_uid
        for path in (self.path.parent, self.path, self.path / _OLD, self.path / _NEW):
            check_own_directory(path, uid)

    def write(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write a file of JSON; it appears whole or not at all. Raises OSError."""
        path = self.path / name
        beside = self.path / f"{name}.tmp"
        owner = Attributes.of(self.path)
        like = Attributes(owner.uid, owner.gid, _PRIVATE)
        text = json.dumps(fields, indent=1, sort_keys=True)
        disk.write_file(beside, [text.encode() + b"\n"], like)
        disk.rename(beside, path)

    def read(self, name: str) -> dict[str, Any]:
        """Read a file of JSON. Raises Refused unless it is an object that its owner has written."""
        path = self.path / name
        self._check_file(path)
        size, data = read_end(path, _MOST_BYTES)
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.invalid_file(name, error) from error
        if size != len(data) or not isinstance(fields, dict):
            raise self.invalid_file(name, f"{size} bytes")
        return fields

    def decoded(self, decode: Callable[[Mapping[str, Any]], _Planned]) -> _Planned:
        """Return what ``plan.json`` holds. Raises Refused unless it is decoded and has the id."""
        fields = self.read(PLAN)
        try:
            planned = decode(fields)
            found = planned.id
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self.invalid_file(PLAN, error) from error
        if found != self.path.name:
            raise self.invalid_file(PLAN, f"the id {found}")
        return planned

    def _check_file(self, path: Path) -> None:
        """Raise Refused if a user other than the owner of the partition can have written a file."""
        self.check()
        try:
            status, uid = path.lstat(), self.partition.stat().st_uid
        except OSError as error:
            raise source_error(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise self.invalid_file(path.name, "not a regular file")
        if not is_root() and os.geteuid() != uid:
            return  # a user other than the owner can read the plan, but not apply it
        if status.st_uid != uid or status.st_mode & _OTHERS_WRITE:
            mode = stat.S_IMODE(status.st_mode)
            found = f"a file of user {status.st_uid} with mode {mode:o}"
            raise self.invalid_file(path.name, f"{found}, which other users than {uid} can write")

    def invalid_file(self, name: str, why: object) -> Refused:
        """Return the refusal of a file that no repair has written."""
        return Refused(
            f"{self.path / name}: expected a file of a repair, found something else ({why}). Its "
            f"backup is beside it: to continue without it, move {self.path} out of the partition"
        )


class Folder(RecordFolder):
    """The folder of one repair, which may not exist yet."""

    def backup_path(self, name: str) -> Path:
        """The path where a whole file of the partition is saved."""
        return self.path / _OLD / name

    def tail_path(self, name: str) -> Path:
        """The path where the tail of a log is saved."""
        return self.path / _OLD / f"{name}{_TAIL}"

    @property
    def marker_path(self) -> Path:
        """The path where the clean shutdown marker is saved."""
        return self.path / _OLD / CLEAN_MARKER

    def staging_path(self, name: str) -> Path:
        """The path where a file is written before it moves into place."""
        return self.path / _NEW / name

    def make(self, plan: Plan, like: Attributes) -> None:
        """Make the folder, and write the plan into it."""
        for path in (self.path.parent, self.path, self.path / _OLD, self.path / _NEW):
            disk.make_directory(path, like)
        self.write(PLAN, encode(plan))

    def begin(self, start_record: StartRecord) -> None:
        """Record that everything is saved. From now on the partition may be changed."""
        disk.sync_directory(self.path / _OLD)
        disk.sync_directory(self.path / _NEW)
        marker = start_record.marker
        fields = {
            "begun_ns": start_record.begun_ns,
            "tails": dict(start_record.tails),
            "marker": None if marker is None else [marker.size, marker.mtime_ns],
            "digests": dict(start_record.digests),
        }
        self.write(BEGUN, fields)

    def sync(self) -> None:
        """Flush the changes of an interrupted process in the folder to disk."""
        for path in (self.path / _OLD, self.path / _NEW, self.path):
            disk.sync_directory(path)

    def remove(self) -> None:
        """Remove the folder, ``begun.json`` first.

        Raises Refused, and removes nothing, if it holds a file that no repair writes.
        """
        self.check()
        if self.path.exists():
            found = self._list_files()
            disk.unlink(self.path / BEGUN)
            for name in (_NEW, _OLD):
                if name in found:
                    disk.unlink_all(found[name])
                    disk.remove_empty(self.path / name)
            # The plan last: it lists the files that the folder may hold.
            disk.unlink_all([path for path in found[""] if path.name != BEGUN])
            disk.remove_empty(self.path)
        if self.path.parent.exists():
            disk.remove_empty(self.path.parent)

    def check_removable(self) -> None:
        """Raise Refused if the folder holds a file that no repair writes."""
        self._list_files()

    def _list_files(self) -> dict[str, list[Path]]:
        """The files in the folder by their directory, "" for the folder itself.

        Raises Refused if it holds a file that its plan does not write.
        """
        files = disk.list_directory(self.path)
        top = {name for name, is_directory in files if is_directory}
        found = {name: disk.list_directory(self.path / name) for name in top & {_OLD, _NEW}}
        saved = self._expected_files() if any(found.values()) else {}
        expected = {"": _OWN_FILES, **saved}
        unexpected = [self.path / name for name in top - {_OLD, _NEW}]
        found[""] = [(name, False) for name, is_directory in files if not is_directory]
        for directory, names in found.items():
            unexpected += [
                self.path / directory / name
                for name, is_directory in names
                if is_directory or name not in expected[directory]
            ]
        if unexpected:
            text = ", ".join(map(str, sorted(unexpected)[:3])) + (", ..." if unexpected[3:] else "")
            raise Refused(
                f"{self.path}: expected only files of a repair, found also {text}: nothing was "
                "removed; inspect these files and move them away"
            )
        return {
            directory: [self.path / directory / name for name, _ in names]
            for directory, names in found.items()
        }

    def _expected_files(self) -> dict[str, frozenset[str]]:
        """The names of all files that a repair by its plan saves or writes, by directory."""
        plan = self.plan()
        lines = {step.checkpoint for step in plan.steps if isinstance(step, Line | Rewrite)}
        tails = {f"{cut.name}{_TAIL}" for cut in plan.cuts}
        return {
            _OLD: frozenset((*plan.changed_files, *tails, *lines, CLEAN_MARKER)),
            _NEW: frozenset((*(put.name for put in plan.puts), *lines)),
        }

    def plan(self) -> Plan:
        """Read the plan. Raises Refused if it cannot be decoded."""
        return self.decoded(decode)

    def start_record(self, plan: Plan) -> StartRecord:
        """Read ``begun.json``. Raises Refused unless it can be decoded and matches ``plan``."""
        fields = self.read(BEGUN)
        converted = {put.name: recipe.digest for put, recipe in plan.conversions}
        try:
            marker, tails = fields["marker"], fields["tails"]
            digests = fields.get("digests", {})  # absent in files of releases without conversion
            numbers = [fields["begun_ns"], *tails.values(), *(marker or ())]
            if not all(type(number) is int for number in numbers):
                raise ValueError(f"expected whole numbers, found {numbers}")
            takes = any(isinstance(step, TakeMarker) for step in plan.steps)
            if takes != bool(marker) or tails.keys() != {cut.name for cut in plan.cuts}:
                raise ValueError("the saved files are not those that the plan changes")
            if digests != converted:
                raise ValueError("the digests of the converted logs differ from the plan")
            saved = None if marker is None else Stamp(*marker)
            return StartRecord(fields["begun_ns"], tails, saved, digests)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self.invalid_file(BEGUN, error) from error

    def leaves_marker(self) -> bool:
        """Return whether an undo that has begun does not restore the clean shutdown marker."""
        return bool(self.read(UNDOING).get(_LEAVES_MARKER))

    def undo_repair(self, *, leaves_marker: bool) -> None:
        """Record that a repair is being undone."""
        self.undo({_LEAVES_MARKER: leaves_marker})

    def receipt(self) -> dict[str, Any] | None:
        """Read the receipt, None if there is none yet. Raises Refused if it cannot be decoded."""
        return self.read(RECEIPT) if (self.path / RECEIPT).exists() else None
