"""apply(): the steps of a plan in order; resume(): those that an interruption left.

First the plan's folder gets all saved and new files. Until then nothing is changed, and a failure
leaves the partition as it was. Then each step is durable before the next begins, so that an
interrupted repair can be finished or undone.

Spec: KOD 5, 10.8 and 10.9.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from kdump.errors import Refused
from kdump.repair.transaction import disk
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.fingerprint import read_fingerprint, stamp_of
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.interruption import report_interruption
from kdump.repair.transaction.lock import (
    check_changeable,
    check_other_partitions,
    check_readers,
    finish_or_undo,
    hold_lock,
    interrupted_repair,
)
from kdump.repair.transaction.plan import (
    ConvertedPart,
    Cut,
    Line,
    Plan,
    RebuiltIndex,
    Stamp,
    TakeMarker,
    encode_loss,
    with_paths,
)
from kdump.repair.transaction.staging import stage_converted
from kdump.repair.transaction.states import States, StepState, checkpoint_path, line_of, marker_path
from kdump.repair.transaction.steps import do, flush, save_checkpoint, stage
from kdump.storage.logdir import read_partition
from kdump.storage.repair_record import RepairState, repair_records

_SECOND_NS: Final = 1_000_000_000
_PIECE_BYTES: Final = 1 << 20

Receipt = Mapping[str, Any]
"""The JSON fields of a finished repair: files, digests, loss."""


def apply(
    plan: Plan,
    *,
    jobs: int = 1,
    report: Callable[[int], None] = lambda _: None,
    assume_stopped: bool = False,
    full_proof: bool = False,
) -> Receipt:
    """Apply a plan that has steps; return the receipt, which also stays in its folder.

    ``jobs`` workers convert logs, or this process if that is 1. ``report`` is called with counts of
    bytes that are read for the conversion and for reading back. ``full_proof``: the receipt also
    has the digests of the logs that stay. Raises Refused if nothing was changed, Unfinished if
    something was changed; SourceError.
    """
    started = time.monotonic()
    folder = Folder(plan.partition, plan.id)
    with hold_lock(
        plan.partition,
        plan.log_directory,
        identity=plan.identity,
        assume_stopped=assume_stopped,
    ) as lock:
        check_readers(plan)
        repair = interrupted_repair(plan.partition)
        if repair is not None:
            raise Refused(
                f"{plan.partition}: expected no interrupted repair, found {repair.id}: "
                f"{finish_or_undo(repair, plan.partition)}"
            )
        if folder.has_begun:
            raise Refused(
                f"{plan.partition}: expected no backup of plan {plan.id}, found a backup, "
                "although no step of the plan is done: remove it with kdump undo --plan ID "
                "--discard"
            )
        check_other_partitions(plan.partition, plan.log_directory)
        _check_unchanged(plan)
        check_changeable(plan)
        start_record = _prepare(
            plan, folder, partial(stage_converted, jobs=jobs, report=report, lock=lock)
        )
        with report_interruption(plan, folder):
            _do_steps(plan, folder, start_record)
            return _finish(plan, folder, start_record, started, full_proof=full_proof)


def resume(
    folder: Folder,
    log_directory: Path | None,
    *,
    assume_stopped: bool = False,
    full_proof: bool = False,
) -> Receipt:
    """Finish an interrupted repair; return the receipt. Raises as ``apply`` does."""
    started = time.monotonic()
    plan = with_paths(folder.plan(), folder.partition, log_directory)
    with hold_lock(plan.partition, log_directory, assume_stopped=assume_stopped):
        start_record = folder.start_record(plan)
        States(plan, folder, start_record, undoing=False).check()
        with report_interruption(plan, folder):
            flush(plan, folder)
            _do_steps(plan, folder, start_record)
            return _finish(plan, folder, start_record, started, full_proof=full_proof)


def _check_unchanged(plan: Plan) -> None:
    """Raise Refused unless every file and line is as it was when the plan was made."""
    found, identity = read_fingerprint(read_partition(plan.partition))
    changed = sorted(
        name for name in {*found, *plan.files} if found.get(name) != plan.files.get(name)
    )
    changed += [
        step.checkpoint
        for step in plan.steps
        if isinstance(step, Line)
        and line_of(checkpoint_path(plan, step), plan.partition) != step.before
    ]
    changed += [
        step.checkpoint
        for step in plan.rewrites
        if stamp_of(checkpoint_path(plan, step)) != step.before
    ]
    if changed or identity != plan.identity:
        what = ", ".join(changed[:5]) or "another directory"
        raise Refused(
            f"{plan.partition}: expected the files that the plan was made for, found other files "
            f"({what}): plan again"
        )


def _prepare(
    plan: Plan, folder: Folder, convert: Callable[[Plan, Folder, int], Mapping[str, str]]
) -> StartRecord:
    """Save and write all files of the folder; the partition stays unchanged."""
    try:
        for repair in repair_records(plan.partition):
            if repair.state is RepairState.PREPARED:
                Folder(plan.partition, repair.id).remove()
        folder.make(plan, Attributes.of(plan.partition))
        begun_ns = _begin_time(plan.partition)
        tails = {cut.name: _save_tail(plan, cut, folder) for cut in plan.cuts}
        marker = _save_marker(plan, folder)
        for put in plan.puts:
            if not isinstance(put.recipe, RebuiltIndex | ConvertedPart):
                stage(plan, put, folder, begun_ns)
        for step in plan.rewrites:
            save_checkpoint(plan, step, folder, begun_ns)
        start_record = StartRecord(begun_ns, tails, marker, convert(plan, folder, begun_ns))
        folder.begin(start_record)
    except BaseException:  # Ctrl-C too: nothing was changed yet
        with suppress(OSError, Refused):
            folder.remove()
        if folder.has_begun:  # the folder could not be removed
            with report_interruption(plan, folder):
                raise
        raise
    return start_record


def _begin_time(partition: Path) -> int:
    """Return the time in ns, later than that of all earlier repairs.

    It has whole seconds, which all file systems store.
    """
    before = [
        repair.begun_ns for repair in repair_records(partition) if repair.begun_ns is not None
    ]
    now = time.time_ns() // _SECOND_NS * _SECOND_NS
    return max([now, *(begun_ns + _SECOND_NS for begun_ns in before)])


def _save_tail(plan: Plan, cut: Cut, folder: Folder) -> int:
    log, saved = plan.partition / cut.name, folder.tail_path(cut.name)
    start = disk.save_tail(log, cut.size, saved, Attributes.of(log))
    if _digest(saved, cut.size - start) != cut.tail_sha256:
        raise Refused(
            f"{log}: expected the tail that the plan was made for, found another tail: plan again"
        )
    return start


def _save_marker(plan: Plan, folder: Folder) -> Stamp | None:
    if not any(isinstance(step, TakeMarker) for step in plan.steps):
        return None
    path = marker_path(plan)
    stamp = stamp_of(path)
    if stamp is None:
        raise Refused(f"{path}: expected the clean shutdown marker, found none: plan again")
    content, like = path.read_bytes(), Attributes.of(path)
    disk.write_file(folder.marker_path, [content], like, stamp.mtime_ns)
    return stamp


def _do_steps(plan: Plan, folder: Folder, start_record: StartRecord) -> None:
    states = States(plan, folder, start_record, undoing=False)
    for step in plan.steps:
        if states.of(step) is not StepState.DONE:
            do(plan, step, folder, start_record)


def _finish(
    plan: Plan, folder: Folder, start_record: StartRecord, started: float, *, full_proof: bool
) -> Receipt:
    begun = datetime.fromtimestamp(start_record.begun_ns // _SECOND_NS, UTC)
    receipt = {
        "id": plan.id,
        "command": plan.command,
        "begun": f"{begun:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round(time.monotonic() - started, 3),
        "uid": os.getuid(),
        "loss": encode_loss(plan.loss),
        "log_end": list(plan.log_end),
        "files": dict(_proofs(plan, folder, full_proof=full_proof)),
    }
    if plan.conversions:
        receipt["converted"] = dict(_conversions(plan, start_record))
    folder.finish(receipt)
    return receipt


def _conversions(plan: Plan, start_record: StartRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each converted log, with the counts and digests of its records."""
    for put, recipe in plan.conversions:
        yield (
            put.name,
            {
                "from": recipe.log,
                "records": recipe.records,
                "digest_before": recipe.digest,
                "digest_after": start_record.digests[put.name],
                "bytes_before": plan.files[recipe.log].size,
                "bytes_after": put.size,
            },
        )


def _proofs(
    plan: Plan, folder: Folder, *, full_proof: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each written or moved file, with its digests before and after."""
    for name in sorted(plan.changed_files):
        old, path = folder.backup_path(name), plan.partition / name
        before = _digest(old) if old.exists() else None
        put = next((put for put in plan.puts if put.name == name), None)
        if (cut := next((cut for cut in plan.cuts if cut.name == name), None)) is not None:
            proof: dict[str, Any] = {"tail": cut.tail_sha256, "last_header": cut.last_header}
            yield name, proof | ({"after": _digest(path)} if full_proof else {})
        else:
            yield name, {"before": before, "after": None if put is None else put.sha256}
    for step in plan.rewrites:
        before = _digest(folder.backup_path(step.checkpoint))
        yield step.checkpoint, {"before": before, "after": step.sha256}
    if full_proof:
        for name in sorted(set(plan.files).difference(plan.changed_files)):
            yield name, {"after": _digest(plan.partition / name)}


def _digest(path: Path, start: int = 0) -> str:
    """Return the SHA-256 of a file from position ``start`` on."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
