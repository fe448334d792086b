"""The steps of a plan: how each is done and undone; each can be repeated.

A step that an interruption has left partly done can be done again, with the same result.

Spec: KOD 5.
"""

from __future__ import annotations

from pathlib import Path

from kdump.format.checkpoint import encode_offsets
from kdump.repair.transaction import disk
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.plan import (
    ConvertedPart,
    Cut,
    Line,
    Plan,
    Prefix,
    Put,
    PutMarker,
    RebuiltIndex,
    Remove,
    Rewrite,
    Step,
    TakeMarker,
)
from kdump.repair.transaction.recipes import make
from kdump.repair.transaction.states import checkpoint_path, marker_path, replace_line


def stage(plan: Plan, put: Put, folder: Folder, begun_ns: int) -> None:
    """Write the file of a step into the folder, from where the step moves it into place.

    ``staging`` writes converted logs, before anything is changed.
    """
    target = plan.partition / put.name
    like = attributes_of(plan, put, folder)
    mtime_ns = put.time_ns(begun_ns)
    if isinstance(put.recipe, Prefix):
        disk.copy_file(target, folder.staging_path(put.name), put.recipe.size, like, mtime_ns)
        return
    content = put.content
    if content is None and isinstance(put.recipe, RebuiltIndex):
        content = make(put.recipe, plan.partition)
    if content is None or len(content) != put.size:
        raise ValueError(f"{put.name}: expected {put.size} bytes to write, found another size")
    disk.write_file(folder.staging_path(put.name), [content], like, mtime_ns)


def save_checkpoint(plan: Plan, step: Rewrite, folder: Folder, begun_ns: int) -> None:
    """Save a checkpoint file that the step replaces, and write the new one into the folder."""
    path = checkpoint_path(plan, step)
    like = Attributes.of(path)
    disk.copy_file(
        path, folder.backup_path(step.checkpoint), step.before_size, like, step.before_mtime_ns
    )
    if step.content is None:
        raise ValueError(f"{step.checkpoint}: expected its new content, found none")
    disk.write_file(folder.staging_path(step.checkpoint), [step.content], like, begun_ns)


def do(plan: Plan, step: Step, folder: Folder, start_record: StartRecord) -> None:
    """Do a step. Raises OSError."""
    match step:
        case Remove():
            disk.rename(plan.partition / step.name, folder.backup_path(step.name))
        case Put():
            _put(plan, step, folder, start_record)
        case Cut():
            before = plan.files[step.name]
            disk.cut(plan.partition / step.name, step.size, before.mtime_ns)
        case Line():
            _change_line(plan, step, step.after, folder)
        case Rewrite():
            _replace_checkpoint(
                plan, step, folder.staging_path(step.checkpoint), start_record.begun_ns
            )
        case TakeMarker():
            disk.unlink(marker_path(plan))
        case PutMarker():
            like = Attributes.of(folder.marker_path)
            _write_beside(marker_path(plan), b"", like, plan.id, start_record.begun_ns)


def undo(plan: Plan, step: Step, folder: Folder, start_record: StartRecord) -> None:
    """Undo a step that is done or partly done. Raises OSError."""
    match step:
        case Remove():
            disk.rename(folder.backup_path(step.name), plan.partition / step.name)
        case Put(replaces=True):
            disk.rename(folder.backup_path(step.name), plan.partition / step.name)
        case Put():
            disk.unlink(plan.partition / step.name)
        case Cut():
            start = start_record.tails[step.name]
            disk.restore_tail(
                plan.partition / step.name,
                step.size,
                folder.tail_path(step.name),
                step.size - start,
                plan.files[step.name].mtime_ns,
            )
        case Line():
            _change_line(plan, step, step.before, folder)
        case Rewrite():
            _replace_checkpoint(
                plan, step, folder.backup_path(step.checkpoint), step.before_mtime_ns
            )
        case PutMarker():
            disk.unlink(marker_path(plan))
        case TakeMarker():
            if start_record.marker is not None:
                content, like = folder.marker_path.read_bytes(), Attributes.of(folder.marker_path)
                _write_beside(
                    marker_path(plan), content, like, plan.id, start_record.marker.mtime_ns
                )


def flush(plan: Plan, folder: Folder) -> None:
    """Flush the changes of an interrupted process to disk, before further steps depend on them.

    The process may have been killed between a change and its sync. Raises OSError.
    """
    folder.sync()
    for cut in plan.cuts:
        disk.sync_file(plan.partition / cut.name)
    disk.sync_directory(plan.partition)
    if plan.log_directory is not None:
        disk.sync_directory(plan.log_directory)


def clear(plan: Plan) -> None:
    """Remove the files that interrupted steps have left at the top of the log directory."""
    for step in plan.steps:
        if isinstance(step, Line | Rewrite):
            beside = _beside(checkpoint_path(plan, step), plan.id)
            if beside.exists():
                disk.unlink(beside)


def _put(plan: Plan, put: Put, folder: Folder, start_record: StartRecord) -> None:
    target = plan.partition / put.name
    if isinstance(put.recipe, RebuiltIndex):
        # Built only now: there may be thousands, and each moves into place at once.
        stage(plan, put, folder, start_record.begun_ns)
        disk.sync_directory(folder.staging_path(put.name).parent)
    if put.replaces:
        # The name exists at every moment: no broker rebuilds a missing time index.
        disk.link(target, folder.backup_path(put.name))
    disk.rename(folder.staging_path(put.name), target)


def attributes_of(plan: Plan, put: Put, folder: Folder) -> Attributes:
    """Return the attributes of a new file: those of the replaced file, or of a log beside it."""
    name = put.recipe.log if isinstance(put.recipe, ConvertedPart) else put.name
    if name not in plan.files:
        beside = (plan.partition / name).with_suffix(".log").name
        name = (
            beside
            if beside in plan.files
            else max(log for log in plan.files if log.endswith(".log"))
        )
    path = plan.partition / name
    return Attributes.of(path if path.exists() else folder.backup_path(name))


def _change_line(plan: Plan, step: Line, offset: int | None, folder: Folder) -> None:
    path = checkpoint_path(plan, step)
    content = encode_offsets(replace_line(path, plan.partition, offset))
    like = Attributes.of(path)
    beside = folder.staging_path(step.checkpoint)
    if beside.parent.stat().st_dev != path.parent.stat().st_dev:
        # The partition directory is a link to another file system.
        beside = _beside(path, plan.id)
    disk.write_file(beside, [content], like)
    disk.rename(beside, path)


def _replace_checkpoint(plan: Plan, step: Rewrite, content: Path, mtime_ns: int) -> None:
    """Replace a checkpoint file by the content of the file ``content`` in the plan's folder."""
    path = checkpoint_path(plan, step)
    _write_beside(path, content.read_bytes(), Attributes.of(content), plan.id, mtime_ns)


def _write_beside(
    path: Path, content: bytes, like: Attributes, plan_id: str, mtime_ns: int
) -> None:
    beside = _beside(path, plan_id)
    disk.write_file(beside, [content], like, mtime_ns)
    disk.rename(beside, path)


def _beside(path: Path, plan_id: str) -> Path:
    # Brokers ignore unknown files at the top of a log directory.
    return path.with_name(f".kdump.{plan_id}.{path.name}")
