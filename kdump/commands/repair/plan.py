"""The plan of a repair of log directories: the cure of each partition, what is left, its id.

Only the ids of the plans of partitions are held: a plan may hold rebuilt indexes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from kdump.audit.commands import Remedy
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.finding_code import Severity
from kdump.audit.judge import judge, judge_directories
from kdump.audit.run.verify import verify
from kdump.audit.survey.recovery import Span
from kdump.audit.targets.context import Context
from kdump.audit.targets.node_directories import copies
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.cures import OPTIONS, CureKind, Diagnosis, cures_of, why_left
from kdump.audit.verdicts.next_start import with_forecast
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.repair.in_sync import MetadataCopy, newest_copy, others_in_sync
from kdump.commands.repair.refetch import plan_refetch
from kdump.errors import KdumpError, Refused, SourceError, UsageError
from kdump.format.lines.text import printable
from kdump.repair.content.extent import partition_facts
from kdump.repair.dropping.plan import plan_drop
from kdump.repair.fields.plan import plan_fields
from kdump.repair.fields.wrong_fields import NoField
from kdump.repair.healing.plan import COMPACTED_NOTE, NoReplica, plan_heal
from kdump.repair.side_files.checkpoints import (
    hosts,
    unreadable_checkpoints,
    with_readable_checkpoints,
)
from kdump.repair.side_files.plan import plan_reindex
from kdump.repair.transaction.plan import Loss, Plan, log_directory_of
from kdump.repair.truncation.plan import plan_truncate
from kdump.storage.objects.remote_path import as_path
from kdump.storage.paths import AnyPath, as_local, typed_text
from kdump.values import frozen

_ID_LENGTH: Final = 8
_FLAGS: Final = frozenset({"--refetch", "--others-in-sync", "--only-copy", "--as-broker"})
#: What needs no option. It removes no valid record.
UNASKED: Final = frozenset(CureKind) - OPTIONS.keys()
#: What removes no record at all, corrupt or not, but the fragment of one that was never complete.
LOSSLESS: Final = UNASKED | {CureKind.REPLICA}
#: What moves valid records aside. A leader has them, or log recovery would remove them as well.
_REMOVE_VALID: Final = frozenset({CureKind.REFETCH, CureKind.AS_BROKER})
#: Why a partition is left, or a part of it is.
_EXCLUDED: Final = "--only leaves its cure out"
_LATER: Final = "its log is repaired once the checkpoint files are readable"
_NOT_ALL: Final = "no replica has all that is corrupt or missing"


@frozen
class CureOptions:
    """The cures that are allowed: from ``replicas``, ``as_broker``, and ``only`` of these kinds.

    ``refetch``: partitions are left to their leaders, where others are in sync by the newest of the
    metadata logs at ``metadata``, or by the user (``others_in_sync``).
    ``only_copy``: no other replica has these records, so that corrupt ones are dropped.
    ``config`` is the path of a server.properties, None without one.
    """

    replicas: tuple[AnyPath, ...] = ()
    refetch: bool = False
    metadata: tuple[AnyPath, ...] = ()
    others_in_sync: bool = False
    only_copy: bool = False
    as_broker: bool = False
    only: Collection[CureKind] = ()
    config: Path | None = None

    def allow(self, kind: CureKind) -> bool:
        """Return whether a cure of ``kind`` may be planned."""
        if self.only and kind not in self.only:
            return False
        given = {
            CureKind.REPLICA: bool(self.replicas),
            CureKind.REFETCH: self.refetch,
            CureKind.DROP: self.only_copy,
            CureKind.AS_BROKER: self.as_broker,
        }
        return kind in UNASKED or given[kind]


def options_of(arguments: Sequence[str]) -> CureOptions:
    """Return the options that ``arguments`` of a repair spell, which a journal has.

    Raises ValueError.
    """
    options, words, flags = CureOptions(), iter(arguments), set[str]()
    for word in words:
        if word in _FLAGS:
            flags.add(word)
            continue
        value = next(words, None)
        match word:
            case "--from" if value:
                options = replace(options, replicas=(*options.replicas, as_path(value)))
            case "--metadata" if value:
                options = replace(options, metadata=(*options.metadata, as_path(value)))
            case "--only":
                options = replace(options, only=(*options.only, CureKind(value)))
            case "--config" if value:
                options = replace(options, config=Path(value))
            case "--topic" | "--exclude" if value is not None:
                pass  # the partitions are in the journal
            case _:
                raise ValueError(printable(word))
    return replace(
        options,
        refetch="--refetch" in flags,
        others_in_sync="--others-in-sync" in flags,
        only_copy="--only-copy" in flags,
        as_broker="--as-broker" in flags,
    )


@frozen
class PlannedCure:
    """The cure of the partition at ``path``: the id of its plan, and what it loses and takes.

    ``new_bytes``, ``tail_bytes`` and ``notes`` are those of the plan. ``log_directory`` holds the
    partition.
    """

    path: Path
    log_directory: Path
    kind: CureKind
    plan_id: str
    loss: Loss
    new_bytes: int
    tail_bytes: int
    notes: tuple[str, ...]

    @property
    def refetched(self) -> bool:
        """Whether the broker fetches the partition again."""
        return self.kind is CureKind.REFETCH


@frozen
class LeftPartition:
    """A partition that stays as it is, or is repaired in part: why, and what helps.

    It may also be a file of a log directory, or the directory itself, if these have an error.
    A partition that a plan repairs in part has a ``PlannedCure`` too.

    ``options`` of this command would allow a cure. ``command`` is another one that helps.
    """

    path: AnyPath
    reason: str
    options: tuple[str, ...] = ()
    command: Remedy | None = None


@dataclass(frozen=True)
class RepairPlan:
    """The cures of the partitions of log directories, and those that are left.

    ``arguments`` are the options that decide. ``whole`` counts the partitions with nothing to do,
    ``examined`` all of them. ``metadata`` is the metadata log that says which replicas are in sync,
    None without one.
    """

    arguments: tuple[str, ...]
    cures: tuple[PlannedCure, ...]
    left: tuple[LeftPartition, ...]
    whole: int
    examined: int
    metadata: MetadataCopy | None

    @cached_property
    def id(self) -> str:
        """Its name: a digest of the plans of all partitions."""
        fields = [[cure.path.name, cure.kind.value, cure.plan_id] for cure in self.cures]
        text = json.dumps([self.arguments, fields], separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    @property
    def lossy(self) -> bool:
        """Whether records are lost, so that it needs its id as consent."""
        return any(cure.loss for cure in self.cures)

    @cached_property
    def untouched(self) -> tuple[LeftPartition, ...]:
        """Those partitions of ``left`` that have no cure."""
        cured = {cure.path for cure in self.cures}
        return tuple(partition for partition in self.left if partition.path not in cured)

    @property
    def losing(self) -> tuple[PlannedCure, ...]:
        """The cures that lose records; a leader has those of a partition that is refetched."""
        return tuple(cure for cure in self.cures if cure.loss and not cure.refetched)

    @property
    def sound(self) -> Span:
        """The valid records that are lost."""
        return sum((cure.loss.sound for cure in self.losing), Span())

    @property
    def refetched(self) -> Span:
        """The valid records that are moved aside, and that a leader has, as it has corrupt ones."""
        return sum((cure.loss.sound for cure in self.cures if cure.refetched), Span())

    @property
    def unreadable(self) -> Span:
        """The corrupt records that are removed, and that no leader is known to have."""
        return sum((cure.loss.unreadable for cure in self.losing), Span())


class CurePlanner:
    """Plans the cures of partitions in ``context`` as far as ``options`` allow them.

    The plans of ``hosts`` include the checkpoint files of their log directories. ``metadata`` is
    the newest of the metadata logs of ``options``.
    """

    def __init__(
        self,
        context: Context,
        options: CureOptions,
        hosts: Collection[Path],
        metadata: MetadataCopy | None,
    ) -> None:
        self._context, self._options, self._hosts = context, options, hosts
        self._metadata = metadata

    def plan(
        self, verdict: Verdict, report: Callable[[int], None], *, shortened: Collection[str] = ()
    ) -> tuple[tuple[CureKind, Plan] | None, LeftPartition | None]:
        """Return the cure of a partition with its plan, and what it leaves; None for nothing.

        ``verdict`` has its evidence, with rebuilt indexes. ``report`` gets counts of bytes that are
        read. ``shortened`` are logs whose indexes an earlier cure has left without the entries
        after its first change: they are right, and slow. Raises SourceError, Refused.
        """
        if verdict.target.error is not None:
            raise verdict.target.error
        path, diagnosis = verdict.target.path, cures_of(verdict)
        kinds = [kind for kind in diagnosis.cures if self._options.allow(kind)]
        hosted = self._checkpoints(verdict)
        first = hosted is not None and bool(unreadable_checkpoints(hosted))
        if first or (not kinds and shortened):  # the plans of others need readable checkpoints
            kinds = [kind for kind in [CureKind.REBUILD] if self._options.allow(kind)] or kinds
        why_not: str | None = None
        for kind in kinds:
            try:
                plan, why_part = self._plan(kind, verdict, report, shortened)
            except NoField as none:
                if diagnosis.left is None and not {*kinds} - {CureKind.FIELD}:
                    why_not = str(none)
                continue
            except (Refused, UsageError) as refused:
                why_not = str(refused)
                if kind is CureKind.REPLICA and not isinstance(refused, NoReplica):
                    break  # what follows would remove records that another replica may give
                continue
            if plan.loss.sound and kind not in _REMOVE_VALID:
                why_not = "more than corrupt records would be removed"
            elif plan.steps:
                if kind is CureKind.REBUILD:  # it changes no log
                    logs = {*diagnosis.cures} - {kind}
                    why_part = diagnosis.left or (_EXCLUDED if logs else None)
                    if first and any(map(self._options.allow, logs)):
                        why_part = _LATER
                rest = None if why_part is None else self._left(path, diagnosis, why_part)
                return (kind, plan), rest
            elif COMPACTED_NOTE in plan.notes:
                why_not = COMPACTED_NOTE
                break  # a replica may have what follows would remove
            else:
                why_not = why_not or next(iter(plan.notes), None)
        if not diagnosis.cures and diagnosis.left is None:
            return None, None
        return None, self._left(path, diagnosis, why_not or diagnosis.left or _EXCLUDED)

    def _left(self, path: AnyPath, diagnosis: Diagnosis, reason: str) -> LeftPartition:
        options = tuple(
            option
            for kind, option in OPTIONS.items()
            if kind in diagnosis.cures and not self._options.allow(kind)
        )
        return LeftPartition(path, reason, options, diagnosis.command)

    def _checkpoints(self, verdict: Verdict) -> DirectoryFacts | None:
        """Return the log directory whose checkpoint files belong to the plan of a partition."""
        hosted = as_local(verdict.target.path) in self._hosts
        return verdict.target.directory if hosted else None

    def _plan(
        self,
        kind: CureKind,
        verdict: Verdict,
        report: Callable[[int], None],
        shortened: Collection[str],
    ) -> tuple[Plan, str | None]:
        """Return the plan of one cure, as its own command makes it, and why it is one in part.

        Raises as these commands do.
        """
        context, config = self._context, self._options.config
        words = () if config is None else ("--config", str(config))
        if kind is CureKind.REBUILD:
            plan = plan_reindex(
                verdict,
                every=False,
                settings=context.settings(verdict.target),
                node=context.node(verdict.target),
                checkpoints=self._checkpoints(verdict),
                logs=shortened,
                arguments=words,
            )
            return plan, None
        if kind is CureKind.FIELD:
            return self._plan_fields(verdict, report)
        if kind is CureKind.REPLICA:
            replicas = self._options.replicas
            given = (word for copy in replicas for word in ("--from", typed_text(copy)))
            healed = plan_heal(
                verdict,
                replicas,
                settings=context.settings(verdict.target),
                node=context.node(verdict.target),
                arguments=(*given, *words),
                report=report,
            )
            return healed.plan, None if healed.complete else _NOT_ALL
        if kind is CureKind.REFETCH:
            other = _same_elsewhere(context, verdict.target.path)
            if other is not None:
                raise Refused(f"{verdict.target.path}: expected it alone, found {other} too")
            evidence = others_in_sync(
                partition_facts(verdict),
                context.node(verdict.target),
                self._metadata,
                by_user=self._options.others_in_sync,
            )
            return plan_refetch(verdict, evidence=evidence), None
        if kind is CureKind.DROP:
            settings = context.settings(verdict.target)
            return plan_drop(verdict, settings=settings, report=report), None
        return plan_truncate(verdict, at=None, arguments=words), None

    def _plan_fields(
        self, verdict: Verdict, report: Callable[[int], None]
    ) -> tuple[Plan, str | None]:
        """Return the plan that sets wrong fields, and why more is to do that does not follow it."""
        settings, node = self._context.settings(verdict.target), self._context.node(verdict.target)
        replicas = self._options.replicas
        mended = plan_fields(verdict, replicas, settings=settings, node=node, report=report)
        after = mended.after
        again = judge(after.target, after.surveys, after.facts, self._context)
        new = _errors(again) - _errors(verdict)
        if new:
            raise NoField(f"{verdict.target.path}: its fields cannot be set: {min(new)} follows")
        rest = cures_of(again)
        follows = any(map(self._options.allow, {*rest.cures} & LOSSLESS - {CureKind.FIELD}))
        return mended.plan, None if follows else rest.left


def _errors(verdict: Verdict) -> set[str]:
    return {each.code.name for each in verdict.findings if each.code.severity is Severity.ERROR}


def _same_elsewhere(context: Context, path: AnyPath) -> AnyPath | None:
    """Return the directory of the same partition in another log directory of its node, if any."""
    for group in context.siblings:
        for paths in copies(group) if group[1:] else ():
            if path in paths:
                return next(other for other in paths if other != path)
    return None


def _after_checkpoints(
    targets: Collection[Target], context: Context, hosting: Mapping[Path, DirectoryFacts]
) -> Collection[Target]:
    """Return targets as they are once the first plan has rewritten unreadable checkpoint files."""
    readable: dict[AnyPath, DirectoryFacts] = {}
    for facts in hosting.values():
        if unreadable_checkpoints(facts):
            with suppress(SourceError):  # the plan of the host says it
                node = context.node_of(facts)
                readable[facts.directory.path] = with_readable_checkpoints(facts, node)

    def after(target: Target) -> Target:
        if target.directory is None or as_local(target.path) in hosting:
            return target
        place = target.directory.directory.path
        return replace(target, directory=readable.get(place, target.directory))

    return [after(target) for target in targets] if readable else targets


def plan_repair(
    targets: Collection[Target],
    context: Context,
    options: CureOptions,
    *,
    arguments: tuple[str, ...],
    jobs: int,
    report: Callable[[int], None],
    planned: Callable[[CureKind, Plan], None],
) -> RepairPlan:
    """Return the cures of all ``targets``, which are partitions of log directories.

    ``planned`` is called with the plan of each partition. ``report`` gets counts of bytes that are
    read. Reads all logs with ``jobs`` workers. Raises UsageError, SourceError for a wrong path of a
    metadata log.
    """
    metadata = newest_copy(options.metadata)
    hosting = hosts(targets)
    planner = CurePlanner(context, options, hosting, metadata)
    if options.allow(CureKind.REBUILD):
        targets = _after_checkpoints(targets, context, hosting)
    cures: list[PlannedCure] = []
    left: list[LeftPartition] = []
    rewritten: set[AnyPath] = set()
    whole = 0
    for verdict in verdicts(targets, context, jobs=jobs, report=report):
        try:
            found, rest = planner.plan(verdict, report)
        except KdumpError as error:
            found, rest = None, LeftPartition(verdict.target.path, str(error))
        if found is not None:
            kind, plan = found
            planned(kind, plan)
            directory = log_directory_of(verdict.target)
            assert directory is not None
            rewritten.update(directory / step.checkpoint for step in plan.rewrites)
            cures.append(
                PlannedCure(
                    plan.partition,
                    directory,
                    kind,
                    plan.id,
                    plan.loss,
                    plan.new_bytes,
                    plan.tail_bytes,
                    plan.notes,
                )
            )
        if rest is not None:
            left.append(rest)
        whole += found is None and rest is None
    left += (fault for fault in directory_faults(context) if fault.path not in rewritten)
    return RepairPlan(arguments, tuple(cures), tuple(left), whole, len(targets), metadata)


def directory_faults(context: Context) -> Iterator[LeftPartition]:
    """Yield the errors of the log directories themselves, which no cure removes."""
    for finding in judge_directories(context):
        if finding.code.severity is Severity.ERROR:
            yield LeftPartition(finding.path, why_left(finding), command=finding.remedy)


def verdicts(
    targets: Collection[Target],
    context: Context,
    *,
    jobs: int,
    report: Callable[[int], None],
    close_descriptors: Collection[int] = (),
) -> Generator[Verdict, None, None]:
    """Yield the verdict of each target, which was read whole, with rebuilt indexes.

    Workers close ``close_descriptors``.
    """
    stopped = [replace(target, stopped=True) for target in targets]
    found = verify(
        stopped,
        deep=False,
        jobs=jobs,
        context=context,
        rebuild=True,
        conclude=with_forecast,
        on_progress=report,
        close_descriptors=close_descriptors,
    )
    with closing(found):
        yield from found
