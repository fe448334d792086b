"""Finding codes of a partition's small files and of directory names.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REPLICA_FIRST, Cure, FindingCode, Harm, Outcome, Severity

PARTITION_METADATA_MALFORMED: Final = FindingCode(
    "partition-metadata-malformed",
    Severity.ERROR,
    "A partition.metadata does not follow its format, or holds the zero UUID.",
    "The broker takes the whole log directory offline, and stops if it has no other log directory.",
    "While the broker is stopped, kdump reindex writes the file with the id from the metadata "
    "log. Without that log, write two lines, version: 0 and topic_id: ID. kafka-topics.sh "
    "--describe shows the ID. In __cluster_metadata-0, delete the file: the node writes it again.",
    check=24,
    stops=Outcome.OFFLINE,
    cure=Cure.TOPIC_ID,
)
PARTITION_METADATA_FATAL: Final = FindingCode(
    "partition-metadata-fatal",
    Severity.ERROR,
    "A partition.metadata is empty, lacks its second line, or has a topic id that is not a UUID.",
    "The broker does not start.",
    "While the broker is stopped, kdump reindex writes the file with the id from the metadata "
    "log. Without that log, write two lines, version: 0 and topic_id: ID. kafka-topics.sh "
    "--describe shows the ID. In __cluster_metadata-0, delete the file: the node writes it again.",
    check=24,
    stops=Outcome.REFUSES,
    cure=Cure.TOPIC_ID,
)
FILE_IS_DIRECTORY: Final = FindingCode(
    "file-is-directory",
    Severity.ERROR,
    "A directory in a partition has the name of one of the broker's files, or "
    "leader-epoch-checkpoint is a symbolic link to nothing.",
    "The broker cannot open it and takes the whole log directory offline. It stops if it has no "
    "other log directory, or if this is the metadata log.",
    "Move the directory or the link away. The broker rebuilds an index, and kdump reindex writes "
    "leader-epoch-checkpoint and partition.metadata.",
    check=28,
    stops=Outcome.OFFLINE,
)
SNAPSHOT_IS_DIRECTORY: Final = FindingCode(
    "snapshot-is-directory",
    Severity.ERROR,
    "A directory in a partition has the name of a producer snapshot.",
    "Startup fails where it writes a snapshot at this offset, and the broker takes the log "
    "directory offline. After an unclean shutdown, brokers from 4.0 on first truncate the segment "
    "that they recover to nothing, and delete the segments after it.",
    "Move the directory away before the broker starts.",
    check=28,
    harm=Harm.UNSERVED,
)
INDEX_IS_DIRECTORY: Final = FindingCode(
    "index-is-directory",
    Severity.ERROR,
    "A directory in a partition has the name of an offset index or a time index.",
    "Startup opens the indexes of the last segment and of segments that it recovers or replays: "
    "the broker then takes the whole log directory offline. It opens other indexes when a consumer "
    "reads the segment, or retention checks it, with the same result.",
    "Move the directory away. The broker rebuilds the index at its next start.",
    check=28,
    harm=Harm.UNSERVED,
)
TOPIC_ID_MISSING: Final = FindingCode(
    "topic-id-missing",
    Severity.ERROR,
    "A partition of a KRaft node holds records but has no partition.metadata.",
    "The broker renames the directory to -stray and creates an empty replica. Records that no "
    "other replica has are no longer served.",
    "Before a broker starts, kdump reindex writes the file with the id from the metadata log. "
    "Without that log, write two lines, version: 0 and topic_id: ID. kafka-topics.sh --describe "
    "shows the ID.",
    check=24,
    cure=Cure.TOPIC_ID,
)
TOPIC_ID_MISSING_EMPTY: Final = FindingCode(
    "topic-id-missing-empty",
    Severity.INFO,
    "An empty partition has no partition.metadata: the broker stopped just after it created the "
    "partition.",
    "The broker renames the directory to -stray and creates the partition again.",
    "Nothing to do.",
    check=24,
)
PARTITION_STRAY: Final = FindingCode(
    "partition-stray",
    Severity.WARNING,
    "According to the node's own metadata log, this node is not, or is no longer, a replica of "
    "this partition.",
    "The broker renames the directory to -stray and no longer serves it. It does not delete the "
    "directory.",
    "If the topic was deleted or moved while the broker was down, nothing is wrong. If this "
    "directory is from another cluster or a backup, decide whether it belongs here before a broker "
    "starts.",
    check=24,
)
PARTITION_STRAY_CUT: Final = FindingCode(
    "partition-stray-cut",
    Severity.ERROR,
    "The node's metadata log, or its newest snapshot, is damaged, and the records about this "
    "partition are at or after the damage.",
    "At its start, the node truncates its metadata log at the damage. If another controller "
    "leads, the node fetches the missing records from it, but not those of a snapshot. Otherwise "
    "the node does not know the topic: it renames the directory to -stray and no longer serves it.",
    "If there is another controller, start it first. If this is the only controller, copy the "
    "whole log directory before a broker starts on it. Then restore the metadata log from a copy.",
    check=24,
)
TOPIC_ID_MISMATCH: Final = FindingCode(
    "topic-id-mismatch",
    Severity.ERROR,
    "The topic id in a partition.metadata belongs to a different topic than the directory's name.",
    "The broker stops opening its replicas when it reaches this partition: many other partitions "
    "are not served either.",
    "If only partition.metadata was copied here, write it with the id of the topic. If the whole "
    "directory was copied here, move it out of the log directory.",
    check=24,
    harm=Harm.UNSERVED,
)
SEGMENT_BYTES_SMALL: Final = FindingCode(
    "segment-bytes-small",
    Severity.INFO,
    "The topic's segment.bytes is below 1 MiB, which brokers up to 4.0 accept.",
    "Brokers up to 4.0 start. Brokers from 4.1 on do not start.",
    "Raise segment.bytes before you upgrade beyond 4.0.",
)
SETTING_REFUSED: Final = FindingCode(
    "setting-refused",
    Severity.ERROR,
    "A topic of the cluster, or server.properties, has a setting that the release does not accept "
    "with which this node last registered: brokers from 4.1 on refuse a segment.bytes below 1 MiB "
    "and a metadata.log.segment.bytes below 8 MiB, brokers from 4.0 on a log.segment.bytes below 1 "
    "MiB, and brokers from 4.3 on an empty path in log.dirs, as after a comma at its end.",
    "The broker does not start, whether it has a replica of the topic or not.",
    "Correct server.properties. For segment.bytes, start the release from before the upgrade, "
    "raise segment.bytes of the topic with kafka-configs.sh, and upgrade then.",
    stops=Outcome.REFUSES,
)
FILE_NAME_REFUSED: Final = FindingCode(
    "file-name-refused",
    Severity.ERROR,
    "A file in a partition has the extension of a segment file or metadata snapshot, but its name "
    "does not begin with a 64-bit number.",
    "The broker does not start.",
    "Move the file away.",
    check=29,
    stops=Outcome.REFUSES,
)
FILE_NAME_UNPADDED: Final = FindingCode(
    "file-name-unpadded",
    Severity.ERROR,
    "The number in the name of a segment file does not have 20 digits.",
    "The broker ignores the content of the file and creates an empty segment at that number. "
    "Consumers skip the records from that offset to the next segment, or the log ends there.",
    "Move the file away. If it belongs to the log, rename it so that its number has 20 digits.",
    check=29,
)
LOG_TOO_LARGE: Final = FindingCode(
    "log-too-large",
    Severity.ERROR,
    "A segment is larger than 2147483647 bytes.",
    "The broker does not start.",
    REPLICA_FIRST,
    check=30,
    stops=Outcome.REFUSES,
)
EPOCHS_MALFORMED: Final = FindingCode(
    "epochs-malformed",
    Severity.ERROR,
    "A leader-epoch-checkpoint does not follow its format: a version line, a count line, then "
    "lines of two fields.",
    "The broker takes the whole log directory offline, and stops if it has no other log directory.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches.",
    check=22,
    stops=Outcome.OFFLINE,
    cure=Cure.EPOCHS,
)
EPOCHS_NUMBER: Final = FindingCode(
    "epochs-number",
    Severity.ERROR,
    "An epoch or offset in leader-epoch-checkpoint is not a number, or is negative.",
    "The broker does not start.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches.",
    check=22,
    stops=Outcome.REFUSES,
    cure=Cure.EPOCHS,
)
EPOCHS_ORDER: Final = FindingCode(
    "epochs-order",
    Severity.WARNING,
    "The epochs or offsets of leader-epoch-checkpoint do not rise.",
    "The broker drops the earlier lines that contradict a later line.",
    "Nothing is lost here. When a follower next compares epochs, it may truncate more of its log "
    "than necessary.",
    check=22,
)
EPOCHS_BEYOND_END: Final = FindingCode(
    "epochs-beyond-end",
    Severity.WARNING,
    "A leader-epoch-checkpoint has an epoch that starts after the log end offset.",
    "The broker drops the line.",
    "The end of the log may be lost, as after a power failure. If another replica is in sync, "
    "start its broker first.",
    check=22,
)
LOG_START_BEYOND_END: Final = FindingCode(
    "log-start-beyond-end",
    Severity.ERROR,
    "The checkpointed log start offset lies after the log end offset. Segments are missing, or the "
    "directory is from a backup.",
    "The broker DELETES ALL SEGMENTS of the partition and begins an empty segment at the "
    "checkpointed offset. It does so after a clean stop too.",
    "Do not start a broker on this directory. If another replica is in sync, move this partition "
    "directory out of the log directory: the broker then fetches the whole partition from the "
    "leader. If a backup has the missing segments, put them back. Otherwise kdump reindex removes "
    "the line, and the log starts at its first segment.",
    check=25,
    cure=Cure.REINDEX,
)
RECOVERY_POINT_BEYOND_END: Final = FindingCode(
    "recovery-point-beyond-end",
    Severity.ERROR,
    "Records below the recovery point were on the disk, but the log ends before it.",
    "The broker lowers the recovery point. After an unclean stop it recovers only the last "
    "segment.",
    "The end of the log is lost, as after a backup was restored or a segment was deleted by hand. "
    "If another replica is in sync, start its broker first.",
    check=26,
    loses=True,
)
HIGH_WATERMARK_BEYOND_END: Final = FindingCode(
    "high-watermark-beyond-end",
    Severity.ERROR,
    "Records below the high watermark were on all in-sync replicas, but the log ends before it.",
    "The broker lowers the high watermark to the log end offset.",
    "The end of the log is lost here, as after a power failure. If another replica is in sync, "
    "start its broker first.",
    check=26,
    loses=True,
)
HIGH_WATERMARK_BELOW_START: Final = FindingCode(
    "high-watermark-below-start",
    Severity.INFO,
    "The checkpointed high watermark is below the log start offset.",
    "The broker raises it to the log start offset.",
    "Nothing to do.",
    check=26,
)
CLEANER_OFFSET_BEYOND_END: Final = FindingCode(
    "cleaner-offset-beyond-end",
    Severity.WARNING,
    "The cleaner's checkpoint lies after the log end offset.",
    "The broker cleans the partition again from its start.",
    "The end of the log may be lost. Check whether other checkpoints show the same.",
    check=27,
)
CLEANER_OFFSET_BELOW_START: Final = FindingCode(
    "cleaner-offset-below-start",
    Severity.INFO,
    "The cleaner's checkpoint lies before the log start offset, as after retention or "
    "DeleteRecords.",
    "The cleaner begins at the log start offset.",
    "Nothing to do.",
    check=27,
)
LEFTOVER_DELETED: Final = FindingCode(
    "leftover-deleted",
    Severity.INFO,
    "Files of deleted segments are left, because a broker had no time to remove them.",
    "The broker removes them at its start.",
    "To free space, delete the files. To preserve their data, copy them before a broker starts.",
    check=28,
)
LEFTOVER_CLEANED: Final = FindingCode(
    "leftover-cleaned",
    Severity.INFO,
    "Files of an unfinished cleaning, or of an unfinished split of a segment, are left. The "
    "original segments are there.",
    "The broker removes them at its start.",
    "Nothing to do. To free space, you can delete the files, but not while the same log has a "
    ".swap file: the .cleaned files show the broker that a split is unfinished. Without them, the "
    "broker completes the swap although other parts of the split are missing (KAFKA-6264).",
    check=28,
)
LEFTOVER_TEMPORARY: Final = FindingCode(
    "leftover-temporary",
    Severity.INFO,
    "A broker died while it wrote this file. The file that it was to replace is whole.",
    "The broker ignores the file, or removes it at its start.",
    "Nothing to do.",
    check=28,
)
SWAP_DISCARDED: Final = FindingCode(
    "swap-discarded",
    Severity.INFO,
    "The offset of a .swap file is at or above the offset of a .cleaned file: the split of a "
    "segment is unfinished.",
    "The broker removes both at its start and uses the original segment.",
    "Nothing to do.",
    check=28,
)
SWAP_PENDING: Final = FindingCode(
    "swap-pending",
    Severity.INFO,
    "A cleaned or split segment was about to replace other segments when the broker died.",
    "The broker completes this at its start: it deletes the replaced files and renames the .swap "
    "files.",
    "Nothing to do.",
    check=28,
)
SWAP_DELETES: Final = FindingCode(
    "swap-deletes",
    Severity.ERROR,
    "A .swap file will replace segments, and holds fewer records than they do. The topic was never "
    "compacted, or its settings are unknown and nothing shows compaction.",
    "At its start, the broker deletes those segments and renames the .swap file, after a clean "
    "stop too.",
    "Before a broker starts, move all .swap files whose names begin with the number of this file "
    "out of the partition.",
    check=28,
)
SWAP_SHORTENED: Final = FindingCode(
    "swap-shortened",
    Severity.WARNING,
    "A .swap file will replace segments, and holds fewer records than they do. kdump cannot "
    "determine whether compaction removed the other records. The topic's settings are unknown, or "
    "batches appear cleaned although the topic is not compacted.",
    "At its start, the broker deletes those segments and renames the .swap file, after a clean "
    "stop too.",
    "Verify the partition in its log directory, where the metadata log has the topic's settings. "
    "If the topic was never compacted, move all .swap files whose names begin with the number of "
    "this file out of the partition before a broker starts.",
    check=28,
    harm=Harm.SHORTENED,
)
SWAP_OVERLAPS: Final = FindingCode(
    "swap-overlaps",
    Severity.ERROR,
    "A .swap file begins inside the offsets of a segment that it will not replace.",
    "The broker renames the .swap file at its start: the log then has those offsets twice.",
    "Before a broker starts, move all .swap files whose names begin with the number of this file "
    "out of the partition.",
    check=28,
)
SNAPSHOT_UNREADABLE: Final = FindingCode(
    "snapshot-unreadable",
    Severity.WARNING,
    "A producer snapshot does not match its checksum or its format.",
    "The broker deletes the snapshot, loads the next older snapshot, and reads all batches after "
    "it.",
    "Nothing is lost. The start takes longer, unless kdump reindex rewrites the snapshot first.",
    check=19,
    cure=Cure.REINDEX,
)
SNAPSHOT_STRAY: Final = FindingCode(
    "snapshot-stray",
    Severity.INFO,
    "A producer snapshot is not at the base offset of a segment, and is not the snapshot of the "
    "log end.",
    "The broker removes it at its start (since 2.8).",
    "Nothing to do.",
    check=21,
)
