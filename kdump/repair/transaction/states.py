"""The state of each step of a plan, found from the files.

A file that is neither as the plan found it nor as the plan leaves it was changed by another
process, most likely a broker. Then neither apply nor undo continues.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from kdump.audit.facts.small_files import read_small
from kdump.errors import Refused
from kdump.format.checkpoint import OffsetEntry, decode_offsets
from kdump.repair.transaction.fingerprint import read_fingerprint, stamp_of
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.plan import (
    Cut,
    Line,
    Plan,
    Put,
    PutMarker,
    Remove,
    Rewrite,
    Stamp,
    Step,
    TakeMarker,
)
from kdump.storage.logdir import directory_name, read_partition
from kdump.storage.names import CLEAN_MARKER


class StepState(Enum):
    """The state of a step."""

    PENDING = "pending"
    PARTLY = "partly done"  # interrupted; it can be done again or undone
    DONE = "done"


class States:
    """The states of the steps of a plan, once changes may have been made.

    ``undoing``: the steps are being undone, so that a cut log may have part of its tail again.
    """

    def __init__(
        self, plan: Plan, folder: Folder, start_record: StartRecord, *, undoing: bool
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._start_record = start_record
        self._undoing = undoing
        self._removed = {step.name for step in plan.steps if isinstance(step, Remove)}
        self._puts = {put.name: put for put in plan.puts}

    def check(self) -> None:
        """Raise Refused unless every file of the partition is as before or as after its steps."""
        found, _ = read_fingerprint(read_partition(self._plan.partition))
        wrong = sorted(
            name
            for name in {*found, *self._plan.files}.difference(self._plan.changed_files)
            if found.get(name) != self._plan.files.get(name)
        )
        for step in self._plan.steps:
            try:
                self.of(step)
            except _ChangedError as changed:
                wrong.append(changed.name)
        if wrong:
            raise Refused(self._refusal(list(dict.fromkeys(wrong))))

    def of(self, step: Step) -> StepState:
        """Return how far a step has come. Raises Refused if its file is in neither known state."""
        match step:
            case Remove():
                return self._remove(step)
            case Put():
                return self._put(step)
            case Cut():
                return self._cut(step)
            case Line():
                return self._line(step)
            case Rewrite():
                return self._rewrite(step)
            case TakeMarker() | PutMarker():
                return self._marker(step)

    def _remove(self, step: Remove) -> StepState:
        if self._folder.backup_path(step.name).exists():
            if step.name not in self._puts and self._stamp(step.name) is not None:
                raise _ChangedError(step.name, self._refusal([step.name]))
            return StepState.DONE
        return self._as_planned(step.name, self._plan.files[step.name])

    def _put(self, step: Put) -> StepState:
        if self._stamp(step.name) == Stamp(step.size, step.time_ns(self._start_record.begun_ns)):
            return StepState.DONE
        if step.replaces:
            return self._as_planned(step.name, self._plan.files[step.name])
        if step.name in self._removed and not self._folder.backup_path(step.name).exists():
            return self._as_planned(step.name, self._plan.files[step.name])
        return self._as_planned(step.name, None)

    def _cut(self, step: Cut) -> StepState:
        now, before = self._stamp(step.name), self._plan.files[step.name]
        if now == before:
            return StepState.PENDING
        if now == Stamp(step.size, before.mtime_ns):
            return StepState.DONE
        if now is not None:
            most = before.size if self._undoing else step.size
            if step.size <= now.size <= most:
                return StepState.PARTLY
        raise _ChangedError(step.name, self._refusal([step.name]))

    def _line(self, step: Line) -> StepState:
        path = checkpoint_path(self._plan, step)
        value = line_of(path, self._plan.partition)
        if value == step.after:
            return StepState.DONE
        if value == step.before:
            return StepState.PENDING
        raise _ChangedError(step.checkpoint, self._refusal([step.checkpoint]))

    def _rewrite(self, step: Rewrite) -> StepState:
        now = stamp_of(checkpoint_path(self._plan, step))
        if now == Stamp(step.size, self._start_record.begun_ns):
            return StepState.DONE
        if now == step.before:
            return StepState.PENDING
        raise _ChangedError(step.checkpoint, self._refusal([step.checkpoint]))

    def _marker(self, step: TakeMarker | PutMarker) -> StepState:
        now = stamp_of(marker_path(self._plan))
        if now is None:
            return StepState.DONE if isinstance(step, TakeMarker) else StepState.PENDING
        if now == self._start_record.marker:
            return StepState.PENDING
        if now.size == 0:  # put back by this repair, or later by that of another partition
            return StepState.DONE
        raise _ChangedError(CLEAN_MARKER, self._refusal([CLEAN_MARKER]))

    def _as_planned(self, name: str, expected: Stamp | None) -> StepState:
        if self._stamp(name) != expected:
            raise _ChangedError(name, self._refusal([name]))
        return StepState.PENDING

    def _stamp(self, name: str) -> Stamp | None:
        return stamp_of(self._plan.partition / name)

    def _refusal(self, names: list[str]) -> str:
        text = ", ".join(names[:5]) + (", ..." if names[5:] else "")
        return (
            f"{self._plan.partition}: expected files as repair {self._plan.id} found or left "
            f"them, found {text} changed since: a broker has run here. The repair can be neither "
            f"finished nor undone. Its backup is in {self._folder.path}, and kdump salvage reads "
            "the logs there. To continue without it, move it out of the partition"
        )


class _ChangedError(Refused):
    """The file ``name`` was changed by another process."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def marker_path(plan: Plan) -> Path:
    """Return the path of the clean shutdown marker of the plan's log directory."""
    return _above(plan) / CLEAN_MARKER


def checkpoint_path(plan: Plan, step: Line | Rewrite) -> Path:
    """Return the path of the checkpoint file of a step."""
    return _above(plan) / step.checkpoint


def line_of(checkpoint: Path, partition: Path) -> int | None:
    """Return the offset of a partition in a checkpoint file, None without a line.

    Raises Refused if the file cannot be decoded.
    """
    topic, number = _name(partition)
    found = None
    for entry in read_lines(checkpoint):
        if (entry.topic, entry.partition) == (topic, number):
            found = entry.offset
    return found


def replace_line(checkpoint: Path, partition: Path, offset: int | None) -> list[OffsetEntry]:
    """Return the lines of a checkpoint file with a new offset for a partition; None removes it.

    The line keeps its index. Of several lines for the partition the last one counts.
    """
    topic, number = _name(partition)
    lines = list(read_lines(checkpoint))
    found = [
        index
        for index, entry in enumerate(lines)
        if (entry.topic, entry.partition) == (topic, number)
    ]
    new_lines = [] if offset is None else [OffsetEntry(topic, number, offset)]
    index = found[-1] if found else len(lines)
    return [*lines[:index], *new_lines, *lines[index + 1 :]]


def read_lines(checkpoint: Path) -> tuple[OffsetEntry, ...]:
    """Return the lines of a checkpoint file, none if it is missing.

    Raises Refused if it cannot be decoded.
    """
    if not checkpoint.exists():
        return ()
    read = read_small(checkpoint, decode_offsets)
    if read.value is None:
        raise Refused(
            f"{checkpoint}: expected an offset checkpoint, found another file: {read.error}"
        )
    return read.value


def _name(partition: Path) -> tuple[str, int]:
    name = directory_name(partition)
    if name is None:
        raise Refused(f"{partition}: expected a directory called <topic>-<partition>")
    return name.topic, name.partition


def _above(plan: Plan) -> Path:
    if plan.log_directory is None:
        raise Refused(
            f"{plan.partition}: expected a partition in a log directory, found that it is in none"
        )
    return plan.log_directory
