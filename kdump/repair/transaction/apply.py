"""apply(): the steps of a plan in order; resume(): those that an interruption left.

First the plan's folder gets all saved and new files. Until then nothing is changed, and a failure
leaves the partition as it was. Then each step is durable before the next begins, so that an
interrupted repair can be finished or undone.

Spec: KOD 5, 10.8 and 10.9.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from kdump.errors import Refused
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.fingerprint import read_fingerprint, stamp_of
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.interruption import report_interruption
from kdump.repair.transaction.lock import (
    HeldLock,
    check_changeable,
    check_readers,
    finish_or_undo,
    hold_lock,
    interrupted_repair,
)
from kdump.repair.transaction.plan import (
    Assembly,
    ConvertedPart,
    Line,
    Plan,
    RebuiltIndex,
    changed_since,
    encode_holes,
    encode_loss,
    with_paths,
)
from kdump.repair.transaction.preparation import Preparation, file_digest
from kdump.repair.transaction.repair import Repair, StepState
from kdump.repair.transaction.shared_files import checkpoint_path, line_of
from kdump.repair.transaction.staging import stage_converted
from kdump.storage.logdir import read_partition
from kdump.storage.repair_record import RepairState, repair_records

_SECOND_NS: Final = 1_000_000_000

Receipt = Mapping[str, Any]
"""The JSON fields of a finished repair: files, digests, loss."""


def apply(
    plan: Plan,
    *,
    jobs: int = 1,
    report: Callable[[int], None] = lambda _: None,
    assume_stopped: bool = False,
    full_proof: bool = False,
    held: HeldLock | None = None,
) -> Receipt:
    """Apply a plan that has steps; return the receipt, which also stays in its folder.

    ``jobs`` workers convert logs, or this process if that is 1. ``report`` is called with counts of
    bytes that are read for the conversion and for reading back. ``full_proof``: the receipt also
    has the digests of the logs that stay. ``held`` is as for ``hold_lock``. Raises Refused if
    nothing was changed, Unfinished if something was changed; SourceError.
    """
    started = time.monotonic()
    folder = Folder(plan.partition, plan.id)
    with hold_lock(
        plan.partition,
        plan.log_directory,
        identity=plan.identity,
        assume_stopped=assume_stopped,
        held=held,
    ) as lock:
        # What was seen before the lock was held may have changed: all of it is checked here.
        check_readers(plan.partition, plan.changed_files)
        record = interrupted_repair(plan.partition)
        if record is not None:
            raise Refused(
                f"{plan.partition}: expected no interrupted repair, found {record.id}: "
                f"{finish_or_undo(record, plan.partition)}"
            )
        if folder.has_begun:
            raise Refused(
                f"{plan.partition}: expected no backup of plan {plan.id}, found a backup, "
                "although no step of the plan is done: remove it with kdump undo --plan ID "
                "--discard"
            )
        if lock is not None:
            lock.open_repairs.check(plan.partition)
        _check_unchanged(plan)
        check_changeable(plan)
        descriptor = None if lock is None else lock.descriptor
        repair = _prepare(
            plan, folder, partial(stage_converted, jobs=jobs, report=report, lock=descriptor)
        )
        with report_interruption(plan, folder):
            _do_steps(repair)
            return _finish(repair, started, full_proof=full_proof)


def resume(
    folder: Folder,
    log_directory: Path | None,
    *,
    assume_stopped: bool = False,
    full_proof: bool = False,
    held: HeldLock | None = None,
) -> Receipt:
    """Finish an interrupted repair; return the receipt. Raises as ``apply`` does."""
    started = time.monotonic()
    plan = with_paths(folder.plan(), folder.partition, log_directory)
    # Not checked is plan.identity. A restart can change the number of the device, a copy to another
    # disk also that of the inode. check() compares each file with the plan instead.
    with hold_lock(
        plan.partition, log_directory, assume_stopped=assume_stopped, interrupted=True, held=held
    ):
        repair = Repair(plan, folder, folder.start_record(plan))
        repair.check()
        with report_interruption(plan, folder):
            repair.flush()
            _do_steps(repair)
            return _finish(repair, started, full_proof=full_proof)


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
        raise changed_since(plan.partition, ", ".join(changed[:5]) or "another directory")


def _prepare(
    plan: Plan, folder: Folder, convert: Callable[[Preparation], Mapping[str, str]]
) -> Repair:
    """Save and write all files of the folder; the partition stays unchanged."""
    try:
        for record in repair_records(plan.partition):
            if record.state is RepairState.PREPARED:
                Folder(plan.partition, record.id).remove()
        folder.make(plan, Attributes.of(plan.partition))
        preparation = Preparation(plan, folder, begin_time(plan.partition))
        tails, marker = preparation.save_tails(), preparation.save_marker()
        for put in plan.puts:
            if not isinstance(put.recipe, RebuiltIndex | ConvertedPart):
                preparation.stage(put)
        for step in plan.rewrites:
            preparation.save_checkpoint(step)
        start = StartRecord(preparation.begun_ns, tails, marker, convert(preparation))
        folder.begin(start)
    except BaseException:  # Ctrl-C too: nothing was changed yet
        with suppress(OSError, Refused):
            folder.remove()
        if folder.has_begun:  # the folder could not be removed
            with report_interruption(plan, folder):
                raise
        raise
    return Repair(plan, folder, start)


def begin_time(partition: Path) -> int:
    """Return the time in ns, later than that of all earlier repairs.

    It has whole seconds, which all file systems store.
    """
    records = repair_records(partition)
    before = [record.begun_ns for record in records if record.begun_ns is not None]
    now = time.time_ns() // _SECOND_NS * _SECOND_NS
    return max([now, *(begun_ns + _SECOND_NS for begun_ns in before)])


def _do_steps(repair: Repair) -> None:
    for step in repair.plan.steps:
        if repair.state(step) is not StepState.DONE:
            repair.do(step)


def _finish(repair: Repair, started: float, *, full_proof: bool) -> Receipt:
    plan = repair.plan
    begun = datetime.fromtimestamp(repair.start.begun_ns // _SECOND_NS, UTC)
    receipt = {
        "id": plan.id,
        "command": plan.command,
        "begun": f"{begun:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round(time.monotonic() - started, 3),
        "uid": os.getuid(),
        "loss": encode_loss(plan.loss),
        "log_end": list(plan.log_end),
        "files": dict(_proofs(repair, full_proof=full_proof)),
    }
    if plan.conversions:
        receipt["converted"] = dict(_conversions(repair))
    if plan.holes:
        receipt["holes"] = encode_holes(plan.holes)
    if any(recipe.taken for _, recipe in plan.assemblies):
        receipt["taken"] = {put.name: list(_taken(recipe)) for put, recipe in plan.assemblies}
    repair.folder.finish(receipt)
    return receipt


def _conversions(repair: Repair) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each converted log, with the counts and digests of its records."""
    for put, recipe in repair.plan.conversions:
        yield (
            put.name,
            {
                "from": recipe.log,
                "records": recipe.records,
                "digest_before": recipe.digest,
                "digest_after": repair.start.digests[put.name],
                "bytes_before": repair.plan.files[recipe.log].size,
                "bytes_after": put.size,
            },
        )


def _taken(recipe: Assembly) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a log that come from other files, each with its position in the log."""
    position = 0
    for piece in recipe.pieces:
        if piece.path:
            yield {
                "position": position,
                "from": piece.path,
                "from_position": piece.position,
                "bytes": piece.size,
                "sha256": piece.sha256,
            }
        position += piece.size


def _proofs(repair: Repair, *, full_proof: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each written or moved file, with its digests before and after."""
    plan, folder = repair.plan, repair.folder
    for name in sorted(plan.changed_files):
        old, path = folder.backup_path(name), plan.partition / name
        before = file_digest(old) if old.exists() else None
        put = next((put for put in plan.puts if put.name == name), None)
        if (cut := next((cut for cut in plan.cuts if cut.name == name), None)) is not None:
            proof: dict[str, Any] = {"tail": cut.tail_sha256, "last_header": cut.last_header}
            yield name, proof | ({"after": file_digest(path)} if full_proof else {})
        else:
            yield name, {"before": before, "after": None if put is None else put.sha256}
    for step in plan.rewrites:
        before = file_digest(folder.backup_path(step.checkpoint))
        yield step.checkpoint, {"before": before, "after": step.sha256}
    if full_proof:
        for name in sorted(set(plan.files).difference(plan.changed_files)):
            yield name, {"after": file_digest(plan.partition / name)}
