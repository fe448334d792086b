"""``kdump undo``: lists, shows, takes back or deletes the backups of repairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.exits import Ending
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import LogPath
from kdump.ui.repairs.repairing import assume_stopped_option, partitions

if TYPE_CHECKING:
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Target
    from kdump.storage.paths import AnyPath
    from kdump.storage.repair_journal import RepairJournal
    from kdump.storage.repair_record import RepairRecord
    from kdump.ui.repairs.report import BackupReport


@click.command(
    cls=Command,
    short_help="List repairs; --apply reverts, --discard frees backups.",
    epilog="Exit codes: 0 listed, shown, undone or discarded; 2 wrong usage; 5 something could "
    "not be read, a repair of a log directory is undone in part, or a repair, an undo or the "
    "removal of a backup was interrupted: the last line on standard error is then the command that "
    "continues it; 6 refused, nothing changed; 130, 143 "
    "ended by a signal; 141 the reader of the output went away.",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=LogPath())
@click.option(
    "--plan",
    "plan_id",
    metavar="ID",
    help="Select the repair with this id. Without --apply or --discard it is shown.",
)
@click.option(
    "--apply",
    is_flag=True,
    help="Undo the repair; without --plan, the newest repair of each partition.",
)
@click.option(
    "--discard",
    is_flag=True,
    help="Remove the backup for good, which frees its space; needs --plan.",
)
@click.option(
    "--backup",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="List, or with --apply undo, what kdump trim has saved in DIR; the newest first.",
)
@assume_stopped_option
@format_option("Print for people, or JSON Lines: a header, a line for each backup, a summary.")
def undo(
    paths: tuple[Path, ...],
    plan_id: str | None,
    apply: bool,
    discard: bool,
    backup: Path | None,
    assume_stopped: bool,
    form: Literal["text", "json"],
) -> int:
    """List the repairs of partitions, newest last; undo a repair with --apply.

    PATH is a partition directory, or a log directory for all of its partitions. The id of a kdump
    repair of a log directory stands for all of its repairs, in the partitions of PATH. undo removes
    all files that a repair wrote. It restores all files of the partition that the repair changed or
    removed: bytes, owner, mode, attributes, times. In the log directory's checkpoint files it
    restores the lines of the partition; the files have the time of the undo. An interrupted repair
    can be undone too. Once a broker has changed a file of the repair, undo refuses and changes
    nothing. The backup then stays in .kdump, in the partition directory.

    With --backup, the segments that kdump trim has saved in DIR come back, and so do the leader
    epochs. A broker may have run since then, as long as the log still begins where the trim ended.
    """
    from kdump.errors import KdumpError, Unfinished, UsageError
    from kdump.format.lines.shell import shell_text
    from kdump.repair.transaction.folder import Folder
    from kdump.repair.transaction.plan import log_directory_of, with_paths
    from kdump.storage.paths import as_local
    from kdump.storage.repair_record import MOVE, RepairState
    from kdump.ui.options.targets import TargetOptions, find_scope
    from kdump.ui.repairs.report import BackupReport

    if discard and (plan_id is None or apply):
        raise click.UsageError("--discard needs --plan ID, and does not take --apply.")
    if backup is not None and (plan_id is not None or discard):
        raise click.UsageError("--backup takes neither --plan nor --discard: a backup is in DIR.")
    scope = find_scope(TargetOptions(paths), stores=False)
    targets = [*partitions(scope), *_interrupted_copies(scope)]
    report = BackupReport(form, scope)
    ending, resume = Ending(), None
    newest = apply and plan_id is None  # the newest repair of each partition
    whole = [] if backup is not None or newest else list(_journals(scope, plan_id))
    for journal, selected in whole:
        if not (apply or discard):
            report.journal(journal, selected)
            continue
        try:
            ending |= _take_back(
                journal, selected, report, discard=discard, assume_stopped=assume_stopped
            )
        except KdumpError as error:
            report.error(error)
            ending |= Ending.of(error)
            if isinstance(error, Unfinished):
                resume = shell_text(error.resume)
    for target in [] if whole and plan_id is not None else targets:
        try:
            if target.error is not None:
                raise target.error
            path = as_local(target.path)
            if backup is not None:
                _undo_trim(backup, target, report, apply=apply, assume_stopped=assume_stopped)
                continue
            records = _select(path, plan_id)
            if apply or discard:
                begun = [
                    record
                    for record in records
                    if discard or record.state is not RepairState.PREPARED
                ]
                for record in begun[-1:]:
                    if not discard and record.command != MOVE:
                        plan = Folder(path, record.id).plan()
                        report.undo(record, with_paths(plan, path, log_directory_of(target)))
                    _change(
                        record,
                        path,
                        log_directory_of(target),
                        discard=discard,
                        assume_stopped=assume_stopped,
                    )
                    report.change(record, path, discarded=discard)
            else:
                for record in records:
                    with_plan = plan_id is not None
                    refusal = _refusal(record, target) if with_plan else None
                    report.backup(record, path, with_plan=with_plan, refused=refusal)
        except KdumpError as error:
            report.error(error)
            ending |= Ending.of(error)
            if isinstance(error, Unfinished):
                resume = shell_text(error.resume)
        if ending.stopped_by is not None:
            break
    if apply or discard:
        _forget_journals(scope)
    if plan_id is not None and not report.count and ending == Ending():
        wrong = UsageError(f"--plan {plan_id}: expected the id of a repair in PATH, found none")
        report.error(wrong)
        ending = Ending.of(wrong)
    report.finish(ending.exit_code)
    if resume is not None:
        click.echo(resume, err=True)
    return ending.exit_code


def _journals(
    scope: Scope, plan_id: str | None
) -> Iterator[tuple[RepairJournal, Sequence[AnyPath]]]:
    """Yield the journals of repairs of the log directories: with ``plan_id``, that one alone.

    With ``plan_id``, one has the cures of the partitions alone that are in PATH without their log
    directory, and their paths are yielded too.
    """
    from kdump.audit.targets.scope import directories_of
    from kdump.repair.journal import of_owner
    from kdump.storage.logdir import LogDirectory
    from kdump.storage.repair_journal import repair_journals

    for facts in directories_of(scope.roots):
        directory = facts.directory.path
        roots = [
            root
            for root in scope.roots
            if root.directory is not None and root.directory.directory.path == directory
        ]
        whole = any(isinstance(root.content, LogDirectory) for root in roots)
        if not whole and plan_id is None:
            continue
        selected = {} if whole else {root.path.absolute().name: root.path for root in roots}
        for each in repair_journals(directory):
            if plan_id in (None, each.id):
                journal = of_owner(each)
                cures = tuple(cure for cure in journal.cures if whole or cure.partition in selected)
                if cures or whole:
                    yield replace(journal, cures=cures), tuple(selected.values())


def _forget_journals(scope: Scope) -> None:
    """Remove the journals of which no repair is left."""
    from kdump.audit.targets.scope import directories_of
    from kdump.errors import KdumpError
    from kdump.repair.journal import is_over, of_owner, remove_journal
    from kdump.storage.repair_journal import repair_journals

    for facts in directories_of(scope.roots):
        with suppress(KdumpError, OSError):  # it says what went together, and nothing else
            for journal in repair_journals(facts.directory.path):
                if is_over(journal):
                    remove_journal(of_owner(journal))


def _take_back(
    journal: RepairJournal,
    selected: Sequence[AnyPath],
    report: BackupReport,
    *,
    discard: bool,
    assume_stopped: bool,
) -> Ending:
    """Undo all repairs of a journal, or remove their backups. Raises KdumpError.

    ``selected`` are the partitions of its cures, empty for all.
    """
    from kdump.errors import Unfinished
    from kdump.repair.journal import take_back
    from kdump.ui.repairs.text import undo_journal_command

    ending, changed = Ending(), False
    try:
        for partition, record, error in take_back(
            journal, assume_stopped=assume_stopped, discarding=discard
        ):
            if error is None:
                changed = True
                report.change(record, partition, discarded=discard)
            else:
                report.error(error)
                ending |= Ending.of(error)
    except (Unfinished, OSError, KeyboardInterrupt, SystemExit) as error:
        from kdump.repair.transaction.interruption import cause_text

        command = undo_journal_command(journal, selected)
        again = (*command[:-1], "--discard") if discard else command
        text = f"{journal.path}: the undo was interrupted: {cause_text(error)}; run it again"
        cause = error.__cause__ if isinstance(error, Unfinished) else error
        raise Unfinished(text, again) from cause
    return ending | Ending(unread=changed and ending.refused)  # it is undone in part


def _interrupted_copies(scope: Scope) -> Iterator[Target]:
    """Yield the copies of moves that were interrupted before they got the name of the partition."""
    from kdump.audit.targets.target import Target
    from kdump.storage.logdir import LogDirectory
    from kdump.storage.repair_record import interrupted_moves

    for root in scope.roots:
        content = root.content
        if isinstance(content, LogDirectory):
            for path in dict.fromkeys(copy for copy, _ in interrupted_moves(content.set_aside)):
                yield Target(path, (), None, root.stopped, 0, directory=root.directory)


def _undo_trim(
    directory: Path,
    target: Target,
    report: BackupReport,
    *,
    apply: bool,
    assume_stopped: bool,
) -> None:
    """List the segments that a trim has saved, or bring the newest ones back."""
    from kdump.repair.saved_segments import restore_segments, saved_segments
    from kdump.repair.transaction.plan import log_directory_of
    from kdump.storage.paths import as_local

    path = as_local(target.path)
    found = saved_segments(directory, path, log_directory_of(target))
    for saved in found[-1:] if apply else found:
        if apply:
            restore_segments(saved, path, log_directory_of(target), assume_stopped=assume_stopped)
            report.change(saved.record, path, discarded=False)
        else:
            report.saved(saved.record, path, directory)


def _select(partition: Path, plan_id: str | None) -> Sequence[RepairRecord]:
    from kdump.repair.relocation.move import aside_id
    from kdump.repair.transaction.directories import check_own_directory
    from kdump.storage.names import is_aside_name
    from kdump.storage.repair_record import FOLDERS, repair_records
    from kdump.storage.source import status_of

    check_own_directory(partition / FOLDERS, status_of(partition).st_uid)
    records = repair_records(partition)
    if is_aside_name(partition.name):  # the others are copies
        records = tuple(record for record in records if record.id == aside_id(partition))
    return records if plan_id is None else [record for record in records if record.id == plan_id]


def _refusal(record: RepairRecord, target: Target) -> Exception | None:
    from kdump.errors import Refused
    from kdump.repair.relocation.carry import check_revertible, recorded_move
    from kdump.repair.transaction.plan import log_directory_of
    from kdump.repair.transaction.undo import refusal
    from kdump.storage.paths import as_local
    from kdump.storage.repair_record import MOVE

    if record.command != MOVE:
        return refusal(record, as_local(target.path), log_directory_of(target))
    try:
        check_revertible(recorded_move(as_local(target.path), record.id), record)
    except Refused as refused:
        return refused
    return None


def _change(
    record: RepairRecord,
    partition: Path,
    log_directory: Path | None,
    *,
    discard: bool,
    assume_stopped: bool,
) -> None:
    from kdump.repair.relocation import carry
    from kdump.repair.transaction import undo as repair_undo
    from kdump.storage.repair_record import MOVE

    if record.command == MOVE:
        move = carry.recorded_move(partition, record.id)
        if discard:
            carry.discard(move, record)
        else:
            carry.take_back(move, record, assume_stopped=assume_stopped)
    elif discard:
        repair_undo.discard(record, partition)
    else:
        repair_undo.undo(record, partition, log_directory, assume_stopped=assume_stopped)
