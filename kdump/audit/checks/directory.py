"""Checks of log directories and of the directories of one node together.

Spec: ``LogManager.loadLogs``, ``MetaPropertiesEnsemble.verify``, ``CheckpointFile``; KOD 9, checks
26, 28, 29, 37.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.commands import reindex_command
from kdump.audit.evidence import NodeEvidence
from kdump.audit.facts.assignments import LOST_DIRECTORY, unplaced
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.remote_cache import CacheFault, cache_fault
from kdump.audit.facts.settings import named_directories
from kdump.audit.facts.small_files import DirectoryFacts, Offsets, Read, read_small
from kdump.audit.findings import Finding, file_finding
from kdump.audit.targets.node_directories import copies
from kdump.errors import DecodeError, MissingDirectoryError
from kdump.format.checkpoint import CheckpointNumberError
from kdump.format.properties import (
    MetaProperties,
    decode_meta_properties,
    is_reserved_directory,
)
from kdump.metadata.log import metadata_partition
from kdump.storage.liveness import BrokerState
from kdump.storage.logdir import DirectoryEntry, EntryType, directory_name, has_lines, holds_entries
from kdump.storage.names import (
    CLEAN_MARKER,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    META_PROPERTIES,
    REMOTE_INDEX_CACHE,
    DirectoryName,
    FileKind,
    format_directory_name,
    parse_directory_name,
)
from kdump.storage.objects.remote_path import as_path
from kdump.storage.paths import AnyPath

#: The kinds of file that belong at the top of a log directory; Kafka writes no other kind there.
_TOP_KINDS: Final = frozenset(
    {
        FileKind.OFFSET_CHECKPOINT,
        FileKind.META_PROPERTIES,
        FileKind.CLEAN_MARKER,
        FileKind.LOCK,
        FileKind.BOOTSTRAP_SNAPSHOT,
        FileKind.KDUMP,
    }
)
_KRAFT_VERSION: Final = 1
#: The number of partitions that a finding names.
_NAMED: Final = 3
_METADATA_VERSION: Final = "metadata.version"
#: The highest level that a release registers, with the highest that it knows: those of 3.9 and 4.0,
#: which read the level in bootstrap.checkpoint at each start (``BootstrapMetadata.fromRecords``).
_KNOWN_LEVELS: Final = {21: 23, 25: 26}
_MUST_HAVE: Final = "version, node.id and cluster.id"


# --- one directory


def check_foreign_directories(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report directories at the top that are not partitions."""
    for entry in facts.directory.refused_directories:
        expected = "a directory whose name is a topic, '-' and a partition"
        yield file_finding(codes.FOREIGN_DIRECTORY, entry.path, expected, entry.name.name)


def check_foreign_files(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report temporary files at the top, and files that do not belong to Kafka."""
    for entry in facts.directory.entries:
        if entry.type is EntryType.DIRECTORY:
            continue
        if entry.name.suffix == ".tmp":
            if facts.stopped:
                yield Finding(codes.LEFTOVER_TEMPORARY, entry.path)
        elif entry.name.kind not in _TOP_KINDS:
            yield Finding(codes.FOREIGN_FILE, entry.path)


def check_clean_marker(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report a clean shutdown marker beside a running broker, or one that cannot be removed."""
    if facts.clean_marker and facts.liveness.state is BrokerState.LIVE:
        yield Finding(codes.CLEAN_MARKER_LIVE, facts.directory.path / CLEAN_MARKER)
    for entry in facts.directory.entries:
        directory = entry.type is EntryType.DIRECTORY and entry.name.name == CLEAN_MARKER
        if directory and holds_entries(entry.path):
            expected, found = "a file, or an empty directory", "a directory with entries"
            yield file_finding(codes.CLEAN_MARKER_DIRECTORY, entry.path, expected, found)


def check_checkpoints(facts: DirectoryFacts) -> Iterator[Finding]:
    """Check the form of the four offset checkpoints."""
    # Only the repair of a partition rewrites them.
    hosted = any(map(has_lines, facts.directory.partition_paths))
    for read in _checkpoints(facts):
        if isinstance(read.error, DecodeError):
            found = file_finding(
                _checkpoint_code(read),
                read.path,
                "lines of topic, partition, offset",
                _error_text(read),
            )
            remedy = reindex_command(facts.directory.path) if hosted else found.remedy
            yield replace(found, remedy=remedy)


def check_checkpoint_lines(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report lines of partitions that do not exist; a running broker adds and removes lines."""
    if not facts.stopped:
        return
    names = map(directory_name, facts.directory.partition_paths)
    existing = {(name.topic, name.partition) for name in names if name is not None}
    for read in _checkpoints(facts):
        unknown = sorted(key for key in read.value or () if key not in existing)
        if unknown:
            topic, partition = unknown[0]
            yield file_finding(
                codes.CHECKPOINT_LINE_UNKNOWN,
                read.path,
                "partitions that are in the log directory",
                f"{topic}-{partition}",
                repeats=len(unknown) - 1,
            )


def missing_directory(error: MissingDirectoryError, *, kraft: bool, needed: bool) -> Finding:
    """Return the finding for a missing log directory that the configuration names.

    ``needed``: it may be the one of the metadata log.
    """
    code = codes.LOG_DIRECTORY_MISSING if kraft else codes.LOG_DIRECTORY_BLANK
    if error.is_file and not (kraft and needed):
        code = codes.LOG_DIRECTORY_FILE
    expected = "the log directory that the configuration names"
    return file_finding(code, as_path(error.path), expected, error.found)


# --- the directories of one node


def check_meta_properties(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the form of each meta.properties.

    A node goes on without a directory whose file it cannot read, if it needs no other of it.
    """
    readable = any(facts.identity is not None for facts in evidence.directories)
    for facts in evidence.directories:
        if facts.meta is not None and isinstance(facts.meta.error, DecodeError):
            needed = evidence.metadata_directory in (None, facts.directory.path)
            code = codes.META_PROPERTIES_UNREADABLE
            if readable and not needed:
                code = codes.META_PROPERTIES_OFFLINE
            yield file_finding(code, facts.meta.path, _MUST_HAVE, _error_text(facts.meta))


def check_node(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the meta.properties of the directories of one node against each other."""
    first: MetaProperties | None = None
    ids: dict[str, AnyPath] = {}
    kraft = any(map(_is_kraft, evidence.directories))
    for facts in evidence.directories:
        path, meta = facts.directory.path / META_PROPERTIES, facts.identity
        if facts.meta is None and kraft:
            yield file_finding(
                codes.META_PROPERTIES_MISSING, path, "meta.properties", "no such file"
            )
        if meta is None:
            continue
        if kraft and (meta.node_id is None or meta.cluster_id is None):
            yield file_finding(
                codes.META_PROPERTIES_UNREADABLE, path, _MUST_HAVE, "not all of them"
            )
        first = first or meta
        for name, expected, found in (
            ("cluster.id", first.cluster_id, meta.cluster_id),
            ("node.id", first.node_id, meta.node_id),
        ):
            if expected is not None and found is not None and expected != found:
                yield _mismatch(path, f"{name} {expected}, as in the others", str(found))
        if meta.directory_id is not None and is_reserved_directory(meta.directory_id):
            expected = "a directory.id that Kafka does not reserve"
            yield file_finding(codes.DIRECTORY_ID_RESERVED, path, expected, meta.directory_id)
        elif meta.directory_id is not None:
            owner = ids.setdefault(meta.directory_id, facts.directory.path)
            if owner != facts.directory.path:
                expected = f"a directory.id of its own, not that of {owner}"
                yield _mismatch(path, expected, meta.directory_id)


def check_node_id(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the node id in meta.properties against that of the node's configuration."""
    for name in ("node.id", "broker.id"):
        text = (evidence.config or {}).get(name, "").strip()
        if text.isascii() and text.isdigit():
            break
    else:
        return
    for facts in evidence.directories:
        meta = facts.identity
        if meta is not None and meta.node_id is not None and meta.node_id != int(text):
            yield file_finding(
                codes.NODE_ID_MISMATCH,
                facts.directory.path / META_PROPERTIES,
                f"node id {text}, the {name} of the configuration",
                str(meta.node_id),
            )


def check_directory_owners(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report log directories whose id another node has registered (``ClusterControlManager``)."""
    image, node = evidence.node.image, evidence.node.node_id
    if image is None or node is None or not evidence.stopped:
        return
    owners = {
        directory_id: owner
        for owner, directory_ids in image.directories.items()
        for directory_id in directory_ids
        if owner != node
    }
    for facts in evidence.directories:
        directory_id = None if facts.identity is None else facts.identity.directory_id
        owner = None if directory_id is None else owners.get(directory_id)
        if owner is not None:
            yield file_finding(
                codes.DIRECTORY_ID_TAKEN,
                facts.directory.path / META_PROPERTIES,
                f"a directory.id of node {node}",
                f"{directory_id}, which node {owner} has registered",
            )


def check_places(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the log directories of the configuration: the one of the metadata log, and repeats."""
    for path, first in evidence.repeated:
        expected = "log directories that differ"
        yield file_finding(codes.LOG_DIRECTORY_TWICE, first, expected, f"{path} again")
    if evidence.metadata_directory is None:
        return
    for facts in evidence.directories:
        holds = facts.meta is not None and _has_metadata_log(facts)
        if holds and facts.directory.path != evidence.metadata_directory:
            yield file_finding(
                codes.METADATA_LOG_MISPLACED,
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
                yield file_finding(
                    codes.REMOTE_CACHE_DAMAGED, fault.path, fault.expected, fault.found
                )


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
                    yield file_finding(codes.METADATA_LOG_FILE, entry.path, expected, found)
            elif _is_placed(evidence.node, name, facts.identity):
                yield file_finding(codes.PARTITION_IS_FILE, entry.path, expected, found)


def _is_placed(node: Node, name: DirectoryName, meta: MetaProperties | None) -> bool:
    """Return whether the cluster assigns a partition to this log directory of the node."""
    directory_id = None if meta is None else meta.directory_id
    return node.other_replicas(name.topic, name.partition, directory_id) is not None


def check_bootstrap(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the form of bootstrap.checkpoint, which a KRaft node reads beside its metadata log."""
    directories = evidence.directories
    if not any(map(_is_kraft, directories)):
        return
    for facts in list(filter(_has_metadata_log, directories)) or directories[:1]:
        if facts.bootstrap is not None and isinstance(facts.bootstrap.error, DecodeError):
            yield file_finding(
                codes.BOOTSTRAP_MALFORMED,
                facts.bootstrap.path,
                "metadata records, with a record of metadata.version",
                _error_text(facts.bootstrap),
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
        yield file_finding(codes.FEATURE_UNSUPPORTED, path, expected, str(level))


def check_twice(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report partitions that are in two directories of one node."""
    for paths in copies(evidence.directories):
        counted = [path for path in paths if path not in evidence.strays]
        for path in counted[1:]:
            expected = f"a single directory of {path.name}"
            yield file_finding(
                codes.PARTITION_TWICE, path, expected, f"a second directory: {counted[0]}"
            )


def check_missing_replicas(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report lines of partitions that do not exist, but that the cluster assigns to this node.

    A line alone may be of a partition that was deleted or moved away. A replica that was never
    created has no line.
    """
    directories = evidence.directories
    if not evidence.stopped:
        return
    paths = chain.from_iterable(facts.directory.partition_paths for facts in directories)
    existing = {(name.topic, name.partition) for name in map(directory_name, paths) if name}
    for facts in directories:
        read = next((read for read in _checkpoints(facts) if read.value is not None), None)
        if read is not None and read.value is not None:
            missing = sorted(read.value.keys() - existing)
            yield from _missing_replicas(read.path, missing, facts.identity, evidence.node)


def check_assigned_directories(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report replicas that the cluster assigns to a directory of this node that is not in sight.

    Without a configuration, a running broker may have its other directories anywhere.
    """
    image, node = evidence.node.image, evidence.node.node_id
    if image is None or not image.complete or node is None:
        return
    if evidence.config is None and not evidence.stopped:
        return
    metas = [facts.identity for facts in evidence.directories]
    metas += (
        read_small(directory.path / META_PROPERTIES, decode_meta_properties).value
        for directory in evidence.beyond
    )
    ids = {meta.directory_id for meta in metas if meta is not None and meta.directory_id}
    if len(ids) < len(metas):
        return  # a directory without a readable id, which may be any
    directories = [facts.directory for facts in evidence.directories] + [*evidence.beyond]
    paths = chain.from_iterable(directory.partition_paths for directory in directories)
    names = (name for name in map(directory_name, paths) if name is not None and not name.suffix)
    existing = {(name.topic, name.partition) for name in names}
    home = next(filter(metadata_partition, directories), directories[0])
    for found in unplaced(image, node, ids, existing):
        for code, partitions in (
            (codes.REPLICA_DIRECTORY_MISSING_ONLY, found.alone),
            (codes.REPLICA_DIRECTORY_MISSING, found.shared),
        ):
            if partitions:
                yield file_finding(
                    code,
                    home.path / META_PROPERTIES,
                    _assigned_text(found.directory_id, partitions, node),
                    _in_sight_text(found.directory_id, evidence, len(ids)),
                    repeats=len(partitions) - 1,
                )


def _assigned_text(directory_id: str, partitions: Sequence[tuple[str, int]], node: int) -> str:
    named = ", ".join(f"{topic}-{partition}" for topic, partition in partitions[:_NAMED])
    others = f" and {len(partitions) - _NAMED:,} more" if partitions[_NAMED:] else ""
    which = (
        "an offline log directory"
        if directory_id == LOST_DIRECTORY
        else f"the log directory with the id {directory_id}"
    )
    return f"{which}, to which the cluster assigns {named}{others} of node {node}"


def _in_sight_text(directory_id: str, evidence: NodeEvidence, count: int) -> str:
    """Return which directories are in sight, and whether others may be there all the same."""
    image, node = evidence.node.image, evidence.node.node_id
    registered = () if image is None or node is None else image.directories.get(node, ())
    if evidence.config is not None:
        return f"{count} in log.dirs, none of them with this id"
    text = f"{count} of its {len(registered)} registered directories" if registered else f"{count}"
    if directory_id in registered:
        return f"{text}: name the others too, or --config, if log.dirs still has them"
    return f"{text}, and none with this id registered"


def _missing_replicas(
    path: AnyPath, missing: Sequence[tuple[str, int]], meta: MetaProperties | None, node: Node
) -> Iterator[Finding]:
    names_by_code: dict[FindingCode, list[str]] = defaultdict(list)
    for topic, partition in missing:
        others = node.other_replicas(topic, partition, None if meta is None else meta.directory_id)
        if others is not None:
            alone = not others or node.leads_alone(topic, partition)
            code = codes.REPLICA_MISSING_ONLY if alone else codes.REPLICA_MISSING
            names_by_code[code].append(f"{topic}-{partition}")
    for code, names in names_by_code.items():
        expected = f"a directory {names[0]}, for which the cluster names node {node.node_id}"
        yield file_finding(code, path, expected, "none", repeats=len(names) - 1)


def _mismatch(path: AnyPath, expected: str, found: str) -> Finding:
    return file_finding(codes.META_PROPERTIES_MISMATCH, path, expected, found)


def _is_kraft(facts: DirectoryFacts) -> bool:
    """Return whether the directory is of a KRaft node, or of one that migrates to KRaft."""
    meta = facts.identity
    if meta is not None and meta.version == _KRAFT_VERSION:
        return True
    return _has_metadata_log(facts)


def _has_metadata_log(facts: DirectoryFacts) -> bool:
    names = map(directory_name, facts.directory.partition_paths)
    return any(name is not None and name.topic == CLUSTER_METADATA_TOPIC for name in names)


def _checkpoints(facts: DirectoryFacts) -> list[Read[Offsets]]:
    reads = (facts.recovery_points, facts.high_watermarks, facts.log_starts, facts.cleaner_offsets)
    return [read for read in reads if read is not None]


def _checkpoint_code(read: Read[Offsets]) -> FindingCode:
    if not isinstance(read.error, CheckpointNumberError):
        return codes.CHECKPOINT_MALFORMED
    if read.path.name == HIGH_WATERMARK_CHECKPOINT:
        return codes.HIGH_WATERMARK_NUMBER
    return codes.CHECKPOINT_NUMBER


def _error_text(read: Read[Any]) -> str:
    return f"an error: {read.error}"
