"""What a node logs of its metadata log, snapshots, quorum-state and bootstrap.checkpoint.

Spec: KafkaMetadataLog, KafkaRaftClient, QuorumState, the snapshot reader, MetadataLoader,
SharedServer and BootstrapDirectory of 3.9 to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.message import Kind, Message

_FIRST: Final = (
    "Read the cause in the trace below the line, or the line before. kdump next-start lists every "
    "reason at once."
)
_VOTERS: Final = (
    "If the other voters are sound, this node can fetch all from them: move its metadata "
    "directory away. If it is the only voter, repair the file."
)

ROWS: Final = (
    Message(
        "Error while reading the Quorum status from the file {path}",
        Kind.DISK,
        "The file quorum-state does not follow its format. The node did not start.",
        "Delete it only where the other voters are up: alone the node forgets for whom it voted.",
        (codes.QUORUM_STATE_MALFORMED,),
    ),
    Message(
        "Error while writing the Quorum status from the file {path}",
        Kind.DISK,
        "The file quorum-state could not be written. The node exited.",
        "Look at the free space and the system's log, then start the node.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Epoch from quorum store file ({path}) is {}, which is smaller than last written epoch {}",
        Kind.DISK,
        "quorum-state is older than the metadata log, as after a restored file. The log's epoch "
        "was used.",
        "Find out where the file is from.",
        (codes.QUORUM_STATE_MALFORMED,),
    ),
    Message(
        "Inconsistent snapshot state: there must be a snapshot at an offset larger then the",
        Kind.DISK,
        "The metadata log does not begin at 0, and its snapshot was gone. The node did not start.",
        _VOTERS,
        (codes.METADATA_SNAPSHOT_MISSING,),
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A metadata snapshot is damaged. The node did not start, or stopped reading it.",
            _VOTERS,
            (codes.METADATA_SNAPSHOT_DAMAGED,),
        )
        for pattern in (
            "First control record is not a snapshot header",
            "First batch is not a control batch with at least one record",
            "Error while loading snapshot {}",
            "Record batch is corrupt",
        )
    ),
    Message(
        "Couldn't read {}; expected to find snapshot file {path}",
        Kind.DISK,
        "A metadata snapshot was gone although the log names it.",
        _VOTERS,
        (codes.METADATA_SNAPSHOT_MISSING,),
    ),
    Message(
        "Unable to Opens a snapshot file {path}",
        Kind.DISK,
        "A metadata snapshot could not be opened.",
        "Correct its owner and rights.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A metadata snapshot could not be written or removed.",
            "Look at the free space and the system's log. The next snapshot is written by itself.",
            (codes.UNREADABLE,),
        )
        for pattern in (
            "Error deleting snapshot files {path} and {}",
            "Error renaming snapshot file from {path} to {}",
            "Error creating temporary file, logDir = {path}, snapshotId = {}",
            "Error writing file snapshot, temp path = {path}, snapshotId = {}",
            "Error freezing file snapshot, temp path = {path}, snapshotId = {}",
            "Error creating snapshot writer. path = {path}, snapshotId {}",
            "Error calculating snapshot size. temp path = {path}, snapshotId = {}",
        )
    ),
    Message(
        "Log doesn't have a last fetch epoch and there is a snapshot ({}). Expected",
        Kind.DISK,
        "The metadata log and its snapshot do not fit. The node did not start.",
        _VOTERS,
        (codes.METADATA_SNAPSHOT_BEYOND_END,),
    ),
    Message(
        "Attempt to truncate to offset {offset}, which is below the current high watermark",
        Kind.DISK,
        "The quorum's leader lacks records that were committed. The node exited.",
        "Do not delete this directory: it may hold what the leader lost.",
        (codes.HIGH_WATERMARK_BEYOND_END,),
    ),
    Message(
        "Log's high watermark ({}) is different from the local replica's high watermark",
        Kind.NOTE,
        "Two counts of the metadata log's high watermark differed for a moment.",
        "Nothing to do.",
    ),
    Message(
        "was found in the bootstrap metadata from the binary bootstrap metadata file: {path}",
        Kind.DISK,
        "bootstrap.checkpoint is damaged. The node did not start.",
        "Copy the file from a controller of the same cluster, or from a backup.",
        (codes.BOOTSTRAP_MALFORMED,),
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "Records of the metadata log or of a snapshot could not be applied: they are damaged, "
            "or of a later release.",
            _VOTERS,
            (codes.METADATA_SNAPSHOT_DAMAGED, codes.RECORDS_UNREADABLE),
            outer=True,
        )
        for pattern in (
            "Error loading metadata log record from offset {offset}",
            "Error loading metadata log record {} in snapshot",
            "Unhandled fault in MetadataLoader#handleCommit",
            "Unhandled fault in MetadataLoader#handleLoadSnapshot",
            "Unexpected error in raft IO thread",
            "Had an error during log cleaning",
        )
    ),
    *(
        Message(
            pattern,
            Kind.CONSEQUENCE,
            "The node did not start.",
            _FIRST,
            (codes.METADATA_SNAPSHOT_DAMAGED,),
            outer=True,
        )
        for pattern in (
            "Got exception while starting SharedServer",
            "Encountered fatal fault: caught exception",
        )
    ),
    *(
        Message(
            pattern,
            Kind.CONSEQUENCE,
            "The node, or a part of it, did not start or exited.",
            _FIRST,
            outer=True,
        )
        for pattern in (
            "Encountered fatal fault: ",
            "Encountered metadata loading fault: ",
            "Encountered metadata publishing fault: ",
            "Exiting Kafka due to fatal exception",
            "Fatal error during broker startup. Prepare to shutdown",
            "Fatal error during KafkaServer startup. Prepare to shutdown",
            "Unable to install metadata publishers",
            "Fatal error during broker shutdown.",
            "Fatal error during controller shutdown.",
            "Halting Kafka.",
        )
    ),
    Message(
        "Directories [{}] in broker {} marked offline, remaining directories",
        Kind.CONSEQUENCE,
        "A broker had reported a log directory as offline.",
        "Read that broker's own log: it names the directory and the cause.",
    ),
)
