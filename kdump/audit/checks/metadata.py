"""Checks of the KRaft metadata log: whether it is there, snapshots, records, ``quorum-state``.

Spec: ``KafkaMetadataLog.recoverSnapshots``, ``RecordsSnapshotReader``, ``FileQuorumStateStore``;
KOD 9, checks 36 and 42.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.evidence import Evidence, NodeEvidence
from kdump.audit.facts.metadata_log import MissingMetadata, QuorumFacts
from kdump.audit.findings import Detail, Finding, Offsets, explain_command, file_finding
from kdump.errors import DecodeError
from kdump.metadata.replay import Note

_METADATA_VERSION: Final = "metadata.version"
#: The level of 3.3-IV3, the least that brokers from 4.0 on support.
_LEAST_LEVEL: Final = 7
_LAST_EPOCH: Final = 2**31 - 1
#: The id of the metadata log in every cluster (``Uuid.METADATA_TOPIC_ID``).
_METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"


def check_metadata_log(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report a metadata log that is gone; a running broker holds it open."""
    missing = evidence.missing
    if missing is None or not evidence.stopped:
        return
    code = (
        codes.METADATA_LOG_MISSING
        if missing.quorum is QuorumFacts.HOLDS
        else codes.METADATA_LOG_MISSING_ONLY
    )
    expected = "the records of the cluster's metadata"
    yield file_finding(code, missing.path, expected, f"{missing.found}; {_quorum_text(missing)}")


def _quorum_text(missing: MissingMetadata) -> str:
    voters = ", ".join(map(str, sorted(missing.voters or ())))
    if missing.quorum is QuorumFacts.UNKNOWN:
        return (
            "nothing names the voters (--config): if the node is the only voter, the records are "
            "gone. If it has further log directories, name them too"
        )
    if missing.quorum is QuorumFacts.LOST:
        lost = ", ".join(map(str, sorted(missing.without)))
        return f"of the voters {voters} the majority has no record: {lost}"
    if missing.voters is None:
        return "the node is no controller"
    return f"the voters are {voters}"


def check_features(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the finalized features against those that the node supported when it registered."""
    image, node = evidence.node.image, evidence.node.node_id
    if image is None or node is None or not evidence.stopped:
        return
    supported = image.supported.get(node, {})
    if _METADATA_VERSION not in supported:
        return  # nothing shows its release
    path = evidence.directories[0].directory.path
    for name, level in sorted(image.features.items()):
        least, highest = supported.get(name, (0, 0))
        if not least <= level <= highest:
            expected = f"a level of {name} from {least} to {highest}, as node {node} supports it"
            yield file_finding(codes.FEATURE_UNSUPPORTED, path, expected, str(level))
        elif name == _METADATA_VERSION and level < _LEAST_LEVEL:
            expected = f"a {name} of {_LEAST_LEVEL} or more"
            yield file_finding(codes.METADATA_VERSION_OLD, path, expected, str(level))


def check_replay(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report the first record that ends a start: one that no node, or no controller, can apply."""
    image = evidence.node.image
    if image is None or not evidence.stopped:
        return
    controller = _is_controller(evidence)
    for note in image.unreplayable:
        if note.decoded and not controller:
            continue
        yield _inapplicable(codes.METADATA_REPLAY_STOPS, note)
        return


def _is_controller(evidence: NodeEvidence) -> bool:
    """Return whether the node is a controller: by its configuration, else by the voters."""
    roles = (evidence.config or {}).get("process.roles")
    if roles is not None:
        return "controller" in map(str.strip, roles.split(","))
    image = evidence.node.image
    return image is not None and evidence.node.node_id in (image.voters or ())


def check_quorum_state(evidence: Evidence) -> Iterator[Finding]:
    """Check the form of quorum-state, and whether an epoch can follow."""
    read = None if evidence.facts is None else evidence.facts.quorum_state
    if read is None:
        return
    if isinstance(read.error, DecodeError):
        yield file_finding(
            codes.QUORUM_STATE_MALFORMED, read.path, "a line of JSON", f"an error: {read.error}"
        )
    elif read.value is not None and read.value.leader_epoch == _LAST_EPOCH:
        yield file_finding(
            codes.QUORUM_STATE_MALFORMED,
            read.path,
            "a leader epoch that another one can follow",
            str(_LAST_EPOCH),
        )


def check_metadata_topic_id(evidence: Evidence) -> Iterator[Finding]:
    """Check the topic id in the metadata log's own partition.metadata."""
    read = None if evidence.facts is None else evidence.facts.metadata
    known = None if read is None or not evidence.is_metadata_log else read.value
    if read is not None and known is not None and known.topic_id != _METADATA_TOPIC_ID:
        expected = f"the topic id {_METADATA_TOPIC_ID}"
        yield file_finding(codes.METADATA_TOPIC_ID, read.path, expected, known.topic_id)


def check_metadata_records(evidence: Evidence) -> Iterator[Finding]:
    """Report the records that brokers cannot apply (42); they are known if all were read."""
    for note in () if evidence.facts is None else evidence.facts.metadata_notes:
        yield _inapplicable(codes.METADATA_UNREPLAYABLE, note)


def _inapplicable(code: FindingCode, note: Note) -> Finding:
    return Finding(
        code,
        note.path,
        offsets=Offsets(note.offset, note.offset),
        detail=Detail(f"a {note.record} that can be applied", f"an error: {note.reason}"),
        remedy=explain_command(code),
    )


def check_metadata_snapshots(evidence: Evidence) -> Iterator[Finding]:
    """Check the snapshots of the metadata log, in order of age.

    Unlike other logs, it begins at its first segment, whatever a checkpoint has.
    """
    facts, first_base, log_end = evidence.facts, evidence.first_base, evidence.log_end
    if facts is None or not evidence.is_metadata_log:
        return
    snapshots = facts.metadata_snapshots
    newest = snapshots[-1] if snapshots else None
    for snapshot in snapshots:
        if snapshot.fault is not None:
            code = codes.METADATA_SNAPSHOT_DAMAGED_OLD
            if snapshot is newest:
                image = evidence.node.image
                torn = snapshot.torn and image is not None and image.torn
                code = codes.METADATA_SNAPSHOT_TORN if torn else codes.METADATA_SNAPSHOT_DAMAGED
            yield file_finding(code, snapshot.path, "a whole snapshot", snapshot.fault)
    if first_base and (newest is None or newest.end_offset < first_base):
        reached = "none" if newest is None else f"a snapshot up to {newest.end_offset}"
        yield file_finding(
            codes.METADATA_SNAPSHOT_MISSING,
            facts.partition.path,
            f"a snapshot up to {first_base} or more, where the log begins",
            reached,
        )
    beyond = facts.stopped and newest is not None and log_end is not None
    if beyond and newest is not None and log_end is not None and newest.end_offset > log_end:
        yield file_finding(
            codes.METADATA_SNAPSHOT_BEYOND_END,
            newest.path,
            f"an end offset up to {log_end}, where the log ends",
            str(newest.end_offset),
        )
