"""Checks of the KRaft metadata log: whether it is there, snapshots, records, ``quorum-state``.

Spec: ``KafkaMetadataLog.recoverSnapshots``, ``RecordsSnapshotReader``, ``FileQuorumStateStore``;
KOD 9, checks 36, 42 and 44.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.evidence import Evidence, NodeEvidence
from kdump.audit.facts.metadata_log import MissingMetadata, QuorumFacts
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import Cure, FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Detail, Finding, Offsets, explain_command, file_finding
from kdump.errors import DecodeError
from kdump.metadata.replay import Note
from kdump.storage.names import CLUSTER_METADATA_ID
from kdump.storage.paths import AnyPath

METADATA_LOG_MISSING: Final = FindingCode(
    "metadata-log-missing",
    Severity.WARNING,
    "The metadata log of the node is gone: __cluster_metadata-0 is missing or holds no record, "
    "although the node has partitions or had a leader. A majority of the voters may still have "
    "the log.",
    "The node fetches the whole log from the leader, and loads its partitions after that. A voter "
    "has also lost its vote.",
    "First start a majority of the voters that have the log, and wait until they have a leader. "
    "Then start this node. kdump quorum shows which voters can lead.",
    check=36,
    harm=Harm.METADATA_FETCHED,
)
METADATA_LOG_MISSING_ONLY: Final = FindingCode(
    "metadata-log-missing-only",
    Severity.ERROR,
    "The metadata log of the node is gone: __cluster_metadata-0 is missing or holds no record, "
    "although the node has partitions or had a leader. The node is the only voter, or a majority "
    "of the voters has no record either, or nothing shows who the voters are. A log directory of a "
    "broker with ZooKeeper that is started with process.roles is in the same state.",
    "The voters elect a leader, which begins an empty log: the cluster knows no topic. Each broker "
    "renames all its partitions to -stray and no longer serves them. Voters that only the metadata "
    "log names (kraft.version 1) are lost with it: no leader is elected, and the broker waits.",
    "Do not start the node. Mount its file system, or restore __cluster_metadata-0 from a backup. "
    "Or copy the whole __cluster_metadata-0 of another controller or broker of the cluster, and "
    "delete quorum-state in the copy: kdump quorum shows how far each one reaches. If there is "
    "none, kdump export and kdump salvage copy the records of the partitions.",
    check=36,
    harm=Harm.STRAYS,
)
QUORUM_STATE_MALFORMED: Final = FindingCode(
    "quorum-state-malformed",
    Severity.ERROR,
    "The file quorum-state does not follow its format, or has the largest possible leader epoch.",
    "The node does not start.",
    "Delete the file only while the other voters have a leader: the node then learns the leader "
    "and its epoch from them. This discards the node's vote: without a leader, the node may vote "
    "twice in one epoch.",
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_TOPIC_ID: Final = FindingCode(
    "metadata-topic-id",
    Severity.ERROR,
    "The partition.metadata of __cluster_metadata-0 does not hold the topic id of the metadata "
    "log, which is the same in all clusters.",
    "The node does not start.",
    "While the node is stopped, kdump reindex writes the file. Or delete it: the node writes it "
    "again.",
    check=24,
    stops=Outcome.REFUSES,
    cure=Cure.TOPIC_ID,
)
METADATA_SNAPSHOT_MISSING: Final = FindingCode(
    "metadata-snapshot-missing",
    Severity.ERROR,
    "The metadata log does not begin at offset 0, and no snapshot reaches the offset where it "
    "begins.",
    "The node does not start.",
    "Put the .checkpoint file back. Or, if a majority of the other voters runs and has a leader, "
    "move __cluster_metadata-0 away: the node then fetches all metadata from the leader. This "
    "also discards the node's vote.",
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_SNAPSHOT_DAMAGED: Final = FindingCode(
    "metadata-snapshot-damaged",
    Severity.ERROR,
    "The newest metadata snapshot is incomplete or corrupt: it is empty, a batch is corrupt, the "
    "header is missing, or it ends early and the log after it needs the missing records.",
    "The node does not start.",
    "If an older snapshot is complete and valid, and the metadata log begins before its end, move "
    "the corrupt snapshot away. Otherwise, if a majority of the other voters runs and has a "
    "leader, move __cluster_metadata-0 away: the node then fetches all metadata from the leader. "
    "If this is the only voter, restore __cluster_metadata-0 from a backup.",
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_SNAPSHOT_TORN: Final = FindingCode(
    "metadata-snapshot-torn",
    Severity.ERROR,
    "The newest metadata snapshot ends early: its last batch is incomplete, or its footer is "
    "missing, as after an interrupted copy.",
    "The node starts, and takes the incomplete snapshot for complete. It does not know the topics, "
    "configs and other metadata of the missing end, and renames partitions that it does not know "
    "to -stray. If the node leads the quorum, all brokers lose this metadata.",
    "Before the node starts: if an older snapshot is complete and valid, and the metadata log "
    "begins before its end, move the incomplete snapshot away. Otherwise, if a majority of the "
    "other voters runs and has a leader, move __cluster_metadata-0 away: the node then fetches all "
    "metadata from the leader. If this is the only voter, restore __cluster_metadata-0 from a "
    "backup.",
    check=36,
    harm=Harm.METADATA_CUT,
)
METADATA_SNAPSHOT_DAMAGED_OLD: Final = FindingCode(
    "metadata-snapshot-damaged-old",
    Severity.WARNING,
    "A metadata snapshot is incomplete or corrupt, and a newer snapshot exists.",
    "The node does not read this snapshot, but may send it to another node that asks for it.",
    "Delete this snapshot once a newer snapshot is complete and valid.",
    check=36,
)
METADATA_UNREPLAYABLE: Final = FindingCode(
    "metadata-unreplayable",
    Severity.ERROR,
    "A valid batch of the metadata log holds a record that cannot be applied: its type or version "
    "is unknown, its fields cannot be read, or it refers to something that does not exist.",
    "No node starts if it cannot read the record. If the record refers to something that does not "
    "exist, a controller exits when it applies the record, and again at each startup. A broker "
    "that is not a controller logs an error, and continues without the change.",
    "If a newer release wrote the record, start that release: kdump metadata shows the finalized "
    "metadata.version. Otherwise compare this log with the metadata logs of the other controllers: "
    "run kdump metadata --diff. If a majority of them runs without this record and has a leader, "
    "move __cluster_metadata-0 of this node away: it then fetches all metadata from the leader. "
    "This also discards the node's vote.",
    check=42,
)
METADATA_REPLAY_STOPS: Final = FindingCode(
    "metadata-replay-stops",
    Severity.ERROR,
    "A valid batch of the metadata log holds a record at which each startup of this node fails: "
    "its type or version is unknown, its fields cannot be read, or this node is a controller and "
    "the record refers to something that does not exist, or creates something that already exists.",
    "The node does not start. Another node with this record does not start either if it is a "
    "controller or cannot read the record.",
    "If a newer release wrote the record, start that release. Otherwise compare this log with the "
    "metadata logs of the other controllers: run kdump metadata --diff. If a majority of them runs "
    "without this record and has a leader, move __cluster_metadata-0 of this node away: it then "
    "fetches all metadata from the leader. This also discards the node's vote. If this is the only "
    "voter, restore __cluster_metadata-0 from a backup.",
    check=42,
    stops=Outcome.REFUSES,
)
FEATURE_UNSUPPORTED: Final = FindingCode(
    "feature-unsupported",
    Severity.ERROR,
    "This node, when it last registered, did not support the finalized level of a feature, such as "
    "metadata.version.",
    "The node does not start. A controller exits when it reads the record of the level. A broker "
    "that is not a controller is not registered, and exits a minute later.",
    "Start a release that supports the level: kdump metadata shows the finalized levels. After an "
    "upgrade from a release before 4.0, start that release again, raise metadata.version to 3.3 or "
    "later with kafka-features.sh, and then upgrade.",
    stops=Outcome.REFUSES,
)
METADATA_VERSION_OLD: Final = FindingCode(
    "metadata-version-old",
    Severity.INFO,
    "The finalized metadata.version is older than 3.3-IV3, which is level 7.",
    "Brokers up to 3.9 start. Brokers from 4.0 on do not start.",
    "Raise metadata.version with kafka-features.sh before you upgrade beyond 3.9.",
)
METADATA_DIVERGES: Final = FindingCode(
    "metadata-diverges",
    Severity.ERROR,
    "Two replicas of the metadata log of one cluster hold different records at committed offsets: "
    "batches of the same leader epoch differ, or leader epochs differ before the end of a "
    "snapshot.",
    "No node detects that batches of the same leader epoch differ: brokers and controllers that "
    "read different logs know different topics, replicas or configs. If leader epochs differ, a "
    "node truncates its log when it follows a leader with the other log.",
    "Run kdump quorum to see which nodes can lead, and kdump metadata --diff to see the "
    "differences. Decide which log is right. While a majority of voters with that content runs and "
    "has a leader, stop a node with the other content, move its __cluster_metadata-0 away, and "
    "start it: it fetches all metadata from the leader. This also discards the node's vote.",
    check=43,
)
METADATA_SNAPSHOT_BEYOND_END: Final = FindingCode(
    "metadata-snapshot-beyond-end",
    Severity.WARNING,
    "The newest metadata snapshot ends after the end of the metadata log, for example because a "
    "follower died after it fetched a snapshot.",
    "The node deletes its metadata log and begins a new log at the end of the snapshot.",
    "Nothing to do: the snapshot replaces the records of the deleted log.",
    check=36,
)

METADATA_END_MISSING: Final = FindingCode(
    "metadata-end-missing",
    Severity.ERROR,
    "The metadata log, or its newest snapshot, ends before offsets that it had: a producer "
    "snapshot, a leader epoch or an index without its log lies after the end. A segment was "
    "removed or truncated by hand, or a power failure took the end of the log.",
    "The node takes what is left for the whole log. As the only voter it goes on without the "
    "missing changes of topics, partitions and configs, and brokers truncate their own copies. As "
    "one of several voters or as a broker it fetches them from the leader.",
    "Do not start the node first. If other voters have the records, start a majority of them "
    "before it: kdump quorum shows how far each log reaches. If the node is the only voter, "
    "restore __cluster_metadata-0 from a backup, or copy the whole directory of a broker whose log "
    "reaches further, and delete quorum-state in the copy.",
    check=44,
    harm=Harm.METADATA_SHORT,
    loses=True,
)

METADATA_END_BEHIND: Final = FindingCode(
    "metadata-end-behind",
    Severity.WARNING,
    "The metadata log of a node that is no voter ends before offsets that it had, as after a power "
    "failure: such a node does not flush what it fetches.",
    "The node fetches the rest from the leader of the quorum.",
    "Nothing to do, as long as the voters have the log: kdump quorum shows how far theirs reach.",
    check=44,
)

_METADATA_VERSION: Final = "metadata.version"
#: The level of 3.3-IV3, the least that brokers from 4.0 on support.
_LEAST_LEVEL: Final = 7
_LAST_EPOCH: Final = 2**31 - 1


def check_metadata_log(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report a metadata log that is gone; a running broker holds it open."""
    missing = evidence.missing
    if missing is None or not evidence.stopped:
        return
    code = (
        METADATA_LOG_MISSING if missing.quorum is QuorumFacts.HOLDS else METADATA_LOG_MISSING_ONLY
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
            yield file_finding(FEATURE_UNSUPPORTED, path, expected, str(level))
        elif name == _METADATA_VERSION and level < _LEAST_LEVEL:
            expected = f"a {name} of {_LEAST_LEVEL} or more"
            yield file_finding(METADATA_VERSION_OLD, path, expected, str(level))


def check_replay(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report the first record that ends a start: one that no node, or no controller, can apply."""
    image = evidence.node.image
    if image is None or not evidence.stopped:
        return
    controller = _is_controller(evidence)
    for note in image.unreplayable:
        if note.decoded and not controller:
            continue
        yield _inapplicable(METADATA_REPLAY_STOPS, note)
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
            QUORUM_STATE_MALFORMED, read.path, "a line of JSON", f"an error: {read.error}"
        )
    elif read.value is not None and read.value.leader_epoch == _LAST_EPOCH:
        yield file_finding(
            QUORUM_STATE_MALFORMED,
            read.path,
            "a leader epoch that another one can follow",
            str(_LAST_EPOCH),
        )


def check_metadata_topic_id(evidence: Evidence) -> Iterator[Finding]:
    """Check the topic id in the metadata log's own partition.metadata."""
    read = None if evidence.facts is None else evidence.facts.metadata
    known = None if read is None or not evidence.is_metadata_log else read.value
    if read is not None and known is not None and known.topic_id != CLUSTER_METADATA_ID:
        expected = f"the topic id {CLUSTER_METADATA_ID}"
        yield file_finding(METADATA_TOPIC_ID, read.path, expected, known.topic_id)


def check_metadata_records(evidence: Evidence) -> Iterator[Finding]:
    """Report the records that brokers cannot apply (42); they are known if all were read."""
    for note in () if evidence.facts is None else evidence.facts.metadata_notes:
        yield _inapplicable(METADATA_UNREPLAYABLE, note)


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
            code = METADATA_SNAPSHOT_DAMAGED_OLD
            if snapshot is newest:
                image = evidence.node.image
                torn = snapshot.torn and image is not None and image.torn
                code = METADATA_SNAPSHOT_TORN if torn else METADATA_SNAPSHOT_DAMAGED
            yield file_finding(code, snapshot.path, "a whole snapshot", snapshot.fault)
    if first_base and (newest is None or newest.end_offset < first_base):
        reached = "none" if newest is None else f"a snapshot up to {newest.end_offset}"
        yield file_finding(
            METADATA_SNAPSHOT_MISSING,
            facts.partition.path,
            f"a snapshot up to {first_base} or more, where the log begins",
            reached,
        )
    beyond = facts.stopped and newest is not None and log_end is not None
    if beyond and newest is not None and log_end is not None and newest.end_offset > log_end:
        yield file_finding(
            METADATA_SNAPSHOT_BEYOND_END,
            newest.path,
            f"an end offset up to {log_end}, where the log ends",
            str(newest.end_offset),
        )


def check_metadata_end(evidence: Evidence) -> Iterator[Finding]:
    """Check the end of the metadata log against what it had (44).

    No broker writes the offsets of this log to a checkpoint. A log without a record and without a
    snapshot is gone as a whole, which ``check_metadata_log`` reports.
    """
    facts = evidence.facts
    if facts is None or not facts.stopped or not evidence.is_metadata_log:
        return
    end, shown = metadata_end(evidence), list(_reached(facts))
    if end is None or not shown:
        return
    offset, path = max(shown, key=lambda pair: pair[0])
    if not offset > end > 0:
        return
    image, number = evidence.node.image, evidence.node.node_id
    voters = None if image is None else image.voters
    fetches = voters is not None and number is not None and number not in voters
    yield file_finding(
        METADATA_END_BEHIND if fetches else METADATA_END_MISSING,
        path,
        f"a log up to offset {offset}",
        f"an end at {end}",
        offsets=Offsets(end, offset - 1),
    )


def metadata_end(evidence: Evidence) -> int | None:
    """Return the offset from which a metadata log goes on, None if it is not certain.

    It is the end of the newest usable snapshot if the log does not reach it.
    """
    end = evidence.log_end if evidence.target.segments else 0
    if end is None or evidence.facts is None:
        return None
    used = (each for each in evidence.facts.metadata_snapshots if each.fault is None or each.torn)
    return max([end, *(snapshot.end_offset for snapshot in used)])


def _reached(facts: PartitionFacts) -> Iterator[tuple[int, AnyPath]]:
    """Yield offsets up to which the log went once, each with the file that shows it."""
    for offset, read in facts.snapshots.items():
        yield offset, read.path
    epochs = facts.epochs
    if epochs is not None:
        for entry in epochs.value or ():
            yield entry.start_offset, epochs.path
    for orphan in facts.partition.orphans:
        if orphan.name.canonical and orphan.name.base_offset is not None:
            yield orphan.name.base_offset, orphan.path


CHECKS: Final = (
    check_quorum_state,
    check_metadata_topic_id,
    check_metadata_snapshots,
    check_metadata_end,
    check_metadata_records,
)
NODE_CHECKS: Final = (check_metadata_log, check_features, check_replay)
