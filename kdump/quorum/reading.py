"""Reads the copies at the paths of a command.

Spec: ``KafkaRaftServer.initializeLogDirs``, ``RaftManager``: the metadata log lies in
``metadata.log.dir``, or in the first of ``log.dirs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

from kdump.audit.checks.broker_rights import BROKER_DENIED
from kdump.audit.checks.meta_properties import META_PROPERTIES_MISSING, META_PROPERTIES_UNREADABLE
from kdump.audit.checks.metadata import METADATA_END_MISSING
from kdump.audit.checks.node import BOOTSTRAP_MALFORMED
from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.findings import Finding
from kdump.audit.judge import judge_directories
from kdump.audit.run.verify import verify
from kdump.audit.startup.room import space_findings
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Root, Target, assign
from kdump.audit.verdicts.next_start import add_forecast
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import ForeignDirectoryError, SourceError, UsageError
from kdump.metadata.log import metadata_partition
from kdump.quorum.batches import read_batches, read_snapshot_entries
from kdump.quorum.replica import MetadataReplica, Refusal
from kdump.quorum.voter_set import VoterSet, static_voters
from kdump.storage.logdir import LogDirectory, Partition, directory_name, is_metadata_log
from kdump.storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES
from kdump.storage.paths import AnyPath, scan
from kdump.storage.throttle import Pace
from kdump.values import frozen

#: The findings of a log directory that stop a controller too, which loads no other partitions.
_STOP_CONTROLLERS: Final = frozenset(
    {
        META_PROPERTIES_UNREADABLE,
        META_PROPERTIES_MISSING,
        BOOTSTRAP_MALFORMED,
        BROKER_DENIED,
    }
)


@frozen
class Configuration:
    """What a node's ``server.properties`` says about the quorum; ``node_id`` is None if not set."""

    node_id: int | None
    roles: tuple[str, ...]
    voters: VoterSet | None

    @classmethod
    def of(cls, configs: Configs) -> Configuration:
        """Read the settings. Raises DecodeError for malformed voters."""
        node_id = configs.get("node.id", configs.get("broker.id", "")).strip()
        roles = configs.get("process.roles", "").split(",")
        return cls(
            int(node_id) if node_id.isascii() and node_id.isdecimal() else None,
            tuple(filter(None, map(str.strip, roles))),
            static_voters(configs.get("controller.quorum.voters", "")),
        )


def read_replicas(
    roots: Iterable[Root],
    configs: Configs | None,
    *,
    jobs: int,
) -> Iterator[MetadataReplica]:
    """Yield the copy at each of ``roots``.

    The voters of ``configs`` count for all copies, its roles for those of its node. ``jobs``
    processes read a log, one beside a broker. Raises UsageError for a root that is something else.
    """
    configuration = None if configs is None else Configuration.of(configs)
    for root in roots:
        yield read_replica(root, configuration, jobs=jobs if root.stopped else 1)


def read_replica(
    root: Root, configuration: Configuration | None, *, jobs: int, pace: Pace | None = None
) -> MetadataReplica:
    """Return the copy of a log directory or of its metadata partition.

    ``jobs`` processes read the log at ``pace``. Raises UsageError for a root that is something
    else.
    """
    static = None if configuration is None else configuration.voters
    if isinstance(root.content, SourceError):
        return _without_log(root, static, root.content)
    target = _find(root)
    directory = root.directory
    meta = None if directory is None else directory.identity
    refusals = list(_directory_refusals(root))
    roles: tuple[str, ...] = ()
    if configuration is not None and meta is not None:
        known = configuration.node_id
        roles = configuration.roles if known in (None, meta.node_id) else ()
    verdict = None if target is None else _verify(target, jobs, pace)
    replica = MetadataReplica(
        root.path,
        None if target is None else target.path,
        root.liveness,
        meta,
        roles,
        static,
        refusals=tuple(refusals),
    )
    if verdict is None:
        return replica
    facts = verdict.facts
    if facts is None:
        failed = verdict.target.error
        return replace(replica, errors=() if failed is None else (failed,))
    segments = facts.partition.segments
    batches = read_batches(segments, pace)
    state = facts.quorum_state
    unread = [] if state is None or not isinstance(state.error, SourceError) else [state.error]
    return replace(
        replica,
        quorum_state=state,
        snapshots=facts.metadata_snapshots,
        recorded=tuple(
            read_snapshot_entries(snapshot.path, snapshot.end_offset, snapshot.epoch)
            for snapshot in facts.metadata_snapshots
            if snapshot.fault is None
        ),
        log=batches,
        first_base=segments[0].base_offset if segments else None,
        cuts=() if verdict.forecast is None else verdict.forecast.cuts,
        reached=_reached(verdict),
        refusals=(*refusals, *_log_refusals(verdict), *_space_refusals(directory, verdict)),
        errors=(*batches.errors, *unread),
    )


def _reached(verdict: Verdict) -> int | None:
    """Return the offset up to which a log went once, None if it ends there."""
    for finding in verdict.findings:
        if finding.code is METADATA_END_MISSING and finding.offsets is not None:
            last = finding.offsets.last
            return None if last is None else last + 1
    return None


def _without_log(root: Root, static: VoterSet | None, error: SourceError) -> MetadataReplica:
    """Return the copy of a path that cannot be opened; an empty directory is a lost disk."""
    replica = MetadataReplica(root.path, static=static)
    if is_lost_disk(root):
        return replace(replica, refusals=(Refusal("the directory is empty", root.path),))
    return replace(replica, errors=(error,))


def is_lost_disk(root: Root) -> bool:
    """Return whether a root is an empty directory or file system: a disk that was replaced."""
    if not isinstance(root.content, ForeignDirectoryError):
        return False
    try:
        with scan(root.path) as entries:
            return all(entry.name == "lost+found" for entry in entries)
    except OSError:
        return False


def metadata_log(root: Root) -> AnyPath | None:
    """Return the path of the metadata log in a log directory, or at its path; None without one."""
    if isinstance(root.content, LogDirectory):
        return metadata_partition(root.content)
    if isinstance(root.content, Partition) and is_metadata_log(root.content):
        return root.content.path
    return None


def _find(root: Root) -> Target | None:
    """Return the metadata log of a root, None if the log directory has none."""
    path = metadata_log(root)
    if path is None and not isinstance(root.content, LogDirectory):
        raise UsageError(
            f"{root.path}: expected a log directory or its {CLUSTER_METADATA_TOPIC}-0, found "
            "something else of a broker"
        )
    return next((target for target in assign(root) if target.path == path), None)


def _verify(target: Target, jobs: int, pace: Pace | None) -> Verdict:
    def conclude(verdict: Verdict) -> Verdict:
        return add_forecast(verdict, segments=True)

    found = verify(
        [target],
        deep=False,
        jobs=jobs,
        context=Context(0),
        conclude=conclude,
        pace=pace,
    )
    with closing(found):
        return next(found)


def _directory_refusals(root: Root) -> Iterator[Refusal]:
    directory = root.directory
    if directory is None or META_PROPERTIES not in _names(directory):
        yield Refusal(
            f"{META_PROPERTIES} is missing: the directory is not formatted",
            root.path,
            META_PROPERTIES_MISSING.name,
        )
    if directory is None:
        return
    serves = any(
        (name := directory_name(path)) is not None and name.topic != CLUSTER_METADATA_TOPIC
        for path in directory.directory.partition_paths
    )
    context = Context(0, siblings=((directory,),))
    for finding in judge_directories(context):
        missing = finding.code is META_PROPERTIES_MISSING
        stops = finding.code.stops is not None and (serves or finding.code in _STOP_CONTROLLERS)
        if stops and not missing:
            yield _refusal(finding)


def _names(directory: DirectoryFacts) -> frozenset[str]:
    return frozenset(entry.name.name for entry in directory.directory.entries)


def _log_refusals(verdict: Verdict) -> Iterator[Refusal]:
    """Yield the reasons in the metadata log for which no start succeeds."""
    reported = set()
    for finding in verdict.findings:
        if finding.code.stops is not None:
            reported.add(finding.path)
            yield _refusal(finding)
    for cause in () if verdict.forecast is None else verdict.forecast.causes:
        if cause.path not in reported:
            yield Refusal(cause.text, cause.path)


def _space_refusals(directory: DirectoryFacts | None, verdict: Verdict) -> Iterator[Refusal]:
    """Yield a reason where the metadata log alone needs more space than there is."""
    if directory is not None and verdict.forecast is not None:
        for finding in space_findings([(directory, verdict.forecast.room)]):
            if finding.code.stops is not None:
                yield _refusal(finding)


def _refusal(finding: Finding) -> Refusal:
    detail = "" if finding.detail is None else f": {finding.detail}"
    return Refusal(f"{finding.code.name}{detail}", finding.path, finding.code.name)
