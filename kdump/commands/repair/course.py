"""RepairCourse: the cures of a plan carried out, one partition after the other.

Each cure is a repair of its own, which can be resumed and undone. The journal in the log directory
names it before it begins, so that an interrupted run goes on with it.

Spec: ``LogManager.loadLogs``: between two partitions a broker may start, and finds each partition
as it was or repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from kdump.audit.targets.context import Context
from kdump.audit.targets.target import assign, open_roots
from kdump.audit.verdicts.cures import CureKind
from kdump.commands.repair.plan import (
    UNASKED,
    CureOptions,
    CurePlanner,
    LeftPartition,
    RepairPlan,
    verdicts,
)
from kdump.errors import KdumpError, Refused, Unfinished
from kdump.repair.dropping.plan import shortened_logs
from kdump.repair.journal import finish, note_plan, records_of
from kdump.repair.transaction.apply import apply, begin_time, resume
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.interruption import cause_text
from kdump.repair.transaction.plan import Plan, with_paths
from kdump.storage.paths import as_local
from kdump.storage.repair_journal import JournaledCure, RepairJournal, journal_path
from kdump.storage.repair_record import RepairState

#: A rebuild may follow the removal of a tail, and that the bytes of a replica.
_MOST_PLANS: Final = 3


class CureReport(Protocol):
    """The report of the cures that are carried out."""

    def cured(self, plan: Plan, receipt: Mapping[str, Any]) -> None:
        """A plan of a partition was carried out."""

    def left(self, partition: LeftPartition) -> None:
        """A partition stays as it is, or something of it does."""


def new_journals(plan: RepairPlan) -> tuple[RepairJournal, ...]:
    """Return the journals of a plan, one for each log directory in which it changes something."""
    cures: dict[Path, list[JournaledCure]] = {}
    for cure in plan.cures:
        entry = JournaledCure(cure.path.name, cure.kind.value, cure.plan_id)
        cures.setdefault(cure.log_directory, []).append(entry)
    begun_ns = max(map(begin_time, (cure.path for cure in plan.cures)), default=0)
    return tuple(
        RepairJournal(
            journal_path(directory, plan.id),
            plan.id,
            plan.arguments,
            plan.lossy,
            begun_ns,
            tuple(entries),
            tuple(
                left.path.name for left in plan.untouched if as_local(left.path).parent == directory
            ),
            plan.examined,
            done=False,
        )
        for directory, entries in cures.items()
    )


class RepairCourse:
    """The cures of journals, in order; those that an earlier run has finished are passed over.

    The plans of ``hosts`` include the checkpoint files of their log directories.
    """

    def __init__(
        self,
        context: Context,
        options: CureOptions,
        hosts: Collection[Path],
        output: CureReport,
        *,
        jobs: int,
        report: Callable[[int], None],
        assume_stopped: bool,
    ) -> None:
        self._context, self._options, self._hosts = context, options, hosts
        self._output = output
        self._jobs, self._report, self._assume_stopped = jobs, report, assume_stopped

    def carry_out(self, journals: Sequence[RepairJournal], resume_command: Sequence[str]) -> None:
        """Carry out all cures, and finish the journals, which are on disk.

        A partition whose plan became wrong is left. Raises Unfinished, with ``resume_command``.
        """
        try:
            for journal in journals:
                self._cure_all(journal)
            for journal in journals:  # none is over while another one goes on
                finish(as_local(journal.path))
        except (KdumpError, OSError, KeyboardInterrupt, SystemExit) as error:
            text = f"the repair {journals[0].id} was interrupted: {cause_text(error)}"
            raise Unfinished(f"{text}; finish it, or undo it", tuple(resume_command)) from (
                error.__cause__ if isinstance(error, Unfinished) else error
            )

    def _cure_all(self, journal: RepairJournal) -> None:
        for cure in journal.cures:
            try:
                self._cure(as_local(journal.path), cure)
            except Unfinished:
                raise
            except KdumpError as error:
                path = as_local(journal.path).parent / cure.partition
                self._output.left(LeftPartition(path, str(error)))

    def _cure(self, journal: Path, cure: JournaledCure) -> None:
        """Carry out the cure of a partition, and what follows it."""
        directory = journal.parent
        path = directory / cure.partition
        begun = records_of(directory, cure)
        for record in begun:
            if record.state is RepairState.UNDOING:
                raise Refused(f"{path}: expected no undo of {record.id}, found one: finish it")
            if record.state is RepairState.PENDING:
                folder = Folder(path, record.id)
                receipt = resume(folder, directory, assume_stopped=self._assume_stopped)
                self._output.cured(with_paths(folder.plan(), path, directory), receipt)
        done = [record.id for record in begun]
        while True:
            first = not done
            shortened = {
                name for each in done for name in shortened_logs(Folder(path, each).plan())
            }
            found, left = self._plan(
                path, self._options if first else self._afterwards(), shortened
            )
            if first and (found is None or found[1].id != cure.plan_id):
                raise Refused(
                    f"{path}: expected the files that plan {cure.plan_id} was made for, found "
                    "others: it stays as it is; run the command again"
                )
            if found is None:
                break
            _, plan = found
            if not first and (plan.lossy or len(done) == _MOST_PLANS):
                left = LeftPartition(path, "more is to repair than was planned: plan again")
                break
            note_plan(journal, cure.partition, plan.id)
            receipt = apply(
                plan, jobs=self._jobs, report=self._report, assume_stopped=self._assume_stopped
            )
            done.append(plan.id)
            self._output.cured(plan, receipt)
        if left is not None:
            self._output.left(left)

    def _afterwards(self) -> CureOptions:
        """Return the options for what follows a planned cure, as far as it loses no record.

        Rebuild follows even with --only.
        """
        kinds = {kind for kind in UNASKED if self._options.allow(kind)}
        return replace(self._options, only=kinds | {CureKind.REBUILD})

    def _plan(
        self, path: Path, options: CureOptions, shortened: Collection[str]
    ) -> tuple[tuple[CureKind, Plan] | None, LeftPartition | None]:
        # Listed anew: an earlier cure may have changed the checkpoint files.
        targets = [each.with_listing() for root in open_roots([path]) for each in assign(root)]
        planner = CurePlanner(self._context, options, self._hosts)
        read = verdicts(targets, self._context, jobs=self._jobs, report=self._report)
        with closing(read):
            for verdict in read:
                return planner.plan(verdict, self._report, shortened=shortened)
        raise Refused(f"{path}: expected a partition directory, found none")
