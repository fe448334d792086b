"""``kdump repair``: log directories repaired, as one plan with one consent and one undo.

Spec: ``LogManager.loadLogs``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kdump.ui.command import Command
from kdump.ui.exits import Ending
from kdump.ui.options.jobs import jobs_option
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import LogPath, TargetOptions, repair_target_options
from kdump.ui.progress import progress_option
from kdump.ui.repairs.repairing import assume_stopped_option

if TYPE_CHECKING:
    from kdump.audit.commands import Remedy
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Target
    from kdump.audit.verdicts.cures import CureKind
    from kdump.commands.repair.in_sync import MetadataCopy
    from kdump.commands.repair.plan import CureOptions, LeftPartition, RepairPlan
    from kdump.commands.repair.report import RunReport
    from kdump.repair.transaction.lock import HeldLock
    from kdump.repair.transaction.plan import Plan
    from kdump.storage.paths import AnyPath
    from kdump.storage.repair_journal import RepairJournal
    from kdump.ui.progress import Mode, Progress

#: Options that name a path.
_PATHS = frozenset({"--from", "--metadata", "--config"})
_KINDS = ("rebuild", "field", "tail", "replica", "refetch", "drop", "as-broker")


@click.command(
    cls=Command,
    short_help="Repair a whole log directory: one plan, one undo.",
    epilog="Exit codes: 0 nothing to do, or done; 2 wrong usage; 4 there is a plan, which --apply "
    "carries out; 5 something is left, could not be read, or was interrupted: the last line on "
    "standard error is then the command that continues it; 6 refused, nothing changed; 130, 143 "
    "ended by a signal; 141 the reader of the output went away.",
)
@click.option(
    "--from",
    "replicas",
    metavar="REPLICA",
    multiple=True,
    type=LogPath(),
    help="Take what is corrupt or missing from this replica, as kdump heal does: a log directory "
    "with partitions of the same names, or an address in an object store. Repeatable.",
)
@click.option(
    "--refetch",
    is_flag=True,
    help="Move a partition aside that cannot be repaired without a loss, where another replica is "
    "in sync: the broker fetches it again.",
)
@click.option(
    "--metadata",
    metavar="PATH",
    multiple=True,
    type=LogPath(),
    help="With --refetch: a metadata log that says which replicas are in sync, or a log directory "
    "with one: that of a controller. The newest one counts. Repeatable.",
)
@click.option(
    "--others-in-sync",
    is_flag=True,
    help="With --refetch: you know that another replica of each of these partitions is in sync.",
)
@click.option(
    "--only-copy",
    is_flag=True,
    help="No other replica has these records. Where valid batches follow corrupt ones, drop the "
    "corrupt ones and keep the valid ones: their offsets stay missing.",
)
@click.option(
    "--as-broker",
    is_flag=True,
    help="Where valid batches follow corrupt ones, and no replica helps, truncate as log recovery "
    "does: this removes valid records.",
)
@click.option(
    "--only",
    metavar="CURE",
    multiple=True,
    type=click.Choice(_KINDS),
    help="Plan only cures of this kind: rebuild, field, tail, replica, refetch, drop or as-broker. "
    "Repeatable.",
)
@click.option("--all", "spelled_out", is_flag=True, help="Show the plan of every partition.")
@click.option(
    "--apply",
    "applying",
    is_flag=True,
    help="Carry out the plan, or continue an interrupted repair; without it nothing is changed.",
)
@click.option(
    "--confirm",
    metavar="ID",
    multiple=True,
    help="With --apply: agree to the plan with this id, which loses records. Without it, the "
    "terminal asks for the id.",
)
@assume_stopped_option
@format_option(
    "Print for people, or JSON Lines: a header, a line for each plan and each partition that is "
    "left, a summary."
)
@progress_option
@jobs_option("the number of usable CPUs")
@repair_target_options
def repair(
    targets: TargetOptions,
    replicas: tuple[AnyPath, ...],
    refetch: bool,
    metadata: tuple[AnyPath, ...],
    others_in_sync: bool,
    only_copy: bool,
    as_broker: bool,
    only: tuple[str, ...],
    spelled_out: bool,
    applying: bool,
    confirm: tuple[str, ...],
    assume_stopped: bool,
    form: Literal["text", "json"],
    progress: Mode,
    jobs: int | None,
) -> int:
    """Repair all partitions of the log directories of a stopped broker, as one plan.

    PATH is a log directory, or a partition directory in one. repair reads all logs, and chooses for
    each partition the cure that loses least: indexes, snapshots and small files are rebuilt
    (rebuild); offsets, sizes and leader epochs that no checksum covers are set where the log leaves
    them one value (field); the unreadable end of a log is removed, with no valid record (tail);
    with --from, replicas give what is corrupt or missing (replica); with --refetch, the partition
    is moved aside where another replica is in sync, and the broker fetches it again from its leader
    (refetch); with --only-copy, corrupt batches are dropped and the valid ones stay (drop); with
    --as-broker, logs are truncated where log recovery would truncate them (as-broker).

    A partition for which no cure is allowed stays as it is, and the plan names it with the options
    that would allow one. So does the metadata log of a cluster, whose quorum decides what is valid.

    --apply carries out all cures. After one that changes a log, the files beside it are rebuilt
    where they need it. A partition that has changed since it was planned stays as it is, and the
    others are repaired. An interrupted repair goes on with the same command. kdump undo DIRECTORY
    --plan ID takes all of it back.
    """
    from kdump.audit.verdicts.cures import CureKind
    from kdump.commands.repair.plan import CureOptions
    from kdump.commands.repair.report import start_report
    from kdump.errors import KdumpError, Unfinished
    from kdump.format.lines.shell import shell_text
    from kdump.storage.logdir import open_path
    from kdump.storage.paths import typed_text
    from kdump.storage.workers import default_jobs
    from kdump.ui.options.targets import find_read_scope, refuse_manifests
    from kdump.ui.progress import Progress

    if targets.config is not None:  # another working directory may finish the repair
        targets = replace(targets, config=targets.config.absolute())
    scope = find_read_scope(targets, stores=False)
    if not refetch and (metadata or others_in_sync):
        raise click.UsageError("--metadata, --others-in-sync: expected --refetch beside it")
    if metadata and others_in_sync:
        raise click.UsageError("--others-in-sync: expected no --metadata beside it")
    refuse_manifests((*replicas, *metadata))
    for replica in replicas:
        open_path(replica)  # a wrong path is one error, not one for each partition
    kinds = frozenset(map(CureKind, only))
    options = CureOptions(
        replicas,
        refetch,
        metadata,
        others_in_sync,
        only_copy,
        as_broker,
        kinds,
        targets.config,
    )
    arguments = (
        *(word for replica in replicas for word in ("--from", typed_text(replica))),
        *(("--refetch",) if refetch else ()),
        *(word for path in metadata for word in ("--metadata", typed_text(path))),
        *(("--others-in-sync",) if others_in_sync else ()),
        *(("--only-copy",) if only_copy else ()),
        *(("--as-broker",) if as_broker else ()),
        *(word for kind in only for word in ("--only", kind)),
        *targets.words,
    )
    roots = [root.path for root in scope.roots]
    output = start_report(form, roots, confirm, spelled_out=spelled_out)
    resume: str | None = None
    journals: Sequence[RepairJournal] = ()
    with Progress(progress) as meter:
        run = _Run(
            scope,
            options,
            arguments,
            output,
            meter,
            confirm,
            jobs or default_jobs(),
            assume_stopped=assume_stopped,
        )
        try:
            ending, journals = run.go(applying=applying)
        except KdumpError as error:
            with meter.paused():
                output.error(error)
            ending = Ending.of(error)
            if isinstance(error, Unfinished):
                resume = shell_text(error.resume)
    output.finish(ending.exit_code, journals)
    if resume is not None or run.resume is not None:
        click.echo(resume or run.resume, err=True)
    return ending.exit_code


class _Run:
    """A run over log directories; ``resume`` is the command that finishes an interrupted one."""

    def __init__(
        self,
        scope: Scope,
        options: CureOptions,
        arguments: tuple[str, ...],
        output: RunReport,
        meter: Progress,
        confirm: tuple[str, ...],
        jobs: int,
        *,
        assume_stopped: bool,
    ) -> None:
        self.resume: str | None = None
        self._scope, self._options, self._arguments = scope, options, arguments
        self._output, self._meter, self._confirm = output, meter, confirm
        self._jobs, self._assume_stopped = jobs, assume_stopped

    def go(self, *, applying: bool) -> tuple[Ending, Sequence[RepairJournal]]:
        """Plan, and carry it out if so chosen; return the ending, and the journals of what is done.

        Raises KdumpError.
        """
        from kdump.commands.repair.course import new_journals
        from kdump.commands.repair.plan import plan_repair
        from kdump.repair.journal import begin, has_begun
        from kdump.repair.side_files.checkpoints import hosts

        targets = self._targets()
        journals = self._unfinished(targets)
        if has_begun(journals):
            return self._go_on(journals, targets, applying=applying)
        self._meter.expect(sum(target.size for target in targets))
        plan = plan_repair(
            targets,
            self._scope.context,
            self._options,
            arguments=self._arguments,
            jobs=self._jobs,
            report=self._meter.advance,
            planned=self._planned,
        )
        shown = None if applying else self._command(plan.id, lossy=plan.lossy)
        with self._meter.paused():
            self._output.plan(plan, shown)
        left = Ending(unread=bool(plan.untouched))
        if not applying:
            return Ending(unread=bool(plan.left), problems=bool(plan.cures)), ()
        unbegun = journals  # their repair has changed nothing
        if not plan.cures:
            self._remove(unbegun)
            return left, ()
        self._check_space(plan)
        question = (
            f"This loses {plan.sound.count:,} valid and {plan.unreadable.count:,} unreadable "
            "records or more"
        )
        if plan.refetched:
            question += f", and moves {plan.refetched.count:,} aside that a leader has"
        journals = new_journals(plan)
        self._agree(journals, lossy=plan.lossy, question=question)
        with self._locked(journals) as locks:
            self._remove(unbegun)
            begin(journals)
            hosting = hosts(targets).keys()
            return left | self._carry_out(
                journals, hosting, locks, targets, plan.metadata
            ), journals

    def _go_on(
        self, journals: Sequence[RepairJournal], targets: Sequence[Target], *, applying: bool
    ) -> tuple[Ending, Sequence[RepairJournal]]:
        """Carry out the rest of an interrupted repair. Raises KdumpError."""
        from kdump.commands.repair.in_sync import newest_copy
        from kdump.commands.repair.plan import LeftPartition, directory_faults
        from kdump.format.lines.shell import shell_text
        from kdump.storage.paths import as_local
        from kdump.ui.units import count_text

        self._resume_options(journals[0], applying=applying)
        metadata = newest_copy(self._options.metadata)
        finish = self._command(journals[0].id, lossy=journals[0].lossy)
        with self._meter.paused():
            self._output.interruption(journals, finish)
        if not applying:
            self.resume = shell_text(finish)
            return Ending(unread=True), ()
        question = "This goes on with a repair that loses records"
        self._agree(journals, lossy=journals[0].lossy, question=question)
        left = [
            LeftPartition(journal.path.parent / name, "the plan leaves it as it is")
            for journal in journals
            for name in journal.left
        ]
        named = {partition.path for partition in left}
        left += (
            fault
            for fault in directory_faults(self._scope.context)
            # Checkpoint files may be among what is rebuilt.
            if fault.path not in named and (fault.command or ())[:2] != ("kdump", "reindex")
        )
        if journals[0].examined != len(targets):
            was = count_text(journals[0].examined, "partition")
            why = f"the interrupted repair was about {was}, not {len(targets):,}: run it again"
            left.append(LeftPartition(journals[0].path.parent, why))
        # The first partition of each plan has the checkpoint files of its log directory.
        first = [
            as_local(journal.path.parent) / journal.cures[0].partition
            for journal in journals
            if journal.cures
        ]
        with self._locked(journals) as locks:
            with self._meter.paused():
                for partition in left:
                    self._output.left(partition)
            ending = self._carry_out(journals, first, locks, targets, metadata)
            return Ending(unread=bool(left)) | ending, journals

    def _planned(self, kind: CureKind, plan: Plan) -> None:
        with self._meter.paused():
            self._output.planned(kind, plan)

    def _remove(self, journals: Sequence[RepairJournal]) -> None:
        from kdump.errors import Refused
        from kdump.repair.journal import remove_journal

        for journal in journals:
            try:
                remove_journal(journal)
            except OSError as error:
                raise Refused(f"{journal.path}: cannot be removed: {error}") from error

    def _resume_options(self, journal: RepairJournal, *, applying: bool) -> None:
        """Take the options of an interrupted repair. Raise Refused if no repair has them.

        As root, a path is not taken from what the owner of the directory has written: root may
        read more than the owner.
        """
        from kdump.commands.repair.plan import options_of
        from kdump.errors import Refused
        from kdump.format.lines.shell import shell_text
        from kdump.storage.rights import is_root

        if (
            applying
            and is_root()
            and not self._arguments
            and _PATHS.intersection(journal.arguments)
        ):
            raise Refused(
                f"{journal.path}: expected the options of the interrupted repair, since root takes "
                f"no path from this file, found none: {shell_text(journal.arguments)}"
            )
        self._arguments = journal.arguments
        try:
            self._options = options_of(self._arguments)
        except ValueError as error:
            raise Refused(
                f"{journal.path}: expected the options of a repair, found {error}: undo it with "
                "kdump undo, or move the file away"
            ) from error

    def _agree(self, journals: Sequence[RepairJournal], *, lossy: bool, question: str) -> None:
        """Raise Refused unless the user agrees to what a repair loses."""
        from kdump.ui.repairs.repairing import consent

        plan_id = journals[0].id
        if lossy:
            with self._meter.paused():
                place = ", ".join(str(journal.path.parent) for journal in journals)
                # A check names the plan of a partition that was interrupted: it is one of these.
                begun = {
                    each for journal in journals for cure in journal.cures for each in cure.applied
                }
                agreed = [plan_id] if begun.intersection(self._confirm) else self._confirm
                consent(place, plan_id, f"{question}. Type {plan_id} to continue", agreed)

    @contextmanager
    def _locked(self, journals: Sequence[RepairJournal]) -> Iterator[Mapping[Path, HeldLock]]:
        """Lock the log directories of journals; yield the locks by path. Raises KdumpError."""
        from kdump.repair.transaction.lock import hold_log_directory
        from kdump.storage.paths import as_local

        with ExitStack() as stack:
            locks = {}
            for path in [as_local(journal.path).parent for journal in journals]:
                holding = hold_log_directory(path, assume_stopped=self._assume_stopped)
                locks[path] = stack.enter_context(holding)
            yield locks

    def _carry_out(
        self,
        journals: Sequence[RepairJournal],
        hosts: Collection[Path],
        locks: Mapping[Path, HeldLock],
        targets: Sequence[Target],
        metadata: MetadataCopy | None,
    ) -> Ending:
        """Carry out the cures of journals that are on disk. Raise as ``RepairCourse`` does."""
        from kdump.commands.repair.course import RepairCourse
        from kdump.storage.paths import as_local

        # Each is read for its plan, and once more for what follows that.
        sizes = {as_local(target.path): 2 * target.size for target in targets}
        paths = [
            as_local(journal.path).parent / cure.partition
            for journal in journals
            for cure in journal.cures
        ]
        self._meter.expect(sum(sizes.get(path, 0) for path in paths))
        counting = _Paused(self._output, self._meter)
        course = RepairCourse(
            self._scope.context,
            self._options,
            hosts,
            locks,
            counting,
            metadata=metadata,
            jobs=self._jobs,
            progress=lambda path: self._meter.part(sizes.get(path, 0)),
        )
        course.carry_out(journals, self._command(journals[0].id, lossy=journals[0].lossy))
        return Ending(unread=counting.has_left)

    def _targets(self) -> list[Target]:
        """Return the partitions. Raise Refused beside a broker, UsageError without a directory."""
        from kdump.audit.targets.target import without_nested
        from kdump.errors import UsageError
        from kdump.repair.transaction.lock import check_stopped
        from kdump.storage.paths import as_local
        from kdump.ui.repairs.repairing import partitions

        found = list(without_nested(partitions(self._scope)))
        roots = {root.path for root in self._scope.roots}
        for target in found:
            if target.error is not None:
                if target.path in roots:
                    raise target.error
            elif target.directory is None:
                raise UsageError(
                    f"{target.path}: expected a log directory, or a partition in one, found a "
                    "partition outside of any: kdump verify names the commands that repair it"
                )
        directories = {
            as_local(target.directory.directory.path): target
            for target in found
            if target.directory is not None
        }
        for path, target in directories.items():
            if not target.stopped:
                check_stopped(path, assume_stopped=self._assume_stopped)
        return found

    def _unfinished(self, targets: Sequence[Target]) -> Sequence[RepairJournal]:
        """Return the journals of the unfinished repair, which may be called without its options.

        Raise Refused if the options are others.
        """
        from kdump.errors import Refused
        from kdump.repair.journal import of_owner
        from kdump.storage.repair_journal import repair_journals

        paths = dict.fromkeys(
            target.directory.directory.path for target in targets if target.directory is not None
        )
        found = [
            of_owner(journal)
            for path in paths
            for journal in repair_journals(path)
            if not journal.done
        ]
        for journal in found:
            if journal.id != found[0].id or self._arguments not in ((), journal.arguments):
                words = " ".join(journal.arguments) or "none"
                raise Refused(
                    f"{journal.path}: expected no interrupted repair, found {journal.id}, begun "
                    f"with the options: {words}: finish it with these, or undo it with kdump undo"
                )
        return found

    def _check_space(self, plan: RepairPlan) -> None:
        """Raise Refused unless the backups of all cures have room."""
        from kdump.commands.repair.report import free_bytes
        from kdump.errors import Refused

        for directory in dict.fromkeys(cure.log_directory for cure in plan.cures):
            cures = [cure for cure in plan.cures if cure.log_directory == directory]
            needed, free = sum(cure.new_bytes for cure in cures), free_bytes(directory)
            if needed > free:
                raise Refused(
                    f"{directory}: expected {needed} free bytes for new files and backups, found "
                    f"{free}: free some first (kdump space), or repair fewer partitions (--topic)"
                )

    def _command(self, plan_id: str, *, lossy: bool) -> Remedy:
        """Return the command that carries out a plan, or continues it."""
        from kdump.format.lines.shell import operand

        confirm = ("--confirm", plan_id) if lossy else ()
        assumed = ("--assume-stopped",) if self._assume_stopped else ()
        paths = (operand(root.path) for root in self._scope.roots)
        return ("kdump", "repair", *self._arguments, *paths, "--apply", *confirm, *assumed)


class _Paused:
    """Reports each cure while the meter pauses; ``has_left``: something stays as it is."""

    def __init__(self, output: RunReport, meter: Progress) -> None:
        self.has_left = False
        self._output, self._meter = output, meter

    def cured(self, plan: Plan, receipt: Mapping[str, Any]) -> None:
        """Report that a plan of a partition was carried out."""
        with self._meter.paused():
            self._output.cured(plan, receipt)

    def left(self, partition: LeftPartition) -> None:
        """Report that a partition stays as it is, or something of it does."""
        self.has_left = True
        with self._meter.paused():
            self._output.left(partition)
