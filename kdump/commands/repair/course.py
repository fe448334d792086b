"""RepairCourse: the cures of a plan carried out, one partition after the other.

Each cure is a repair of its own, which can be resumed and undone. The journal in the log directory
names it before it begins, so that an interrupted run goes on with it.

The log directories stay locked from the first partition to the last, so that what is true of all of
them is found out once: that no broker runs, and which other repairs are unfinished. A broker that
is started amid the run does not get the lock, and stops. What may change nevertheless is looked at
before each partition: its files, the readers of these, and the lock file.

Spec: ``LogManager.lockLogDirs``, ``LogManager.loadLogs``: a broker that starts after an interrupted
run finds each partition as it was, repaired, or with the steps of one repair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from kdump.audit.facts.small_files import DirectoryFacts, read_directory
from kdump.audit.run.verification import Verification, run_survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.cures import CureKind
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.repair.in_sync import MetadataCopy
from kdump.commands.repair.plan import (
    LOSSLESS,
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
from kdump.repair.transaction.fingerprint import stamp_of
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.interruption import cause_text
from kdump.repair.transaction.lock import HeldLock
from kdump.repair.transaction.plan import Plan, Stamp, with_paths
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path
from kdump.storage.names import (
    CLEAN_MARKER,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
)
from kdump.storage.paths import as_local
from kdump.storage.repair_journal import JournaledCure, RepairJournal, journal_path
from kdump.storage.repair_record import RepairState
from kdump.storage.workers import Report

#: A rebuild may follow the removal of a tail, that the bytes of a replica, and these new fields.
_MOST_PLANS: Final = 4
#: The size of the largest partition that is read without workers: to start one takes longer.
_READ_HERE_BYTES: Final = 1 << 20
#: The files at the top of a log directory on which plans depend.
_AT_TOP: Final = (
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
    CLEAN_MARKER,
)


PartitionProgress = Callable[[Path], AbstractContextManager[Report]]
"""Begins to count the progress at a partition; yields what gets counts of bytes that are read."""


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

    The plans of ``hosts`` include the checkpoint files of their log directories. ``locks`` has the
    locks of the log directories by their paths. ``metadata`` is the newest of the
    metadata logs of ``options``.
    """

    def __init__(
        self,
        context: Context,
        options: CureOptions,
        hosts: Collection[Path],
        locks: Mapping[Path, HeldLock],
        output: CureReport,
        *,
        metadata: MetadataCopy | None,
        jobs: int,
        progress: PartitionProgress,
    ) -> None:
        self._context, self._options, self._hosts = context, options, hosts
        self._locks, self._output = locks, output
        self._metadata, self._jobs, self._progress = metadata, jobs, progress
        self._directories: dict[Path, tuple[tuple[Stamp | None, ...], DirectoryFacts]] = {}

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
            path = as_local(journal.path).parent / cure.partition
            with self._progress(path) as report:
                try:
                    self._cure(as_local(journal.path), cure, report)
                except Unfinished:
                    raise
                except KdumpError as error:
                    self._output.left(LeftPartition(path, str(error)))

    def _cure(self, journal: Path, cure: JournaledCure, report: Report) -> None:
        """Carry out the cure of a partition, and what follows it."""
        directory = journal.parent
        path, held = directory / cure.partition, self._locks[directory]
        begun = records_of(directory, cure)
        for record in begun:
            if record.state is RepairState.UNDOING:
                raise Refused(f"{path}: expected no undo of {record.id}, found one: finish it")
            if record.state is RepairState.PENDING:
                folder = Folder(path, record.id)
                receipt = resume(folder, directory, held=held)
                self._output.cured(with_paths(folder.plan(), path, directory), receipt)
        done = [record.id for record in begun]
        while True:
            first = not done
            shortened = {
                name for each in done for name in shortened_logs(Folder(path, each).plan())
            }
            options = self._options if first else self._afterwards()
            found, left = self._plan(path, options, shortened, report)
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
            receipt = apply(plan, held=held)
            done.append(plan.id)
            self._output.cured(plan, receipt)
        if left is not None:
            self._output.left(left)

    def _afterwards(self) -> CureOptions:
        """Return the options for what follows a planned cure, as far as it loses no record.

        Rebuild follows even with --only.
        """
        kinds = {kind for kind in LOSSLESS if self._options.allow(kind)}
        return replace(self._options, only=kinds | {CureKind.REBUILD})

    def _plan(
        self, path: Path, options: CureOptions, shortened: Collection[str], report: Report
    ) -> tuple[tuple[CureKind, Plan] | None, LeftPartition | None]:
        directory = self._directory(path.parent)
        target = Target(path, (), None, stopped=True, size=0, directory=directory, pending=True)
        planner = CurePlanner(self._context, options, self._hosts, self._metadata)
        verdict = self._verdict(target.with_listing(), report)
        return planner.plan(verdict, report, shortened=shortened)

    def _verdict(self, target: Target, report: Report) -> Verdict:
        """Return the verdict on a partition, which is read whole, with rebuilt indexes."""
        if target.size <= _READ_HERE_BYTES:
            verification = Verification(self._context, rebuild=True)
            facts = verification.facts(target)
            # Only workers map files: the death of a map ends its process.
            tasks = [task.unmap() for task in verification.tasks(target)]
            surveys = [run_survey(task, report) for task in tasks]
            return verification.verdict(target, surveys, facts)
        read = verdicts(
            [target],
            self._context,
            jobs=self._jobs,
            report=report,
            # The lock ends with this process, whatever becomes of the workers.
            close_descriptors=[held.descriptor for held in self._locks.values()],
        )
        (verdict,) = read
        return verdict

    def _directory(self, path: Path) -> DirectoryFacts:
        """Return a log directory as it is: a cure may have changed its checkpoint files."""
        stamps = tuple(_stamp(path / name) for name in _AT_TOP)
        if path not in self._directories or self._directories[path][0] != stamps:
            listing = open_path(path)
            if not isinstance(listing, LogDirectory):
                raise Refused(f"{path}: expected a log directory, found something else")
            stopped = Liveness(BrokerState.STOPPED, f"{LOCK} is locked by this process")
            self._directories[path] = stamps, read_directory(listing, stopped)
        return self._directories[path][1]


def _stamp(path: Path) -> Stamp | None:
    with suppress(OSError):  # a link in a circle, for example: a broker sees no file there
        return stamp_of(path)
    return None
