"""Finding codes of the KRaft metadata log.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Harm, Outcome, Severity

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
    "Do not start the node. Bring back its file system, or __cluster_metadata-0 from a backup. Or "
    "copy the whole __cluster_metadata-0 of another controller or broker of the cluster, and "
    "delete quorum-state in the copy: kdump quorum shows how far each one reaches. If there is "
    "none, kdump export and kdump salvage copy the records of the partitions.",
    check=36,
    harm=Harm.STRAYS,
)
QUORUM_STATE_MALFORMED: Final = FindingCode(
    "quorum-state-malformed",
    Severity.ERROR,
    "The file quorum-state does not follow its format, or has the largest leader epoch there is.",
    "The node does not start.",
    "Deletion of the file discards the node's vote. Delete it only while the other voters have a "
    "leader: the node then learns the leader and its epoch from them. Without a leader, the node "
    "may vote twice in one epoch.",
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_TOPIC_ID: Final = FindingCode(
    "metadata-topic-id",
    Severity.ERROR,
    "The partition.metadata of __cluster_metadata-0 holds another id than that of the metadata "
    "log, which is the same in all clusters.",
    "The node does not start.",
    "Delete the file: the node writes it again.",
    check=24,
    stops=Outcome.REFUSES,
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
    "The newest metadata snapshot is not whole: it is empty, a batch is damaged, the header is "
    "missing, or it ends early and the log after it needs records that are gone.",
    "The node does not start.",
    "If an older snapshot is whole and the metadata log begins before the end of that snapshot, "
    "move the damaged snapshot away. Otherwise, if a majority of the other voters runs and has a "
    "leader, move __cluster_metadata-0 away: the node then fetches all metadata from the leader. "
    "If this is the only voter, restore __cluster_metadata-0 from a backup.",
    check=36,
    stops=Outcome.REFUSES,
)
METADATA_SNAPSHOT_TORN: Final = FindingCode(
    "metadata-snapshot-torn",
    Severity.ERROR,
    "The newest metadata snapshot ends early: its last batch is incomplete, or its footer is "
    "missing, as after a copy that was interrupted.",
    "The node starts, and takes what is there for the whole snapshot. It does not know the topics, "
    "settings and other metadata at the end, and renames partitions that it does not know to "
    "-stray. If the node leads the quorum, all brokers lose this metadata.",
    "Before the node starts: if an older snapshot is whole and the metadata log begins before the "
    "end of that snapshot, move the torn snapshot away. Otherwise, if a majority of the other "
    "voters runs and has a leader, move __cluster_metadata-0 away: the node then fetches all "
    "metadata from the leader. If this is the only voter, restore __cluster_metadata-0 from a "
    "backup.",
    check=36,
    harm=Harm.METADATA_CUT,
)
METADATA_SNAPSHOT_DAMAGED_OLD: Final = FindingCode(
    "metadata-snapshot-damaged-old",
    Severity.WARNING,
    "A metadata snapshot is not whole, and a newer snapshot exists.",
    "The node does not read this snapshot, but may send it to another node that asks for it.",
    "Delete this snapshot once a newer snapshot is whole.",
    check=36,
)
METADATA_UNREPLAYABLE: Final = FindingCode(
    "metadata-unreplayable",
    Severity.ERROR,
    "A sound batch of the metadata log holds a record that cannot be applied: its type or version "
    "is unknown, its fields cannot be read, or it is about something that does not exist.",
    "No node starts if it cannot read the record. A controller also stops when it meets one about "
    "something that does not exist, and again at each start. A broker that is no controller logs "
    "an error there, and goes on without what the record says.",
    "If a newer release wrote the record, start that release: kdump metadata shows the finalized "
    "metadata.version. Otherwise compare this copy with those of the other controllers by kdump "
    "metadata --diff. If a majority of them runs without this record and has a leader, move "
    "__cluster_metadata-0 of this node away: it then fetches all metadata from the leader. This "
    "also discards the node's vote.",
    check=42,
)
METADATA_REPLAY_STOPS: Final = FindingCode(
    "metadata-replay-stops",
    Severity.ERROR,
    "A sound batch of the metadata log holds a record that ends each start of this node: its type "
    "or version is unknown, its fields cannot be read, or this node is a controller and the record "
    "is about something that does not exist, or makes something that exists already.",
    "The node does not start. Another node that has the record does not start either, if it is a "
    "controller, or cannot read the record.",
    "If a newer release wrote the record, start that release. Otherwise compare this copy with "
    "those of the other controllers by kdump metadata --diff. If a majority of them runs without "
    "this record and has a leader, move __cluster_metadata-0 of this node away: it then fetches "
    "all metadata from the leader. This also discards the node's vote. If this is the only voter, "
    "restore __cluster_metadata-0 from a backup.",
    check=42,
    stops=Outcome.REFUSES,
)
FEATURE_UNSUPPORTED: Final = FindingCode(
    "feature-unsupported",
    Severity.ERROR,
    "The finalized level of a feature, such as metadata.version, is one that this node did not "
    "support when it last registered.",
    "The node does not start. A controller stops when it meets the record of the level, and a "
    "broker that is no controller is not registered, and ends a minute later.",
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
    "Two copies of the metadata log of one cluster hold different records at offsets that are "
    "committed: batches of one leader epoch differ, or leader epochs differ before the end of a "
    "snapshot.",
    "No node notices batches of one leader epoch that differ: brokers and controllers that read "
    "different copies know different topics, replicas or settings. A node whose leader epochs "
    "differ truncates its log when it follows a leader with the other copy.",
    "Run kdump quorum to see which copies can lead, and kdump metadata --diff to see what differs. "
    "Decide which copy is right. While a majority of voters with that content runs and has a "
    "leader, stop a node with the other content, move its __cluster_metadata-0 away, and start "
    "it: it fetches all metadata from the leader. This also discards the node's vote.",
    check=43,
)
METADATA_SNAPSHOT_BEYOND_END: Final = FindingCode(
    "metadata-snapshot-beyond-end",
    Severity.WARNING,
    "The newest metadata snapshot ends after the end of the metadata log, as when a follower died "
    "after it fetched a snapshot.",
    "The node deletes its metadata log and begins a new log at the end of the snapshot.",
    "Nothing to do: the snapshot holds all that the deleted log held.",
    check=36,
)
