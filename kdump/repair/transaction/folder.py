"""The folder of a repair in its partition: plan, journal, backup, receipt.

``plan.json`` comes first; ``begun.json`` says that everything is saved and that changes may have
been made, ``receipt.json`` that all were, ``undoing`` that they are being taken back. Without
``begun.json`` the partition is as it was, and the folder may go.

What is in it is believed only if no user but the owner of the partition can have written it.

Brokers ignore directories in a partition, and remove them with its topic.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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

_OLD: Final = "old"
_NEW: Final = "new"
_TAIL: Final = ".tail"
_MOST_BYTES: Final = 64 << 20
_PRIVATE: Final = 0o600
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
#: What a repair writes into its folder itself; each file is written under another name first.
_OWN_FILES: Final = frozenset(
    f"{name}{suffix}" for name in (PLAN, BEGUN, UNDOING, RECEIPT) for suffix in ("", ".tmp")
)


@dataclass(frozen=True, slots=True)
class Begun:
    """When the first change was made, in ns, and what was saved before it.

    Files that are put get that time. ``tails`` says of cut logs from which position on they were
    saved; ``marker`` is the stamp of the clean shutdown marker, None without one. ``digests`` are
    those of the records that were read back of each converted log.
    """

    begun_ns: int
    tails: Mapping[str, int]
    marker: Stamp | None
    digests: Mapping[str, str] = field(default_factory=dict)


class Folder:
    """The folder of one repair, which may not exist yet."""

    def __init__(self, partition: Path, plan_id: str) -> None:
        self.partition = partition
        self.path = partition / FOLDERS / plan_id

    def old(self, name: str) -> Path:
        """Where a file of the partition is saved whole."""
        return self.path / _OLD / name

    def tail(self, name: str) -> Path:
        """Where the end of a log is saved."""
        return self.path / _OLD / f"{name}{_TAIL}"

    @property
    def marker(self) -> Path:
        """Where the clean shutdown marker is saved."""
        return self.path / _OLD / CLEAN_MARKER

    def new(self, name: str) -> Path:
        """Where a file is made before it is put in its place."""
        return self.path / _NEW / name

    def make(self, plan: Plan, like: Attributes) -> None:
        """Make the folder, with the plan in it."""
        for path in (self.path.parent, self.path, self.path / _OLD, self.path / _NEW):
            disk.make_directory(path, like)
        self._write(PLAN, encode(plan))

    def begin(self, begun: Begun) -> None:
        """Say that everything is saved. From now on the partition may be changed."""
        disk.sync_directory(self.path / _OLD)
        disk.sync_directory(self.path / _NEW)
        marker = begun.marker
        fields = {
            "begun_ns": begun.begun_ns,
            "tails": dict(begun.tails),
            "marker": None if marker is None else [marker.size, marker.mtime_ns],
            "digests": dict(begun.digests),
        }
        self._write(BEGUN, fields)

    @property
    def has_begun(self) -> bool:
        """Whether changes may have been made; the partition is open for changes."""
        return disk.exists(self.path / BEGUN)

    def sync(self) -> None:
        """Make last what an interrupted process has done here."""
        for path in (self.path / _OLD, self.path / _NEW, self.path):
            disk.sync_directory(path)

    def finish(self, receipt: Mapping[str, Any]) -> None:
        """Say that all was done."""
        self._write(RECEIPT, receipt)

    def undo(self) -> None:
        """Say that what was done is being taken back."""
        if not (self.path / UNDOING).exists():
            self._write(UNDOING, {})

    def remove(self) -> None:
        """Remove the folder, beginning with what says that anything was changed.

        Raises Refused, and removes nothing, where something is in it that no repair has written.
        """
        self.check()
        if self.path.exists():
            found = self._written()
            disk.unlink(self.path / BEGUN)
            for name in (_NEW, _OLD):
                if name in found:
                    disk.unlink_all(found[name])
                    disk.remove_empty(self.path / name)
            # Only now the plan, which says what there may be.
            disk.unlink_all([path for path in found[""] if path.name != BEGUN])
            disk.remove_empty(self.path)
        if self.path.parent.exists():
            disk.remove_empty(self.path.parent)

    def check_removable(self) -> None:
        """Raise Refused where something is in it that no repair has written."""
        self._written()

    def check(self) -> None:
        """Raise Refused unless its directories are real ones, and no other user can write them."""
        uid = status_of(self.partition).st_uid
        for path in (self.path.parent, self.path, self.path / _OLD, self.path / _NEW):
            check_own_directory(path, uid)

    def _written(self) -> dict[str, list[Path]]:
        """The files in it by the directory that they are in, "" for the folder.

        Raises Refused if one of them is none that its plan, or any, leads to.
        """
        files = disk.list_directory(self.path)
        top = {name for name, is_directory in files if is_directory}
        found = {name: disk.list_directory(self.path / name) for name in top & {_OLD, _NEW}}
        saved = self._saved() if any(found.values()) else {}
        expected = {"": _OWN_FILES, **saved}
        strange = [self.path / name for name in top - {_OLD, _NEW}]
        found[""] = [(name, False) for name, is_directory in files if not is_directory]
        for directory, names in found.items():
            strange += [
                self.path / directory / name
                for name, is_directory in names
                if is_directory or name not in expected[directory]
            ]
        if strange:
            told = ", ".join(map(str, sorted(strange)[:3])) + (", ..." if strange[3:] else "")
            raise Refused(
                f"{self.path}: expected only files of a repair, found also {told}: nothing was "
                "removed; inspect these files and move them away"
            )
        return {
            directory: [self.path / directory / name for name, _ in names]
            for directory, names in found.items()
        }

    def _saved(self) -> dict[str, frozenset[str]]:
        """The names of all that the repair of its plan may save, and make."""
        plan = self.plan()
        lines = {step.checkpoint for step in plan.steps if isinstance(step, Line | Rewrite)}
        tails = {f"{cut.name}{_TAIL}" for cut in plan.cuts}
        return {
            _OLD: frozenset((*plan.touched, *tails, *lines, CLEAN_MARKER)),
            _NEW: frozenset((*(put.name for put in plan.puts), *lines)),
        }

    def plan(self) -> Plan:
        """Read the plan. Raises Refused where it cannot be read."""
        fields = self._read(PLAN)
        try:
            plan = decode(fields)
            found = plan.id
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unreadable(PLAN, error) from error
        if found != self.path.name:
            raise self._unreadable(PLAN, f"a plan with id {found}")
        return plan

    def begun(self, plan: Plan) -> Begun:
        """Read what was saved for ``plan``. Raises Refused where it cannot be read."""
        fields = self._read(BEGUN)
        converted = {put.name: recipe.digest for put, recipe in plan.converted}
        try:
            marker, tails = fields["marker"], fields["tails"]
            digests = fields.get("digests", {})  # none where nothing could be converted yet
            numbers = [fields["begun_ns"], *tails.values(), *(marker or ())]
            if not all(type(number) is int for number in numbers):
                raise ValueError(f"expected whole numbers, found {numbers}")
            takes = any(isinstance(step, TakeMarker) for step in plan.steps)
            if takes != bool(marker) or tails.keys() != {cut.name for cut in plan.cuts}:
                raise ValueError("the saved files are not those that the plan changes")
            if digests != converted:
                raise ValueError("the digests of the converted logs differ from the plan")
            saved = None if marker is None else Stamp(*marker)
            return Begun(fields["begun_ns"], tails, saved, digests)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unreadable(BEGUN, error) from error

    def receipt(self) -> dict[str, Any] | None:
        """Read the receipt; None where there is none yet. Raises Refused if it cannot be read."""
        return self._read(RECEIPT) if (self.path / RECEIPT).exists() else None

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
        path = self.path / name
        beside = self.path / f"{name}.tmp"
        owner = Attributes.of(self.path)
        like = Attributes(owner.uid, owner.gid, _PRIVATE)
        text = json.dumps(fields, indent=1, sort_keys=True)
        disk.write_file(beside, [text.encode() + b"\n"], like)
        disk.rename(beside, path)

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        self._check_file(path)
        size, data = read_end(path, _MOST_BYTES)
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(name, error) from error
        if size != len(data) or not isinstance(fields, dict):
            raise self._unreadable(name, f"{size} bytes")
        return fields

    def _check_file(self, path: Path) -> None:
        """Raise Refused if another user than the owner of the partition can have written a file."""
        self.check()
        try:
            status, uid = path.lstat(), self.partition.stat().st_uid
        except OSError as error:
            raise source_error(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise self._unreadable(path.name, "not a regular file")
        if not is_root() and os.geteuid() != uid:
            return  # what another user than the owner reads, he does not carry out
        if status.st_uid != uid or status.st_mode & _OTHERS_WRITE:
            mode = stat.S_IMODE(status.st_mode)
            found = f"a file of user {status.st_uid} with mode {mode:o}"
            raise self._unreadable(path.name, f"{found}, which other users than {uid} can write")

    def _unreadable(self, name: str, why: object) -> Refused:
        return Refused(
            f"{self.path / name}: expected a file of a repair, found something else ({why}). Its "
            f"backup is beside it: to continue without it, move {self.path} out of the partition"
        )
