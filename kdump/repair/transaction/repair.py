"""Repair: the steps of a plan, with the state of each, and how each is done and undone.

The state is found from the files. A file that is neither as the plan found it nor as the plan
leaves it was changed by another process, most likely a broker. Then neither apply nor undo
continues.

Spec: KOD 5.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from kdump.errors import Refused
from kdump.format.checkpoint import encode_offsets
from kdump.repair.transaction import disk
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.fingerprint import read_fingerprint, stamp_of
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.plan import (
    Cut,
    Line,
    Plan,
    Put,
    PutMarker,
    RebuiltIndex,
    Remove,
    Rewrite,
    Stamp,
    Step,
    TakeMarker,
)
from kdump.repair.transaction.preparation import Preparation, file_digest
from kdump.repair.transaction.shared_files import (
    beside_path,
    checkpoint_path,
    line_of,
    marker_path,
    replace_line,
    write_beside,
)
from kdump.storage.logdir import read_partition
from kdump.storage.names import CLEAN_MARKER


class StepState(Enum):
    """The state of a step."""

    PENDING = "pending"
    PARTLY = "partly done"  # interrupted; it can be done again or undone
    DONE = "done"


class Repair:
    """A repair that may have changed something: its plan, its folder, the record of its start.

    Each step can be done or undone again after an interruption, with the same result. ``undoing``:
    the steps are being undone, so that a cut log may have part of its tail again.
    """

    def __init__(
        self, plan: Plan, folder: Folder, start: StartRecord, *, undoing: bool = False
    ) -> None:
        self.plan, self.folder, self.start, self.undoing = plan, folder, start, undoing
        self._removed = {step.name for step in plan.steps if isinstance(step, Remove)}
        self._puts = {put.name: put for put in plan.puts}

    def check(self) -> None:
        """Raise Refused unless every file of the partition is as before or as after its steps."""
        found, _ = read_fingerprint(read_partition(self.plan.partition))
        wrong = sorted(
            name
            for name in {*found, *self.plan.files}.difference(self.plan.changed_files)
            if found.get(name) != self.plan.files.get(name)
        )
        for step in self.plan.steps:
            try:
                self.state(step)
            except _ChangedError as changed:
                wrong.append(changed.name)
        if wrong:
            raise Refused(self._refusal(list(dict.fromkeys(wrong))))

    def state(self, step: Step) -> StepState:
        """Return how far a step has come. Raises Refused if its file is in neither known state."""
        match step:
            case Remove():
                return self._remove_state(step)
            case Put():
                return self._put_state(step)
            case Cut():
                return self._cut_state(step)
            case Line():
                return self._line_state(step)
            case Rewrite():
                return self._rewrite_state(step)
            case TakeMarker() | PutMarker():
                return self._marker_state(step)

    def do(self, step: Step) -> None:
        """Do a step. Raises OSError."""
        match step:
            case Remove():
                disk.rename(self.plan.partition / step.name, self.folder.backup_path(step.name))
            case Put():
                self._put(step)
            case Cut():
                before = self.plan.files[step.name]
                disk.cut(self.plan.partition / step.name, step.size, before.mtime_ns)
            case Line():
                self._change_line(step, step.after)
            case Rewrite():
                self._replace_checkpoint(
                    step, self.folder.staging_path(step.checkpoint), self.start.begun_ns
                )
            case TakeMarker():
                disk.unlink(marker_path(self.plan))
            case PutMarker():
                like = Attributes.of(self.folder.marker_path)
                write_beside(marker_path(self.plan), b"", like, self.plan.id, self.start.begun_ns)

    def undo(self, step: Step) -> None:
        """Undo a step that is done or partly done. Raises OSError."""
        match step:
            case Remove():
                disk.rename(self.folder.backup_path(step.name), self.plan.partition / step.name)
            case Put(replaces=True):
                disk.rename(self.folder.backup_path(step.name), self.plan.partition / step.name)
            case Put():
                disk.unlink(self.plan.partition / step.name)
            case Cut():
                start = self.start.tails[step.name]
                disk.restore_tail(
                    self.plan.partition / step.name,
                    step.size,
                    self.folder.tail_path(step.name),
                    step.size - start,
                    self.plan.files[step.name].mtime_ns,
                )
            case Line():
                self._change_line(step, step.before)
            case Rewrite():
                self._replace_checkpoint(
                    step, self.folder.backup_path(step.checkpoint), step.before_mtime_ns
                )
            case PutMarker():
                disk.unlink(marker_path(self.plan))
            case TakeMarker():
                if self.start.marker is not None:
                    saved, mtime_ns = self.folder.marker_path, self.start.marker.mtime_ns
                    content, like = saved.read_bytes(), Attributes.of(saved)
                    write_beside(marker_path(self.plan), content, like, self.plan.id, mtime_ns)

    def flush(self) -> None:
        """Flush the changes of an interrupted process to disk, before further steps depend on them.

        The process may have been killed between a change and its sync. Raises OSError.
        """
        self.folder.sync()
        for cut in self.plan.cuts:
            disk.sync_file(self.plan.partition / cut.name)
        disk.sync_directory(self.plan.partition)
        if self.plan.log_directory is not None:
            disk.sync_directory(self.plan.log_directory)

    def clear(self) -> None:
        """Remove the files that interrupted steps have left at the top of the log directory."""
        for step in self.plan.steps:
            if isinstance(step, Line | Rewrite):
                beside = beside_path(checkpoint_path(self.plan, step), self.plan.id)
                if beside.exists():
                    disk.unlink(beside)

    def _remove_state(self, step: Remove) -> StepState:
        if self.folder.backup_path(step.name).exists():
            if step.name not in self._puts and self._stamp(step.name) is not None:
                raise self._changed(step.name)
            return StepState.DONE
        return self._as_planned(step.name, self.plan.files[step.name])

    def _put_state(self, step: Put) -> StepState:
        if self._stamp(step.name) == Stamp(step.size, step.time_ns(self.start.begun_ns)):
            return StepState.DONE
        if step.replaces:
            return self._as_planned(step.name, self.plan.files[step.name])
        if step.name in self._removed and not self.folder.backup_path(step.name).exists():
            return self._as_planned(step.name, self.plan.files[step.name])
        return self._as_planned(step.name, None)

    def _cut_state(self, step: Cut) -> StepState:
        now, before = self._stamp(step.name), self.plan.files[step.name]
        if now == before:
            return StepState.PENDING
        if now == Stamp(step.size, before.mtime_ns):
            return StepState.DONE
        if now is not None:
            most = before.size if self.undoing else step.size
            if step.size <= now.size <= most:
                return StepState.PARTLY
        raise self._changed(step.name)

    def _line_state(self, step: Line) -> StepState:
        path = checkpoint_path(self.plan, step)
        value = line_of(path, self.plan.partition)
        if value == step.after:
            return StepState.DONE
        if value == step.before:
            return StepState.PENDING
        raise self._changed(step.checkpoint)

    def _rewrite_state(self, step: Rewrite) -> StepState:
        path = checkpoint_path(self.plan, step)
        now = stamp_of(path)
        if now == Stamp(step.size, self.start.begun_ns):
            return StepState.DONE
        if now == step.before:
            return StepState.PENDING
        # The repair of another partition has changed its line, and an undo has taken that back.
        if now is not None and now.size == step.size and file_digest(path) == step.sha256:
            return StepState.DONE
        raise self._changed(step.checkpoint)

    def _marker_state(self, step: TakeMarker | PutMarker) -> StepState:
        now = stamp_of(marker_path(self.plan))
        if now is None:
            return StepState.DONE if isinstance(step, TakeMarker) else StepState.PENDING
        if now == self.start.marker:
            return StepState.PENDING
        if now.size == 0:  # put back by this repair, or later by that of another partition
            return StepState.DONE
        raise self._changed(CLEAN_MARKER)

    def _as_planned(self, name: str, expected: Stamp | None) -> StepState:
        if self._stamp(name) != expected:
            raise self._changed(name)
        return StepState.PENDING

    def _stamp(self, name: str) -> Stamp | None:
        return stamp_of(self.plan.partition / name)

    def _changed(self, name: str) -> _ChangedError:
        return _ChangedError(name, self._refusal([name]))

    def _refusal(self, names: list[str]) -> str:
        text = ", ".join(names[:5]) + (", ..." if names[5:] else "")
        return (
            f"{self.plan.partition}: expected files as repair {self.plan.id} found or left "
            f"them, found {text} changed since: a broker has run here. The repair can be neither "
            f"finished nor undone. Its backup is in {self.folder.path}, and kdump salvage reads "
            "the logs there. To continue without it, move it out of the partition"
        )

    def _put(self, put: Put) -> None:
        target = self.plan.partition / put.name
        if isinstance(put.recipe, RebuiltIndex):
            # Built only now: there may be thousands, and each moves into place at once.
            Preparation(self.plan, self.folder, self.start.begun_ns).stage(put)
            disk.sync_directory(self.folder.staging_path(put.name).parent)
        if put.replaces:
            # The name exists at every moment: no broker rebuilds a missing time index.
            disk.link(target, self.folder.backup_path(put.name))
        disk.rename(self.folder.staging_path(put.name), target)

    def _change_line(self, step: Line, offset: int | None) -> None:
        path = checkpoint_path(self.plan, step)
        content = encode_offsets(replace_line(path, self.plan.partition, offset))
        like = Attributes.of(path)
        beside = self.folder.staging_path(step.checkpoint)
        if beside.parent.stat().st_dev != path.parent.stat().st_dev:
            # The partition directory is a link to another file system.
            beside = beside_path(path, self.plan.id)
        disk.write_file(beside, [content], like)
        disk.rename(beside, path)

    def _replace_checkpoint(self, step: Rewrite, content: Path, mtime_ns: int) -> None:
        """Replace a checkpoint file by the content of the file ``content`` in the folder."""
        path = checkpoint_path(self.plan, step)
        like = Attributes.of(content)
        write_beside(path, content.read_bytes(), like, self.plan.id, mtime_ns)


class _ChangedError(Refused):
    """The file ``name`` was changed by another process."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
