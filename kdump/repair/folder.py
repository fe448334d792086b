"""The folder of a repair in its partition: its plan, how far it has come, and all that it saved.

``plan.json`` comes first; ``begun.json`` says that everything is saved and that changes may have
been made, ``receipt.json`` that all were, ``undoing`` that they are being taken back. Without
``begun.json`` the partition is as it was, and the folder may go.

Spec: none of Kafka's; brokers ignore directories in a partition, and remove them with its topic.
It must never change anything outside the folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kdump.errors import Refused
from kdump.repair import disk
from kdump.repair.disk import Attributes
from kdump.repair.plan import Plan, Stamp, TakeMarker, decode, encode
from kdump.storage.kept import BEGUN, FOLDERS, PLAN, RECEIPT, UNDOING
from kdump.storage.names import CLEAN_MARKER
from kdump.storage.source import read_end

_OLD: Final = "old"
_NEW: Final = "new"
_TAIL: Final = ".tail"
_MOST_BYTES: Final = 64 << 20
_PRIVATE: Final = 0o600


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
        """Whether changes may have been made."""
        return (self.path / BEGUN).exists()

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
        """Remove the folder, beginning with what says that anything was changed."""
        if self.path.exists():
            disk.unlink(self.path / BEGUN)
            disk.remove_tree(self.path)
        if self.path.parent.exists():
            disk.remove_empty(self.path.parent)

    def plan(self) -> Plan:
        """Read the plan. Raises Refused where it cannot be read."""
        fields = self._read(PLAN)
        try:
            plan = decode(fields)
            found = plan.id
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unreadable(PLAN, error) from error
        if found != self.path.name:
            raise self._unreadable(PLAN, f"the plan {found}")
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
                raise ValueError("what is saved is not what the plan changes")
            if digests != converted:
                raise ValueError("what was read back of converted logs is not what was planned")
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
        size, data = read_end(path, _MOST_BYTES)
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(name, error) from error
        if size != len(data) or not isinstance(fields, dict):
            raise self._unreadable(name, f"{size} bytes")
        return fields

    def _unreadable(self, name: str, why: object) -> Refused:
        return Refused(
            f"{self.path / name}: expected what a repair writes there, found something else "
            f"({why}); its backup is beside it: move {self.path} out of the partition to go on"
        )
