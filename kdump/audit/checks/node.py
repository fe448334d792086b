"""Checks of the log directories of one node together: places, replicas, ``bootstrap.checkpoint``.

Spec: ``LogManager``, ``BootstrapDirectory``; KOD 9, checks 26, 28.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

from kdump.audit.checks import metadata
from kdump.audit.evidence import NodeEvidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.metadata_log import is_emptied
from kdump.audit.facts.own_replicas import renamed, served, set_aside, unlisted_replicas
from kdump.audit.facts.remote_cache import CacheFault, cache_fault
from kdump.audit.facts.settings import named_directories
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.finding_code import FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.audit.targets.context import all_in_sight
from kdump.audit.targets.node_directories import copies
from kdump.errors import DecodeError, SourceError
from kdump.format.properties import MetaProperties
from kdump.storage.logdir import DirectoryEntry, EntryType, LogDirectory
from kdump.storage.names import (
    CLUSTER_METADATA_TOPIC,
    REMOTE_INDEX_CACHE,
    DirectoryName,
    format_directory_name,
    is_aside_of,
    parse_directory_name,
)
from kdump.storage.paths import AnyPath
from kdump.storage.repair_record import MOVE, repair_records

PARTITION_TWICE: Final = FindingCode(
    "partition-twice",
    Severity.ERROR,
    "Two directories hold the same partition: a move between log directories was interrupted, or a "
    "directory was copied.",
    "The broker does not start while both are there.",
    "Keep the directory whose last batch has the higher leader epoch or, if these are equal, the "
    "one with the higher log end offset, and move the other one out of the log directory. kdump "
    "verify and kdump dump show both.",
    check=29,
    stops=Outcome.REFUSES,
)
REPLICA_MISSING: Final = FindingCode(
    "replica-missing",
    Severity.WARNING,
    "The directory of a partition is missing, although the cluster's metadata names this node as a "
    "replica, and the replica had a log: a checkpoint has a line for it, or it was in sync, or the "
    "log directory has no partition at all. It was removed, or it is on a file system that is not "
    "mounted.",
    "The broker creates an empty replica, which fetches all records from the leader.",
    "If this was not intended, bring the directory back before the broker starts. Otherwise make "
    "sure that another replica is in sync.",
    check=26,
)
REPLICA_MISSING_ONLY: Final = FindingCode(
    "replica-missing-only",
    Severity.ERROR,
    "The directory of a partition is missing, although the cluster's metadata names this node as a "
    "replica, and the replica had a log: a checkpoint has a line for it, or it was in sync. No "
    "other replica may become leader: this node has the only replica, or the only in-sync replica, "
    "or, while none is in sync, the only replica in the ELR.",
    "The broker creates an empty replica and leads it: offsets are assigned a second time, "
    "starting at 0, and other replicas truncate their logs.",
    "Bring the directory back before the broker starts, from a backup if necessary.",
    check=26,
    harm=Harm.EMPTY,
)
REPLICA_MOVED: Final = FindingCode(
    "replica-moved",
    Severity.WARNING,
    "The directory of a partition is not in sight, and kdump move has left its backup here: the "
    "partition is in another log directory. The cluster's metadata does not know that yet.",
    "The broker finds the partition in the other log directory if log.dirs names it, and tells "
    "the controller. Otherwise it creates an empty replica.",
    "Name the other log directory too, or the broker's server.properties with --config.",
    check=26,
)
LOG_DIRECTORY_EMPTIED: Final = FindingCode(
    "log-directory-emptied",
    Severity.ERROR,
    "The log directory holds no partition, although its checkpoints have lines of some. A broker "
    "removes the lines of partitions that are deleted or moved: these were removed otherwise, or "
    "are on a file system that is not mounted. No metadata log in sight says which of them belong "
    "to this node.",
    "The broker creates its replicas again, empty. A follower fetches all records again. A leader "
    "assigns offsets a second time, starting at 0.",
    "Bring the partitions back before the broker starts, from a backup if necessary.",
    check=26,
    harm=Harm.EMPTY,
)
METADATA_LOG_MISPLACED: Final = FindingCode(
    "metadata-log-misplaced",
    Severity.ERROR,
    "The directory __cluster_metadata-0 is not in the log directory that the configuration names "
    "for it: metadata.log.dir, or the first of log.dirs.",
    "The broker does not start.",
    "Set metadata.log.dir to the log directory that holds __cluster_metadata-0.",
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_TWICE: Final = FindingCode(
    "log-directory-twice",
    Severity.ERROR,
    "The configuration names the same log directory twice, for example through a symbolic link.",
    "The broker does not start.",
    "Remove one of the two from log.dirs.",
    stops=Outcome.REFUSES,
)
METADATA_LOG_FILE: Final = FindingCode(
    "metadata-log-file",
    Severity.ERROR,
    "A file, or a symbolic link to nothing, has the name __cluster_metadata-0.",
    "The broker does not start.",
    "If it is a link, mount the file system that it leads to; otherwise restore the directory. An "
    "empty one lacks the cluster's metadata.",
    check=28,
    stops=Outcome.REFUSES,
)
PARTITION_IS_FILE: Final = FindingCode(
    "partition-is-file",
    Severity.ERROR,
    "A file, or a symbolic link to nothing, has the name of a replica that the cluster's metadata "
    "assigns to this log directory.",
    "The broker tries to create the replica's directory, and takes the whole log directory "
    "offline. It exits if it has no other log directory.",
    "If it is a link, mount the file system that it leads to; otherwise put the directory back. If "
    "there is none, move the file away: the broker then creates the replica empty.",
    check=28,
    stops=Outcome.OFFLINE,
)
BOOTSTRAP_MALFORMED: Final = FindingCode(
    "bootstrap-malformed",
    Severity.ERROR,
    "A bootstrap.checkpoint does not follow its format, or has no metadata.version.",
    "The broker does not start.",
    "If __cluster_metadata-0 holds records, move the file away: the broker does not need it. "
    "Otherwise copy it from another controller.",
    stops=Outcome.REFUSES,
)
REMOTE_CACHE_DAMAGED: Final = FindingCode(
    "remote-cache-damaged",
    Severity.ERROR,
    "The directory remote-log-index-cache is a file, or holds a corrupt index or a file that does "
    "not belong there. It caches the indexes of segments in remote storage.",
    "A broker with remote storage does not start. Without remote storage, the broker does not "
    "read the directory.",
    "Move remote-log-index-cache away. The broker creates the directory again, and fetches the "
    "indexes when it needs them.",
    stops=Outcome.REFUSES,
)

#: Where a replica may be that no log directory in sight has.
_UNSEEN: Final = (
    "a log directory with an unknown directory id, as before its first startup, is not in sight: "
    "if kdump move took it there, name that log directory too"
)

_METADATA_VERSION: Final = "metadata.version"
#: The highest level that a release registers, with the highest that it knows: those of 3.9 and 4.0,
#: which read the level in bootstrap.checkpoint at each start (``BootstrapMetadata.fromRecords``).
_KNOWN_LEVELS: Final = {21: 23, 25: 26}


def check_places(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the log directories of the configuration: the one of the metadata log, and repeats."""
    for path, first in evidence.repeated:
        expected = "log directories that differ"
        yield file_finding(LOG_DIRECTORY_TWICE, first, expected, f"{path} again")
    if evidence.metadata_directory is None:
        return
    for facts in evidence.directories:
        holds = facts.meta is not None and facts.has_metadata_log
        if holds and facts.directory.path != evidence.metadata_directory:
            yield file_finding(
                METADATA_LOG_MISPLACED,
                facts.directory.path / format_directory_name(CLUSTER_METADATA_TOPIC, 0),
                f"the metadata log in {evidence.metadata_directory}",
                "it here",
            )


def check_remote_cache(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check remote-log-index-cache, which a start with remote storage reads."""
    for facts in evidence.directories:
        for entry in facts.directory.entries:
            if entry.name.name != REMOTE_INDEX_CACHE or not evidence.stopped:
                continue
            if not _has_remote_storage(evidence, facts, entry):
                continue
            fault = (
                cache_fault(entry.path)
                if entry.type is EntryType.DIRECTORY
                else CacheFault(entry.path, "a directory", "a file")
            )
            if fault is not None:
                yield file_finding(REMOTE_CACHE_DAMAGED, fault.path, fault.expected, fault.found)


def _has_remote_storage(
    evidence: NodeEvidence, facts: DirectoryFacts, entry: DirectoryEntry
) -> bool:
    """Return whether a start reads the cache in this directory, as far as known.

    It is in the first of log.dirs. Only a broker with remote storage makes the directory.
    """
    if evidence.config is not None:
        enabled = evidence.config.get("remote.log.storage.system.enable", "").strip().lower()
        first = next(iter(named_directories(evidence.config)), None)
        return enabled == "true" and first in (None, facts.directory.path)
    image = evidence.node.image
    if entry.type is EntryType.DIRECTORY:
        return True
    return image is not None and any(
        configs.get("remote.storage.enable", "").lower() == "true"
        for configs in image.topic_configs.values()
    )


def check_partition_names(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report files and dangling links that have the name of a replica's directory."""
    for facts in evidence.directories:
        for entry in facts.directory.entries:
            name = parse_directory_name(entry.name.name)
            if entry.type is EntryType.DIRECTORY or name is None or name.suffix:
                continue
            expected, found = "a directory", "a file, or a link to nothing"
            if name.topic == CLUSTER_METADATA_TOPIC:
                if evidence.metadata_directory in (None, facts.directory.path):
                    yield file_finding(METADATA_LOG_FILE, entry.path, expected, found)
            elif _is_placed(evidence.node, name, facts.identity):
                yield file_finding(PARTITION_IS_FILE, entry.path, expected, found)


def _is_placed(node: Node, name: DirectoryName, meta: MetaProperties | None) -> bool:
    """Return whether the cluster assigns a partition to this log directory of the node."""
    directory_id = None if meta is None else meta.directory_id
    return node.other_replicas(name.topic, name.partition, directory_id) is not None


def check_bootstrap(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the form of bootstrap.checkpoint, which a KRaft node reads beside its metadata log."""
    directories = evidence.directories
    if not any(facts.is_kraft for facts in directories):
        return
    for facts in [each for each in directories if each.has_metadata_log] or directories[:1]:
        if facts.bootstrap is not None and isinstance(facts.bootstrap.error, DecodeError):
            yield file_finding(
                BOOTSTRAP_MALFORMED,
                facts.bootstrap.path,
                "metadata records, with a record of metadata.version",
                f"an error: {facts.bootstrap.error}",
            )
        elif facts.bootstrap is not None and isinstance(facts.bootstrap.value, int):
            yield from _unknown_level(evidence, facts.bootstrap.path, facts.bootstrap.value)


def _unknown_level(evidence: NodeEvidence, path: AnyPath, level: int) -> Iterator[Finding]:
    """Report a level of metadata.version that the release of the node refuses in this file."""
    image, node = evidence.node.image, evidence.node.node_id
    if image is None or node is None or not evidence.stopped:
        return
    _, highest = image.supported.get(node, {}).get(_METADATA_VERSION, (0, 0))
    known = _KNOWN_LEVELS.get(highest)
    if known is not None and level > known:
        expected = f"a level of {_METADATA_VERSION} up to {known}, as node {node} knows it"
        yield file_finding(metadata.FEATURE_UNSUPPORTED, path, expected, str(level))


def check_twice(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report partitions that are in two directories of one node."""
    for paths in copies(evidence.directories):
        counted = [path for path in paths if path not in evidence.strays]
        for path in counted[1:]:
            expected = f"a single directory of {path.name}"
            yield file_finding(PARTITION_TWICE, path, expected, f"a second directory: {counted[0]}")


def check_missing_replicas(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report replicas that the cluster assigns to this node, and that are in no directory.

    They have a line in a checkpoint, or certainly had a log. A line alone may be of a partition
    that was deleted or moved away. A replica that was never created has no line.
    """
    directories = evidence.directories
    if not evidence.stopped:
        return
    listed = [*(facts.directory for facts in directories), *evidence.beyond]
    existing = set(chain.from_iterable(map(served, listed)))
    existing |= set_aside(listed, evidence.node, existing).keys()
    configured = all_in_sight(evidence.config, (each.path for each in listed))
    unlisted = unlisted_replicas(directories, evidence.node, existing, configured=configured)
    backups = [] if configured else [path for each in listed for path in _move_backups(each)]
    # A line may be of a topic that was deleted, and the new one of its name not yet be here.
    deleted = set(chain.from_iterable(map(renamed, listed)))
    for facts in directories:
        if evidence.node.image is None and is_emptied(facts):
            expected = "the partitions that its checkpoints list"
            yield file_finding(LOG_DIRECTORY_EMPTIED, facts.directory.path, expected, "none")
        read = next((read for read in facts.checkpoints if read.value is not None), None)
        if read is not None and read.value is not None:
            missing = sorted(read.value.keys() - existing - deleted)
            existing.update(missing)
            yield from _missing_replicas(facts, missing, evidence, backups, read.path)
    for facts in directories:
        missing = sorted(unlisted[facts.directory.path] - existing)
        yield from _missing_replicas(facts, missing, evidence, backups)


def _move_backups(directory: LogDirectory) -> Iterator[AnyPath]:
    """Yield the backups of partitions that ``kdump move`` has taken to another log directory.

    A copy that is not finished has the record of its move in it.
    """
    for path in directory.set_aside:
        with suppress(SourceError):
            if not any(record.command == MOVE for record in repair_records(path)):
                yield path


def _missing_replicas(
    facts: DirectoryFacts,
    missing: Sequence[tuple[str, int]],
    evidence: NodeEvidence,
    backups: Sequence[AnyPath],
    listed_in: AnyPath | None = None,
) -> Iterator[Finding]:
    """Report replicas that are missing in a log directory, and ``listed_in`` a checkpoint of it.

    Without a checkpoint the finding names the directory of a single one, else the log directory.
    Of a partition that was moved it names the backup, one of ``backups``.
    """
    meta, node = facts.identity, evidence.node
    names_by_code: dict[FindingCode, list[str]] = defaultdict(list)
    for topic, partition in missing:
        others = node.other_replicas(topic, partition, None if meta is None else meta.directory_id)
        if others is None:
            continue
        name = format_directory_name(topic, partition)
        expected = _expected_text(name, node)
        backup = next((path for path in backups if is_aside_of(path.name, name)), None)
        if backup is not None:
            found = "its backup: the log directory that kdump move took it to is not in sight"
            yield file_finding(REPLICA_MOVED, backup, expected, found)
            continue
        alone = not others or node.leads_alone(topic, partition)
        names_by_code[REPLICA_MISSING_ONLY if alone else REPLICA_MISSING].append(name)
    # The metadata knows no log directory before a broker has run with it.
    found = "none" if evidence.config is not None else f"none; {_UNSEEN}"
    for code, names in names_by_code.items():
        path = facts.directory.path if names[1:] else facts.directory.path / names[0]
        expected = _expected_text(names[0], node)
        yield file_finding(code, listed_in or path, expected, found, repeats=len(names) - 1)


def _expected_text(name: str, node: Node) -> str:
    return f"a directory {name}, for which the cluster names node {node.node_id}"


NODE_CHECKS: Final = (
    check_places,
    check_remote_cache,
    check_partition_names,
    check_bootstrap,
    check_twice,
    check_missing_replicas,
)
